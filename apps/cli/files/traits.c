/* SPDX-License-Identifier: MIT */
#include "files/traits.h"

#include <jansson.h>
#include <math.h>

#include "cli.h"

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long long number_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static double rate_of(const json_t *t)
{
    double mac = 1;
    for (const char *const *key = (const char *const[]){"rows", "in", "out", NULL}; *key; key++)
        mac *= json_number_value(json_object_get(t, *key));
    double us = json_number_value(json_object_get(t, "us"));
    return us > 0 ? mac / us / 1e3 : 0;
}

/* us, or GMAC/s; 0: it was left out. */
static double value_of(const json_t *t, bool as_rate)
{
    return as_rate ? rate_of(t) : json_number_value(json_object_get(t, "us"));
}

/* ---- as text ---- */

static void print_time(const json_t *t)
{
    if (json_is_number(json_object_get(t, "us")))
        printf(" %9.0f", value_of(t, false));
    else
        printf(" %9s", "-");
}

/* "512 x 1024 by 64 in 812 us, 64 x 1024 by 512 in 2030: 2.50 times as long" */
static void print_pair(const char *what, const json_t *pair)
{
    double us[2];
    printf("  %-10s", what);
    for (size_t i = 0; i < 2; i++) {
        const json_t *t = json_array_get(pair, i);
        us[i] = value_of(t, false);
        printf("%s %lld x %lld by %lld", i ? "," : "", number_of(t, "rows"), number_of(t, "in"), number_of(t, "out"));
        if (us[i] > 0) printf(" in %.0f us", us[i]);
    }
    if (us[0] > 0 && us[1] > 0) printf(": %.2f times as long", us[1] / us[0]);
    putchar('\n');
}

/* A line of numbers under a line of what they belong to. */
static void print_series(const json_t *times, const char *key, const char *what, const char *unit, bool as_rate)
{
    printf("  %-10s", what);
    for (size_t i = 0; i < json_array_size(times); i++) printf(" %9lld", number_of(json_array_get(times, i), key));
    printf("\n  %-10s", unit);
    for (size_t i = 0; i < json_array_size(times); i++) {
        const json_t *t = json_array_get(times, i);
        if (as_rate && rate_of(t) > 0)
            printf(" %9.1f", rate_of(t));
        else
            print_time(t);
    }
    putchar('\n');
}

int traits_print(const char *text)
{
    json_error_t why;
    json_t *all = json_loads(text, 0, &why), *devices = json_object_get(all, "devices");
    puts("Products [rows x inputs] by [inputs x outputs], weights Q4_0; - would take too long.");
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const json_t *one = json_array_get(devices, d), *stage = json_object_get(one, "stage");
        printf("%s\n", json_string_value(json_object_get(one, "name")));
        print_series(json_object_get(one, "square"), "rows", "square", "GMAC/s", true);
        print_series(json_object_get(one, "rows"), "rows", "rows", "us", false);
        if (json_integer_value(stage) > 1)
            printf("  stages of %lld rows\n", (long long)json_integer_value(stage));
        else
            puts(json_is_integer(stage) ? "  no stages" : "  stages: not known");
        print_pair("order", json_object_get(one, "order"));
        print_pair("shape", json_object_get(one, "shape"));
        if (!json_is_number(json_object_get(one, "gbs"))) continue;
        printf("  reads      %.2f GB/s", json_number_value(json_object_get(one, "gbs")));
        if (json_is_number(json_object_get(one, "together_gbs")))
            printf(" alone, %.2f beside the others", json_number_value(json_object_get(one, "together_gbs")));
        putchar('\n');
    }
    if (json_is_number(json_object_get(all, "gbs")))
        printf("All at once read %.2f GB/s.\n", json_number_value(json_object_get(all, "gbs")));
    json_decref(all);
    return all ? 0 : EXIT_FAILED;
}

/* ---- as a picture ---- */

enum { WIDTH = 1060, HEIGHT = 800, LEFT = 80, TOP = 80, WIDE = 400, TALL = 260, NEXT_X = 520, NEXT_Y = 370, BARS = 40 };

static const char *const colours[] = {"#36c", "#e63", "#393", "#939", "#c90", "#099", "#666", "#c36"};

struct panel {
    struct buffer *out;
    double left, top, most; /* of its y axis, which begins at 0 */
    const char *unit;
};

static double y_of(const struct panel *p, double value)
{
    return p->top + TALL * (1 - value / p->most);
}

/* Frame, title, and the values of the y axis. */
static void begin_panel(const struct panel *p, const char *title)
{
    buffer_print(
        p->out, "<text x='%.0f' y='%.0f' font-weight='bold'>%s: %s</text>\n", p->left, p->top - 22, title, p->unit);
    for (int i = 0; i <= 4; i++) {
        const double value = p->most * i / 4, y = y_of(p, value);
        buffer_print(p->out,
            "<path d='M%.0f %.1fh%d' stroke='#ddd'/><text x='%.0f' y='%.1f' text-anchor='end'>%.4g</text>\n", p->left,
            y, WIDE, p->left - 6, y + 4, value);
    }
}

/* The largest of a series of all devices. */
static double most_of(const json_t *devices, const char *series, bool as_rate)
{
    double most = 0;
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const json_t *times = json_object_get(json_array_get(devices, d), series);
        for (size_t i = 0; i < json_array_size(times); i++)
            most = fmax(most, value_of(json_array_get(times, i), as_rate));
    }
    return most > 0 ? most : 1;
}

/* A line for each device over what `rows` says, each value as far from the next. */
static void draw_lines(struct panel p, const json_t *devices, const char *series, bool as_rate, const char *title)
{
    p.most = most_of(devices, series, as_rate);
    begin_panel(&p, title);
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const json_t *times = json_object_get(json_array_get(devices, d), series);
        const size_t n = json_array_size(times);
        const char *colour = colours[d % (sizeof colours / sizeof *colours)];
        bool drawn = false;
        buffer_print(p.out, "<path fill='none' stroke='%s' stroke-width='2' d='", colour);
        for (size_t i = 0; i < n; i++) {
            const double value = value_of(json_array_get(times, i), as_rate);
            if (!(value > 0)) continue; /* left out */
            buffer_print(p.out, "%s%.1f %.1f", drawn ? "L" : "M", p.left + WIDE * (i + .5) / n, y_of(&p, value));
            drawn = true;
        }
        buffer_print(p.out, "'/>\n");
        for (size_t i = 0; d == 0 && i < n; i++)
            buffer_print(p.out, "<text x='%.1f' y='%.0f' text-anchor='middle'>%lld</text>\n",
                p.left + WIDE * (i + .5) / n, p.top + TALL + 16, number_of(json_array_get(times, i), "rows"));
    }
}

struct bar {
    char label[48];
    double value;
    size_t colour;
};

static void draw_bars(struct panel p, const struct bar *bar, int n, const char *title)
{
    p.most = 0;
    for (int i = 0; i < n; i++) p.most = fmax(p.most, bar[i].value);
    if (!(p.most > 0)) p.most = 1;
    begin_panel(&p, title);
    for (int i = 0; i < n; i++) {
        const double x = p.left + (double)WIDE * i / n, y = y_of(&p, bar[i].value), w = (double)WIDE / n;
        buffer_print(p.out,
            "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'><title>%s: %.4g %s</title></rect>\n",
            x + w * .15, y, w * .7, p.top + TALL - y, colours[bar[i].colour % (sizeof colours / sizeof *colours)],
            bar[i].label, bar[i].value, p.unit);
        buffer_print(p.out, "<text transform='translate(%.1f %.0f) rotate(20)' font-size='9'>%s</text>\n", x + w * .15,
            p.top + TALL + 12, bar[i].label);
    }
}

static void draw_pairs(struct panel p, const json_t *devices, const char *title)
{
    struct bar bar[BARS];
    int n = 0;
    for (size_t d = 0; d < json_array_size(devices); d++)
        for (const char *const *what = (const char *const[]){"order", "shape", NULL}; *what; what++)
            for (size_t i = 0; i < 2 && n < BARS; i++) {
                const json_t *t = json_array_get(json_object_get(json_array_get(devices, d), *what), i);
                bar[n] = (struct bar){.value = value_of(t, false), .colour = d};
                snprintf(bar[n++].label, sizeof bar->label, "%lld x %lld by %lld", number_of(t, "rows"),
                    number_of(t, "in"), number_of(t, "out"));
            }
    draw_bars(p, bar, n, title);
}

static void draw_reads(struct panel p, const json_t *all, const json_t *devices, const char *title)
{
    static const char *const keys[] = {"gbs", "together_gbs"}, *const words[] = {"alone", "beside the others"};
    const double sum = json_number_value(json_object_get(all, "gbs"));
    struct bar bar[BARS];
    int n = 0;
    for (size_t d = 0; d < json_array_size(devices); d++)
        for (int k = 0; k < 2 && n < BARS - 1; k++) {
            const json_t *one = json_array_get(devices, d);
            const double gbs = json_number_value(json_object_get(one, keys[k]));
            if (!(gbs > 0)) continue;
            bar[n] = (struct bar){.value = gbs, .colour = d};
            snprintf(bar[n++].label, sizeof bar->label, "%s %s", text_of(one, "name"), words[k]);
        }
    if (sum > 0) bar[n++] = (struct bar){"all at once", sum, json_array_size(devices)};
    draw_bars(p, bar, n, title);
}

static void draw(struct buffer *out, const json_t *all)
{
    const json_t *devices = json_object_get(all, "devices");
    struct panel p = {.out = out, .left = LEFT, .top = TOP};
    buffer_print(out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='sans-serif' "
        "font-size='11'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n<text x='%d' y='26' font-size='14'>What "
        "devices are like: products of Q4_0 weights",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    for (size_t d = 0; d < json_array_size(devices); d++)
        buffer_print(out, "<tspan fill='%s' dx='14'>%s</tspan>", colours[d % (sizeof colours / sizeof *colours)],
            text_of(json_array_get(devices, d), "name"));
    buffer_print(out, "</text>\n");
    p.unit = "GMAC/s";
    draw_lines(p, devices, "square", true, "Square products, by their size");
    p.left += NEXT_X, p.unit = "us";
    draw_lines(p, devices, "rows", false, "Time by rows, steps are stages");
    p.left = LEFT, p.top += NEXT_Y;
    draw_pairs(p, devices, "As many multiplications in two orders, in two shapes");
    p.left += NEXT_X, p.unit = "GB/s";
    draw_reads(p, all, devices, "Weights read");
    buffer_print(out, "</svg>\n");
}

int traits_draw(const char *json, const char *path)
{
    struct buffer out = {0};
    json_error_t why;
    json_t *all = json_loads(json, 0, &why);
    draw(&out, all);
    const int rc = all ? write_file_whole(path, out.text, out.n_bytes) : -1;
    json_decref(all);
    buffer_free(&out);
    return rc < 0 ? EXIT_FAILED : 0;
}
