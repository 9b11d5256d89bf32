/* SPDX-License-Identifier: MIT
 *
 * A verifier's program is asked by a thread of its own, so that no pass waits for it.
 *
 *     ask_open(&ask, &asker, program, session, ...);        of a search, when it begins
 *     if (ask_reply(ask, id, to, &check, idle))             asks, or looks whether the reply has come
 *         ... ask->reward, ask->why ...
 *     ask_close(&ask);                                      from then on nobody waits for a reply
 *
 * A search has one question under way at a time.  When its reply comes, its session has something to do (lutra_wait).
 * All but the program's own calls run on the stepping thread; once a search is open nothing here allocates.
 */
#ifndef LUTRA_SEARCH_ASK_H
#define LUTRA_SEARCH_ASK_H

#include "search/checker.h"

struct asker;

enum ask_state { ASK_NONE, ASK_WAITS, ASK_RUNS, ASK_KNOWN };

enum { ASK_WHY_BYTES = 160 };

struct ask {
    struct asker *asker;
    lutra_session *session;
    struct ask *next; /* in the asker's queue */
    enum ask_state state;
    bool dropped; /* nobody waits for it: the thread frees it */
    int32_t id;   /* of a candidate, and the length in tokens up to the end of the step that is judged */
    int to;
    struct lutra_check check; /* its texts are copies */
    char *question, *expected, *text;
    double reward; /* outside 0..1: there is none, for the reason in why */
    char why[ASK_WHY_BYTES];
};

/* Room for texts of n_text bytes and the NUL.  Starts the verifier's thread where *asker is NULL. */
int ask_open(struct ask **out, struct asker **asker, struct checker *program, lutra_session *session,
    const char *question, const char *expected, size_t n_text, struct lutra_error *err);
void ask_close(struct ask **ask);
/* Ends the thread; there is no search left that asks.  A question that nobody waits for is given up. */
void asker_close(struct asker **asker);

/* Whether reward and why are those of this step; otherwise it is asked about, unless another question is under way.  A
 * reply that comes within a millisecond of the question is waited for, and one within ten where the session is idle. */
bool ask_reply(struct ask *ask, int32_t id, int to, const struct lutra_check *check, bool idle);

#endif
