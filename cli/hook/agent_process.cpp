#include "cli/hook/agent_process.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <unistd.h>

namespace swarm::cli {

namespace {

constexpr std::string_view shells[] = {"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "fish"};

bool is_shell(pid_t pid) {
  auto name = std::filesystem::path{executable_of(pid).value_or("")}.filename().string();
  return std::find(std::begin(shells), std::end(shells), name) != std::end(shells);
}

bool is_same(const process_stat& a, const process_stat& b) { return a.pid == b.pid && a.start == b.start; }

} // namespace

std::optional<process_stat> starter_of(pid_t pid) {
  // A process whose starter is gone belongs to process 1, which is not the agent.
  for (auto parent = parent_of(pid); parent && *parent > 1; parent = parent_of(*parent))
    if (!is_shell(*parent))
      return read_process(*parent);
  return std::nullopt;
}

std::optional<v1::Session> tool_server_session(const std::vector<v1::Session>& sessions, const std::string& me,
                                               const std::function<bool(const std::string& id)>& is_anothers) {
  auto agent = starter_of(getpid());
  if (!agent)
    return std::nullopt;
  const v1::Session* found = nullptr;
  bool unclear = false;
  for (const auto& s : sessions) {
    auto pid = static_cast<pid_t>(s.pid());
    if (s.presence() == v1::Session::LEASE && s.id() != me) {
      // The agent runs another session, and the tool server that we find may belong to that one.
      unclear = unclear || (pid == agent->pid && s.pid_start() == agent->start);
      continue;
    }
    if (s.presence() != v1::Session::PROCESS || !s.spawn_id().empty() || pid_start_time(pid) != s.pid_start())
      continue;
    if (auto starter = starter_of(pid); !starter || !is_same(*starter, *agent))
      continue;
    if (s.id() == me)
      return s;
    if (is_anothers(s.id()))
      continue;
    unclear = unclear || found;
    found = &s;
  }
  return found && !unclear ? std::optional{*found} : std::nullopt;
}

} // namespace swarm::cli
