/* SPDX-License-Identifier: MIT
 *
 * The likeliest of several texts.  What those of a task share is evaluated once; a text's score is the mean
 * log-probability of its own tokens.  WinoGrande's choices stand in the middle: where more than TRAILING tokens are a
 * text's own, those behind the choice are scored, but for the last.
 *
 * Where fewer are, llama-perplexity 0.7.0 takes the first token of the second choice from the first choice's last row;
 * here it is the row before it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"
#include "perplexity/perplexity.h"

enum { TRAILING = 3, SEQUENCES = 32 };

/* A choice, as tokens: those from `first` to end - 1 are scored. */
struct spelt {
    struct tokens ids;
    int first, end;
    double sum;
    int32_t seq;
};

/* A task's choices [n], whose first n_shared tokens are the same. */
struct spelt_task {
    struct spelt *choice;
    int n_shared;
    int32_t base;
};

static int count_shared(const struct spelt *s, int n)
{
    for (int same = 0;; same++)
        for (int i = 0; i < n; i++)
            if (same == s[i].ids.n || s[i].ids.id[same] != s[0].ids.id[same]) return same;
}

static int spell(const struct engine *e, const struct task *t, struct spelt_task *out, struct lutra_error *err)
{
    struct tokens head = {0};
    int rc = 0;
    out->choice = get_memory((size_t)t->n * sizeof *out->choice);
    for (int i = 0; i < t->n && rc >= 0; i++) {
        const char *text = t->choice[i].text;
        rc = tokenize(e->model, text, strlen(text), LUTRA_ADD_SPECIAL, &out->choice[i].ids, err);
    }
    int shared = rc < 0 ? 0 : count_shared(out->choice, t->n);
    bool enough = t->choice[0].head;
    for (int i = 0; i < t->n && enough; i++) enough = out->choice[i].ids.n - shared > TRAILING;
    for (int i = 0; i < t->n && rc >= 0; i++) {
        struct spelt *s = &out->choice[i];
        const char *text = t->choice[i].head;
        s->first = shared;
        if (enough) rc = tokenize(e->model, text, strlen(text), LUTRA_ADD_SPECIAL, &head, err);
        if (enough) s->first = head.n;
        s->end = text && s->ids.n - s->first > 1 ? s->ids.n - 1 : s->ids.n;
        if (s->first < 1) s->first = 1; /* nothing predicts the first token */
        if (s->first > s->end - 1) s->first = s->end - 1;
    }
    out->n_shared = shared > 0 ? shared - 1 : 0; /* the last of them predicts */
    free(head.id);
    return rc;
}

/* Tasks[n], whose sequences there is room for: what each task's choices share, then the choices. */
static int score(struct feed *f, const struct task *t, struct spelt_task *s, int n, struct lutra_error *err)
{
    int rc = 0;
    for (int i = 0; i < n && rc >= 0; i++) {
        const struct tokens *ids = &s[i].choice[0].ids;
        rc = lutra_seq_open(f->session, s[i].n_shared + 1, &s[i].base, err);
        if (rc >= 0) rc = feed_tokens(f, s[i].base, ids->id, ids->n, 0, s[i].n_shared, INT32_MAX, NULL, err);
    }
    if (rc >= 0) rc = feed_flush(f, err);
    for (int i = 0; i < n && rc >= 0; i++)
        for (int k = 0; k < t[i].n && rc >= 0; k++) {
            struct spelt *c = &s[i].choice[k];
            rc = lutra_seq_fork(f->session, s[i].base, -1, c->ids.n, &c->seq, err);
            if (rc >= 0)
                rc = feed_tokens(f, c->seq, c->ids.id, c->ids.n, s[i].n_shared, c->end - 1, c->first, &c->sum, err);
        }
    if (rc >= 0) rc = feed_flush(f, err);
    if (rc < 0) return rc;
    for (int i = 0; i < n; i++) {
        lutra_seq_close(f->session, s[i].base);
        for (int k = 0; k < t[i].n; k++) lutra_seq_close(f->session, s[i].choice[k].seq);
    }
    return 0;
}

static double mean_of(const struct spelt *c)
{
    return c->sum / (c->end - c->first);
}

/* Is the likeliest choice a right one? */
static bool is_right(const struct task *t, const struct spelt_task *s)
{
    int best = 0;
    for (int i = 1; i < t->n; i++)
        if (mean_of(&s->choice[i]) > mean_of(&s->choice[best])) best = i;
    return t->right[best];
}

static void print_task(const struct task *t, const struct spelt_task *s, int number, int n_right)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "task %d: %.4f %%", number, 100.0 * n_right / number);
    for (int i = 0; i < t->n && n < (int)sizeof line - 16; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %.6f%s", mean_of(&s->choice[i]), t->right[i] ? "*" : "");
    say("%s", line);
}

/* With the interval of 95 % of a share [Wilson 1927]. */
static void print_share(int n_right, int n, int n_choice)
{
    double z = 1.959963985, p = (double)n_right / n, scale = 1 / (1 + z * z / n);
    double middle = (p + z * z / (2 * n)) * scale, reach = z * sqrt(p * (1 - p) / n + z * z / (4.0 * n * n)) * scale;
    printf("accuracy %.4f %% (95 %%: %.4f to %.4f): %d of %d tasks; by chance %.4f %%\n", 100 * p,
        100 * (middle - reach), 100 * (middle + reach), n_right, n, 100.0 * n / n_choice);
}

static int score_all(struct engine *e, const struct perplexity_options *o, const struct tasks *t, struct spelt_task *s)
{
    struct lutra_error err = {0};
    struct feed f;
    int n_right = 0, n_choice = 0, rc = 0;
    feed_open(&f, e->session, o->engine.n_batch);
    for (int at = 0, n; at < t->n && rc >= 0 && !interrupted(); at += n) {
        int used = 0;
        for (n = 0; at + n < t->n && (n == 0 || used + t->task[at + n].n + 1 <= SEQUENCES); n++)
            used += t->task[at + n].n + 1;
        rc = score(&f, t->task + at, s + at, n, &err);
        for (int i = at; i < at + n && rc >= 0; i++) {
            n_right += is_right(&t->task[i], &s[i]);
            n_choice += t->task[i].n;
            if (o->engine.verbose) print_task(&t->task[i], &s[i], i + 1, n_right);
        }
        progress_show("tasks", (uint64_t)(at + n), (uint64_t)t->n);
    }
    progress_clear();
    feed_close(&f);
    if (rc < 0) return fail_with(&err);
    if (interrupted()) return EXIT_INTERRUPTED;
    print_share(n_right, t->n, n_choice);
    return EXIT_OK;
}

int choices_score(const struct perplexity_options *o)
{
    struct engine e = {0};
    struct tasks t;
    struct lutra_error err = {0};
    struct lutra_session_settings set;
    int longest = 1, most = 1, code = tasks_read(&t, o);
    if (!code) code = engine_open(&e, &o->engine, false);
    struct spelt_task *s = get_memory(((size_t)t.n + 1) * sizeof *s);
    for (int i = 0; i < t.n && !code; i++) {
        if (spell(&e, &t.task[i], &s[i], &err) < 0) code = fail_with(&err);
        for (int k = 0; k < t.task[i].n; k++)
            if (s[i].choice[k].ids.n > longest) longest = s[i].choice[k].ids.n;
        if (t.task[i].n > most) most = t.task[i].n;
    }
    struct engine_options opts = o->engine;
    opts.n_ctx = longest + 1;
    lutra_session_settings_init(&set, sizeof set);
    set.n_seq = most + 1 > SEQUENCES ? most + 1 : SEQUENCES;
    if (!code) code = engine_open_session(&e, &opts, set);
    if (!code) code = score_all(&e, o, &t, s);
    engine_close(&e);
    for (int i = 0; i < t.n; i++) {
        for (int k = 0; s[i].choice && k < t.task[i].n; k++) free(s[i].choice[k].ids.id);
        free(s[i].choice);
    }
    free(s);
    tasks_free(&t);
    return code;
}
