# XGrammar's C++ core as the target `xgrammar`, built from the unpacked source package
# (tools/setup/fetch_xgrammar.sh; docs/decisions/ says why). Its own build file turns on LTO and
# Python bindings and sets global flags, so the few lines that matter are here.
get_filename_component(XGRAMMAR_DIR
  "${CMAKE_CURRENT_LIST_DIR}/../third_party/xgrammar-0.2.9" ABSOLUTE)
if(NOT EXISTS "${XGRAMMAR_DIR}/.sdist.sha256")
  message(FATAL_ERROR "the source of XGrammar is missing; cure: run tools/setup/fetch_xgrammar.sh")
endif()

file(GLOB XGRAMMAR_SOURCES "${XGRAMMAR_DIR}/cpp/*.cc" "${XGRAMMAR_DIR}/cpp/support/*.cc"
  "${XGRAMMAR_DIR}/cpp/converter_ext/*.cc")
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${XGRAMMAR_SOURCES})
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
# Its messages come to us (src/constraint/xgrammar_engine.cc) instead of going to stderr.
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
  XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_include_directories(xgrammar SYSTEM PUBLIC "${XGRAMMAR_DIR}/include"
  "${XGRAMMAR_DIR}/cpp" "${XGRAMMAR_DIR}/3rdparty/dlpack/include"
  "${XGRAMMAR_DIR}/3rdparty/picojson")
target_compile_options(xgrammar PRIVATE -fno-lto -Wno-error -w)
