/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perplexity/perplexity.h"

#define MAGIC "_logits_"

enum { HEADER = 4 /* codes that the two floats take */, SPAN = 16 /* what lies so far below the largest logit is 0 */ };

static size_t row_codes(const struct base *b)
{
    return HEADER + (size_t)(b->n_vocab + 1) / 2 * 2;
}

static int refuse(const struct base *b, const char *why)
{
    say("%s: %s", b->path, why);
    return EXIT_FAILED;
}

static int put(struct base *b, const void *p, size_t n)
{
    return fwrite(p, 1, n, b->file) == n ? 0 : refuse(b, strerror(errno));
}

int base_create(struct base *b, const char *path, int n_ctx, int n_vocab, int n_chunk, const int32_t *ids)
{
    *b = (struct base){.path = path, .n_ctx = n_ctx, .n_vocab = n_vocab, .n_chunk = n_chunk};
    size_t n = strlen(path) + sizeof ".part";
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) return refuse(b, "not a regular file");
    b->part = get_memory(n);
    snprintf(b->part, n, "%s.part", path);
    b->file = fopen(b->part, "wb");
    if (!b->file) return refuse(b, strerror(errno));
    b->row = get_memory(row_codes(b) * sizeof *b->row);
    const int32_t head[3] = {n_ctx, n_vocab, n_chunk};
    int code = put(b, MAGIC, strlen(MAGIC));
    if (!code) code = put(b, head, sizeof head);
    return code ? code : put(b, ids, (size_t)n_ctx * (size_t)n_chunk * sizeof *ids);
}

int base_add(struct base *b, const float *logits, double log_sum_exp)
{
    float high = logits[0], low = logits[0];
    for (int i = 1; i < b->n_vocab; i++) {
        if (logits[i] > high) high = logits[i];
        if (logits[i] < low) low = logits[i];
    }
    if (low < high - SPAN) low = high - SPAN;
    const float head[2] = {(high - low) / 65535, low - (float)log_sum_exp};
    memcpy(b->row, head, sizeof head);
    for (int i = 0; i < b->n_vocab; i++)
        b->row[HEADER + i] = logits[i] > low ? (uint16_t)lrintf((logits[i] - low) / head[0]) : 0;
    return put(b, b->row, row_codes(b) * sizeof *b->row);
}

int base_open(struct base *b, const char *path)
{
    char magic[sizeof MAGIC - 1];
    int32_t head[3];
    *b = (struct base){.path = path, .file = fopen(path, "rb")};
    if (!b->file) return refuse(b, strerror(errno));
    if (fread(magic, sizeof magic, 1, b->file) != 1 || memcmp(magic, MAGIC, sizeof magic) != 0)
        return refuse(b, "no file of log-probabilities (it begins with no '" MAGIC "')");
    bool sane = fread(head, sizeof head, 1, b->file) == 1;
    b->n_ctx = sane ? head[0] : 0, b->n_vocab = sane ? head[1] : 0, b->n_chunk = sane ? head[2] : 0;
    sane = b->n_ctx > 3 && b->n_ctx <= 1 << 24 && b->n_vocab > 0 && b->n_vocab <= 1 << 24 && b->n_chunk > 0;
    long here = ftell(b->file), end;
    if (!sane || fseek(b->file, 0, SEEK_END) < 0 || (end = ftell(b->file)) < 0) return refuse(b, "sizes out of range");
    fseek(b->file, here, SEEK_SET);
    size_t n_row = (size_t)(b->n_ctx - 1 - b->n_ctx / 2), each = (size_t)b->n_ctx * sizeof *b->ids;
    if ((size_t)(end - here) / (each + n_row * row_codes(b) * sizeof *b->row) < (size_t)b->n_chunk)
        return refuse(b, "it ends before its last chunk");
    b->row = get_memory(row_codes(b) * sizeof *b->row);
    b->ids = get_memory(each * (size_t)b->n_chunk);
    if (fread(b->ids, each, (size_t)b->n_chunk, b->file) != (size_t)b->n_chunk) return refuse(b, "cannot be read");
    return 0;
}

int base_next(struct base *b, float *log_prob)
{
    float head[2];
    if (fread(b->row, sizeof *b->row, row_codes(b), b->file) != row_codes(b)) return refuse(b, "cannot be read");
    memcpy(head, b->row, sizeof head);
    if (!isfinite(head[0]) || !isfinite(head[1])) return refuse(b, "a log-probability is not a number");
    for (int i = 0; i < b->n_vocab; i++) log_prob[i] = head[0] * (float)b->row[HEADER + i] + head[1];
    return 0;
}

int base_close(struct base *b, bool whole)
{
    int code = 0;
    if (b->file && fclose(b->file) != 0 && b->part && whole) code = refuse(b, strerror(errno));
    if (b->part && b->file && (code || !whole)) unlink(b->part);
    if (b->part && b->file && !code && whole && rename(b->part, b->path) < 0) code = refuse(b, strerror(errno));
    free(b->part);
    free(b->ids);
    free(b->row);
    *b = (struct base){0};
    return code;
}
