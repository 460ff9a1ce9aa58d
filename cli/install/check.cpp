#include "cli/install/check.hpp"

#include <algorithm>
#include <map>

#include <unistd.h>

#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"
#include "cli/edit/file.hpp"
#include "cli/edit/json.hpp"
#include "cli/install/hosts.hpp"
#include "cli/output.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) { return read_settings(path).bytes.value_or(""); }

/// The worst of a thing that stands in several files.
using states = std::map<std::string, setting_state>;

states states_of(const install_host& host) {
  states out;
  for (const auto& s : host.settings) {
    if (s.what.empty())
      continue;
    auto now = state_of(s, text_of(s.file), text_of);
    if (s.former && now != setting_state::left_over)
      continue;
    auto [i, fresh] = out.emplace(s.what, now);
    if (!fresh && i->second != now)
      i->second = std::max({i->second, now, setting_state::outdated});
  }
  return out;
}

/// The skill may be left out.
bool is_good(const states::value_type& s) { return s.second == setting_state::current || (s.first == "skill" && s.second == setting_state::absent); }

/// Programs that its settings start.
std::vector<std::string> programs_of(const install_host& host) {
  std::vector<std::string> out;
  for (const auto& s : host.settings) {
    if (!s.program)
      continue;
    try {
      if (auto program = s.program(text_of(s.file)); !program.empty() && std::find(out.begin(), out.end(), program) == out.end())
        out.push_back(program);
    } catch (const std::exception&) { // told by its state
    }
  }
  return out;
}

struct installed {
  install_options options;
  install_host host;
  states found;
};

/// The set-up with the options it was most likely made with, which its files do not name.
installed as_installed(const std::string& name, const environment& env, install_options o) {
  auto programs = programs_of(install_host_of(name, env, o));
  // Another swarmctl than this one is as good, as long as it is there.
  if (programs.size() == 1 && access(programs[0].c_str(), X_OK) == 0)
    o.program = programs[0];
  installed best;
  std::ptrdiff_t most = -1;
  for (int i = 0; i < 4 && (most < 0 || static_cast<std::size_t>(most) < best.found.size()); ++i) {
    o.fail_closed = i & 1;
    o.enforce = i & 2;
    auto host = install_host_of(name, env, o);
    auto found = states_of(host);
    auto current = std::count_if(found.begin(), found.end(), [](const auto& s) { return s.second == setting_state::current; });
    if (current > most)
      best = {o, std::move(host), std::move(found)};
    most = std::max(most, current);
  }
  return best;
}

const char* word_for(setting_state s) {
  switch (s) {
    case setting_state::absent: return "is missing";
    case setting_state::outdated: return "is not current";
    case setting_state::left_over: return "is still there";
    case setting_state::unreadable: return "cannot be read";
    case setting_state::current: return "is set up";
  }
  return "";
}

std::string last_loaded(const fs::path& stamp) {
  auto value = json::parse(text_of(stamp), nullptr, false);
  auto at = value.is_object() && value.contains("at_ms") && value["at_ms"].is_number_integer() ? value["at_ms"].get<std::int64_t>() : 0;
  return at > 0 ? "its plugin was last loaded " + utc(at) : "its plugin has not been loaded yet";
}

host_check check_of(const std::string& name, const environment& env, const install_options& o) {
  auto mend = ": swarmctl install --host " + name;
  host_check out{"host_" + name, "ok", "", json::object()};
  auto plain = install_host_of(name, env, o);
  if (!plain.found)
    return {};
  auto programs = programs_of(plain);
  auto [options, host, found] = as_installed(name, env, o);
  for (const auto& [what, state] : found)
    out.details[what] = word_for(state);
  for (const auto& program : programs) {
    out.details["program"] = program;
    // As the agent's program looks for it.
    const bool is_there = program.find('/') == program.npos ? !program_on_path(env, program).empty() : access(program.c_str(), X_OK) == 0;
    if (!is_there) {
      out.status = "warn";
      out.message = concat({host.title, ": its settings start ", program, ", which is not there", mend});
      return out;
    }
  }
  if (std::all_of(found.begin(), found.end(), [](const auto& s) { return s.second == setting_state::absent; })) {
    out.status = "info";
    out.message = host.title + " is here, but not set up" + mend;
    return out;
  }
  if (std::all_of(found.begin(), found.end(), is_good)) {
    out.message = host.title + ": set up";
    if (!host.stamp.empty())
      out.message += "; " + last_loaded(host.stamp);
    return out;
  }
  out.status = "warn";
  for (const auto& one : found)
    if (!is_good(one))
      out.message += (out.message.empty() ? host.title + ": " : ", ") + one.first + " " + word_for(one.second);
  out.message += mend;
  return out;
}

} // namespace

install_options options_as_installed(const std::string& name, const environment& env, const install_options& o) {
  return as_installed(name, env, o).options;
}

std::vector<host_check> check_hosts(const environment& env) {
  std::vector<host_check> out;
  install_options o;
  o.program = program_for_settings(env);
  o.share = share_directory(env.get("SWARM_SHARE"));
  for (const auto& name : install_host_names()) {
    try {
      if (auto check = check_of(name, env, o); !check.name.empty())
        out.push_back(std::move(check));
    } catch (const std::exception& e) {
      out.push_back({"host_" + name, "warn", e.what(), json::object()});
    }
  }
  return out;
}

} // namespace swarm::cli
