/* SPDX-License-Identifier: MIT
 *
 * libcurl, loaded when something is downloaded: it and the thirty libraries behind it are 6 MB of a process, and more
 * than half of the time that it takes to start.
 */
#ifndef CLI_CURL_H
#define CLI_CURL_H

#include <stdbool.h>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define CURL_CALLS(X)                                                                                                  \
    X(easy_init)                                                                                                       \
    X(easy_cleanup)                                                                                                    \
    X(easy_setopt)                                                                                                     \
    X(easy_getinfo)                                                                                                    \
    X(easy_perform)                                                                                                    \
    X(easy_header)                                                                                                     \
    X(easy_strerror)                                                                                                   \
    X(slist_append)                                                                                                    \
    X(slist_free_all)

#define CURL_CALL(name) __typeof__(curl_##name) *name;
struct curl_calls {
    CURL_CALLS(CURL_CALL)
};
#undef CURL_CALL

/* NULL, and why, where there is no such library.  For one thread. */
const struct curl_calls *curl_load(const char **why);

#endif
