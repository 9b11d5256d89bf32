/* SPDX-License-Identifier: MIT
 *
 * Vulkan's functions by name, in tables: a test may make one of them fail.
 */
#ifndef LUTRA_GPU_FUNCTIONS_IMPL_H
#define LUTRA_GPU_FUNCTIONS_IMPL_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#define GPU_INSTANCE_FUNCTIONS(X)                                                                                      \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(GetPhysicalDeviceMemoryProperties)                                                                               \
    X(EnumerateDeviceExtensionProperties)                                                                              \
    X(CreateDevice)                                                                                                    \
    X(GetDeviceProcAddr)

#define GPU_DEVICE_FUNCTIONS(X)                                                                                        \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue)                                                                                                  \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(GetBufferDeviceAddress)                                                                                          \
    X(CreateShaderModule)                                                                                              \
    X(DestroyShaderModule)                                                                                             \
    X(CreatePipelineLayout)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(CreatePipelineCache)                                                                                             \
    X(DestroyPipelineCache)                                                                                            \
    X(GetPipelineCacheData)                                                                                            \
    X(CreateComputePipelines)                                                                                          \
    X(DestroyPipeline)                                                                                                 \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(ResetCommandPool)                                                                                                \
    X(AllocateCommandBuffers)                                                                                          \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdPushConstants)                                                                                                \
    X(CmdDispatchBase)                                                                                                 \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdResetQueryPool)                                                                                               \
    X(CmdWriteTimestamp)                                                                                               \
    X(CreateQueryPool)                                                                                                 \
    X(DestroyQueryPool)                                                                                                \
    X(GetQueryPoolResults)                                                                                             \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(WaitSemaphores)                                                                                                  \
    X(GetSemaphoreCounterValue)                                                                                        \
    X(QueueSubmit)                                                                                                     \
    X(DeviceWaitIdle)

#define GPU_FUNCTION_FIELD(name) PFN_vk##name name;
struct gpu_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    GPU_INSTANCE_FUNCTIONS(GPU_FUNCTION_FIELD)
    GPU_DEVICE_FUNCTIONS(GPU_FUNCTION_FIELD)
    PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT; /* NULL without the extension */
};
#undef GPU_FUNCTION_FIELD

#endif
