/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "cli.h"
#include "sim/sim.h"

enum { WIDTH = 960, LEFT = 60, SPAN = 880, BAR = 26, PANEL = 130, TOP = 50 };

const char *const sim_processors[SIM_PROCESSORS] = {"gpu_us", "npu_us", "cpu_us"};

int sim_used(const json_t *ops)
{
    const json_t *op;
    size_t i;
    json_array_foreach((json_t *)ops, i, op) if (sim_number(op, "cpu_us") > 0) return SIM_PROCESSORS;
    return SIM_PROCESSORS - 1;
}

/* One operation on one processor; its name where there is room. */
static void draw_op(struct buffer *out, const json_t *op, const char *device, double whole, double y)
{
    const char *name = json_string_value(json_object_get(op, "op"));
    double us = sim_number(op, device), from = sim_number(op, "start_us") + sim_number(op, "hand_over_us");
    double x = LEFT + SPAN * from / whole, w = SPAN * us / whole;
    if (us <= 0) return;
    buffer_print(out,
        "<rect x='%.1f' y='%.0f' width='%.1f' height='%d' fill='%s' stroke='#fff'><title>%s: %.0f us</title></rect>\n",
        x, y, w > 1 ? w : 1, BAR,
        device[0] == 'g'   ? "#36c"
        : device[0] == 'n' ? "#c63"
                           : "#393",
        name, us);
    if (w > 8.0 * (double)strlen(name))
        buffer_print(out, "<text x='%.1f' y='%.0f' fill='#fff'>%s</text>\n", x + 4, y + BAR / 2.0 + 4, name);
}

bool sim_is_beyond(const json_t *all, const json_t *op)
{
    return strcmp(json_string_value(json_object_get(all, "timeline_of")), "layer") == 0 &&
           strcmp(json_string_value(json_object_get(op, "op")), "head") == 0;
}

double sim_layer_us(const json_t *all, const json_t *ops)
{
    const json_t *op;
    double us = 0;
    size_t i;
    json_array_foreach((json_t *)ops, i, op) if (!sim_is_beyond(all, op)) us =
        fmax(us, sim_number(op, "start_us") + sim_number(op, "us"));
    return us;
}

static void draw_layer(struct buffer *out, const json_t *all, const char *key, const char *title, double top)
{
    const json_t *ops = json_object_get(all, key), *op;
    const double whole = sim_layer_us(all, ops);
    size_t i;
    if (whole <= 0) return;
    buffer_print(out, "<text x='%d' y='%.0f'>%s: one %s, %.0f us</text>\n", LEFT, top, title,
        json_string_value(json_object_get(all, "timeline_of")), whole);
    for (int d = 0; d < sim_used(ops); d++) {
        double y = top + 10 + d * (BAR + 6);
        buffer_print(out, "<text x='%d' y='%.0f' text-anchor='end'>%.3s</text>\n", LEFT - 8, y + BAR / 2.0 + 4,
            sim_processors[d]);
        json_array_foreach((json_t *)ops, i, op) if (!sim_is_beyond(all, op))
            draw_op(out, op, sim_processors[d], whole, y);
    }
}

int sim_write_svg(const json_t *all, const char *path)
{
    struct buffer out = {0};
    buffer_print(&out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='sans-serif' "
        "font-size='12'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n",
        WIDTH, TOP + 2 * PANEL, WIDTH, TOP + 2 * PANEL);
    buffer_print(&out, "<text x='%d' y='22' font-size='14'>Who computes what, modelled, not measured</text>\n", LEFT);
    draw_layer(&out, all, "prompt_layer", "Prompt", TOP);
    draw_layer(&out, all, "decode_layer", "Reply", TOP + PANEL);
    buffer_print(&out, "</svg>\n");
    int rc = write_file_whole(path, out.text, out.n_bytes);
    buffer_free(&out);
    return rc ? EXIT_FAILED : EXIT_OK;
}
