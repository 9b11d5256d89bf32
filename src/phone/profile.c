/* SPDX-License-Identifier: MIT */
#include "phone/profile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/status.h"

enum { FILE_BYTES_MAX = 65536 };

static const struct {
    double least, most;
} figures[SOC_FIGURES] = {
#define FIGURE(id, name, least, most) {least, most},
    SOC_FIGURE_LIST(FIGURE)
#undef FIGURE
};

static const char *const figure_names[SOC_FIGURES] = {
#define FIGURE(id, name, least, most) name,
    SOC_FIGURE_LIST(FIGURE)
#undef FIGURE
};
static const char *const interval_keys[] = {"low", "high", "source"};
static const char *const fields[] = {"name", "soc", "npu", "schedule", "figures"};

/* Every key of the object must be one of the n names. */
static int known_keys(
    const json_t *object, const char *const *names, int n, const char *file, const char *what, struct lutra_error *err)
{
    for (void *at = json_object_iter((json_t *)object); at; at = json_object_iter_next((json_t *)object, at)) {
        int i = 0;
        while (i < n && strcmp(names[i], json_object_iter_key(at)) != 0) i++;
        if (i == n) return lutra_fail(err, LUTRA_E_FORMAT, "%s: unknown %s '%s'", file, what, json_object_iter_key(at));
    }
    return 0;
}

/* {"low": .., "high": .., "source": ".."} */
static int read_figure(const json_t *figure, struct soc_profile *p, int i, const char *file, struct lutra_error *err)
{
    const json_t *low = json_object_get(figure, "low"), *high = json_object_get(figure, "high");
    const char *source = json_string_value(json_object_get(figure, "source")), *name = figure_names[i];
    if (!figure) return lutra_fail(err, LUTRA_E_FORMAT, "%s: figure '%s' is missing", file, name);
    if (!json_is_number(low) || !json_is_number(high) || !source || !*source)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: figure '%s' needs low and high (numbers) and a source (text)", file, name);
    char what[64];
    snprintf(what, sizeof what, "key of figure '%s':", name);
    TRY(known_keys(figure, interval_keys, 3, file, what, err));
    p->figure[i] = (struct npu_interval){json_number_value(low), json_number_value(high)};
    if ((size_t)snprintf(p->source[i], sizeof p->source[i], "%s", source) >= sizeof p->source[i])
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: figure '%s': source too long", file, name);
    if (p->figure[i].low < figures[i].least || p->figure[i].high > figures[i].most ||
        p->figure[i].low > p->figure[i].high)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: figure '%s': %g to %g is not an interval within %g to %g", file,
            name, p->figure[i].low, p->figure[i].high, figures[i].least, figures[i].most);
    return 0;
}

/* Figures of which one is never above the other, at either end. */
static int check_order(const struct soc_profile *p, const char *file, struct lutra_error *err)
{
    static const int order[][2] = {{SOC_GPU_US_128, SOC_GPU_US_256}, {SOC_ONE_GBS, SOC_TWO_GBS},
        {SOC_FAST_SYNC_US, SOC_SYNC_US}, {SOC_PREPARE_ROW_US, SOC_PREPARE_US}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct npu_interval *a = &p->figure[order[i][0]], *b = &p->figure[order[i][1]];
        if (a->low <= b->low && a->high <= b->high) continue;
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: figure '%s' (%g to %g) is above '%s' (%g to %g)", file,
            figure_names[order[i][0]], a->low, a->high, figure_names[order[i][1]], b->low, b->high);
    }
    return 0;
}

static int read_profile(const json_t *object, struct soc_profile *p, const char *file, struct lutra_error *err)
{
    const struct {
        char *text;
        size_t n_max;
    } texts[] = {
        {p->name, sizeof p->name}, {p->soc, sizeof p->soc}, {p->npu, sizeof p->npu}, {p->schedule, sizeof p->schedule}};
    TRY(known_keys(object, fields, 5, file, "field", err));
    for (int i = 0; i < 4; i++) {
        const char *text = json_string_value(json_object_get(object, fields[i]));
        if (!text) return lutra_fail(err, LUTRA_E_FORMAT, "%s: field '%s' is missing or no text", file, fields[i]);
        if ((size_t)snprintf(texts[i].text, texts[i].n_max, "%s", text) >= texts[i].n_max)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: field '%s': text too long", file, fields[i]);
    }
    const json_t *list = json_object_get(object, "figures");
    if (!json_is_object(list))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: field 'figures' is missing or no object", file);
    TRY(known_keys(list, figure_names, SOC_FIGURES, file, "figure", err));
    for (int i = 0; i < SOC_FIGURES; i++) TRY(read_figure(json_object_get(list, figure_names[i]), p, i, file, err));
    return check_order(p, file, err);
}

int soc_profile_parse(struct soc_profile *out, const char *text, size_t n, const char *file, struct lutra_error *err)
{
    json_error_t why;
    if (n > FILE_BYTES_MAX) return lutra_fail(err, LUTRA_E_FORMAT, "%s: more than 64 KiB", file);
    json_t *object = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        json_decref(object);
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: line %d: %s", file, object ? 1 : why.line,
            object ? "not a JSON object" : why.text);
    }
    memset(out, 0, sizeof *out);
    int rc = read_profile(object, out, file, err);
    json_decref(object);
    return rc;
}

int soc_profile_load(struct soc_profile *out, const char *path, struct lutra_error *err)
{
    char *text;
    size_t n;
    TRY(file_read(path, FILE_BYTES_MAX, &text, &n, err));
    int rc = soc_profile_parse(out, text, n, path, err);
    free(text);
    return rc;
}
