/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int thread_start(pthread_t *out, void *(*run)(void *user), void *user)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t set, old;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&set, own[i]);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    int rc = pthread_create(out, NULL, run, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}
