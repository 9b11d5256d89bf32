/* SPDX-License-Identifier: MIT */
#include "download.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "curl.h"
#include "sha.h"

enum { TEXT_MOST = 16 << 20, ATTEMPTS = 5, REDIRECTS = 10, BUFFER = 1 << 16 };

/* One transfer: into a text, or onto the end of a file. */
struct transfer {
    const struct curl_calls *api;
    CURL *curl;
    struct curl_slist *headers;
    struct buffer *text;
    const struct download *d;
    int fd;
    struct sha hash; /* of the n_done bytes in the file */
    uint64_t n_done;
    bool checked;        /* the answer's head was looked at */
    const char *refused; /* why the answer cannot be the file; NULL */
    int error;           /* errno of a failed write */
};

bool download_possible(void)
{
    return true;
}

/* Of the announced kind; git's begins with the length. */
static void begin_sum(struct transfer *t)
{
    char head[32];
    bool git = strlen(t->d->sum) == SHA_1;
    sha_begin(&t->hash, git ? SHA_1 : SHA_256);
    if (git)
        sha_add(
            &t->hash, head, (size_t)snprintf(head, sizeof head, "blob %llu", (unsigned long long)t->d->n_bytes) + 1);
}

/* ---- an answer ---- */

/* "bytes 100-199/200": does it go on from n_done and end with the whole file? */
static bool goes_on(const struct transfer *t)
{
    struct curl_header *h;
    unsigned long long first, last, total;
    return t->api->easy_header(t->curl, "Content-Range", 0, CURLH_HEADER, -1, &h) == CURLHE_OK &&
           sscanf(h->value, "bytes %llu-%llu/%llu", &first, &last, &total) == 3 && first == t->n_done &&
           last == total - 1 && total == t->d->n_bytes;
}

/* Before the first byte is written: is this the file, and from where on? */
static const char *check_head(struct transfer *t)
{
    long code = 0;
    curl_off_t length = -1;
    t->api->easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->api->easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (code == 206) return t->n_done > 0 && goes_on(t) ? NULL : "the server sends another part than was asked for";
    if (t->n_done > 0) { /* all of it, again */
        if (ftruncate(t->fd, 0) < 0 || lseek(t->fd, 0, SEEK_SET) < 0) return "its part cannot be emptied";
        t->n_done = 0;
        begin_sum(t);
    }
    if (length >= 0 && (uint64_t)length != t->d->n_bytes)
        return "the server announces another length than the repository";
    return NULL;
}

static size_t take(char *bytes, size_t one, size_t n, void *user)
{
    struct transfer *t = user;
    (void)one;
    if (t->text) {
        if (t->text->n_bytes + n > TEXT_MOST) {
            t->refused = "the answer is longer than 16 MiB";
            return 0;
        }
        buffer_add(t->text, bytes, n);
        return n;
    }
    long code = 0;
    t->api->easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code / 100 != 2) return n; /* a page that says what is wrong */
    if (!t->checked) t->refused = check_head(t);
    t->checked = true;
    if (!t->refused && t->n_done + n > t->d->n_bytes) t->refused = "the server sends more bytes than it announced";
    if (t->refused) return 0;
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(t->fd, bytes + done, n - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            t->error = errno;
            return 0;
        }
        done += (size_t)wrote;
    }
    sha_add(&t->hash, bytes, n);
    t->n_done += n;
    return n;
}

static int show(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
    const struct transfer *t = user;
    (void)total, (void)now, (void)up_total, (void)up;
    if (t->d) progress_show(t->d->name, t->n_done, t->d->n_bytes);
    return interrupted();
}

/* ---- a request ---- */

/* A token is a password: it goes over https, or to this machine. */
static bool is_private(const char *url)
{
    static const char *const mine[] = {"127.0.0.1", "localhost", "[::1]"};
    if (strncasecmp(url, "http://", 7) != 0) return strncasecmp(url, "https://", 8) == 0;
    for (int i = 0; i < 3; i++) {
        /* The whole of the authority is that host, maybe with a port: behind an '@' another host would follow. */
        const char *rest = url + 7;
        size_t n = strlen(mine[i]);
        if (strncasecmp(rest, mine[i], n) != 0) continue;
        rest += n;
        if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest == 0 || *rest == '/') return true;
    }
    return false;
}

static long stall_seconds(void)
{
    const char *text = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    int64_t n;
    return text && option_number(text, 1, 3600, &n) == 0 ? (long)n : 30;
}

static int open_transfer(struct transfer *t, const char *url, const char *token)
{
    char line[1024];
    bool https = strncasecmp(url, "https://", 8) == 0;
    if (!https && strncasecmp(url, "http://", 7) != 0) {
        say("%s: not an address that begins with https://", url);
        return EXIT_USAGE;
    }
    if (token && !is_private(url)) {
        say("%s: the token is not sent without https", url);
        return EXIT_USAGE;
    }
    if (token && (strlen(token) > 900 || strpbrk(token, "\r\n"))) {
        say("the token is longer than 900 bytes, or more than one line");
        return EXIT_USAGE;
    }
    const char *why;
    t->api = curl_load(&why);
    if (!t->api) {
        say("%s: libcurl cannot be loaded: %s", url, why);
        return EXIT_FAILED;
    }
    t->curl = t->api->easy_init();
    if (!t->curl) {
        say("%s: libcurl does not start", url);
        return EXIT_FAILED;
    }
    if (token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", token); /* libcurl keeps it from other hosts */
        t->headers = t->api->slist_append(NULL, line);
        t->api->easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
    }
    snprintf(line, sizeof line, "lutra/%s", lutra_version());
    t->api->easy_setopt(t->curl, CURLOPT_USERAGENT, line);
    t->api->easy_setopt(t->curl, CURLOPT_URL, url);
    t->api->easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    t->api->easy_setopt(t->curl, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
    t->api->easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
    t->api->easy_setopt(t->curl, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    t->api->easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    t->api->easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, stall_seconds());
    t->api->easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    t->api->easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, stall_seconds());
    t->api->easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, take);
    t->api->easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    t->api->easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, show);
    t->api->easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
    t->api->easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
    return 0;
}

static void close_transfer(struct transfer *t)
{
    t->api->easy_cleanup(t->curl);
    t->api->slist_free_all(t->headers);
}

/* What went wrong, in words; *again: another attempt may do. */
static const char *judge(struct transfer *t, CURLcode rc, bool *again)
{
    long code = 0;
    t->api->easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    *again = false;
    if (t->error) return strerror(t->error);
    if (t->refused) return t->refused;
    if (code == 401 || code == 403) return "the server wants a token with access (HF_TOKEN or --hf-token)";
    if (code == 404) return "the server has no such repository or file";
    *again = rc != CURLE_COULDNT_RESOLVE_HOST && rc != CURLE_COULDNT_RESOLVE_PROXY; /* a name does not appear */
    if (rc != CURLE_OK) return t->api->easy_strerror(rc);
    if (code >= 400) return code == 429 ? "the server says: too many requests" : "the server failed";
    return NULL;
}

/* Waits before the next attempt; false: interrupted. */
static bool wait_for(int attempt)
{
    for (int i = 0; i < 2 << attempt && !interrupted(); i++) usleep(125000);
    return !interrupted();
}

static int give_up(const char *url, const char *why)
{
    progress_clear();
    if (interrupted()) return EXIT_INTERRUPTED;
    say("%s: %s", url, why);
    return EXIT_FAILED;
}

int download_text(const char *url, const char *token, struct buffer *out)
{
    for (int attempt = 0;; attempt++) {
        struct transfer t = {.text = out};
        buffer_clear(out);
        int code = open_transfer(&t, url, token);
        if (code) return code;
        bool again;
        const char *why = judge(&t, t.api->easy_perform(t.curl), &again);
        close_transfer(&t);
        if (!why) return 0;
        if (!again || attempt + 1 == ATTEMPTS || !wait_for(attempt)) return give_up(url, why);
    }
}

/* ---- a file ---- */

/* What is there of it, read into the hash. */
static int read_part(struct transfer *t)
{
    char bytes[BUFFER];
    struct stat st;
    t->n_done = 0;
    begin_sum(t);
    if (fstat(t->fd, &st) < 0 || lseek(t->fd, 0, SEEK_SET) < 0) return -1;
    if ((uint64_t)st.st_size > t->d->n_bytes) return ftruncate(t->fd, 0);
    for (ssize_t n; (n = read(t->fd, bytes, sizeof bytes)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || interrupted()) return -1;
        sha_add(&t->hash, bytes, (size_t)n);
        t->n_done += (uint64_t)n;
        progress_show("checking what is there", t->n_done, t->d->n_bytes);
    }
    return 0;
}

/* The rest of the file, or what of it came. */
static const char *fetch_rest(struct transfer *t, bool *again)
{
    char range[32];
    t->checked = false;
    t->refused = NULL;
    t->error = 0;
    if (t->n_done > 0) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->n_done);
        t->api->easy_setopt(t->curl, CURLOPT_RANGE, range);
    } else {
        t->api->easy_setopt(t->curl, CURLOPT_RANGE, NULL);
    }
    const char *why = judge(t, t->api->easy_perform(t->curl), again);
    if (!why && t->n_done < t->d->n_bytes) why = "the server ended before the file did";
    return why;
}

/* Fills the file to its length; attempts that bring something are not counted. */
static const char *fetch_all(struct transfer *t)
{
    bool again;
    for (int attempt = 0; t->n_done < t->d->n_bytes;) {
        uint64_t before = t->n_done;
        const char *why = fetch_rest(t, &again);
        attempt = t->n_done > before ? 0 : attempt + 1;
        if (why && (!again || attempt == ATTEMPTS || !wait_for(attempt))) return why;
    }
    return NULL;
}

static bool is_right(struct transfer *t)
{
    char hex[SHA_256 + 1];
    sha_end(&t->hash, hex);
    return strcmp(hex, t->d->sum) == 0;
}

/* What came before may have been of another file: once more from its beginning. */
static const char *fetch_right(struct transfer *t)
{
    bool resumed = t->n_done > 0;
    const char *why = fetch_all(t);
    if (why || is_right(t)) return why;
    if (ftruncate(t->fd, 0) < 0 || read_part(t) < 0) return strerror(errno);
    if (!resumed) return "other bytes came than the repository announces (its sum)";
    why = fetch_all(t);
    if (why || is_right(t)) return why;
    if (ftruncate(t->fd, 0) < 0) return strerror(errno);
    return "other bytes came than the repository announces (its sum)";
}

/* The name that says "whole" comes last, when the bytes are on the disk. */
static int put_in_place(int fd, const char *part, const char *path)
{
    if (fsync(fd) < 0 || rename(part, path) < 0) return -1;
    char *copy = copy_text(path);
    int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (folder < 0) return -1;
    int rc = fsync(folder);
    close(folder);
    return rc;
}

static bool is_there(const struct download *d)
{
    struct stat st;
    return stat(d->path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == d->n_bytes;
}

static int download_part(const struct download *d, const char *part)
{
    struct transfer t = {.d = d, .fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (t.fd < 0) return give_up(part, strerror(errno));
    const char *why = NULL;
    int code = 0;
    if (flock(t.fd, LOCK_EX | LOCK_NB) < 0)
        why = "another process is downloading it";
    else if (!is_there(d)) {
        if (read_part(&t) < 0)
            why = strerror(errno);
        else if (!(code = open_transfer(&t, d->url, d->token)))
            why = fetch_right(&t);
        if (!why && !code && put_in_place(t.fd, part, d->path) < 0) why = strerror(errno);
        if (t.curl) close_transfer(&t);
    }
    close(t.fd);
    progress_clear();
    return why ? give_up(d->url, why) : code;
}

int download_file(const struct download *d)
{
    if (is_there(d)) return 0;
    size_t n = strlen(d->path) + 16;
    char *part = get_memory(n);
    snprintf(part, n, "%s.incomplete", d->path);
    int code = download_part(d, part);
    free(part);
    return code;
}
