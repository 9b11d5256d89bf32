/* SPDX-License-Identifier: MIT
 *
 * Where the names of a picture's points go: beside their points, over no other name or point, and over as few lines as
 * can be; their leaders cross no other name if that can be.  Coordinates are the picture's, y downwards.
 */
#ifndef LUTRA_CLI_LABELS_H
#define LUTRA_CLI_LABELS_H

#include <stdbool.h>

enum { LABELS_BOX_MAX = 256, LABELS_LINE_MAX = 1024 };

struct label_box {
    double x, y, w, h;
};

struct label_line {
    double x0, y0, x1, y1;
};

struct label {
    struct label_box box;
    bool far; /* a line should lead from the point to the name, drawn before all names: */
    struct label_line leader;
};

struct label_plan {
    struct label_box frame; /* names stay inside */
    struct label_box box[LABELS_BOX_MAX];
    struct label_line line[LABELS_LINE_MAX];
    struct label name[LABELS_BOX_MAX]; /* those placed so far */
    int n_box, n_line, n_name;
};

/* What names avoid: points first, then lines; more than there is room for is left out. */
void labels_add_box(struct label_plan *plan, struct label_box box);
void labels_add_line(struct label_plan *plan, double x0, double y0, double x1, double y1);

/* The place for the name of the point at x, y, in a sans-serif font of `size`; plan->name has it, too. */
struct label labels_place(struct label_plan *plan, double x, double y, const char *text, double size);

/* Places each name once more, now that all others are known. */
void labels_settle(struct label_plan *plan);

#endif
