/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static double seconds_since(uint64_t start_us)
{
    return (double)(now_us() - start_us) * 1e-6;
}

/* Prompts of all sequences (or one that they share), timed; then their decoding, timed. */
static int measure(struct bench_pass *p, struct batched_test *t, int32_t *seq, int *n_open, struct lutra_error *err)
{
    lutra_session *s = p->e->session;
    int rc = lutra_seq_open(s, t->pp + t->tg, &seq[0], err);
    if (rc < 0) return rc;
    *n_open = 1;
    uint64_t start = now_us();
    if ((rc = bench_prompt(p, seq[0], t->pp, err)) < 0) return rc;
    for (int i = 1; i < t->pl; i++) {
        rc = t->shared ? lutra_seq_fork(s, seq[0], -1, t->pp + t->tg, &seq[i], err)
                       : lutra_seq_open(s, t->pp + t->tg, &seq[i], err);
        if (rc < 0) return rc;
        *n_open = i + 1;
        if (!t->shared && (rc = bench_prompt(p, seq[i], t->pp, err)) < 0) return rc;
    }
    t->t_pp = seconds_since(start);
    lutra_session_stats_reset(s);
    start = now_us();
    rc = bench_decode(p, seq, t->pl, t->tg, err);
    t->t_tg = seconds_since(start);
    lutra_session_stats_get(s, &t->stats, sizeof t->stats);
    return rc;
}

static void print_batched(FILE *out, const char *format, const struct batched_test *t)
{
    int n_pp = t->shared ? t->pp : t->pl * t->pp, n_tg = t->pl * t->tg, n_kv = n_pp + n_tg;
    double total = t->t_pp + t->t_tg;
    double s_pp = t->t_pp > 0 ? n_pp / t->t_pp : 0, s_tg = t->t_tg > 0 ? n_tg / t->t_tg : 0;
    double s = total > 0 ? n_kv / total : 0;
    struct bench_rates r = bench_rates(&t->stats, t->t_tg, &t->peaks, t->file_type);
    char gmac[32], gb[32];
    if (strcmp(format, "md") == 0) {
        fprintf(out, "|%6d | %6d | %4d | %6d | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f | %15s | %13s |\n", t->pp,
            t->tg, t->pl, n_kv, t->t_pp, s_pp, t->t_tg, s_tg, total, s, bench_rate_text(r.gmac_s, r.gmac_share, gmac),
            bench_rate_text(r.gb_s, r.gb_share, gb));
    } else if (strcmp(format, "csv") == 0) {
        fprintf(out, "%d,%d,%d,%d,%.6f,%.4f,%.6f,%.4f,%.6f,%.4f,%.4f,%.4f,%.4f,%.4f\n", t->pp, t->tg, t->pl, n_kv,
            t->t_pp, s_pp, t->t_tg, s_tg, total, s, r.gmac_s, r.gmac_share, r.gb_s, r.gb_share);
    } else {
        json_t *j = json_pack("{s:b, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, "
                              "s:f, s:f, s:f, s:f}",
            "is_pp_shared", t->shared, "pp", t->pp, "tg", t->tg, "pl", t->pl, "n_kv", n_kv, "t_pp", t->t_pp, "speed_pp",
            s_pp, "t_tg", t->t_tg, "speed_tg", s_tg, "t", total, "speed", s, "tg_weight_bytes",
            (json_int_t)t->stats.weight_bytes, "tg_cache_bytes", (json_int_t)t->stats.cache_bytes, "tg_rows_valid",
            (json_int_t)t->stats.rows_valid, "tg_rows_underutilized", (json_int_t)t->stats.rows_underutilized,
            "tg_passes", (json_int_t)t->stats.n_pass, "tg_gmac_s", r.gmac_s, "tg_gmac_share", r.gmac_share, "tg_gb_s",
            r.gb_s, "tg_gb_share", r.gb_share);
        bench_add_peaks(j, &t->peaks);
        json_dumpf(j, out, JSON_COMPACT);
        fputc('\n', out);
        json_decref(j);
    }
    fflush(out);
}

static void print_header(FILE *out, const char *format)
{
    if (strcmp(format, "csv") == 0)
        fputs("pp,tg,b,n_kv,t_pp_s,s_pp,t_tg_s,s_tg,t_s,s,tg_gmac_s,tg_gmac_share,tg_gb_s,tg_gb_share\n", out);
    if (strcmp(format, "md") != 0) return;
    fputs("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |       "
          "TG GMAC/s |       TG GB/s |\n"
          "|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|--------"
          "---------|---------------|\n",
        out);
}

struct grid {
    struct bench_values pp, tg, pl;
};

static int64_t largest(const struct bench_values *v)
{
    int64_t most = 1;
    for (int i = 0; i < v->n; i++)
        if (v->v[i] > most) most = v->v[i];
    return most;
}

static int run_grid(struct engine *e, const struct bench_options *o, const struct grid *g)
{
    struct bench_pass pass;
    struct lutra_error err = {0};
    int code = 0;
    int32_t *seq = get_memory((size_t)largest(&g->pl) * sizeof *seq);
    bench_pass_init(&pass, e, o->engine.n_batch);
    const struct lutra_peaks peaks = bench_peaks(e, o);
    print_header(stdout, o->format);
    for (int i = -(o->warmup ? 1 : 0); !code && i < g->pp.n * g->tg.n * g->pl.n; i++) {
        int at = i < 0 ? 0 : i, n_open = 0;
        struct batched_test t = {.pp = (int)g->pp.v[at / (g->tg.n * g->pl.n)],
            .tg = (int)g->tg.v[at / g->pl.n % g->tg.n],
            .pl = (int)g->pl.v[at % g->pl.n],
            .shared = o->shared_prompt,
            .file_type = e->info.file_type,
            .peaks = peaks};
        if (i < 0) t.pp = t.pp < 16 ? t.pp : 16, t.tg = 1;
        if (measure(&pass, &t, seq, &n_open, &err) < 0) code = fail_with(&err);
        for (int j = 0; j < n_open; j++) lutra_seq_close(e->session, seq[j]);
        if (!code && i >= 0) print_batched(stdout, o->format, &t);
    }
    if (strcmp(o->format, "md") == 0) bench_print_peaks(stdout, &peaks, lutra_runtime_n_threads(e->runtime));
    bench_pass_free(&pass);
    free(seq);
    return code;
}

int bench_batched(const struct bench_options *o)
{
    struct engine e = {0};
    struct grid g = {0};
    if (bench_parse_values("-npp", o->npp, 1, &g.pp) < 0 || bench_parse_values("-ntg", o->ntg, 1, &g.tg) < 0 ||
        bench_parse_values("-npl", o->npl, 1, &g.pl) < 0)
        return EXIT_USAGE;
    int64_t pp = largest(&g.pp), tg = largest(&g.tg), pl = largest(&g.pl);
    if (pp + tg > 1 << 24 || pl > 4096) {
        say("bench: at most 4096 sequences of 16 million tokens");
        return EXIT_USAGE;
    }
    int code = engine_open(&e, &o->engine, false);
    if (!code) {
        struct lutra_session_settings settings;
        lutra_session_settings_init(&settings, sizeof settings);
        settings.n_ctx = (int)(pp + tg);
        settings.n_seq = (int)pl;
        settings.n_out = (int)(pl < 64 ? 64 : pl);
        code = engine_open_session(&e, &o->engine, settings);
    }
    if (!code) code = run_grid(&e, o, &g);
    engine_close(&e);
    return code;
}
