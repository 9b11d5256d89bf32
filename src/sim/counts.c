/* SPDX-License-Identifier: MIT */
#include "sim/counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Bytes that vector instructions move between memory and registers. */
static double l2_bytes(const struct npu_count *c)
{
    if (!strcmp(c->kernel, "gemm") || !strcmp(c->kernel, "head")) return 4.0 * c->m * ((double)c->k + c->n);
    if (!strcmp(c->kernel, "lookup")) return 4.0 * c->m * c->n; /* its inputs are tables in TCM */
    if (!strcmp(c->kernel, "masks")) return c->m * (1.15 * c->k + 4.0 * c->n);
    if (!strcmp(c->kernel, "tables")) return 4.0 * c->m * c->k;
    if (!strcmp(c->kernel, "exp16") || !strcmp(c->kernel, "fit")) return 4.0 * c->n;
    if (!strcmp(c->kernel, "unfit")) return 0; /* of ordinary rows, which stay */
    if (!strcmp(c->kernel, "quantize")) return 5.2 * c->k;
    if (!strcmp(c->kernel, "dequant") || !strcmp(c->kernel, "softmax") || !strncmp(c->kernel, "attention", 9))
        return 0; /* in TCM, but for what DMA brings */
    return 12.0 * c->n;
}

static int read_row(struct npu_counts *b, json_t *item)
{
    struct npu_count *c = &b->row[b->n_row];
    int m, k, n;
    if (b->n_row == NPU_COUNTS_MAX ||
        json_unpack(item, "{s:s, s:s, s:i, s:i, s:i, s:F, s:F, s:F, s:F, s:F}", "kernel", &c->kernel, "kind", &c->kind,
            "m", &m, "k", &k, "n", &n, "packets", &c->work.packets, "gathers", &c->work.gathers, "scatters",
            &c->work.scatters, "dma_bytes", &c->work.dma_bytes, "tile_pairs", &c->work.tile_pairs))
        return -1;
    c->m = m, c->k = k, c->n = n;
    npu_divide_count(c);
    c->bound = json_number_value(json_object_get(item, "bound"));
    c->work.alone = json_number_value(json_object_get(item, "alone"));
    c->work.packets -= c->work.alone;
    c->work.l2_bytes = l2_bytes(c);
    b->n_row++;
    return 0;
}

static int read_document(
    struct npu_counts *b, const char *text, size_t n_bytes, const char *name, struct lutra_error *err)
{
    json_error_t why;
    json_t *rows, *item;
    size_t i;
    b->document = json_loadb(text, n_bytes, 0, &why);
    if (!b->document)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: not a file of counts: line %d: %s", name, why.line, why.text);
    if (json_unpack(b->document, "{s:s, s:s, s:o}", "compiler", &b->compiler, "cpu", &b->cpu, "rows", &rows))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: not a file of counts", name);
    json_array_foreach(rows, i, item)
    {
        if (read_row(b, item)) return lutra_fail(err, LUTRA_E_FORMAT, "%s: row %zu is not a count", name, i);
    }
    return 0;
}

struct modelled model_work(const struct soc_profile *profile, const struct npu_work *work)
{
    static const char *const names[NPU_RESOURCES] = {"vector", "gather", "dma", "l2", "tiles"};
    struct npu_time t = npu_cost_time(profile, work);
    struct npu_interval mj = npu_cost_energy(profile, work);
    return (struct modelled){t.us.low, t.us.high, mj.low, mj.high, names[t.longest[0]], names[t.longest[1]]};
}

struct modelled model_messages(const struct soc_profile *profile, double n)
{
    struct npu_interval us = npu_cost_message_us(profile, n), mj = npu_cost_message_mj(profile, n);
    return (struct modelled){us.low, us.high, mj.low, mj.high, "host", "host"};
}

int npu_counts_read(
    struct npu_counts **out, const char *text, size_t n_bytes, const char *name, struct lutra_error *err)
{
    struct npu_counts *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", name);
    int rc = read_document(b, text, n_bytes, name, err);
    if (rc) npu_counts_free(&b);
    *out = b;
    return rc;
}

void npu_counts_free(struct npu_counts **counts)
{
    if (!*counts) return;
    json_decref((*counts)->document);
    free(*counts);
    *counts = NULL;
}

const struct npu_count *npu_count_of(
    const struct npu_counts *b, const char *kernel, const char *kind, int m, int k, int n)
{
    for (int i = 0; i < b->n_row; i++) {
        const struct npu_count *c = &b->row[i];
        if (c->m == m && c->k == k && c->n == n && !strcmp(c->kernel, kernel) && !strcmp(c->kind, kind)) return c;
    }
    return NULL;
}
