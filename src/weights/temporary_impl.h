/* SPDX-License-Identifier: MIT
 *
 * A file that is written beside its place and renamed to it when it is whole.
 *
 * Its name is PATH.tmp-PID-N.  Its writer holds a lock on it (flock), which ends with the writer however that dies: so
 * who creates the next one knows those that nobody writes any more, in other containers and on other hosts, too, and
 * removes them.  Where a file system has no locks they stay.
 */
#ifndef LUTRA_WEIGHTS_TEMPORARY_IMPL_H
#define LUTRA_WEIGHTS_TEMPORARY_IMPL_H

/* Removes what dead writers of `path` left, and creates a new one.  Returns its descriptor, to write to, and its name
 * in *name (to be freed); or -1 with errno, *name NULL or what could not be created. */
int temporary_create(const char *path, char **name);

#endif
