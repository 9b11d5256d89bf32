/* SPDX-License-Identifier: MIT */
#include "labels.h"

#include <math.h>
#include <string.h>

enum { RINGS = 40, RING_HEIGHT = 7, SHIFTS = 5, NEAR = 12, ROUNDS = 6 };

void labels_add_box(struct label_plan *plan, struct label_box box)
{
    if (plan->n_box < LABELS_BOX_MAX) plan->box[plan->n_box++] = box;
}

void labels_add_line(struct label_plan *plan, double x0, double y0, double x1, double y1)
{
    if (plan->n_line < LABELS_LINE_MAX) plan->line[plan->n_line++] = (struct label_line){x0, y0, x1, y1};
}

static bool meet(struct label_box a, struct label_box b)
{
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/* Narrows the part [*from, *to] of a line to where at + t * d lies between low and high. */
static void clip(double at, double d, double low, double high, double *from, double *to)
{
    if (d == 0) {
        if (at <= low || at >= high) *to = -1;
        return;
    }
    double a = (low - at) / d, b = (high - at) / d;
    *from = fmax(*from, fmin(a, b));
    *to = fmin(*to, fmax(a, b));
}

/* [Liang, Barsky 1984] */
static bool crosses(struct label_line l, struct label_box b)
{
    double from = 0, to = 1;
    clip(l.x0, l.x1 - l.x0, b.x, b.x + b.w, &from, &to);
    clip(l.y0, l.y1 - l.y0, b.y, b.y + b.h, &from, &to);
    return from < to;
}

static bool is_free(const struct label_plan *plan, struct label_box b)
{
    const struct label_box *f = &plan->frame;
    if (b.x < f->x || b.y < f->y || b.x + b.w > f->x + f->w || b.y + b.h > f->y + f->h) return false;
    for (int i = 0; i < plan->n_box; i++)
        if (meet(b, plan->box[i])) return false;
    for (int i = 0; i < plan->n_name; i++)
        if (meet(b, plan->name[i].box)) return false;
    return true;
}

/* From the point to the middle of the name's nearer side, or of its upper or lower edge. */
static struct label_line lead(double x, double y, struct label_box b)
{
    if (b.x > x) return (struct label_line){x, y, b.x, b.y + b.h / 2};
    if (b.x + b.w < x) return (struct label_line){x, y, b.x + b.w, b.y + b.h / 2};
    return (struct label_line){x, y, b.x + b.w / 2, b.y > y ? b.y : b.y + b.h};
}

static bool is_far(double x, double y, struct label_box b)
{
    struct label_line l = lead(x, y, b);
    return hypot(l.x1 - x, l.y1 - y) > NEAR;
}

/* The way to the name, lines under it, points under its leader; dearest are leaders across names, its own and
 * others'. */
static double cost(const struct label_plan *plan, double x, double y, struct label_box b)
{
    struct label_line l = lead(x, y, b);
    bool far = is_far(x, y, b);
    double sum = hypot(l.x1 - x, l.y1 - y) + (far ? 10 : 0);
    for (int i = 0; i < plan->n_line; i++) sum += crosses(plan->line[i], b) ? 25 : 0;
    for (int i = 0; i < plan->n_box && far; i++) sum += crosses(l, plan->box[i]) ? 40 : 0;
    for (int i = 0; i < plan->n_name; i++) {
        const struct label *name = &plan->name[i];
        sum += (far && crosses(l, name->box)) || (name->far && crosses(name->leader, b)) ? 120 : 0;
    }
    return sum;
}

/* DejaVu Sans, the widest of the usual fonts. */
static double width_of(const char *text, double size)
{
    double em = 0.2;
    for (; *text; text++) em += strchr("@mMW", *text) ? 1.0 : *text == 'w' ? 0.82 : 0.63;
    return em * size;
}

static struct label find_place(const struct label_plan *plan, double x, double y, double w, double h)
{
    double least = INFINITY;
    struct label out = {.box = {x + 7, y - h / 2, w, h}};
    for (int ring = 0; ring < RINGS; ring++)
        for (int shift = 0; shift < SHIFTS; shift++)
            for (int side = 0; side < 4; side++) {
                double dx = 7 + 12 * shift, dy = ring * RING_HEIGHT * (side % 2 ? 1 : -1);
                struct label_box b = {side < 2 ? x + dx : x - dx - w, y - h / 2 + dy, w, h};
                double c = is_free(plan, b) ? cost(plan, x, y, b) : INFINITY;
                if (c >= least) continue;
                least = c;
                out.box = b;
            }
    out.far = is_far(x, y, out.box);
    out.leader = lead(x, y, out.box);
    return out;
}

struct label labels_place(struct label_plan *plan, double x, double y, const char *text, double size)
{
    struct label out = find_place(plan, x, y, width_of(text, size), size + 2);
    if (plan->n_name < LABELS_BOX_MAX) plan->name[plan->n_name++] = out;
    return out;
}

void labels_settle(struct label_plan *plan)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < plan->n_name; i++) {
            struct label was = plan->name[i], *last = &plan->name[--plan->n_name];
            plan->name[i] = *last;
            struct label now = find_place(plan, was.leader.x0, was.leader.y0, was.box.w, was.box.h);
            *last = plan->name[i];
            plan->name[i] = now;
            plan->n_name++;
        }
}
