/* SPDX-License-Identifier: MIT
 *
 * Accuracy against latency and against rows, side by side [TTS Figure 10]: a point per method with its interval, and
 * the line of those that nothing cheaper beats.
 */
#include "eval/eval.h"
#include "labels.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1040, HEIGHT = 500, LEFT = 76, TOP = 56, PANEL = 430, TALL = 350, GAP = 80, LABEL = 11 };

struct panel {
    struct buffer *out;
    const struct eval_set *set;
    bool rows; /* the x axis: rows, else latency */
    double left, x_low, x_high, y_low, y_high;
    struct label_plan labels;
};

static double cost_of(const struct panel *p, const struct eval_method *m)
{
    return p->rows ? m->generator_rows + m->verifier_rows : m->latency_s * 1e3;
}

static bool shown(const struct panel *p, const struct eval_method *m)
{
    return m->kind != METHOD_ANY && m->kind < METHOD_ACC && cost_of(p, m) > 0;
}

static double x_of(const struct panel *p, double cost)
{
    return p->left + (log10(cost) - p->x_low) / (p->x_high - p->x_low) * PANEL;
}

static double y_of(const struct panel *p, double accuracy)
{
    return TOP + (p->y_high - accuracy * 100) / (p->y_high - p->y_low) * TALL;
}

static void set_range(struct panel *p)
{
    double low = INFINITY, high = 0, worst = 100, best = 0;
    for (int i = 0; i < p->set->n_method; i++) {
        const struct eval_method *m = &p->set->method[i];
        if (!shown(p, m)) continue;
        low = fmin(low, cost_of(p, m));
        high = fmax(high, cost_of(p, m));
        worst = fmin(worst, m->accuracy.low * 100);
        best = fmax(best, m->accuracy.high * 100);
    }
    if (high == 0) low = high = 1;
    p->x_low = log10(low) - 0.15;
    p->x_high = log10(high) + 0.4; /* room for the last label */
    p->y_low = fmax(0, floor((worst - 1) / 5) * 5);
    p->y_high = fmin(100, ceil((best + 1) / 5) * 5);
    if (p->y_high <= p->y_low) p->y_high = p->y_low + 5;
}

static void draw_axes(struct panel *p)
{
    double bottom = TOP + TALL, step = p->y_high - p->y_low > 40 ? 10 : 5;
    buffer_print(p->out, "<rect x='%.0f' y='%d' width='%d' height='%d' fill='none' stroke='#888'/>\n", p->left, TOP,
        PANEL, TALL);
    for (double y = p->y_low; y <= p->y_high + 0.1; y += step) {
        double at = y_of(p, y / 100);
        buffer_print(p->out,
            "<path d='M%.0f %.1fh%d' stroke='#ddd'/><text x='%.0f' y='%.1f' text-anchor='end'>%.0f %%</text>\n",
            p->left, at, PANEL, p->left - 6, at + 4, y);
    }
    for (int decade = (int)floor(p->x_low); decade <= (int)ceil(p->x_high); decade++)
        for (int k = 1; k < 10; k += k == 1 ? 1 : k == 2 ? 3 : 5) { /* 1, 2, 5; over many decades 1 only */
            if (k > 1 && p->x_high - p->x_low > 2.6) break;
            double cost = k * pow(10, decade), at = x_of(p, cost);
            if (at < p->left || at > p->left + PANEL) continue;
            buffer_print(p->out,
                "<path d='M%.1f %dv%d' stroke='#eee'/><text x='%.1f' y='%.0f' text-anchor='middle'>%.10g</text>\n", at,
                TOP, TALL, at, bottom + 16, cost);
        }
    buffer_print(p->out, "<text x='%.0f' y='%.0f' text-anchor='middle'>%s</text>\n", p->left + PANEL / 2, bottom + 36,
        p->rows ? "rows per problem, generator + verifier (counted)"
                : "ms per problem, one at a time (median, measured)");
    buffer_print(p->out,
        "<text transform='translate(%.0f %d) rotate(-90)' text-anchor='middle'>problems answered right</text>\n",
        p->left - 48, TOP + TALL / 2);
    buffer_print(p->out, "<text x='%.0f' y='%d' font-weight='bold'>accuracy against %s</text>\n", p->left, TOP - 10,
        p->rows ? "rows" : "latency");
}

/* From cheap to costly, each better than all before: a staircase. */
static void draw_front(struct panel *p)
{
    double best = -1, cost = 0, x = 0, y = 0;
    for (;;) {
        const struct eval_method *next = NULL;
        for (int i = 0; i < p->set->n_method; i++) {
            const struct eval_method *m = &p->set->method[i];
            bool further = shown(p, m) && m->accuracy.mean > best && cost_of(p, m) >= cost;
            if (further && (!next || cost_of(p, m) < cost_of(p, next) ||
                               (cost_of(p, m) == cost_of(p, next) && m->accuracy.mean > next->accuracy.mean)))
                next = m;
        }
        if (!next) break;
        double to_x = x_of(p, cost_of(p, next)), to_y = y_of(p, next->accuracy.mean);
        buffer_print(p->out,
            best >= 0 ? "H%.1fV%.1f" : "<path fill='none' stroke='#2a7' stroke-dasharray='5 3' d='M%.1f %.1f", to_x,
            to_y);
        if (best >= 0) labels_add_line(&p->labels, x, y, to_x, y);
        if (best >= 0) labels_add_line(&p->labels, to_x, y, to_x, to_y);
        x = to_x;
        y = to_y;
        best = next->accuracy.mean;
        cost = cost_of(p, next);
    }
    if (best < 0) return;
    buffer_print(p->out, "H%.1f'/>\n", p->left + PANEL);
    labels_add_line(&p->labels, x, y, p->left + PANEL, y);
}

static const char *colour_of(const struct eval_method *m)
{
    static const char *const colours[] = {"#555", "#555", "#36c", "#36c", "#c63", "#a3a", "#092", "#000", "#000"};
    return colours[m->kind];
}

static void draw_point(struct panel *p, const struct eval_method *m)
{
    double x = x_of(p, cost_of(p, m)), y = y_of(p, m->accuracy.mean), top = y_of(p, m->accuracy.high),
           bottom = y_of(p, m->accuracy.low);
    buffer_print(p->out, "<path d='M%.1f %.1fV%.1fM%.1f %.1fh6M%.1f %.1fh6' stroke='%s' stroke-opacity='.45'/>\n", x,
        top, bottom, x - 3, top, x - 3, bottom, colour_of(m));
    buffer_print(p->out,
        "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'><title>%s: %.1f %% (%.1f to %.1f)</title></circle>\n", x, y,
        colour_of(m), m->name, m->accuracy.mean * 100, m->accuracy.low * 100, m->accuracy.high * 100);
    labels_add_box(&p->labels, (struct label_box){x - 5, y - 5, 10, 10});
    labels_add_line(&p->labels, x, top, x, bottom);
}

/* Over everything else, on white: no line goes through a name. */
static void draw_names(struct panel *p)
{
    const struct eval_method *of[EVAL_METHODS_MAX];
    for (int i = 0; i < p->set->n_method; i++) {
        const struct eval_method *m = &p->set->method[i];
        if (!shown(p, m)) continue;
        of[p->labels.n_name] = m;
        labels_place(&p->labels, x_of(p, cost_of(p, m)), y_of(p, m->accuracy.mean), m->name, LABEL);
    }
    labels_settle(&p->labels);
    for (int i = 0; i < p->labels.n_name; i++) {
        struct label_line l = p->labels.name[i].leader;
        if (p->labels.name[i].far)
            buffer_print(p->out, "<path d='M%.1f %.1fL%.1f %.1f' stroke='#bbb'/>\n", l.x0, l.y0, l.x1, l.y1);
    }
    for (int i = 0; i < p->labels.n_name; i++) {
        struct label_box b = p->labels.name[i].box;
        buffer_print(p->out,
            "<rect class='name' x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#fff' fill-opacity='.8'/>", b.x, b.y,
            b.w, b.h);
        buffer_print(p->out, "<text x='%.1f' y='%.1f' fill='%s'>%s</text>\n", b.x + 1, b.y + b.h - 3, colour_of(of[i]),
            of[i]->name);
    }
}

static void draw_panel(struct buffer *out, const struct eval_set *set, bool rows, double left)
{
    struct panel p = {.out = out, .set = set, .rows = rows, .left = left};
    p.labels.frame = (struct label_box){left + 1, TOP + 1, PANEL - 2, TALL - 2};
    set_range(&p);
    draw_axes(&p);
    draw_front(&p);
    for (int i = 0; i < set->n_method; i++)
        if (shown(&p, &set->method[i])) draw_point(&p, &set->method[i]);
    draw_names(&p);
}

/* The last part of a path, without what XML would read as markup. */
static const char *plain_name(const char *path, char *out, size_t n_out)
{
    const char *slash = strrchr(path, '/');
    snprintf(out, n_out, "%s", slash ? slash + 1 : path);
    for (char *c = out; *c; c++)
        if (*c == '<' || *c == '>' || *c == '&' || *c == '\'') *c = '_';
    return out;
}

int eval_svg(const struct eval_run *run)
{
    struct buffer out = {0};
    char model[80], file[80], prm[80], device[200];
    const struct eval_options *o = run->opts;
    buffer_print(&out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='sans-serif' "
        "font-size='%d'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LABEL);
    buffer_print(&out,
        "<text x='%d' y='20' font-size='13'>%s%s%s: %d problems of %s, 95 %% bootstrap intervals</text>\n", LEFT,
        plain_name(o->engine.model, model, sizeof model), o->judge.prm ? " with " : "",
        o->judge.prm ? plain_name(o->judge.prm, prm, sizeof prm) : "", run->set->n,
        plain_name(o->file, file, sizeof file));
    draw_panel(&out, run->set, false, LEFT);
    draw_panel(&out, run->set, true, LEFT + PANEL + GAP);
    buffer_print(&out, "<text x='%d' y='%d'>latency: %d problems on %s; rows: the same on every machine</text>\n", LEFT,
        HEIGHT - 16, o->timed < run->set->n ? o->timed : run->set->n,
        plain_name(lutra_runtime_device_text(run->engine.runtime), device, sizeof device));
    buffer_print(&out, "</svg>\n");
    int rc = write_file_whole(o->svg, out.text, out.n_bytes);
    buffer_free(&out);
    return rc < 0 ? EXIT_FAILED : 0;
}
