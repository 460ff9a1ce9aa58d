// Settings of other programs, which install edits in place: refused, or our entries are in, once, and come out again with everything else as it
// was. Input: a byte for the kind; for a host its flags and a piece for each of its files, for a format the place and the text.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "cli/edit/json.hpp"
#include "cli/edit/toml.hpp"
#include "cli/edit/yaml.hpp"
#include "cli/install/hosts.hpp"
#include "gateway/client/failure.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using namespace swarm::cli;
namespace fs = std::filesystem;

namespace {

// -- what is compared ------------------------------------------------------------------

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  return text;
}

/// Leaving out letters of the second gives the first.
bool is_within(const std::string& a, const std::string& b) {
  std::size_t at = 0;
  for (auto c : b)
    at += at < a.size() && a[at] == c;
  return at == a.size();
}

/// Without empty objects and lists: whether one was there before us is not seen in the file.
json pruned(const json& value) {
  if (!value.is_structured())
    return value;
  auto out = value.is_object() ? json::object() : json::array();
  for (const auto& [key, item] : value.items()) {
    auto each = pruned(item);
    if (each.is_structured() && each.empty())
      continue;
    if (value.is_object())
      out[key] = std::move(each);
    else
      out.push_back(std::move(each));
  }
  return out;
}
bool same(const json& a, const json& b) { return nlohmann::json(a) == nlohmann::json(b); }

std::size_t lines_of(const std::string& text) { return 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')); }

/// Calls it; nothing when the file is refused, with a line that it has (it is looked at afterwards: edits may have gone before).
template <class Edit>
auto edited(const std::string& text, const Edit& edit) -> std::optional<decltype(edit())> {
  try {
    return edit();
  } catch (const unreadable& e) {
    SWARM_HOLDS(e.line >= 1 && e.line <= lines_of(text));
    SWARM_HOLDS(std::string{e.what()}.rfind("line ", 0) == 0);
    return std::nullopt;
  }
}

// -- the formats -----------------------------------------------------------------------

/// The same on the value. False where there is no such place.
bool set_in(json& value, const json_text::path& where, const json& what) {
  auto* at = &value;
  bool made = false; // by us, on the way
  for (const auto& key : where) {
    bool number = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (made)
      *at = key == "-" ? json::array() : json::object();
    if (at->is_object() && at->contains(key)) {
      at = &at->at(key);
    } else if (at->is_array() && number && std::stoul(key) < at->size()) {
      at = &at->at(std::stoul(key));
    } else if (at->is_object() && key != "-") {
      at = &(*at)[key];
      made = true;
    } else if (at->is_array() && key == "-") {
      at->push_back(nullptr);
      at = &at->back();
      made = true;
    } else {
      return false;
    }
  }
  *at = what;
  return true;
}

/// The same on the value.
void erase_in(json& value, const json_text::path& where) {
  auto* at = &value;
  for (std::size_t i = 0; i + 1 < where.size(); ++i)
    at = at->is_array() ? &at->at(std::stoul(where[i])) : &at->at(where[i]);
  if (at->is_array())
    at->erase(std::stoul(where.back()));
  else
    at->erase(where.back());
}

void check_json(const json_text::path& where, const json& what, const std::string& text) {
  auto first = edited(text, [&] { return json_text{text}; });
  if (!first)
    return;
  auto t = *first;
  auto old = t.text();
  auto there = t.find(where) != nullptr;
  if (there) {
    auto gone = t;
    gone.erase(where);
    auto wanted = first->value();
    erase_in(wanted, where);
    SWARM_HOLDS(same(gone.value(), wanted));
  }
  auto wanted = first->value();
  auto possible = set_in(wanted, where, what);
  if (!edited(old, [&] { return t.set(where, what), true; })) {
    SWARM_HOLDS(!possible && t.text() == old);
    return;
  }
  SWARM_HOLDS(possible && same(t.value(), wanted));
  SWARM_HOLDS(same(json_text{t.text()}.value(), wanted));
  if (there)
    return;
  SWARM_HOLDS(is_within(without_blanks(old), without_blanks(t.text())));
  if (std::find(where.begin(), where.end(), "-") != where.end())
    return;
  auto once = t.text();
  t.set(where, what);
  SWARM_HOLDS(t.text() == once);
  t.erase(where);
  SWARM_HOLDS(!t.find(where) && same(pruned(t.value()), pruned(first->value())));
  SWARM_HOLDS(where.size() > 1 || without_blanks(t.text()) == without_blanks(old));
}

void check_toml(const toml_path& where, const std::string& value, const std::string& text) {
  const toml_values values{{"command", toml_quoted(value)}, {"args", "[\"mcp\"]"}};
  const std::string comment = "# ours";
  auto without = edited(text, [&] { return toml_without_table(text, where, comment); });
  auto with = edited(text, [&] { return toml_with_table(text, where, values, comment); });
  if (!with)
    return;
  auto command = where;
  command.emplace_back("command");
  SWARM_HOLDS(toml_text_at(*with, command) == value);
  SWARM_HOLDS(toml_with_table(*with, where, values, comment) == *with);
  if (without != text)
    return;
  // It was not there.
  SWARM_HOLDS(is_within(without_blanks(text), without_blanks(*with)));
  auto back = edited(*with, [&] { return toml_without_table(*with, where, comment); });
  SWARM_HOLDS(back && without_blanks(*back) == without_blanks(text));
}

/// Words that stand where keys stand.
std::vector<std::string> keys_in(const std::string& text) {
  std::set<std::string> out;
  for (std::size_t at = 0; at < text.size() && out.size() < 12; at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    auto begin = std::min(text.find_first_not_of(" -", at), text.size());
    auto end = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin), text.size());
    if (end > begin && end < text.size() && text[end] == ':')
      out.insert(text.substr(begin, end - begin));
  }
  return {out.begin(), out.end()};
}

const std::vector<std::string> our_yaml_keys{"mcp_servers", "swarm", "hooks", "pre_tool_call", "plugins", "enabled"};

/// Scalars and lists one or two keys deep that are none of our business.
std::map<yaml_text::path, std::pair<std::optional<std::string>, std::size_t>> foreign(const yaml_text& t, const std::vector<std::string>& keys) {
  std::map<yaml_text::path, std::pair<std::optional<std::string>, std::size_t>> out;
  auto look = [&](const yaml_text::path& where) {
    if (t.has(where))
      out[where] = {t.scalar(where), t.size(where)};
  };
  for (const auto& a : keys) {
    if (std::find(our_yaml_keys.begin(), our_yaml_keys.end(), a) == our_yaml_keys.end())
      look({a});
    for (const auto& b : keys)
      if (std::find(our_yaml_keys.begin(), our_yaml_keys.end(), b) == our_yaml_keys.end())
        look({a, b});
  }
  return out;
}

void check_yaml(const std::string& value, const std::string& text) {
  auto keys = keys_in(text);
  auto t = edited(text, [&] { return yaml_text{text}; });
  if (!t)
    return;
  auto before = foreign(*t, keys);
  auto had = t->has({"mcp_servers", "swarm"});
  bool added = edited(t->text(), [&] {
                 t->add_item({"hooks", "pre_tool_call"}, {"command: " + yaml_quoted(value), "timeout: 10"});
                 if (!had)
                   t->add_key({"mcp_servers"}, "swarm", {"command: " + yaml_quoted(value), "args: [\"mcp\"]"});
                 t->add_item({"plugins", "enabled"}, {"swarm"});
                 return true;
               }).has_value();
  SWARM_HOLDS(yaml_text{t->text()}.text() == t->text());
  if (!added)
    return;
  SWARM_HOLDS(had || t->scalar({"mcp_servers", "swarm", "command"}) == value);
  auto last = t->size({"hooks", "pre_tool_call"});
  SWARM_HOLDS(last > 0 && t->scalar({"hooks", "pre_tool_call", std::to_string(last - 1), "command"}) == value);
  auto plugins = t->size({"plugins", "enabled"});
  SWARM_HOLDS(plugins > 0 && t->scalar({"plugins", "enabled", std::to_string(plugins - 1)}) == "swarm");
  SWARM_HOLDS(foreign(*t, keys) == before);
  auto with = t->text();
  if (!edited(with, [&] { return t->erase({"hooks", "pre_tool_call", std::to_string(last - 1)}), true; }))
    return;
  SWARM_HOLDS(t->size({"hooks", "pre_tool_call"}) == last - 1);
  SWARM_HOLDS(foreign(*t, keys) == before);
}

// -- the hosts -------------------------------------------------------------------------

using files = std::map<fs::path, std::string>;

std::string text_in(const files& all, const fs::path& path) {
  auto i = all.find(path);
  return i == all.end() ? std::string{} : i->second;
}
contents view(const files& all) {
  return [&all](const fs::path& path) { return text_in(all, path); };
}

/// As install does it: each sees what those before it have done.
files put(const install_host& host, files all) {
  for (const auto& s : host.settings)
    all[s.file] = s.put(text_in(all, s.file), view(all));
  return all;
}
/// Each sees what is there.
files take(const install_host& host, const files& all) {
  auto out = all;
  for (const auto& s : host.settings)
    out[s.file] = s.take(text_in(out, s.file), view(all));
  return out;
}

/// Of a file in blocks: the lines that are not ours to write or to take away.
std::vector<std::string> foreign_lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    std::string line{trimmed(std::string_view{text}.substr(at, end - at))};
    if (!line.empty() && std::none_of(our_yaml_keys.begin(), our_yaml_keys.end(), [&](const auto& key) { return line.find(key) != line.npos; }))
      out.push_back(std::move(line));
    at = end + 1;
  }
  return out;
}

bool same_but_for_us(const fs::path& path, const std::string& a, const std::string& b) {
  if (path.extension() == ".yaml")
    return foreign_lines(a) == foreign_lines(b);
  if (path.extension() == ".toml")
    return without_blanks(a) == without_blanks(b);
  return same(pruned(json_text{a}.value()), pruned(json_text{b}.value()));
}

/// What comes with swarmctl, as short as can be.
const fs::path& share() {
  static const fuzz::scratch_directory scratch;
  static const fs::path made = [] {
    for (const auto* file : {"agents/opencode/swarm.js", "agents/hermes/__init__.py", "agents/hermes/plugin.yaml"}) {
      fs::create_directories((scratch.path / file).parent_path());
      std::ofstream{scratch.path / file} << "# swarm-fabric\n";
    }
    return scratch.path;
  }();
  return made;
}

void check_host(const std::string& name, fuzz::input& in) {
  auto flags = in.byte();
  const install_options options{.program = "/opt/my swarm/it's/swarmctl",
                                .share = share(),
                                .fail_closed = (flags & 1) != 0,
                                .enforce = (flags & 2) != 0,
                                .force = (flags & 4) != 0,
                                .skill = false};
  auto host = install_host_of(name, environment{{{"HOME", "/nowhere/h"}, {"PATH", ""}}}, options);
  std::set<fs::path> shared;
  for (const auto& s : host.settings)
    if (!s.ours_alone)
      shared.insert(s.file);
  files before;
  for (const auto& path : shared)
    before[path] = in.piece();
  files after;
  try {
    after = put(host, before);
  } catch (const failure& e) {
    SWARM_HOLDS(!options.force && *e.what());
    return;
  } catch (const unreadable& e) {
    SWARM_HOLDS(std::string{e.what()}.rfind("line ", 0) == 0);
    return;
  }
  SWARM_HOLDS(put(host, after) == after);
  for (const auto& s : host.settings) {
    SWARM_HOLDS(s.what.empty() || state_of(s, text_in(after, s.file), view(after)) == (s.former ? setting_state::absent : setting_state::current));
    if (s.program && s.what != "trust in the hooks")
      SWARM_HOLDS(s.program(text_in(after, s.file)) == options.program);
  }
  // By this a backup is known for what was there before us.
  for (const auto& path : shared) {
    auto text = before[path];
    for (const auto& s : host.settings)
      if (s.file == path)
        text = s.put(text, view(after));
    SWARM_HOLDS(text == after[path]);
  }
  auto gone = take(host, after);
  for (const auto& s : host.settings)
    SWARM_HOLDS(s.what.empty() || state_of(s, text_in(gone, s.file), view(gone)) == setting_state::absent);
  SWARM_HOLDS(take(host, gone) == gone);
  // Putting in and taking out is taking out: of what others wrote nothing is lost. With force another server made way.
  if (options.force)
    return;
  auto without = take(host, before);
  bool fresh = std::all_of(shared.begin(), shared.end(), [&](const auto& path) { return without[path] == before[path]; });
  for (const auto& path : shared) {
    // Codex' trust goes by the places of hooks, which move when there are more of ours than one.
    if (path.extension() != ".toml" || fresh)
      SWARM_HOLDS(same_but_for_us(path, gone[path], without[path]));
    if (without[path] == before[path] && path.extension() != ".yaml")
      SWARM_HOLDS(is_within(without_blanks(before[path]), without_blanks(after[path])));
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  std::vector<std::string> where;
  if (which % 4 == 1 || which % 4 == 2)
    for (auto n = 1 + which / 4 % 3; n > 0; --n)
      where.push_back(to_utf8(in.piece()));
  switch (which % 4) {
    case 0: check_host(install_host_names()[which / 4 % install_host_names().size()], in); break;
    case 1: {
      auto value = domain::parse_json(in.piece());
      check_json(where, value ? json(*value) : json("text"), in.rest());
      break;
    }
    case 2: {
      auto value = to_utf8(in.piece());
      check_toml(where, value, in.rest());
      break;
    }
    default: {
      auto value = to_utf8(in.piece());
      check_yaml(value, in.rest());
    }
  }
  return 0;
}
