#include "services/call/agent_roots.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

using nlohmann::json;

constexpr int format = 1;

template <class T>
std::optional<T> number(const json& j, const char* name) {
  auto i = j.find(name);
  return i != j.end() && i->is_number_integer() ? std::optional{i->get<T>()} : std::nullopt;
}

std::string text(const json& j, const char* name, std::size_t bytes_max) {
  auto i = j.find(name);
  if (i == j.end() || !i->is_string())
    return {};
  auto out = i->get<std::string>();
  return out.size() <= bytes_max ? out : std::string{};
}

std::optional<agent_root> root_in(const json& j) {
  if (!j.is_object())
    return std::nullopt;
  auto pid = number<std::int64_t>(j, "pid");
  auto start = number<std::uint64_t>(j, "start");
  agent_root out{{pid.value_or(0), start.value_or(0)}, text(j, "program", limits::id_bytes_max), {}};
  if (out.process.pid <= 0 || out.process.start == 0 || !agents::find(out.program))
    return std::nullopt;
  if (auto i = j.find("sessions"); i != j.end() && i->is_array())
    for (const auto& s : *i) {
      if (!s.is_object() || out.sessions.size() >= limits::agent_root_sessions_max)
        continue;
      bound_session bound{text(s, "id", limits::id_bytes_max), text(s, "scope", limits::path_bytes_max())};
      if (!bound.id.empty() && !bound.scope.empty())
        out.sessions.push_back(std::move(bound));
    }
  return out;
}

std::string read_bounded(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  std::string out(limits::agent_roots_file_bytes_max + 1, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return out;
}

} // namespace

std::vector<agent_root> parse_agent_roots(std::string_view bytes, std::string_view boot_id) {
  std::vector<agent_root> out;
  if (bytes.size() > limits::agent_roots_file_bytes_max || boot_id.empty())
    return out;
  const auto all = json::parse(bytes, nullptr, false);
  if (!all.is_object() || number<int>(all, "format") != format || text(all, "boot", limits::id_bytes_max) != boot_id)
    return out;
  auto roots = all.find("roots");
  if (roots == all.end() || !roots->is_array())
    return out;
  for (const auto& r : *roots)
    if (auto root = root_in(r); root && out.size() < limits::agent_roots_max)
      out.push_back(std::move(*root));
  return out;
}

std::string text_of_agent_roots(const std::vector<agent_root>& roots, std::string_view boot_id) {
  auto rows = json::array();
  for (const auto& r : roots) {
    auto sessions = json::array();
    for (const auto& s : r.sessions)
      sessions.push_back({{"id", s.id}, {"scope", s.scope}});
    rows.push_back({{"pid", r.process.pid}, {"start", r.process.start}, {"program", r.program}, {"sessions", sessions}});
  }
  json all{{"format", format}, {"boot", boot_id}, {"roots", rows}};
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string current_boot_id() {
  std::ifstream in{"/proc/sys/kernel/random/boot_id"};
  std::string out;
  std::getline(in, out);
  return out;
}

agent_roots::agent_roots(std::filesystem::path file, process_watch_port& watch, const process_view& processes, std::string boot_id)
  : watch_(watch), processes_(processes) {
  shared_->file = std::move(file);
  shared_->boot_id = std::move(boot_id);
  std::vector<process_key> live;
  for (auto& r : parse_agent_roots(read_bounded(shared_->file), shared_->boot_id)) {
    const auto now = processes_.process(static_cast<pid_t>(r.process.pid));
    if (!now || now->start != r.process.start || now->is_dead())
      continue;
    live.push_back(r.process);
    const auto key = r.process;
    shared_->roots.try_emplace(key, kept{std::move(r), 0});
  }
  for (auto key : live)
    this->watch(key);
}

agent_roots::~agent_roots() {
  std::vector<std::uint64_t> watches;
  {
    std::lock_guard guard{shared_->mutex};
    shared_->over = true;
    for (const auto& [key, k] : shared_->roots)
      watches.push_back(k.watch);
  }
  for (auto w : watches)
    if (w != 0)
      watch_.forget(w);
}

/// Not under the mutex: the watch calls at once when the process has ended.
void agent_roots::watch(process_key key) {
  auto number = watch_.watch(key.pid, key.start, [weak = std::weak_ptr<shared>{shared_}, key] {
    if (auto s = weak.lock())
      s->ended(key);
  });
  std::lock_guard guard{shared_->mutex};
  if (auto i = shared_->roots.find(key); i != shared_->roots.end())
    i->second.watch = number;
}

void agent_roots::shared::ended(process_key key) {
  {
    std::lock_guard guard{mutex};
    if (over || roots.erase(key) == 0)
      return;
  }
  write();
}

/// What a node that is killed would forget is found again at the next call: it need not outlast a power cut, after which nothing of it is true.
void agent_roots::shared::write() {
  std::lock_guard one{writing};
  std::vector<agent_root> all;
  {
    std::lock_guard guard{mutex};
    all.reserve(roots.size());
    for (const auto& [key, k] : roots)
      all.push_back(k.root);
  }
  if (auto error = replace_file(file, text_of_agent_roots(all, boot_id), durability::cached))
    log::warn({"which agents run here cannot be kept in ", file.string(), ": ", error.message()});
}

void agent_roots::found(process_key key, const std::string& program) {
  {
    std::lock_guard guard{shared_->mutex};
    if (shared_->roots.contains(key))
      return;
    if (shared_->roots.size() >= limits::agent_roots_max) {
      log::warn({"process ", key.pid, " (", program, ") gets no session of its own: ", limits::agent_roots_max, " agents run (agent_roots_max)"});
      return;
    }
    shared_->roots.emplace(key, kept{{key, program, {}}, 0});
    ++shared_->generation;
  }
  watch(key);
  shared_->write();
  log::info({"process ", key.pid, " is an agent: ", program});
}

const agents::agent* agent_roots::known(const process_stat& p) const {
  std::lock_guard guard{shared_->mutex};
  auto i = shared_->roots.find({p.pid, p.start});
  return i == shared_->roots.end() ? nullptr : agents::find(i->second.root.program);
}

std::optional<agent_root> agent_roots::find(process_key key) const {
  std::lock_guard guard{shared_->mutex};
  auto i = shared_->roots.find(key);
  return i == shared_->roots.end() ? std::nullopt : std::optional{i->second.root};
}

std::optional<agent_root> agent_roots::root_of(std::int64_t pid) {
  auto line = agents::lineage_of(processes_, static_cast<pid_t>(pid));
  if (!line)
    return std::nullopt;
  auto standing = agents::standing_of(processes_, *line, geteuid(), [this](const process_stat& p) { return known(p); });
  if (!standing.root)
    return std::nullopt;
  const auto& at = standing.chain[*standing.root];
  found({at.pid, at.start}, at.agent->name);
  return find({at.pid, at.start});
}

std::optional<process_key> agent_roots::root_of_session(std::string_view id) const {
  std::lock_guard guard{shared_->mutex};
  for (const auto& [key, k] : shared_->roots)
    if (std::any_of(k.root.sessions.begin(), k.root.sessions.end(), [&](const bound_session& s) { return s.id == id; }))
      return key;
  return std::nullopt;
}

bool agent_roots::bind(process_key key, const std::string& session_id, const std::string& scope) {
  bound_session bound{session_id, scope};
  {
    std::lock_guard guard{shared_->mutex};
    auto i = shared_->roots.find(key);
    if (i == shared_->roots.end())
      return false;
    auto& sessions = i->second.root.sessions;
    if (!sessions.empty() && sessions.back() == bound)
      return true;
    // An agent takes its session along when another process of it goes on, so nobody else acts as it any more.
    for (auto& [other, k] : shared_->roots)
      std::erase_if(k.root.sessions, [&](const bound_session& s) { return s.id == session_id; });
    if (sessions.size() >= limits::agent_root_sessions_max)
      sessions.erase(sessions.begin());
    sessions.push_back(std::move(bound));
  }
  shared_->write();
  return true;
}

void agent_roots::session_gone(const std::string& session_id) {
  std::size_t gone = 0;
  {
    std::lock_guard guard{shared_->mutex};
    for (auto& [key, k] : shared_->roots)
      gone += std::erase_if(k.root.sessions, [&](const bound_session& s) { return s.id == session_id; });
  }
  if (gone > 0)
    shared_->write();
}

std::optional<std::string> agent_roots::environment_of_root(process_key key, std::string_view name) const {
  const auto pid = static_cast<pid_t>(key.pid);
  auto block = processes_.environment_of(pid);
  // What was read is the root's only if it still is the one that has the number.
  const auto now = block ? processes_.process(pid) : std::nullopt;
  return now && now->start == key.start ? variable_in(*block, name) : std::nullopt;
}

} // namespace swarm
