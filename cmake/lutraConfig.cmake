# find_package(lutra): lutra::static, lutra::shared, and lutra::lutra, the one that BUILD_SHARED_LIBS asks for.
# The shared library has found what it needs; a program that links the static one needs their packages, too.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC QUIET IMPORTED_TARGET libutf8proc)
  pkg_check_modules(SQLITE QUIET IMPORTED_TARGET sqlite3) # where the library was built with it
endif()
include(${CMAKE_CURRENT_LIST_DIR}/lutraTargets.cmake)
if(NOT TARGET lutra::lutra)
  if(BUILD_SHARED_LIBS)
    add_library(lutra::lutra ALIAS lutra::shared)
  else()
    add_library(lutra::lutra ALIAS lutra::static)
  endif()
endif()
