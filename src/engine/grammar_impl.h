/* SPDX-License-Identifier: MIT
 *
 * Constrained samples (grammar.c), for the files that start, follow and end them.
 */
#ifndef LUTRA_ENGINE_GRAMMAR_IMPL_H
#define LUTRA_ENGINE_GRAMMAR_IMPL_H

#include "engine/samples.h"

/* Of a request; of a sample at its start, as a fork, and behind a token (free_text: one that the grammar does
 * not see).  1: the text is whole and nothing may follow. */
int request_open_grammar(lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err);
void request_close_grammar(struct request *r);
int sample_begin_grammar(lutra_session *s, struct sample *slot, struct lutra_error *err);
int sample_share_grammar(lutra_session *s, struct sample *slot);
/* Whether the grammar does not see this token, the next one. */
bool sample_is_free(const struct sample *slot, int32_t token);
int sample_follow_grammar(
    lutra_session *s, struct sample *slot, int32_t token, bool free_text, struct lutra_error *err);

#endif
