/* SPDX-License-Identifier: MIT
 *
 * The public function lutra_quantize, and types by their names.
 */
#include "quantize/budget.h"
#include "quantize/calibrate.h"
#include "engine/runtime.h"
#include "base/settings.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "quant/quant.h"
#include "quantize/files.h"
#include "quantize/convert.h"
#include "quantize/groups.h"
#include "quantize/imatrix.h"
#include "quantize/mix.h"

void lutra_quantize_settings_init(struct lutra_quantize_settings *settings, size_t size)
{
    struct lutra_quantize_settings d = {.size = sizeof d, .calibration_ctx = 512, .calibration_chunks = 64};
    settings_fill(settings, size, &d);
}

void lutra_imatrix_settings_init(struct lutra_imatrix_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_imatrix_settings){.size = sizeof *settings, .n_ctx = 512});
}

int files_report(void *user, uint64_t done, uint64_t total)
{
    const struct files_progress *p = user;
    return p->fn ? p->fn(p->user, p->stage, done, total) : 0;
}

int files_type_named(const char *what, const char *name, enum quant_type *type, struct lutra_error *err)
{
    const struct quant_info *q = name ? quant_info_by_name(name) : NULL;
    char names[256] = "";
    if (q) {
        *type = q->type;
        return 0;
    }
    for (size_t i = 0, n = 0; (q = quant_info_at(i)); i++)
        if (n < sizeof names) n += (size_t)snprintf(names + n, sizeof names - n, " %s", q->name);
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "%s: type '%s' is not known; there are%s", what, name ? name : "(none)", names);
}

static const struct {
    const char *name;
    int bits;
} groups[] = {{"W2", 2}, {"W3", 3}, {"W4", 4}, {"W8", 8}};
enum { N_WRITTEN = 3 /* by a calibration */ };

const char *lutra_quantize_type(int i)
{
    int n = 0;
    while (weights_mix_at((size_t)n)) n++;
    if (i < 0 || i >= n + N_WRITTEN) return NULL;
    return i < n ? weights_mix_at((size_t)i)->name : groups[i - n].name;
}

static int mix_named(const char *name, const struct weights_mix **out, struct lutra_error *err)
{
    char names[256] = "";
    const char *type;
    *out = name ? weights_mix_named(name) : NULL;
    if (*out) return 0;
    const struct quant_info *q = name ? quant_info_by_name(name) : NULL;
    if (q) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "quantize: %s cannot be written, it can be read", q->name);
    for (size_t i = 0, n = 0; (type = lutra_quantize_type((int)i)) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", type);
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "quantize: type '%s' is not known; there are%s", name ? name : "(none)", names);
}

int files_group(const char *who, const char *type, int n_known, int size, bool asymmetric, struct quant_group *group,
    struct lutra_error *err)
{
    *group = (struct quant_group){.size = size ? size : 128, .symmetric = !asymmetric};
    for (int i = 0; type && i < n_known; i++)
        if (strcasecmp(type, groups[i].name) == 0) group->bits = groups[i].bits;
    if (!group->bits && (size || asymmetric))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: only %s have groups of a size", who,
            n_known > N_WRITTEN ? "W2, W3, W4 and W8" : "W2, W3 and W4");
    if (group->bits && group->size != 32 && group->size != 64 && group->size != 128 && group->size != -1)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "%s: groups of %d; there are 32, 64, 128, and -1, whole rows", who, group->size);
    return 0;
}

static int check_group(const struct lutra_quantize_settings *set, struct lutra_error *err)
{
    if (!set->dry_run && (!set->calibration || set->only_measure))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: %s is written by a calibration", set->type);
    if (set->imatrix || set->n_tensor_type || set->token_embedding_type || set->output_type)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "quantize: %s knows no importance matrix and no types of single tensors", set->type);
    return 0;
}

/* "REGEX=TYPE" as a rule; the pattern is cut out of `text`, a copy. */
static int read_rule(char *text, struct weights_type_rule *rule, struct lutra_error *err)
{
    char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "tensor type: '%s' is not REGEX=TYPE", text);
    *equals = 0;
    rule->pattern = text;
    return files_type_named(text, equals + 1, &rule->type, err);
}

/* Copies of the texts, and the rules that point into them. */
static int read_rules(
    const struct lutra_quantize_settings *set, char **text, struct weights_type_rule *rule, struct lutra_error *err)
{
    for (int i = 0; i < set->n_tensor_type; i++) {
        text[i] = strdup(set->tensor_type[i]);
        if (!text[i]) return lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory");
        TRY(read_rule(text[i], &rule[i], err));
    }
    return 0;
}

/* The file, of the types that a budget chooses, with the matrices that a calibration has rounded. */
static int write_file(lutra_runtime *runtime, struct weights_quantize_settings *q,
    const struct lutra_quantize_settings *set, const char *in_path, const char *out_path, struct lutra_error *err)
{
    struct calibration *c = NULL;
    struct budget *b = NULL;
    if (q->group && !q->dry_run) TRY(weights_groups_target(out_path, err));
    int rc = set->budget > 0 ? budget_open(&b, runtime, in_path, set, q, err) : 0;
    if (rc == 0 && set->calibration && !set->only_measure && !q->copy && !q->dry_run) {
        rc = calibration_open(&c, runtime, in_path, out_path, set, q, err);
        q->ready = calibration_ready;
        q->ready_user = c;
    }
    if (rc == 0) rc = weights_quantize_file(in_path, out_path, q, err);
    calibration_close(&c, rc == 0);
    budget_close(&b);
    return rc;
}

/* Settings that contradict one another. */
static int check_settings(const struct lutra_quantize_settings *set, struct lutra_error *err)
{
    if (set->resume && (!set->calibration || set->only_measure))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: only a calibration can be resumed");
    if (set->budget == 0 && set->calibration && set->only_measure)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: a text to measure over, and no budget");
    if (set->budget == 0 && set->budget_types)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: types of a budget, and no budget");
    if (set->budget == 0) return 0;
    if (!(set->budget > 0)) return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: %g bits", (double)set->budget);
    if (set->type) return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: it chooses the types, so '%s' cannot", set->type);
    if (!set->calibration)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: types are chosen by a text; there is none");
    return 0;
}

static int quantize_with(lutra_runtime *runtime, struct weights_quantize_settings *q,
    const struct lutra_quantize_settings *set, const char *in_path, const char *out_path, struct lutra_error *err)
{
    enum quant_type type = QUANT_F16;
    struct quant_group group;
    TRY(check_settings(set, err));
    TRY(files_group("quantize", set->type, N_WRITTEN, set->group_size, set->asymmetric, &group, err));
    if (group.bits) TRY(check_group(set, err));
    if (group.bits)
        q->group = &group;
    else if (!q->copy && !(set->budget > 0))
        TRY(mix_named(set->type, &q->mix, err));
    if (set->token_embedding_type) {
        TRY(files_type_named("token embedding", set->token_embedding_type, &type, err));
        q->token_embd_type = (int)type;
    }
    if (set->output_type) {
        TRY(files_type_named("output", set->output_type, &type, err));
        q->output_type = (int)type;
    }
    size_t n = set->n_tensor_type > 0 ? (size_t)set->n_tensor_type : 0;
    char **text = calloc(n + 1, sizeof *text);
    struct weights_type_rule *rule = calloc(n + 1, sizeof *rule);
    int rc =
        text && rule ? read_rules(set, text, rule, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory");
    struct imatrix *imatrix = NULL;
    q->rule = rule;
    q->n_rule = n;
    if (rc == 0 && set->imatrix) rc = imatrix_open(&imatrix, set->imatrix, err);
    q->imatrix = imatrix;
    q->imatrix_path = set->imatrix;
    if (rc == 0) rc = write_file(runtime, q, set, in_path, out_path, err);
    imatrix_close(&imatrix);
    for (size_t i = 0; text && i < n; i++) free(text[i]);
    free(text);
    free(rule);
    return rc;
}

int lutra_quantize(lutra_runtime *runtime, const char *in_path, const char *out_path,
    const struct lutra_quantize_settings *settings, struct lutra_error *err)
{
    struct lutra_quantize_settings set;
    lutra_quantize_settings_init(&set, sizeof set);
    TRY(handle_check(runtime, "runtime", err));
    TRY(settings_copy(&set, sizeof set, settings, "quantize", err));
    struct files_progress progress = {set.progress, set.progress_user, "quantizing"};
    struct weights_quantize_settings q = weights_quantize_default();
    q.copy = set.type && (!strcmp(set.type, "COPY") || !strcmp(set.type, "copy"));
    q.exact = set.exact;
    q.pure = set.pure;
    q.allow_requantize = set.allow_requantize;
    q.leave_output = set.leave_output_tensor;
    q.dry_run = set.dry_run;
    TRY(weights_zeros_named(set.zeros, &q.zeros, err));
    q.parallel = pool_each;
    q.parallel_user = runtime->devices.pool;
    q.progress = files_report;
    q.progress_user = &progress;
    q.log = set.log;
    q.log_user = set.log_user;
    return quantize_with(runtime, &q, &set, in_path, out_path, err);
}
