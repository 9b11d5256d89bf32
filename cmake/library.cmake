# liblutra, static and shared: every room in one library, which shows the functions marked LUTRA_API and nothing else.
#
#     lutra::static, lutra::shared    and lutra::lutra, the one that BUILD_SHARED_LIBS asks for
#
# The names are the same whether this is a subfolder of another project or found by find_package(lutra).
include(GNUInstallDirs)

set(objects "")
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:${room}>)
endforeach()
set(needs PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC Threads::Threads m ${CMAKE_DL_LIBS})
set(optional_modules "") # what pkg-config calls the optional libraries that this build has
if(SQLITE_FOUND)
  list(APPEND needs PkgConfig::SQLITE)
  string(APPEND optional_modules " sqlite3")
endif()

# Static: one object, in which all other names are local, so that they cannot meet a program's.
set(whole ${PROJECT_BINARY_DIR}/lutra.o)
separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
if(CMAKE_C_COMPILER_TARGET)
  list(PREPEND flags --target=${CMAKE_C_COMPILER_TARGET})
endif()
add_custom_command(OUTPUT ${whole}
  COMMAND ${CMAKE_C_COMPILER} ${flags} -r -nostdlib -o ${whole}.all ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}.all ${whole}
  COMMAND ${CMAKE_COMMAND} -E rm ${whole}.all
  DEPENDS ${rooms} ${objects} COMMAND_EXPAND_LISTS VERBATIM)
set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(lutra_static STATIC ${whole})
add_library(lutra_shared SHARED ${objects})
set_target_properties(lutra_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
foreach(kind static shared)
  set_target_properties(lutra_${kind} PROPERTIES OUTPUT_NAME lutra LINKER_LANGUAGE C EXPORT_NAME ${kind})
  target_include_directories(lutra_${kind} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(lutra_${kind} PRIVATE ${needs})
  add_library(lutra::${kind} ALIAS lutra_${kind})
endforeach()
if(BUILD_SHARED_LIBS)
  add_library(lutra::lutra ALIAS lutra_shared)
else()
  add_library(lutra::lutra ALIAS lutra_static)
endif()
