/* SPDX-License-Identifier: MIT
 *
 * A build without libmicrohttpd.
 */
#include "server.h"

bool server_is_built(void)
{
    return false;
}

void server_settings_init(struct server_settings *set)
{
    *set = (struct server_settings){0};
}

int server_run(const struct server_settings *set)
{
    set->say("this build has no server: it was configured without libmicrohttpd (Debian: libmicrohttpd-dev)");
    return -1;
}
