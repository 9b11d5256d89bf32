/* SPDX-License-Identifier: MIT
 *
 * The listening socket: given by a service manager (sd_listen_fds(3)), a Unix socket of this user, or an address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "state.h"

enum { BACKLOG = 512, FIRST_PASSED_FD = 3 };

/* What kind of socket it is, and its address to show. */
static void describe(struct server *s)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char text[INET6_ADDRSTRLEN] = "?";
    if (getsockname(s->listen_fd, (struct sockaddr *)&at, &n) < 0) return;
    if (at.ss_family == AF_UNIX) {
        const char *path = ((struct sockaddr_un *)&at)->sun_path;
        s->is_unix = s->is_local = true;
        snprintf(s->address, sizeof s->address, "unix:%.100s", n > offsetof(struct sockaddr_un, sun_path) ? path : "");
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (struct sockaddr_in6 *)&at;
        s->is_local = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
        inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
        snprintf(s->address, sizeof s->address, "http://[%s]:%d", text, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (struct sockaddr_in *)&at;
        s->is_local = ntohl(four->sin_addr.s_addr) >> 24 == 127;
        inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        snprintf(s->address, sizeof s->address, "http://%s:%d", text, ntohs(four->sin_port));
    }
}

/* A socket of the service manager's; -1: there is none. */
static int take_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    bool ours = pid && n && strtol(pid, NULL, 10) == (long)getpid() && strtol(n, NULL, 10) >= 1;
    unsetenv("LISTEN_PID"); /* no child's business */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return ours && fcntl(FIRST_PASSED_FD, F_SETFD, FD_CLOEXEC) == 0 ? FIRST_PASSED_FD : -1;
}

static int open_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat there;
    if (strlen(path) >= sizeof at.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode)) {
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno != ECONNREFUSED) {
            close(fd);
            errno = EADDRINUSE;
            return -1;
        }
        unlink(path); /* left by a server that is gone */
    }
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || chmod(path, 0600) < 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd; /* nobody can connect before listen() */
}

static int open_address(const struct server *s)
{
    char port[16];
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *all = NULL;
    snprintf(port, sizeof port, "%d", s->set->port);
    int rc = getaddrinfo(s->set->host, port, &wanted, &all), fd = -1, why = 0;
    if (rc != 0) {
        s->set->say("--host %s: %s", s->set->host, gai_strerror(rc));
        return -2;
    }
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        int on = 1;
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0) break;
        why = errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(all);
    errno = why;
    return fd;
}

static bool is_path(const char *host)
{
    size_t n = strlen(host);
    return strchr(host, '/') || (n > 5 && strcmp(host + n - 5, ".sock") == 0);
}

int listen_open(struct server *s)
{
    bool path = is_path(s->set->host);
    s->listen_fd = take_passed();
    s->is_passed = s->listen_fd >= 0;
    if (!s->is_passed) s->listen_fd = path ? open_unix(s->set->host) : open_address(s);
    if (s->listen_fd == -2) return -1;
    if (s->listen_fd >= 0) describe(s);
    if (s->listen_fd >= 0 && !s->is_local && s->n_key == 0 && !s->set->no_auth) {
        s->set->say(
            "%s: other machines reach it, and there are no keys: --api-key-file FILE names them, --no-auth goes "
            "without",
            s->address);
        return -1;
    }
    int flags = s->listen_fd < 0 ? 0 : fcntl(s->listen_fd, F_GETFL);
    if (s->listen_fd < 0 || listen(s->listen_fd, BACKLOG) < 0 || fcntl(s->listen_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        if (path)
            s->set->say("%s: %s", s->set->host, strerror(errno));
        else
            s->set->say("%s port %d: %s%s", s->set->host, s->set->port, strerror(errno),
                errno == EADDRINUSE ? "; --port N takes another, 0 a free one" : "");
        return -1;
    }
    return 0;
}

void listen_close(struct server *s)
{
    if (s->listen_fd >= 0) close(s->listen_fd);
    if (s->listen_fd >= 0 && s->is_unix && !s->is_passed) unlink(s->set->host);
    s->listen_fd = -1;
}

void listen_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof at.sun_path) return;
    memcpy(at.sun_path, path, strlen(path));
    if (path[0] == '@') at.sun_path[0] = 0; /* an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&at, n) < 0)
        at.sun_path[0] = 0; /* nobody listens */
    close(fd);
}
