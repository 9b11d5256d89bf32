/* SPDX-License-Identifier: MIT
 *
 * On a terminal: a picture that redraws itself, a line per candidate and a bar per answer.  Elsewhere: a line per
 * event.
 */
#include "run/search.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REDRAW_US = 80000, TAIL_BYTES = 240, BARS_MAX = 5, BAR_CELLS = 24, ANSWER_BYTES = 64 };

enum state { RUNNING, FINISHED, PRUNED };

struct candidate {
    bool known;
    enum state state;
    int n_step;
    double score;
    char tail[TAIL_BYTES]; /* its last line, or as much of it as fits */
    size_t n_tail;
    bool line_over; /* the next text begins a new line */
    char answer[ANSWER_BYTES];
};

struct view {
    const char *name;
    bool quiet, live, votes, judged;
    struct candidate *candidate; /* [n] */
    int n, room;
    int n_lines; /* of the picture on the screen */
    int64_t n_tok;
    uint64_t start_us, drawn_us;
};

struct view *view_open(const char *name, bool quiet, bool votes, bool judged)
{
    struct view *v = get_memory(sizeof *v);
    *v = (struct view){.name = name, .quiet = quiet, .votes = votes, .judged = judged, .start_us = now_us()};
    v->live = !quiet && isatty(STDERR_FILENO);
    progress_clear();
    return v;
}

static struct candidate *candidate_of(struct view *v, int id)
{
    if (id >= v->room) {
        v->room = id * 2 + 16;
        v->candidate = grow_memory(v->candidate, (size_t)v->room * sizeof *v->candidate);
    }
    for (; v->n <= id; v->n++) v->candidate[v->n] = (struct candidate){0};
    v->candidate[id].known = true;
    return &v->candidate[id];
}

void view_text(struct view *v, const struct lutra_piece *piece)
{
    struct candidate *c = candidate_of(v, piece->sample);
    v->n_tok += piece->token >= 0;
    for (size_t i = 0; i < piece->n_bytes; i++) {
        unsigned char b = (unsigned char)piece->text[i];
        if (b == '\n') {
            c->line_over = true;
            continue;
        }
        if (c->line_over) c->n_tail = 0;
        c->line_over = false;
        if (c->n_tail < sizeof c->tail - 1) c->tail[c->n_tail++] = b < ' ' || b == 0x7f ? ' ' : (char)b;
        c->tail[c->n_tail] = 0;
    }
}

/* Text in one line, to stderr, at most n_max cells; what a terminal would act on is blanked. */
static void put_line(const char *text, int n_max)
{
    int cells = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int bytes = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
        int wide = bytes == 4 || (bytes == 3 && *p >= 0xe1 && *p != 0xe2) ? 2 : 1; /* about */
        bool whole = strnlen((const char *)p, 4) >= (size_t)bytes && !(bytes == 2 && *p == 0xc2 && p[1] < 0xa0);
        if (cells + wide > n_max) break;
        if (bytes == 1 || !whole)
            fputc(*p < ' ' || *p >= 0x7f ? ' ' : *p, stderr);
        else
            fwrite(p, 1, (size_t)bytes, stderr);
        cells += wide;
        p += whole ? bytes : 1;
    }
}

static void tell(const struct view *v, const struct lutra_search_event *e)
{
    switch (e->kind) {
    case LUTRA_EVENT_STEP:
        fprintf(stderr, "#%d step %d", e->candidate, e->n_step);
        if (v->judged) fprintf(stderr, " reward %.3f score %.3f", e->reward, e->score);
        fputs(": ", stderr);
        put_line(e->text, 100);
        if (*e->why) fprintf(stderr, " (no reward: ");
        if (*e->why) put_line(e->why, 100);
        if (*e->why) fputc(')', stderr);
        break;
    case LUTRA_EVENT_FORK: fprintf(stderr, "#%d forked from #%d", e->candidate, e->parent); break;
    case LUTRA_EVENT_PRUNE: fprintf(stderr, "#%d pruned", e->candidate); break;
    case LUTRA_EVENT_FINISH:
        fprintf(stderr, "#%d finished: ", e->candidate);
        put_line(e->answer, 100);
        break;
    }
    fputc('\n', stderr);
}

void view_event(struct view *v, const struct lutra_search_event *e)
{
    struct candidate *c = candidate_of(v, e->candidate);
    if (e->kind == LUTRA_EVENT_FORK && e->parent >= 0) {
        struct candidate *parent = candidate_of(v, e->parent);
        c = candidate_of(v, e->candidate);
        *c = *parent;
    }
    c->n_step = e->n_step;
    if (e->kind != LUTRA_EVENT_FORK) c->score = e->score;
    if (e->kind == LUTRA_EVENT_PRUNE) c->state = PRUNED;
    if (e->kind == LUTRA_EVENT_FINISH) {
        c->state = FINISHED;
        snprintf(c->answer, sizeof c->answer, "%s", e->answer);
    }
    if (!v->quiet && !v->live) tell(v, e);
}

/* ---- the picture ---- */

static int count(const struct view *v, enum state state)
{
    int n = 0;
    for (int i = 0; i < v->n; i++) n += v->candidate[i].known && v->candidate[i].state == state;
    return n;
}

static void end_line(struct view *v)
{
    fputs("\033[K\n", stderr);
    v->n_lines++;
}

static void draw_candidate(struct view *v, int id, int columns)
{
    static const char *const marks[] = {" ", "=", "x"};
    const struct candidate *c = &v->candidate[id];
    char head[64], score[16] = "";
    if (v->judged) snprintf(score, sizeof score, "%.3f  ", c->score);
    int n = snprintf(head, sizeof head, "%s #%-3d %2d  %s", marks[c->state], id, c->n_step, score);
    put_line(head, columns - 1);
    if (columns - 1 > n) put_line(c->state == FINISHED && !c->tail[0] ? c->answer : c->tail, columns - 1 - n);
    end_line(v);
}

/* Votes for candidate i's answer, or their weight; -1 if an earlier one has the same. */
static double weight_of(const struct view *v, int i)
{
    const struct candidate *c = v->candidate;
    double sum = 0;
    if (c[i].state != FINISHED || !c[i].answer[0]) return -1;
    for (int k = 0; k < v->n; k++) {
        if (c[k].state != FINISHED || strcmp(c[k].answer, c[i].answer)) continue;
        if (k < i) return -1;
        sum++;
    }
    return sum;
}

static void draw_bars(struct view *v, int columns)
{
    double most = 0, above = 1e300;
    int last = -1;
    for (int rank = 0; rank < BARS_MAX; rank++) {
        int next = -1;
        double best = -1;
        for (int i = 0; i < v->n; i++) { /* by weight, then by place */
            double w = weight_of(v, i);
            bool after = w < above || (w == above && i > last);
            if (w > 0 && after && w > best) next = i, best = w;
        }
        if (next < 0) break;
        if (rank == 0) most = best;
        char bar[BAR_CELLS + 1], line[ANSWER_BYTES + 80];
        int full = (int)(best / most * BAR_CELLS + 0.5);
        memset(bar, '#', (size_t)full);
        bar[full] = 0;
        snprintf(line, sizeof line, "  %-12.40s %-*s %.0f", v->candidate[next].answer, BAR_CELLS, bar, best);
        put_line(line, columns - 1);
        end_line(v);
        above = best;
        last = next;
    }
}

void view_draw(struct view *v, bool end)
{
    uint64_t now = now_us();
    struct winsize size = {0};
    if (!v->live || (!end && now - v->drawn_us < REDRAW_US)) return;
    v->drawn_us = now;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    int columns = size.ws_col > 20 ? size.ws_col : 80, rows = size.ws_row > 8 ? size.ws_row : 24;
    if (v->n_lines) fprintf(stderr, "\033[%dA\r", v->n_lines);
    v->n_lines = 0;
    char head[160];
    snprintf(head, sizeof head, "%s: %d running, %d finished, %d pruned, %lld tokens, %.1f s", v->name,
        count(v, RUNNING), count(v, FINISHED), count(v, PRUNED), (long long)v->n_tok,
        (double)(now - v->start_us) * 1e-6);
    put_line(head, columns - 1);
    end_line(v);
    int room = rows - BARS_MAX - 3;
    for (int state = RUNNING; state <= FINISHED; state++) /* running ones first; the latest of too many */
        for (int i = v->n - 1; i >= 0 && room > 0; i--)
            if (v->candidate[i].known && (int)v->candidate[i].state == state) {
                draw_candidate(v, i, columns);
                room--;
            }
    draw_bars(v, columns);
    fputs("\033[J", stderr);
    fflush(stderr);
}

/* What was done: the search's name, and the method where the budget chose it. */
static void put_name(const struct view *v, const struct lutra_search_result *res)
{
    static const char *const names[] = {"vote", "weighted", "best-of", "beam", "dvts", "rebase"};
    fputs(v->name, stderr);
    if (strcmp(v->name, "auto") || (int)res->method >= (int)(sizeof names / sizeof *names)) return;
    if (res->expand > 1)
        fprintf(stderr, " (%s %dx%d)", names[res->method], res->width / res->expand, res->expand);
    else
        fprintf(stderr, " (%s %d)", names[res->method], res->n_candidates);
}

void view_close(struct view *v, const struct lutra_search_result *res)
{
    view_draw(v, true);
    if (res && !v->quiet) {
        put_name(v, res);
        fprintf(stderr,
            ": answer %s, %s %.3f, candidate #%d of %d (%d finished, %d pruned), %lld tokens, %lld verifier rows, "
            "%.2f s\n",
            res->answer && *res->answer ? res->answer : "none",
            res->method == LUTRA_SEARCH_VOTE ? "share of votes" : "score", res->score, res->candidate,
            res->n_candidates, res->n_finished, res->n_pruned, (long long)res->generated_tokens,
            (long long)res->verifier_rows, (double)res->us * 1e-6);
    }
    free(v->candidate);
    free(v);
}
