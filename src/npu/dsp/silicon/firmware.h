/* SPDX-License-Identifier: MIT
 *
 * What the program needs of a Snapdragon's NPU firmware: QuRT, its kernel, and HAP, the services of a FastRPC process.
 * Declared here from what is public about their binary interface, so that no vendor's SDK is needed to build.
 * The interface has enumerations of the smallest width that holds them.
 *
 * Weak functions may be missing: their address is tested first.  The others are there wherever FastRPC loads a library.
 * Functions return 0, or an error, unless said.
 */
#ifndef LUTRA_NPU_DSP_SILICON_FIRMWARE_H
#define LUTRA_NPU_DSP_SILICON_FIRMWARE_H

#include <stddef.h>
#include <stdint.h>

#define FIRMWARE_WEAK __attribute__((weak))

/* ---- memory: buffers by the host's file descriptor ---- */

int HAP_mmap_get(int fd, void **at, uint64_t *physical);
int HAP_mmap_put(int fd);

/* ---- power ---- */

enum {
    HAP_POWER_VECTORS = 2, /* kinds of requests */
    HAP_POWER_CLASS = 3,
    HAP_POWER_CLOCKS = 12,
    HAP_POWER_TILES = 13,
    HAP_POWER_TILES_CLOCK = 14, /* v75 and later: refused before */
    HAP_CLASS_COMPUTE = 4,
    HAP_CLOCKS_UP_DOWN = 1, /* policies */
    HAP_CLOCKS_PERFORMANCE = 0x10,
    HAP_TILES_CORNER_MOST = 0xffff,
};

struct hap_corners {
    uint8_t target, least, most;
    uint32_t reserved[3];
};

struct hap_power {
    uint8_t kind;
    union {
        uint64_t align;
        uint8_t bytes[112];
        uint8_t client_class;
        uint8_t up; /* vectors, tiles */
        struct {
            uint8_t set_policy, policy_on, policy;
            uint8_t set_latency;
            uint32_t latency_us;
            uint8_t set_core;
            struct hap_corners core;
            uint8_t set_bus;
            struct hap_corners bus;
            uint8_t set_reserved;
            uint32_t reserved[6];
            uint8_t set_no_sleep, no_sleep;
        } clocks;
        struct {
            uint8_t set_power, up, set_clock, pick_default;
            uint16_t target, least, most;
            uint8_t mode; /* 0: performance */
            uint32_t mhz, least_mhz, reserved[3];
        } tiles;
    } as;
};
_Static_assert(sizeof(struct hap_corners) == 16, "binary interface");
#ifdef __hexagon__
_Static_assert(offsetof(struct hap_power, as) == 8 && sizeof(struct hap_power) == 120, "binary interface");
_Static_assert(offsetof(struct hap_power, as.clocks.bus) == 40, "binary interface");
_Static_assert(offsetof(struct hap_power, as.clocks.set_no_sleep) == 84, "binary interface");
_Static_assert(offsetof(struct hap_power, as.tiles.mhz) == 20, "binary interface");
#endif

/* `client`: any address of its own. */
int HAP_power_set(void *client, struct hap_power *request);
FIRMWARE_WEAK int HAP_power_destroy_client(void *client);

/* ---- TCM and the tile unit ---- */

struct compute_attributes {
    uint64_t word[32]; /* more than any version uses */
};
enum { COMPUTE_TILES_SHARED = 1 }; /* threads of one process take turns, as they agree */

FIRMWARE_WEAK int compute_resource_query_VTCM(
    uint32_t application, uint32_t *bytes, void *layout, uint32_t *free_bytes, void *free_layout);
FIRMWARE_WEAK int compute_resource_attr_init(struct compute_attributes *a);
FIRMWARE_WEAK int compute_resource_attr_set_vtcm_param_v2(
    struct compute_attributes *a, uint32_t bytes, uint32_t least_page, uint32_t least_bytes);
FIRMWARE_WEAK int compute_resource_attr_set_hmx_param(struct compute_attributes *a, uint8_t on);
FIRMWARE_WEAK int compute_resource_attr_get_vtcm_ptr_v2(struct compute_attributes *a, void **at, uint32_t *bytes);
/* Returns a context, 0: failed. */
FIRMWARE_WEAK uint32_t compute_resource_acquire(struct compute_attributes *a, uint32_t timeout_us);
FIRMWARE_WEAK int compute_resource_release(uint32_t context);
/* By each thread that issues tile instructions. */
FIRMWARE_WEAK int compute_resource_hmx_lock(uint32_t context);
FIRMWARE_WEAK int compute_resource_hmx_unlock(uint32_t context);
FIRMWARE_WEAK int compute_resource_hmx_lock2(uint32_t context, uint32_t sharing);
FIRMWARE_WEAK int compute_resource_hmx_unlock2(uint32_t context, uint32_t sharing);

/* ---- threads ---- */

struct qurt_attributes {
    char name[16];
    uint8_t partition, profile_id;
    uint16_t priority; /* 1 highest .. 254 */
    uint8_t space, bus_priority;
    uint16_t test_id;
    uint32_t stack_bytes;
    void *stack;
    uint16_t joinable;
    uint16_t reserved[15]; /* beyond what is known */
};
#ifdef __hexagon__
_Static_assert(offsetof(struct qurt_attributes, joinable) == 32, "binary interface");
#endif

int qurt_thread_create(uint32_t *id, struct qurt_attributes *a, void (*fn)(void *), void *user);
int qurt_thread_join(uint32_t id, int *status);
FIRMWARE_WEAK uint32_t qurt_thread_get_id(void);
FIRMWARE_WEAK int qurt_thread_get_priority(uint32_t id);
int qurt_futex_wait(void *word, int old); /* while *word is `old` */
int qurt_futex_wake(void *word, int n);
FIRMWARE_WEAK int qurt_timer_sleep(uint64_t us);

enum { QURT_VECTORS_128 = 1 };
FIRMWARE_WEAK int qurt_hvx_lock(uint8_t mode);
FIRMWARE_WEAK int qurt_hvx_unlock(void);
FIRMWARE_WEAK int qurt_hvx_get_units(void); /* contexts of 128 bytes: bits 15:8 */

#endif
