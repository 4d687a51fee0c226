# One folder under src/ is one target, one namespace and one row of declared dependencies.
#
#   bulkhead_module(NAME kv SOURCES page_pool.cc TESTS page_pool_test.cc
#                   DEPS base quant device LIBS fmt::fmt)
#
# DEPS are other Bulkhead modules (the rows of DEPENDENCIES in tools/tidy/layers.py; the layering
# test holds the #include lines to them). LIBS are outside libraries. Every file in TESTS becomes
# one ctest executable, named after the file.
function(bulkhead_module)
  cmake_parse_arguments(M "" "NAME" "SOURCES;TESTS;DEPS;LIBS;TEST_DEPS" ${ARGN})
  list(TRANSFORM M_DEPS PREPEND bulkhead_)
  list(TRANSFORM M_TEST_DEPS PREPEND bulkhead_)
  if(M_SOURCES)
    add_library(bulkhead_${M_NAME} STATIC ${M_SOURCES})
    target_link_libraries(bulkhead_${M_NAME} PUBLIC bulkhead_flags ${M_DEPS} ${M_LIBS})
  else()
    add_library(bulkhead_${M_NAME} INTERFACE)
    target_link_libraries(bulkhead_${M_NAME} INTERFACE bulkhead_flags ${M_DEPS} ${M_LIBS})
  endif()
  if(BULKHEAD_TESTS)
    foreach(source ${M_TESTS})
      bulkhead_test("${M_NAME}" "${source}" bulkhead_${M_NAME} ${M_TEST_DEPS})
    endforeach()
  endif()
endfunction()

# What most tests begin with, compiled once for each kind of flags: parsing it is half of a test's
# compiling. Lint parses every test without it, so that each includes what it uses.
function(bulkhead_test_headers name)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${name}.cc" CONTENT "int main() {}\n")
  add_executable(${name} "${CMAKE_BINARY_DIR}/${name}.cc")
  target_link_libraries(${name} PRIVATE bulkhead_flags fmt::fmt GTest::gtest)
  target_compile_options(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <cmath>
    <cstdlib> <filesystem> <fstream> <functional> <limits> <map> <memory> <optional> <set> <span>
    <sstream> <string> <string_view> <thread> <vector>)
endfunction()

# Most tests take longer to compile than to run, so they are not optimised; the code under test is,
# as its preset says, and so are the tests that compute references of their own.
set(BULKHEAD_OPTIMISED_TESTS chat engine_whole kernels model quant sim)
set(bulkhead_plain_test -O0)
set(bulkhead_optimised_test)
if(BULKHEAD_FUZZ)
  list(APPEND bulkhead_plain_test -fno-sanitize=fuzzer-no-link)
  list(APPEND bulkhead_optimised_test -fno-sanitize=fuzzer-no-link)
endif()
if(BULKHEAD_TESTS AND NOT BULKHEAD_LINT)
  bulkhead_test_headers(plain_test_headers ${bulkhead_plain_test})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # An optimising g++ 12 warns of std::string once it comes from a precompiled header.
    bulkhead_test_headers(optimised_test_headers ${bulkhead_optimised_test})
  endif()
endif()

# bulkhead_test(MODULE SOURCE LIBS...): a GoogleTest executable MODULE_<stem>, known to ctest.
function(bulkhead_test module source)
  get_filename_component(stem "${source}" NAME_WE)
  set(target "${module}_${stem}")
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE bulkhead_flags ${ARGN} GTest::gtest GTest::gmock
    GTest::gtest_main Threads::Threads)
  set(kind plain)
  if(module IN_LIST BULKHEAD_OPTIMISED_TESTS)
    set(kind optimised)
  endif()
  target_compile_options(${target} PRIVATE ${bulkhead_${kind}_test})
  if(TARGET ${kind}_test_headers)
    target_precompile_headers(${target} REUSE_FROM ${kind}_test_headers)
  endif()
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES TIMEOUT 600 LABELS "${module}"
    ENVIRONMENT "${BULKHEAD_TEST_ENVIRONMENT}")
endfunction()
