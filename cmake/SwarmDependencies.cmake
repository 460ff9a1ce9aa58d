# Everything comes from Debian 12; tools/packages lists the packages.

find_package(Threads REQUIRED)
find_package(CAF 0.17.6 EXACT REQUIRED)
find_package(Protobuf 3.21 REQUIRED) # module mode: Debian has no protobuf-config.cmake
find_package(OpenSSL 3 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
find_library(SODIUM_STATIC NAMES libsodium.a REQUIRED)
find_library(VTERM_STATIC NAMES libvterm.a REQUIRED)
if(NOT SWARM_SANITIZE)
  pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET jemalloc)
endif()
if(SWARM_TESTS)
  find_package(doctest CONFIG REQUIRED)
endif()
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# gRPC, Protobuf and abseil are linked statically: a process that makes one call takes 6 to 8 ms instead of 18 ms.
# Debian's CMake package names the shared objects only, hence this list.
file(GLOB _absl_archives "/usr/lib/*/libabsl_*.a")
list(FILTER _absl_archives EXCLUDE REGEX "test|benchmark|gmock|scoped_mock")
set(_grpc_archives)
foreach(name grpc++ grpc gpr address_sorting upb cares re2)
  find_library(GRPC_STATIC_${name} NAMES lib${name}.a REQUIRED)
  list(APPEND _grpc_archives "${GRPC_STATIC_${name}}")
endforeach()
find_library(PROTOBUF_STATIC NAMES libprotobuf.a REQUIRED)

add_library(swarm_protobuf INTERFACE)
target_link_libraries(swarm_protobuf INTERFACE "${PROTOBUF_STATIC}" ZLIB::ZLIB Threads::Threads)
add_library(swarm_grpc_static INTERFACE)
target_link_libraries(swarm_grpc_static INTERFACE
  -Wl,--start-group ${_grpc_archives} ${_absl_archives} -Wl,--end-group
  swarm_protobuf OpenSSL::SSL OpenSSL::Crypto ZLIB::ZLIB Threads::Threads dl)
