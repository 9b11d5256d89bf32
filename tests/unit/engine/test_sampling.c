/* SPDX-License-Identifier: MIT
 *
 * What a model's file says of sampling becomes the defaults of its requests, and what it cannot say is left out; DRY's
 * texts.
 */
#include "engine_fixture.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

static char heard[4096];

static void hear(void *user, enum lutra_log_level level, const char *line)
{
    (void)user;
    size_t n = strlen(heard);
    if (level == LUTRA_LOG_WARN) snprintf(heard + n, sizeof heard - n, "%s\n", line);
}

/* The metadata of a tiny model with more keys, opened for its vocabulary only. */
static lutra_model *open_with(lutra_runtime *rt, const char *base, void (*put)(struct gguf_writer *))
{
    char path[300];
    struct weights *from;
    struct gguf_writer *w;
    lutra_model *m;
    snprintf(path, sizeof path, "%s.sampling.gguf", base);
    OK(weights_open(&from, base, err));
    OK(gguf_writer_open(&w, path, err));
    for (size_t i = 0; i < weights_kv_count(from); i++) gguf_writer_copy(w, weights_kv_at(from, i));
    put(w);
    OK(gguf_writer_commit(&w, err));
    weights_close(&from);
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    set.vocab_only = true;
    heard[0] = 0;
    OK(lutra_model_open(&m, rt, path, &set, err));
    unlink(path);
    return m;
}

static void put_good(struct gguf_writer *w)
{
    int32_t all = -1;
    gguf_writer_put_f32(w, "general.sampling.temp", 0.6f);
    gguf_writer_put_u32(w, "general.sampling.top_k", 20);
    gguf_writer_put_str(w, "general.sampling.top_p", "0.9");
    gguf_writer_put_scalar(w, "general.sampling.penalty_last_n", GGUF_I32, &all);
    gguf_writer_put_f32(w, "general.sampling.xtc_threshold", 0.25f);
    gguf_writer_put_u32(w, "general.sampling.mirostat", 2);
    gguf_writer_put_str(w, "general.sampling.sequence", "top_k;temperature");
}

static void put_bad(struct gguf_writer *w)
{
    gguf_writer_put_f32(w, "general.sampling.temp", NAN);
    gguf_writer_put_f32(w, "general.sampling.top_k", 20.5f);
    gguf_writer_put_str(w, "general.sampling.top_p", "0.9x");
    gguf_writer_put_f32(w, "general.sampling.min_p", 3);
    gguf_writer_put_u32(w, "general.sampling.mirostat", 7);
    gguf_writer_put_str(w, "general.sampling.sequence", "top_k;magic");
}

static void a_file_has_defaults(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_sampling s, d;
    struct lutra_runtime_settings set;
    lutra_runtime *rt;
    fixture_open(&f, "tiny-llama", "F16", 1);
    lutra_runtime_settings_init(&set, sizeof set);
    set.log = hear;
    OK(lutra_runtime_open(&rt, &set, err));
    lutra_sampling_init(&d, sizeof d);

    lutra_model_sampling_get(f.model, &s, sizeof s);
    assert_memory_equal(&s, &d, sizeof s);

    lutra_model *m = open_with(rt, f.path, put_good);
    lutra_model_sampling_get(m, &s, sizeof s);
    assert_true(s.temperature == 0.6f && s.top_k == 20 && s.top_p == 0.9f && s.penalty_last_n == -1);
    assert_true(s.xtc_threshold == 0.25f && s.mirostat == 2 && s.min_p == d.min_p);
    assert_string_equal(s.samplers, "top_k;temperature");
    assert_string_equal(heard, "");
    lutra_model_close(&m);

    m = open_with(rt, f.path, put_bad);
    lutra_model_sampling_get(m, &s, sizeof s);
    assert_memory_equal(&s, &d, sizeof s);
    const char *const named[] = {"temp'", "top_k'", "top_p'", "min_p'", "mirostat'", "sequence'", "'magic'"};
    for (int i = 0; i < 7; i++)
        if (!strstr(heard, named[i])) fail_msg("%s is not in: %s", named[i], heard);
    lutra_model_close(&m);
    lutra_runtime_close(&rt);
    fixture_close(&f);
}

static int submit(struct fixture *f, const struct lutra_sampling *s, struct lutra_error *err)
{
    struct lutra_request r;
    int32_t prompt[] = {token_at(1), token_at(2), token_at(1)};
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 3;
    r.max_tokens = 3;
    r.sampling = s;
    return lutra_generate(f->s, &r, err);
}

static void texts_break_repeats(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_sampling s;
    struct lutra_error why = {0};
    char longest[42];
    const char *text[2] = {"e t", longest};
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_sampling_init(&s, sizeof s);
    memset(longest, 'e', 41);
    longest[41] = 0;
    s.dry_multiplier = 1;
    OK(submit(&f, &s, err));
    s.dry_sequence_breakers = text;
    s.n_dry_sequence_breakers = 1;
    OK(submit(&f, &s, err));
    s.n_dry_sequence_breakers = 2;
    assert_int_equal(submit(&f, &s, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "dry_sequence_breakers"));
    longest[40] = 0;
    OK(submit(&f, &s, err));
    s.n_dry_sequence_breakers = -2;
    assert_int_equal(submit(&f, &s, &why), LUTRA_E_ARGUMENT);
    s.n_dry_sequence_breakers = -1;
    s.samplers = "dry;infill";
    assert_int_equal(submit(&f, &s, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "infill"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_has_defaults), cmocka_unit_test(texts_break_repeats)};
    return cmocka_run_group_tests_name("engine/sampling", tests, NULL, NULL);
}
