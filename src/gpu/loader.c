/* SPDX-License-Identifier: MIT
 *
 * Vulkan's loader, opened when it is wanted; the choice of a GPU; the logical device.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/device_impl.h"

#define LIBRARY "libvulkan.so.1"

enum { MOST_DEVICES = 16, MOST_FAMILIES = 32 };

int gpu_failed(struct gpu_device *d, VkResult result, const char *call, struct lutra_error *err)
{
    switch (result) {
    case VK_ERROR_DEVICE_LOST:
        if (!d->lost && d->device) d->vk.DeviceWaitIdle(d->device); /* returns, and nothing is under way any more */
        d->lost = true;
        return lutra_fail(err, LUTRA_E_DEVICE_LOST, "vulkan: %s: the device is lost", call);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS: return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: %s: out of memory", call);
    default: return lutra_fail(err, LUTRA_E_INTERNAL, "vulkan: %s failed with %d", call, (int)result);
    }
}

/* ---- the instance ---- */

static int open_library(struct gpu_device *d, struct lutra_error *err)
{
    d->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "vulkan: %s is not installed (Debian: libvulkan1, and a driver)", LIBRARY);
    d->vk.GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)dlsym(d->library, "vkGetInstanceProcAddr");
    if (d->vk.GetInstanceProcAddr) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: %s is no Vulkan loader", LIBRARY);
}

static int open_instance(struct gpu_device *d, struct lutra_error *err)
{
    PFN_vkGetInstanceProcAddr get = d->vk.GetInstanceProcAddr;
    PFN_vkEnumerateInstanceVersion version_of = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    uint32_t version = VK_API_VERSION_1_0;
    if (version_of) version_of(&version);
    if (!create || version < VK_API_VERSION_1_2)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: the loader has version %u.%u, 1.2 is needed",
            VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "lutra", .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    VkResult rc = create(&info, NULL, &d->instance);
    if (rc == VK_ERROR_INCOMPATIBLE_DRIVER)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "vulkan: no driver is installed (Debian: mesa-vulkan-drivers, or that of the GPU's maker)");
    if (rc) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: vkCreateInstance failed with %d", (int)rc);
#define GET(name) d->vk.name = (PFN_vk##name)get(d->instance, "vk" #name);
    GPU_INSTANCE_FUNCTIONS(GET)
#undef GET
    return 0;
}

/* ---- the choice ---- */

static bool has_extension(struct gpu_device *d, VkPhysicalDevice physical, const char *name)
{
    uint32_t n = 0;
    bool found = false;
    d->vk.EnumerateDeviceExtensionProperties(physical, NULL, &n, NULL);
    VkExtensionProperties *all = calloc(n ? n : 1, sizeof *all);
    if (!all) return false;
    d->vk.EnumerateDeviceExtensionProperties(physical, NULL, &n, all);
    for (uint32_t i = 0; i < n; i++) found |= strcmp(all[i].extensionName, name) == 0;
    free(all);
    return found;
}

/* The first family of queues that computes; -1: none does. */
static int family_of(struct gpu_device *d, VkPhysicalDevice physical, uint32_t *timestamp_bits)
{
    VkQueueFamilyProperties family[MOST_FAMILIES];
    uint32_t n = MOST_FAMILIES;
    d->vk.GetPhysicalDeviceQueueFamilyProperties(physical, &n, family);
    for (uint32_t i = 0; i < n; i++) {
        if (!(family[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        *timestamp_bits = family[i].timestampValidBits;
        return (int)i;
    }
    return -1;
}

/* What a GPU lacks, or NULL. */
static const char *lacks(struct gpu_device *d, VkPhysicalDevice physical, const VkPhysicalDeviceProperties *p)
{
    VkPhysicalDeviceVulkan12Features f12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11};
    uint32_t bits;
    if (p->apiVersion < VK_API_VERSION_1_2) return "Vulkan 1.2";
    d->vk.GetPhysicalDeviceFeatures2(physical, &f);
    if (!f12.timelineSemaphore) return "timeline semaphores";
    if (!f12.bufferDeviceAddress) return "buffer addresses";
    if (!f11.storageBuffer16BitAccess) return "16-bit storage";
    if (p->limits.maxComputeWorkGroupInvocations < 128 || p->limits.maxComputeSharedMemorySize < 16384)
        return "groups of 128 lanes with 16 KiB";
    return family_of(d, physical, &bits) < 0 ? "a queue that computes" : NULL;
}

/* Higher is better. */
static int rank_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 1;
    default: return 0;
    }
}

static int choose(struct gpu_device *d, struct lutra_error *err)
{
    VkPhysicalDevice all[MOST_DEVICES];
    uint32_t n = MOST_DEVICES;
    int best = -1;
    char why[320] = "there is none";
    VkResult rc = d->vk.EnumeratePhysicalDevices(d->instance, &n, all);
    if (rc < 0) return gpu_failed(d, rc, "vkEnumeratePhysicalDevices", err);
    for (uint32_t i = 0; i < n; i++) {
        VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
        VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
        d->vk.GetPhysicalDeviceProperties2(all[i], &p);
        const char *missing = lacks(d, all[i], &p.properties);
        if (missing) {
            snprintf(why, sizeof why, "%s lacks %s", p.properties.deviceName, missing);
            continue;
        }
        if (rank_of(p.properties.deviceType) <= best) continue;
        best = rank_of(p.properties.deviceType);
        d->physical = all[i];
        d->properties = p.properties;
        snprintf(d->driver, sizeof d->driver, "%.60s %.60s", driver.driverName, driver.driverInfo);
    }
    if (best >= 0) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: no GPU to use: %s", why);
}

/* ---- the logical device ---- */

/* Whether the GPU works in the host's memory. */
static bool shares_memory(const struct gpu_device *d)
{
    return d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static void note_import(struct gpu_device *d)
{
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
    d->vk.GetPhysicalDeviceProperties2(d->physical, &p);
    size_t align = (size_t)host.minImportedHostPointerAlignment;
    d->import_align = align <= (size_t)sysconf(_SC_PAGESIZE) ? align : 0; /* what a page holds is there to its end */
}

static int open_device(struct gpu_device *d, struct lutra_error *err)
{
    const float priority = 0.5f;
    const char *extension = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    const bool import = shares_memory(d) && has_extension(d, d->physical, extension);
    uint32_t timestamp_bits = 0;
    d->family = (uint32_t)family_of(d, d->physical, &timestamp_bits);
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = d->family,
        .queueCount = 1,
        .pQueuePriorities = &priority};
    VkPhysicalDeviceVulkan12Features f12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .timelineSemaphore = VK_TRUE,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceVulkan11Features f11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12,
        .storageBuffer16BitAccess = VK_TRUE};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &f11,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = import,
        .ppEnabledExtensionNames = &extension};
    VkResult rc = d->vk.CreateDevice(d->physical, &info, NULL, &d->device);
    if (rc) return gpu_failed(d, rc, "vkCreateDevice", err);
#define GET(name) d->vk.name = (PFN_vk##name)d->vk.GetDeviceProcAddr(d->device, "vk" #name);
    GPU_DEVICE_FUNCTIONS(GET)
    if (import) GET(GetMemoryHostPointerPropertiesEXT)
#undef GET
    if (import) note_import(d);
    if (timestamp_bits) d->timestamp_us = (double)d->properties.limits.timestampPeriod / 1000;
    d->vk.GetPhysicalDeviceMemoryProperties(d->physical, &d->memory_types);
    if (d->settings.functions) d->settings.functions(d->settings.user, d);
    d->vk.GetDeviceQueue(d->device, d->family, 0, &d->queue);
    return 0;
}

int gpu_load(struct gpu_device *d, struct lutra_error *err)
{
    TRY(open_library(d, err));
    TRY(open_instance(d, err));
    TRY(choose(d, err));
    return open_device(d, err);
}

void gpu_unload(struct gpu_device *d)
{
    if (d->device) d->vk.DestroyDevice(d->device, NULL);
    if (d->instance) d->vk.DestroyInstance(d->instance, NULL);
    if (d->library) dlclose(d->library);
}
