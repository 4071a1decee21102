# The log's tests read its JSON lines with a parser that is not ours.
if(TARGET unit-base)
  target_link_libraries(unit-base PRIVATE PkgConfig::JANSSON)
endif()

# Criterion does not look at how a test's process ends, so a leak that a sanitizer finds is seen by its message only.
foreach(layer base plugin state service transport)
  if(TEST unit-${layer})
    set_tests_properties(unit-${layer} PROPERTIES FAIL_REGULAR_EXPRESSION "ERROR: LeakSanitizer")
  endif()
endforeach()

# The plugin layer's tests also look inside it, and run on a real plugin: without one they fail.
set(PJRTD_TEST_PLUGIN "$ENV{PJRTD_TEST_PLUGIN}" CACHE FILEPATH "The PJRT plugin that tests run on")
if(TARGET unit-plugin)
  target_link_libraries(unit-plugin PRIVATE pjrtd_headers pjrtd_xla_proto)
  set_tests_properties(unit-plugin PROPERTIES TIMEOUT 300 ENVIRONMENT
                       "PJRTD_TEST_PLUGIN=${PJRTD_TEST_PLUGIN};PJRTD_STUB_PLUGINS=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/stubs")
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/fake_plugin/CMakeLists.txt)
    add_dependencies(unit-plugin stub-plugins fake_plugin)
  endif()

  # The PJRT ABI as this compiler lays it out, against the table that another project generated from the same headers.
  set(abi_table ${PJRTD_VENDOR_DIR}/abi/pjrt_0_114.py)
  set(abi_check ${CMAKE_CURRENT_SOURCE_DIR}/plugin/check_abi.py)
  set(abi_sources ${PROJECT_SOURCE_DIR}/daemon/plugin)
  file(GLOB abi_inputs CONFIGURE_DEPENDS ${abi_sources}/*.c ${abi_sources}/*.h)
  add_custom_command(
    OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/abi_table.c
    COMMAND ${Python3_EXECUTABLE} ${abi_check} generate ${abi_table} ${abi_sources} ${CMAKE_CURRENT_BINARY_DIR}/abi_table.c
    DEPENDS ${abi_check} ${abi_inputs}
    VERBATIM)
  add_executable(abi-table ${CMAKE_CURRENT_BINARY_DIR}/abi_table.c)
  target_link_libraries(abi-table PRIVATE pjrtd_base pjrtd_headers)
  add_test(NAME abi COMMAND ${Python3_EXECUTABLE} ${abi_check} compare ${abi_table} ${abi_sources} $<TARGET_FILE:abi-table>)
endif()
