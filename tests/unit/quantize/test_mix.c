/* SPDX-License-Identifier: MIT
 *
 * Which tensor gets which type, against what `llama-quantize --dry-run` (Debian's llama.cpp 0.7.0) said of the same
 * files; of IQ2 and IQ3, against its rules read by hand (llama.cpp 007dbbf, src/llama-quant.cpp).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/weights/build.h"
#include "make/make.h"
#include "quantize/mix.h"

static struct lutra_error err;

/* Types as characters: of Q2_K 2, ..., Q6_K 6; small letters are block types. */
static const struct {
    enum quant_type type;
    char letter;
} letters[] = {{QUANT_Q2_K, '2'}, {QUANT_Q3_K, '3'}, {QUANT_Q4_K, '4'}, {QUANT_Q5_K, '5'}, {QUANT_Q6_K, '6'},
    {QUANT_Q8_0, '8'}, {QUANT_Q4_0, 'a'}, {QUANT_Q5_0, 'c'}, {QUANT_Q5_1, 'd'}, {QUANT_IQ4_XS, 'x'}, {QUANT_IQ2_S, 's'},
    {QUANT_IQ2_XS, 'w'}, {QUANT_IQ2_XXS, 'v'}, {QUANT_IQ3_XXS, 'r'}, {QUANT_IQ3_S, 'q'}, {QUANT_IQ4_NL, 'n'},
    {QUANT_TQ1_0, 't'}, {QUANT_F16, 'h'}};

static char letter_of(enum quant_type type)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].type == type) return letters[i].letter;
    return '?';
}

static struct weights *make(const char *shape, uint32_t n_layer)
{
    struct weights *w;
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = QUANT_F16;
    s.n_layer = n_layer;
    if (weights_make_model(in_folder("in.gguf"), &s, &err) < 0) fail_msg("%s", err.what);
    if (weights_open(&w, in_folder("in.gguf"), &err) < 0) fail_msg("%s", err.what);
    return w;
}

/* token_embd, output; then of each layer v (or qkv), k, output, down, up, a word each. */
static void spell(const struct weights *w, const struct weights_quantize_settings *s, char *out)
{
    static const char *const parts[] = {"attn_v", "attn_qkv", "attn_k", "attn_output", "ffn_down", "ffn_up"};
    struct weights_choice *choice = calloc(weights_tensor_count(w), sizeof *choice);
    if (weights_mix_choose(w, s, choice, &err) < 0) fail_msg("%s", err.what);
    char head[3] = "  ";
    size_t n = 0;
    for (size_t p = 0; p < 6; p++) {
        size_t before = n;
        for (size_t i = 0; i < weights_tensor_count(w); i++) {
            const char *name = weights_tensor_at(w, i)->name, *dot = strchr(name, '.');
            if (strcmp(name, "token_embd.weight") == 0) head[0] = letter_of(choice[i].type);
            if (strcmp(name, "output.weight") == 0) head[1] = letter_of(choice[i].type);
            dot = dot ? strchr(dot + 1, '.') : NULL;
            size_t m = strlen(parts[p]);
            if (dot && strncmp(dot + 1, parts[p], m) == 0 && strcmp(dot + 1 + m, ".weight") == 0)
                out[n++] = letter_of(choice[i].type);
        }
        if (n > before) out[n++] = ' ';
    }
    out[n] = 0;
    memmove(out + 3, out, n + 1);
    memcpy(out, head, 2);
    out[2] = ' ';
    free(choice);
}

static const struct {
    const char *shape;
    uint32_t n_layer;
    const char *mix, *types;
} plans[] = {
    {"tiny-llama", 16, "Q2_K",
        "26 3333333333333333 2222222222222222 3333333333333333 3333333333333333 2222222222222222 "},
    {"tiny-llama", 16, "Q2_K_S",
        "26 2222222222222222 2222222222222222 2222222222222222 4422222222222222 2222222222222222 "},
    {"tiny-llama", 16, "Q3_K_S",
        "36 3333333333333333 3333333333333333 3333333333333333 3333333333333333 3333333333333333 "},
    {"tiny-llama", 16, "Q3_K_M",
        "36 5544444444444444 3333333333333333 4444444444444444 5444444444444444 3333333333333333 "},
    {"tiny-llama", 16, "Q3_K_L",
        "36 5555555555555555 3333333333333333 5555555555555555 5555555555555555 3333333333333333 "},
    {"tiny-llama", 16, "Q4_K_S",
        "46 5555444444444444 4444444444444444 4444444444444444 5544444444444444 4444444444444444 "},
    {"tiny-llama", 16, "Q4_K_M",
        "46 6644644644644666 4444444444444444 4444444444444444 6644644644644666 4444444444444444 "},
    {"tiny-llama", 16, "Q5_K_S",
        "56 5555555555555555 5555555555555555 5555555555555555 5555555555555555 5555555555555555 "},
    {"tiny-llama", 16, "Q5_K_M",
        "56 6655655655655666 5555555555555555 5555555555555555 6655655655655666 5555555555555555 "},
    {"tiny-llama", 16, "Q6_K",
        "66 6666666666666666 6666666666666666 6666666666666666 6666666666666666 6666666666666666 "},
    {"tiny-llama", 16, "IQ4_NL",
        "n6 nnnnnnnnnnnnnnnn nnnnnnnnnnnnnnnn nnnnnnnnnnnnnnnn 55nnnnnnnnnnnnnn nnnnnnnnnnnnnnnn "},
    {"tiny-llama", 16, "IQ4_XS",
        "x6 xxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxx 55xxxxxxxxxxxxxx xxxxxxxxxxxxxxxx "},
    {"tiny-llama", 16, "Q4_0",
        "a6 aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa "},
    {"tiny-llama", 16, "TQ1_0",
        "46 tttttttttttttttt tttttttttttttttt tttttttttttttttt tttttttttttttttt tttttttttttttttt "},
    {"tiny-llama", 16, "IQ2_XXS",
        "25 2222222222222222 vvvvvvvvvvvvvvvv vvvvvvvvvvvvvvvv 22vvvvvvvvvvvvvv vvvvvvvvvvvvvvvv "},
    {"tiny-llama", 16, "IQ2_XS",
        "25 2222222222222222 wwwwwwwwwwwwwwww wwwwwwwwwwwwwwww 22wwwwwwwwwwwwww wwwwwwwwwwwwwwww "},
    {"tiny-llama", 16, "IQ2_S",
        "q5 qqqqqqqqqqqqqqqq wwwwwwwwwwwwwwww qqqqqqqqqqqqqqqq qqwwwwwwwwwwwwww wwwwwwwwwwwwwwww "},
    {"tiny-llama", 16, "IQ3_XS",
        "q6 qqqqqqqqqqqqqqqq rrrrrrrrrrrrrrrr qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqrrrrrrrrrrrrqq "},
    {"tiny-llama", 16, "IQ2_M",
        "q5 qqqqqqqqqqqqqqqq ssssssssssssssss qqqqqqqqqqqqqqqq qqssssssssssssss ssssssssssssssss "},
    {"tiny-llama", 16, "IQ3_XXS",
        "q5 qqqqqqqqqqqqqqqq ssssssssssssssss qqqqqqqqqqqqqqqq 4433333333333333 rrrrrrrrrrrrrrrr "},
    {"tiny-llama", 16, "IQ3_S",
        "q6 qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq "},
    {"tiny-llama", 16, "IQ3_M",
        "q6 4444444444444444 qqqqqqqqqqqqqqqq 4444444444444444 44qqqqqqqqqqqqqq qqqqqqqqqqqqqqqq "},
    {"tiny-gemma3", 16, "Q2_K",
        "6  4444444444444444 2222222222222222 3333333333333333 3333333333333333 2222222222222222 "},
    {"tiny-gemma3", 16, "Q2_K_S",
        "6  4444444444444444 2222222222222222 2222222222222222 4422222222222222 2222222222222222 "},
    {"tiny-gemma3", 16, "IQ4_XS",
        "6  5555555555555555 xxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxx 55xxxxxxxxxxxxxx xxxxxxxxxxxxxxxx "},
    {"tiny-gemma3", 16, "IQ2_XS",
        "5  4444444444444444 wwwwwwwwwwwwwwww wwwwwwwwwwwwwwww 22wwwwwwwwwwwwww wwwwwwwwwwwwwwww "},
    {"tiny-gemma3", 16, "IQ3_XS",
        "6  4444444444444444 rrrrrrrrrrrrrrrr qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqrrrrrrrrrrrrqq "},
    {"tiny-gemma3", 16, "IQ2_M",
        "5  4444444444444444 ssssssssssssssss qqqqqqqqqqqqqqqq qqssssssssssssss ssssssssssssssss "},
    {"tiny-gemma3", 16, "IQ3_XXS",
        "5  4444444444444444 ssssssssssssssss qqqqqqqqqqqqqqqq 4433333333333333 rrrrrrrrrrrrrrrr "},
    {"tiny-gemma3", 16, "IQ3_S",
        "6  4444444444444444 qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq qqqqqqqqqqqqqqqq "},
    {"tiny-phi", 8, "Q3_K_M", "6  55444444 44444444 44444444 33333333 "},
    {"tiny-phi", 8, "Q4_K_M", "6  64464466 44444444 64464466 44444444 "},
    {"tiny-llama-24", 8, "Q2_K", "8  aaaaaaaa aaaaaaaa aaaaaaaa aaaaaaaa aaaaaaaa "},
    {"tiny-llama-24", 8, "Q3_K_M", "8  ddcccccc aaaaaaaa cccccccc cccccccc aaaaaaaa "},
    {"tiny-llama-24", 8, "Q4_K_M", "8  8cc8cc88 cccccccc cccccccc 8cc8cc88 cccccccc "},
    {"tiny-llama-24", 8, "Q5_K_M", "8  8dd8dd88 dddddddd dddddddd 8dd8dd88 dddddddd "},
    {"tiny-llama-24", 8, "IQ4_XS", "8  nnnnnnnn nnnnnnnn nnnnnnnn dnnnnnnn nnnnnnnn "},
    {"tiny-llama-24", 8, "IQ2_XXS", "8  aaaaaaaa nnnnnnnn nnnnnnnn annnnnnn nnnnnnnn "},
    {"tiny-llama-24", 8, "IQ3_XXS", "8  nnnnnnnn nnnnnnnn nnnnnnnn caaaaaaa nnnnnnnn "},
    {"tiny-qwen2", 80, "Q4_K_S",
        "6  55555555555555555555555555555555555555555555555555555555555555555555555555555555 44444444444444444444444"
        "444444444444444444444444444444444444444444444444444444444 4444444444444444444444444444444444444444444444444"
        "4444444444444444444444444444444 555555555544444444444444444444444444444444444444444444444444444444444444444"
        "44444 44444444444444444444444444444444444444444444444444444444444444444444444444444444 "},
};

static void mixes_are_llama_quantizes(void **state)
{
    (void)state;
    struct weights *w = NULL;
    char got[1024];
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        if (i == 0 || strcmp(plans[i].shape, plans[i - 1].shape) != 0 || plans[i].n_layer != plans[i - 1].n_layer) {
            weights_close(&w);
            w = make(plans[i].shape, plans[i].n_layer);
        }
        struct weights_quantize_settings s = weights_quantize_default();
        s.mix = weights_mix_named(plans[i].mix);
        assert_non_null(s.mix);
        spell(w, &s, got);
        if (strcmp(got, plans[i].types)) fail_msg("%s %s:\n%s\n%s", plans[i].shape, plans[i].mix, got, plans[i].types);
    }
    weights_close(&w);
}

static void names(void **state)
{
    (void)state;
    assert_ptr_equal(weights_mix_named("q4_k"), weights_mix_named("Q4_K_M"));
    assert_int_equal(weights_mix_named("Q3_K_L")->file_type, 13);
    assert_int_equal(weights_mix_named("IQ2_S")->type, QUANT_IQ2_XS);
    assert_string_equal(weights_mix_of(QUANT_IQ2_XS)->name, "IQ2_XS");
    assert_string_equal(weights_mix_of(QUANT_IQ3_S)->name, "IQ3_S");
    assert_null(weights_mix_named("Q4_K_XL"));
    assert_null(weights_mix_named(""));
}

static void one_type(void **state)
{
    (void)state;
    struct weights *w = make("tiny-llama", 2);
    char got[64];
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_named("Q4_K_M");
    s.pure = true;
    spell(w, &s, got);
    assert_string_equal(got, "44 44 44 44 44 44 ");
    s.leave_output = true;
    spell(w, &s, got);
    assert_string_equal(got, "4h 44 44 44 44 44 ");
    weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes_are_llama_quantizes),
        cmocka_unit_test(names),
        cmocka_unit_test(one_type),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
