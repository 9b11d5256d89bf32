/* SPDX-License-Identifier: MIT
 *
 * What handlers may ask about a request of HTTP; on the I/O thread only.
 */
#ifndef LUTRA_SERVER_HTTP_H
#define LUTRA_SERVER_HTTP_H

struct exchange;

/* A header's value; NULL: there is none. */
const char *http_header(const struct exchange *x, const char *name);

#endif
