#include "services/federation/node_labels.hpp"

#include <algorithm>
#include <thread>

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "actors/base/limits.hpp"
#include "actors/base/program.hpp"
#include "actors/domain/harness.hpp"
#include "actors/fabric/cluster/placement.hpp"

namespace swarm {

std::vector<std::string> agents_found(const std::vector<std::string>& environment) {
  std::vector<std::string> out;
  for (auto agent : domain::agents)
    if (find_program(std::string{agent}, search_path(environment), ""))
      out.emplace_back(agent);
  return out;
}

v1::NodeInfo describe_host(const std::vector<std::string>& environment) {
  v1::NodeInfo out;
  auto label = [&](std::string name, std::string value) {
    auto& l = *out.add_labels();
    l.set_name(std::move(name));
    l.set_value(value.substr(0, limits::id_bytes_max));
  };
  utsname system{};
  if (uname(&system) == 0) {
    std::string os = system.sysname;
    std::transform(os.begin(), os.end(), os.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    label("os", os);
    label("arch", system.machine);
  }
  label("cpus", std::to_string(std::max(1u, std::thread::hardware_concurrency())));
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0)
    label("memory_mib", std::to_string(std::uint64_t{memory.totalram} * memory.mem_unit / limits::mib));
  for (auto agent : domain::agents)
    if (auto program = find_program(std::string{agent}, search_path(environment), ""))
      label(harness_label(agent), *program);
  std::sort(out.mutable_labels()->begin(), out.mutable_labels()->end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
  out.set_workers_max(static_cast<std::uint32_t>(limits::node_ptys_max()));
  return out;
}

} // namespace swarm
