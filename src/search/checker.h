/* SPDX-License-Identifier: MIT
 *
 * A program of the user's as a judge: a long-lived process that reads one JSON line per candidate and answers with one.
 *
 *     to it      {"id":7,"question":"...","text":"...","step":"...","whole":true}
 *     from it    {"id":7,"reward":0.5}
 *
 * No shell: the command is cut into words (checker_words).  The process has its own group, reads a socket and writes a
 * pipe; its errors go where ours go.  Of the environment it sees paths, user, language and time zone, and none of the
 * tokens and keys that may stand there.  What it does wrong costs the candidate it was asked about, never another:
 *
 * - A reply is awaited for a time limit, and at most REPLY_BYTES are read for it.  Lines about another id are passed
 *   over, what was written before the request is forgotten.  Ids do not follow one another.
 * - A process that dies, hangs, floods or answers nonsense is killed with its group, and the candidate is asked about
 *   again in a fresh one, so that what an earlier candidate left behind is not this one's fault; a process that dies
 *   is forgiven twice (another program may have killed it).  After `restarts` fresh processes there are no rewards.
 * - The memory limit is on its address space (RLIMIT_AS) and passes on to its children.  A child that leaves the group
 *   is not ended, but its pipes are: it cannot answer for later candidates.
 *
 * Blocks while it waits.  One thread at a time.
 */
#ifndef LUTRA_SEARCH_CHECKER_H
#define LUTRA_SEARCH_CHECKER_H

#include "lutra/search.h"

struct checker;

/* Starts the program of settings.command; owner: the caller, who closes it.  LUTRA_E_ARGUMENT: no words, or unbalanced
 * quotes; LUTRA_E_IO: it cannot be run. */
int checker_open(struct checker **out, const struct lutra_verifier_settings *settings, struct lutra_error *err);
void checker_close(struct checker **checker); /* ends it */

/* From any thread: a reply that is waited for is given up, and so are all later ones. */
void checker_give_up(struct checker *checker);

/* A lutra_check_fn; self: a struct checker.  Allocates nothing unless a process has to be started. */
double checker_ask(void *self, const struct lutra_check *check, char *why, size_t n_why);

#endif
