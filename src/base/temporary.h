/* SPDX-License-Identifier: MIT
 *
 * A file, or a folder of files, that is written beside its place and renamed to it when it is whole.
 *
 * Its name is PATH.tmp-PID-N.  Its writer holds a lock on it (flock), which ends with the writer however that dies: so
 * who creates the next one knows those that nobody writes any more, in other containers and on other hosts, too, and
 * removes them.  Where a file system has no locks they stay.
 */
#ifndef LUTRA_BASE_TEMPORARY_H
#define LUTRA_BASE_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>

/* Removes what dead writers of `path` left, and creates a new one.  Returns its descriptor, to write to, and its name
 * in *name (to be freed); or -1 with errno, *name NULL or what could not be created.  EISDIR, ENOTSUP: `path` is there
 * and no plain file. */
int temporary_create(const char *path, char **name);

/* Writes all n bytes; false: errno says why not. */
bool temporary_write(int fd, const void *bytes, size_t n);

/* The same with a folder; what it returns only holds the lock. */
int temporary_folder(const char *path, char **name);
void temporary_remove(int fd, const char *name); /* such a folder, with its files */

/* Whether it is a folder without an entry. */
bool temporary_is_empty(const char *path);

/* Makes a rename to `path` itself durable; a folder that cannot be synced does not make what is in it wrong. */
void temporary_settle(const char *path);

#endif
