/* SPDX-License-Identifier: MIT
 *
 * Whole models: throughput against batch, context and prompt [TTS Figures 11, 13, 17], energy [TTS Figure 12], memory
 * [TTS Figure 16], accuracy against latency and energy [TTS Figure 10].  Accuracies are measured
 * (bench/npu/scaling.json, from `lutra eval`), everything else is modelled from counts.
 */
#include "sim/tables.h"

#include "phone/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int batches[] = {1, 2, 4, 8, 16}, contexts[] = {512, 1024, 2048, 4096},
                 prompts[] = {128, 512, 1024, 2048, 4096};
enum { N_BATCHES = 5, N_CONTEXTS = 4, N_PROMPTS = 5, USUAL = 1024, CACHE = 4096 };

/* ---- accuracy against cost ---- */

enum { JUDGE_ROWS = 16, SEGMENT = 64, CHOICES_MAX = 64 };

/* Accuracy of a method (measured) and what it costs per problem (modelled). */
struct choice {
    const char *task, *method, *model, *prm; /* prm: the model that judges, "" = none does; texts are the document's */
    double accuracy, low, high;              /* 95 % */
    double us[2], mj[2];
    int front[2]; /* nothing faster, nothing cheaper in energy is more accurate at the task, beyond the intervals */
};

static const struct npu_model *model_of(const char *path)
{
    for (int m = 0; m < NPU_MODELS; m++)
        if (strstr(path, npu_models[m].name)) return &npu_models[m];
    return NULL;
}

/* Candidates at a time: 16 of vote@16, 4 * 4 of beam@4x4; -1: not a method that says. */
static int width_of(const char *method)
{
    int n = 1, m = 1;
    const char *at = strchr(method, '@');
    if (!strcmp(method, "greedy")) return 1;
    if (!at || !strncmp(method, "any", 3) || !strncmp(method, "auto", 4)) return -1;
    int fields = sscanf(at + 1, "%dx%d", &n, &m);
    return fields < 1 || n < 1 || m < 1 || n > 1024 || m > 1024 ? -1 : n * m;
}

static void add_times(double us[2], double mj[2], const struct modelled *t, double n)
{
    us[0] += n * t->low_us, us[1] += n * t->high_us;
    mj[0] += n * t->low_mj, mj[1] += n * t->high_mj;
}

/* The prompt, then all candidates a token a pass, then the judge's rows in passes of 16 (a tile holds that many: 2
 * heads share keys).  Keys: whole segments of prompt and solution. */
static int cost_of(const struct npu_bench *b, const struct soc_profile *p, const struct npu_model *m, double prompt,
    double tokens, double judged, int width, struct choice *c)
{
    struct npu_pass s;
    double passes = tokens / width, keys = SEGMENT * ceil((prompt + passes) / SEGMENT);
    if (passes <= 0 || npu_prefill(b->counts, p, m, (int)lround(prompt), &s)) return -1;
    add_times(c->us, c->mj, &s.whole, 1);
    if (npu_decode_pass(b->counts, p, m, width, keys, &s)) return -1;
    add_times(c->us, c->mj, &s.whole, passes);
    if (judged > 0 && npu_decode_pass(b->counts, p, m, JUDGE_ROWS, keys, &s)) return -1;
    if (judged > 0) add_times(c->us, c->mj, &s.whole, judged / JUDGE_ROWS);
    return 0;
}

static int read_choice(
    const struct npu_bench *b, const struct soc_profile *p, json_t *settings, json_t *item, struct choice *c)
{
    double rows, tokens, judged;
    *c = (struct choice){.prm = ""};
    if (json_unpack(settings, "{s:s, s:s, s?s}", "task", &c->task, "model", &c->model, "prm", &c->prm) ||
        json_unpack(item, "{s:s, s:F, s:F, s:F, s:{s:F, s:F, s:F}}", "method", &c->method, "generator_rows", &rows,
            "tokens_per_problem", &tokens, "verifier_rows", &judged, "accuracy", "mean", &c->accuracy, "low", &c->low,
            "high", &c->high))
        return -1;
    if (judged <= 0) c->prm = "";
    const struct npu_model *m = model_of(c->model);
    int width = width_of(c->method);
    if (!m || width < 0) return -1;
    c->model = m->name;
    return cost_of(b, p, m, rows - tokens, tokens, judged, width, c);
}

/* Beaten: another is more accurate beyond both intervals, and cheaper at both ends of the profile (what a profile
 * leaves open is the same for all methods, so ends are compared with ends). */
static int beats(const struct choice *a, const struct choice *b, int energy)
{
    const double *x = energy ? a->mj : a->us, *y = energy ? b->mj : b->us;
    return !strcmp(a->task, b->task) && a->low > b->high && x[0] < y[0] && x[1] < y[1];
}

static void mark_front(struct choice *c, int n)
{
    for (int i = 0; i < n; i++) {
        c[i].front[0] = c[i].front[1] = 1;
        for (int j = 0; j < n; j++)
            for (int energy = 0; energy < 2; energy++) c[i].front[energy] &= !beats(&c[j], &c[i], energy);
    }
}

/* Every method of the recorded accuracies once, out [CHOICES_MAX], those of a task together. */
static int read_choices(const struct npu_bench *b, const struct soc_profile *p, json_t *document, struct choice *out)
{
    json_t *run, *item;
    size_t i, j;
    int n = 0;
    json_array_foreach(json_object_get(document, "runs"), i, run)
    {
        json_array_foreach(json_object_get(run, "methods"), j, item)
        {
            struct choice *c = &out[n];
            if (n == CHOICES_MAX || read_choice(b, p, json_object_get(run, "settings"), item, c)) continue;
            int known = 0;
            for (int k = 0; k < n; k++)
                known |=
                    !strcmp(out[k].method, c->method) && !strcmp(out[k].model, c->model) && !strcmp(out[k].prm, c->prm);
            n += !known;
        }
    }
    mark_front(out, n);
    return n;
}

static json_t *open_accuracies(void)
{
    const struct sim_data *d = &sim_data[SIM_DATA_SCALING];
    return json_loadb(d->bytes, d->n_bytes, 0, NULL);
}

/* ---- JSON ---- */

json_t *npu_json_time(const struct modelled *t)
{
    return json_pack(
        "{s:f, s:f, s:f, s:f}", "low_us", t->low_us, "high_us", t->high_us, "low_mj", t->low_mj, "high_mj", t->high_mj);
}

static json_t *json_of_pass(
    const char *model, const char *soc, const char *name, int n, int context, const struct npu_pass *s)
{
    json_t *parts = json_object();
    for (int i = 0; i < NPU_PARTS; i++) json_object_set_new(parts, npu_part_names[i], npu_json_time(&s->part[i]));
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:f, s:f}", "model", model, "soc", soc, name, n, "context",
        context, "parts", parts, "whole", npu_json_time(&s->whole), "tokens_per_s_low", n * 1e6 / s->whole.high_us,
        "tokens_per_s_high", n * 1e6 / s->whole.low_us);
}

static json_t *json_of_choice(const char *soc, const struct choice *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b}", "soc", soc, "task",
        c->task, "model", c->model, "judge", c->prm, "method", c->method, "accuracy_measured", c->accuracy,
        "accuracy_low", c->low, "accuracy_high", c->high, "low_us", c->us[0], "high_us", c->us[1], "low_mj", c->mj[0],
        "high_mj", c->mj[1], "front_latency", c->front[0], "front_energy", c->front[1]);
}

static void json_of_low_bits(const struct npu_bench *b, const struct soc_profile *p, json_t *decode, json_t *prefill)
{
    enum { TOKENS = 1024 };
    struct npu_pass s;
    double bytes[3];
    for (int i = 0; i < NPU_LOW_BITS; i++) {
        const struct npu_low_bits x = npu_low_bits(i);
        json_t *of = json_pack("{s:s, s:s}", "weights", x.weights, "way", x.way);
        npu_memory(&x.model, CACHE, bytes);
        json_object_set_new(of, "layers_bytes", json_real(bytes[0]));
        for (int c = 0; c < N_CONTEXTS; c++)
            if (!npu_decode_pass(b->counts, p, &x.model, 1, contexts[c], &s)) {
                json_t *pass = json_of_pass(x.model.name, p->name, "batch", 1, contexts[c], &s);
                json_object_update(pass, of);
                json_array_append_new(decode, pass);
            }
        if (!npu_prefill(b->counts, p, &x.model, TOKENS, &s)) {
            json_t *pass = json_of_pass(x.model.name, p->name, "tokens", TOKENS, 0, &s);
            json_object_update(pass, of);
            json_array_append_new(prefill, pass);
        }
        json_decref(of);
    }
}

static void json_of_profile(const struct npu_bench *b, const struct soc_profile *p, json_t *decode, json_t *prefill,
    json_t *choices, json_t *document)
{
    const char *soc = p->name;
    struct npu_pass s;
    for (int m = 0; m < NPU_MODELS; m++) {
        for (int i = 0; i < N_BATCHES; i++)
            for (int c = 0; c < N_CONTEXTS; c++)
                if (!npu_decode_pass(b->counts, p, &npu_models[m], batches[i], contexts[c], &s))
                    json_array_append_new(
                        decode, json_of_pass(npu_models[m].name, soc, "batch", batches[i], contexts[c], &s));
        for (int i = 0; i < N_PROMPTS; i++)
            if (!npu_prefill(b->counts, p, &npu_models[m], prompts[i], &s))
                json_array_append_new(prefill, json_of_pass(npu_models[m].name, soc, "tokens", prompts[i], 0, &s));
    }
    struct choice *c = calloc(CHOICES_MAX, sizeof *c);
    int n = c ? read_choices(b, p, document, c) : 0;
    for (int i = 0; i < n; i++) json_array_append_new(choices, json_of_choice(soc, &c[i]));
    free(c);
}

void npu_json_models(const struct npu_bench *b, json_t *all)
{
    json_t *decode = json_array(), *prefill = json_array(), *memory = json_array(), *choices = json_array(),
           *document = open_accuracies(), *low_decode = json_array(), *low_prefill = json_array();
    for (int i = 0; i < b->n_profile; i++) {
        json_of_profile(b, b->profile[i], decode, prefill, choices, document);
        json_of_low_bits(b, b->profile[i], low_decode, low_prefill);
    }
    for (int m = 0; m < NPU_MODELS; m++) {
        double bytes[3];
        npu_memory(&npu_models[m], CACHE, bytes);
        json_array_append_new(memory, json_pack("{s:s, s:f, s:f, s:f}", "model", npu_models[m].name, "layers_bytes",
                                          bytes[0], "head_bytes", bytes[1], "cache_bytes", bytes[2]));
    }
    json_object_set_new(all, "decode_modelled", decode);
    json_object_set_new(all, "prefill_modelled", prefill);
    json_object_set_new(all, "low_bits_decode_modelled", low_decode);
    json_object_set_new(all, "low_bits_prefill_modelled", low_prefill);
    json_object_set_new(all, "memory_computed", memory);
    json_object_set_new(all, "accuracy_against_cost", choices);
    json_decref(document);
}
