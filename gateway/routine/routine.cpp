#include "gateway/routine/routine.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

// toml++ 3.3 asserts what a malformed file can break and refuses it a few lines below: without assertions every build answers as the
// release does.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::routines {

namespace {

constexpr std::size_t shown_bytes_max = 80;

std::string in_quotes(std::string_view text) {
  auto shown = utf8_prefix(text, shown_bytes_max);
  return "\"" + escape_control(shown, false) + (shown.size() < text.size() ? "…" : "") + "\"";
}

template <class List>
std::string listed(const List& items) {
  std::string out;
  for (const auto& item : items)
    out += (out.empty() ? "" : ", ") + escape_control(item, false);
  return out;
}

/// One to a bound's bytes; what says how long it may be.
std::string length_of(std::size_t bytes) {
  return bytes % limits::kib == 0 ? std::to_string(bytes / limits::kib) + " KiB" : std::to_string(bytes) + " bytes";
}

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_parameter_name(std::string_view name) { return is_plain_name(name) && is_name_start(name.front()); }

/// Printed as one or several lines, it does what it looks like.
bool is_clean(std::string_view text, bool lines) {
  return is_utf8(text) && std::none_of(text.begin(), text.end(), [&](char c) {
           auto u = static_cast<unsigned char>(c);
           return u == 0x7f || (u < 0x20 && !(lines && (c == '\n' || c == '\t')));
         });
}

// -- placeholders ----------------------------------------------------------------------

/// A piece of a text: as it is, or the name between ${ and }. One that is not closed has `broken`.
struct piece {
  std::string_view text;
  bool placeholder = false;
  bool broken = false;
};

std::vector<piece> pieces_of(std::string_view text) {
  std::vector<piece> out;
  std::size_t at = 0;
  auto plain = [&](std::size_t end) {
    if (end > at)
      out.push_back({text.substr(at, end - at)});
    at = end;
  };
  for (auto open = text.find("${"); open != text.npos; open = text.find("${", at)) {
    if (open > at && text[open - 1] == '$') {
      // The dollar before goes.
      plain(open - 1);
      at = open;
      plain(open + 2);
      continue;
    }
    plain(open);
    auto close = text.find_first_of("}\n", open);
    if (close == text.npos || text[close] != '}') {
      out.push_back({text.substr(open, 2), false, true});
      at = open + 2;
      continue;
    }
    out.push_back({text.substr(open + 2, close - open - 2), true});
    at = close + 1;
  }
  plain(text.size());
  return out;
}

// -- reading a file ------------------------------------------------------------------------

class file_reader {
public:
  explicit file_reader(std::string_view name) : name_(name) {}

  reading read(const toml::table& file) {
    only(file, {"name", "summary", "parameters", "step"}, "a routine");
    read_head(file);
    if (const auto* node = file.get("parameters"))
      read_parameters(*node);
    if (const auto* node = file.get("step"))
      read_steps(*node);
    else
      wrong(0, "there are no steps; write at least one [[step]] with id and title");
    check_needs();
    check_placeholders();
    return std::move(out_);
  }

private:
  void wrong(std::size_t line, std::string text) {
    if (out_.problems.size() < limits::routine_problems_max)
      out_.problems.push_back({line, std::move(text)});
  }

  static std::size_t line_of(const toml::node& node) { return node.source().begin.line; }

  /// What a key that others have, but routines do not, asks for.
  static std::string_view why_not(std::string_view key) {
    for (auto other : {"host", "hosts", "env", "environment", "command", "argv", "exec", "run", "shell"})
      if (key == other)
        return ": a routine is work for agents and names no hosts, environment or commands";
    return {};
  }

  void only(const toml::table& table, const std::vector<std::string_view>& known, const std::string& what) {
    for (const auto& [key, value] : table)
      if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
        auto why = why_not(key.str());
        wrong(key.source().begin.line,
              "unknown key " + in_quotes(key.str()) + (why.empty() ? "; " + what + " has " + listed(known) : std::string{why}));
      }
  }

  struct text_rule {
    std::size_t bytes_max;
    bool lines = false;
    bool required = false;
  };

  std::string text(const toml::table& table, const char* key, const text_rule& rule, std::size_t line, const std::string& what) {
    const auto* node = table.get(key);
    if (!node) {
      if (rule.required)
        wrong(line, what + " needs " + key);
      return {};
    }
    return text(*node, key, rule);
  }

  std::string text(const toml::node& node, const std::string& key, const text_rule& rule) {
    auto value = node.value_exact<std::string>();
    if (!value)
      wrong(line_of(node), key + " must be a text in quotes");
    else if (rule.required && trimmed(*value).empty())
      wrong(line_of(node), key + " must not be empty");
    else if (value->size() > rule.bytes_max)
      wrong(line_of(node), key + " is longer than " + length_of(rule.bytes_max));
    else if (!is_clean(*value, rule.lines))
      wrong(line_of(node), key + " holds control characters" + (rule.lines ? "" : " or more than one line"));
    else
      return std::move(*value);
    return {};
  }

  bool flag(const toml::table& table, const char* key) {
    const auto* node = table.get(key);
    if (!node)
      return false;
    auto value = node->value_exact<bool>();
    if (!value)
      wrong(line_of(*node), std::string{key} + " must be true or false");
    return value.value_or(false);
  }

  std::vector<std::string> texts(const toml::table& table, const char* key, std::size_t count_max, const text_rule& rule) {
    std::vector<std::string> out;
    const auto* node = table.get(key);
    if (!node)
      return out;
    const auto* list = node->as_array();
    if (!list) {
      wrong(line_of(*node), std::string{key} + " must be a list of texts: [\"…\", \"…\"]");
      return out;
    }
    if (list->size() > count_max) {
      wrong(line_of(*node), std::string{key} + " has more than " + std::to_string(count_max) + " entries");
      return out;
    }
    for (const auto& entry : *list)
      out.push_back(text(entry, std::string{"each of "} + key, rule));
    return out;
  }

  void read_head(const toml::table& file) {
    out_.value.name = text(file, "name", {limits::id_bytes_max, false, true}, 0, "a routine");
    if (const auto* node = file.get("name"); node && !out_.value.name.empty() && out_.value.name != name_)
      wrong(line_of(*node), "name is " + in_quotes(out_.value.name) + ", but the file is called " + in_quotes(std::string{name_} + ".toml") +
                              "; both must be the same");
    out_.value.name = name_;
    out_.value.summary = text(file, "summary", {limits::title_bytes_max(), false, true}, 0, "a routine");
  }

  void read_parameters(const toml::node& node) {
    const auto* table = node.as_table();
    if (!table)
      return wrong(line_of(node), "parameters must be tables: [parameters.NAME]");
    if (table->size() > limits::routine_parameters_max)
      return wrong(line_of(node), "there are more than " + std::to_string(limits::routine_parameters_max) + " parameters");
    for (const auto& [key, value] : *table)
      read_parameter(std::string{key.str()}, key.source().begin.line, value);
    // The table has them by name.
    for (auto& [line, parameter] : lines_)
      out_.value.parameters.push_back(std::move(parameter));
  }

  void read_parameter(const std::string& name, std::size_t line, const toml::node& node) {
    const auto* table = node.as_table();
    if (!is_parameter_name(name))
      return wrong(line, "the parameter " + in_quotes(name) + " needs a name of letters, digits, - and _ that begins with a letter");
    if (!table)
      return wrong(line, "the parameter " + name + " must be a table: [parameters." + name + "]");
    only(*table, {"description", "default", "required", "choices"}, "a parameter");
    parameter p;
    p.name = name;
    p.description = text(*table, "description", {limits::title_bytes_max()}, line, {});
    const text_rule value_rule{limits::note_bytes_max(), true};
    if (const auto* given = table->get("default"))
      p.value = text(*given, "default", value_rule);
    p.required = flag(*table, "required");
    p.choices = texts(*table, "choices", limits::routine_parameters_max, value_rule);
    if (p.required && p.value)
      wrong(line, "the parameter " + name + " has a default, so it cannot be required; leave one of them out");
    if (!p.choices.empty() && !p.required && std::find(p.choices.begin(), p.choices.end(), p.value.value_or("")) == p.choices.end())
      wrong(line, "the default of " + name + " must be one of its choices: " + listed(p.choices));
    lines_.emplace(line, std::move(p));
  }

  void read_steps(const toml::node& node) {
    const auto* list = node.as_array();
    if (!list || list->empty() || !std::all_of(list->begin(), list->end(), [](const auto& s) { return s.is_table(); }))
      return wrong(line_of(node), "steps must be written as [[step]], one below the other");
    // One more is the run's summary.
    if (list->size() + 1 > limits::batch_tasks_max())
      return wrong(line_of(node), "there are " + std::to_string(list->size()) + " steps; at most " + std::to_string(limits::batch_tasks_max() - 1) +
                                    " are possible");
    std::map<std::string, std::size_t> lines;
    for (const auto& one : *list) {
      auto s = read_step(*one.as_table());
      if (auto [at, added] = lines.emplace(s.id, s.line); !added && !s.id.empty())
        wrong(s.line, "the step " + in_quotes(s.id) + " is there twice, before in line " + std::to_string(at->second) + "; give it another id");
      out_.value.steps.push_back(std::move(s));
    }
  }

  step read_step(const toml::table& table) {
    step s;
    s.line = line_of(table);
    only(table, {"id", "title", "description", "role", "type", "files", "needs", "approval", "priority", "harness"}, "a step");
    const text_rule word{limits::id_bytes_max};
    s.id = text(table, "id", {limits::id_bytes_max, false, true}, s.line, "a step");
    if (!s.id.empty() && !is_plain_name(s.id))
      wrong(s.line, "the id " + in_quotes(s.id) + " may have letters, digits, - and _ only");
    s.title = text(table, "title", {limits::title_bytes_max(), false, true}, s.line, "a step");
    s.description = text(table, "description", {limits::description_bytes_max(), true}, s.line, {});
    s.role = text(table, "role", word, s.line, {});
    if (!s.role.empty() && !is_plain_name(s.role))
      wrong(s.line, "the role " + in_quotes(s.role) + " may have letters, digits, - and _ only");
    s.type = text(table, "type", word, s.line, {});
    if (!s.type.empty() && !domain::valid_task_type(s.type))
      wrong(s.line, "the type " + in_quotes(s.type) + " is unknown; there is " + domain::task_types_text);
    s.files = texts(table, "files", limits::task_files_max(), {limits::path_bytes_max(), false, true});
    s.needs = texts(table, "needs", limits::task_dependencies_max(), {limits::id_bytes_max, false, true});
    s.approval = flag(table, "approval");
    if (const auto* node = table.get("priority")) {
      auto value = node->value_exact<std::int64_t>();
      if (!value)
        wrong(line_of(*node), "priority must be a whole number");
      s.priority = value.value_or(0);
    }
    s.harness = text(table, "harness", word, s.line, {});
    // Others would be programs of the file's choice, or names that mean something else to everybody.
    if (!s.harness.empty() && !domain::is_agent(s.harness))
      wrong(line_of(*table.get("harness")), "the harness " + in_quotes(s.harness) + " is no agent; there is " + listed(domain::agents));
    return s;
  }

  void check_needs() {
    const auto& steps = out_.value.steps;
    std::set<std::string_view> ids;
    for (const auto& s : steps)
      ids.insert(s.id);
    bool known = true;
    for (const auto& s : steps)
      for (const auto& need : s.needs)
        if (ids.count(need) == 0) {
          known = false;
          wrong(s.line, "the step " + s.id + " needs " + in_quotes(need) + ", which is no step of this routine");
        }
    if (known && ids.size() == steps.size() && in_order(steps).size() < steps.size())
      wrong(steps[cycle().front()].line, "the steps need each other: " + cycle_text());
  }

  /// A way along `needs` that ends where it began, without its end.
  std::vector<std::size_t> cycle() const {
    const auto& steps = out_.value.steps;
    std::set<std::size_t> free;
    for (auto i : in_order(steps))
      free.insert(i);
    std::size_t at = 0;
    while (free.count(at) > 0)
      ++at;
    // Each that is not free needs another one that is not: the way comes round.
    std::vector<std::size_t> way;
    for (auto seen = way.end();;) {
      way.push_back(at);
      for (const auto& need : steps[at].needs) {
        auto next = static_cast<std::size_t>(std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.id == need; }) - steps.begin());
        if (free.count(next) == 0) {
          at = next;
          break;
        }
      }
      seen = std::find(way.begin(), way.end(), at);
      if (seen != way.end())
        return {seen, way.end()};
    }
  }

  std::string cycle_text() const {
    std::string out;
    auto way = cycle();
    for (auto i : way)
      out += out_.value.steps[i].id + " needs ";
    return out + out_.value.steps[way.front()].id;
  }

  void check_placeholders() {
    std::set<std::string_view> names;
    for (const auto& p : out_.value.parameters)
      names.insert(p.name);
    for (const auto& s : out_.value.steps) {
      check_placeholders(s.title, "the title", s, names);
      check_placeholders(s.description, "the description", s, names);
      for (const auto& file : s.files)
        check_placeholders(file, "a file", s, names);
    }
  }

  void check_placeholders(std::string_view value, const char* where, const step& s, const std::set<std::string_view>& names) {
    for (const auto& p : pieces_of(value)) {
      if (p.broken)
        wrong(s.line, std::string{where} + " of " + s.id + " has ${ without }; write $${ for the characters themselves");
      else if (p.placeholder && names.count(p.text) == 0)
        wrong(s.line, std::string{where} + " of " + s.id + " names " + in_quotes(p.text) +
                        ", which is no parameter; write [parameters.…] for it, or $${ for the characters themselves");
    }
  }

  std::string_view name_;
  std::multimap<std::size_t, parameter> lines_;
  reading out_;
};

} // namespace

const char* to_text(origin from) noexcept {
  switch (from) {
    case origin::repository: return "repository";
    case origin::user: return "user";
    default: return "shipped";
  }
}

reading parse(std::string_view text, std::string_view name) {
  reading out;
  out.value.name = name;
  if (text.size() > limits::routine_bytes_max) {
    out.problems.push_back({0, "the file is larger than " + length_of(limits::routine_bytes_max)});
    return out;
  }
  std::string ours{text};
  if (auto wrong = make_fit_for_toml(ours)) {
    out.problems.push_back({wrong->line, std::move(wrong->text)});
    return out;
  }
  try {
    return file_reader{name}.read(toml::parse(ours));
  } catch (const toml::parse_error& e) {
    out.problems.push_back({e.source().begin.line, escape_control(utf8_prefix(e.description(), limits::title_bytes_max()), false)});
  }
  return out;
}

std::vector<std::size_t> in_order(const std::vector<step>& steps) {
  std::vector<std::size_t> out;
  std::set<std::string_view> there;
  std::vector<bool> taken(steps.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < steps.size() && !more; ++i) {
      if (taken[i] || !std::all_of(steps[i].needs.begin(), steps[i].needs.end(), [&](const auto& need) { return there.count(need) > 0; }))
        continue;
      // From the start again: what this one held up may stand before it.
      taken[i] = more = true;
      there.insert(steps[i].id);
      out.push_back(i);
    }
  }
  return out;
}

values settle(const routine& r, const values& given, std::vector<problem>& problems) {
  values out;
  auto wrong = [&](std::string text) { problems.push_back({0, std::move(text)}); };
  for (const auto& [name, value] : given)
    if (std::none_of(r.parameters.begin(), r.parameters.end(), [&, n = std::string_view{name}](const auto& p) { return p.name == n; })) {
      std::vector<std::string> names;
      for (const auto& p : r.parameters)
        names.push_back(p.name);
      wrong("the routine has no parameter " + in_quotes(name) + (names.empty() ? "; it has none at all" : "; it has " + listed(names)));
    }
  for (const auto& p : r.parameters) {
    auto i = given.find(p.name);
    if (p.required && (i == given.end() || trimmed(i->second).empty()))
      wrong("the parameter " + p.name + " is required" + (p.description.empty() ? "" : ": " + p.description));
    auto value = i != given.end() ? i->second : p.value.value_or("");
    if (value.size() > limits::note_bytes_max())
      wrong("the parameter " + p.name + " is longer than " + length_of(limits::note_bytes_max()));
    else if (!is_clean(value, true))
      wrong("the parameter " + p.name + " holds control characters");
    else if (i != given.end() && !p.choices.empty() && std::find(p.choices.begin(), p.choices.end(), value) == p.choices.end())
      wrong("the parameter " + p.name + " must be one of: " + listed(p.choices));
    else
      out.emplace(p.name, std::move(value));
  }
  return out;
}

std::string filled_in(std::string_view text, const values& with) {
  std::string out;
  for (const auto& p : pieces_of(text)) {
    auto i = p.placeholder ? with.find(p.text) : with.end();
    if (i != with.end())
      out += i->second;
    else if (p.placeholder)
      out.append("${").append(p.text).append("}");
    else
      out += p.text;
  }
  return out;
}

namespace {

void fill_in(step& s, origin from, const values& with, const std::string& root, std::vector<problem>& problems) {
  auto wrong = [&](const std::string& text) { problems.push_back({s.line, "the step " + s.id + ": " + text}); };
  s.title = trimmed(filled_in(s.title, with));
  if (s.title.empty())
    wrong("with these parameters it has no title");
  if (s.title.size() > limits::title_bytes_max())
    wrong("with these parameters its title is longer than " + length_of(limits::title_bytes_max()));
  if (!is_clean(s.title, false))
    wrong("with these parameters its title has more than one line");
  s.description = filled_in(s.description, with);
  if (s.description.size() > limits::description_bytes_max())
    wrong("with these parameters its description is longer than " + length_of(limits::description_bytes_max()));
  std::vector<std::string> files;
  for (const auto& written : s.files) {
    auto file = filled_in(written, with);
    // A file whose name is a parameter that was left empty.
    if (trimmed(file).empty())
      continue;
    auto path = normalize_path(file, root);
    if (!is_clean(file, false))
      wrong("the name of the file " + in_quotes(file) + " has more than one line");
    else if (path.size() > limits::path_bytes_max())
      wrong("the name of a file is longer than " + length_of(limits::path_bytes_max()));
    else if (from == origin::repository && !is_inside(root, path))
      wrong("the file " + in_quotes(file) + " lies outside of the repository");
    else
      files.push_back(std::move(path));
  }
  s.files = std::move(files);
}

} // namespace

std::vector<planned_step> plan(const routine& r, origin from, const values& with, const std::string& root, std::vector<problem>& problems) {
  std::vector<planned_step> out;
  std::map<std::string, std::size_t> place;
  for (auto i : in_order(r.steps)) {
    planned_step p{r.steps[i], {}};
    for (const auto& need : p.what.needs)
      if (auto at = place.find(need)->second; std::find(p.needs.begin(), p.needs.end(), at) == p.needs.end())
        p.needs.push_back(at);
    fill_in(p.what, from, with, root, problems);
    place.emplace(p.what.id, out.size());
    out.push_back(std::move(p));
  }
  return out;
}

} // namespace swarm::routines
