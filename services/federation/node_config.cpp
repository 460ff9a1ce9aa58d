#include "services/federation/node_config.hpp"

namespace swarm {

security_result<node_config> read_node_config(const std::filesystem::path& file) {
  const auto document = read_config(file, domain::whole_config());
  if (!document.faults.empty())
    return security_failure{security_error::malformed, document.faults.front().told(file.string())};
  return domain::node_config_of(document);
}

} // namespace swarm
