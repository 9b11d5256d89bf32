/* SPDX-License-Identifier: MIT
 *
 * The picture of `lutra eval` for reports of three sizes: no text lies on another or on a point, and axes and machine
 * are named.  LUTRA_TEST_KEEP leaves the pictures in TMPDIR, to look at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/eval.h"

enum { BOXES_MAX = 1024 };

struct box {
    double x, y, w, h;
    char text[64];
};

struct picture {
    struct box text[BOXES_MAX], name[BOXES_MAX], point[BOXES_MAX];
    struct box leader[BOXES_MAX]; /* w, h: to where it leads */
    int n_text, n_name, n_point, n_leader;
};

/* Accuracies and costs as searches have them: many methods at the same few costs. */
static void fill(struct eval_set *set, int n_method)
{
    static const char *const names[] = {"greedy", "mean sample", "vote@", "weighted@", "best@", "beam@", "dvts@"};
    static const enum eval_method_kind kinds[] = {
        METHOD_GREEDY, METHOD_MEAN, METHOD_VOTE, METHOD_WEIGHTED, METHOD_BEST, METHOD_SEARCH, METHOD_SEARCH};
    *set = (struct eval_set){.n = 500, .n_method = n_method};
    for (int i = 0; i < n_method; i++) {
        struct eval_method *m = &set->method[i];
        int which = i < 2 ? i : 2 + i % 5, width = 2 << (i / 5 % 6);
        m->kind = kinds[which];
        snprintf(m->name, sizeof m->name, which < 2 ? "%s" : "%s%d", names[which], width);
        double right = 0.5 + 0.3 * (1 - exp(-i / 6.0)) + 0.004 * (i * 7 % 5);
        m->accuracy = (struct eval_interval){right, right - 0.04, right + 0.035};
        m->latency_s = 0.002 * (which < 2 ? 1 : width * (1 + 0.03 * which));
        m->generator_rows = 100 * (which < 2 ? 1 : width);
    }
}

static double number(const char *at, const char *key)
{
    at = strstr(at, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

static void take_text(struct picture *p, const char *at)
{
    if (!strncmp(at, "<text transform", 15)) return; /* beside the panel, upright */
    struct box *b = &p->text[p->n_text++];
    const char *tag_end = strchr(at, '>');
    sscanf(tag_end + 1, "%63[^<]", b->text);
    char tag[256] = "";
    memcpy(tag, at, (size_t)(tag_end - at) < sizeof tag ? (size_t)(tag_end - at) : sizeof tag - 1);
    double size = strstr(tag, "font-size='") ? number(tag, "font-size='") : 11;
    b->w = 0.6 * size * (double)strlen(b->text);
    for (const char *c = b->text; *c; c++) b->w += strchr("@mw", *c) ? 0.3 * size : 0;
    b->h = 0.9 * size;
    b->x = number(tag, " x='") - (strstr(tag, "'end'") ? b->w : strstr(tag, "'middle'") ? b->w / 2 : 0);
    b->y = number(tag, " y='") - 0.75 * size;
}

static void read_picture(const char *svg, struct picture *p)
{
    memset(p, 0, sizeof *p);
    for (const char *at = svg; (at = strchr(at, '<')); at++) {
        if (!strncmp(at, "<text", 5)) take_text(p, at);
        if (!strncmp(at, "<rect class='name'", 18))
            p->name[p->n_name++] =
                (struct box){number(at, " x='"), number(at, " y='"), number(at, "width='"), number(at, "height='"), ""};
        struct box *l = &p->leader[p->n_leader];
        p->n_leader += sscanf(at, "<path d='M%lf %lfL%lf %lf' stroke='#bbb'/>", &l->x, &l->y, &l->w, &l->h) == 4;
        if (!strncmp(at, "<circle", 7))
            p->point[p->n_point++] = (struct box){number(at, "cx='") - 3.5, number(at, "cy='") - 3.5, 7, 7, "a point"};
    }
}

static void assert_apart(const struct box *a, const struct box *b)
{
    bool meet = a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
    if (meet) fail_msg("'%s' at %.0f,%.0f lies on '%s' at %.0f,%.0f", a->text, a->x, a->y, b->text, b->x, b->y);
}

/* Points of the leader well inside a name: its own it only touches. */
static int n_crossed(const struct picture *p)
{
    int n = 0;
    for (int i = 0; i < p->n_leader; i++)
        for (int k = 0; k < p->n_name; k++) {
            const struct box *l = &p->leader[i], *b = &p->name[k];
            bool in = false;
            for (double t = 0; t <= 1; t += 0.002) {
                double x = l->x + t * (l->w - l->x), y = l->y + t * (l->h - l->y);
                in |= x > b->x + 1 && x < b->x + b->w - 1 && y > b->y + 1 && y < b->y + b->h - 1;
            }
            n += in;
        }
    return n;
}

static void check_picture(int n_method, int crossings)
{
    struct eval_set *set = calloc(1, sizeof *set);
    struct picture *p = calloc(1, sizeof *p);
    struct eval_options o = {.file = "problems.jsonl", .timed = 10};
    char path[64];
    struct buffer svg = {0};
    snprintf(path, sizeof path, "%s/lutra-test-%ld-%d.svg", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
        (long)getpid(), n_method);
    o.engine.model = "model.gguf";
    o.svg = path;
    fill(set, n_method);
    struct eval_run run = {.set = set, .opts = &o};
    struct lutra_error err = {0};
    assert_int_equal(lutra_runtime_open(&run.engine.runtime, NULL, &err), 0);
    assert_int_equal(eval_svg(&run), 0);
    assert_int_equal(read_file(path, &svg), 0);
    if (!getenv("LUTRA_TEST_KEEP")) unlink(path);
    read_picture(svg.text, p);
    assert_int_equal(p->n_name, 2 * n_method);
    assert_int_equal(p->n_point, 2 * n_method);
    for (int i = 0; i < p->n_text; i++) {
        for (int k = 0; k < i; k++) assert_apart(&p->text[i], &p->text[k]);
        for (int k = 0; k < p->n_point; k++) assert_apart(&p->text[i], &p->point[k]);
    }
    if (n_crossed(p) > crossings) fail_msg("%d methods: leaders cross %d names", n_method, n_crossed(p));
    assert_non_null(strstr(svg.text, "problems answered right"));
    assert_non_null(strstr(svg.text, "ms per problem"));
    assert_non_null(strstr(svg.text, lutra_runtime_device_text(run.engine.runtime)));
    lutra_runtime_close(&run.engine.runtime);
    buffer_free(&svg);
    free(set);
    free(p);
}

static void names_are_apart_at_three_sizes(void **state)
{
    (void)state;
    check_picture(2, 0);
    check_picture(12, 0);
    check_picture(32, 1); /* under the name, which is on white */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_apart_at_three_sizes)};
    return cmocka_run_group_tests_name("cli/svg", tests, NULL, NULL);
}
