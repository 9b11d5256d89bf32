/* SPDX-License-Identifier: MIT
 *
 * Speculation: a row source that drafts what may follow, from a sequence's own tokens, and learns what its drafts are worth.
 *
 *     speculator_open(&sp, &set, 64, err);                      set.types = "suffix": NULL, and *out stays NULL, where there
 *     source_add(&sources, speculator_source(sp));              are none
 *
 * Drafters look at a tip's text and propose a small tree, best first, each node with an estimate of how likely its whole path
 * is; a node becomes a row while that pays (spec_row_pays).  What is drafted changes how many passes a text takes, and nothing
 * else (decode/source.h).  Estimates are a session's, shared by its sequences: forks have nothing to copy.
 */
#ifndef LUTRA_DECODE_SPECULATE_H
#define LUTRA_DECODE_SPECULATE_H

#include "decode/source.h"

enum { SPEC_DRAFT_MOST = 64, SPEC_NGRAM_LEAST = 2, SPEC_NGRAM_MOST = 64 };

struct spec_settings {
    const char *types; /* drafters by name with commas, the first chooses first; NULL, "", "none": no speculation */
    int draft_max, draft_min; /* rows of one sequence's tree: at most, and fewer are not worth it */
    float p_min;              /* least estimate of a path */
    int ngram_n;              /* tokens that ngram-simple looks up at most */
};

struct speculator;

/* Allocates all it ever needs; n_draft: draft rows of one pass.  LUTRA_E_UNSUPPORTED names a drafter that is not built,
 * LUTRA_E_ARGUMENT a number out of range. */
int speculator_open(struct speculator **out, const struct spec_settings *set, int n_draft, struct lutra_error *err);
void speculator_close(struct speculator **sp);
struct row_source *speculator_source(struct speculator *sp);

#endif
