/* SPDX-License-Identifier: MIT */
#include "sched/timeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/temporary.h"

enum { CALLER = PLAN_DEVICES }; /* its track */

struct timeline {
    pthread_mutex_t lock; /* a draft model's session writes its passes, too */
    FILE *file;
    char *path, *temporary;
    struct device *device[PLAN_DEVICES]; /* track by track */
    int n_device;
};

static void name_track(const struct timeline *t, int track, const char *name)
{
    fprintf(t->file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
        track, name);
}

/* Names of devices are letters, digits and punctuation that JSON takes as it is. */
static int track_of(struct timeline *t, struct device *d)
{
    for (int i = 0; i < t->n_device; i++)
        if (t->device[i] == d) return i;
    if (t->n_device == PLAN_DEVICES) return CALLER;
    name_track(t, t->n_device, d->name);
    t->device[t->n_device] = d;
    return t->n_device++;
}

static void write_event(void *user, const struct run_event *e)
{
    static const char *const what[] = {"compute", "wait", "copy"};
    struct timeline *t = user;
    const struct plan_piece *piece = &e->plan->piece[e->piece];
    const struct op *op = &e->plan->list->op[piece->first];
    struct device *d = e->plan->device[piece->device];
    pthread_mutex_lock(&t->lock);
    int track = track_of(t, d), to = share_is_whole(piece->share) ? SHARE_WHOLE : piece->share.to;
    if (e->what == RUN_WAIT) track = CALLER;
    fprintf(t->file,
        ",\n{\"name\":\"%s%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%llu,\"dur\":%llu,\"pid\":1,\"tid\":%d,\"args\":{"
        "\"device\":\"%s\",\"pass\":%ld,\"piece\":%d,\"layer\":%d,\"operations\":%d,\"from\":%.4f,\"to\":%.4f}}",
        e->what == RUN_COMPUTE ? ""
        : e->what == RUN_WAIT  ? "wait for "
                               : "copy ",
        op_name(op->kind), what[e->what], (unsigned long long)e->begin_us,
        (unsigned long long)(e->end_us - e->begin_us), track, d->name, e->pass, e->piece, op->layer, piece->n,
        (double)piece->share.from / SHARE_WHOLE, (double)to / SHARE_WHOLE);
    pthread_mutex_unlock(&t->lock);
}

int timeline_open(struct timeline **out, const char *path, struct waits *waits, struct lutra_error *err)
{
    struct timeline *t = *out = calloc(1, sizeof *t);
    if (t) pthread_mutex_init(&t->lock, NULL), t->path = strdup(path);
    if (!t || !t->path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "timeline: out of memory");
    int fd = temporary_create(path, &t->temporary);
    if (fd >= 0 && !(t->file = fdopen(fd, "w"))) close(fd);
    if (!t->file) return lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    fputs("[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"lutra\"}}", t->file);
    name_track(t, CALLER, "caller");
    waits->told = write_event;
    waits->user = t;
    return 0;
}

int timeline_close(struct timeline **timeline, struct lutra_error *err)
{
    struct timeline *t = *timeline;
    int rc = 0;
    if (!t) return 0;
    if (t->file) {
        bool whole = fputs("]\n", t->file) >= 0 && fflush(t->file) == 0 && !ferror(t->file);
        if (!whole || rename(t->temporary, t->path) < 0) {
            rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", t->path, strerror(errno));
            unlink(t->temporary);
        }
        fclose(t->file);
    }
    pthread_mutex_destroy(&t->lock);
    free(t->temporary);
    free(t->path);
    free(t);
    *timeline = NULL;
    return rc;
}
