/* SPDX-License-Identifier: MIT
 *
 * Compiled pipelines in the user's cache folder, one file per GPU and driver:
 *
 *     $XDG_CACHE_HOME/lutra/vulkan-VENDOR-DEVICE-DRIVER-UUID.cache        (else $HOME/.cache/lutra/...)
 *
 * A file is read whole and has the hash of what it holds: drivers need not survive damage.  One that is damaged or too
 * large is ignored and written anew; nothing here is a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "gpu/device_impl.h"

enum { MOST_BYTES = 64 << 20, PATH_BYTES = 1024, HASH_SEED = 1 };

struct head {
    char magic[8];
    uint64_t bytes, hash; /* of what follows */
};

static const char MAGIC[8] = {'l', 'u', 't', 'r', 'a', 'g', 'p', '1'};

/* The folder, made where it is not there; false: there is no place for it. */
static bool folder_of(char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache && cache[0] == '/' ? snprintf(path, PATH_BYTES, "%s", cache)
            : home && home[0] == '/' ? snprintf(path, PATH_BYTES, "%s/.cache", home)
                                     : PATH_BYTES;
    if (n < 0 || n >= PATH_BYTES - 128) return false;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    snprintf(path + n, (size_t)(PATH_BYTES - n), "/lutra");
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool file_of(const struct gpu_device *d, char path[PATH_BYTES])
{
    const VkPhysicalDeviceProperties *p = &d->properties;
    if (!folder_of(path)) return false;
    size_t n = strlen(path);
    n += (size_t)snprintf(
        path + n, PATH_BYTES - n, "/vulkan-%08x-%08x-%08x-", p->vendorID, p->deviceID, p->driverVersion);
    for (unsigned i = 0; i < VK_UUID_SIZE; i++)
        n += (size_t)snprintf(path + n, PATH_BYTES - n, "%02x", p->pipelineCacheUUID[i]);
    snprintf(path + n, PATH_BYTES - n, ".cache");
    return true;
}

/* What an undamaged file holds, to be freed; NULL: nothing. */
static void *read_file(const char *path, size_t *bytes)
{
    struct head head;
    struct stat st;
    uint8_t *data = NULL;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL; /* a pipe would be waited for */
    if (!f) return NULL;
    if (fstat(fileno(f), &st) == 0 && st.st_size >= (off_t)sizeof head && st.st_size <= MOST_BYTES &&
        fread(&head, sizeof head, 1, f) == 1 && memcmp(head.magic, MAGIC, sizeof MAGIC) == 0 &&
        head.bytes == (uint64_t)st.st_size - sizeof head && head.bytes > 0 && (data = malloc(head.bytes)) &&
        (fread(data, head.bytes, 1, f) != 1 || hash_bytes(HASH_SEED, data, head.bytes) != head.hash)) {
        free(data);
        data = NULL;
    }
    fclose(f);
    *bytes = data ? (size_t)head.bytes : 0;
    return data;
}

void gpu_cache_open(struct gpu_device *d)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    void *data = file_of(d, path) ? read_file(path, &bytes) : NULL;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = bytes, .pInitialData = data};
    d->cache_bytes = bytes;
    if (d->vk.CreatePipelineCache(d->device, &info, NULL, &d->cache)) d->cache = VK_NULL_HANDLE;
    free(data);
}

/* Beside its place, then renamed to it. */
static void write_file(const char *path, const struct head *head, const void *data)
{
    char name[PATH_BYTES + 8];
    snprintf(name, sizeof name, "%s.XXXXXX", path);
    int fd = mkstemp(name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f) {
        if (fd >= 0) close(fd), unlink(name);
        return;
    }
    bool whole = fwrite(head, sizeof *head, 1, f) == 1 && fwrite(data, head->bytes, 1, f) == 1;
    whole = fclose(f) == 0 && whole;
    if (!whole || rename(name, path) != 0) unlink(name);
}

void gpu_cache_close(struct gpu_device *d)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    if (!d->cache) return;
    void *data = NULL;
    if (d->n_made && !d->lost && d->vk.GetPipelineCacheData(d->device, d->cache, &bytes, NULL) == 0 && bytes > 0 &&
        bytes <= MOST_BYTES - sizeof(struct head) && bytes != d->cache_bytes && (data = malloc(bytes)) &&
        d->vk.GetPipelineCacheData(d->device, d->cache, &bytes, data) == 0 && file_of(d, path)) {
        struct head head = {.bytes = bytes, .hash = hash_bytes(HASH_SEED, data, bytes)};
        memcpy(head.magic, MAGIC, sizeof MAGIC);
        write_file(path, &head, data);
    }
    free(data);
    d->vk.DestroyPipelineCache(d->device, d->cache, NULL);
    d->cache = VK_NULL_HANDLE;
}
