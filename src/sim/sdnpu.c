/* SPDX-License-Identifier: MIT
 *
 * [SDNPU]'s Table 3 and Figures 4, 11 to 14 from three columns of the table (bench/npu/published_sdnpu.json): no
 * profile of a SoC stands behind them, since the paper does not say how many tokens its answers have.
 */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "sched/blocks.h"
#include "sim/figures.h"

enum { BLOCKS = 4, CHUNKS = 4 };

/* Milliseconds per token of an answer, of one model. */
struct parts {
    double npu, switching, decoding, prompt, accept, accept_ours;
};

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static struct parts parts_of(const struct figure *f)
{
    struct parts p = {0};
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)json_object_get(f->file, "table3"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "model")), f->part) != 0) continue;
        p.npu = number(row, "npu"), p.accept = number(row, "accept"), p.accept_ours = number(row, "accept_ours");
        p.switching = p.npu - number(row, "g");
        p.decoding = (p.npu - number(row, "sd")) / (1 - 1 / p.accept);
        p.prompt = p.npu - p.switching - p.decoding;
    }
    return p;
}

static double npu(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return p.prompt + p.switching + p.decoding;
}

static double with_graphs(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return p.prompt + p.decoding;
}

static double with_drafts(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return p.prompt + p.switching + p.decoding / p.accept;
}

static double with_both(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return p.prompt + p.decoding / p.accept;
}

static double ours(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return p.prompt + p.decoding / p.accept_ours;
}

static double gain(const struct figure *f, const struct soc_profile *profile)
{
    return npu(f, profile) / ours(f, profile);
}

/* Power stays the same: as their latencies are published. */
static double energy(const struct figure *f, const struct soc_profile *profile)
{
    const json_t *item;
    size_t i;
    double ms = NAN;
    (void)profile;
    json_array_foreach((json_t *)json_object_get(f->file, "figures"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "id")), "ours") == 0)
            ms = number(json_object_get(item, "published"), f->part);
    }
    return parts_of(f).npu / ms;
}

static double share(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return 100 * (p.switching + p.decoding) / p.npu;
}

static double faster(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return (p.switching + p.decoding) / (p.decoding / p.accept_ours);
}

static double switching(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    (void)profile;
    return 100 * p.switching / (p.switching + p.decoding);
}

/* Chunks of a prompt in equal blocks; the graphs for few rows take as long [SDNPU 4.2: few rows, but not too few]. */
static double hidden(const struct figure *f, const struct soc_profile *profile)
{
    struct parts p = parts_of(f);
    struct blocks_problem b = {.n_block = BLOCKS, .n_chunk = CHUNKS};
    struct blocks_plan plan;
    (void)profile;
    for (int i = 0; i < BLOCKS; i++) {
        b.prefill_us[i] = b.decode_us[i] = p.prompt / (BLOCKS * CHUNKS);
        b.load_us[i] = p.switching / BLOCKS;
    }
    if (blocks_best(&b, &plan, NULL)) return NAN;
    return 100 * (1 - (blocks_time(&b, &plan).us - p.prompt) / p.switching);
}

/* GB: 8 bits, head and embedding as halves, which this family shares; a cache of 1,024 tokens. */
static double memory(const struct figure *f, const struct soc_profile *profile)
{
    struct sim_shape s;
    (void)profile;
    if (sim_shape_named(&s, f->part, "w8", NULL)) return NAN;
    s.head_bits = 16;
    return (sim_weight_bytes(&s) + sim_cache_bytes(&s, 1024)) / 1e9;
}

static double copies(const struct figure *f, const struct soc_profile *profile)
{
    struct sim_shape s;
    const double one = memory(f, profile);
    if (sim_shape_named(&s, f->part, "w8", NULL)) return NAN;
    return (one + sim_weight_bytes(&s) / 1e9) / one;
}

#define OF(id, model, of)                                                                                              \
    {                                                                                                                  \
        id, model, .value = of                                                                                         \
    }
#define OF_ALL(id, of) OF(id, "Qwen2.5-1.5B", of), OF(id, "Qwen2.5-0.5B", of), OF(id, "Llama-3B", of)
static const struct figure figures[] = {OF_ALL("npu", npu), OF_ALL("g", with_graphs), OF_ALL("sd", with_drafts),
    OF_ALL("g_sd", with_both), OF_ALL("ours", ours), OF("gain", "Qwen2.5-1.5B", gain), OF("gain", "Llama-3B", gain),
    OF("energy", "Qwen2.5-0.5B", energy), OF("energy", "Llama-3B", energy), OF("memory", "Qwen2.5-1.5B", memory),
    OF("copies", "Qwen2.5-1.5B", copies), OF("share", "Qwen2.5-1.5B", share), OF("share", "Llama-3B", share),
    OF("faster", "Qwen2.5-1.5B", faster), OF("switch", "Qwen2.5-1.5B", switching), OF_ALL("hidden", hidden)};

const struct figure_list sim_figures_sdnpu = {figures, sizeof figures / sizeof *figures};
