# What programs need of the library, as one component: cmake --install BUILD --component library --prefix DIR
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lutra)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/lutra.pc.in lutra.pc @ONLY)
write_basic_package_version_file(lutraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS lutra_static lutra_shared EXPORT lutra COMPONENT library)
install(EXPORT lutra NAMESPACE lutra:: FILE lutraTargets.cmake DESTINATION ${package} COMPONENT library)
install(FILES cmake/lutraConfig.cmake ${PROJECT_BINARY_DIR}/lutraConfigVersion.cmake DESTINATION ${package}
  COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/lutra.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(FILES include/lutra.h TYPE INCLUDE COMPONENT library)
install(DIRECTORY include/lutra TYPE INCLUDE COMPONENT library)
