/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "../../sanitized.h"
#include "toy.h"

static struct text_vocab *opened(struct toy *toy)
{
    struct text_vocab *v = NULL;
    struct lutra_error err = {0};
    if (text_vocab_open(&v, &toy->src, &err) != 0) fail_msg("%s", err.what);
    return v;
}

/* Ids of `text` as "1 2 3". */
static const char *ids_of(const struct text_vocab *v, const char *text, size_t n, unsigned flags)
{
    static char out[4096];
    struct text_tokens ids = {0};
    assert_int_equal(text_encode(v, text, n, flags, &ids, NULL), 0);
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < ids.n && at < sizeof out - 16; i++) {
        at += (size_t)snprintf(out + at, sizeof out - at, i ? " %d" : "%d", (int)ids.ids[i]);
    }
    text_tokens_fini(&ids);
    return out;
}

#define assert_ids(v, text, flags, expected) assert_string_equal(ids_of(v, text, sizeof text - 1, flags), expected)

static void merges_go_by_rank_then_from_the_left(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy_token(&toy, "ab", 1);  /* 256 */
    toy_token(&toy, "bc", 1);  /* 257 */
    toy_token(&toy, "abc", 1); /* 258 */
    toy_token(&toy, "aa", 1);  /* 259 */
    toy_token(&toy, "Ġa", 1);  /* 260 */
    toy_merge(&toy, "b c");
    toy_merge(&toy, "a b");
    toy_merge(&toy, "a bc");
    toy_merge(&toy, "a a");
    toy_merge(&toy, "Ġ a");
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "abc", 0, "258");
    assert_ids(v, "ab", 0, "256");
    assert_ids(v, "aaa", 0, "259 97");
    assert_ids(v, "aaaab", 0, "259 97 256"); /* a b outranks a a */
    assert_ids(v, "a a", 0, "97 260");
    assert_ids(v, "", 0, "");
    text_vocab_close(&v);
    assert_null(v);
}

static void a_merge_may_pass_through_a_string_that_is_no_token(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "gpt-2");
    toy_token(&toy, "xyz", 1); /* 256; "xy" is not in the vocabulary */
    toy_merge(&toy, "x y");
    toy_merge(&toy, "xy z");
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "xyz", 0, "256");
    assert_ids(v, "xyw", 0, "120 121 119");
    text_vocab_close(&v);
}

static void ignore_merges_takes_the_whole_word(void **state)
{
    (void)state;
    static const char *const pre[] = {"llama-bpe", "qwen2"}, *const expected[] = {"256", "113 113 113"};
    for (int i = 0; i < 2; i++) {
        struct toy toy;
        toy_init(&toy, pre[i]);
        toy_token(&toy, "qqq", 1); /* no merge leads here */
        struct text_vocab *v = opened(&toy);
        assert_ids(v, "qqq", 0, expected[i]);
        text_vocab_close(&v);
    }
}

static void digits_are_cut_as_each_pre_split_wants(void **state)
{
    (void)state;
    static const char *const pre[] = {"gpt-2", "llama-bpe", "qwen2"};
    static const char *const expected[] = {"257 257", "257 49 49", "49 49 49 49"};
    for (int i = 0; i < 3; i++) {
        struct toy toy;
        toy_init(&toy, pre[i]);
        toy_token(&toy, "1111", 1);
        toy_token(&toy, "11", 1); /* 257 */
        toy_merge(&toy, "1 1");
        struct text_vocab *v = opened(&toy);
        assert_ids(v, "1111", 0, expected[i]);
        text_vocab_close(&v);
    }
}

/* Names of models whose architecture runs; the patterns are those of llama.cpp. */
static void further_names_split_as_they_should(void **state)
{
    (void)state;
    static const char *const names[] = {"kormo", "f2llmv2", "seed-coder", "viking"};
    for (int i = 0; i < 4; i++) {
        struct toy toy;
        toy_init(&toy, names[i]);
        toy_token(&toy, "!Ċ", 1); /* 256 */
        toy_token(&toy, "12", 1);
        toy_token(&toy, "a,", 1);
        toy_token(&toy, "a'", 1); /* 259 */
        toy_merge(&toy, "! Ċ");
        toy_merge(&toy, "1 2");
        toy_merge(&toy, "a ,");
        toy_merge(&toy, "a '");
        struct text_vocab *v = opened(&toy);
        assert_ids(v, "!\n", 0, i < 2 ? "256" : i == 2 ? "33 10" : "256");
        assert_ids(v, "12", 0, "49 50");
        assert_ids(v, "a,", 0, "97 44");
        assert_ids(v, "a'x", 0, i == 3 ? "259 120" : "97 39 120");
        text_vocab_close(&v);
    }
}

static void marks_belong_to_the_word_in_tekken_and_o200k(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct toy toy;
        toy_init(&toy, (const char *const[]){"tekken", "gpt-4o", "llama-bpe"}[i]);
        toy_token(&toy, "¹à", 1); /* 256: across the border of a letter and its mark */
        toy_merge(&toy, "¹ à");
        struct text_vocab *v = opened(&toy);
        bool marks = i < 2; /* Llama 3's split begins a new word with U+093F */
        assert_ids(v, "\u0939\u093f\u0928", 0,
            marks ? "224 164 256 164 191 224 164 168" : "224 164 185 224 164 191 224 164 168");
        assert_ids(v, "e\u0301\u0301e", 0, "101 204 129 204 129 101");
        text_vocab_close(&v);
    }
}

/* Pairs of text and form, after Unicode's NormalizationTest.txt. */
static void text_is_brought_to_nfc_where_asked(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"A\u030a", "\u00c5"}, {"\u212b", "\u00c5"}, {"\u0958", "\u0915\u093c"},
        {"\u1100\u1161\u11a8", "\uac01"}, {"\uac00\u11a8", "\uac01"}, {"\uac01\u11a8", "\uac01\u11a8"},
        {"a\u0323\u0302", "\u1ead"}, {"a\u0302\u0323", "\u1ead"}, {"a\u0327\u0327\u0302", "\u00e2\u0327\u0327"},
        {"\u0344", "\u0308\u0301"}, {"\uf900", "\u8c48"}, {"\U0002f800", "\u4e3d"}, {"\u1f82", "\u1f82"},
        {"\u03b1\u0313\u0300\u0345", "\u1f82"}, {"\U00016d67\U00016d67", "\U00016d68"},
        {"x\u0334\u0301", "x\u0334\u0301"}, {"\u00e9 plain", "\u00e9 plain"},
        {"\xff\x41\u030a\xff", "\xff\xc3\x85\xff"}};
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy.src.nfc = true;
    struct text_vocab *v = opened(&toy);
    toy.src.nfc = false;
    struct text_vocab *plain = opened(&toy);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *want = strdup(ids_of(plain, cases[i][1], strlen(cases[i][1]), 0));
        assert_string_equal(ids_of(v, cases[i][0], strlen(cases[i][0]), 0), want);
        assert_string_equal(ids_of(v, cases[i][1], strlen(cases[i][1]), 0), want);
        free(want);
    }
    text_vocab_close(&v);
    text_vocab_close(&plain);
}

static void special_tokens_longest_first_and_only_when_asked(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy_token(&toy, "<|im_end|>", TEXT_TOKEN_CONTROL);  /* 256 */
    toy_token(&toy, "<t>", TEXT_TOKEN_USER_DEFINED);    /* 257 */
    toy_token(&toy, "<t><t>", TEXT_TOKEN_USER_DEFINED); /* 258 */
    toy_token(&toy, "<|im_end|>!", TEXT_TOKEN_CONTROL); /* 259 */
    toy_token(&toy, "｜é", TEXT_TOKEN_CONTROL);         /* 260: not byte-spelt */
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "a<|im_end|>b", TEXT_PARSE_SPECIAL, "97 256 98");
    assert_ids(v, "<|im_end|>!", TEXT_PARSE_SPECIAL, "259");
    assert_ids(v, "<|im_end|", TEXT_PARSE_SPECIAL, "60 124 105 109 95 101 110 100 124");
    assert_ids(v, "<|im_end|>", 0, "60 124 105 109 95 101 110 100 124 62");
    assert_ids(v, "<t><t><t>", 0, "258 257");
    assert_ids(v, "｜é", TEXT_PARSE_SPECIAL, "260");
    assert_int_equal(text_token_piece(v, 256, 0).n, 0);
    assert_int_equal(text_token_piece(v, 256, TEXT_PIECE_SPECIAL).n, 10);
    assert_int_equal(text_token_piece(v, 257, 0).n, 3);
    assert_int_equal(text_token_piece(v, -1, 0).n, 0);
    assert_int_equal(text_token_piece(v, 261, TEXT_PIECE_SPECIAL).n, 0);
    assert_int_equal(text_token_type(v, 257), TEXT_TOKEN_USER_DEFINED);
    assert_int_equal(text_token_type(v, 261), 0);
    assert_int_equal(text_token_find(v, "<t>", 3), 257);
    assert_int_equal(text_token_find(v, "nope", 4), -1);
    text_vocab_close(&v);
}

/* llama.cpp 0.7.0 gives the same. */
static void special_tokens_of_phi_3_take_the_spaces_behind_them(void **state)
{
    (void)state;
    static const char text[] = "<|user|> \n a<|end|>\t<s> a";
    struct toy toy;
    toy_init(&toy, "default");
    toy_token(&toy, "<|user|>", TEXT_TOKEN_CONTROL); /* 256 */
    toy_token(&toy, "<|end|>", TEXT_TOKEN_CONTROL);  /* 257 */
    toy_token(&toy, "<s>", TEXT_TOKEN_CONTROL);      /* 258 */
    for (int phi = 0; phi < 2; phi++) {
        toy.src.name = phi ? "my Phi-3-mini" : "Phi 3.5 mini";
        struct text_vocab *v = opened(&toy);
        assert_ids(v, text, TEXT_PARSE_SPECIAL, phi ? "256 97 257 258 32 97" : "256 32 10 32 97 257 9 258 32 97");
        assert_ids(v, text, 0, "60 124 117 115 101 114 124 62 32 10 32 97 60 124 101 110 100 124 62 9 60 115 62 32 97");
        text_vocab_close(&v);
    }
}

static void bos_and_eos_where_the_vocabulary_asks(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy.src.bos = toy_token(&toy, "<s>", TEXT_TOKEN_CONTROL);
    toy.src.eos = toy_token(&toy, "</s>", TEXT_TOKEN_CONTROL);
    toy.src.add_bos = true;
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "a", TEXT_ADD_SPECIAL, "256 97");
    assert_ids(v, "a", 0, "97");
    text_vocab_close(&v);
    toy.src.add_bos = false;
    toy.src.add_eos = true;
    v = opened(&toy);
    assert_ids(v, "a", TEXT_ADD_SPECIAL, "97 257");
    text_vocab_close(&v);
}

static void the_end_of_generation_set_is_whole(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    static const char *const markers[] = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>"};
    for (int i = 0; i < 6; i++) toy_token(&toy, markers[i], TEXT_TOKEN_CONTROL);
    toy.src.eot = toy_token(&toy, "<eot>", TEXT_TOKEN_CONTROL);
    toy.src.eom = toy_token(&toy, "<eom>", TEXT_TOKEN_CONTROL);
    toy.src.eos = 257;
    toy_token(&toy, "<|im_start|>", TEXT_TOKEN_CONTROL);
    struct text_vocab *v = opened(&toy);
    assert_int_equal(text_vocab_n_eog(v), 8);
    for (int32_t i = 0; i < 8; i++) assert_int_equal(text_vocab_eog(v)[i], 256 + i);
    assert_true(text_is_eog(v, 262));
    assert_false(text_is_eog(v, 264));
    assert_false(text_is_eog(v, -1));
    assert_int_equal(text_vocab_special(v, TEXT_EOS), 257);
    assert_int_equal(text_vocab_special(v, TEXT_BOS), -1);
    text_vocab_close(&v);
}

/* llama.cpp build 11669 on the same vocabulary: 256 to 260 are control, 256 to 258 end, 261 stays text. */
static void tokens_spelt_like_control_are_control_whatever_their_type(void **state)
{
    (void)state;
    for (int typed = 0; typed < 3; typed++) {
        struct toy toy;
        toy_init(&toy, "qwen2");
        static const char *const spelt[] = {
            "<|im_end|>", "<|repo_name|>", "<|file_sep|>", "<|fim_middle|>", "<fim_prefix>", "<|im_start|>"};
        int32_t type = typed == 2 ? TEXT_TOKEN_USER_DEFINED : TEXT_TOKEN_NORMAL;
        for (int i = 0; i < 6; i++) toy_token(&toy, spelt[i], type);
        if (typed == 0) toy.src.types = NULL;
        struct text_vocab *v = opened(&toy);
        assert_ids(v, "a<|im_end|>b<|fim_middle|>", TEXT_PARSE_SPECIAL, "97 256 98 259");
        assert_ids(v, "<|im_end|>", 0, "60 124 105 109 95 101 110 100 124 62");
        for (int32_t i = 256; i < 261; i++) assert_int_equal(text_token_type(v, i), TEXT_TOKEN_CONTROL);
        assert_int_equal(text_token_type(v, 261), type);
        assert_int_equal(text_vocab_n_eog(v), 3);
        for (int32_t i = 0; i < 3; i++) assert_int_equal(text_vocab_eog(v)[i], 256 + i);
        text_vocab_close(&v);
    }
}

/* Command-R has some characters twice. */
static void of_two_spellings_of_a_character_the_bytes_are_merged(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "llama-bpe");
    toy_token(&toy, "日", TEXT_TOKEN_NORMAL);
    toy_token(&toy, "æĹ¥", TEXT_TOKEN_NORMAL);
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "日", 0, "257");
    assert_int_equal(text_token_piece(v, 256, 0).n, 3);
    text_vocab_close(&v);
}

/* gpt-oss: <|end|> divides, <|return|> and <|call|> end; its headers are to be seen. */
static void end_is_no_end_where_return_and_call_are(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "gpt-4o");
    static const char *const spelt[] = {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"};
    for (int i = 0; i < 4; i++) toy_token(&toy, spelt[i], TEXT_TOKEN_CONTROL);
    struct text_vocab *v = opened(&toy);
    assert_int_equal(text_vocab_n_eog(v), 2);
    assert_int_equal(text_vocab_eog(v)[0], 257);
    assert_int_equal(text_token_type(v, 256), TEXT_TOKEN_USER_DEFINED);
    assert_int_equal(text_token_type(v, 259), TEXT_TOKEN_USER_DEFINED);
    assert_ids(v, "<|end|><|channel|>", 0, "256 259");
    text_vocab_close(&v);
}

static void an_id_that_is_no_token_counts_as_none(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy.src.eos = 256;
    toy.src.fim_pad = 7;
    struct text_vocab *v = opened(&toy);
    assert_int_equal(text_vocab_special(v, TEXT_EOS), -1);
    assert_int_equal(text_vocab_n_eog(v), 1);
    assert_true(text_is_eog(v, 7));
    text_vocab_close(&v);
}

static void what_the_file_does_not_say_follows_from_the_pre_split(void **state)
{
    (void)state;
    static const struct {
        const char *pre;
        bool bos;
    } cases[] = {
        {"llama-bpe", true}, {"pixtral", true}, {"tekken", true}, {"dbrx", false}, {"qwen35", false}, {NULL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toy toy;
        toy_init(&toy, cases[i].pre);
        toy.src.bos = toy_token(&toy, "<s>", TEXT_TOKEN_CONTROL);
        struct text_vocab *v = opened(&toy);
        assert_ids(v, "a", TEXT_ADD_SPECIAL, cases[i].bos ? "256 97" : "97");
        text_vocab_close(&v);
    }
}

static void refuse(struct toy *toy, int code, const char *word)
{
    struct text_vocab *v = (struct text_vocab *)1;
    struct lutra_error err = {0};
    assert_int_equal(text_vocab_open(&v, &toy->src, &err), code);
    assert_null(v);
    assert_int_equal(err.code, code);
    if (!strstr(err.what, word)) fail_msg("'%s' does not name '%s'", err.what, word);
}

static void what_is_not_implemented_or_malformed_is_refused_by_name(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy, "qwen2");
    toy.src.model = "t5";
    refuse(&toy, LUTRA_E_UNSUPPORTED, "t5");
    toy.src.model = "llama";
    refuse(&toy, LUTRA_E_FORMAT, "scores");
    toy_init(&toy, "kimi-k2");
    refuse(&toy, LUTRA_E_UNSUPPORTED, "kimi-k2");
    toy_init(&toy, "qwen2");
    toy.src.n_tok = 0;
    refuse(&toy, LUTRA_E_FORMAT, "tokens");
    toy_init(&toy, "qwen2");
    toy.src.merges = NULL;
    refuse(&toy, LUTRA_E_FORMAT, "merges");
    toy_init(&toy, "qwen2");
    toy.types[3] = 7;
    refuse(&toy, LUTRA_E_FORMAT, "token_type[3]");
    static const char *const bad[] = {"ab", "a ", " a", " ", "", "  "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        toy_init(&toy, "qwen2");
        toy_merge(&toy, bad[i]);
        refuse(&toy, LUTRA_E_FORMAT, "merges[0]");
    }
}

/* "<unk>" "<s>" "</s>", 256 bytes, then tokens; llama.cpp build 11669 gives the same ids for the same vocabulary. */
static void init_spm(struct toy *toy, float scores[TOY_MAX], char bytes[256][8])
{
    static const char *const tokens[] = {
        "▁", "a", "b", "c", "ab", "bc", "abc", "▁a", "▁▁", "é", "</x>", "▁ab"}; /* 259 .. 270 */
    toy_init(toy, NULL);
    toy->src.model = "llama";
    toy->src.n_tok = 0;
    toy->src.scores = scores;
    toy_token(toy, "<unk>", TEXT_TOKEN_UNKNOWN);
    toy_token(toy, "<s>", TEXT_TOKEN_CONTROL);
    toy_token(toy, "</s>", TEXT_TOKEN_CONTROL);
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], 8, "<0x%02X>", (unsigned)i);
        toy_token(toy, bytes[i], TEXT_TOKEN_BYTE);
    }
    for (int i = 0; i < 12; i++) toy_token(toy, tokens[i], i == 10 ? TEXT_TOKEN_USER_DEFINED : TEXT_TOKEN_NORMAL);
    for (int i = 0; i < TOY_MAX; i++) scores[i] = -(float)i;
    scores[264] = -1; /* "bc" before "ab" */
}

/* As tokenizer.json has it: Metaspace's schemes and the Prepend normalizer. */
static void spaces_go_where_the_scheme_puts_them(void **state)
{
    (void)state;
    static struct toy toy;
    static char bytes[256][8];
    float scores[TOY_MAX];
    static const struct {
        const char *text, *ids[4]; /* by enum text_spaces */
    } cases[] = {{"a</s>a", {"266 2 266", "260 2 260", "266 2 260", "266 2 266"}},
        {"</s>a", {"2 266", "2 260", "2 260", "2 266"}}, {" a", {"267 260", "266", "266", "266"}},
        {"▁a", {"267 260", "266", "266", "266"}},
        {"a</x> a", {"266 269 267 260", "260 269 266", "266 269 266", "266 269 266"}}, {"</s>", {"2", "2", "2", "2"}},
        {"a a", {"266 266", "260 266", "266 266", "266 266"}}};
    init_spm(&toy, scores, bytes);
    toy.src.exact = true;
    toy_merge(&toy, "▁ ▁");
    toy_merge(&toy, "▁ a");
    for (int scheme = 0; scheme < 4; scheme++) {
        toy.src.spaces = (enum text_spaces)scheme;
        struct text_vocab *v = opened(&toy);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const char *ids = ids_of(v, cases[i].text, strlen(cases[i].text), TEXT_PARSE_SPECIAL);
            if (strcmp(ids, cases[i].ids[scheme]) != 0) fail_msg("scheme %d, '%s': %s", scheme, cases[i].text, ids);
        }
        text_vocab_close(&v);
    }
    toy.src.split_spaces = true;
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "   a", 0, "259 259 266");
    text_vocab_close(&v);
}

/* Merges that are listed make what they list only: "ab" is a token here that nothing makes. */
static void listed_merges_of_characters_are_the_only_ones(void **state)
{
    (void)state;
    static struct toy toy;
    static char bytes[256][8];
    float scores[TOY_MAX];
    init_spm(&toy, scores, bytes);
    toy.src.exact = true;
    toy.src.spaces = TEXT_SPACES_NONE;
    toy_merge(&toy, "b c");
    toy_merge(&toy, "a bc");
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "ab", 0, "260 261");
    assert_ids(v, "abc", 0, "265");
    text_vocab_close(&v);
}

static void what_has_no_token_is_dropped_or_unknown_or_bytes(void **state)
{
    (void)state;
    static struct toy toy;
    static char bytes[256][8];
    float scores[TOY_MAX];
    for (int way = 0; way < 3; way++) { /* nothing, each, fused */
        init_spm(&toy, scores, bytes);
        toy.src.exact = toy.src.no_bytes = true;
        toy.src.spaces = TEXT_SPACES_NONE;
        toy.src.unknown = way ? 0 : -1;
        toy.src.fuse_unknown = way == 2;
        struct text_vocab *v = opened(&toy);
        static const char *const want[] = {"260 260 260", "260 0 0 260 0 260", "260 0 260 0 260"};
        assert_ids(v, "axya日a", 0, want[way]);
        text_vocab_close(&v);
        toy.src.no_bytes = false;
        v = opened(&toy);
        assert_ids(v, "axa", 0, "260 123 260");
        text_vocab_close(&v);
        toy_init(&toy, "gpt-2"); /* a byte-level vocabulary without the letters x and y */
        toy.spelt['x'][0] = toy.spelt['y'][0] = '\x01';
        int32_t end = toy_token(&toy, "<|endoftext|>", TEXT_TOKEN_CONTROL);
        toy.src.unk = end; /* as StarCoder's file names it */
        toy.src.exact = true;
        toy.src.unknown = way ? end : -1;
        toy.src.fuse_unknown = way == 2;
        static const char *const bytewise[] = {"97 97", "97 256 256 97", "97 256 97"};
        v = opened(&toy);
        assert_ids(v, "axya", 0, bytewise[way]);
        text_vocab_close(&v);
        toy.src.exact = false; /* GGUF: dropped, as in llama.cpp */
        v = opened(&toy);
        assert_ids(v, "axya", 0, "97 97");
        text_vocab_close(&v);
    }
}

/* Rules of Hugging Face's tokenizers (added_vocabulary.rs). */
static void added_tokens_mind_spaces_and_words(void **state)
{
    (void)state;
    static struct toy toy;
    toy_init(&toy, "gpt-2");
    const int32_t left = toy_token(&toy, "<l>", TEXT_TOKEN_USER_DEFINED);
    const int32_t right = toy_token(&toy, "<r>", TEXT_TOKEN_CONTROL);
    const int32_t word = toy_token(&toy, "cat", TEXT_TOKEN_USER_DEFINED);
    const int32_t late = toy_token(&toy, "e\u0301", TEXT_TOKEN_USER_DEFINED);
    const int32_t hidden = toy_token(&toy, "at", TEXT_TOKEN_USER_DEFINED);
    const int32_t spaced = toy_token(&toy, " y", TEXT_TOKEN_USER_DEFINED);
    const int32_t added[][2] = {{spaced, 0}, {left, TEXT_ADDED_LSTRIP}, {right, TEXT_ADDED_RSTRIP | TEXT_ADDED_LSTRIP},
        {word, TEXT_ADDED_SINGLE_WORD}, {late, TEXT_ADDED_NORMALIZED}, {hidden, TEXT_ADDED_MERGED}, {-1, 1}, {9999, 1}};
    toy.src.added = &added[0][0];
    toy.src.n_added = sizeof added / sizeof *added;
    toy.src.exact = toy.src.nfc = true;
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "a \n<l> a", 0, "97 256 32 97");
    assert_ids(v, "a\u3000\u00a0<r> \u2003a", TEXT_PARSE_SPECIAL, "97 257 97");
    assert_ids(v, "<r>  <l>", TEXT_PARSE_SPECIAL, "257 256");
    assert_ids(v, "<r>", 0, "60 114 62");
    assert_ids(v, "<r>  ya", TEXT_PARSE_SPECIAL, "257 261 97"); /* its space is taken, and it is one all the same */
    assert_ids(v, "cat cat,cat", 0, "258 32 258 44 258");
    assert_ids(v, "cats", 0, "99 97 116 115");
    assert_ids(v, "1cat", 0, "49 99 97 116");
    assert_ids(v, "_cat", 0, "95 99 97 116");
    assert_ids(v, "cat\u0301", 0, "99 97 116 204 129");
    assert_ids(v, "\u00e9e\u0301", 0, "259 259"); /* both spellings: the text is normalized first */
    assert_ids(v, "at", 0, "97 116");
    text_vocab_close(&v);
    toy.src.exact = false; /* GGUF says nothing of this */
    v = opened(&toy);
    assert_ids(v, "a <l> cats", 0, "97 32 256 32 258 115");
    text_vocab_close(&v);
}

/* A control token that has a byte of input is text, normalized or not. */
static void marks_hold_for_normalized_tokens(void **state)
{
    (void)state;
    static struct toy toy;
    toy_init(&toy, "gpt-2");
    const int32_t end = toy_token(&toy, "<end>", TEXT_TOKEN_CONTROL);
    const int32_t added[][2] = {{end, TEXT_ADDED_NORMALIZED | TEXT_ADDED_RSTRIP}};
    const struct text_bytes text = {"<end>", 5};
    const uint8_t input[5] = {0, 0, 1, 0, 0};
    struct text_tokens ids = {0};
    toy.src.added = &added[0][0];
    toy.src.n_added = 1;
    toy.src.exact = toy.src.nfc = true;
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "<end> a", TEXT_PARSE_SPECIAL, "256 97");
    assert_int_equal(text_encode_marked(v, text, input, TEXT_PARSE_SPECIAL, NULL, &ids, NULL), 0);
    assert_int_equal(ids.n, 5);
    ids.n = 0;
    assert_int_equal(text_encode_marked(v, text, NULL, TEXT_PARSE_SPECIAL, NULL, &ids, NULL), 0);
    assert_int_equal(ids.n, 1);
    text_tokens_fini(&ids);
    text_vocab_close(&v);
}

static void sentencepiece_merges_by_score_and_falls_back_to_bytes(void **state)
{
    (void)state;
    static struct toy toy;
    static char bytes[256][8];
    float scores[TOY_MAX];
    init_spm(&toy, scores, bytes);
    struct text_vocab *v = opened(&toy);
    assert_ids(v, "abc", 0, "259 265"); /* bc, then abc before ▁a */
    assert_ids(v, "ab", 0, "270");      /* ab before ▁a, then ▁ab */
    assert_ids(v, "", TEXT_ADD_SPECIAL, "1");
    assert_ids(v, "a", TEXT_ADD_SPECIAL, "1 266");
    assert_ids(v, "  a", 0, "267 266"); /* with the one before it: three */
    assert_ids(v, "▁", 0, "267");
    assert_ids(v, "é\n", 0, "259 268 13");
    assert_ids(v, "\xFF", 0, "259 258");
    assert_ids(v, "a</s>a", TEXT_PARSE_SPECIAL, "266 2 266");
    assert_ids(v, "a</x>a", 0, "266 269 266");
    assert_int_equal(text_token_piece(v, 13, 0).n, 1);
    assert_int_equal(text_token_piece(v, 13, 0).p[0], '\n');
    assert_int_equal(text_vocab_special(v, TEXT_EOS), 2);
    assert_true(text_vocab_adds_space(v));
    text_vocab_close(&v);
    toy.src.add_space_prefix = toy.src.add_bos = 0;
    v = opened(&toy);
    assert_ids(v, "abc", TEXT_ADD_SPECIAL, "265");
    assert_false(text_vocab_adds_space(v));
    text_vocab_close(&v);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void assert_round_trip(const struct text_vocab *v, const char *text, size_t n)
{
    struct text_tokens ids = {0};
    assert_int_equal(text_encode(v, text, n, TEXT_PARSE_SPECIAL, &ids, NULL), 0);
    size_t at = 0;
    for (size_t i = 0; i < ids.n; i++) {
        struct text_bytes piece = text_token_piece(v, ids.ids[i], TEXT_PIECE_SPECIAL);
        assert_true(piece.n <= n - at);
        assert_memory_equal(piece.p, text + at, piece.n);
        at += piece.n;
    }
    assert_int_equal(at, n);
    text_tokens_fini(&ids);
}

static void bytes_survive_the_round_trip(void **state)
{
    (void)state;
    static const char *const pre[] = {"gpt-2", "llama-bpe", "qwen2"};
    uint64_t seed = 1;
    for (int p = 0; p < 3; p++) {
        struct toy toy;
        toy_init(&toy, pre[p]);
        toy_token(&toy, "Ġa", 1);
        toy_token(&toy, "Ãł", 1);
        toy_token(&toy, "<|x|>", TEXT_TOKEN_CONTROL);
        toy_merge(&toy, "Ġ a");
        toy_merge(&toy, "Ã ł");
        struct text_vocab *v = opened(&toy);
        for (int round = 0; round < 2000; round++) {
            char text[64];
            size_t n = 0;
            while (n < 56) {
                uint64_t r = next_random(&seed);
                static const char alphabet[] = " a\n1'sR.\xE2\x80\x81\xFF<|x|>";
                if (r % 3 == 0)
                    text[n++] = (char)(r >> 8);
                else if (r % 3 == 1)
                    text[n++] = alphabet[(r >> 8) % (sizeof alphabet - 1)];
                else
                    n += (size_t)text_utf8_put((uint32_t)(r >> 8) % 0xD800, text + n);
            }
            assert_round_trip(v, text, n - next_random(&seed) % 8);
        }
        text_vocab_close(&v);
    }
}

/* A megabyte of one kind (an eighth under a sanitizer): a linear or n log n algorithm's small change and a quadratic
 * one's hour. */
static void long_hostile_text_is_quick(void **state)
{
    (void)state;
    enum { N = SANITIZED ? 1 << 17 : 1 << 20 };
    static char text[N];
    static const char *const patterns[] = {"a", " ", " \n", "\xFF", "\xE4\xB8", "<|", "'", "1", "\xE2\x80\x83", "\n",
        "A", "\u0301\u0327\u0345\u0334", "\u1100\u1161\u11a8"};
    static const char *const pre[] = {"gpt-2", "llama-bpe", "default", "gpt-4o", "deepseek-llm", "deepseek-v3"};
    enum { N_PRE = sizeof pre / sizeof *pre };
    for (size_t i = 0; i < N_PRE * (sizeof patterns / sizeof *patterns); i++) {
        const char *pattern = patterns[i / N_PRE];
        struct toy toy;
        toy_init(&toy, pre[i % N_PRE]);
        toy_token(&toy, "aa", 1);
        toy_token(&toy, "aaaa", 1);
        toy_token(&toy, "ĠĠ", 1);
        toy_token(&toy, "<|<|<|x", TEXT_TOKEN_CONTROL);
        toy_merge(&toy, "a a");
        toy_merge(&toy, "aa aa");
        toy_merge(&toy, "Ġ Ġ");
        toy.src.nfc = i % N_PRE == 1; /* marks of a run are sorted, not inserted */
        struct text_vocab *v = opened(&toy);
        for (size_t k = 0, m = strlen(pattern); k < N; k++) text[k] = pattern[k % m];
        text[N - 1] = 'x';
        clock_t start = clock();
        if (toy.src.nfc)
            ids_of(v, text, N, 0);
        else
            assert_round_trip(v, text, N);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 10) fail_msg("pattern %zu under %s took %.1f s", i / N_PRE, pre[i % N_PRE], seconds);
        text_vocab_close(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(a_merge_may_pass_through_a_string_that_is_no_token),
        cmocka_unit_test(ignore_merges_takes_the_whole_word),
        cmocka_unit_test(digits_are_cut_as_each_pre_split_wants),
        cmocka_unit_test(further_names_split_as_they_should),
        cmocka_unit_test(marks_belong_to_the_word_in_tekken_and_o200k),
        cmocka_unit_test(text_is_brought_to_nfc_where_asked),
        cmocka_unit_test(special_tokens_longest_first_and_only_when_asked),
        cmocka_unit_test(special_tokens_of_phi_3_take_the_spaces_behind_them),
        cmocka_unit_test(bos_and_eos_where_the_vocabulary_asks),
        cmocka_unit_test(the_end_of_generation_set_is_whole),
        cmocka_unit_test(tokens_spelt_like_control_are_control_whatever_their_type),
        cmocka_unit_test(of_two_spellings_of_a_character_the_bytes_are_merged),
        cmocka_unit_test(end_is_no_end_where_return_and_call_are),
        cmocka_unit_test(an_id_that_is_no_token_counts_as_none),
        cmocka_unit_test(what_the_file_does_not_say_follows_from_the_pre_split),
        cmocka_unit_test(spaces_go_where_the_scheme_puts_them),
        cmocka_unit_test(listed_merges_of_characters_are_the_only_ones),
        cmocka_unit_test(what_has_no_token_is_dropped_or_unknown_or_bytes),
        cmocka_unit_test(added_tokens_mind_spaces_and_words),
        cmocka_unit_test(marks_hold_for_normalized_tokens),
        cmocka_unit_test(sentencepiece_merges_by_score_and_falls_back_to_bytes),
        cmocka_unit_test(what_is_not_implemented_or_malformed_is_refused_by_name),
        cmocka_unit_test(bytes_survive_the_round_trip),
        cmocka_unit_test(long_hostile_text_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
