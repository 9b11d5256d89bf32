/* SPDX-License-Identifier: MIT
 *
 * The calls that FastRPC carries between host/transport_fastrpc.c and dsp/silicon/skel.c: scalars, arguments, results.
 *
 * A call is a word of scalars and an array of arguments: in buffers, out buffers, in handles, out handles, in that
 * order.
 *
 *     scalars: attributes 31:29 | method 28:24 | in buffers 23:16 | out buffers 15:8 | in handles 7:4 | out handles 3:0
 *
 * FastRPC itself makes the first two calls when the host opens and closes a handle: open brings the length of a name (a
 * word) and the name, and takes a handle; close brings that handle.  Our own is NPU_METHOD_SERVE: it brings a struct
 * npu_serve and returns when the NPU stops serving: 0 when it was asked to, or npu_serve_error.
 */
#ifndef LUTRA_NPU_WIRE_SERVE_H
#define LUTRA_NPU_WIRE_SERVE_H

#include <stddef.h>
#include <stdint.h>

enum { NPU_METHOD_OPEN, NPU_METHOD_CLOSE, NPU_METHOD_SERVE };

#define NPU_SCALARS(method, in, out, in_handles, out_handles)                                                          \
    ((uint32_t)(method) << 24 | (uint32_t)(in) << 16 | (uint32_t)(out) << 8 | (uint32_t)(in_handles) << 4 |            \
        (uint32_t)(out_handles))
#define NPU_SCALARS_OPEN NPU_SCALARS(NPU_METHOD_OPEN, 2, 0, 0, 1)
#define NPU_SCALARS_CLOSE NPU_SCALARS(NPU_METHOD_CLOSE, 0, 0, 1, 0)
#define NPU_SCALARS_SERVE NPU_SCALARS(NPU_METHOD_SERVE, 1, 0, 0, 0)

union npu_remote_arg {
    struct {
        void *data;
        size_t bytes;
    } buffer;
    uint64_t handle;
};

/* Corners of voltage and clock. */
enum { NPU_CORNER_NOMINAL = 4, NPU_CORNER_TURBO_L3 = 9 };

/* What the NPU's program asks of the power manager while it serves. */
struct npu_power {
    uint32_t least_corner, most_corner; /* of core and bus; the target is the most */
    uint32_t latency_us;                /* how long a wake-up may take */
    uint32_t steady;                    /* nonzero: performance mode, no sleep between messages */
    uint32_t tiles;                     /* nonzero: power for the tile unit */
};

struct npu_serve {
    uint32_t magic; /* NPU_RING_MAGIC: both ends are of one build */
    uint32_t fd;    /* of the window, as the host's process knows it */
    uint32_t window_bytes, n_threads;
    struct npu_power power;
};

/* What failed. */
enum npu_serve_step {
    NPU_SERVE_CALL = 1, /* scalars or arguments are not those of this file */
    NPU_SERVE_BUSY,     /* this process serves already */
    NPU_SERVE_POWER,    /* the power manager refused */
    NPU_SERVE_MAP,      /* the window is not mapped on the NPU */
    NPU_SERVE_WINDOW,   /* what is mapped is not a window */
    NPU_SERVE_TCM,      /* no TCM, too little, or no tile unit beside it */
    NPU_SERVE_THREADS,  /* no thread */
    NPU_SERVE_VECTORS,  /* a thread got no vector context */
    NPU_SERVE_TILES,    /* a thread may not use the tile unit */
    NPU_SERVE_RING,     /* a damaged message */
    NPU_SERVE_DMA,      /* the DMA engine stopped */
    NPU_SERVE_STEPS
};

/* `error` is the firmware's, its low half. */
enum { NPU_SERVE_ERROR = 0x4e, NPU_SERVE_ABSENT = 0x404 }; /* ABSENT: this firmware lacks the function */
static inline int npu_serve_error(uint32_t step, uint32_t error)
{
    return (int)((uint32_t)NPU_SERVE_ERROR << 24 | step << 16 | (error & 0xffff));
}

#endif
