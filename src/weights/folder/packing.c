/* SPDX-License-Identifier: MIT
 *
 * What config.json says of layers that others have quantized: which packing it is.  Whatever would make them compute
 * something else than the product with the packed weights (rounded activations, rotations, other layouts) is refused.
 *
 * Writers name much that means nothing: null, {}, sparsity of the format `dense`, activations of 16 or 32 bits.
 * Sources: compressed-tensors (quant_config.py, quant_scheme.py), AutoRound (export_to_autoround,
 * inference/backend.py), transformers (integrations/bitnet.py).
 */
#include "weights/folder/folder_impl.h"

#include <stdio.h>
#include <string.h>

static int refuse(const struct folder *f, const char *what, const char *name, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/config.json: weights quantized by %s '%s' are not implemented",
        f->label, what, show_name(name ? name : "?").s);
}

static bool says(const char *s, const char *word)
{
    return s && strcmp(s, word) == 0;
}

static bool is_one_of(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (says(s, *words)) return true;
    return false;
}

/* Not null and not empty. */
static bool has(const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);
    return v && !json_is_null(v) && !(json_is_object(v) && json_object_size(v) == 0);
}

static const char *text_of(const json_t *in, const char *key)
{
    return json_string_value(json_object_get(in, key));
}

/* ---- compressed-tensors ---- */

static int read_group(const struct folder *f, const json_t *group, const char *name, struct lutra_error *err)
{
    const char *type = text_of(json_object_get(group, "weights"), "type");
    if (has(group, "input_activations")) return refuse(f, "compressed-tensors with activations of", name, err);
    if (has(group, "output_activations")) return refuse(f, "compressed-tensors with output_activations of", name, err);
    if (has(group, "format") && !says(text_of(group, "format"), "pack-quantized"))
        return refuse(f, "compressed-tensors with a group in the format", text_of(group, "format"), err);
    return says(type, "int") ? 0 : refuse(f, "compressed-tensors with weights of type", type, err);
}

/* Rotations of weights and activations; no groups: none. */
static bool has_transforms(const json_t *q)
{
    const json_t *t = json_object_get(q, "transform_config");
    bool is_empty = json_object_size(t) == 1 && json_object_get(t, "config_groups") && !has(t, "config_groups");
    return has(q, "transform_config") && !is_empty;
}

static int read_compressed(struct folder *f, const json_t *q, struct lutra_error *err)
{
    const char *name, *format = text_of(q, "format"),
                      *sparse = text_of(json_object_get(q, "sparsity_config"), "format");
    json_t *group;
    if (!says(format, "pack-quantized")) return refuse(f, "compressed-tensors in the format", format, err);
    if (has_transforms(q)) return refuse(f, "compressed-tensors with", "transform_config", err);
    if (has(q, "sparsity_config") && !says(sparse, "dense"))
        return refuse(f, "compressed-tensors with sparsity_config of the format", sparse, err);
    json_object_foreach(json_object_get(q, "config_groups"), name, group) TRY(read_group(f, group, name, err));
    f->packing = PACKING_CT;
    return 0;
}

/* ---- BitNet ---- */

static int read_bitnet(struct folder *f, const json_t *q, struct lutra_error *err)
{
    const char *class = text_of(q, "linear_class"), *mode = text_of(q, "quantization_mode");
    if (class && !says(class, "bitlinear") && !says(class, "autobitlinear"))
        return refuse(f, "bitnet with linear_class", class, err);
    if (mode && !says(mode, "offline")) return refuse(f, "bitnet with quantization_mode", mode, err);
    if (json_is_true(json_object_get(q, "use_rms_norm"))) return refuse(f, "bitnet with", "use_rms_norm", err);
    f->packing = PACKING_BITNET;
    return 0;
}

/* ---- GPTQ, AWQ, AutoRound ---- */

/* AutoRound's keys, which it writes into folders of GPTQ and AWQ, too, of all layers or of one (extra_config).  A layer
 * that is left as it was has weights of 16 bits, of any type. */
static int check_types(const struct folder *f, const char *method, const json_t *q, struct lutra_error *err)
{
    static const char *const ints[] = {"int", "int_sym", "int_asym", NULL};
    const json_t *bits = json_object_get(q, "bits"), *acts = json_object_get(q, "act_bits");
    char what[48], number[24];
    if (json_is_integer(acts) && json_integer_value(acts) < 16) {
        snprintf(what, sizeof what, "%.24s with act_bits", method);
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(acts));
        return refuse(f, what, number, err);
    }
    if ((json_is_integer(bits) && json_integer_value(bits) >= 16) || !has(q, "data_type")) return 0;
    snprintf(what, sizeof what, "%.24s with data_type", method);
    return is_one_of(text_of(q, "data_type"), ints) ? 0 : refuse(f, what, text_of(q, "data_type"), err);
}

static int read_packing_format(struct folder *f, const char *packing, struct lutra_error *err)
{
    f->packing = packing && strstr(packing, "awq") ? PACKING_AWQ : PACKING_GPTQ;
    if (!packing || says(packing, "auto_round") || strstr(packing, "awq") || strstr(packing, "gptq")) return 0;
    if (strstr(packing, "exllamav2") || strstr(packing, "triton")) return 0; /* GPTQ's layout, by kernels' names */
    return refuse(f, "AutoRound with packing_format", packing, err);
}

int folder_read_packing(struct folder *f, struct lutra_error *err)
{
    static const char *const gptq[] = {"gptq", "auto-round", "intel/auto-round", NULL};
    const json_t *q = config_get(f, "quantization_config");
    const char *method = text_of(q, "quant_method"), *version = text_of(q, "version"),
               *layout = text_of(q, "checkpoint_format"), *name;
    json_t *of;
    if (!q) return 0;
    if (has(q, "lutra_zeros") && !is_one_of(text_of(q, "lutra_zeros"), (const char *const[]){"v1", "v2", NULL}))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: 'lutra_zeros' is neither \"v1\" nor \"v2\"", f->label);
    if (says(method, "mxfp4") && f->family->flags & FAMILY_GPT_OSS) return 0; /* its experts: experts.c */
    if (says(method, "bitnet")) return read_bitnet(f, q, err);
    if (says(method, "compressed-tensors")) return read_compressed(f, q, err);
    if (!says(method, "awq") && !is_one_of(method, gptq)) return refuse(f, "method", method, err);
    TRY(check_types(f, method, q, err));
    json_object_foreach(json_object_get(q, "extra_config"), name, of) TRY(check_types(f, method, of, err));
    if (says(method, "awq")) {
        if (version && strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
            return refuse(f, "AWQ of version", version, err);
        f->packing = PACKING_AWQ;
        return 0;
    }
    if (layout && !says(layout, "gptq") && !says(layout, "gptq_v2")) /* marlin, bitblas: for kernels of theirs */
        return refuse(f, "GPTQ with checkpoint_format", layout, err);
    return read_packing_format(f, text_of(q, "packing_format"), err);
}

bool folder_says_v2(const struct folder *f)
{
    return says(text_of(config_get(f, "quantization_config"), "checkpoint_format"), "gptq_v2");
}

/* What the caller asks for, else what Lutra wrote into a folder of its own, insists; others' does not. */
int folder_zeros_label(const struct folder *f, bool *insists)
{
    const json_t *q = config_get(f, "quantization_config");
    const char *own = text_of(q, "lutra_zeros");
    *insists = true;
    if (f->how.zeros == WEIGHTS_ZEROS_V1 || f->how.zeros == WEIGHTS_ZEROS_V2)
        return f->how.zeros == WEIGHTS_ZEROS_V1 ? 1 : 2;
    if (own) return own[1] - '0';
    *insists = false;
    return !q ? 0 : says(text_of(q, "checkpoint_format"), "gptq_v2") ? 2 : 1;
}
