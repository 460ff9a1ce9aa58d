#include "actors/agents/held_paths.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fnmatch.h>

#include "actors/agents/json_view.hpp"
#include "actors/agents/tools.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"

namespace swarm::agents {

namespace {

/// The paths of one question, in the order in which they are met.
class path_list {
public:
  path_list(const internal::HookQuestion& q, const shell::place& place, std::size_t most) : place_(place), most_(most), cut_(q.too_long()) {
    if (!q.directory().empty())
      place_.directory = q.directory();
  }

  void add_script(const std::string& script) {
    if (script.size() > limits::hook_script_bytes_max) {
      cut_ = true;
      return;
    }
    add_written(shell::paths_written_by(script, place_));
  }
  /// A program and its arguments.
  void add_words(const json_view& words) {
    std::vector<std::string> argv;
    const auto all = words.elements(limits::tool_input_texts_max + 1);
    cut_ = cut_ || all.size() > limits::tool_input_texts_max || words.raw().size() > limits::hook_script_bytes_max;
    for (const auto& word : all) {
      has_unseen_ = has_unseen_ || !word.is_text();
      argv.push_back(word.text());
    }
    if (!cut_ && !argv.empty())
      add_written(shell::paths_written_by(argv, place_));
  }
  /// As it stands, and as a program reads it that knows of home directories and URIs.
  void add_text(std::string_view text) {
    constexpr std::string_view of_file = "file://";
    if (text.empty() || text.size() > limits::path_bytes_max() || text.find('\0') != text.npos)
      return;
    add({.path = normalize_path(text, place_.directory)});
    if (text.starts_with(of_file))
      text.remove_prefix(std::min(text.find('/', of_file.size()), text.size()));
    if ((text == "~" || text.starts_with("~/")) && !place_.home.empty())
      add({.path = normalize_path(concat({place_.home, text.substr(1)}), "/")});
    else if (text.starts_with('/'))
      add({.path = normalize_path(text, "/")});
  }
  /// Every text in it that may be a path as a whole.
  void add_texts(const json_view& value, int depth = 0) {
    cut_ = cut_ || depth > limits::tool_input_depth_max;
    if (cut_)
      return;
    if (value.is_object()) {
      const json_view::members inside{value, limits::tool_input_texts_max + 1};
      for (const auto& [name, inner] : inside.all())
        add_texts(inner, depth + 1);
    } else if (value.is_array()) {
      for (const auto& inner : value.elements(limits::tool_input_texts_max + 1))
        add_texts(inner, depth + 1);
    } else if (value.is_text() && value.raw().size() <= limits::path_bytes_max()) {
      if (auto text = value.text(); text.find('\n') == text.npos)
        add_text(text);
    }
  }

  void add_unseen() noexcept { has_unseen_ = true; }
  bool is_cut() const noexcept { return cut_; }
  /// The tool does not show what it runs.
  bool has_unseen() const noexcept { return has_unseen_; }
  const std::vector<shell::written_path>& all() const noexcept { return all_; }

private:
  void add_written(std::vector<shell::written_path> written) {
    cut_ = cut_ || written.size() > limits::hook_paths_max; // the others are not among them
    for (auto& w : written)
      add(std::move(w));
  }
  void add(shell::written_path w) {
    if (!known_.emplace(w.path, w.tree, w.pattern).second)
      return;
    if (all_.size() == most_)
      cut_ = true;
    else
      all_.push_back(std::move(w));
  }

  shell::place place_;
  std::size_t most_;
  std::vector<shell::written_path> all_;
  std::set<std::tuple<std::string, bool, bool>> known_;
  bool cut_;
  bool has_unseen_ = false;
};

/// What the code writes that a tool runs. False when it does not show what it runs.
bool add_code(std::string_view tool, const json_view::members& input, path_list& out) {
  constexpr std::string_view watching = "Monitor";
  if (!reads_shell_lines(tool))
    return false;
  for (auto name : script_parameters())
    if (const auto code = input[name]; code.is_text() || code.is_array()) {
      if (code.is_text())
        out.add_script(code.text());
      else
        out.add_words(code);
      return true;
    }
  return tool == watching && input["ws"].is_object(); // it runs nothing, and hears what a server sends
}

/// What a tool writes by its own parameters.
path_list paths_of(const internal::HookQuestion& q, const shell::place& place) {
  path_list out{q, place, limits::hook_paths_max};
  const json_view::members input{json_view::of(q.input())};
  const auto kind = kind_of_tool(q.tool());
  if (kind == tool_kind::reads || is_of_fabric(q.tool()))
    return out;
  if (kind == tool_kind::runs) {
    if (add_code(q.tool(), input, out))
      return out;
    out.add_unseen();
  }
  for (auto name : path_parameters())
    out.add_text(input[name].text());
  for (const auto& [name, value] : input.all())
    if (takes_patches(q.tool()) && value.is_text())
      for (const auto& path : shell::paths_in_envelope(value.text()))
        out.add_text(path);
  return out;
}

bool lies_in(std::string_view path, std::string_view directory) {
  return path == directory || directory == "/" || (path.starts_with(directory) && path[directory.size()] == '/');
}

/// Writing `w`, by this name, changes what is held.
bool meets(const internal::WrittenPath& w, const std::string& name, const std::string& held) {
  if (w.pattern())
    return fnmatch(name.c_str(), held.c_str(), 0) == 0 || lies_in(name.substr(0, name.find_first_of("*?[\\")), held);
  return lies_in(name, held) || (w.tree() && lies_in(held, name));
}

template <class Told>
void put(const tool_writes& writes, Told& told, std::size_t count_max) {
  std::size_t bytes = 0;
  told.clear_writes();
  told.set_more_writes(writes.more);
  for (const auto& w : writes.paths) {
    bytes += w.ByteSizeLong() + 4;
    if (static_cast<std::size_t>(told.writes_size()) == count_max || bytes > limits::approval_writes_bytes_max) {
      told.set_more_writes(true);
      return;
    }
    *told.add_writes() = w;
  }
}

constexpr std::string_view no_agent =
  ". No agent writes there, whatever it was asked to do. Tell the person what you wanted to change, and go on without it";

} // namespace

tool_writes writes_of(const internal::HookQuestion& q, const shell::place& place) {
  const auto paths = paths_of(q, place);
  tool_writes out{{}, paths.is_cut() || paths.has_unseen()};
  for (const auto& p : paths.all()) {
    auto& w = out.paths.emplace_back();
    w.set_name(p.path);
    w.set_pattern(p.pattern);
    w.set_tree(p.tree);
    if (auto real = p.pattern ? p.path : target_path(p.path); real != p.path)
      w.set_real(std::move(real));
  }
  return out;
}

void put_writes(const tool_writes& writes, internal::HookQuestion& q) { put(writes, q, limits::hook_paths_max); }
void put_writes(const tool_writes& writes, internal::Request& r) { put(writes, r, limits::approval_writes_max); }

tool_writes told_writes(const internal::HookQuestion& q) { return {{q.writes().begin(), q.writes().end()}, q.more_writes()}; }

held_path held_against(std::span<const held_file> held, bool more, const tool_writes& writes) {
  if (held.empty() && !more)
    return {};
  for (const auto& w : writes.paths)
    for (const auto& h : held)
      for (const auto* name : {&w.name(), w.real().empty() ? &w.name() : &w.real()})
        if (meets(w, *name, h.name) || meets(w, *name, h.real))
          return {held_path::kind::held, h.name};
  if (writes.more)
    return {held_path::kind::perhaps};
  return more && !writes.paths.empty() ? held_path{held_path::kind::perhaps, writes.paths.front().name()} : held_path{};
}

held_path held_against(const internal::Locks& locks, const tool_writes& writes) {
  std::vector<held_file> held;
  for (const auto& path : locks.paths())
    held.push_back({path, path});
  return held_against(held, locks.more(), writes);
}

std::string why_held(const held_path& h) {
  constexpr std::string_view away = "; the node that could let it pass does not answer. Try again later";
  if (h.what == held_path::kind::free)
    return {};
  if (h.what == held_path::kind::held)
    return concat({"A peer holds ", h.path, away});
  if (h.path.empty())
    return concat({"Peers hold files, and not all that this tool writes is known", away});
  return concat({"Peers hold more files than the driver knows of, and ", h.path, " may be one of them", away});
}

kept_out kept_out_of(const std::vector<std::string>& directories, const internal::HookQuestion& q, const shell::place& place) {
  if (directories.empty() || is_of_fabric(q.tool()))
    return {};
  auto found = [&](const path_list& paths) -> kept_out {
    for (const auto& w : paths.all())
      if (const auto* directory = shell::reached_directory(w, directories))
        return {concat({"no agent writes ", *directory}),
                concat({*directory, " holds the node's state or swarm's settings, which say who may do what", no_agent})};
    if (paths.is_cut())
      return {"too much at once to be looked at",
              concat({"This is too much to be looked at, and it may write ", directories.front(), no_agent, ", or do it in smaller parts"})};
    return {};
  };
  const auto kind = kind_of_tool(q.tool());
  const bool is_of_server = tool_name(q.tool()).size() != q.tool().size();
  auto out = found(paths_of(q, place));
  if (!out.rule.empty() || kind == tool_kind::reads || (kind != tool_kind::other && !is_of_server))
    return out;
  path_list texts{q, place, limits::tool_input_texts_max};
  texts.add_texts(json_view::of(q.input()));
  return found(texts);
}

} // namespace swarm::agents
