/* SPDX-License-Identifier: MIT */
#include "npu/host/profile.h"

#include "base/status.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 65536 };

static const struct {
    const char *name;
    double least, most;
} figures[NPU_FIGURES] = {
#define FIGURE(id, name, least, most) {name, least, most},
    NPU_FIGURE_LIST(FIGURE)
#undef FIGURE
};

/* The unread rest of a text that ends with a zero byte. */
struct reader {
    const char *at, *start, *file;
    struct lutra_error *err;
};

static int wrong(struct reader *r, const char *what)
{
    uint64_t where = (uint64_t)(r->at - r->start);
    return lutra_fail_at(
        r->err, LUTRA_E_FORMAT, where, "%s: %s at byte %llu", r->file, what, (unsigned long long)where);
}

static char peek(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
    return *r->at;
}

static int take(struct reader *r, char c)
{
    const char what[] = {'\'', c, '\'', ' ', 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', 0};
    if (peek(r) != c) return wrong(r, what);
    r->at++;
    return 0;
}

/* A string; of escapes only \" \\ and \/ are read. */
static int take_text(struct reader *r, char *out, size_t n_max)
{
    size_t n = 0;
    TRY(take(r, '"'));
    for (; *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < 32) return wrong(r, "unfinished string");
        if (*r->at == '\\' && !strchr("\"\\/", *++r->at)) return wrong(r, "unknown escape");
        if (!*r->at) return wrong(r, "unfinished string");
        if (n + 1 >= n_max) return wrong(r, "string too long");
        out[n++] = *r->at;
    }
    out[n] = 0;
    r->at++;
    return 0;
}

static int take_number(struct reader *r, double *out)
{
    char *end, c = peek(r);
    if (c != '-' && (c < '0' || c > '9')) return wrong(r, "number expected");
    *out = strtod(r->at, &end);
    if (end != r->at + strspn(r->at, "+-.0123456789eE") || !isfinite(*out)) return wrong(r, "number expected");
    r->at = end;
    return 0;
}

/* After an entry of an object: 1 when another follows, 0 at its end. */
static int more(struct reader *r)
{
    if (peek(r) != ',') return take(r, '}');
    r->at++;
    return 1;
}

/* {"low": .., "high": .., "source": ".."} */
static int take_figure(struct reader *r, struct npu_profile *p, int i)
{
    char key[32];
    unsigned seen = 0;
    int rc;
    TRY(take(r, '{'));
    do {
        TRY(take_text(r, key, sizeof key));
        TRY(take(r, ':'));
        unsigned bit = !strcmp(key, "low") ? 1 : !strcmp(key, "high") ? 2 : !strcmp(key, "source") ? 4 : 0;
        if (!bit || seen & bit)
            return lutra_fail(
                r->err, LUTRA_E_FORMAT, "%s: figure '%s': unknown or doubled '%s'", r->file, figures[i].name, key);
        seen |= bit;
        if (bit == 4)
            TRY(take_text(r, p->source[i], sizeof p->source[i]));
        else
            TRY(take_number(r, bit == 1 ? &p->figure[i].low : &p->figure[i].high));
        TRY(rc = more(r));
    } while (rc);
    double low = p->figure[i].low, high = p->figure[i].high;
    if (seen != 7 || !p->source[i][0])
        return lutra_fail(
            r->err, LUTRA_E_FORMAT, "%s: figure '%s' needs low, high and a source", r->file, figures[i].name);
    if (low < figures[i].least || high > figures[i].most || low > high)
        return lutra_fail(r->err, LUTRA_E_FORMAT, "%s: figure '%s': %g to %g is not an interval within %g to %g",
            r->file, figures[i].name, low, high, figures[i].least, figures[i].most);
    return 0;
}

static int take_figures(struct reader *r, struct npu_profile *p)
{
    char key[32];
    unsigned seen = 0;
    int rc, i;
    TRY(take(r, '{'));
    do {
        TRY(take_text(r, key, sizeof key));
        TRY(take(r, ':'));
        for (i = 0; i < NPU_FIGURES && strcmp(key, figures[i].name) != 0; i++) continue;
        if (i == NPU_FIGURES || seen >> i & 1)
            return lutra_fail(r->err, LUTRA_E_FORMAT, "%s: unknown or doubled figure '%s'", r->file, key);
        seen |= 1u << i;
        TRY(take_figure(r, p, i));
        TRY(rc = more(r));
    } while (rc);
    for (i = 0; i < NPU_FIGURES; i++)
        if (!(seen >> i & 1))
            return lutra_fail(r->err, LUTRA_E_FORMAT, "%s: figure '%s' is missing", r->file, figures[i].name);
    return 0;
}

static int take_profile(struct reader *r, struct npu_profile *p)
{
    const struct {
        const char *key;
        char *text;
        size_t n_max;
    } texts[] = {{"name", p->name, sizeof p->name}, {"soc", p->soc, sizeof p->soc}, {"npu", p->npu, sizeof p->npu},
        {"schedule", p->schedule, sizeof p->schedule}};
    char key[32];
    unsigned seen = 0;
    int rc;
    TRY(take(r, '{'));
    do {
        unsigned i = 0;
        TRY(take_text(r, key, sizeof key));
        TRY(take(r, ':'));
        while (i < 4 && strcmp(key, texts[i].key) != 0) i++;
        if ((i == 4 && strcmp(key, "figures") != 0) || seen >> i & 1)
            return lutra_fail(r->err, LUTRA_E_FORMAT, "%s: unknown or doubled field '%s'", r->file, key);
        seen |= 1u << i;
        if (i < 4)
            TRY(take_text(r, texts[i].text, texts[i].n_max));
        else
            TRY(take_figures(r, p));
        TRY(rc = more(r));
    } while (rc);
    for (unsigned i = 0; i < 5; i++)
        if (!(seen >> i & 1))
            return lutra_fail(
                r->err, LUTRA_E_FORMAT, "%s: field '%s' is missing", r->file, i < 4 ? texts[i].key : "figures");
    return peek(r) ? wrong(r, "more text after the profile") : 0;
}

int npu_profile_parse(struct npu_profile *out, const char *text, size_t n, const char *file, struct lutra_error *err)
{
    if (n > FILE_BYTES_MAX) return lutra_fail(err, LUTRA_E_FORMAT, "%s: more than 64 KiB", file);
    if (memchr(text, 0, n)) return lutra_fail(err, LUTRA_E_FORMAT, "%s: a zero byte", file);
    char *copy = malloc(n + 1);
    if (!copy) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", file);
    memcpy(copy, text, n);
    copy[n] = 0;
    struct reader r = {copy, copy, file, err};
    memset(out, 0, sizeof *out);
    int rc = take_profile(&r, out);
    free(copy);
    return rc;
}

int npu_profile_load(struct npu_profile *out, const char *path, struct lutra_error *err)
{
    char *text = malloc(FILE_BYTES_MAX + 1);
    if (!text) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", path);
    FILE *f = fopen(path, "rb");
    int rc = 0;
    size_t n = 0;
    if (!f)
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    else
        n = fread(text, 1, FILE_BYTES_MAX + 1, f);
    if (f && ferror(f)) rc = lutra_fail(err, LUTRA_E_IO, "%s: cannot be read", path);
    if (f) fclose(f);
    if (!rc) rc = npu_profile_parse(out, text, n, path, err);
    free(text);
    return rc;
}
