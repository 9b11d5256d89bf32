/* SPDX-License-Identifier: MIT
 *
 * The room of a pass, and the order of its sources.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/source.h"

enum { MOST = 200, VOCAB = 50, N_PROMPT = 150 };

static struct row row[MOST];
static struct row_tip tip[MOST];

static struct pass begin(struct batch *batch, int bulk, int rows, int outs, int drafts)
{
    struct pass pass;
    *batch = (struct batch){.row = row, .bulk = bulk};
    pass_begin(&pass, batch, tip, VOCAB, (struct row_room){rows, outs, drafts});
    return pass;
}

static int tip_of(struct pass *pass, int seq, int pos, int max_tok)
{
    return pass_tip(
        pass, (struct row){.token = 1, .pos = pos, .seq = seq, .parent = -1}, (struct row_tip){.max_tok = max_tok});
}

/* Samples first, any drafts behind them, a prompt: nothing goes beyond its room, and a block of the prompt goes on. */
static void nothing_goes_beyond_its_room(void **state)
{
    (void)state;
    static int32_t prompt[N_PROMPT];
    srand(3);
    for (int trial = 0; trial < 3000; trial++) {
        struct batch b;
        int rows = 1 + rand() % MOST, outs = 1 + rand() % rows, drafts = rand() % 40, n_seq = 1 + rand() % 12;
        int bulk = rows >= n_seq + 32 && rand() % 2 ? 32 : 0, n_tip = 0, n_draft = 0, n_out = 0;
        struct pass pass = begin(&b, bulk, rows, outs, drafts);
        while (n_tip < n_seq && tip_of(&pass, n_tip, 10, 20) >= 0) n_tip++;
        assert_int_equal(n_tip, outs < n_seq ? outs : n_seq);
        for (int i = 0; i < 100; i++) {
            struct row_tip *t = &tip[rand() % n_tip];
            int32_t parent = rand() % b.n_row, token = rand() % VOCAB, r = pass_draft(&pass, t, parent, token);
            if (row[parent].seq != row[t->row].seq) {
                assert_int_equal(r, LUTRA_E_ARGUMENT);
            } else if (r >= 0) {
                assert_true(row[r].parent == parent && row[r].pos == row[parent].pos + 1 && row[r].pos < 20);
                assert_int_equal(pass_child(&pass, parent, token), r);
                assert_int_equal(pass_draft(&pass, t, parent, token), r);
            }
        }
        struct sequence q = {.id = n_seq, .token = prompt, .n_token = N_PROMPT, .n_prompt = N_PROMPT, .n_done = 64};
        int before = b.n_row, done = q.n_done, n = pass_text(&pass, &q, MOST, false);
        for (int r = 0; r < b.n_row; r++) {
            n_out += (row[r].want & WANT_ALL) != 0;
            n_draft += (row[r].want & ROW_DRAFT) != 0;
        }
        assert_true(b.n_row <= rows && n_out <= outs && n_draft <= drafts && b.n_row == before + n);
        assert_true(pass.left.rows == rows - b.n_row && pass.left.outs == outs - n_out);
        assert_true(n_draft == 0 || (n >= (bulk ? bulk : 1)));
        assert_true(bulk == 0 || (done + n) % bulk == 0 || done + n > 128 || n < bulk);
    }
}

/* What a sample has said behind its prompt is a text but for the last token, which is left to its tip; only rows of the
 * prompt may be bulk rows. */
static void the_last_token_is_left_to_a_tip(void **state)
{
    (void)state;
    static int32_t token[N_PROMPT + 4];
    for (int said = 0; said < 4; said++)
        for (int done = 0; done < N_PROMPT; done += 17) {
            struct batch b;
            struct pass pass = begin(&b, 0, MOST, MOST, 0);
            struct sequence q = {
                .id = 1, .token = token, .n_token = N_PROMPT + said, .n_prompt = N_PROMPT, .n_done = done};
            int n = 0, more;
            while ((more = pass_text(&pass, &q, MOST, false)) > 0) {
                for (int r = 0; r < more; r++) {
                    const struct row *at = &row[b.n_row - more + r];
                    bool last = at->pos == N_PROMPT - 1;
                    assert_int_equal(at->pos, q.n_done + r);
                    assert_int_equal(at->want & WANT_ALL, last ? WANT_DRAW : WANT_NOTHING);
                    assert_int_equal(at->want & ROW_BULK, at->pos < N_PROMPT ? ROW_BULK : 0);
                }
                q.n_done += more;
                n += more;
                pass = begin(&b, 0, MOST, MOST, 0);
            }
            assert_int_equal(n, N_PROMPT - done + (said ? said - 1 : 0));
            assert_int_equal(sequence_left(&q), said ? 1 : 0);
        }
}

static void wrong_drafts_are_refused(void **state)
{
    (void)state;
    struct batch b;
    struct pass pass = begin(&b, 0, 20, 20, 3);
    int32_t a = tip_of(&pass, 0, 5, 8), other = tip_of(&pass, 1, 5, 8);
    assert_int_equal(pass_draft(&pass, &tip[0], a, -1), LUTRA_E_ARGUMENT);
    assert_int_equal(pass_draft(&pass, &tip[0], a, VOCAB), LUTRA_E_ARGUMENT);
    assert_int_equal(pass_draft(&pass, &tip[0], other, 1), LUTRA_E_ARGUMENT);
    assert_int_equal(pass_draft(&pass, &tip[0], 2, 1), LUTRA_E_ARGUMENT);
    assert_int_equal(pass_draft(&pass, &tip[0], -1, 1), LUTRA_E_ARGUMENT);
    int32_t x = pass_draft(&pass, &tip[0], a, 1), y = pass_draft(&pass, &tip[0], x, 1);
    assert_true(x == 2 && y == 3);
    assert_int_equal(pass_draft(&pass, &tip[0], y, 1), LUTRA_E_CTX_FULL); /* position 8 of 8 */
    assert_int_equal(pass_draft(&pass, &tip[0], x, 2), 4);
    assert_int_equal(pass_draft(&pass, &tip[0], x, 3), LUTRA_E_BUSY);
    assert_int_equal(b.n_row, 5);
    assert_int_equal(pass_child(&pass, x, 2), 4);
    assert_int_equal(pass_child(&pass, x, 3), -1);
    assert_int_equal(pass_child(&pass, other, 1), -1);
}

/* Rows of a tree want the best and a list of which each has the first part; where it is full, all logits, and so do
 * those below. */
static void drafts_want_what_draws_behind_them_need(void **state)
{
    (void)state;
    struct batch b;
    struct pass pass = begin(&b, 0, 20, 20, 20);
    int32_t listed[ROW_LISTED] = {7, 8};
    for (int grows = 0; grows < 2; grows++) {
        pass = begin(&b, 0, 20, 20, 20);
        struct row_tip t = {.max_tok = 100, .list = {listed, 2, 4, grows}};
        assert_int_equal(pass_tip(&pass, (struct row){1, 5, 0, -1, 0, 0, NULL, NULL, NULL}, t), 0);
        const int32_t guess[][2] = {{0, 30}, {1, 8}, {2, 31}, {0, 30}, {2, 32}, {4, 30}, {1, 31}};
        for (int i = 0; i < 7; i++) assert_true(pass_draft(&pass, &tip[0], guess[i][0], guess[i][1]) > 0);
        const int n_listed[2][7] = {{2, 2, 2, 2, 2, 2, 2}, {2, 3, 3, 4, 0, 0, 4}};
        assert_int_equal(b.n_row, 7);
        for (int r = 0; r < 7; r++) {
            bool all = n_listed[grows][r] == 0;
            assert_int_equal(row[r].want & WANT_ALL, all ? WANT_DRAW : WANT_DRAW_BEST);
            assert_int_equal(row[r].n_listed, n_listed[grows][r]);
            assert_true(all ? !row[r].listed : row[r].listed == listed);
        }
    }
    assert_memory_equal(listed, ((int32_t[]){7, 8, 30, 31}), 4 * sizeof *listed);
    pass = begin(&b, 0, 20, 20, 20);
    tip_of(&pass, 0, 5, 100); /* no list */
    assert_true(row[0].want == WANT_DRAW && row[pass_draft(&pass, &tip[0], 0, 3)].want == (WANT_DRAW | ROW_DRAFT));
}

static char heard[16];

static void offer(void *self, struct pass *pass)
{
    (void)pass;
    strcat(heard, self);
}

static int take(void *self, const struct pass *pass, struct lutra_error *err)
{
    (void)pass;
    strcat(heard, self);
    return *(char *)self == 'x' ? lutra_fail(err, LUTRA_E_INTERNAL, "x") : 0;
}

static void sources_take_turns_by_rank(void **state)
{
    (void)state;
    static const struct row_source_ops samples = {"samples", SOURCE_SAMPLES, offer, take},
                                       drafts = {"drafts", SOURCE_DRAFTS, offer, take},
                                       prompts = {"prompts", SOURCE_PROMPTS, offer, NULL},
                                       search = {"search", SOURCE_SEARCH, NULL, take};
    struct row_source s = {&samples, "s", NULL}, p = {&prompts, "p", NULL}, d = {&drafts, "d", NULL},
                      e = {&drafts, "e", NULL}, x = {&search, "x", NULL}, y = {&search, "y", NULL}, *list = NULL;
    struct row_source *const all[] = {&p, &x, &d, &s, &y, &e};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) source_add(&list, all[i]);
    sources_offer(list, NULL);
    assert_string_equal(heard, "sdep");
    *heard = 0;
    assert_int_equal(sources_take(list, NULL, NULL), LUTRA_E_INTERNAL);
    assert_string_equal(heard, "sdex");
    source_remove(&list, &d);
    source_remove(&list, &x);
    source_remove(&list, &x);
    *heard = 0;
    assert_int_equal(sources_take(list, NULL, NULL), 0);
    assert_string_equal(heard, "sey");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_beyond_its_room),
        cmocka_unit_test(the_last_token_is_left_to_a_tip),
        cmocka_unit_test(wrong_drafts_are_refused),
        cmocka_unit_test(drafts_want_what_draws_behind_them_need),
        cmocka_unit_test(sources_take_turns_by_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
