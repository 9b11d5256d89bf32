# Sources of the room phone: the files that it has inside as a C table (phone/data.h).
set(embedded ${PROJECT_BINARY_DIR}/phone/data.c)
set(text "/* Made by cmake/phone.cmake. */\n#include \"phone/data.h\"\n\n")
set(table "")
foreach(file bench/npu/counts.json bench/npu/scaling.json bench/npu/published_hetero.json
             bench/npu/published_sdnpu.json
             profiles/snapdragon-8gen2.json profiles/snapdragon-8gen3.json profiles/snapdragon-8elite.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
  string(MAKE_C_IDENTIFIER ${file} name)
  file(READ ${PROJECT_SOURCE_DIR}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND text "static const unsigned char ${name}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${file}\", (const char *)${name}, sizeof ${name} - 1},\n")
endforeach()
string(APPEND text "\nconst struct sim_data sim_data[] = {\n${table}    {0, 0, 0},\n};\n")
file(CONFIGURE OUTPUT ${embedded} CONTENT "${text}" @ONLY)
list(APPEND sources ${embedded})
