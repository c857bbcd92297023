# One target per folder of backend/; warnings are errors in our own code.
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
find_package(Python3 3.11 COMPONENTS Interpreter REQUIRED)

add_library(switchml_flags INTERFACE)
target_compile_options(switchml_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(SWITCHML_SANITIZE)
  target_compile_options(switchml_flags INTERFACE -fsanitize=${SWITCHML_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(switchml_flags INTERFACE -fsanitize=${SWITCHML_SANITIZE})
  # Instrumented, the standard library's own std::regex looks uninitialised to g++, which documents such false alarms.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(switchml_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
# What fuzzers are to see into, and themselves; tests need not be slowed by it.
add_library(switchml_fuzzed INTERFACE)
if(SWITCHML_BUILD_FUZZERS)
  target_compile_options(switchml_flags INTERFACE -fno-sanitize-recover=all)
  target_compile_options(switchml_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What is only there to be tested is compiled several files at a time: parsing the headers, and instantiating what they hold,
# takes most of the time. What ships is compiled file by file, and so is what is installed.
option(SWITCHML_UNITY "compile tests, and under sanitizers all, several files at a time" ON)
function(switchml_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SWITCHML_UNITY} UNITY_BUILD_BATCH_SIZE 6)
endfunction()

# switchml_add_library(NAME [LOCAL] SOURCES... DEPENDS...): static library switchml_NAME, alias switchml::NAME. LOCAL: a part
# of a program, not of the core that is installed.
function(switchml_add_library name)
  cmake_parse_arguments(ARG "LOCAL" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(switchml_${name} STATIC ${ARG_SOURCES})
  add_library(switchml::${name} ALIAS switchml_${name})
  set_target_properties(switchml_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(switchml_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/backend>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include/switchml>)
  target_link_libraries(switchml_${name} PUBLIC ${ARG_DEPENDS} Threads::Threads
    PRIVATE $<BUILD_INTERFACE:switchml_flags> $<BUILD_INTERFACE:switchml_fuzzed> ${ARG_PRIVATE_DEPENDS})
  target_compile_features(switchml_${name} PUBLIC cxx_std_17)
  if(SWITCHML_SANITIZE)
    switchml_compile_together(switchml_${name})
  endif()
  if(NOT ARG_LOCAL)
    set_property(GLOBAL APPEND PROPERTY SWITCHML_LIBRARIES switchml_${name})
  endif()
endfunction()

# switchml_add_test(NAME SOURCES... DEPENDS...): a gtest executable registered with ctest.
function(switchml_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gtest_main switchml_flags)
  add_test(NAME ${name} COMMAND ${name})
  set(limit 180)
  if(SWITCHML_SANITIZE)
    set(limit 600)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
endfunction()
