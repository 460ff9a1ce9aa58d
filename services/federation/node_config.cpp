#include "services/federation/node_config.hpp"

#include <fstream>

// A malformed file is refused without an assertion, as in actors/base/limits_config.cpp.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "actors/domain/harness.hpp"

namespace swarm {

namespace {

/// The other half is for the labels that describe_host() finds out.
constexpr std::size_t user_labels_max = limits::node_labels_max / 2;

security_failure wrong(std::string text) { return {security_error::malformed, std::move(text)}; }

bool is_ours(std::string_view name) {
  return name == "os" || name == "arch" || name == "cpus" || name == "memory_mib" || name.rfind("harness.", 0) == 0;
}

std::optional<security_failure> take_labels(const toml::table& given, node_config& out) {
  for (const auto& [key, value] : given) {
    std::string name{key.str()};
    auto text = value.value_exact<std::string>();
    if (!text)
      return wrong(concat({"the label ", name, " must be a text: ", name, " = \"...\""}));
    if (is_ours(name))
      return wrong(concat({"the label ", name, " is one that the node finds out itself"}));
    if (name.empty() || name.size() > limits::id_bytes_max || text->size() > limits::id_bytes_max)
      return wrong(concat({"names and values of labels have 1 to ", limits::id_bytes_max, " bytes: ", name.substr(0, limits::id_bytes_max)}));
    out.labels[std::move(name)] = std::move(*text);
  }
  if (out.labels.size() > user_labels_max)
    return wrong(concat({"[labels] has more than ", user_labels_max, " labels"}));
  return std::nullopt;
}

using check = bool (*)(std::string_view);

bool is_accept_harness(std::string_view name) { return name == "*" || domain::is_harness(name); }
bool is_accept_directory(std::string_view path) { return path == "*" || (!path.empty() && path.front() == '/'); }

/// One key below [accept]: accept.TABLE.NAME.
struct list_setting {
  std::string_view table;
  std::string_view name;
  std::vector<std::string>* list;
  check fits;
  std::string_view expected;
};

std::string full_name(const list_setting& s) { return concat({"accept.", s.table, ".", s.name}); }

std::vector<list_setting> accept_settings(domain::accept_policy& p) {
  constexpr std::string_view who = "operator, gateway, session, device or \"*\"";
  constexpr std::string_view harnesses = "exec, shell, names of agents or \"*\"";
  return {{"spawn", "principals", &p.spawn.principals, domain::is_accept_principal, who},
          {"spawn", "harnesses", &p.spawn.harnesses, is_accept_harness, harnesses},
          {"spawn", "session_harnesses", &p.spawn.session_harnesses, is_accept_harness, harnesses},
          {"spawn", "directories", &p.spawn.directories, is_accept_directory, "absolute paths or \"*\""},
          {"terminals", "read", &p.terminals.read, domain::is_accept_principal, who},
          {"terminals", "write", &p.terminals.write, domain::is_accept_principal, who}};
}

std::optional<security_failure> take_list(const list_setting& setting, const toml::node& value) {
  const auto* items = value.as_array();
  if (!items || items->size() > limits::accept_list_max)
    return wrong(concat({full_name(setting), " must be a list of at most ", limits::accept_list_max, " texts"}));
  setting.list->clear();
  for (const auto& item : *items) {
    auto text = item.value_exact<std::string>();
    if (!text || text->size() > limits::path_bytes_max() || !setting.fits(*text))
      return wrong(concat({full_name(setting), " holds ", setting.expected}));
    setting.list->push_back(std::move(*text));
  }
  return std::nullopt;
}

std::optional<security_failure> take_accept(const toml::table& given, domain::accept_policy& out) {
  const auto known = accept_settings(out);
  for (const auto& [table, node] : given) {
    if (std::none_of(known.begin(), known.end(), [name = table.str()](const auto& k) { return k.table == name; }))
      return wrong(concat({"unknown table [accept.", table.str(), "]; there are [accept.spawn] and [accept.terminals]"}));
    const auto* keys = node.as_table();
    if (!keys)
      return wrong(concat({"accept.", table.str(), " must be a table"}));
    for (const auto& [key, value] : *keys) {
      auto setting =
        std::find_if(known.begin(), known.end(), [t = table.str(), k = key.str()](const auto& s) { return s.table == t && s.name == k; });
      if (setting == known.end())
        return wrong(concat({"unknown key \"", key.str(), "\" in [accept.", table.str(), "]"}));
      if (auto failed = take_list(*setting, value))
        return failed;
    }
  }
  return std::nullopt;
}

std::optional<security_failure> take_identity(const toml::table& given, node_config& out) {
  for (const auto& [key, value] : given) {
    if (key.str() != "boundary")
      return wrong(concat({"unknown key \"", key.str(), "\" in [identity]; there is boundary"}));
    auto on = value.value_exact<bool>();
    if (!on)
      return wrong("identity.boundary must be true or false");
    out.identity_boundary = *on;
  }
  return std::nullopt;
}

} // namespace

std::vector<std::string> accept_keys() {
  domain::accept_policy any;
  std::vector<std::string> out;
  for (const auto& setting : accept_settings(any))
    out.push_back(full_name(setting));
  return out;
}

security_result<node_config> parse_node_config(std::string text) {
  if (auto objection = make_fit_for_toml(text))
    return wrong(objection->line == 0 ? objection->text : concat({"line ", objection->line, ": ", objection->text}));
  node_config out;
  try {
    const auto file = toml::parse(text);
    if (const auto* labels = file["labels"].as_table())
      if (auto failed = take_labels(*labels, out))
        return *failed;
    if (const auto* accept = file["accept"].as_table())
      if (auto failed = take_accept(*accept, out.accept))
        return *failed;
    if (const auto* identity = file["identity"].as_table())
      if (auto failed = take_identity(*identity, out))
        return *failed;
  } catch (const toml::parse_error& e) {
    return wrong(concat({"line ", e.source().begin.line, ": ", e.description()}));
  }
  return out;
}

security_result<node_config> read_node_config(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable) && !unreadable)
    return node_config{};
  std::string text(limits::configuration_bytes_max, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    return wrong(file.string() + ": cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  auto read = parse_node_config(std::move(text));
  if (!read)
    return wrong(file.string() + ": " + read.failure().text);
  return read;
}

} // namespace swarm
