#include "actors/agents/held_paths.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fnmatch.h>

#include "actors/agents/json_view.hpp"
#include "actors/agents/tools.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"
#include "actors/shell/writes.hpp"

namespace swarm::agents {

namespace {

std::vector<shell::written_path> paths_of(const internal::HookQuestion& q, const std::string& home) {
  const json_view::members input{json_view::of(q.input())};
  const auto kind = kind_of_tool(q.tool());
  std::vector<shell::written_path> out;
  auto add = [&](const std::string& path) {
    if (!path.empty())
      out.push_back({.path = normalize_path(path, q.directory())});
  };
  if (kind == tool_kind::reads)
    return out;
  if (kind == tool_kind::runs)
    for (auto name : script_parameters())
      if (input[name].is_text())
        return shell::paths_written_by(input[name].text(), {.directory = q.directory(), .home = home});
  for (auto name : path_parameters())
    add(input[name].text());
  for (const auto& [name, value] : input.all())
    if (takes_patches(q.tool()) && value.is_text())
      for (const auto& path : shell::paths_in_envelope(value.text()))
        add(path);
  return out;
}

bool lies_in(std::string_view path, std::string_view directory) {
  return path == directory || directory == "/" || (path.starts_with(directory) && path[directory.size()] == '/');
}

/// Writing `w`, by this name, changes what is held.
bool meets(const shell::written_path& w, const std::string& name, const std::string& held) {
  if (w.pattern)
    return fnmatch(name.c_str(), held.c_str(), 0) == 0 || lies_in(name.substr(0, name.find_first_of("*?[\\")), held);
  return lies_in(name, held) || (w.tree && lies_in(held, name));
}

} // namespace

held_path held_against(const internal::Locks& held, const internal::HookQuestion& question, const std::string& home) {
  if (held.paths().empty() && !held.more())
    return {};
  if (question.too_long())
    return {held_path::kind::perhaps};
  held_path out;
  for (const auto& w : paths_of(question, home)) {
    const auto real = w.pattern ? w.path : target_path(w.path);
    for (const auto& path : held.paths())
      if (meets(w, w.path, path) || meets(w, real, path) || meets(w, real, real_path(path)))
        return {held_path::kind::held, path};
    if (held.more() && out.what == held_path::kind::free)
      out = {held_path::kind::perhaps, w.path};
  }
  return out;
}

std::string why_held(const held_path& h) {
  constexpr std::string_view away = "; the node that could let it pass does not answer. Try again later";
  if (h.what == held_path::kind::free)
    return {};
  if (h.what == held_path::kind::held)
    return concat({"A peer holds ", h.path, away});
  if (h.path.empty())
    return concat({"Peers hold files, and what this tool writes is not known", away});
  return concat({"Peers hold more files than the driver knows of, and ", h.path, " may be one of them", away});
}

bool writes_files(const internal::HookQuestion& question, const std::string& home) {
  return question.too_long() || !paths_of(question, home).empty();
}

std::string kept_out_of(const std::vector<std::string>& directories, const internal::HookQuestion& question, const std::string& home) {
  for (const auto& w : directories.empty() ? std::vector<shell::written_path>{} : paths_of(question, home))
    if (const auto* directory = shell::reached_directory(w, directories))
      return *directory;
  return {};
}

std::string no_agent_writes(const std::string& directory) {
  return concat({directory,
                 " holds the node's state or swarm's settings, which say who may do what. No agent writes there, whatever it was asked to do. ",
                 "Tell the person what you wanted to change, and go on without it"});
}

} // namespace swarm::agents
