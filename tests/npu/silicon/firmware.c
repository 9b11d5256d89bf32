/* SPDX-License-Identifier: MIT
 *
 * Stand-ins for QuRT and HAP: threads and futexes are Linux's, the rest is bookkeeping in the box.  WITHOUT: an older
 * firmware, which lacks what is declared weak.
 */
#include "npu/dsp/silicon/firmware.h"

#include "guest.h"

enum { MOST = 16, CONTEXT = 77, TCM_AT = (5 << 22) - (128 << 10) /* across the end of a bank of 4 MiB */ };

static struct thread {
    uint32_t alive, id, holds;
    uintptr_t stack, end;
    void (*fn)(void *);
    void *user;
} thread[MOST]; /* [0]: FastRPC's */
static uint32_t context, tcm_bytes, window;

static void add(uint32_t *word, int32_t n)
{
    __atomic_add_fetch(word, (uint32_t)n, __ATOMIC_SEQ_CST);
}

int firmware_error(enum box_function f)
{
    uint32_t call = __atomic_fetch_add(&box->call[f], 1, __ATOMIC_SEQ_CST);
    return call >= box->fail_after[f] ? box->fail[f] : 0;
}

uint32_t firmware_tcm(uint32_t *bytes)
{
    *bytes = tcm_bytes;
    return context ? TCM_AT : 0;
}

uint32_t firmware_thread(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    for (uint32_t i = 1; i < MOST; i++)
        if (here > thread[i].stack && here <= thread[i].end) return i;
    return 0;
}

int firmware_holds(uint32_t t)
{
    return (int)thread[t].holds;
}

uint32_t firmware_window(void)
{
    return window;
}

void firmware_begin(void)
{
    guest_map(TCM_AT, 8 << 20, 0, -1);
}

/* ---- memory ---- */

int HAP_mmap_get(int fd, void **at, uint64_t *physical)
{
    int error = firmware_error(BOX_MMAP);
    if (error) return error;
    if ((uint32_t)fd != box->fd || !box->mapped) return 0x49;
    *at = cache_open(guest_map(0, box->window_bytes, BOX_BYTES, box_file), box->window_bytes);
    *physical = 0x80000000;
    window = (uint32_t)(uintptr_t)*at;
    add(&box->n_maps, 1);
    return 0;
}

int HAP_mmap_put(int fd)
{
    add(&box->n_maps, -1);
    window = 0;
    cache_close();
    return (uint32_t)fd != box->fd;
}

/* ---- power ---- */

int HAP_power_set(void *client, struct hap_power *r)
{
    static const uint8_t kind[] = {
        HAP_POWER_CLASS, HAP_POWER_CLOCKS, HAP_POWER_VECTORS, HAP_POWER_TILES, HAP_POWER_TILES_CLOCK};
    if (!client) return 1;
    for (uint32_t i = 0; i < sizeof kind; i++) {
        if (kind[i] != r->kind) continue;
        int error = firmware_error(BOX_POWER_CLASS + i);
        if (error) return error;
        uint8_t *log = box->power[box->n_power++ % BOX_POWER];
        for (uint32_t b = 0; b < sizeof *r; b++) log[b] = ((const uint8_t *)r)[b];
        box->n_clients = 1;
        return 0;
    }
    return -2;
}

#ifndef WITHOUT

int HAP_power_destroy_client(void *client)
{
    box->n_clients = 0;
    return !client;
}

#endif

/* ---- TCM and the tile unit ---- */

int compute_resource_query_VTCM(
    uint32_t application, uint32_t *bytes, void *layout, uint32_t *free_bytes, void *free_layout)
{
    *bytes = box->tcm_bytes ? box->tcm_bytes : 1 << 20;
    return application || layout || free_bytes || free_layout;
}

int compute_resource_attr_init(struct compute_attributes *a)
{
    a->word[0] = 0x600d;
    return firmware_error(BOX_TCM_ATTRIBUTES);
}

int compute_resource_attr_set_vtcm_param_v2(
    struct compute_attributes *a, uint32_t bytes, uint32_t least_page, uint32_t least_bytes)
{
    a->word[1] = bytes;
    return least_page != 65536 || least_bytes > bytes;
}

int compute_resource_attr_set_hmx_param(struct compute_attributes *a, uint8_t on)
{
    a->word[2] = on;
    return 0;
}

uint32_t compute_resource_acquire(struct compute_attributes *a, uint32_t timeout_us)
{
    if (firmware_error(BOX_TCM_ACQUIRE) || a->word[0] != 0x600d || !a->word[2] || timeout_us < 200) return 0;
    tcm_bytes = (uint32_t)a->word[1];
    add(&box->n_contexts, 1);
    return context = CONTEXT;
}

int compute_resource_attr_get_vtcm_ptr_v2(struct compute_attributes *a, void **at, uint32_t *bytes)
{
    *at = (void *)TCM_AT, *bytes = (uint32_t)a->word[1];
    return firmware_error(BOX_TCM_POINTER);
}

int compute_resource_release(uint32_t c)
{
    add(&box->n_contexts, -1);
    context = 0;
    return c != CONTEXT;
}

static int lock(uint32_t bit, uint32_t *alive, uint32_t *most, int error)
{
    if (error) return error;
    thread[firmware_thread()].holds |= bit;
    add(alive, 1);
    for (uint32_t n = *alive, was = *most; n > was;)
        if (__atomic_compare_exchange_n(most, &was, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
    return 0;
}

static int unlock(uint32_t bit, uint32_t *alive)
{
    thread[firmware_thread()].holds &= ~bit;
    add(alive, -1);
    return 0;
}

#ifdef WITHOUT

int compute_resource_hmx_lock(uint32_t c)
{
    return lock(2, &box->n_tiles, &box->most_tiles, c != CONTEXT ? 9 : firmware_error(BOX_TILES_LOCK));
}

int compute_resource_hmx_unlock(uint32_t c)
{
    return c != CONTEXT ? 9 : unlock(2, &box->n_tiles);
}

#else

int compute_resource_hmx_lock2(uint32_t c, uint32_t sharing)
{
    return lock(2, &box->n_tiles, &box->most_tiles,
        c != CONTEXT || sharing != COMPUTE_TILES_SHARED ? 9 : firmware_error(BOX_TILES_LOCK));
}

int compute_resource_hmx_unlock2(uint32_t c, uint32_t sharing)
{
    return c != CONTEXT || sharing != COMPUTE_TILES_SHARED ? 9 : unlock(2, &box->n_tiles);
}

#endif

/* ---- threads ---- */

int qurt_hvx_lock(uint8_t mode)
{
    return lock(1, &box->n_vectors, &box->most_vectors, mode != 1 ? 9 : firmware_error(BOX_VECTORS_LOCK));
}

int qurt_hvx_unlock(void)
{
    units_leave();
    return unlock(1, &box->n_vectors);
}

#ifndef WITHOUT

int qurt_hvx_get_units(void)
{
    return (int)((box->units ? box->units : 6) << 8 | 0xc);
}

uint32_t qurt_thread_get_id(void)
{
    return 100 + firmware_thread();
}

int qurt_thread_get_priority(uint32_t id)
{
    return id >= 100 ? 64 : -1;
}

int qurt_timer_sleep(uint64_t us)
{
    add(&box->sleeps, 1);
    if (box->again) {
        box->again_rc = guest_invoke();
        box->again = 0;
    }
    guest_sleep((uint32_t)us);
    return 0;
}

#endif

static void begin(struct thread *t)
{
    t->fn(t->user);
}

int qurt_thread_create(uint32_t *id, struct qurt_attributes *a, void (*fn)(void *), void *user)
{
    int error = firmware_error(BOX_THREAD_CREATE);
    uint32_t i = 1;
    while (i < MOST && thread[i].alive) i++;
    if (error || i == MOST) return error ? error : 12;
    if ((uintptr_t)a->stack % 8 || a->stack_bytes < 4096 || !a->joinable || a->name[15] || !a->priority) return 22;
    struct thread *t = &thread[i];
    *t = (struct thread){1, 100 + i, 0, (uintptr_t)a->stack, (uintptr_t)a->stack + a->stack_bytes, fn, user};
    *id = t->id;
    add(&box->n_threads, 1);
    /* The child runs begin(t) on its stack, then says so and ends without touching it again. */
    register long r0 __asm__("r0") = 0x50f00, r1 __asm__("r1") = (long)((t->end - 64) & ~127u), r2 __asm__("r2") = 0,
                     r3 __asm__("r3") = 0, r4 __asm__("r4") = 0, r6 __asm__("r6") = SYS_CLONE;
    register struct thread *r16 __asm__("r16") = t;
    register void (*r17)(struct thread *) __asm__("r17") = begin;
    __asm__ volatile("trap0(#1)\n"
                     "{ p0 = cmp.eq(r0, #0)\n if (!p0.new) jump:t 1f }\n"
                     "r0 = r16\n callr r17\n"
                     "memw(r16+#0) = #0\n r0 = #0\n r6 = #93\n trap0(#1)\n"
                     "1:\n"
                     : "+r"(r0), "+r"(r1)
                     : "r"(r2), "r"(r3), "r"(r4), "r"(r6), "r"(r16), "r"(r17)
                     : "memory", "p0", "r31");
    return r0 < 0 ? (int)-r0 : 0;
}

int qurt_thread_join(uint32_t id, int *status)
{
    struct thread *t = &thread[id - 100];
    while (__atomic_load_n(&t->alive, __ATOMIC_ACQUIRE)) guest_sleep(50);
    add(&box->n_threads, -1);
    return *status = 0;
}

static void *sleeps_on[MOST]; /* by thread */

int qurt_futex_wait(void *word, int old)
{
    void **at = &sleeps_on[firmware_thread()];
    __atomic_store_n(at, word, __ATOMIC_SEQ_CST);
    int rc = (int)call6(SYS_FUTEX, (long)word, 0, old, 0, 0, 0);
    __atomic_store_n(at, 0, __ATOMIC_SEQ_CST);
    return rc;
}

int qurt_futex_wake(void *word, int n)
{
    int asleep = 0;
    for (uint32_t i = 0; i < MOST; i++) asleep += __atomic_load_n(&sleeps_on[i], __ATOMIC_SEQ_CST) == word;
    if (asleep > n) add(&box->left_asleep, asleep - n);
    return (int)call6(SYS_FUTEX, (long)word, 1, INT32_MAX, 0, 0, 0); /* all: who is left is told, and no test hangs */
}
