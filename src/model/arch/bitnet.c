/* SPDX-License-Identifier: MIT
 *
 * BitNet b1.58: Llama's block with norms before the last matrix of each sub-layer, weights of three values and a head
 * that is the embedding.  1bitLLM's models (`bitnet`) have SiLU; Microsoft's 2B-4T a squared ReLU, whatever name its
 * file has: the first one `bitnet-25`, the published one `bitnet-b1.58`, later converters `bitnet` and a key that says
 * so.  Some of these left the key out, and llama.cpp then takes SiLU; here the grouped heads tell, which 1bitLLM's
 * models have not.
 *
 * The squares may exceed what 16 bits hold: all values between operations are f32.  What goes into a layer's matrices
 * was rounded in training to 8 bits with one scale per row: so it is here where their type is a ternary one
 * (docs/NUMERICS.md).
 */
#include "model/model_impl.h"

#include <string.h>

#define ACTIVATION "hidden_activation"

static int read(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    bool grouped = r->hp->n_kv_head < r->hp->n_head;
    struct gguf_str act = {"", 0};
    TRY(weights_opt_str(r->w, model_key(name, r, ACTIVATION), &act, err));
    if (act.n == 0) {
        if (grouped) r->hp->gate = OP_RELU2;
        return 0;
    }
    if (act.n == 5 && memcmp(act.s, "relu2", 5) == 0)
        r->hp->gate = OP_RELU2;
    else if (act.n == 4 && memcmp(act.s, "silu", 4) == 0)
        r->hp->gate = OP_SWIGLU;
    else
        return model_lack(r->to, err, "%s: key '%s' is '%.*s': only 'relu2' and 'silu' are implemented",
            weights_path(r->w), name, (int)(act.n < 32 ? act.n : 32), act.s);
    return 0;
}

#define BITNET(arch_name, arch_gate)                                                                                   \
    {                                                                                                                  \
        .name = (arch_name), .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = (arch_gate), .sub_norms = true,          \
        .i8row = true, .read = read                                                                                    \
    }

const struct arch model_bitnet = BITNET("bitnet", OP_SWIGLU);
const struct arch model_bitnet_25 = BITNET("bitnet-25", OP_RELU2);
const struct arch model_bitnet_b158 = BITNET("bitnet-b1.58", OP_RELU2);
