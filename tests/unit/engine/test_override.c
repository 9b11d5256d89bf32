/* SPDX-License-Identifier: MIT
 *
 * Tensors given to devices by name: their operations run there and nowhere else; what cannot be is refused by name.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

static int open_with(struct fixture *f, const char *device, const char *list, struct lutra_error *err)
{
    struct lutra_model_settings ms;
    fixture_make(f, &(struct where){device, NULL}, "tiny-qwen2", "Q4_0", 0, 1);
    lutra_model_settings_init(&ms, sizeof ms);
    ms.override_tensor = list;
    return lutra_model_open(&f->model, f->rt, f->path, &ms, err);
}

static const struct weight *weight_named(const struct fixture *f, const char *name)
{
    for (int i = 0; i < model_n_weight(f->model->model); i++)
        if (!strcmp(model_weight(f->model->model, i)->tensor.name, name)) return model_weight(f->model->model, i);
    fail_msg("no weight %s", name);
    return NULL;
}

/* Who runs the operations of a weight. */
static const char *device_of(const struct fixture *f, const struct weight *w)
{
    const struct plan *plan = &f->model->plan;
    for (int p = 0; p < plan->n_piece; p++)
        for (int i = 0; i < plan->piece[p].n; i++) {
            const struct op *op = &plan->list->op[plan->piece[p].first + i];
            for (int k = 0; k < op->n_weight; k++)
                if (op->weight[k] == w) return plan->device[plan->piece[p].device]->name;
        }
    return "nobody";
}

static void tensors_go_where_they_are_sent(void **state)
{
    static const struct {
        const char *device, *list, *down0, *up0, *down1;
    } cases[] = {{"cpu,cpu-ref", "ffn_down=cpu-ref", "cpu-ref", "cpu", "cpu-ref"},
        {"cpu,cpu-ref", "blk\\.0\\.ffn_.*=CPU-REF", "cpu-ref", "cpu-ref", "cpu"},
        {"cpu,cpu-ref", "blk\\.1=cpu,ffn_(up|gate|down)=cpu-ref", "cpu-ref", "cpu-ref", "cpu"},
        {"cpu,cpu-ref", "exps=cpu-ref", "cpu", "cpu", "cpu"}, {"npu-sim,cpu", "ffn_down=cpu", "cpu", "npu-sim", "cpu"},
        {"cpu:0,cpu:0", "blk\\.0\\.ffn_down=cpu:0", "cpu:0", "cpu:0", "cpu:0"}};
    struct lutra_row row = {.token = 3, .seq = 0, .parent = -1, .want = LUTRA_WANT_LOGITS};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        OK(open_with(&f, cases[i].device, cases[i].list, err));
        assert_string_equal(device_of(&f, weight_named(&f, "blk.0.ffn_down.weight")), cases[i].down0);
        assert_string_equal(device_of(&f, weight_named(&f, "blk.0.ffn_up.weight")), cases[i].up0);
        assert_string_equal(device_of(&f, weight_named(&f, "blk.1.ffn_down.weight")), cases[i].down1);
        fixture_session(&f, 1, 64);
        OK(lutra_seq_open(f.s, 0, &row.seq, err));
        OK(lutra_forward(f.s, &row, 1, sizeof row, err));
        for (int k = 0; k < 8; k++) assert_true(isfinite(lutra_forward_result(f.s, 0)->logits[k]));
        fixture_close(&f);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *list, *says;
    } bad[] = {{"ffn", "'ffn' is no PATTERN=DEVICE"}, {"=cpu", "'=cpu'"}, {"ffn=", "'ffn='"},
        {"ffn=gpu", "(cpu, cpu-ref)"}, {"ffn(=cpu", "no regular expression"}, {"ffn=cpu,", "'' is no"},
        {"attn_q=cpu,attn_k=cpu-ref", "attn_"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lutra_error why = {0};
        struct fixture f;
        assert_true(open_with(&f, "cpu,cpu-ref", bad[i].list, &why) < 0);
        if (!strstr(why.what, bad[i].says)) fail_msg("%s: %s", bad[i].list, why.what);
        assert_null(f.model);
        lutra_runtime_close(&f.rt);
        remove(f.path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_go_where_they_are_sent), cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
