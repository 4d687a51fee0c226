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

# bulkhead_test(MODULE SOURCE LIBS...): a GoogleTest executable MODULE_<stem>, known to ctest.
function(bulkhead_test module source)
  get_filename_component(stem "${source}" NAME_WE)
  set(target "${module}_${stem}")
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE bulkhead_flags ${ARGN} GTest::gtest GTest::gmock
    GTest::gtest_main Threads::Threads)
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES TIMEOUT 600 LABELS "${module}"
    ENVIRONMENT "${BULKHEAD_TEST_ENVIRONMENT}")
endfunction()
