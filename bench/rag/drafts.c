/* SPDX-License-Identifier: MIT
 *
 * Drafts from a store: opening its segments and asking for drafts (measured, wall clock and processor), bytes per token
 * (counted).
 *
 *     lutra-rag-drafts STORE MODEL
 *
 * Asked behind texts of the store as they are (long matches, single occurrences), behind texts of which every sixth
 * token is another one (short matches, many occurrences), and behind the commonest tokens alone.  The model's weights
 * are not read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lutra.h"
#include "rag/segments.h"

enum { N_ASK = 4000, N_CONTEXT = 64, N_DRAFT = 16 };

enum { WALL, PROCESSOR, N_CLOCK };

static double now_us(int clock)
{
    struct timespec t;
    clock_gettime(clock == WALL ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t state = 1;
static uint64_t roll(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* Tokens from somewhere in the store: of its largest segment. */
static bool draw(const struct segment *s, int32_t *token, int n)
{
    int64_t at = (int64_t)roll((uint64_t)(s->tokens.n - n));
    for (int i = 0; i < n; i++) {
        token[i] = s->tokens.symbol[at + i] - 1;
        if (token[i] < 0) return false;
    }
    return true;
}

static void ask(lutra_drafts *d, const struct segment *s, const char *what, int every, int n_context)
{
    static double us[N_CLOCK][N_ASK];
    int32_t token[N_CONTEXT];
    struct lutra_draft draft[N_DRAFT];
    long n_draft = 0;
    for (int i = 0; i < N_ASK;) {
        if (!draw(s, token, n_context)) continue;
        for (int k = n_context - 1; every && k > 0; k--)
            if (roll((uint64_t)every) == 0 && !draw(s, &token[k], 1)) token[k] = 0;
        struct lutra_draft_tip tip = {.request = i, .token = token, .n_token = n_context};
        double wall = now_us(WALL), processor = now_us(PROCESSOR);
        n_draft += lutra_drafts_guess(d, &tip, draft, N_DRAFT);
        us[PROCESSOR][i] = now_us(PROCESSOR) - processor;
        us[WALL][i++] = now_us(WALL) - wall;
    }
    printf("%-32s %4.1f drafts", what, (double)n_draft / N_ASK);
    for (int c = 0; c < N_CLOCK; c++) {
        qsort(us[c], N_ASK, sizeof **us, by_value);
        printf("%s  p50 %6.1f us  p99 %6.1f us  most %6.1f us",
            c == WALL ? "" : "  of the processor:", us[c][N_ASK / 2], us[c][N_ASK * 99 / 100], us[c][N_ASK - 1]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct lutra_error err = {0};
    lutra_runtime *rt = NULL;
    lutra_model *model = NULL;
    lutra_store *store = NULL;
    lutra_drafts *drafts = NULL;
    struct segments segments;
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    set.vocab_only = true;
    if (argc != 3 || lutra_runtime_open(&rt, NULL, &err) < 0 || lutra_model_open(&model, rt, argv[2], &set, &err) < 0 ||
        lutra_store_open(&store, argv[1], NULL, &err) < 0) {
        fprintf(stderr, "usage: lutra-rag-drafts STORE MODEL; %s\n", err.what);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        double wall = now_us(WALL), processor = now_us(PROCESSOR);
        lutra_drafts_close(&drafts);
        if (lutra_drafts_open(&drafts, store, model, NULL, NULL, &err) < 0) goto fail;
        printf("opened in %.1f ms, %.1f of the processor%s\n", (now_us(WALL) - wall) * 1e-3,
            (now_us(PROCESSOR) - processor) * 1e-3, i ? "" : " (the first time: files may be made)");
    }
    struct lutra_drafts_stats st;
    lutra_drafts_stats_get(drafts, &st, sizeof st);
    printf("%lld texts, %lld tokens, %d segments, %.2f bytes a token\n", (long long)st.n_text, (long long)st.n_tok,
        st.n_segment, (double)st.segment_bytes / (double)st.n_tok);
    if (segments_open(&segments, store, model, NULL, NULL, &err) < 0 || segments.n == 0) goto fail;
    const struct segment *largest = &segments.at[0];
    for (int i = 1; i < segments.n; i++)
        if (segments.at[i].tokens.n > largest->tokens.n) largest = &segments.at[i];
    ask(drafts, largest, "behind texts of the store", 0, N_CONTEXT);
    ask(drafts, largest, "behind texts with other tokens", 6, N_CONTEXT);
    ask(drafts, largest, "behind single tokens", 0, 1);
    segments_close(&segments);
    lutra_drafts_close(&drafts);
    lutra_store_close(&store);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
    return 0;
fail:
    fprintf(stderr, "%s\n", err.what);
    return 1;
}
