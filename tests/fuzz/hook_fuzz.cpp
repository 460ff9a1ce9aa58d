// What an agent's program tells a hook: an event as JSON, an environment, and the file in which a session's hooks remember. Input: a byte for
// the kind and the agent, then the bytes.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/hook/event.hpp"
#include "cli/hook/session.hpp"
#include "cli/hook/store.hpp"
#include "gateway/json/shapes.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using namespace swarm::cli;
namespace fs = std::filesystem;

namespace {

const shell::place place{"/nowhere/r", "/nowhere/home"};

bool same(const tool_use& a, const tool_use& b) {
  auto path = [](const auto& x, const auto& y) { return x.path == y.path && x.tree == y.tree && x.pattern == y.pattern; };
  return a.what == b.what && a.tool == b.tool && a.key == b.key && a.script == b.script &&
         std::equal(a.paths.begin(), a.paths.end(), b.paths.begin(), b.paths.end(), path);
}

void check_event(const std::string& bytes) {
  auto event = domain::parse_json_of_others(bytes).value_or(json());
  auto use = tool_use_of(event, place);
  SWARM_HOLDS(use.paths.size() <= limits::hook_paths_max);
  for (const auto& w : use.paths)
    SWARM_HOLDS(w.path.front() == '/' && normalize_path(w.path, "/elsewhere") == w.path && w.path.find('\0') == w.path.npos);
  if (use.what == tool_use::kind::other) {
    SWARM_HOLDS(use.paths.empty() && use.key.empty() && use.script.empty());
    return;
  }
  SWARM_HOLDS(!use.key.empty() && use.key.size() <= limits::id_bytes_max);
  SWARM_HOLDS(same(use, tool_use_of(event, place)));
  // The call is known again at its end, wherever that is and whatever else is told then.
  auto later = event;
  later["tool_response"] = "x";
  SWARM_HOLDS(same(use, tool_use_of(later, place)));
  SWARM_HOLDS(tool_use_of(event, {"/elsewhere", ""}).key == use.key);
  // A file that is named is found, for as many as are looked at.
  const auto* input = event.contains("tool_input") ? &event["tool_input"] : nullptr;
  if (use.what == tool_use::kind::write && input && input->is_object())
    for (const auto* key : {"file_path", "path", "notebook_path"})
      if (auto i = input->find(key); i != input->end() && i->is_string()) {
        auto file = i->get<std::string>();
        if (!file.empty() && file.size() <= limits::path_bytes_max() && file.find('\0') == file.npos)
          SWARM_HOLDS(
            std::any_of(use.paths.begin(), use.paths.end(), [&](const auto& w) { return w.path == normalize_path(file, place.directory); }));
      }
}

/// Every agent can be given every text, and reads the same text.
void check_answers(const agents::agent& agent, const std::string& bytes) {
  auto text = escape_control(bytes);
  std::vector<json> answers{hook_denial(agent, text)};
  for (auto name : {"session-start", "pre-tool-use", "post-tool-use", "prompt-submit"})
    answers.push_back(hook_context(agent, *find_hook_event(name), text));
  for (const auto& answer : answers) {
    auto line = mcp::dump(answer, -1);
    SWARM_HOLDS(line.find('\n') == line.npos);
    auto back = json::parse(line, nullptr, false);
    SWARM_HOLDS(back == answer);
    auto flat = back.flatten();
    SWARM_HOLDS(std::any_of(flat.begin(), flat.end(), [&](const auto& v) { return v == text; }));
  }
}

void check_identity(const agents::agent& agent, fuzz::input& in) {
  auto session = to_utf8(in.piece());
  auto platform = to_utf8(in.piece());
  variables v;
  for (const auto* name : {"IDENTITY", "LABEL", "ROLE", "AGENT_ROLE", "LEASE_SECONDS", "WORK_TRACKER", "SCOPE"})
    if (auto value = in.piece(); value.find('\0') == value.npos)
      v["SWARM_" + std::string{agent.variables} + "_" + name] = value;
  environment env{v};
  auto me = identity_of(agent, env, session, "/nowhere", "/nowhere", platform);
  SWARM_HOLDS(is_utf8(me.label) && escape_control(me.label, false) == me.label);
  // By this a session is found again whose file is lost.
  SWARM_HOLDS(me.label.find("session:") != me.label.npos);
  SWARM_HOLDS(me.lease_ms >= 0 && me.lease_ms <= limits::lease_max().count());
  SWARM_HOLDS(me.identity.empty() || domain::is_name(me.identity));
  hook_greeting g;
  g.id = session;
  g.coordinator = me.coordinator;
  g.reason = platform;
  g.tracker = work_tracker_of(agent, env, me.identity, "/nowhere", "/nowhere");
  if (g.tracker) {
    auto said = json::parse(g.tracker->value, nullptr, false);
    SWARM_HOLDS(said.is_object() && domain::is_name(g.tracker->provider));
  }
  auto text = greeting_text(g);
  SWARM_HOLDS(is_utf8(text) && escape_control(text) == text);
}

bool same(const hook_memory& a, const hook_memory& b) {
  auto lock = [](const auto& x, const auto& y) { return x.first == y.first && x.second.fence == y.second.fence && x.second.users == y.second.users; };
  auto file = [](const auto& x, const auto& y) { return x.path == y.path && x.file == y.file && x.holder == y.holder && x.before == y.before; };
  auto call = [&](const auto& x, const auto& y) {
    return x.key == y.key && x.from_ms == y.from_ms && x.to_ms == y.to_ms && x.paths == y.paths && x.locks == y.locks &&
           std::equal(x.watched.begin(), x.watched.end(), y.watched.begin(), y.watched.end(), file);
  };
  return a.id == b.id && a.scope == b.scope && a.directory == b.directory && a.root == b.root && a.file_root == b.file_root &&
         a.registered == b.registered && a.coordinator == b.coordinator && a.state == b.state && a.reported_at_ms == b.reported_at_ms &&
         std::equal(a.taken.begin(), a.taken.end(), b.taken.begin(), b.taken.end(), lock) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), call);
}

/// A file that a crash or a person has changed is read as far as it is one, and is a good one after the next change.
void check_memory(const std::string& bytes) {
  static const fuzz::scratch_directory scratch;
  hook_store store{scratch.path, "claude", "s"};
  SWARM_HOLDS(store.update([](hook_memory& m) { return m = {}, true; }, true));
  auto file = fs::directory_iterator { scratch.path / "hooks" / "claude" } -> path();
  std::ofstream{file, std::ios::binary | std::ios::trunc} << bytes;
  auto before = store.load();
  hook_memory seen;
  bool there = store.update([&](hook_memory& m) { return seen = m, true; });
  SWARM_HOLDS(there == before.has_value());
  if (!before)
    return;
  SWARM_HOLDS(same(*before, seen));
  auto after = store.load();
  SWARM_HOLDS(after && after->calls.size() <= limits::hook_calls_max);
  SWARM_HOLDS(before->calls.size() > limits::hook_calls_max || same(*before, *after));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  const auto& agent = agents::all()[which / 4 % agents::all().size()];
  switch (which % 4) {
    case 0: check_event(in.rest()); break;
    case 1: check_answers(agent, in.rest()); break;
    case 2: check_identity(agent, in); break;
    default: check_memory(in.rest());
  }
  return 0;
}
