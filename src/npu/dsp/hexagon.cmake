# Hexagon binaries with Debian's clang-19 and lld-19 alone.  Sets NPU_CLANG, NPU_LLD, npu_no_compiler (why none can be
# built; empty where they can), and what runs on the NPU: npu_sources, npu_headers.
#
#     hexagon_objects(RESULT PREFIX FLAGS flag ... SOURCES file ... DEPENDS header ...)
#     objects PREFIX_stem.o in the current binary folder; RESULT: their paths
find_program(NPU_CLANG NAMES clang-19)
find_program(NPU_LLD NAMES ld.lld-19)
set(npu_no_compiler "")
if(NOT NPU_CLANG OR NOT NPU_LLD)
  set(npu_no_compiler "clang-19 and ld.lld-19 are needed to build Hexagon binaries (packages clang-19, lld-19)")
endif()

set(npu_src ${CMAKE_CURRENT_LIST_DIR}/../..)
get_filename_component(npu_src ${npu_src} ABSOLUTE)
file(GLOB npu_sources CONFIGURE_DEPENDS ${npu_src}/npu/dsp/*.c ${npu_src}/npu/wire/*.c)
file(GLOB npu_headers CONFIGURE_DEPENDS ${npu_src}/npu/dsp/*.h ${npu_src}/npu/dsp/*/*.h ${npu_src}/npu/wire/*.h)

function(hexagon_objects result prefix)
  cmake_parse_arguments(arg "" "" "FLAGS;SOURCES;DEPENDS" ${ARGN})
  set(flags --target=hexagon-unknown-linux-musl -mv73 -mhvx=v73 -mhvx-length=128b -O2 -std=c11 -ffreestanding -fno-builtin
      -ffp-contract=off -Wall -Wextra -Werror=implicit-function-declaration -I${npu_src} ${arg_FLAGS})
  set(objects "")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${prefix}_${stem}.o)
    add_custom_command(OUTPUT ${object} COMMAND ${NPU_CLANG} ${flags} -c ${source} -o ${object}
      DEPENDS ${source} ${npu_headers} ${arg_DEPENDS} VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
