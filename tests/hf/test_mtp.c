/* SPDX-License-Identifier: MIT
 *
 * The MTP block of a folder (`mtp.*`): the tensors of the GGUF file that it was written from, and the same drafts as
 * the GGUF file that is made of it.
 */
#include "unit/engine/engine_fixture.h"

#include "engine/model.h"
#include "hf/write_folder.h"
#include "unit/engine/mtp_block.h"

static void make_folder(const struct fixture *f, const char *folder, const struct hf_form *form)
{
    struct weights *w;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'; mkdir '%s'", folder, folder);
    assert_int_equal(system(command), 0);
    OK(weights_open(&w, f->path, err));
    hf_write_folder(w, folder, form);
    weights_close(&w);
}

static void same_block(const char *gguf, const char *folder)
{
    struct weights *a, *b;
    int n = 0;
    OK(weights_open(&a, gguf, err));
    OK(weights_open(&b, folder, err));
    assert_int_equal(weights_tensor_count(a), weights_tensor_count(b));
    for (size_t i = 0; i < weights_tensor_count(a); i++) {
        const struct tensor *t = weights_tensor_at(a, i), *u = weights_tensor_find(b, t->name);
        if (!u) fail_msg("%s is missing", t->name);
        if (strncmp(t->name, "blk.4.", 6) != 0) continue;
        weights_fetch(b, u);
        if (t->type != u->type || t->bytes != u->bytes || memcmp(t->data, u->data, t->bytes) != 0)
            fail_msg("%s differs", t->name);
        n++;
    }
    assert_true(n >= 12);
    uint32_t blocks = 0, drafts = 0;
    char key[64];
    struct gguf_str arch;
    OK(weights_get_str(b, "general.architecture", &arch, err));
    snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n, arch.s);
    OK(weights_get_u32(b, key, &blocks, err));
    snprintf(key, sizeof key, "%.*s.nextn_predict_layers", (int)arch.n, arch.s);
    OK(weights_get_u32(b, key, &drafts, err));
    assert_int_equal(blocks, 5);
    assert_int_equal(drafts, 1);
    weights_close(&a);
    weights_close(&b);
}

struct said {
    int32_t token[60];
    int n, n_drafted, n_accepted;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token >= 0 && s->n < 60) s->token[s->n++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct said *s = user;
    s->n_drafted = e->n_drafted;
    s->n_accepted = e->n_accepted;
}

static void say(struct fixture *f, const char *path, struct said *out)
{
    struct lutra_session_settings ss;
    struct lutra_request r;
    int32_t prompt[30];
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 128;
    ss.spec_type = "draft-mtp";
    ss.draft_p_min = 0;
    ss.experiment = fixture_row_cost(0.001f);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    for (int i = 0; i < 30; i++) prompt[i] = 1 + 7 * i % 200;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 30;
    r.max_tokens = 60;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = out;
    memset(out, 0, sizeof *out);
    OK(lutra_generate(f->s, &r, err));
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
}

static void a_folder_has_its_block(void **state)
{
    static const char *const shapes[] = {"tiny-qwen35", "tiny-qwen35moe"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        struct said folder_says, file_says;
        char folder[100], file[100], command[300];
        fixture_make(&f, &(struct where){0}, shapes[i / 2], "F32", 0, 1);
        snprintf(folder, sizeof folder, "%s.hf", f.path);
        snprintf(file, sizeof file, "%s.gguf", f.path);
        add_mtp_block(f.path, &(struct mtp_form){.repeats = i % 2});
        make_folder(&f, folder, &(struct hf_form){.n_shard = 1 + (int)i % 2, .text_config = true, .together = i % 2});
        same_block(f.path, folder);
        say(&f, folder, &folder_says);
        quantize(file, folder, "F32");
        say(&f, file, &file_says);
        print_message("%s: %d drafted, %d accepted\n", shapes[i / 2], file_says.n_drafted, file_says.n_accepted);
        assert_memory_equal(&folder_says, &file_says, sizeof file_says);
        assert_true(file_says.n_drafted > 0);
        snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, file);
        assert_int_equal(system(command), 0);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_folder_has_its_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
