/* SPDX-License-Identifier: MIT
 *
 * batch_check: each rule refused by the row that breaks it, and the chains and trees that pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/batch.h"

enum { N_VOCAB = 100, MAX_ROWS = 16, BLOCK = 4 };

/* Sequence s has 10 s tokens; only 0..3 exist. */
static int32_t committed(const void *ctx, int32_t seq)
{
    (void)ctx;
    return seq >= 0 && seq < 4 ? 10 * seq : -1;
}

static int check(struct row *rows, int n, struct batch *b, struct lutra_error *err)
{
    static int32_t mark[MAX_ROWS];
    memset(err, 0, sizeof *err);
    *b = (struct batch){.row = rows, .mark = mark, .n_row = n, .bulk = BLOCK};
    return batch_check(b, N_VOCAB, committed, NULL, err);
}

static void expect_good(struct row *rows, int n)
{
    struct batch b;
    struct lutra_error err;
    if (check(rows, n, &b, &err) < 0) fail_msg("%s", err.what);
}

static void a_chain(void **state)
{
    (void)state;
    struct row rows[5];
    for (int i = 0; i < 5; i++) rows[i] = (struct row){.token = i, .pos = 10 + i, .seq = 1, .parent = i - 1};
    expect_good(rows, 5);
}

static void samples(void **state)
{
    (void)state;
    struct row rows[] = {
        {.pos = 10, .seq = 1, .parent = -1}, {.pos = 20, .seq = 2, .parent = -1}, {.pos = 30, .seq = 3, .parent = -1}};
    expect_good(rows, 3);
}

static void a_tree_beside_a_chain(void **state)
{
    (void)state;
    /* 0 - 1 - 2 - 3      and a second sequence 6 - 7
     *       \ 4 - 5                                        */
    struct row rows[] = {
        {.pos = 10, .seq = 1, .parent = -1},
        {.pos = 11, .seq = 1, .parent = 0},
        {.pos = 12, .seq = 1, .parent = 1},
        {.pos = 13, .seq = 1, .parent = 2},
        {.pos = 12, .seq = 1, .parent = 1, .want = ROW_DRAFT},
        {.pos = 13, .seq = 1, .parent = 4, .want = ROW_DRAFT},
        {.pos = 0, .seq = 0, .parent = -1},
        {.pos = 1, .seq = 0, .parent = 6},
    };
    expect_good(rows, 8);
}

static void interleaved_chains(void **state)
{
    (void)state;
    struct row rows[] = {
        {.pos = 10, .seq = 1, .parent = -1},
        {.pos = 20, .seq = 2, .parent = -1},
        {.pos = 11, .seq = 1, .parent = 0},
        {.pos = 21, .seq = 2, .parent = 1},
        {.pos = 22, .seq = 2, .parent = 3},
    };
    expect_good(rows, 5);
}

static void two_roots_of_one_sequence(void **state)
{
    (void)state;
    struct row rows[] = {
        {.pos = 10, .seq = 1, .parent = -1},
        {.pos = 10, .seq = 1, .parent = -1, .want = ROW_DRAFT},
        {.pos = 11, .seq = 1, .parent = 1, .want = ROW_DRAFT},
    };
    expect_good(rows, 3);
}

static void bad_rows_are_named(void **state)
{
    (void)state;
    const struct row good[3] = {
        {.token = 1, .pos = 10, .seq = 1, .parent = -1},
        {.token = 2, .pos = 11, .seq = 1, .parent = 0},
        {.token = 3, .pos = 12, .seq = 1, .parent = 1, .want = WANT_LOGPROB, .n_listed = 1, .listed = (int32_t[]){5}},
    };
    const struct {
        struct row row; /* put in place of row 2 */
        const char *says;
    } cases[] = {
        {{.token = -1, .pos = 12, .seq = 1, .parent = 1}, "token -1"},
        {{.token = N_VOCAB, .pos = 12, .seq = 1, .parent = 1}, "token 100"},
        {{.pos = 12, .seq = 1, .parent = 2}, "parent 2"},
        {{.pos = 12, .seq = 1, .parent = 3}, "parent 3"},
        {{.pos = 12, .seq = 1, .parent = -2}, "parent -2"},
        {{.pos = 12, .seq = 2, .parent = 1}, "sequence 2, but its parent"},
        {{.pos = 13, .seq = 1, .parent = 1}, "position 13"},
        {{.pos = INT32_MIN, .seq = 1, .parent = 1}, "position"},
        {{.pos = 0, .seq = 7, .parent = -1}, "no sequence 7"},
        {{.pos = 12, .seq = 1, .parent = -1}, "does not continue sequence 1"},
        {{.pos = 12, .seq = 1, .parent = 1, .want = 16}, "want"},
        {{.pos = 12, .seq = 1, .parent = 1, .want = WANT_LOGPROB, .n_listed = 2, .listed = (int32_t[]){0, -1}},
            "target token -1"},
        {{.pos = 12, .seq = 1, .parent = 1, .want = WANT_LOGPROB, .n_listed = 1, .listed = (int32_t[]){N_VOCAB}},
            "target token 100"},
        {{.pos = 12, .seq = 1, .parent = 1, .want = WANT_LOGPROB, .n_listed = ROW_LISTED + 1}, "65 listed tokens"},
        {{.pos = 12, .seq = 1, .parent = 1, .want = WANT_LOGPROB, .n_listed = -1}, "-1 listed tokens"},
    };
    struct row rows[3];
    struct batch b;
    struct lutra_error err;
    memcpy(rows, good, sizeof rows);
    assert_int_equal(check(rows, 3, &b, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(rows, good, sizeof rows);
        rows[2] = cases[i].row;
        assert_int_equal(check(rows, 3, &b, &err), LUTRA_E_ARGUMENT);
        assert_int_equal(err.where, 2);
        assert_non_null(strstr(err.what, "row 2"));
        if (!strstr(err.what, cases[i].says)) fail_msg("case %zu says: %s", i, err.what);
    }
}

static void ordinary_rows_form_one_chain(void **state)
{
    (void)state;
    struct row rows[3] = {{.pos = 10, .seq = 1, .parent = -1}, {.pos = 11, .seq = 1, .parent = 0},
        {.pos = 11, .seq = 1, .parent = 0, .want = ROW_DRAFT}};
    struct batch b;
    struct lutra_error err;
    assert_int_equal(check(rows, 3, &b, &err), 0);
    rows[2].want = 0; /* a second ordinary child */
    assert_int_equal(check(rows, 3, &b, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "row 2: a second continuation of row 0"));
    rows[0].want = ROW_DRAFT; /* an ordinary row below a draft */
    assert_int_equal(check(rows, 2, &b, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "row 1: not a draft"));
    struct row roots[2] = {{.pos = 10, .seq = 1, .parent = -1}, {.pos = 10, .seq = 1, .parent = -1}};
    assert_int_equal(check(roots, 2, &b, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "row 1: a second continuation of sequence 1"));
}

/* Which of the rows are bulk, as letters: "b" or ".". */
static void expect_bulk(struct row *rows, int n, const char *want)
{
    struct batch b;
    struct lutra_error err;
    char got[MAX_ROWS + 1] = "";
    if (check(rows, n, &b, &err) < 0) fail_msg("%s", err.what);
    for (int i = 0; i < n; i++) got[i] = rows[i].want & ROW_BULK ? 'b' : '.';
    assert_string_equal(got, want);
}

/* n rows of sequence 1 (10 tokens) behind each other. */
static void prompt_rows(struct row *rows, int n)
{
    for (int i = 0; i < n; i++) rows[i] = (struct row){.pos = 10 + i, .seq = 1, .parent = i - 1, .want = ROW_BULK};
}

static void whole_blocks_are_bulk(void **state)
{
    (void)state;
    struct row rows[MAX_ROWS];
    prompt_rows(rows, 12); /* positions 10 to 21; whole: 12 to 15 and 16 to 19 */
    expect_bulk(rows, 12, "..bbbbbbbb..");
    prompt_rows(rows, 9);
    rows[5].want |= WANT_LOGITS; /* the last of its block */
    expect_bulk(rows, 9, "..bbb....");
    prompt_rows(rows, 10);
    rows[4].want |= WANT_HIDDEN; /* in the middle of it */
    expect_bulk(rows, 10, "......bbbb");
    prompt_rows(rows, 10);
    rows[7].want = 0;
    expect_bulk(rows, 10, "..bbbb....");
    prompt_rows(rows, 7); /* another sequence between, and a draft beside */
    rows[6] = (struct row){.pos = 15, .seq = 1, .parent = 5, .want = ROW_BULK};
    rows[5] = rows[4], rows[5].parent = 3, rows[5].pos = 14;
    rows[4] = (struct row){.pos = 20, .seq = 2, .parent = -1, .want = ROW_BULK};
    rows[7] = (struct row){.pos = 13, .seq = 1, .parent = 2, .want = ROW_DRAFT | ROW_BULK};
    expect_bulk(rows, 8, "..bb.bb.");
}

/* Whatever the room, the blocks that are whole in a prompt stay whole in its pieces. */
static void fitting_cuts_no_block(void **state)
{
    (void)state;
    for (int first = 0; first < 6; first++)
        for (int n = 1; n < 14; n++)
            for (int room = BLOCK; room < 14; room++)
                for (int done = 0; done < n;) {
                    int fit = batch_fit(BLOCK, first + done, n - done, room), cut = first + done + fit;
                    assert_in_range(fit, 1, room);
                    int start = cut - cut % BLOCK;
                    if (cut != start && start >= first) assert_true(start + BLOCK > first + n);
                    done += fit;
                }
    assert_int_equal(batch_fit(BLOCK, 8, 10, BLOCK - 1), 0);
    assert_int_equal(batch_fit(BLOCK, 8, 3, 2), 2);
    assert_int_equal(batch_fit(0, 8, 10, 3), 3);
}

static void empty_batch_is_refused(void **state)
{
    (void)state;
    struct row row = {.parent = -1};
    struct batch b;
    struct lutra_error err;
    assert_int_equal(check(&row, 0, &b, &err), LUTRA_E_ARGUMENT);
    assert_int_equal(check(NULL, 1, &b, &err), LUTRA_E_ARGUMENT);
    assert_int_equal(batch_check(&b, N_VOCAB, committed, NULL, NULL), LUTRA_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain),
        cmocka_unit_test(samples),
        cmocka_unit_test(a_tree_beside_a_chain),
        cmocka_unit_test(interleaved_chains),
        cmocka_unit_test(two_roots_of_one_sequence),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(ordinary_rows_form_one_chain),
        cmocka_unit_test(whole_blocks_are_bulk),
        cmocka_unit_test(fitting_cuts_no_block),
        cmocka_unit_test(empty_batch_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
