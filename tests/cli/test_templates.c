/* SPDX-License-Identifier: MIT
 *
 * Chat templates by name against what llama.cpp makes of the same four messages (recorded from its server's
 * /apply-template; there the beginning token is left to the tokenizer).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/run.h"

static const struct {
    const char *name, *expected; /* $ = the end token */
} cases[] = {
    {"chatml",
        "<|im_start|>system\nSYS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
        "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n"},
    {"llama2", "[INST] SYS\nU1 [/INST]A1$[INST] U2 [/INST]"},
    {"llama2-sys", "[INST] <<SYS>>\nSYS\n<</SYS>>\n\nU1 [/INST]A1$[INST] U2 [/INST]"},
    {"llama3",
        "<|start_header_id|>system<|end_header_id|>\n\nSYS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU1"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|><|start_header_id|>user"
        "<|end_header_id|>\n\nU2<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"gemma",
        "<start_of_turn>user\nSYS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n<start_of_turn>user\n"
        "U2<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3",
        "<|system|>\nSYS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\nU2<|end|>\n<|assistant|>\n"},
    {"phi4",
        "<|im_start|>system<|im_sep|>SYS<|im_end|><|im_start|>user<|im_sep|>U1<|im_end|><|im_start|>assistant<|im_sep|>"
        "A1<|im_end|><|im_start|>user<|im_sep|>U2<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"zephyr", "<|system|>\nSYS<|endoftext|>\n<|user|>\nU1<|endoftext|>\n<|assistant|>\nA1<|endoftext|>\n<|user|>\nU2"
               "<|endoftext|>\n<|assistant|>\n"},
    {"vicuna", "SYS\n\nUSER: U1\nASSISTANT: A1</s>\nUSER: U2\nASSISTANT:"},
    {"mistral-v7", "[SYSTEM_PROMPT] SYS[/SYSTEM_PROMPT][INST] U1[/INST] A1$[INST] U2[/INST]"},
    {"deepseek3", "SYS\n\n<\xef\xbd\x9cUser\xef\xbd\x9c>U1<\xef\xbd\x9c"
                  "Assistant\xef\xbd\x9c>A1<\xef\xbd\x9c"
                  "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>U2<\xef\xbd\x9c"
                  "Assistant\xef\xbd\x9c>"},
    {"falcon3", "<|system|>\nSYS\n<|user|>\nU1\n<|assistant|>\nA1<|endoftext|>\n<|user|>\nU2\n<|assistant|>\n"},
    {"granite", "<|start_of_role|>system<|end_of_role|>SYS<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>U1"
                "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>A1<|end_of_text|>\n<|start_of_role|>user"
                "<|end_of_role|>U2<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
};

/* seen begins with bos at most; expected has $ for eos. */
static bool same(const char *seen, const char *expected, const char *bos, const char *eos)
{
    if (strncmp(seen, bos, strlen(bos)) == 0 && strncmp(expected, bos, strlen(bos)) != 0) seen += strlen(bos);
    for (; *expected; expected++) {
        const char *part = *expected == '$' ? eos : (char[]){*expected, 0};
        if (strncmp(seen, part, strlen(part)) != 0) return false;
        seen += strlen(part);
    }
    return !*seen;
}

static void token_text(const lutra_model *m, int32_t token, char out[64])
{
    size_t n = 0;
    out[0] = 0;
    if (token >= 0 && lutra_token_text(m, token, true, out, 63, &n) == 0) out[n] = 0;
}

static void test_names(void **state)
{
    (void)state;
    const struct lutra_message messages[] = {{.role = "system", .content = "SYS"}, {.role = "user", .content = "U1"},
        {.role = "assistant", .content = "A1"}, {.role = "user", .content = "U2"}};
    lutra_runtime *rt = NULL;
    lutra_model *model = NULL;
    struct lutra_model_settings settings;
    struct lutra_model_info info;
    struct lutra_error err;
    char bos[64], eos[64], names[256], listed[256] = "";
    lutra_model_settings_init(&settings, sizeof settings);
    settings.vocab_only = true;
    assert_int_equal(lutra_runtime_open(&rt, NULL, &err), 0);
    assert_int_equal(lutra_model_open(&model, rt, LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", &settings, &err), 0);
    lutra_model_info_get(model, &info, sizeof info);
    token_text(model, info.bos, bos);
    token_text(model, info.eos, eos);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        const char *chat_template = template_named(cases[i].name);
        assert_non_null(chat_template);
        struct lutra_chat chat;
        lutra_chat_init(&chat, sizeof chat);
        chat.messages = messages;
        chat.n_message = 4;
        chat.chat_template = chat_template;
        if (lutra_chat_render(model, &chat, &text, NULL, &err) < 0) fail_msg("%s: %s", cases[i].name, err.what);
        if (!same(text, cases[i].expected, bos, eos)) fail_msg("%s: %s", cases[i].name, text);
        lutra_free(text);
        strcat(strcat(listed, i ? " " : ""), cases[i].name);
    }
    template_list(names, sizeof names);
    assert_string_equal(names, listed); /* each has its case */
    assert_null(template_named("chat"));
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
