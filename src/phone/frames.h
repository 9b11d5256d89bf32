/* SPDX-License-Identifier: MIT
 *
 * A game in the foreground [HETERO 5.7]: frames that take their turns on a phone's GPU beside a model's work.
 *
 *     struct frames f;
 *     frames_open(&f, 60, 0.4, 10e3, 15);                60 a second, 0.4 of the GPU; a model's work in slices of 10 ms
 *     end = frames_take(&f, at, 25e3);                    25 ms of a model, submitted at `at`: when the GPU has done it
 *     frames_until(&f, end);                              f.n_shown frames, the slowest of f.worst_us
 *
 * The GPU ends what it has begun.  Where both wait they alternate: a frame, a slice.  A frame begins at a multiple of
 * the period; one that is not done by the next keeps the game waiting, and the display shows the one before again.
 *
 * Times in us, ascending from call to call.  One thread.
 */
#ifndef LUTRA_PHONE_FRAMES_H
#define LUTRA_PHONE_FRAMES_H

struct frames {
    double period_us, work_us; /* of a frame */
    double slice_us;           /* of the model's work at a time; 0: all that was submitted */
    double submit_us;          /* the GPU's time for each cut between two slices */
    double free_us, next_us;   /* when the GPU has nothing to do, and when the next frame begins */
    int n_shown;
    double sum_us, worst_us; /* from a frame's begin to its end; worst: also of one that is not done yet */
};

/* share: 0 .. 1, of the GPU's time where it is alone. */
void frames_open(struct frames *f, double per_second, double share, double slice_us, double submit_us);

/* When `us` of the model's work, submitted at `at`, are done. */
double frames_take(struct frames *f, double at, double us);

/* What the game does until then while nothing else is submitted. */
void frames_until(struct frames *f, double at);

#endif
