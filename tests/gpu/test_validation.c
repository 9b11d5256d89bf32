/* SPDX-License-Identifier: MIT
 *
 * The other tests again under Vulkan's validation layers, synchronization validation included: they say nothing.
 *
 *     gpu_validation PROGRAM...        first makes sure that they speak at all
 */
#include <dlfcn.h>
#include <string.h>

#include "unit/gpu/gpu_fixture.h"

#include "gpu/device_impl.h"

#define LAYER "VK_LAYER_KHRONOS_validation"

static int n_program;
static char **programs;

static bool is_installed(void)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    VkLayerProperties all[64];
    uint32_t n = 64;
    bool found = false;
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)get(NULL, "vkEnumerateInstanceLayerProperties");
    if (list(&n, all) < 0) n = 0;
    for (uint32_t i = 0; i < n; i++) found |= strcmp(all[i].layerName, LAYER) == 0;
    dlclose(library);
    return found;
}

/* A buffer of no bytes is against the rules. */
static int break_a_rule(void)
{
    struct device *d = gpu_open();
    struct gpu_device *g = (struct gpu_device *)d;
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkBuffer buffer;
    if (g->vk.CreateBuffer(g->device, &info, NULL, &buffer) == 0) g->vk.DestroyBuffer(g->device, buffer, NULL);
    d->ops->close(d);
    return 0;
}

/* How many messages a program gives; its output is shown where there are any that should not be. */
static int count_messages(const char *command, bool show, int *status)
{
    char line[4096];
    int n = 0;
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        bool message = strstr(line, "VUID-") || strstr(line, "SYNC-HAZARD") || strstr(line, "UNASSIGNED-");
        if (message && show) print_message("%.300s\n", line);
        n += message;
    }
    *status = pclose(f);
    return n;
}

static void layers_are_silent(void **state)
{
    char command[1024];
    int status;
    (void)state;
    setenv("VK_INSTANCE_LAYERS", LAYER, 1);
    setenv("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT", 1);
    snprintf(command, sizeof command, "'%s' --break-a-rule 2>&1", programs[0]);
    assert_true(count_messages(command, false, &status) > 0);
    for (int i = 1; i < n_program; i++) {
        snprintf(command, sizeof command, "'%s' 2>&1", programs[i]);
        int n = count_messages(command, true, &status);
        if (n || status) fail_msg("%s: %d messages, status %d", programs[i], n, status);
    }
}

int main(int n, char **arg)
{
    n_program = n, programs = arg;
    if (n == 2 && strcmp(arg[1], "--break-a-rule") == 0) return break_a_rule();
    gpu_need();
    if (!is_installed()) {
        printf("skipped: " LAYER " is not installed (Debian: vulkan-validationlayers)\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_silent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
