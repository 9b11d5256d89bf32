/* SPDX-License-Identifier: MIT
 *
 * Who computed what in a pass, as a picture: a line for each device, and one for what the caller waited for.
 */
#include "cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1200, LEFT = 110, SPAN = 1070, BAR = 24, LINE = 32, HEAD = 64, TRACKS = 16 };

struct event {
    const char *name, *kind; /* "compute", "wait", "copy" */
    int track, layer;
    long pass;
    double begin_us, us, from, to;
};

struct trace {
    struct event *event;
    size_t n;
    const char *track[TRACKS]; /* names by number; the caller's is the last */
};

struct span {
    long pass;
    double begin_us, end_us;
};

bool timeline_is_svg(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n > 4 && strcmp(path + n - 4, ".svg") == 0;
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void read_events(const json_t *all, struct trace *t)
{
    const json_t *one;
    size_t i;
    t->event = get_memory((json_array_size(all) + 1) * sizeof *t->event);
    json_array_foreach(all, i, one)
    {
        const json_t *args = json_object_get(one, "args");
        int track = (int)number(one, "tid");
        if (track < 0 || track >= TRACKS) continue;
        if (strcmp(text(one, "name"), "thread_name") == 0) t->track[track] = text(args, "name");
        if (strcmp(text(one, "ph"), "X") != 0) continue;
        t->event[t->n++] = (struct event){.name = text(one, "name"),
            .kind = text(one, "cat"),
            .track = track,
            .layer = (int)number(args, "layer"),
            .pass = (long)number(args, "pass"),
            .begin_us = number(one, "ts"),
            .us = number(one, "dur"),
            .from = number(args, "from"),
            .to = number(args, "to")};
    }
}

/* When a pass ran. */
static struct span span_of(const struct trace *t, long pass)
{
    struct span s = {.pass = pass};
    for (size_t i = 0; i < t->n; i++) {
        const struct event *e = &t->event[i];
        if (e->pass != pass) continue;
        if (s.end_us == 0 || e->begin_us < s.begin_us) s.begin_us = e->begin_us;
        if (e->begin_us + e->us > s.end_us) s.end_us = e->begin_us + e->us;
    }
    return s;
}

static const char *colour_of(const struct event *e)
{
    return strcmp(e->kind, "compute") != 0 ? e->kind[0] == 'w' ? "#bbb" : "#e33" : e->layer % 2 ? "#36c" : "#59e";
}

static void draw_event(struct buffer *out, const struct event *e, const struct span *s, double y)
{
    double scale = SPAN / (s->end_us - s->begin_us), x = LEFT + (e->begin_us - s->begin_us) * scale, w = e->us * scale;
    buffer_print(out,
        "<rect x='%.2f' y='%.0f' width='%.2f' height='%d' fill='%s' stroke='#fff' stroke-width='.3'><title>%s, layer "
        "%d",
        x, y, w > 0.3 ? w : 0.3, BAR, colour_of(e), e->name, e->layer);
    if (e->from > 0 || e->to < 1) buffer_print(out, ", outputs %.0f to %.0f %%", e->from * 100, e->to * 100);
    buffer_print(out, ": %.0f us</title></rect>\n", e->us);
    if (w > 7.0 * (double)strlen(e->name))
        buffer_print(out, "<text x='%.1f' y='%.0f' fill='#fff'>%s</text>\n", x + 3, y + BAR / 2.0 + 4, e->name);
}

/* Returns how tall it is. */
static double draw_pass(struct buffer *out, const struct trace *t, const struct span *s, const char *title, double top)
{
    double y = top + 14, us = s->end_us - s->begin_us;
    buffer_print(
        out, "<text x='%d' y='%.0f' font-weight='bold'>%s: pass %ld, %.0f us</text>\n", LEFT, top, title, s->pass, us);
    for (int track = 0; us > 0 && track < TRACKS; track++) {
        double busy = 0;
        if (!t->track[track]) continue;
        for (size_t i = 0; i < t->n; i++)
            if (t->event[i].pass == s->pass && t->event[i].track == track) busy += t->event[i].us;
        buffer_print(out, "<text x='%d' y='%.0f' text-anchor='end'>%s %.0f %%</text>\n", LEFT - 6, y + BAR / 2.0 + 4,
            t->track[track], 100 * busy / us);
        for (size_t i = 0; i < t->n; i++)
            if (t->event[i].pass == s->pass && t->event[i].track == track) draw_event(out, &t->event[i], s, y);
        y += LINE;
    }
    return y - top + LINE;
}

static void draw(struct buffer *out, const struct trace *t)
{
    struct span longest = {0}, last = {0};
    struct buffer body = {0};
    long n_pass = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->event[i].pass > n_pass) n_pass = t->event[i].pass;
    for (long pass = 1; pass <= n_pass; pass++) {
        struct span s = span_of(t, pass);
        if (s.end_us - s.begin_us > longest.end_us - longest.begin_us) longest = s;
        last = s;
    }
    double y = HEAD;
    y += draw_pass(&body, t, &longest, "The longest", y);
    y += draw_pass(&body, t, &last, "The last", y);
    buffer_print(out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %.0f' width='%d' height='%.0f' "
        "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n<text x='%d' "
        "y='24' font-size='14'>Who computed what, measured: blue by layer, grey waits of the caller, red copies</text>"
        "\n",
        WIDTH, y, WIDTH, y, LEFT);
    buffer_add(out, body.text, body.n_bytes);
    buffer_print(out, "</svg>\n");
    buffer_free(&body);
}

int timeline_draw(const char *trace, const char *svg)
{
    struct trace t = {0};
    struct buffer out = {0};
    json_error_t why;
    json_t *all = json_load_file(trace, 0, &why);
    int rc = -1;
    if (all) {
        read_events(all, &t);
        draw(&out, &t);
        rc = write_file_whole(svg, out.text, out.n_bytes);
    } else {
        say("%s: line %d: %s", trace, why.line, why.text);
    }
    json_decref(all);
    buffer_free(&out);
    free(t.event);
    return rc;
}
