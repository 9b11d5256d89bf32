/* SPDX-License-Identifier: MIT
 *
 * lutra-bench-match [TOKENS]: where the end of a text of 32,768 tokens stood before, by a scan of its tokens
 * (draft_matches) and by a suffix automaton (tests/suffix_automaton.h), with what the automaton takes to build, to keep
 * and to fork.  Processor time, in turns, medians of 9.  Measured.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "decode/speculate/drafter_impl.h"
#include "../median.h"
#include "suffix_automaton.h"

enum { ROUNDS = 9, PASSES = 256, CAP = 16, ROOM = 32, TOKENS_MOST = 1 << 20 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Words by rank as in real texts (the k-th is 1/k as frequent), every copy_in-th of them the beginning of a stretch
 * that stood there before; 0: none. */
static void write_text(int32_t *token, int n, int copy_in)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0, from = 0, left = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t kinds = 1 + (x >> 20) % 30000;
        if (left == 0 && copy_in && i > 0 && x % (uint64_t)copy_in == 0)
            from = (int)((x >> 32) % (uint64_t)i), left = 8 + (int)(x % 40);
        token[i] = left > 0 ? token[from++] : (int32_t)((x >> 40) % kinds);
        left -= left > 0;
    }
}

int main(int argc, char **argv)
{
    static const int copies[] = {0, 100, 20};
    static double scan[ROUNDS], push[ROUNDS], build[ROUNDS], fork[ROUNDS];
    int n = argc > 1 ? atoi(argv[1]) : 32768, other = 0;
    if (n < 1 || n > TOKENS_MOST) return fprintf(stderr, "1 to %d tokens\n", TOKENS_MOST), 2;
    int32_t *token = calloc((size_t)n + PASSES, sizeof *token);
    for (int kind = 0; kind < 3; kind++) {
        size_t bytes = 0;
        write_text(token, n + PASSES, copies[kind]);
        for (int round = 0; round < ROUNDS; round++) {
            struct automaton a;
            int end[2][ROOM], len[2] = {0}, got[2] = {0};
            if (!automaton_open(&a, CAP, n + PASSES)) return fprintf(stderr, "no memory\n"), 1;
            double start = now_us();
            for (int i = 0; i < n; i++) automaton_push(&a, token[i]);
            build[round] = now_us() - start;
            start = now_us();
            for (int i = n; i < n + PASSES; i++) got[0] = draft_matches(token, i + 1, CAP, ROOM, end[0], &len[0]);
            scan[round] = (now_us() - start) / PASSES;
            start = now_us();
            for (int i = n; i < n + PASSES; i++) {
                automaton_push(&a, token[i]);
                got[1] = automaton_matches(&a, ROOM, end[1], &len[1]);
            }
            push[round] = (now_us() - start) / PASSES;
            other += got[0] != got[1] || len[0] != len[1];
            bytes = automaton_bytes(&a);
            char *copy = malloc(bytes);
            if (!copy) return fprintf(stderr, "no memory\n"), 1;
            memset(copy, 1, bytes);
            size_t n_state = (size_t)a.n_state * sizeof *a.state, n_edge = (size_t)a.n_edge * sizeof *a.edge;
            start = now_us();
            memcpy(copy, a.state, n_state);
            memcpy(copy + n_state, a.edge, n_edge);
            memcpy(copy + n_state + n_edge, a.slot, bytes - n_state - n_edge);
            fork[round] = now_us() - start;
            other += copy[bytes - 1] == 1;
            free(copy);
            automaton_close(&a);
        }
        printf("%d tokens, a stretch of its own at every %d-th: scan %.2f us a pass; automaton %.2f, %.0f to build, "
               "%.0f to copy, %.1f MB\n",
            n, copies[kind], median(scan, ROUNDS), median(push, ROUNDS), median(build, ROUNDS), median(fork, ROUNDS),
            (double)bytes * 1e-6);
    }
    free(token);
    return other > 0;
}
