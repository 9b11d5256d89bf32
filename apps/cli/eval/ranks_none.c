/* SPDX-License-Identifier: MIT
 *
 * `lutra eval` is one process; under mpirun it says which program to start.
 */
#include "eval/eval.h"

#include <stdlib.h>

int ranks_open(struct ranks *r)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    *r = (struct ranks){.n = 1};
    if (!size || atoi(size) < 2) return 0;
    say("eval: started by mpirun: start lutra-eval-mpi, with the options of 'lutra eval' (built where CMake finds "
        "MPI)");
    return EXIT_FAILED;
}

void ranks_wait(const struct ranks *r)
{
    (void)r;
}

void ranks_close(struct ranks *r, int code)
{
    (void)code;
    r->open = false;
}
