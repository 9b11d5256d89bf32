/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum eval_method_kind kind;
    enum lutra_search_method search;
    bool width, expand, verifier;
} known[] = {
    {"greedy", METHOD_GREEDY, LUTRA_SEARCH_VOTE, false, false, false},
    {"sample", METHOD_MEAN, LUTRA_SEARCH_VOTE, false, false, false},
    {"vote", METHOD_VOTE, LUTRA_SEARCH_VOTE, true, false, false},
    {"any", METHOD_ANY, LUTRA_SEARCH_VOTE, true, false, false},
    {"weighted", METHOD_WEIGHTED, LUTRA_SEARCH_WEIGHTED, true, false, true},
    {"best", METHOD_BEST, LUTRA_SEARCH_BEST, true, false, true},
    {"beam", METHOD_SEARCH, LUTRA_SEARCH_BEAM, true, true, true},
    {"dvts", METHOD_SEARCH, LUTRA_SEARCH_DVTS, true, true, true},
    {"rebase", METHOD_SEARCH, LUTRA_SEARCH_REBASE, true, false, true},
    {"auto", METHOD_SEARCH, LUTRA_SEARCH_AUTO, false, false, false},
};
enum { N_KNOWN = sizeof known / sizeof *known };

/* ---- the list ---- */

/* The source of that name, added when it is new; -1 = too many. */
static int add_source(struct eval_set *set, struct eval_source source)
{
    for (int i = 0; i < set->n_source; i++)
        if (!strcmp(set->source[i].name, source.name)) return i;
    if (set->n_source == EVAL_SOURCES_MAX) return -1;
    set->source[set->n_source] = source;
    return set->n_source++;
}

static int add_method(struct eval_set *set, const char *name, enum eval_method_kind kind, int k, int source)
{
    for (int i = 0; i < set->n_method; i++)
        if (!strcmp(set->method[i].name, name)) return 0;
    if (set->n_method == EVAL_METHODS_MAX || source < 0) return -1;
    struct eval_method *m = &set->method[set->n_method++];
    *m = (struct eval_method){.kind = kind, .k = k, .source = source, .latency_s = -1, .joules = -1};
    snprintf(m->name, sizeof m->name, "%.23s", name);
    return 0;
}

static int method_of(const char *word, size_t n)
{
    for (int i = 0; i < N_KNOWN; i++)
        if (strlen(known[i].name) == n && !memcmp(known[i].name, word, n)) return i;
    return -1;
}

enum { AUTO_WIDTH = 16 }; /* candidates at once of auto, unless a table has wider methods */

struct entry {
    char name[24];
    int known, width, expand;
    int64_t tokens;
    uint64_t us;
};

static const char *read_size(struct entry *out, const char *size, size_t n)
{
    char text[24];
    if (known[out->known].search == LUTRA_SEARCH_AUTO) {
        snprintf(text, sizeof text, "%.*s", (int)n, size);
        out->width = AUTO_WIDTH;
        bool budget = n > 1 && budget_read(text + 1, &out->tokens, &out->us) == 0 && out->tokens + (int64_t)out->us > 0;
        return budget ? NULL : "give the budget as @T, tokens (auto@800) or time (auto@20ms)";
    }
    if (!known[out->known].width) return n ? "it has no size" : NULL;
    if (n > 1 && beams_read(size + 1, n - 1, known[out->known].expand, &out->width, &out->expand) == 0) return NULL;
    return known[out->known].expand ? "give beams and children as @BxE, at most 1024 together"
                                    : "give the number of samples as @N, 1 to 1024";
}

static int read_entry(const char *word, size_t n, const struct eval_options *o, struct entry *out)
{
    size_t stem = 0;
    while (stem < n && word[stem] != '@') stem++;
    *out = (struct entry){.known = method_of(word, stem), .width = 1, .expand = 1};
    const char *why = NULL;
    if (out->known < 0 || n >= sizeof out->name)
        why = "not one of greedy, sample, vote@N, any@N, weighted@N, best@N, beam@BxE, dvts@BxE, rebase@N, auto@T";
    else
        why = read_size(out, word + stem, n - stem);
    if (!why && known[out->known].verifier && !judge_wanted(&o->judge))
        why = "needs a verifier: --prm FILE or --check CMD";
    if (!why) {
        memcpy(out->name, word, n);
        return 0;
    }
    say("eval: --methods: '%.*s': %s", (int)n, word, why);
    return EXIT_USAGE;
}

static int refuse(const char *why)
{
    say("eval: %s", why);
    return EXIT_USAGE;
}

static int too_many(void)
{
    return refuse("--methods: too many of them");
}

/* auto may choose by it; without --methods there are weighted@N and best@N. */
static bool is_judge_used(const struct entry *entry, int n)
{
    for (int i = 0; i < n; i++)
        if (known[entry[i].known].verifier || known[entry[i].known].search == LUTRA_SEARCH_AUTO) return true;
    return false;
}

static int add_entries(struct eval_set *set, const struct entry *entry, int n, const struct eval_options *o)
{
    struct eval_source greedy = {.name = "greedy", .kind = EVAL_GREEDY, .width = 1};
    struct eval_source samples = {.kind = EVAL_SAMPLES};
    for (int i = 0; i < n; i++) {
        enum eval_method_kind kind = known[entry[i].known].kind;
        if (kind == METHOD_MEAN && o->n > samples.width && !o->methods) samples.width = o->n;
        if (kind >= METHOD_MEAN && kind <= METHOD_BEST && entry[i].width > samples.width)
            samples.width = entry[i].width;
        samples.scored |= kind == METHOD_WEIGHTED || kind == METHOD_BEST;
    }
    snprintf(samples.name, sizeof samples.name, "samples@%d%s", samples.width, samples.scored ? "+" : "");
    for (int i = 0; i < n; i++) {
        int at = entry[i].known;
        enum eval_method_kind kind = known[at].kind;
        struct eval_source search = {.kind = EVAL_SEARCH,
            .search = known[at].search,
            .width = entry[i].width,
            .expand = entry[i].expand,
            .tokens_budget = entry[i].tokens,
            .us_budget = entry[i].us};
        memcpy(search.name, entry[i].name, sizeof search.name);
        int source = add_source(set, kind == METHOD_GREEDY ? greedy : kind == METHOD_SEARCH ? search : samples);
        const char *name = kind == METHOD_MEAN ? "mean sample" : entry[i].name;
        if (add_method(set, name, kind, kind == METHOD_MEAN ? samples.width : entry[i].width, source) < 0)
            return too_many();
    }
    return 0;
}

static void name_entry(struct entry *e, const char *stem, int width, int expand)
{
    *e = (struct entry){.known = method_of(stem, strlen(stem)), .width = width, .expand = expand};
    if (expand > 1)
        snprintf(e->name, sizeof e->name, "%s@%dx%d", stem, width / expand, expand);
    else
        snprintf(e->name, sizeof e->name, "%s@%d", stem, width);
}

/* Without --methods: greedy, mean sample, vote@1, 2, 4, ..., N, any@N, and with a verifier weighted@N and best@N. */
static int default_entries(const struct eval_options *o, struct entry *entry)
{
    int n = 0, full = o->n;
    if (o->greedy) {
        name_entry(&entry[n], "greedy", 1, 1);
        strcpy(entry[n++].name, "greedy");
    }
    if (full == 0) return n;
    name_entry(&entry[n++], "sample", 1, 1);
    for (int k = 1; o->vote && k <= full; k = k * 2 > full && k < full ? full : k * 2)
        name_entry(&entry[n++], "vote", k, 1);
    if (judge_wanted(&o->judge)) name_entry(&entry[n++], "weighted", full, 1);
    if (judge_wanted(&o->judge)) name_entry(&entry[n++], "best", full, 1);
    name_entry(&entry[n++], "any", full, 1);
    return n;
}

static void name_bases(struct eval_set *set)
{
    int vote_k = 0, best_k = 0;
    for (int i = 0; i < set->n_method; i++) {
        const struct eval_method *m = &set->method[i];
        if (m->kind == METHOD_GREEDY) set->base[0] = m->name;
        if (m->kind == METHOD_MEAN) set->base[1] = m->name;
        if (m->kind == METHOD_VOTE && m->k > vote_k) {
            set->base[2] = m->name;
            vote_k = m->k;
        }
        if (m->kind == METHOD_BEST && m->k > best_k) {
            set->base[3] = m->name;
            best_k = m->k;
        }
    }
}

int eval_methods(struct eval_set *set, const struct eval_options *o)
{
    struct entry entry[EVAL_METHODS_MAX];
    int n = 0;
    if (set->choices) {
        if (o->methods)
            return refuse("--methods: the problems are multiple choice, decided by the choices' likelihood");
        if (judge_wanted(&o->judge)) return refuse("multiple choice is decided by likelihood: no --prm, no --check");
        int source = add_source(set, (struct eval_source){.name = "choices", .kind = EVAL_CHOICES});
        add_method(set, "acc", METHOD_ACC, 1, source);
        add_method(set, "acc_norm", METHOD_ACC_NORM, 1, source);
        return 0;
    }
    if (!o->methods) n = default_entries(o, entry);
    for (const char *p = o->methods; p && *p;) {
        size_t length = strcspn(p, ",");
        if (n == EVAL_METHODS_MAX) return too_many();
        int code = read_entry(p, length, o, &entry[n++]);
        if (code) return code;
        p += length;
        p += *p == ',';
    }
    if (judge_wanted(&o->judge) && !is_judge_used(entry, n) && (o->methods || o->n > 0))
        return refuse("--prm and --check judge none of these --methods: add weighted@N, best@N or a search");
    int code = add_entries(set, entry, n, o);
    name_bases(set);
    return code;
}

/* ---- what methods make of outcomes ---- */

/* Total weight of an answer among the first k samples. */
static double weight_of(const struct eval_sample *s, int k, const char *answer, bool weighted)
{
    double sum = 0;
    for (int i = 0; i < k; i++)
        if (s[i].answer && !strcmp(s[i].answer, answer)) sum += weighted ? s[i].score : 1;
    return sum;
}

/* The sample whose answer has most votes; samples without an answer do not vote, ties go to the answer seen first. */
static const struct eval_sample *vote(const struct eval_sample *s, int k, bool weighted)
{
    const struct eval_sample *win = NULL;
    double most = -1;
    for (int i = 0; i < k; i++) {
        if (!s[i].answer) continue;
        double w = weight_of(s, k, s[i].answer, weighted);
        if (w > most) win = &s[i], most = w;
    }
    return win;
}

static const struct eval_sample *best(const struct eval_sample *s, int k)
{
    const struct eval_sample *win = s;
    for (int i = 1; i < k; i++)
        if (s[i].score > win->score) win = &s[i];
    return win;
}

static double share_right(const struct eval_sample *s, int k)
{
    int right = 0;
    for (int i = 0; i < k; i++) right += s[i].right;
    return (double)right / k;
}

/* The likeliest ending, per byte if `norm`; the first of equals. */
static bool choice_right(const struct eval_problem *p, const struct eval_sample *s, bool norm)
{
    int win = 0;
    double most = 0;
    for (int i = 0; i < p->n_choice; i++) {
        size_t bytes = strlen(p->ending[i]);
        double x = norm && bytes ? s[i].sum_log_prob / (double)bytes : s[i].sum_log_prob;
        if (i == 0 || x > most) win = i, most = x;
    }
    return win == p->right_choice;
}

double eval_value(const struct eval_method *m, const struct eval_problem *p)
{
    const struct eval_sample *s = p->outcome[m->source].sample, *win = s;
    switch (m->kind) {
    case METHOD_MEAN: return share_right(s, m->k);
    case METHOD_ANY: return share_right(s, m->k) > 0;
    case METHOD_VOTE: win = vote(s, m->k, false); break;
    case METHOD_WEIGHTED: win = vote(s, m->k, true); break;
    case METHOD_BEST: win = best(s, m->k); break;
    case METHOD_ACC: return choice_right(p, s, false);
    case METHOD_ACC_NORM: return choice_right(p, s, true);
    case METHOD_GREEDY:
    case METHOD_SEARCH: break;
    }
    return win && win->right;
}

/* Rows of the verifier for the first k samples: as counted for all of them, less the other samples' steps. */
static double verified_rows(const struct eval_run *run, const struct eval_outcome *out, int k)
{
    double rows = (double)out->verifier_rows;
    for (int i = k; i < out->n_sample && rows > 0; i++) {
        const struct eval_sample *s = &out->sample[i];
        rows -= s->n_tok + (s->reason == LUTRA_STOP_END) + run->judge.n_mark * s->n_step;
    }
    return rows;
}

void eval_cost(const struct eval_run *run, struct eval_method *m, const struct eval_problem *p)
{
    const struct eval_outcome *out = &p->outcome[m->source];
    int used = m->kind == METHOD_MEAN ? out->n_sample : m->k;
    double tokens = 0, verified = 0, n = run->set->n;
    if (m->kind == METHOD_SEARCH || m->kind == METHOD_GREEDY || m->kind >= METHOD_ACC) {
        tokens = (double)out->tokens;
        verified = (double)out->verifier_rows;
    } else {
        for (int i = 0; i < used; i++) tokens += out->sample[i].n_tok;
        if (m->kind == METHOD_WEIGHTED || m->kind == METHOD_BEST) verified = verified_rows(run, out, used);
        if (m->kind == METHOD_MEAN) tokens /= used;
    }
    m->tokens += tokens / n;
    m->generator_rows += (tokens + p->prompt.n) / n;
    m->verifier_rows += verified / n;
    m->pruned_rows += (double)out->pruned_tokens / n;
}

bool eval_alone(const struct eval_set *set, const struct eval_method *m, struct eval_source *out)
{
    *out = set->source[m->source];
    if (m->kind == METHOD_ANY || m->kind >= METHOD_ACC) return false;
    if (m->kind == METHOD_MEAN) *out = (struct eval_source){.kind = EVAL_SAMPLES, .width = 1};
    if (m->kind == METHOD_VOTE || m->kind == METHOD_WEIGHTED || m->kind == METHOD_BEST)
        *out = (struct eval_source){.kind = EVAL_SEARCH,
            .search = m->kind == METHOD_VOTE       ? LUTRA_SEARCH_VOTE
                      : m->kind == METHOD_WEIGHTED ? LUTRA_SEARCH_WEIGHTED
                                                   : LUTRA_SEARCH_BEST,
            .width = m->k,
            .expand = 1,
            .early_stop = true};
    return true;
}
