/* SPDX-License-Identifier: MIT
 *
 * Python's format specifications; private to text/jinja.  All of it is written to the end of run->out.
 */
#ifndef LUTRA_TEXT_JINJA_FORMAT_IMPL_H
#define LUTRA_TEXT_JINJA_FORMAT_IMPL_H

#include "text/jinja/jinja_impl.h"

#define JINJA_MAX_PRECISION 4000

struct jinja_spec {
    struct jinja_value fill;  /* one character */
    char align;               /* < > ^ = (between sign and digits), 0: the value's own */
    char sign;                /* + or space: what positive numbers get; - or 0 none */
    char group;               /* , or _ between digits; 0 none */
    char type;                /* the conversion; 0 none */
    bool alternate, zeros;    /* #; zeros before the digits up to the width */
    bool percent;             /* read from the % notation */
    int64_t width, precision; /* -1: not given */
};

int jinja_spec_text(struct jinja_run *run, const struct jinja_spec *spec, char side, struct jinja_value text);
int jinja_spec_int(struct jinja_run *run, const struct jinja_spec *spec, int64_t i, bool input);
int jinja_spec_float(struct jinja_run *run, const struct jinja_spec *spec, double f, bool input);
int jinja_spec_char(struct jinja_run *run, const struct jinja_spec *spec, int64_t cp, bool input);
int jinja_convert(struct jinja_run *run, char how, struct jinja_value v, struct jinja_value *out); /* s, r or a */

#endif
