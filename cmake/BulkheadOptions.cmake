# Compiler settings shared by every target: C++20, warnings as errors, sanitizers by preset.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(BULKHEAD_TESTS "Build the unit tests" ON)
option(BULKHEAD_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(BULKHEAD_WERROR "Take a warning for an error" ON)
option(BULKHEAD_LINT "Compile every header on its own" OFF)
set(BULKHEAD_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (empty: none)")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(BULKHEAD_CCACHE ccache)
if(BULKHEAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Else it passes by whatever uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros "${BULKHEAD_CCACHE}")
endif()
find_program(BULKHEAD_MOLD mold)
if(BULKHEAD_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
endif()

add_library(bulkhead_flags INTERFACE)
# -ffp-contract=off: a fused multiply-add happens only where a kernel asks for one, so that a result
# depends on the source and the ISA path and not on the optimiser's mood.
target_compile_options(bulkhead_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  -ffp-contract=off)
if(BULKHEAD_WERROR)
  target_compile_options(bulkhead_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 reports std::string::insert and operator+ as overlapping copies (GCC bug 105651).
  target_compile_options(bulkhead_flags INTERFACE -Wno-restrict)
endif()
if(BULKHEAD_FUZZ)
  # Coverage in every object, so that the fuzzer sees where an input leads; main() comes only with
  # the fuzz targets themselves.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(BULKHEAD_SANITIZE)
  # An index beyond a container's size ends the process even where the memory behind it is ours.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_compile_options("-fsanitize=${BULKHEAD_SANITIZE}" -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${BULKHEAD_SANITIZE}")
endif()
target_include_directories(bulkhead_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")

# What every test finds in its environment. Under sanitizers a test may shorten a sweep that only
# repeats the same code on more values (BULKHEAD_QUICK); it must not leave out a kind of case.
set(BULKHEAD_TEST_ENVIRONMENT "BULKHEAD_SOURCE_DIR=${CMAKE_SOURCE_DIR}"
  "BULKHEAD_BUILD_DIR=${CMAKE_BINARY_DIR}")
if(BULKHEAD_SANITIZE)
  list(APPEND BULKHEAD_TEST_ENVIRONMENT "BULKHEAD_QUICK=1" "UBSAN_OPTIONS=print_stacktrace=1")
  # UCX patches the memory functions that the sanitizers have replaced, and both fall over.
  list(APPEND BULKHEAD_TEST_ENVIRONMENT "UCX_MEM_MMAP_HOOK_MODE=none")
endif()
