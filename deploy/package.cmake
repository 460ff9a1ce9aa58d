# The files of an installation, and the Debian package with them (docs/packaging.md). tools/package makes the package.
include(GNUInstallDirs)

install(TARGETS swarmctl swarmd swarm-keeper swarm-driver RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}") # each looks for the others in its own directory
install(CODE "file(CREATE_LINK swarmctl \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/swarm-mcp\" SYMBOLIC)")
foreach(part agents skills routines)
  if(EXISTS "${CMAKE_SOURCE_DIR}/deploy/${part}")
    # A plugin that ran from the source tree left loaded.json and __pycache__ behind.
    install(DIRECTORY deploy/${part} DESTINATION "${CMAKE_INSTALL_DATADIR}/swarm-fabric" PATTERN loaded.json EXCLUDE PATTERN __pycache__ EXCLUDE)
  endif()
endforeach()
install(FILES deploy/systemd/swarmd.service DESTINATION lib/systemd/user)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/swarm-fabric")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/swarm-fabric/docs" FILES_MATCHING
        PATTERN "*.md" PATTERN "*.svg" PATTERN "*.json" PATTERN "*.sh")

# Manual pages and completion are made from the programs' help. Builds of the tests do not make them, because that would slow each build.
set(_made "${CMAKE_BINARY_DIR}/package-files")
set(_make "${CMAKE_SOURCE_DIR}/deploy/package_files" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" "${_made}")
if(NOT SWARM_TESTS AND NOT SWARM_FUZZ)
  add_custom_target(package_files ALL COMMAND ${_make} COMMENT "manual pages, completion, copyright" VERBATIM)
  add_dependencies(package_files swarmctl swarmd swarm-keeper swarm-driver)
endif()
list(JOIN _make "\" \"" _words)
install(CODE "execute_process(COMMAND \"${_words}\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY "${_made}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" FILES_MATCHING PATTERN "*.1.gz")
install(DIRECTORY "${_made}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man8" FILES_MATCHING PATTERN "*.8.gz")
install(FILES "${_made}/completion/swarmctl" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
set(_link "${CMAKE_INSTALL_DATADIR}/bash-completion/completions/swarm-mcp") # bash looks for a file with the name of the command
install(CODE "file(CREATE_LINK swarmctl \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${_link}\" SYMBOLIC)")
install(FILES "${_made}/completion/_swarmctl" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${_made}/completion/swarmctl.fish" "${_made}/completion/swarm-mcp.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES "${_made}/copyright" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/swarm-fabric")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME swarm-fabric)
set(CPACK_PACKAGE_CONTACT "The authors of Swarm Fabric <swarm-fabric@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "one fabric for coding agents: sessions, tasks, locks, messages, terminals")
set(CPACK_PACKAGE_DESCRIPTION
  "A node per person (swarmd), a command line (swarmctl) and an MCP server (swarmctl mcp)
through which coding agents of several makers know of each other, divide work, keep off
each other's files and wake each other.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX "${CMAKE_BINARY_DIR}/package")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "git, bash-completion")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)
