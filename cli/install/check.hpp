// How the agents' programs of this user are set up, for doctor.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/environment.hpp"
#include "cli/install/hosts.hpp"

namespace swarm::cli {

struct host_check {
  std::string name;          // host_claude, …
  const char* status = "ok"; // ok, warn, info
  std::string message;
  nlohmann::ordered_json details;
};

/// With the program and the flags that the host was most likely set up with. Throws like install_host_of().
install_options options_as_installed(const std::string& name, const environment&, const install_options&);

/// One for every host that is found here.
std::vector<host_check> check_hosts(const environment&);

} // namespace swarm::cli
