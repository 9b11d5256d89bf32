/* SPDX-License-Identifier: MIT
 *
 * Files of tasks as llama-perplexity reads them, and its draw: a Mersenne Twister [Matsumoto and Nishimura 1998] of
 * seed 1.
 *
 *     HellaSwag        six lines a task: context, the right ending (0 .. 3), four endings
 *     WinoGrande       a line a task: number,sentence with _,choice,choice,1 or 2; the sentence may stand in quotes
 *     multiple choice  binary, little-endian: u32 n, u32 place[n] in the file; a task there: the question, then twice
 *                      u32 n, n texts, i32 label[n] (1 = right); the second list is not used.  A text is u32 bytes and
 *                      the bytes
 */
#include "perplexity/perplexity.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWERS_MAX = 100, TASKS_MAX = 1 << 24 };

/* ---- the draw ---- */

enum { TWISTER = 624, TWIST = 397 };

struct twister {
    uint32_t x[TWISTER];
    int at;
};

static void twister_seed(struct twister *t, uint32_t seed)
{
    t->x[0] = seed;
    for (int i = 1; i < TWISTER; i++) t->x[i] = 1812433253u * (t->x[i - 1] ^ t->x[i - 1] >> 30) + (uint32_t)i;
    t->at = TWISTER;
}

static uint32_t twister_next(struct twister *t)
{
    if (t->at == TWISTER) {
        for (int i = 0; i < TWISTER; i++) {
            uint32_t y = (t->x[i] & 0x80000000u) | (t->x[(i + 1) % TWISTER] & 0x7fffffffu);
            t->x[i] = t->x[(i + TWIST) % TWISTER] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->x[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* Below n, every number as likely [Lemire 2019]; C++'s uniform_int_distribution of libstdc++. */
static uint32_t draw_even(struct twister *t, uint32_t n)
{
    uint64_t product = (uint64_t)twister_next(t) * n;
    uint32_t threshold = -n % n;
    while ((uint32_t)product < threshold) product = (uint64_t)twister_next(t) * n;
    return (uint32_t)(product >> 32);
}

/* Below n, by a float: what the other two modes draw with. */
static uint32_t draw_scaled(struct twister *t, uint32_t n)
{
    float scaled = 0x1p-32f * (float)twister_next(t) * (float)n;
    return scaled < (float)n ? (uint32_t)scaled : n - 1;
}

/* n_drawn numbers below n, all different. */
static uint32_t *draw(uint32_t n, uint32_t n_drawn, bool even)
{
    struct twister t;
    uint32_t *left = get_memory((n + 1) * sizeof *left), *out = get_memory((n_drawn + 1) * sizeof *out);
    twister_seed(&t, 1);
    for (uint32_t i = 0; i < n; i++) left[i] = i;
    for (uint32_t i = 0; i < n_drawn; i++, n--) {
        uint32_t k = even ? draw_even(&t, n) : draw_scaled(&t, n);
        out[i] = left[k];
        if (even)
            memmove(&left[k], &left[k + 1], (n - k - 1) * sizeof *left);
        else
            left[k] = left[n - 1];
    }
    free(left);
    return out;
}

/* ---- texts ---- */

struct span {
    const char *p;
    size_t n;
};

static char *join(struct span a, struct span b, struct span c)
{
    char *text = get_memory(a.n + b.n + c.n + 1), *to = text;
    memcpy(to, a.p, a.n);
    memcpy(to += a.n, b.p, b.n);
    memcpy(to += b.n, c.p, c.n);
    return text;
}

static void open_task(struct task *t, int n)
{
    *t = (struct task){.n = n};
    t->choice = get_memory((size_t)n * sizeof *t->choice + 1);
    t->right = get_memory((size_t)n * sizeof *t->right + 1);
}

static void free_task(struct task *t)
{
    for (int i = 0; i < t->n; i++) {
        free(t->choice[i].text);
        free(t->choice[i].head);
    }
    free(t->choice);
    free(t->right);
}

void tasks_free(struct tasks *t)
{
    for (int i = 0; i < t->n; i++) free_task(&t->task[i]);
    free(t->task);
}

/* The lines of a text, without their ends; *n of them. */
static struct span *lines_of(const struct buffer *b, size_t *n)
{
    size_t room = 1;
    for (size_t i = 0; i < b->n_bytes; i++) room += b->text[i] == '\n';
    struct span *line = get_memory(room * sizeof *line);
    const char *at = b->text, *end = b->text + b->n_bytes;
    for (*n = 0; at < end; ++*n) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        line[*n] = (struct span){at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
    }
    return line;
}

static const struct span space = {" ", 1}, nothing = {"", 0};

/* ---- HellaSwag ---- */

static int read_hellaswag(struct task *t, const struct span *line, size_t number, const char *path)
{
    open_task(t, 4);
    if (line[1].n != 1 || line[1].p[0] < '0' || line[1].p[0] > '3') {
        say("%s, line %zu: '%.*s' is not the number of an ending, 0 to 3", path, number + 1,
            (int)(line[1].n < 40 ? line[1].n : 40), line[1].p);
        return EXIT_FAILED;
    }
    for (int i = 0; i < 4; i++) t->choice[i].text = join(line[0], space, line[2 + i]);
    t->right[line[1].p[0] - '0'] = true;
    return 0;
}

static int hellaswag(struct tasks *t, const struct buffer *b, const struct perplexity_options *o)
{
    size_t n_line;
    struct span *line = lines_of(b, &n_line);
    int code = 0;
    if (n_line == 0 || n_line % 6) {
        say("%s: %zu lines are no HellaSwag tasks of six lines each", o->file, n_line);
        code = EXIT_FAILED;
    }
    uint32_t n = (uint32_t)(n_line / 6), n_drawn = n;
    if (o->hellaswag_tasks > 0 && (uint32_t)o->hellaswag_tasks < n) n_drawn = (uint32_t)o->hellaswag_tasks;
    uint32_t *which = draw(n, code ? 0 : n_drawn, true);
    t->task = get_memory((n_drawn + 1) * sizeof *t->task);
    for (uint32_t i = 0; !code && i < n_drawn; i++)
        code = read_hellaswag(&t->task[t->n++], line + 6 * which[i], 6 * (size_t)which[i] + 1, o->file);
    free(which);
    free(line);
    return code;
}

/* ---- WinoGrande ---- */

/* The fields of a line; false: there are no five. */
static bool cut(struct span line, struct span field[5])
{
    bool quoted = false;
    int n = 0;
    size_t from = 0;
    for (size_t i = 0; i < line.n && n < 4; i++) {
        quoted ^= line.p[i] == '"';
        if (quoted || line.p[i] != ',') continue;
        field[n++] = (struct span){line.p + from, i - from};
        from = i + 1;
    }
    field[4] = (struct span){line.p + from, line.n - from};
    return n == 4;
}

static int read_winogrande(struct task *t, struct span line, size_t number, const char *path)
{
    struct span field[5];
    open_task(t, 2);
    const char *gap = NULL;
    if (cut(line, field)) {
        if (field[1].n > 1 && field[1].p[0] == '"') field[1] = (struct span){field[1].p + 1, field[1].n - 2};
        gap = memchr(field[1].p, '_', field[1].n);
    }
    if (!gap || field[4].n < 1 || (field[4].p[0] != '1' && field[4].p[0] != '2')) {
        say("%s, line %zu: not a WinoGrande task: number,sentence with _,choice,choice,1 or 2", path, number);
        return EXIT_FAILED;
    }
    struct span before = {field[1].p, (size_t)(gap - field[1].p)}, behind = {gap + 1, field[1].n - before.n - 1};
    for (int i = 0; i < 2; i++) {
        t->choice[i].text = join(before, field[2 + i], behind);
        t->choice[i].head = join(before, field[2 + i], nothing);
    }
    t->right[field[4].p[0] - '1'] = true;
    return 0;
}

static int winogrande(struct tasks *t, const struct buffer *b, const struct perplexity_options *o)
{
    size_t n_line, n = 0;
    struct span *line = lines_of(b, &n_line);
    size_t *number = get_memory((n_line + 1) * sizeof *number);
    for (size_t i = 0; i < n_line; i++) /* empty lines are none */
        if (line[i].n > 0) number[n++] = i;
    bool part = o->winogrande_tasks > 0 && (size_t)o->winogrande_tasks < n;
    size_t n_drawn = part ? (size_t)o->winogrande_tasks : n;
    uint32_t *which = part ? draw((uint32_t)n, (uint32_t)n_drawn, false) : NULL;
    int code = 0;
    t->task = get_memory((n_drawn + 1) * sizeof *t->task);
    for (size_t i = 0; !code && i < n_drawn; i++) {
        size_t at = number[which ? which[i] : i];
        code = read_winogrande(&t->task[t->n++], line[at], at + 1, o->file);
    }
    free(which);
    free(number);
    free(line);
    return code;
}

/* ---- multiple choice ---- */

struct reader {
    const char *p;
    size_t n, at;
};

static bool take_u32(struct reader *r, uint32_t *out)
{
    if (r->n - r->at < sizeof *out) return false;
    memcpy(out, r->p + r->at, sizeof *out);
    r->at += sizeof *out;
    return true;
}

static bool take_text(struct reader *r, struct span *out)
{
    uint32_t n;
    if (!take_u32(r, &n) || r->n - r->at < n) return false;
    *out = (struct span){r->p + r->at, n};
    r->at += n;
    return true;
}

/* NULL, or what is wrong. */
static const char *read_choice(struct task *t, struct reader *r)
{
    struct span question, answer;
    uint32_t n, label, n_right = 0;
    if (!take_text(r, &question) || !take_u32(r, &n)) return "it ends too early";
    if (question.n == 0 || n < 1 || n > ANSWERS_MAX) return "no question, or not 1 to 100 answers";
    open_task(t, (int)n);
    for (uint32_t i = 0; i < n; i++) {
        if (!take_text(r, &answer)) return "it ends too early";
        if (answer.n == 0) return "an answer is empty";
        t->choice[i].text = join(question, space, answer);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!take_u32(r, &label)) return "it ends too early";
        n_right += t->right[i] = label == 1;
    }
    return n_right ? NULL : "no answer is right";
}

static int multiple_choice(struct tasks *t, const struct buffer *b, const struct perplexity_options *o)
{
    struct reader r = {b->text, b->n_bytes, 0};
    uint32_t n = 0;
    if (!take_u32(&r, &n) || n < 1 || n > TASKS_MAX || (r.n - r.at) / sizeof n < n) {
        say("%s: no file of multiple-choice tasks", o->file);
        return EXIT_FAILED;
    }
    bool part = o->choice_tasks > 0 && (uint32_t)o->choice_tasks < n;
    uint32_t n_drawn = part ? (uint32_t)o->choice_tasks : n;
    uint32_t *which = part ? draw(n, n_drawn, false) : NULL;
    const char *why = NULL;
    t->task = get_memory((n_drawn + 1) * sizeof *t->task);
    for (uint32_t i = 0; !why && i < n_drawn; i++) {
        uint32_t k = which ? which[i] : i, at = 0;
        r.at = sizeof n * (1 + (size_t)k);
        take_u32(&r, &at);
        r.at = at < r.n ? at : r.n;
        why = read_choice(&t->task[t->n++], &r);
        if (why) say("%s: task %u at byte %u: %s", o->file, k + 1, at, why);
    }
    free(which);
    return why ? EXIT_FAILED : 0;
}

int tasks_read(struct tasks *t, const struct perplexity_options *o)
{
    struct buffer b = {0};
    *t = (struct tasks){0};
    if (read_file(o->file, &b) < 0) return EXIT_FAILED;
    int code = o->hellaswag ? hellaswag(t, &b, o) : o->winogrande ? winogrande(t, &b, o) : multiple_choice(t, &b, o);
    if (!code && t->n == 0) {
        say("%s: no tasks", o->file);
        code = EXIT_FAILED;
    }
    buffer_free(&b);
    return code;
}
