/* SPDX-License-Identifier: MIT
 *
 * Files inside the library, as they are in the repository (cmake/phone.cmake); the table ends with a NULL name.
 */
#ifndef LUTRA_PHONE_DATA_H
#define LUTRA_PHONE_DATA_H

#include <stddef.h>

struct sim_data {
    const char *name;
    const char *bytes; /* [n_bytes], a NUL behind them */
    size_t n_bytes;
};

extern const struct sim_data sim_data[];
enum { SIM_DATA_COUNTS, SIM_DATA_SCALING, SIM_DATA_HETERO, SIM_DATA_SDNPU, SIM_DATA_PROFILES };

#endif
