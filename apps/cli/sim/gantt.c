/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <string.h>

#include "cli.h"
#include "sim/sim.h"

enum { WIDTH = 960, LEFT = 60, SPAN = 880, BAR = 26, PANEL = 130, TOP = 50 };

__attribute__((format(printf, 2, 3))) static void add(struct buffer *out, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n > 0) buffer_add(out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* One operation on one processor; its name where there is room. */
static void draw_step(struct buffer *out, const json_t *step, const char *device, double whole, double y)
{
    const char *op = json_string_value(json_object_get(step, "op"));
    double us = number(step, device), from = number(step, "start_us") + number(step, "hand_over_us");
    double x = LEFT + SPAN * from / whole, w = SPAN * us / whole;
    if (us <= 0) return;
    add(out,
        "<rect x='%.1f' y='%.0f' width='%.1f' height='%d' fill='%s' stroke='#fff'><title>%s: %.0f us</title></rect>\n",
        x, y, w > 1 ? w : 1, BAR, device[0] == 'g' ? "#36c" : "#c63", op, us);
    if (w > 8.0 * (double)strlen(op))
        add(out, "<text x='%.1f' y='%.0f' fill='#fff'>%s</text>\n", x + 4, y + BAR / 2.0 + 4, op);
}

/* The head is no part of a layer. */
static bool is_beyond(const json_t *all, const json_t *step)
{
    return strcmp(json_string_value(json_object_get(all, "timeline_of")), "layer") == 0 &&
           strcmp(json_string_value(json_object_get(step, "op")), "head") == 0;
}

static void draw_layer(struct buffer *out, const json_t *all, const char *key, const char *title, double top)
{
    double whole = 0;
    const json_t *steps = json_object_get(all, key), *step;
    size_t i;
    json_array_foreach((json_t *)steps, i, step) if (strcmp(json_string_value(json_object_get(step, "op")), "head") !=
                                                     0) whole = number(step, "start_us") + number(step, "us");
    if (whole <= 0) return;
    add(out, "<text x='%d' y='%.0f'>%s: one %s, %.0f us</text>\n", LEFT, top, title,
        json_string_value(json_object_get(all, "timeline_of")), whole);
    for (int d = 0; d < 2; d++) {
        double y = top + 10 + d * (BAR + 6);
        add(out, "<text x='%d' y='%.0f' text-anchor='end'>%s</text>\n", LEFT - 8, y + BAR / 2.0 + 4, d ? "npu" : "gpu");
        json_array_foreach((json_t *)steps, i, step) if (!is_beyond(all, step))
            draw_step(out, step, d ? "npu_us" : "gpu_us", whole, y);
    }
}

int sim_write_svg(const json_t *all, const char *path)
{
    struct buffer out = {0};
    add(&out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='sans-serif' "
        "font-size='12'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
        WIDTH, TOP + 2 * PANEL, WIDTH, TOP + 2 * PANEL);
    add(&out, "<text x='%d' y='22' font-size='14'>Who computes what, modelled, not measured</text>\n", LEFT);
    draw_layer(&out, all, "prompt_layer", "Prompt", TOP);
    draw_layer(&out, all, "decode_layer", "Reply", TOP + PANEL);
    add(&out, "</svg>\n");
    int rc = write_file_whole(path, out.text, out.n_bytes);
    buffer_free(&out);
    return rc ? EXIT_FAILED : EXIT_OK;
}
