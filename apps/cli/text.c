/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void *need(void *p)
{
    if (p) return p;
    say("out of memory");
    exit(EXIT_FAILED);
}

void *get_memory(size_t bytes)
{
    return need(calloc(1, bytes ? bytes : 1));
}

void *grow_memory(void *p, size_t bytes)
{
    return need(realloc(p, bytes ? bytes : 1));
}

char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(get_memory(n), text, n);
}

void buffer_add(struct buffer *b, const char *text, size_t n)
{
    if (b->n_bytes + n + 1 > b->room) {
        b->room = (b->n_bytes + n + 1) * 2;
        b->text = grow_memory(b->text, b->room);
    }
    memcpy(b->text + b->n_bytes, text, n);
    b->n_bytes += n;
    b->text[b->n_bytes] = 0;
}

void buffer_print(struct buffer *b, const char *fmt, ...)
{
    char piece[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    if (n > 0) buffer_add(b, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

void buffer_clear(struct buffer *b)
{
    b->n_bytes = 0;
    buffer_add(b, "", 0);
}

void buffer_free(struct buffer *b)
{
    free(b->text);
    *b = (struct buffer){0};
}

int read_file(const char *path, struct buffer *b)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f) {
        say("%s: %s", path, strerror(errno));
        return -1;
    }
    char chunk[16384];
    buffer_clear(b);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) buffer_add(b, chunk, n);
    int bad = ferror(f);
    if (bad) say("%s: %s", path, strerror(errno));
    if (f != stdin) fclose(f);
    return bad ? -1 : 0;
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        text += done;
        n -= (size_t)done;
    }
    return fsync(fd);
}

static bool take_lock(int fd)
{
    enum { TRIES = 100, WAIT_MS = 20 };
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) return true; /* a file system without locks */
        if (i == TRIES) return false;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000}, NULL);
    }
    return true;
}

/* Locked by who writes it: what a writer left that died is taken over by the next.  -1 with errno. */
static int open_temporary(const char *name)
{
    for (int why = 0; why == 0; errno = why) {
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        struct stat ours, there;
        if (fd < 0) return -1;
        if (!take_lock(fd))
            why = EBUSY;
        else if (fstat(fd, &ours) < 0 || !S_ISREG(ours.st_mode) || ours.st_uid != geteuid())
            why = EEXIST;
        else if (lstat(name, &there) < 0 || there.st_dev != ours.st_dev || there.st_ino != ours.st_ino)
            why = 0; /* its writer has renamed it meanwhile */
        else if (ftruncate(fd, 0) == 0)
            return fd;
        else
            why = errno;
        close(fd);
    }
    return -1;
}

int write_file_whole(const char *path, const char *text, size_t n_bytes)
{
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) { /* a device would be replaced, too */
        say("%s: not a regular file", path);
        return -1;
    }
    size_t room = strlen(path) + 16;
    char *temporary = get_memory(room);
    snprintf(temporary, room, "%s.lutra-tmp", path);
    int fd = open_temporary(temporary), rc = -1;
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        rc = fchmod(fd, 0666 & ~mask);
        if (rc == 0) rc = write_all(fd, text, n_bytes);
        if (rc == 0) rc = rename(temporary, path); /* under the lock */
        if (rc < 0) {
            int why = errno;
            unlink(temporary);
            errno = why;
        }
        close(fd); /* written and synchronised before */
    }
    if (rc < 0 && fd < 0 && (errno == EBUSY || errno == EEXIST))
        say("%s: %s", temporary, errno == EBUSY ? "another program is writing" : "somebody else's");
    else if (rc < 0)
        say("%s: %s", path, strerror(errno));
    free(temporary);
    return rc;
}

char *user_path(const char *variable, const char *below_home, const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    bool absolute = base && base[0] == '/'; /* the standard ignores others */
    if (!absolute && !(home && home[0])) return NULL;
    struct buffer path = {0};
    buffer_add(&path, absolute ? base : home, strlen(absolute ? base : home));
    if (!absolute) buffer_add(&path, "/", 1);
    if (!absolute) buffer_add(&path, below_home, strlen(below_home));
    buffer_add(&path, "/lutra/", 7);
    buffer_add(&path, name, strlen(name));
    return path.text;
}

void make_folders(const char *path)
{
    char *copy = copy_text(path);
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(copy, 0700);
        *p = '/';
    }
    free(copy);
}

void print_plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xC2 && i + 1 < n && (unsigned char)text[i + 1] < 0xA0; /* U+0080 .. U+009F */
        putchar((c < ' ' && c != '\n' && c != '\t') || c == 0x7f || c1 ? ' ' : c);
        i += c1;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void unescape(char *text, size_t *n_bytes)
{
    static const char from[] = "nrt'\"\\", to[] = "\n\r\t'\"\\";
    size_t n = *n_bytes, out = 0;
    for (size_t i = 0; i < n; i++) {
        const char *at = text[i] == '\\' && i + 1 < n && text[i + 1] ? strchr(from, text[i + 1]) : NULL;
        if (at) {
            text[out++] = to[at - from];
            i++;
        } else if (text[i] == '\\' && i + 3 < n && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 &&
                   hex_digit(text[i + 3]) >= 0) {
            text[out++] = (char)(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
            i += 3;
        } else {
            text[out++] = text[i];
        }
    }
    text[out] = 0;
    *n_bytes = out;
}

bool bytes_parse(const char *text, int64_t *out)
{
    static const char unit[] = "kmgt";
    char *end;
    double x = strtod(text, &end);
    if (end == text || !(x >= 0)) return false;
    while (*end == ' ') end++;
    const char *at = *end ? strchr(unit, tolower((unsigned char)*end)) : NULL;
    if (at) x *= exp2(10.0 * (double)(at - unit + 1)), end++;
    if (*end && strcasecmp(end, "b") != 0 && (!at || strcasecmp(end, "ib") != 0)) return false;
    if (x > 0x1p62) return false;
    *out = (int64_t)x;
    return true;
}

char *bytes_text(double bytes, char *out, size_t n_out)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 4; u++) bytes /= 1024;
    snprintf(out, n_out, u ? "%.2f %s" : "%.0f %s", bytes, unit[u]);
    return out;
}

char *count_text(double count, char *out, size_t n_out)
{
    if (count >= 1e9)
        snprintf(out, n_out, "%.2f B", count * 1e-9);
    else if (count >= 1e6)
        snprintf(out, n_out, "%.2f M", count * 1e-6);
    else if (count >= 1e3)
        snprintf(out, n_out, "%.2f K", count * 1e-3);
    else
        snprintf(out, n_out, "%.0f", count);
    return out;
}

int tokenize(
    const lutra_model *model, const char *text, size_t n, int flags, struct tokens *out, struct lutra_error *err)
{
    for (;;) {
        int rc = lutra_tokenize(model, text, n, flags, out->id, out->room, &out->n, err);
        if (rc < 0) return rc;
        if (out->n <= out->room && out->id) return 0;
        out->room = out->n + 16;
        out->id = grow_memory(out->id, (size_t)out->room * sizeof *out->id);
    }
}

int tokenize_chat(const lutra_model *model, const struct lutra_chat *chat, struct tokens *out, struct lutra_error *err)
{
    for (;;) {
        int rc = lutra_chat_tokenize(model, chat, out->id, out->room, &out->n, err);
        if (rc < 0) return rc;
        if (out->n <= out->room && out->id) return 0;
        out->room = out->n + 16;
        out->id = grow_memory(out->id, (size_t)out->room * sizeof *out->id);
    }
}
