/* SPDX-License-Identifier: MIT
 *
 * Threads of the library's own.
 */
#ifndef LUTRA_BASE_THREAD_H
#define LUTRA_BASE_THREAD_H

#include <pthread.h>

/* pthread_create().  Signals go to the application's own threads: this one blocks them.  But for those that an
 * instruction of its own raises: blocked, they would kill the process past the handler that reports the crash. */
int thread_start(pthread_t *out, void *(*run)(void *user), void *user);

#endif
