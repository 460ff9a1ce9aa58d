#include "services/call/kernel_session.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/domain/harness.hpp"

namespace swarm {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_agents_program(const process_stat& p) {
  if (domain::is_agent(command_name_of(p.pid).value_or("")) || domain::is_agent(file_name(executable_of(p.pid).value_or(""))))
    return true;
  // An interpreter and its script.
  std::ifstream in{"/proc/" + std::to_string(p.pid) + "/cmdline"};
  std::string word;
  for (int i = 0; i < 3 && std::getline(in, word, '\0'); ++i)
    if (domain::is_agent(file_name(word)))
      return true;
  return false;
}

} // namespace

session_view machines_sessions() {
  session_view out;
  out.is_agents = [](const process_stat& p, const process_stat&) { return is_agents_program(p); };
  std::ifstream in{"/proc/sys/kernel/random/boot_id"};
  std::getline(in, out.boot_id);
  return out;
}

std::optional<kernel_session> person_session_of(pid_t pid, const session_view& view) {
  auto at = view.process(pid);
  if (!at || at->session <= 0)
    return std::nullopt;
  auto leader = view.process(at->session);
  if (!leader || leader->is_dead() || leader->session != leader->pid || leader->terminal == 0)
    return std::nullopt;
  std::vector<process_stat> chain{*at};
  while (chain.back().pid != leader->pid) {
    auto parent = chain.size() <= limits::process_ancestors_max ? view.process(chain.back().parent) : std::nullopt;
    // One that is younger than its child is another process with a recycled number.
    if (!parent || parent->start > chain.back().start || parent->session != leader->pid)
      return std::nullopt;
    chain.push_back(*parent);
  }
  if (chain.back().start != leader->start || std::any_of(chain.begin(), chain.end(), [&](const auto& p) { return view.is_agents(p, *leader); }))
    return std::nullopt;
  return kernel_session{leader->pid, leader->start, view.boot_id};
}

} // namespace swarm
