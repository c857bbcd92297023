# Writes which commit the simulator is built from into a header, and leaves the header alone where that has not changed.
# Run at every build with -DSOURCE=CHECKOUT -DHEADER=FILE. Without git, or outside of a checkout: "unknown".
cmake_minimum_required(VERSION 3.25)

set(commit unknown)
find_program(git git)
function(ask out)
  execute_process(COMMAND ${git} --no-optional-locks -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE status
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${out} "${text}" PARENT_SCOPE)
  set(status "${status}" PARENT_SCOPE)
endfunction()

if(git)
  ask(above rev-parse --show-cdup) # a checkout around this folder is somebody else's
  if(status EQUAL 0 AND above STREQUAL "")
    ask(head rev-parse --short=12 HEAD)
    if(status EQUAL 0)
      ask(changes status --porcelain)
      set(commit "${head}")
      if(NOT status EQUAL 0 OR NOT changes STREQUAL "")
        string(APPEND commit "+changes")
      endif()
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define SWITCHML_SIM_COMMIT \"@commit@\"\n" @ONLY)
