/* SPDX-License-Identifier: MIT
 *
 * libmicrohttpd, loaded when a server starts: with GnuTLS behind it, which a server of plain HTTP never calls, it took
 * every command longer to start than all other libraries.  A static program has it in itself.
 */
#ifndef LUTRA_SERVER_MHD_H
#define LUTRA_SERVER_MHD_H

#include <microhttpd.h>

#define MHD_CALLS(X)                                                                                                   \
    X(add_response_header)                                                                                             \
    X(create_response_from_buffer)                                                                                     \
    X(create_response_from_callback)                                                                                   \
    X(destroy_response)                                                                                                \
    X(get_connection_info)                                                                                             \
    X(lookup_connection_value)                                                                                         \
    X(queue_response)                                                                                                  \
    X(quiesce_daemon)                                                                                                  \
    X(resume_connection)                                                                                               \
    X(start_daemon)                                                                                                    \
    X(stop_daemon)                                                                                                     \
    X(suspend_connection)

#define MHD_CALL(name) __typeof__(MHD_##name) *name;
struct mhd_calls {
    MHD_CALLS(MHD_CALL)
};
#undef MHD_CALL

/* Before any other thread may call it.  NULL, or why there is no such library. */
const char *mhd_load(void);
const struct mhd_calls *mhd(void); /* after that */

#endif
