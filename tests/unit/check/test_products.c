/* SPDX-License-Identifier: MIT
 *
 * Products and texts that are right pass on every device; a damaged copy of a weight in memory is named.
 */
#include "unit/engine/engine_fixture.h"

#include "check/check_impl.h"
#include "engine/model.h"
#include "ops/op.h"
#include "weights/packed.h"

struct heard {
    int n;
    char part[16][16], what[16][400];
};

static void on_found(void *user, const char *part, const char *what)
{
    struct heard *h = user;
    if (h->n < 16) {
        snprintf(h->part[h->n], sizeof h->part[0], "%s", part);
        snprintf(h->what[h->n], sizeof h->what[0], "%s", what);
    }
    h->n++;
}

static void say(void *user, const char *part, const char *what)
{
    (void)user;
    print_message("%s: %s\n", part, what);
}

static int check(struct fixture *f, struct heard *h)
{
    struct lutra_check_settings set;
    int n;
    memset(h, 0, sizeof *h);
    lutra_check_settings_init(&set, sizeof set);
    set.found = on_found;
    set.user = h;
    set.quick = SANITIZED;
    OK(lutra_check_model(f->model, f->s, &set, &n, err));
    assert_int_equal(n, h->n);
    return n;
}

static void right_ones_pass(void **state)
{
    (void)state;
    static const char *const types[] = {"F32", "Q4_0", "Q4_K", "TQ2_0"};
    struct fixture f;
    struct heard h;
    for (int i = 0; i < 4; i++) {
        fixture_open(&f, "tiny-gemma2", types[i], 2);
        fixture_session(&f, 6, 128);
        if (check(&f, &h)) fail_msg("%s: %s: %s", types[i], h.part[0], h.what[0]);
        fixture_close(&f);
    }
    static const char *const experts[] = {"tiny-qwen3moe", "tiny-gpt-oss", "tiny-gemma4-moe"};
    for (int i = 0; i < 3; i++) {
        fixture_open(&f, experts[i], i == 1 ? "MXFP4" : "Q4_K", 2);
        fixture_session(&f, 6, 128);
        if (check(&f, &h)) fail_msg("%s: %s: %s", experts[i], h.part[0], h.what[0]);
        fixture_close(&f);
    }
}

/* Some bytes of what the device has packed for the first outputs of such a product. */
static void damage_of(const char *shape, enum op_kind kind)
{
    struct fixture f;
    struct heard h;
    fixture_open(&f, shape, "Q8_0", 2);
    fixture_session(&f, 6, 128);
    const struct op_list *list = model_ops(f.model->model);
    struct weight *w = NULL;
    for (int i = 0; i < list->n_op && !w; i++)
        if (list->op[i].kind == kind) w = list->op[i].weight[0];
    struct packed_view view;
    assert_true(packed_view_of(w, &view));
    uint8_t *bytes = (uint8_t *)view.data;
    for (size_t i = 0; i < (w->n_expert ? view.bytes / (size_t)w->n_expert : 512); i++) bytes[i] ^= 0x55;
    assert_true(check(&f, &h) >= 1);
    assert_string_equal(h.part[0], "products");
    assert_non_null(strstr(h.what[0], w->tensor.name));
    assert_non_null(strstr(h.what[0], "is off by"));
    fixture_close(&f);
}

static void damage_is_named(void **state)
{
    (void)state;
    damage_of("tiny-qwen2", OP_MATMUL);
    damage_of("tiny-qwen3moe", OP_EXPERTS);
}

/* One row in so many once more by the reference kernels: near, on models that attend and others, and what is packed
 * wrong is told. */
static void a_shadow_is_near(void **state)
{
    (void)state;
    static const char *const models[][2] = {
        {"tiny-llama", "F32"}, {"tiny-qwen2", "Q4_0"}, {"tiny-qwen35", "Q8_0"}, {"tiny-gemma4-moe", "Q4_0"}};
    struct fixture f;
    struct lutra_check_settings set;
    struct heard h;
    int n;
    for (int i = 0; i < (SANITIZED ? 2 : 4); i++)
        for (int wrong = 0; wrong < 2; wrong++) {
            memset(&h, 0, sizeof h);
            fixture_open(&f, models[i][0], models[i][1], 2);
            fixture_session(&f, 6, 128);
            struct weight *w = NULL;
            const struct op_list *list = model_ops(f.model->model);
            for (int k = 0; k < list->n_op && !w; k++)
                if (list->op[k].kind == OP_MATMUL && list->op[k].layer == 1) w = list->op[k].weight[0];
            struct packed_view view;
            assert_true(packed_view_of(w, &view));
            for (size_t k = 0; wrong && k < view.bytes; k += 3) ((uint8_t *)view.data)[k] ^= 0x55;
            struct checker c = {.part = "shadow"};
            lutra_check_settings_init(&set, sizeof set);
            set.shadow = 16;
            set.found = on_found;
            set.passed = say;
            set.user = &h;
            c.set = set;
            OK(check_shadow(&c, f.model, f.s, err));
            n = c.n_found;
            if (n != wrong) fail_msg("%s, %s: %d found: %s", models[i][0], models[i][1], n, h.what[0]);
            fixture_close(&f);
        }
}

static int give_up(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return ++*(int *)user == 2;
}

static void it_can_be_cancelled(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_check_settings set;
    struct lutra_error why;
    int n = 0, asked = 0;
    fixture_open(&f, "tiny-qwen2", "Q8_0", 2);
    fixture_session(&f, 6, 128);
    lutra_check_settings_init(&set, sizeof set);
    set.progress = give_up;
    set.progress_user = &asked;
    assert_int_equal(lutra_check_model(f.model, f.s, &set, &n, &why), LUTRA_E_CANCELLED);
    asked = 0;
    assert_int_equal(lutra_check_file(f.path, &set, &n, &why), LUTRA_E_CANCELLED);
    assert_int_equal(lutra_check_model(NULL, f.s, &set, &n, &why), LUTRA_E_ARGUMENT);
    assert_true(lutra_check_file("/nowhere", &set, &n, &why) < 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_ones_pass),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(a_shadow_is_near),
        cmocka_unit_test(it_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
