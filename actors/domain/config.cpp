#include "actors/domain/config.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "actors/base/limits.hpp"
#include "actors/base/limits_config.hpp"
#include "actors/base/nearest.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/terminal_config.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"

namespace swarm::domain {

namespace {

constexpr const char* at_start = "start of the node";
/// The other half is for the labels that describe_host() finds out.
constexpr std::size_t user_labels_max = limits::node_labels_max / 2;

std::string shown(std::string_view text) { return escape_control(utf8_prefix(text, limits::id_bytes_max), false); }

// -- [labels] --------------------------------------------------------------------------

bool is_ours(std::string_view name) {
  return name == "os" || name == "arch" || name == "cpus" || name == "memory_mib" || name.starts_with("harness.");
}

std::string objection_to_label(std::string_view name) {
  if (is_ours(name))
    return concat({"the label ", shown(name), " is one that the node finds out itself"});
  if (name.empty() || name.size() > limits::id_bytes_max)
    return concat({"names of labels have 1 to ", limits::id_bytes_max, " bytes"});
  return {};
}

std::string objection_to_label_value(std::string_view text) {
  return text.size() <= limits::id_bytes_max ? std::string{} : concat({" has more than ", limits::id_bytes_max, " bytes"});
}

/// More names in a section than may be.
config_rule at_most(const char* section, std::size_t count, const char* things) {
  return [=](config_document& d) {
    const auto is_here = [&](const config_entry& e) { return e.key->section == section; };
    if (static_cast<std::size_t>(std::count_if(d.entries.begin(), d.entries.end(), is_here)) <= count)
      return;
    std::size_t line = 0;
    for (const auto& e : d.entries)
      line = is_here(e) ? std::max(line, e.line) : line;
    d.faults.push_back({line, section, concat({"[", section, "] has more than ", count, " ", things})});
  };
}

config_key label_key() {
  return {.section = "labels",
          .name = "*",
          .kind = config_kind::text,
          .reader = "node",
          .effect = at_start,
          .help = "what `dispatch --where NAME=VALUE` finds this node by",
          .objection = objection_to_label_value,
          .objection_to_name = objection_to_label};
}

// -- [accept] --------------------------------------------------------------------------

bool is_accept_harness(std::string_view name) { return name == "*" || is_harness(name); }
bool is_accept_directory(std::string_view path) { return path == "*" || (!path.empty() && path.front() == '/'); }

using lists = std::vector<std::string>;

/// One key below [accept]: accept.TABLE.NAME.
struct list_setting {
  const char* table;
  const char* name;
  lists& (*in)(accept_policy&);
  bool (*fits)(std::string_view);
  const char* expected;
  const char* help;
};

constexpr const char* principals = "operator, gateway, session, device or \"*\"";
constexpr const char* harnesses = "exec, shell, names of agents or \"*\"";

constexpr list_setting accept_settings[] = {
  {"spawn", "principals", [](accept_policy& p) -> lists& { return p.spawn.principals; }, is_accept_principal, principals,
   "who of other hosts may start programs here: `operator` (their people), `gateway`, `session` (their agents), `device`, `*`"},
  {"spawn", "harnesses", [](accept_policy& p) -> lists& { return p.spawn.harnesses; }, is_accept_harness, harnesses,
   "what they may start: `exec`, `shell`, `claude`, `codex`, `opencode`, `gemini`, `hermes`, `*`"},
  {"spawn", "session_harnesses", [](accept_policy& p) -> lists& { return p.spawn.session_harnesses; }, is_accept_harness, harnesses,
   "what their agents may start, if `principals` lists `session`; `exec` and `shell` only when they are listed"},
  {"spawn", "directories", [](accept_policy& p) -> lists& { return p.spawn.directories; }, is_accept_directory, "absolute paths or \"*\"",
   "absolute directories; programs may start there and in what lies below, `*`"},
  {"terminals", "read", [](accept_policy& p) -> lists& { return p.terminals.read; }, is_accept_principal, principals,
   "who of other hosts may look at terminals of this one"},
  {"terminals", "write", [](accept_policy& p) -> lists& { return p.terminals.write; }, is_accept_principal, principals,
   "who of other hosts may type into them; for anybody else, `pty attach` ends at the first key"},
};

config_key accept_key(const list_setting& s) {
  accept_policy defaults;
  return {.section = concat({"accept.", s.table}),
          .name = s.name,
          .kind = config_kind::texts,
          .fallback = config_text(s.in(defaults)),
          .reader = "node",
          .effect = at_start,
          .help = s.help,
          .count_max = limits::accept_list_max,
          .objection = [&s](std::string_view text) {
            return text.size() <= limits::path_bytes_max() && s.fits(text) ? std::string{} : concat({" holds ", s.expected});
          }};
}

// -- [agents.NAME.environment] -----------------------------------------------------------

std::string objection_to_variable(std::string_view name) {
  const bool is_word = !name.empty() && name.size() <= limits::id_bytes_max && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                       std::all_of(name.begin(), name.end(), [](unsigned char c) { return c == '_' || (c < 0x80 && std::isalnum(c) != 0); });
  if (!is_word)
    return concat({"a variable is named by letters, digits and _, the first no digit, not \"", shown(name), "\""});
  if (name.starts_with("SWARM_"))
    return concat({"the node sets the variables SWARM_* of a worker itself, ", name, " too"});
  return {};
}

std::string objection_to_variable_value(std::string_view text) {
  if (text.find('\0') != text.npos)
    return " holds a zero byte, which no variable can hold";
  if (text.starts_with(secret_prefix)) {
    auto why = objection_to_secret_name(text.substr(secret_prefix.size()));
    return why.empty() ? why : concat({" names no secret: ", why});
  }
  if (text.starts_with(path_prefix) && !text.substr(path_prefix.size()).starts_with('/'))
    return " must name an absolute file: path:/FILE";
  return {};
}

config_key environment_key(std::string_view agent) {
  return {.section = concat({"agents.", agent, ".environment"}),
          .name = "*",
          .kind = config_kind::text,
          .reader = "node",
          .effect = at_start,
          .help = concat({"a variable for each ", agent, " that this node starts: a text, `path:/FILE` or `secret:NAME`"}),
          .objection = objection_to_variable_value,
          .objection_to_name = objection_to_variable,
          .may_be_secret = true};
}

config_registry make_whole() {
  config_registry out;
  out.whole = true;
  for (const auto* part : {&limits_registry(), &terminal_registry()}) {
    out.keys.insert(out.keys.end(), part->keys.begin(), part->keys.end());
    out.rules.insert(out.rules.end(), part->rules.begin(), part->rules.end());
  }
  out.keys.push_back(label_key());
  out.rules.push_back(at_most("labels", user_labels_max, "labels"));
  for (const auto& s : accept_settings)
    out.keys.push_back(accept_key(s));
  out.keys.push_back({.section = "identity",
                      .name = "boundary",
                      .kind = config_kind::boolean,
                      .fallback = "false",
                      .reader = "node",
                      .effect = at_start,
                      .help = "`true`: a session without an `identity:` label may not lock files in the working tree of a session that has one, nor "
                              "the other way round"});
  out.keys.push_back({.section = "workers",
                      .name = "structured",
                      .kind = config_kind::boolean,
                      .fallback = "false",
                      .reader = "node",
                      .effect = at_start,
                      .help = "`true`: `dispatch` starts its agent in a conversation, as with `--structured`, where the agent has a driver; "
                              "`--terminal` asks for a terminal"});
  for (auto agent : agents)
    out.keys.push_back(environment_key(agent));
  return out;
}

constexpr std::string_view agents_section = "agents.";

} // namespace

const config_registry& whole_config() {
  static const auto registry = make_whole();
  return registry;
}

node_config node_config_of(const config_document& document) {
  node_config out;
  for (const auto& s : accept_settings)
    document.take(concat({"accept.", s.table}), s.name, s.in(out.accept));
  document.take("identity", "boundary", out.identity_boundary);
  document.take("workers", "structured", out.structured_workers);
  for (const auto& e : document.entries) {
    const std::string_view section = e.key->section;
    if (section == "labels")
      out.labels[e.name] = std::get<std::string>(e.value);
    else if (section.starts_with(agents_section))
      out.agent_environment[std::string{section.substr(agents_section.size(), section.rfind('.') - agents_section.size())}][e.name] =
        std::get<std::string>(e.value);
  }
  return out;
}

std::vector<secret_use> secrets_used(const config_document& document) {
  std::vector<secret_use> out;
  for (const auto& e : document.entries)
    if (const auto* text = std::get_if<std::string>(&e.value); text && e.key->may_be_secret && text->starts_with(secret_prefix))
      out.push_back({text->substr(secret_prefix.size()), concat({e.key->section, ".", e.name}), e.line});
  return out;
}

void check_secrets(config_document& document, const std::function<bool(std::string_view)>& is_set) {
  for (const auto& used : secrets_used(document))
    if (!is_set(used.name))
      document.faults.push_back(
        {used.line, used.setting,
         concat({used.setting, " names the secret ", used.name, ", which is not set; set it with: swarmctl secret set ", used.name})});
  std::sort(document.faults.begin(), document.faults.end(),
            [](const auto& a, const auto& b) { return std::tie(a.line, a.name) < std::tie(b.line, b.name); });
}

} // namespace swarm::domain
