# cmake -DSOURCE=checkout -DTEMPLATE=file.in -DOUT=file -P BuildCommit.cmake
#
# Fills in the commit that is built, and leaves the file alone where nothing changed. What benches
# write (their history and their tables) is no change of the program.
set(BULKHEAD_COMMIT "unknown")
set(git git --no-optional-locks -C "${SOURCE}")
# The prefix is empty only where SOURCE is a checkout itself and not a folder inside of another.
execute_process(COMMAND ${git} rev-parse --show-prefix RESULT_VARIABLE failed
  OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed AND prefix STREQUAL "")
  execute_process(COMMAND ${git} rev-parse --short HEAD RESULT_VARIABLE failed
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} status --porcelain --untracked-files=no -- .
    ":(exclude)bench/history.jsonl" ":(exclude)docs/benchmarks" OUTPUT_VARIABLE changes
    ERROR_QUIET)
  if(NOT failed)
    set(BULKHEAD_COMMIT "${head}")
    if(NOT changes STREQUAL "")
      string(APPEND BULKHEAD_COMMIT "+changes")
    endif()
  endif()
endif()
configure_file("${TEMPLATE}" "${OUT}" @ONLY)
