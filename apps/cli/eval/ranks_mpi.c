/* SPDX-License-Identifier: MIT
 *
 * lutra-eval-mpi: several processes under mpirun.  They share nothing but the journals beside the report: a process
 * that is lost takes no finished outcome with it.
 */
#include "eval/eval.h"

#include <mpi.h>
#include <stdlib.h>

int ranks_open(struct ranks *r)
{
    *r = (struct ranks){.n = 1};
    /* Outside of mpirun MPI_Init would start helper processes of its own. */
    if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMI_SIZE")) return 0;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        say("eval: MPI_Init failed");
        return EXIT_FAILED;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->n);
    r->open = true;
    return 0;
}

void ranks_wait(const struct ranks *r)
{
    if (r->open) MPI_Barrier(MPI_COMM_WORLD);
}

void ranks_close(struct ranks *r, int code)
{
    if (!r->open) return;
    r->open = false;
    if (code) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
}
