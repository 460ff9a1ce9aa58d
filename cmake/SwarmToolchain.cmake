# Compiler, linker and warning settings shared by every room.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

find_program(CCACHE_PROGRAM ccache)
if(SWARM_TIMES)
  # Each step's CPU time goes into this file (tools/build --times); a cache would tell nothing.
  set(_launcher "${CMAKE_SOURCE_DIR}/tools/build.d/timed" "${SWARM_TIMES}")
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${_launcher})
    set(CMAKE_${language}_LINKER_LAUNCHER ${_launcher})
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ftime-trace>)
  endif()
elseif(CCACHE_PROGRAM)
  # A precompiled header is only cacheable with these two; see ccache's manual, "Precompiled headers".
  set(_launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # ccache needs the header's timestamp kept out of the PCH validity check.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
else()
  # Likewise clang's, where the header's own time would be part of it.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
# What nothing refers to is left out: the objects of precompiled headers (SwarmPrecompile) hold all that might be.
add_link_options(-fuse-ld=lld -Wl,--gc-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-B/usr/lib/llvm-19/bin) # where lld has the name that GCC looks for
endif()

# gRPC brings -pthread; a precompiled header built without it is silently not used ("_REENTRANT is defined").
add_compile_options(-pthread -fno-omit-frame-pointer)
add_link_options(-pthread)
# Header-only switch of CAF: sending a type without an announced id is a compile error.
add_compile_definitions(CAF_ENABLE_TYPE_ID_CHECKS)

if(SWARM_SANITIZE)
  add_compile_options(-fsanitize=${SWARM_SANITIZE})
  add_link_options(-fsanitize=${SWARM_SANITIZE})
  if(SWARM_SANITIZE MATCHES "address")
    # The data that the checks refer to needs six million relocations in a program that may lie anywhere: 0.2 s of each start of swarmctl.
    add_link_options(-no-pie)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # As GCC's, whose default is off: finding uses of a frame after its return takes a fifth of the tests' time.
      add_compile_options(-fsanitize-address-use-after-return=never)
    endif()
  endif()
  if(SWARM_SANITIZE MATCHES "undefined")
    # CAF binds references to null in init_fun_factory.hpp.
    add_compile_options(-fno-sanitize=null -fno-sanitize-recover=undefined)
  endif()
endif()

if(SWARM_FUZZ)
  # Coverage for libFuzzer in everything it reaches; only the fuzz targets link its main.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

# Warnings for code of ours; generated code does without.
add_library(swarm_warnings INTERFACE)
target_compile_options(swarm_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-sign-conversion -Werror)
if(SWARM_FUZZ)
  # Another compiler's opinion does not stop the fuzzers; the builds with GCC are the ones that must be clean.
  target_compile_options(swarm_warnings INTERFACE -Wno-error)
endif()
# GCC 12, when it optimises, reports overflows inside std::string's own operator+ (GCC bugs 105329, 105651) and uninitialised
# reads inside std::optional (GCC bug 80635); no code of ours is meant.
target_compile_options(swarm_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized>)
