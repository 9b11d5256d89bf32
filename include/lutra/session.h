/* SPDX-License-Identifier: MIT
 *
 * A session: the cache of one model, what runs in it, accounting.
 *
 * Threads: one thread steps a session (lutra_step, lutra_generate, lutra_forward); any thread may call lutra_submit(),
 * lutra_request_cancel(), lutra_request_pause(), lutra_request_resume(), lutra_wake() and lutra_cancel() meanwhile.
 * None of these waits for a pass: what they ask for is taken in by the next lutra_step().  lutra_cancel() is safe in
 * signal handlers, too.  All other calls on one session must not overlap.
 *
 * Callbacks run on the thread that steps, between passes, with no lock held.  They may call the functions named above
 * on the session, and nothing else of it.
 */
#ifndef LUTRA_SESSION_H
#define LUTRA_SESSION_H

#include "lutra/experimental.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lutra_session_settings {
    size_t size;
    int n_ctx;       /* longest sequence, tokens; 0 = the model's training context, or what memory allows */
    int n_seq;       /* sequences alive at once; default 1 */
    int64_t n_cache; /* tokens of all sequences, shared ones once; 0 = n_ctx * n_seq, or as memory allows */
    int n_batch;     /* rows of one forward pass; default 512; of encoders at least n_ctx, at most 8192 */
    int n_out;       /* rows of one pass whose results are kept; 0 = n_seq + n_draft, but at least 64 */
    /* Type of cached keys, and of cached values unless cache_type_v is given: "f16" (NULL), "f32", and where heads are
     * multiples of 32 "q8_0", "q5_0", "q4_1" or "q4_0".  Vectors of 5 and 4 bits are rotated (docs/NUMERICS.md): CPU
     * only, as are two types. */
    const char *cache_type, *cache_type_v;
    int n_draft; /* draft rows of one pass; 0 = up to 64 within the other limits */
    /* Speculation (docs/SPECULATION.md), fewer passes for the same text: "ngram-simple", "suffix", "siblings",
     * "calibrated", "recycle", "mtp" (the model's own MTP block; LUTRA_E_UNSUPPORTED: it has none) with commas; "auto"
     * = suffix, siblings, recycle, and mtp where there is one; "draft" = draft_model; NULL, "none" = off. */
    const char *spec_type;
    int draft_max;         /* drafts of one sequence in a pass, 1..64; default 16 */
    int draft_min;         /* fewer are not tried; default 0 */
    float draft_p_min;     /* least estimate that a draft and all above it are right; default 0.01 */
    int spec_ngram_size_n; /* tokens that ngram-simple looks up, 2..64; default 12 */
    /* calibrated: tokens of the vocabulary among which the likeliest are looked for behind those of a prompt, up to
     * 4096; 0 = all of it; default 2048. */
    int spec_shortlist;
    /* A second model that drafts, of the same runtime and vocabulary, open for longer than the session; NULL = none. */
    lutra_model *draft_model;
    /* Frees K/V that a sliding-window layer can no longer attend to, but for 64 positions of slack.  Sequences can not
     * be cut or forked further back (LUTRA_E_ARGUMENT); a prompt is then evaluated again.  CPU only.  Default false. */
    bool swa_trim;
    /* While samples run, prompts get so many rows of a pass that it takes about so long, as measured, and never less
     * than 16 or a block of bulk rows; 100,000.  0 = all that a pass has room for. */
    uint64_t prompt_us;
    int n_queue; /* requests that may wait to begin; lutra_submit() then says LUTRA_E_BUSY; 4096 */
    /* File that gets what each device computed, what was copied and when the caller waited, in every pass, as JSON for
     * Chrome's and Perfetto's trace viewers; it appears whole when the session is closed.  NULL = none.  LUTRA_E_IO. */
    const char *timeline;
    const struct lutra_session_experiment *experiment; /* lutra/experimental.h; NULL = none */
};
LUTRA_API void lutra_session_settings_init(struct lutra_session_settings *settings, size_t size);

/* Reserves all memory that passes need: decoding allocates nothing. */
LUTRA_API int lutra_session_open(
    lutra_session **out, lutra_model *model, const struct lutra_session_settings *settings, struct lutra_error *err);
/* Requests that have not ended end with LUTRA_STOP_CANCELLED first, and their callbacks hear of it. */
LUTRA_API void lutra_session_close(lutra_session **session);
LUTRA_API void lutra_session_sizes_get(const lutra_session *session, int *n_ctx, int64_t *n_cache, uint64_t *bytes);

/* Stops what the session does within one pass: requests end with LUTRA_STOP_CANCELLED, lutra_forward() returns
 * LUTRA_E_CANCELLED.  If nothing is running, the cancel stays pending: for the next lutra_forward(), or the next
 * lutra_step() that has requests.  It does not end a lutra_wait(). */
LUTRA_API void lutra_cancel(lutra_session *session);

/* ---- waiting for work ---- */

enum { LUTRA_WAIT_FOREVER = -1 };

/* Sleeps until a lutra_step() of one of the sessions has something to do, of n_session that are all of one runtime, or
 * timeout_us has passed.  1: one has; 0: the time is over.  A session whose requests are all paused has nothing to do
 * until one of them is resumed, cancelled or too late.  For the thread that steps them. */
LUTRA_API int lutra_wait(lutra_session *const *session, int n_session, int64_t timeout_us);
/* The lutra_wait() under way, or the next one, returns 1. */
LUTRA_API void lutra_wake(lutra_session *session);

/* ---- accounting ------------------------------------------------------------------------------------------------- */

/* Sums over passes since open or reset.  Counted, except the times, which are measured. */
struct lutra_stats {
    size_t size;
    uint64_t n_pass;
    uint64_t rows_valid;         /* committed */
    uint64_t rows_wasted;        /* evaluated, then rejected or not needed */
    uint64_t rows_underutilized; /* rows that passes had room for at about the cost of one */
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /* prompts': evaluated, and found in the cache */
    uint64_t weight_bytes, cache_bytes;                      /* read by passes */
    uint64_t mac;
    uint64_t prompt_us, decode_us;        /* passes with a chain of several rows, other passes */
    uint64_t sample_us;                   /* sampling and text */
    uint64_t rows_drafted, rows_accepted; /* drafts; those that became text */
    uint64_t draft_us;                    /* drafting, and learning from what became of it */
    uint64_t hints_us;                    /* what is likely behind a prompt's tokens; not within prompt_us */
    uint64_t hint_rows, known_hint_rows;  /* prompts' rows: evaluated for that; with known_hints */
    uint64_t n_preempted;                 /* prompts and samples that gave their memory to older ones, and came back */
};
LUTRA_API void lutra_session_stats_get(const lutra_session *session, struct lutra_stats *stats, size_t size);
LUTRA_API void lutra_session_stats_reset(lutra_session *session);

#ifdef __cplusplus
}
#endif
#endif
