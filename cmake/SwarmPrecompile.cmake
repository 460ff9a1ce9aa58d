# swarm_precompile(TARGET HEADER): TARGET is compiled with HEADER precompiled, templates that it uses instantiated in it.
#
# With clang the header's inline functions and instances of templates are compiled once, too, into an object of TARGET's; its sources only
# refer to them. Otherwise each of them would make its own copy of the same thousands of functions, for the linker to throw away: more than
# half of what a file of the command line costs without optimisation.
# Other targets take the same header by target_precompile_headers(X REUSE_FROM TARGET_headers); they have to link TARGET.
function(swarm_precompile target header)
  set(own ${target}_headers)
  add_library(${own} OBJECT "${CMAKE_SOURCE_DIR}/cmake/nothing.cpp")
  foreach(property LINK_LIBRARIES INCLUDE_DIRECTORIES COMPILE_OPTIONS COMPILE_DEFINITIONS)
    get_target_property(value ${target} ${property})
    if(value)
      set_target_properties(${own} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
  target_precompile_headers(${own} PRIVATE "${header}")
  target_precompile_headers(${target} REUSE_FROM ${own})
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  target_compile_options(${own} PRIVATE -Xclang=-fmodules-codegen -Xclang=-fmodules-debuginfo)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  set(precompiled "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${own}.dir/cmake_pch.hxx.pch")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${own}.dir/headers.o")
  if(SWARM_TIMES)
    set(timed "${CMAKE_SOURCE_DIR}/tools/build.d/timed" "${SWARM_TIMES}")
  endif()
  add_custom_command(OUTPUT "${object}"
    COMMAND ${timed} "${CMAKE_CXX_COMPILER}" -std=c++20 ${flags} "$<TARGET_PROPERTY:${own},COMPILE_OPTIONS>" -w -ffunction-sections -fdata-sections
            -Wno-unused-command-line-argument -c "${precompiled}" -o "${object}"
    DEPENDS "${precompiled}" ${own} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Building CXX object of the headers of ${target}")
  target_sources(${target} PRIVATE "${object}")
  set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
