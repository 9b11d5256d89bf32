/* SPDX-License-Identifier: MIT
 *
 * Whole models: throughput against batch, context and prompt [TTS Figures 11, 13, 17], energy [TTS Figure 12], memory
 * [TTS Figure 16], accuracy against latency and energy [TTS Figure 10].  Accuracies are measured
 * (bench/npu/scaling.json, from `lutra eval`), everything else is modelled from counts.
 */
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int batches[] = {1, 2, 4, 8, 16}, contexts[] = {512, 1024, 2048, 4096},
                 prompts[] = {128, 512, 1024, 2048, 4096};
enum { N_BATCHES = 5, N_CONTEXTS = 4, N_PROMPTS = 5, USUAL = 1024, CACHE = 4096 };

/* "low to high" of n per time. */
static void print_rate(double n, const struct modelled *t)
{
    printf(" %.1f to %.1f |", n * 1e6 / t->high_us, n * 1e6 / t->low_us);
}

static void print_head(const char *title, const char *text, const char *columns, int n_column)
{
    printf("\n## %s\n\n%s\n\n| %s |\n|", title, text, columns);
    for (int i = 0; i < n_column; i++) printf("---|");
    printf("\n");
}

static void print_decode(const struct npu_bench *b, const struct soc_profile *p)
{
    struct npu_step s;
    print_head("Decoding against batch",
        "Tokens per second of all sequences together, modelled; 1024 keys of context that all share [TTS Figure 11].",
        "model | 1 | 2 | 4 | 8 | 16", 6);
    for (int m = 0; m < NPU_PAPER_MODELS; m++) {
        printf("| %s |", npu_models[m].name);
        for (int i = 0; i < N_BATCHES; i++)
            if (!npu_decode_step(b->counts, p, &npu_models[m], batches[i], USUAL, &s)) print_rate(batches[i], &s.whole);
        printf("\n");
    }
    print_head("A step's parts",
        "Milliseconds, modelled, at 1024 keys; message: what of the host's messages is not hidden.",
        "model | batch | products | attention | rows | head | message | whole", 8);
    for (int m = 0; m < NPU_PAPER_MODELS; m++)
        for (int i = 0; i < N_BATCHES; i += 4) {
            if (npu_decode_step(b->counts, p, &npu_models[m], batches[i], USUAL, &s)) continue;
            printf("| %s | %d |", npu_models[m].name, batches[i]);
            for (int j = 0; j < NPU_PARTS; j++)
                printf(" %.2f to %.2f |", s.part[j].low_us / 1e3, s.part[j].high_us / 1e3);
            printf(" %.1f to %.1f |\n", s.whole.low_us / 1e3, s.whole.high_us / 1e3);
        }
    print_head("Decoding against context",
        "Tokens per second, modelled; keys that all sequences share [TTS Figure 17].",
        "model | batch | 512 | 1024 | 2048 | 4096", 6);
    for (int m = 0; m < NPU_PAPER_MODELS; m++)
        for (int i = 0; i < N_BATCHES; i += 2) {
            printf("| %s | %d |", npu_models[m].name, batches[i]);
            for (int c = 0; c < N_CONTEXTS; c++)
                if (!npu_decode_step(b->counts, p, &npu_models[m], batches[i], contexts[c], &s))
                    print_rate(batches[i], &s.whole);
            printf("\n");
        }
    print_head("Prompts", "Tokens per second, modelled, in chunks of 128 [TTS Figure 13].",
        "model | 128 | 512 | 1024 | 2048 | 4096", 6);
    for (int m = 0; m < NPU_PAPER_MODELS; m++) {
        printf("| %s |", npu_models[m].name);
        for (int i = 0; i < N_PROMPTS; i++)
            if (!npu_prefill(b->counts, p, &npu_models[m], prompts[i], &s)) print_rate(prompts[i], &s.whole);
        printf("\n");
    }
}

static void print_energy(const struct npu_bench *b, const struct soc_profile *p)
{
    struct npu_step s;
    print_head("Energy",
        "Millijoules per token, whole device, modelled; powers are assumptions of the profile but for their sum [TTS "
        "Figure 12].\nIn brackets watts, at the better and at the worse end of everything.",
        "model | 1 | 2 | 4 | 8 | 16", 6);
    for (int m = 0; m < NPU_PAPER_MODELS; m++) {
        printf("| %s |", npu_models[m].name);
        for (int i = 0; i < N_BATCHES; i++)
            if (!npu_decode_step(b->counts, p, &npu_models[m], batches[i], USUAL, &s))
                printf(" %.1f to %.1f (%.1f to %.1f W) |", s.whole.low_mj / batches[i], s.whole.high_mj / batches[i],
                    s.whole.low_mj / s.whole.low_us * 1e3, s.whole.high_mj / s.whole.high_us * 1e3);
        printf("\n");
    }
}

static void print_low_bits(const struct npu_bench *b, const struct soc_profile *p)
{
    struct npu_step s;
    double bytes[3];
    print_head("Layers of 1 and 2 bits",
        "One sequence, 1024 keys, modelled; MiB of layers computed; head in Q8_0.  Masks: a kernel of bench/npu, no "
        "operation of the device [TMAN 6.3].",
        "model | weights | packed, multiplied | MiB | products, ms | head, ms | whole, ms | tokens per second | mJ per "
        "token",
        9);
    for (int i = 0; i < NPU_LOW_BITS; i++) {
        const struct npu_low_bits x = npu_low_bits(i);
        if (npu_decode_step(b->counts, p, &x.model, 1, USUAL, &s)) continue;
        npu_memory(&x.model, CACHE, bytes);
        printf("| %s | %s | %s | %.0f |", x.model.name, x.weights, x.way, bytes[0] / (1 << 20));
        const struct modelled *parts[] = {&s.part[NPU_PRODUCTS], &s.part[NPU_HEAD], &s.whole};
        for (int j = 0; j < 3; j++) printf(" %.2f to %.2f |", parts[j]->low_us / 1e3, parts[j]->high_us / 1e3);
        print_rate(1, &s.whole);
        printf(" %.1f to %.1f |\n", s.whole.low_mj, s.whole.high_mj);
    }
}

static void print_memory(void)
{
    print_head("Memory",
        "MiB, computed from the layouts, all of it memory that CPU and NPU share: layers, head and embedding (Q8_0), "
        "cache "
        "of 4096 tokens.\nPublished: 1056 MiB for Qwen2.5-1.5B and 2090 for 3B without the head, which is the CPU's "
        "there; about 1.3 and 2.4 GiB in all [TTS 7.5,\nFigure 16].  The CPU computes no operation of these models: it "
        "samples and waits for messages.",
        "model | layers | cache | layers + cache | head and embedding | whole | in a window of 2 GiB", 7);
    for (int m = 0; m < NPU_PAPER_MODELS; m++) {
        double bytes[3], mib = 1 << 20;
        npu_memory(&npu_models[m], CACHE, bytes);
        double whole = (bytes[0] + bytes[1] + bytes[2]) / mib;
        printf("| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %s |\n", npu_models[m].name, bytes[0] / mib, bytes[2] / mib,
            (bytes[0] + bytes[2]) / mib, bytes[1] / mib, whole, whole < 2048 ? "yes" : "no");
    }
}

/* ---- accuracy against cost ---- */

enum { JUDGE_ROWS = 16, SEGMENT = 64 };

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

/* The prompt, then all candidates a token per step, then the judge's rows in passes of 16 (a tile holds that many: 2
 * heads share keys).  Keys: whole segments of prompt and solution. */
static int cost_of(const struct npu_bench *b, const struct soc_profile *p, const struct npu_model *m, double prompt,
    double tokens, double judged, int width, struct npu_choice *c)
{
    struct npu_step s;
    double steps = tokens / width, keys = SEGMENT * ceil((prompt + steps) / SEGMENT);
    if (steps <= 0 || npu_prefill(b->counts, p, m, (int)lround(prompt), &s)) return -1;
    add_times(c->us, c->mj, &s.whole, 1);
    if (npu_decode_step(b->counts, p, m, width, keys, &s)) return -1;
    add_times(c->us, c->mj, &s.whole, steps);
    if (judged > 0 && npu_decode_step(b->counts, p, m, JUDGE_ROWS, keys, &s)) return -1;
    if (judged > 0) add_times(c->us, c->mj, &s.whole, judged / JUDGE_ROWS);
    return 0;
}

static int read_choice(
    const struct npu_bench *b, const struct soc_profile *p, json_t *settings, json_t *item, struct npu_choice *c)
{
    double rows, tokens, judged;
    *c = (struct npu_choice){.prm = ""};
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
static int beats(const struct npu_choice *a, const struct npu_choice *b, int energy)
{
    const double *x = energy ? a->mj : a->us, *y = energy ? b->mj : b->us;
    return !strcmp(a->task, b->task) && a->low > b->high && x[0] < y[0] && x[1] < y[1];
}

static void mark_front(struct npu_choice *c, int n)
{
    for (int i = 0; i < n; i++) {
        c[i].front[0] = c[i].front[1] = 1;
        for (int j = 0; j < n; j++)
            for (int energy = 0; energy < 2; energy++) c[i].front[energy] &= !beats(&c[j], &c[i], energy);
    }
}

int npu_read_choices(const struct npu_bench *b, const struct soc_profile *p, json_t *document, struct npu_choice *out)
{
    json_t *run, *item;
    size_t i, j;
    int n = 0;
    json_array_foreach(json_object_get(document, "runs"), i, run)
    {
        json_array_foreach(json_object_get(run, "methods"), j, item)
        {
            struct npu_choice *c = &out[n];
            if (n == NPU_CHOICES_MAX || read_choice(b, p, json_object_get(run, "settings"), item, c)) continue;
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

json_t *npu_open_accuracies(void)
{
    const struct npu_data *d = &npu_data[NPU_DATA_SCALING];
    return json_loadb((const char *)d->bytes, d->n_bytes, 0, NULL);
}

static void print_choices(const struct npu_bench *b, const struct soc_profile *p)
{
    struct npu_choice *c = get_memory(NPU_CHOICES_MAX * sizeof *c);
    json_t *document = npu_open_accuracies();
    int n = npu_read_choices(b, p, document, c);
    print_head("Accuracy against latency and energy",
        "Accuracy: measured, 95 % intervals (`docs/SCALING.md`).  Milliseconds and millijoules per problem: modelled, "
        "every candidate in use\nto the end; what a rule that judges takes is left out.  Front: nothing faster (t) or "
        "cheaper in energy (E) is more accurate at the task beyond both intervals [TTS Figures 10, 12].",
        "task | model | method | accuracy | ms | mJ | front", 7);
    for (int i = 0; i < n; i++)
        printf("| %s | %s%s | %s | %.1f (%.1f to %.1f) | %.2f to %.2f | %.2f to %.2f | %s%s |\n", c[i].task, c[i].model,
            c[i].prm[0] ? ", judge" : "", c[i].method, 100 * c[i].accuracy, 100 * c[i].low, 100 * c[i].high,
            c[i].us[0] / 1e3, c[i].us[1] / 1e3, c[i].mj[0], c[i].mj[1], c[i].front[0] ? "t" : "",
            c[i].front[1] ? "E" : "");
    json_decref(document);
    free(c);
}

void npu_print_models(const struct npu_bench *b, const struct soc_profile *p)
{
    printf("# Whole models, modelled on %s\n", p->name);
    print_decode(b, p);
    print_energy(b, p);
    print_low_bits(b, p);
    print_memory();
    print_choices(b, p);
}

/* ---- JSON ---- */

static json_t *json_of_time(const struct modelled *t)
{
    return json_pack(
        "{s:f, s:f, s:f, s:f}", "low_us", t->low_us, "high_us", t->high_us, "low_mj", t->low_mj, "high_mj", t->high_mj);
}

static json_t *json_of_step(
    const char *model, const char *soc, const char *name, int n, int context, const struct npu_step *s)
{
    json_t *parts = json_object();
    for (int i = 0; i < NPU_PARTS; i++) json_object_set_new(parts, npu_part_names[i], json_of_time(&s->part[i]));
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:f, s:f}", "model", model, "soc", soc, name, n, "context",
        context, "parts", parts, "whole", json_of_time(&s->whole), "tokens_per_s_low", n * 1e6 / s->whole.high_us,
        "tokens_per_s_high", n * 1e6 / s->whole.low_us);
}

static json_t *json_of_choice(const char *soc, const struct npu_choice *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b}", "soc", soc, "task",
        c->task, "model", c->model, "judge", c->prm, "method", c->method, "accuracy_measured", c->accuracy,
        "accuracy_low", c->low, "accuracy_high", c->high, "low_us", c->us[0], "high_us", c->us[1], "low_mj", c->mj[0],
        "high_mj", c->mj[1], "front_latency", c->front[0], "front_energy", c->front[1]);
}

static void json_of_low_bits(const struct npu_bench *b, const struct soc_profile *p, json_t *decode, json_t *prefill)
{
    enum { TOKENS = 1024 };
    struct npu_step s;
    double bytes[3];
    for (int i = 0; i < NPU_LOW_BITS; i++) {
        const struct npu_low_bits x = npu_low_bits(i);
        json_t *of = json_pack("{s:s, s:s}", "weights", x.weights, "way", x.way);
        npu_memory(&x.model, CACHE, bytes);
        json_object_set_new(of, "layers_bytes", json_real(bytes[0]));
        for (int c = 0; c < N_CONTEXTS; c++)
            if (!npu_decode_step(b->counts, p, &x.model, 1, contexts[c], &s)) {
                json_t *step = json_of_step(x.model.name, p->name, "batch", 1, contexts[c], &s);
                json_object_update(step, of);
                json_array_append_new(decode, step);
            }
        if (!npu_prefill(b->counts, p, &x.model, TOKENS, &s)) {
            json_t *step = json_of_step(x.model.name, p->name, "tokens", TOKENS, 0, &s);
            json_object_update(step, of);
            json_array_append_new(prefill, step);
        }
        json_decref(of);
    }
}

static void json_of_profile(const struct npu_bench *b, const struct soc_profile *p, json_t *decode, json_t *prefill,
    json_t *choices, json_t *document)
{
    const char *soc = p->name;
    struct npu_step s;
    for (int m = 0; m < NPU_MODELS; m++) {
        for (int i = 0; i < N_BATCHES; i++)
            for (int c = 0; c < N_CONTEXTS; c++)
                if (!npu_decode_step(b->counts, p, &npu_models[m], batches[i], contexts[c], &s))
                    json_array_append_new(
                        decode, json_of_step(npu_models[m].name, soc, "batch", batches[i], contexts[c], &s));
        for (int i = 0; i < N_PROMPTS; i++)
            if (!npu_prefill(b->counts, p, &npu_models[m], prompts[i], &s))
                json_array_append_new(prefill, json_of_step(npu_models[m].name, soc, "tokens", prompts[i], 0, &s));
    }
    struct npu_choice *c = get_memory(NPU_CHOICES_MAX * sizeof *c);
    int n = npu_read_choices(b, p, document, c);
    for (int i = 0; i < n; i++) json_array_append_new(choices, json_of_choice(soc, &c[i]));
    free(c);
}

void npu_json_models(const struct npu_bench *b, json_t *all)
{
    json_t *decode = json_array(), *prefill = json_array(), *memory = json_array(), *choices = json_array(),
           *document = npu_open_accuracies(), *low_decode = json_array(), *low_prefill = json_array();
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
