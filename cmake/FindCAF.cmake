# Debian's libcaf-dev carries headers and shared objects but no CMake package.
# Defines CAF_VERSION and the imported target CAF::core.

find_path(CAF_INCLUDE_DIR NAMES caf/config.hpp)
find_library(CAF_CORE_LIBRARY NAMES caf_core)

if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _line REGEX "^#define CAF_VERSION [0-9]+")
  if(_line MATCHES "CAF_VERSION ([0-9]+)")
    # MMmmpp, for instance 1706 for 0.17.6
    math(EXPR _major "${CMAKE_MATCH_1} / 10000")
    math(EXPR _minor "(${CMAKE_MATCH_1} / 100) % 100")
    math(EXPR _patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION "${_major}.${_minor}.${_patch}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)

if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
