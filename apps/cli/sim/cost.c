/* SPDX-License-Identifier: MIT
 *
 * Accuracy against latency and against energy, side by side, a task beneath another [TTS Figures 10, 12]: a box per
 * method, as wide as what the profile leaves open and as high as the accuracy's interval, a point at its better end,
 * and the line of those that nothing cheaper beats.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "labels.h"
#include "sim/sim.h"

/* Accuracy of a method (measured) and what it costs per problem (modelled), as the answer has them. */
struct choice {
    const char *task, *method, *model, *judge; /* judge "": none */
    double accuracy, low, high, us[2], mj[2];
    int front[2];
};

enum { CHOICES_MAX = 64, WIDTH = 1040, LEFT = 76, TOP = 76, PANEL = 430, TALL = 340, GAP = 80, ROW = TALL + 84 };

struct panel {
    FILE *out;
    const struct choice *choice;
    int n, energy; /* the x axis: energy, else time */
    int ruled;     /* a rule judges some: others are called by their judge */
    double left, top, x_low, x_high, y_low, y_high;
    struct label_plan labels;
};

static const double *cost_of(const struct panel *p, int i)
{
    return p->energy ? p->choice[i].mj : p->choice[i].us;
}

static double x_of(const struct panel *p, double cost)
{
    return p->left + PANEL * log(cost / p->x_low) / log(p->x_high / p->x_low);
}

static double y_of(const struct panel *p, double accuracy)
{
    return p->top + TALL * (p->y_high - accuracy) / (p->y_high - p->y_low);
}

/* Powers of ten, and tenths of accuracy. */
static void set_range(struct panel *p)
{
    p->x_low = INFINITY, p->x_high = 0, p->y_low = 1, p->y_high = 0;
    for (int i = 0; i < p->n; i++) {
        p->x_low = fmin(p->x_low, cost_of(p, i)[0]), p->x_high = fmax(p->x_high, cost_of(p, i)[1]);
        p->y_low = fmin(p->y_low, p->choice[i].low), p->y_high = fmax(p->y_high, p->choice[i].high);
    }
    p->x_low = pow(10, floor(log10(p->x_low))), p->x_high = pow(10, ceil(log10(p->x_high)));
    p->y_low = floor(p->y_low * 10) / 10, p->y_high = ceil(p->y_high * 10) / 10;
}

static void draw_axes(const struct panel *p)
{
    for (double x = p->x_low; x <= p->x_high * 1.001; x *= 10)
        fprintf(p->out,
            "<path d='M%.1f %.0fv%d' stroke='#ddd'/><text x='%.1f' y='%.0f' text-anchor='middle'>%g</text>\n",
            x_of(p, x), p->top, TALL, x_of(p, x), p->top + TALL + 16, p->energy ? x : x / 1e3);
    for (double y = p->y_low; y <= p->y_high + 0.001; y += 0.1)
        fprintf(p->out,
            "<path d='M%.1f %.1fh%d' stroke='#ddd'/><text x='%.1f' y='%.1f' text-anchor='end'>%.0f %%</text>\n",
            p->left, y_of(p, y), PANEL, p->left - 6, y_of(p, y) + 4, 100 * y);
    fprintf(p->out,
        "<text transform='translate(%.0f %.0f) rotate(-90)' text-anchor='middle'>%s answered right</text>\n",
        p->left - 48, p->top + TALL / 2.0, p->choice->task);
    fprintf(p->out, "<text x='%.1f' y='%.0f' text-anchor='middle'>%s per problem, modelled</text>\n",
        p->left + PANEL / 2.0, p->top + TALL + 36, p->energy ? "mJ" : "ms");
}

static int is_other(const struct panel *p, int i)
{
    return strcmp(p->choice[i].model, p->choice[0].model) != 0;
}

static const char *judge_of(const struct panel *p, int i)
{
    return p->choice[i].judge[0] && p->ruled ? ", PRM" : "";
}

static const char *colour_of(const struct panel *p, int i)
{
    return is_other(p, i) ? "#c63" : p->choice[i].front[p->energy] ? "#36c" : "#888";
}

static void draw_choice(struct panel *p, int i)
{
    const struct choice *c = &p->choice[i];
    const double *cost = cost_of(p, i);
    double x = x_of(p, cost[0]), y = y_of(p, c->accuracy);
    fprintf(p->out, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s' fill-opacity='.05'/>\n", x,
        y_of(p, c->high), x_of(p, cost[1]) - x, y_of(p, c->low) - y_of(p, c->high), colour_of(p, i));
    fprintf(p->out,
        "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'><title>%s, %s%s: %.1f %% (%.1f to %.1f), %.3g to %.3g %s"
        "</title></circle>\n",
        x, y, colour_of(p, i), c->model, c->method, judge_of(p, i), 100 * c->accuracy, 100 * c->low, 100 * c->high,
        p->energy ? cost[0] : cost[0] / 1e3, p->energy ? cost[1] : cost[1] / 1e3, p->energy ? "mJ" : "ms");
    labels_add_box(&p->labels, (struct label_box){x - 5, y - 5, 10, 10});
}

/* Those of the front, over everything else and on white. */
static void draw_names(struct panel *p)
{
    for (int i = 0; i < p->n; i++) {
        const struct choice *c = &p->choice[i];
        if (!c->front[p->energy]) continue;
        char name[128];
        double x = x_of(p, cost_of(p, i)[0]), y = y_of(p, c->accuracy);
        snprintf(name, sizeof name, "%s%s%s%s", is_other(p, i) ? c->model : "", is_other(p, i) ? ", " : "", c->method,
            judge_of(p, i));
        struct label l = labels_place(&p->labels, x, y, name, 11);
        if (l.far) fprintf(p->out, "<path d='M%.1f %.1fL%.1f %.1f' stroke='#bbb'/>\n", x, y, l.leader.x1, l.leader.y1);
        fprintf(p->out,
            "<rect class='name' x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#fff' fill-opacity='.8'/>", l.box.x,
            l.box.y, l.box.w, l.box.h);
        fprintf(p->out, "<text x='%.1f' y='%.1f' fill='%s'>%s</text>\n", l.box.x + 1, l.box.y + l.box.h - 3,
            colour_of(p, i), name);
    }
}

/* The front as a staircase, from the cheapest; what is on it only within the intervals has its point beneath. */
static void draw_front(struct panel *p)
{
    double done = 0, best = -1, x = 0, y = 0;
    fprintf(p->out, "<path fill='none' stroke='#36c' stroke-opacity='.5' d='");
    for (int drawn = 0;; drawn++) {
        int next = -1;
        for (int i = 0; i < p->n; i++)
            if (p->choice[i].front[p->energy] && p->choice[i].accuracy > best && cost_of(p, i)[0] > done &&
                (next < 0 || cost_of(p, i)[0] < cost_of(p, next)[0]))
                next = i;
        if (next < 0) break;
        double to_x = x_of(p, cost_of(p, next)[0]), to_y = y_of(p, p->choice[next].accuracy);
        fprintf(p->out, drawn ? "H%.1fV%.1f" : "M%.1f %.1f", to_x, to_y);
        if (drawn) labels_add_line(&p->labels, x, y, to_x, y);
        if (drawn) labels_add_line(&p->labels, to_x, y, to_x, to_y);
        x = to_x;
        y = to_y;
        done = cost_of(p, next)[0];
        best = p->choice[next].accuracy;
    }
    fprintf(p->out, "'/>\n");
}

static void draw_panel(FILE *out, const struct choice *c, int n, int energy, double top)
{
    double left = LEFT + energy * (PANEL + GAP);
    struct panel p = {.out = out, .choice = c, .n = n, .energy = energy, .left = left, .top = top};
    p.labels.frame = (struct label_box){left + 1, top + 1, PANEL - 2, TALL - 2};
    for (int i = 0; i < n; i++) p.ruled |= !strncmp(c[i].method, "best", 4) && !c[i].judge[0];
    set_range(&p);
    draw_axes(&p);
    for (int i = 0; i < n; i++) draw_choice(&p, i);
    draw_front(&p);
    draw_names(&p);
}

/* The first choice of another task. */
static int task_end(const struct choice *c, int n)
{
    int i = 1;
    while (i < n && !strcmp(c[i].task, c->task)) i++;
    return i;
}

/* Those of the profile that the papers' figures are on.  How many. */
static int read_choices(const json_t *counted, struct choice *out)
{
    const char *on = json_string_value(json_object_get(counted, "ratios_on"));
    const json_t *item;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(counted, "accuracy_against_cost"), i, item)
    {
        struct choice c;
        const char *soc;
        if (n == CHOICES_MAX ||
            json_unpack((json_t *)item, "{s:s, s:s, s:s, s:s, s:s, s:F, s:F, s:F, s:F, s:F, s:F, s:F, s:b, s:b}", "soc",
                &soc, "task", &c.task, "model", &c.model, "judge", &c.judge, "method", &c.method, "accuracy_measured",
                &c.accuracy, "accuracy_low", &c.low, "accuracy_high", &c.high, "low_us", &c.us[0], "high_us", &c.us[1],
                "low_mj", &c.mj[0], "high_mj", &c.mj[1], "front_latency", &c.front[0], "front_energy", &c.front[1]) ||
            strcmp(soc, on) != 0)
            continue;
        out[n++] = c;
    }
    return n;
}

static void draw(FILE *out, const struct choice *c, int n, const char *soc)
{
    int height = TOP;
    for (int i = 0; i < n; i += task_end(c + i, n - i)) height += ROW;
    fprintf(out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='sans-serif' "
        "font-size='11'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
        WIDTH, height, WIDTH, height);
    fprintf(out,
        "<text x='%d' y='22' font-size='13'>Accuracy (measured) against modelled cost on %s</text>\n"
        "<text x='%d' y='40'>Points: the better end of the profile; boxes: all it leaves open, and 95 %% of the "
        "accuracy</text>\n",
        LEFT, soc, LEFT);
    for (int i = 0, top = TOP; i < n; top += ROW) {
        int of_task = task_end(c + i, n - i);
        for (int energy = 0; energy < 2; energy++) draw_panel(out, c + i, of_task, energy, top);
        i += of_task;
    }
    fprintf(out, "</svg>\n");
}

int sim_write_costs(const json_t *counted, const char *path)
{
    struct choice *c = get_memory(CHOICES_MAX * sizeof *c);
    FILE *f = fopen(path, "w");
    if (f) draw(f, c, read_choices(counted, c), json_string_value(json_object_get(counted, "ratios_on")));
    int bad = !f || ferror(f);
    if (f && fclose(f)) bad = 1;
    if (bad) say("%s cannot be written", path);
    free(c);
    return bad ? EXIT_FAILED : EXIT_OK;
}
