/* SPDX-License-Identifier: MIT
 *
 * A mapped file that somebody cuts short, or whose disk fails, raises SIGBUS at the page that is gone.  The library
 * cannot check for that; a program can say which file it was.  Everything here is async-signal-safe.
 */
#include "cli.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line of /proc/self/maps: 7f00-7f20 r--s 00001000 08:01 1234    /path/of/file */
struct mapping {
    uintptr_t start, end;
    uint64_t offset; /* in the file, of start */
    const char *path;
};

static const char *read_hex(const char *at, uint64_t *out)
{
    for (*out = 0;; at++) {
        int digit = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : -1;
        if (digit < 0) return at;
        *out = *out << 4 | (uint64_t)digit;
    }
}

static bool read_mapping(const char *line, struct mapping *out)
{
    uint64_t start, end;
    const char *at = read_hex(line, &start);
    if (*at != '-') return false;
    at = read_hex(at + 1, &end);
    at = *at ? strchr(at + 1, ' ') : NULL;
    if (!at) return false;
    read_hex(at + 1, &out->offset);
    out->start = (uintptr_t)start;
    out->end = (uintptr_t)end;
    out->path = strchr(line, '/');
    return out->path != NULL;
}

/* The file mapped at `address`.  line: [size] working space, which the path points into. */
static bool find_mapping(uintptr_t address, char *line, size_t size, struct mapping *out)
{
    char piece[1024];
    size_t n = 0;
    ssize_t got;
    bool found = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    while (!found && (got = read(fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < got && !found; i++) {
            if (piece[i] != '\n') {
                if (n + 1 < size) line[n++] = piece[i];
                continue;
            }
            line[n] = 0;
            n = 0;
            found = read_mapping(line, out) && address >= out->start && address < out->end;
        }
    close(fd);
    return found;
}

static void put(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    char line[PATH_MAX + 128];
    struct mapping m;
    struct stat file;
    uintptr_t address = (uintptr_t)info->si_addr;
    if (!find_mapping(address, line, sizeof line, &m)) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    bool short_now = stat(m.path, &file) == 0 && (uint64_t)file.st_size <= m.offset + (address - m.start);
    put("\nlutra: ");
    put(m.path);
    put(short_now ? ": the file was cut short while it was in use\n"
                  : ": the file cannot be read any more: replaced, or its disk fails\n");
    _exit(EXIT_FAILED);
}

void crash_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
