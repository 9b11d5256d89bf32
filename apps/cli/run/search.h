/* SPDX-License-Identifier: MIT
 *
 * `lutra run --vote N`, `--beam BxE --prm FILE` and the like: several candidates, one reply.
 *
 *     search.c  options, verifier, one search
 *     view.c    what its candidates are doing, live on a terminal or line by line
 */
#ifndef LUTRA_CLI_RUN_SEARCH_H
#define LUTRA_CLI_RUN_SEARCH_H

#include "cli.h"
#include "judge.h"

struct search_options {
    int vote, weighted, best_of, rebase; /* 0 = not asked for */
    const char *beam, *dvts;             /* "4x4" */
    const char *method, *auto_table, *budget;
    struct judge_options judge;
};

struct searcher {
    bool wanted;
    char name[24]; /* "beam 4x4" */
    struct lutra_search settings;
    struct method_table table;
    struct judge judge;
    lutra_verifier *verifier;
    bool by_likelihood; /* its rewards are small by nature */
    bool checks;        /* it is a checker: candidates pass or not */
};

void search_options_init(struct search_options *o);
struct option_set search_option_set(struct search_options *o);
/* Which search is wanted, if any; 0 or EXIT_USAGE after a message. */
int searcher_init(struct searcher *s, struct search_options *o);
/* Opens the verifier for a session of the engine; 0 or an exit code. */
int searcher_open(struct searcher *s, const struct search_options *o, struct engine *e, const char *model_path);
void searcher_close(struct searcher *s, const struct engine *e);

/* Runs a search for one reply to a question (for checkers): the winner's text goes into *reply; its first *n_reasoning
 * bytes are not its answer.  0, EXIT_NOT_PASSED with a reply that the checker did not pass, or an exit code after a
 * message; cancelled: true after Ctrl-C.  quiet: only failures on stderr. */
int searcher_run(struct searcher *s, struct engine *e, const struct lutra_request *request, const char *question,
    bool quiet, struct buffer *reply, size_t *n_reasoning, bool *cancelled);

/* ---- view (view.c) ---- */

struct view;
/* quiet: shows nothing; judged: there are rewards to show. */
struct view *view_open(const char *name, bool quiet, bool votes, bool judged);
void view_text(struct view *v, const struct lutra_piece *piece);
void view_event(struct view *v, const struct lutra_search_event *event);
/* Redraws when that is due (or at the end). */
void view_draw(struct view *v, bool end);
/* The summary, and the end of the view. */
void view_close(struct view *v, const struct lutra_search_result *result);

#endif
