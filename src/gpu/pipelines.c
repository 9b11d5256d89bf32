/* SPDX-License-Identifier: MIT
 *
 * Pipelines, made when they are first asked for.
 */
#include "gpu/device_impl.h"

enum { PUSH_BYTES = 128, WIDE_ROWS = 4 };

int gpu_pipelines_open(struct gpu_device *d, struct lutra_error *err)
{
    const VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = PUSH_BYTES};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push};
    gpu_cache_open(d);
    VkResult rc = d->vk.CreatePipelineLayout(d->device, &info, NULL, &d->layout);
    return rc ? gpu_failed(d, rc, "vkCreatePipelineLayout", err) : 0;
}

void gpu_pipelines_forget(struct gpu_device *d, enum gpu_shader shader)
{
    for (int i = 0; i < 2 * GPU_VARIANTS; i++) {
        VkPipeline *p = &d->pipeline[shader][i / 2][i % 2];
        if (*p) d->vk.DestroyPipeline(d->device, *p, NULL);
        *p = VK_NULL_HANDLE;
    }
}

void gpu_pipelines_close(struct gpu_device *d)
{
    for (int s = 0; s < GPU_SHADER_COUNT; s++) gpu_pipelines_forget(d, (enum gpu_shader)s);
    gpu_cache_close(d);
    if (d->layout) d->vk.DestroyPipelineLayout(d->device, d->layout, NULL);
}

static VkResult make(
    struct gpu_device *d, enum gpu_shader shader, const VkSpecializationInfo *constants, VkPipeline *out)
{
    VkShaderModule module;
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = gpu_code[shader].bytes,
        .pCode = gpu_code[shader].word};
    VkResult rc = d->vk.CreateShaderModule(d->device, &code, NULL, &module);
    if (rc) return rc;
    const VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT,
            .module = module,
            .pName = "main",
            .pSpecializationInfo = constants},
        .layout = d->layout};
    rc = d->vk.CreateComputePipelines(d->device, d->cache, 1, &info, NULL, out);
    d->vk.DestroyShaderModule(d->device, module, NULL);
    return rc;
}

int gpu_pipeline(
    struct gpu_device *d, enum gpu_shader shader, uint32_t variant, bool wide, VkPipeline *out, struct lutra_error *err)
{
    const uint32_t value[] = {variant, wide ? WIDE_ROWS : 1, d->exact == GPU_EXACT_FUSED};
    const VkSpecializationMapEntry entry[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
    const VkSpecializationInfo constants = {3, entry, sizeof value, value};
    VkPipeline *p = &d->pipeline[shader][variant][wide];
    VkResult rc = VK_SUCCESS;
    if (!*p) rc = make(d, shader, &constants, p), d->n_made++;
    *out = *p;
    return rc ? gpu_failed(d, rc, "vkCreateComputePipelines", err) : 0;
}
