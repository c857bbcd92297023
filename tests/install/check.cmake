# cmake -DBUILD=... -DWORK=... -DCOMPILER=... -DLAUNCHER=... -P check.cmake: installs the core into WORK/prefix, builds the consumer, runs it.
# LAUNCHER: ccache, or nothing.
file(REMOVE_RECURSE ${WORK})
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed (${result}):\n${output}")
  endif()
endfunction()
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component core)
must(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
must(${CMAKE_COMMAND} --build ${WORK}/build --parallel ${cores})
must(${WORK}/build/consumer)
must(${WORK}/prefix/bin/switchml-switchd --version)
