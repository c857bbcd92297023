# `cmake --install` puts the torch-free core where find_package(switchml) finds it: target switchml::switchml.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(switchml_core INTERFACE)
set_target_properties(switchml_core PROPERTIES EXPORT_NAME switchml)
get_property(libraries GLOBAL PROPERTY SWITCHML_LIBRARIES)
list(REMOVE_ITEM libraries switchml_c10d)
target_link_libraries(switchml_core INTERFACE ${libraries})
add_library(switchml::switchml ALIAS switchml_core)

install(TARGETS switchml_core ${libraries} EXPORT switchml COMPONENT core ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(program switchml-switchd switchml-controller)
  if(TARGET ${program})
    install(TARGETS ${program} COMPONENT core RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
# The headers of each library that is installed, but not of what is a part of a program (of switchml-switchd).
foreach(library IN LISTS libraries)
  string(REPLACE switchml_ "" folder ${library})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/backend/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/switchml COMPONENT core
    FILES_MATCHING PATTERN "*.h" PATTERN agent.h EXCLUDE PATTERN options.h EXCLUDE)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/wire/layout.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/switchml/wire
  COMPONENT core)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/switchml)
install(EXPORT switchml NAMESPACE switchml:: FILE switchmlTargets.cmake DESTINATION ${config_folder} COMPONENT core)
file(WRITE ${PROJECT_BINARY_DIR}/switchmlConfig.cmake
  "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\nfind_dependency(OpenSSL 3.0 COMPONENTS Crypto)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/switchmlTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/switchmlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/switchmlConfig.cmake ${PROJECT_BINARY_DIR}/switchmlConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT core)
