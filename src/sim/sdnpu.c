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

/* Power stays the same: as their latencies are published. */
static double energy(const struct figure *f)
{
    const json_t *item;
    size_t i;
    double ms = NAN;
    json_array_foreach((json_t *)json_object_get(f->file, "figures"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "id")), "ours") == 0)
            ms = number(json_object_get(item, "published"), f->part);
    }
    return parts_of(f).npu / ms;
}

/* Chunks of a prompt in equal blocks; the graphs for few rows take as long [SDNPU 4.2: few rows, but not too few]. */
static double hidden(const struct parts *p)
{
    struct blocks_problem b = {.n_block = BLOCKS, .n_chunk = CHUNKS};
    struct blocks_plan plan;
    for (int i = 0; i < BLOCKS; i++) {
        b.prefill_us[i] = b.decode_us[i] = p->prompt / (BLOCKS * CHUNKS);
        b.load_us[i] = p->switching / BLOCKS;
    }
    if (blocks_best(&b, &plan, NULL)) return NAN;
    return 100 * (1 - (blocks_time(&b, &plan).us - p->prompt) / p->switching);
}

/* GB: 8 bits, head and embedding as halves, which this family shares; a cache of 1,024 tokens.  copies: over one copy
 * of the weights, two of them. */
static double memory(const char *model, bool copies)
{
    struct sim_shape s;
    if (sim_shape_named(&s, model, "w8", NULL)) return NAN;
    const double second = sim_weight_bytes(&s);
    s.head_bits = 16;
    const double one = sim_weight_bytes(&s) + sim_cache_bytes(&s, 1024);
    return copies ? (one + second) / one : one / 1e9;
}

enum { NPU, GRAPHS, DRAFTS, BOTH, OURS, GAIN, ENERGY, SHARE, FASTER, SWITCHING, HIDDEN, MEMORY, COPIES };

static double value(const struct figure *f, const struct soc_profile *profile)
{
    const struct parts p = parts_of(f);
    const double npu = p.prompt + p.switching + p.decoding, ours = p.prompt + p.decoding / p.accept_ours;
    (void)profile;
    switch (f->k) {
    case NPU: return npu;
    case GRAPHS: return p.prompt + p.decoding;
    case DRAFTS: return p.prompt + p.switching + p.decoding / p.accept;
    case BOTH: return p.prompt + p.decoding / p.accept;
    case OURS: return ours;
    case GAIN: return npu / ours;
    case ENERGY: return energy(f);
    case SHARE: return 100 * (p.switching + p.decoding) / p.npu;
    case FASTER: return (p.switching + p.decoding) / (p.decoding / p.accept_ours);
    case SWITCHING: return 100 * p.switching / (p.switching + p.decoding);
    case HIDDEN: return hidden(&p);
    default: return memory(f->part, f->k == COPIES);
    }
}

#define OF(id, model, what)                                                                                            \
    {                                                                                                                  \
        id, model, .value = value, .k = what                                                                           \
    }
#define OF_ALL(id, what) OF(id, "Qwen2.5-1.5B", what), OF(id, "Qwen2.5-0.5B", what), OF(id, "Llama-3B", what)
static const struct figure figures[] = {OF_ALL("npu", NPU), OF_ALL("g", GRAPHS), OF_ALL("sd", DRAFTS),
    OF_ALL("g_sd", BOTH), OF_ALL("ours", OURS), OF("gain", "Qwen2.5-1.5B", GAIN), OF("gain", "Llama-3B", GAIN),
    OF("energy", "Qwen2.5-0.5B", ENERGY), OF("energy", "Llama-3B", ENERGY), OF("memory", "Qwen2.5-1.5B", MEMORY),
    OF("copies", "Qwen2.5-1.5B", COPIES), OF("share", "Qwen2.5-1.5B", SHARE), OF("share", "Llama-3B", SHARE),
    OF("faster", "Qwen2.5-1.5B", FASTER), OF("switch", "Qwen2.5-1.5B", SWITCHING), OF_ALL("hidden", HIDDEN)};

const struct figure_list sim_figures_sdnpu = {figures, sizeof figures / sizeof *figures};
