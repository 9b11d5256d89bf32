/* SPDX-License-Identifier: MIT
 *
 * Search of a store: times (measured, wall clock and processor), and the share of queries whose best five are those of
 * FTS5's own bm25() (counted).
 *
 *     lutra-rag-find STORE [nocheck]
 *
 * The queries: common English words alone, questions of common words, and words of chunks drawn from the store.
 */
#include <stdio.h>
#include <time.h>

#include "rag/query.h"
#include "rag/rag_impl.h"

enum { N_DRAWN = 300, N_MAX = 600, TOP = 5, QUERY_BYTES = 256, SLOWEST = 5 };

static const char *const common[] = {"the", "of", "and", "to", "a", "in", "is", "for", "be", "this", "it", "that",
    "with", "as", "on", "not", "are", "or", "by", "can", "if", "from", "an", "will", "you", "at", "which", "have",
    "when", "all", "has", "file", "function", "value", "used", "name", "type", "one", "may", "should", "the of",
    "to the", "is not", "in this file", "how do I use this", "what is the default value of it",
    "which one of these should be used and when", "the quick way to do all of this",
    "can you tell me how to change the name of a file", "what does it mean if the value is not set",
    "how to get all of the names from a table in the order that they were added",
    "why is this function not used with the other type",
    "is there a way to see which options are set and which are not",
    "where can I find the list of all the things that have been changed in this version",
    "how to change the default file permissions", "how does the kernel map pages of memory for a device",
    "what is the difference between a list and a tuple", "how to create an index on a table with many columns",
    "how do I undo the last commit", "how to read a file line by line", "convert a string to an integer",
    "how to handle errors in a transaction", "what happens when the disk is full",
    "regular expression that matches a date"};
enum { N_COMMON = sizeof common / sizeof *common };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Those that took the processor longest. */
static void print_slowest(char (*query)[QUERY_BYTES], const double *cpu, int n)
{
    double least = 0;
    for (int round = 0; round < SLOWEST; round++) {
        int worst = -1;
        for (int i = 0; i < n; i++)
            if ((round == 0 || cpu[i] < least) && (worst < 0 || cpu[i] > cpu[worst])) worst = i;
        if (worst < 0) return;
        least = cpu[worst];
        printf("  %7.2f ms  %s\n", least, query[worst]);
    }
}

static void print_times(const char *what, double *ms, double *cpu, int n)
{
    int p99 = (n * 99 + 99) / 100 - 1;
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    printf("%-28s n %3d  p50 %7.2f ms  p99 %7.2f ms  most %7.2f ms", what, n, ms[n / 2], ms[p99], ms[n - 1]);
    if (cpu) qsort(cpu, (size_t)n, sizeof *cpu, by_value);
    if (cpu) printf("  of the processor: p50 %7.2f ms  p99 %7.2f ms  most %7.2f ms", cpu[n / 2], cpu[p99], cpu[n - 1]);
    printf("\n");
}

/* Three to ten words of a chunk, one after another. */
static void draw(lutra_store *s, uint64_t *state, int64_t n_chunk, char out[QUERY_BYTES])
{
    sqlite3_stmt *stmt = NULL;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    out[0] = 0;
    if (sql_prepare(s, &stmt, "SELECT text FROM chunk WHERE id >= ?1 LIMIT 1", NULL) < 0) return;
    sqlite3_bind_int64(stmt, 1, (int64_t)((*state >> 20) % (uint64_t)n_chunk));
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        char *copy = strdup((const char *)sqlite3_column_text(stmt, 0)), *at = NULL;
        int skip = (int)(*state >> 40) % 20, want = 3 + (int)(*state >> 50) % 8;
        for (char *w = strtok_r(copy, " \n\t", &at); w && want > 0; w = strtok_r(NULL, " \n\t", &at)) {
            if (skip-- > 0) continue;
            if (strlen(out) + strlen(w) + 2 > QUERY_BYTES) break;
            strcat(strcat(out, *out ? " " : ""), w);
            want--;
        }
        free(copy);
    }
    sqlite3_finalize(stmt);
}

/* Are the best five those of bm25()?  *ms: what FTS5 took. */
static bool agrees(lutra_store *s, const char *text, const lutra_passages *p, double *ms)
{
    struct query q;
    struct text expression = {0};
    sqlite3_stmt *stmt = NULL;
    bool same = query_read(&q, text, strlen(text));
    for (int i = 0; i < q.n; i++) {
        if (i) text_add(&expression, " OR ", 4);
        text_add(&expression, q.text.bytes + q.phrase[i], strlen(q.text.bytes + q.phrase[i]));
    }
    double start = now_ms();
    if (q.n && sql_prepare(s, &stmt,
                   "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY bm25(words), rowid LIMIT ?2", NULL) == 0) {
        sqlite3_bind_text(stmt, 1, expression.bytes, -1, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 2, TOP);
        int i = 0;
        for (; sqlite3_step(stmt) == SQLITE_ROW; i++)
            same = same && i < p->n && p->found[i].public.chunk == sqlite3_column_int64(stmt, 0);
        same = same && i == p->n;
    }
    *ms = now_ms() - start;
    sqlite3_finalize(stmt);
    text_fini(&expression);
    query_fini(&q);
    return same;
}

int main(int argc, char **argv)
{
    static char query[N_MAX][QUERY_BYTES];
    static double warm[N_MAX], fts[N_MAX], cpu[N_MAX];
    struct lutra_error err = {0};
    lutra_store *s = NULL;
    uint64_t state = 1;
    int64_t n_chunk = 0;
    int n = 0, n_same = 0;
    bool check = argc == 2;
    if (argc < 2 || lutra_store_open(&s, argv[1], NULL, &err) < 0 ||
        sql_number(s, "SELECT count(*) FROM chunk", &n_chunk, &err) < 0) {
        fprintf(stderr, "usage: lutra-rag-find STORE [nocheck]; %s\n", err.what);
        return 1;
    }
    for (; n < N_COMMON; n++) snprintf(query[n], QUERY_BYTES, "%s", common[n]);
    for (int i = 0; i < N_DRAWN; i++) draw(s, &state, n_chunk, query[n++]);
    printf("%lld chunks, SQLite %s\n", (long long)n_chunk, sqlite3_libversion());
    for (int round = 0; round < 2; round++) {
        lutra_store_close(&s);
        if (lutra_store_open(&s, argv[1], NULL, &err) < 0) return 1;
        for (int i = 0; i < n; i++) {
            lutra_passages *p = NULL;
            double start = now_ms(), start_cpu = cpu_ms();
            if (lutra_store_find(s, query[i], strlen(query[i]), TOP, &p, &err) < 0) return 1;
            warm[i] = now_ms() - start;
            cpu[i] = cpu_ms() - start_cpu;
            if (i == 0) printf("first search (reads the lengths) %.1f ms, %.1f of the processor\n", warm[i], cpu[i]);
            if (check && round == 1) {
                bool same = agrees(s, query[i], p, &fts[i]);
                n_same += same;
                if (!same) printf("differs: %s\n", query[i]);
            }
            lutra_passages_close(&p);
        }
        print_slowest(query, cpu, n);
        print_times("each query once, one store", warm, cpu, n);
    }
    double *alone = warm;
    for (int i = 0; i < n; i++) { /* nothing kept but the lengths */
        lutra_passages *p = NULL;
        word_cache_free(&s->words);
        if (lutra_store_find(s, "zzzzqqqq", 8, TOP, &p, &err) < 0) return 1;
        lutra_passages_close(&p);
        double start = now_ms(), start_cpu = cpu_ms();
        if (lutra_store_find(s, query[i], strlen(query[i]), TOP, &p, &err) < 0) return 1;
        alone[i] = now_ms() - start;
        cpu[i] = cpu_ms() - start_cpu;
        lutra_passages_close(&p);
    }
    print_times("no word kept", alone, cpu, n);
    if (check) print_times("FTS5's ORDER BY bm25()", fts, NULL, n);
    if (check) printf("best %d equal: %d of %d\n", TOP, n_same, n);
    lutra_store_close(&s);
    return 0;
}
