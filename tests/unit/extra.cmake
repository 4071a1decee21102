# The log's tests read its JSON lines with a parser that is not ours.
if(TARGET unit-base)
  target_link_libraries(unit-base PRIVATE PkgConfig::JANSSON)
endif()
