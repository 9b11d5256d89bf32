# Sources of the room gpu: its shaders as SPIR-V in a C file; without headers or compiler it refuses by name (none.c).
# The loader is opened at run time: nothing is linked.
set(LUTRA_GPU_MISSING "")
if(NOT LUTRA_VULKAN)
  set(LUTRA_GPU_MISSING "LUTRA_VULKAN is off")
else()
  find_path(LUTRA_VULKAN_INCLUDE vulkan/vulkan_core.h)
  find_program(LUTRA_GLSLANG glslangValidator)
  if(NOT LUTRA_VULKAN_INCLUDE)
    set(LUTRA_GPU_MISSING "Vulkan's headers were not found (Debian: libvulkan-dev)")
  elseif(NOT LUTRA_GLSLANG)
    set(LUTRA_GPU_MISSING "glslangValidator was not found (Debian: glslang-tools)")
  endif()
endif()
if(LUTRA_GPU_MISSING)
  message(STATUS "no GPU device: ${LUTRA_GPU_MISSING}")
  set(sources ${PROJECT_SOURCE_DIR}/src/gpu/none.c)
  set_source_files_properties(${sources} PROPERTIES COMPILE_DEFINITIONS "LUTRA_GPU_MISSING=\"${LUTRA_GPU_MISSING}\"")
else()
  list(FILTER sources EXCLUDE REGEX "/gpu/none\\.c$")
  set(shader_folder ${PROJECT_SOURCE_DIR}/src/gpu/shaders)
  set(code_folder ${PROJECT_BINARY_DIR}/gpu)
  file(GLOB shader_parts CONFIGURE_DEPENDS ${shader_folder}/*.glsl)
  set(code_includes "")
  set(code_entries "")
  set(code_headers "")
  foreach(shader pointwise norm rope kv_append attention embed matmul round matmul_i8) # as enum gpu_shader
    set(header ${code_folder}/${shader}.h)
    add_custom_command(OUTPUT ${header} VERBATIM
      COMMAND ${LUTRA_GLSLANG} --quiet -V --target-env vulkan1.2 --vn code_${shader} -o ${header}
        ${shader_folder}/${shader}.comp
      DEPENDS ${shader_folder}/${shader}.comp ${shader_parts})
    list(APPEND code_headers ${header})
    string(APPEND code_includes "#include \"${shader}.h\"\n")
    string(APPEND code_entries "    {code_${shader}, sizeof code_${shader}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${code_folder}/code.c @ONLY CONTENT "/* Made by cmake/gpu.cmake. */
#include <stdint.h>

@code_includes@
#include \"gpu/device_impl.h\"

const struct gpu_code gpu_code[GPU_SHADER_COUNT] = {
@code_entries@};
")
  set_source_files_properties(${code_folder}/code.c PROPERTIES OBJECT_DEPENDS "${code_headers}"
    INCLUDE_DIRECTORIES "${code_folder}")
  list(APPEND sources ${code_folder}/code.c)
endif()
