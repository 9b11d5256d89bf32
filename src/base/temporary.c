/* SPDX-License-Identifier: MIT */
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *skip_digits(const char *at)
{
    const char *start = at;
    while (*at >= '0' && *at <= '9') at++;
    return at > start ? at : NULL;
}

/* Whether name is BASE.tmp-PID-N. */
static bool is_temporary(const char *name, const char *base)
{
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".tmp-", 5) != 0) return false;
    const char *at = skip_digits(name + n + 5);
    at = at && *at == '-' ? skip_digits(at + 1) : NULL;
    return at && *at == 0;
}

static bool is_entry(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void remove_folder(int parent, int fd, const char *name)
{
    DIR *dir = fdopendir(dup(fd));
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (is_entry(entry->d_name)) unlinkat(fd, entry->d_name, 0);
    if (dir) closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Without its lock nobody writes it. */
static void remove_unlocked(int folder, const char *name)
{
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, fd = openat(folder, name, O_WRONLY | flags);
    struct stat st;
    if (fd < 0 && errno == EISDIR) fd = openat(folder, name, O_RDONLY | O_DIRECTORY | flags);
    if (fd < 0) return;
    bool ours = fstat(fd, &st) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (ours && S_ISREG(st.st_mode)) unlinkat(folder, name, 0);
    if (ours && S_ISDIR(st.st_mode)) remove_folder(folder, fd, name);
    close(fd);
}

static void remove_left(const char *path)
{
    char *copy = strdup(path);
    if (!copy) return;
    char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : copy, *folder = !slash ? "." : slash == copy ? "/" : copy;
    if (slash) *slash = 0;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (is_temporary(entry->d_name, base)) remove_unlocked(dirfd(dir), entry->d_name);
    if (dir) closedir(dir);
    free(copy);
}

/* Whether the file is ours now: between its creation and the lock somebody else may have taken it for one left over. */
static bool hold(int fd)
{
    struct stat st;
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR) return true; /* no locks here: nobody removes it, either */
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static int create_file(const char *name)
{
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int create_folder(const char *name)
{
    return mkdir(name, 0777) == 0 ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* Why nothing may be renamed to a path, as an errno; 0: it may.  A device or a pipe would be gone, even /dev/null. */
static int why_not(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return 0;
    return S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
}

/* The first N that is free.  Plain open and mkdir, so that it gets the mode of anything new. */
static int create_first(const char *path, int (*create)(const char *name), char **name)
{
    size_t room = strlen(path) + 64;
    *name = malloc(room);
    if (!*name) return -1;
    remove_left(path);
    errno = EEXIST;
    for (int i = 0; i < 1000 && errno == EEXIST; i++) {
        snprintf(*name, room, "%s.tmp-%ld-%d", path, (long)getpid(), i);
        int fd = create(*name);
        if (fd < 0) continue;
        if (hold(fd)) return fd;
        close(fd);
        errno = EEXIST;
    }
    return -1;
}

int temporary_create(const char *path, char **name)
{
    const int why = why_not(path);
    if (!why) return create_first(path, create_file, name);
    *name = strdup(path);
    errno = why;
    return -1;
}

bool temporary_write(int fd, const void *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, bytes, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        bytes = (const char *)bytes + k;
        n -= (size_t)k;
    }
    return true;
}

int temporary_folder(const char *path, char **name)
{
    return create_first(path, create_folder, name);
}

void temporary_remove(int fd, const char *name)
{
    remove_folder(AT_FDCWD, fd, name);
}

bool temporary_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool empty = dir;
    while (dir && (entry = readdir(dir))) empty = empty && !is_entry(entry->d_name);
    if (dir) closedir(dir);
    return empty;
}

void temporary_settle(const char *path)
{
    char *folder = strdup(path);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}
