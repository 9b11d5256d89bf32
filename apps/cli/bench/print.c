/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void test_name(const struct bench_test *t, char *out, size_t n_out)
{
    char name[64];
    if (t->n_prompt && t->n_gen)
        snprintf(name, sizeof name, "pp%d+tg%d", t->n_prompt, t->n_gen);
    else if (t->n_prompt)
        snprintf(name, sizeof name, "pp%d", t->n_prompt);
    else
        snprintf(name, sizeof name, "tg%d", t->n_gen);
    if (t->n_depth)
        snprintf(out, n_out, "%s @ d%d", name, t->n_depth);
    else
        snprintf(out, n_out, "%s", name);
}

static void model_type(const struct bench_test *t, char *out, size_t n_out)
{
    snprintf(out, n_out, "%s %s", t->info.arch ? t->info.arch : "?", t->info.file_type ? t->info.file_type : "?");
}

void bench_add_peaks(json_t *to, const struct lutra_peaks *p)
{
    json_t *peaks = json_pack("{s:s, s:f, s:f, s:f, s:s, s:f}", "peak_int8_name", p->int8_name ? p->int8_name : "",
        "peak_int8_gmac_s_measured", p->int8_gmac_s, "peak_f32_gmac_s_measured", p->f32_gmac_s,
        "peak_stream_gb_s_measured", p->stream_gb_s, "peak_bf16_name", p->bf16_name ? p->bf16_name : "",
        "peak_bf16_gmac_s_measured", p->bf16_gmac_s);
    json_object_update(to, peaks);
    json_decref(peaks);
}

/* Counts are per repetition. */
static void add_rates(json_t *j, const struct bench_test *t)
{
    double n = t->n_rep ? t->n_rep : 1, seconds = t->avg_ns * n * 1e-9;
    struct bench_rates r = bench_rates(&t->stats, seconds, &t->peaks, t->info.file_type);
    json_t *more = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mac_counted", (double)t->stats.mac / n,
        "weight_bytes_counted", (double)t->stats.weight_bytes / n, "cache_bytes_counted",
        (double)t->stats.cache_bytes / n, "gmac_s", r.gmac_s, "gmac_share", r.gmac_share, "gb_s", r.gb_s, "gb_share",
        r.gb_share);
    json_object_update(j, more);
    bench_add_peaks(j, &t->peaks);
    json_decref(more);
}

static json_t *to_json(const struct bench_test *t)
{
    char type[64], name[96];
    model_type(t, type, sizeof type);
    test_name(t, name, sizeof name);
    json_t *ns = json_array(), *ts = json_array();
    for (int i = 0; i < t->n_rep; i++) {
        json_array_append_new(ns, json_integer((json_int_t)t->sample_ns[i]));
        json_array_append_new(ts, json_real((t->n_prompt + t->n_gen) * 1e9 / (double)t->sample_ns[i]));
    }
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:f, s:f, s:f, "
                  "s:f, s:o, s:o}",
            "build_version", lutra_version(), "cpu_info", t->device, "model_filename", t->model, "model_type", type,
            "model_size", (json_int_t)t->info.file_bytes, "model_n_params", (json_int_t)t->info.n_param, "n_batch",
            t->n_batch, "n_ubatch", t->n_batch, "n_threads", t->n_threads, "type_k", t->type_k, "type_v", t->type_v,
            "n_prompt", t->n_prompt, "n_gen", t->n_gen, "n_depth", t->n_depth, "test", name, "test_time", t->when,
            "avg_ns", t->avg_ns, "stddev_ns", t->stddev_ns, "avg_ts", t->avg_ts, "stddev_ts", t->stddev_ts,
            "samples_ns", ns, "samples_ts", ts);
    add_rates(j, t);
    return j;
}

const char *bench_rate_text(double rate, double share, char out[32])
{
    int n = snprintf(out, 32, "%.1f", rate);
    if (share > 0) snprintf(out + n, 32 - (size_t)n, " (%.0f %%)", 100 * share);
    return out;
}

static void print_md(FILE *out, const struct bench_test *t)
{
    char type[64], name[96], size[32], params[32], speed[64], gmac[32], gb[32], cache[16];
    model_type(t, type, sizeof type);
    test_name(t, name, sizeof name);
    snprintf(cache, sizeof cache, "%s%s%s", t->type_k, strcmp(t->type_k, t->type_v) ? "/" : "",
        strcmp(t->type_k, t->type_v) ? t->type_v : "");
    snprintf(speed, sizeof speed, "%.2f ± %.2f", t->avg_ts, t->stddev_ts);
    struct bench_rates r = bench_rates(&t->stats, t->avg_ns * t->n_rep * 1e-9, &t->peaks, t->info.file_type);
    fprintf(out, "| %-24s | %10s | %10s | %-8s | %7d | %7d | %6s | %16s | %20s | %15s | %13s |\n", type,
        bytes_text((double)t->info.file_bytes, size, sizeof size),
        count_text((double)t->info.n_param, params, sizeof params), "CPU", t->n_threads, t->n_batch, cache, name, speed,
        bench_rate_text(r.gmac_s, r.gmac_share, gmac), bench_rate_text(r.gb_s, r.gb_share, gb));
}

void bench_print_peaks(FILE *out, const struct lutra_peaks *p, int n_threads)
{
    if (!p->int8_name) return;
    fprintf(out,
        "\nGMAC and GB are counted, times measured; shares are of peaks measured in this run on %d thread%s:\n"
        "%s %.0f GMAC/s, f32 fma %.0f GMAC/s, memory %.1f GB/s",
        n_threads, n_threads == 1 ? "" : "s", p->int8_name, p->int8_gmac_s, p->f32_gmac_s, p->stream_gb_s);
    if (p->bf16_name) fprintf(out, ", %s %.0f GMAC/s", p->bf16_name, p->bf16_gmac_s);
    fputc('\n', out);
}

/* A CSV field of text, quoted. */
static void print_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_csv(FILE *out, const struct bench_test *t)
{
    json_t *fields = to_json(t), *value;
    const char *key;
    int i = 0;
    json_object_foreach(fields, key, value)
    {
        if (json_is_array(value)) continue;
        if (i++) fputc(',', out);
        if (json_is_string(value))
            print_quoted(out, json_string_value(value));
        else if (json_is_integer(value))
            fprintf(out, "%lld", (long long)json_integer_value(value));
        else
            fprintf(out, "%.6f", json_real_value(value));
    }
    fputc('\n', out);
    json_decref(fields);
}

void bench_print_begin(FILE *out, const char *format)
{
    if (strcmp(format, "json") == 0) fputs("[\n", out);
    if (strcmp(format, "csv") == 0) {
        struct bench_test empty = {.model = "", .type_k = "", .type_v = "", .device = ""};
        json_t *fields = to_json(&empty), *value;
        const char *key;
        int i = 0;
        json_object_foreach(fields, key, value) if (!json_is_array(value)) fprintf(out, "%s%s", i++ ? "," : "", key);
        fputc('\n', out);
        json_decref(fields);
    }
    if (strcmp(format, "md") == 0)
        fputs("| model                    |       size |     params | backend  | threads | n_batch | cache  |"
              "             test |                  t/s |          GMAC/s |          GB/s |\n"
              "| ------------------------ | ---------: | ---------: | -------- | ------: | ------: | -----: |"
              " ---------------: | -------------------: | --------------: | ------------: |\n",
            out);
}

void bench_print_test(FILE *out, const char *format, const struct bench_test *t, int index)
{
    if (strcmp(format, "md") == 0) {
        print_md(out, t);
    } else if (strcmp(format, "csv") == 0) {
        print_csv(out, t);
    } else {
        bool list = strcmp(format, "json") == 0;
        json_t *fields = to_json(t);
        if (list && index) fputs(",\n", out);
        json_dumpf(fields, out, list ? JSON_INDENT(2) : JSON_COMPACT);
        if (!list) fputc('\n', out);
        json_decref(fields);
    }
    fflush(out);
}

void bench_print_end(FILE *out, const char *format, const struct bench_test *last)
{
    if (strcmp(format, "md") == 0) bench_print_peaks(out, &last->peaks, last->n_threads);
    if (strcmp(format, "json") == 0) fputs("\n]\n", out);
}
