// config check|show|edit: the node's config.toml.
#include <algorithm>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/confirmation.hpp"
#include "cli/verbs/pager.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* first_lines = "# What can be set here: swarmctl config show, and docs/configuration.md\n";

bool is_secret_set(const invocation& cli, std::string_view name) { return secret_store{secrets_directory(cli.config_file.parent_path())}.has(name); }

// -- check -------------------------------------------------------------------------------

void tell_faults(const invocation& cli, const config_document& document, const std::string& file) {
  for (const auto& fault : document.faults)
    cli.io().error(fault.told(file));
}

int run_check(invocation& cli, const std::string& given) {
  const fs::path file = given.empty() ? cli.config_file : fs::path{normalize_path(given, cli.directory())};
  auto document = read_config(file, domain::whole_config());
  if (!document.exists && !given.empty())
    document.faults.push_back({0, "", "there is no such file"});
  domain::check_secrets(document, [&](std::string_view name) { return is_secret_set(cli, name); });
  const bool ok = document.faults.empty();
  if (cli.json_wanted()) {
    auto faults = json::array();
    for (const auto& f : document.faults)
      faults.push_back({{"line", f.line == 0 ? json{} : json(f.line)}, {"setting", mcp::text_or_null(f.name)}, {"text", f.text}});
    cli.io().print({{"ok", ok}, {"file", file.string()}, {"exists", document.exists}, {"faults", faults}});
    return ok ? code::ok : code::refused;
  }
  tell_faults(cli, document, file.string());
  if (ok)
    cli.io().line(file.string() + (document.exists ? ": nothing is wrong" : ": there is no such file, and the defaults hold"));
  return ok ? code::ok : code::refused;
}

// -- show --------------------------------------------------------------------------------

/// One setting: as the file has it, or as it is without.
struct shown_setting {
  const config_key* key;
  std::string name;
  const config_entry* entry; // null = the default
};

std::vector<shown_setting> settings_of(const config_document& document) {
  std::vector<shown_setting> out;
  for (const auto& key : domain::whole_config().keys) {
    if (key.name != "*") {
      out.push_back({&key, key.name, document.find(key.section, key.name)});
      continue;
    }
    for (const auto& e : document.entries)
      if (e.key == &key)
        out.push_back({&key, e.name, &e});
  }
  return out;
}

/// A variable may hold a key that somebody wrote into the file itself.
bool is_hidden(const shown_setting& s) {
  if (!s.entry || !s.key->may_be_secret)
    return false;
  const auto& text = std::get<std::string>(s.entry->value);
  return !text.starts_with(secret_prefix) && !text.starts_with(domain::path_prefix);
}

std::string value_text(const shown_setting& s) { return is_hidden(s) ? "(a value)" : s.entry ? config_text(s.entry->value) : s.key->fallback; }

std::string source_text(const shown_setting& s) { return s.entry ? concat({"line ", s.entry->line}) : std::string{"default"}; }

/// Every value is JSON as it is TOML: numbers, true and false, texts and lists of texts.
json value_json(const std::string& text) { return text.empty() ? json{} : json::parse(text); }

json row_of(const shown_setting& s) {
  const bool number = s.key->kind == config_kind::number;
  return {{"section", s.key->section},
          {"key", s.name},
          {"value", is_hidden(s) ? json{} : value_json(value_text(s))},
          {"hidden", is_hidden(s)},
          {"default", value_json(s.key->fallback)},
          {"source", s.entry ? "file" : "default"},
          {"line", s.entry ? json(s.entry->line) : json{}},
          {"type", config_kind_text(*s.key)},
          {"lowest", number ? json(s.key->lowest) : json{}},
          {"highest", number ? json(s.key->highest) : json{}},
          {"reader", s.key->reader},
          {"effect", s.key->effect},
          {"help", s.key->help}};
}

bool is_meant(const shown_setting& s, const std::string& wanted) {
  const auto full = s.key->section + '.' + s.name;
  return wanted.empty() || full == wanted || full.starts_with(wanted + '.');
}

void show_section(const invocation& cli, const std::string& section, const std::vector<shown_setting>& all, const std::string& wanted) {
  std::vector<std::vector<std::string>> rows;
  std::vector<colour> colours;
  std::size_t left_out = 0;
  for (const auto& s : all) {
    if (s.key->section != section || !is_meant(s, wanted))
      continue;
    // There are many limits, and few are set.
    if (wanted.empty() && !s.entry && section == "limits") {
      ++left_out;
      continue;
    }
    const auto range = s.key->kind == config_kind::number ? concat({s.key->unit, ", ", s.key->lowest, " to ", s.key->highest}) : std::string{};
    rows.push_back({s.name, value_text(s), source_text(s), range});
    colours.push_back(s.entry ? colour::green : colour::dim);
  }
  if (rows.empty() && left_out == 0)
    return;
  auto& io = cli.io();
  if (rows.empty())
    io.painted_line("  " + io.paint(colour::bold, "[" + section + "]"));
  else
    io.painted_line(table(io, {"[" + section + "]", "", "", ""}, rows, 2, colours));
  if (left_out > 0)
    io.line(concat({"  (", left_out, " are at their defaults; all of them: swarmctl config show limits)"}));
}

void show_help(const invocation& cli, const config_key& key) {
  cli.io().line("  " + key.help);
  cli.io().line(concat({"  type: ", config_kind_text(key), "; read by: ", key.reader, "; takes effect: ", key.effect}));
}

int run_show(invocation& cli, const std::string& wanted) {
  const auto document = read_config(cli.config_file, domain::whole_config());
  if (!document.faults.empty()) {
    if (!cli.json_wanted())
      tell_faults(cli, document, cli.config_file.string());
    throw failure(code::refused, "the file is wrong, and a node would not start with it; mend it with: swarmctl config edit");
  }
  auto all = settings_of(document);
  std::erase_if(all, [&](const shown_setting& s) { return !is_meant(s, wanted); });
  const auto sections = domain::whole_config().sections();
  const bool known = std::any_of(sections.begin(), sections.end(), [&](const auto& s) { return s == wanted || s.starts_with(wanted + '.'); });
  if (!wanted.empty() && all.empty() && !known)
    throw failure(code::refused, "there is no section and no key \"" + wanted + "\"; all of them: swarmctl config show");
  if (cli.json_wanted()) {
    auto rows = json::array();
    for (const auto& s : all)
      rows.push_back(row_of(s));
    cli.io().print({{"file", cli.config_file.string()}, {"exists", document.exists}, {"settings", rows}});
    return code::ok;
  }
  cli.io().line(cli.config_file.string() + (document.exists ? "" : ": there is no such file, and the defaults hold"));
  for (const auto& section : sections)
    show_section(cli, section, all, wanted);
  if (all.size() == 1 && !wanted.empty())
    show_help(cli, *all.front().key);
  if (all.empty())
    cli.io().line("  (nothing is set in [" + wanted + "])");
  return code::ok;
}

// -- edit --------------------------------------------------------------------------------

std::string editor_of(const environment& env) {
  for (auto name : {"VISUAL", "EDITOR"})
    if (auto editor = env.get(name); !editor.empty())
      return editor;
  throw failure(code::usage, "neither VISUAL nor EDITOR names an editor; for instance: EDITOR=nano swarmctl config edit");
}

/// As git and others start it: the variable may hold arguments.
void run_editor(const std::string& editor, const fs::path& file) {
  const auto status = run_with_file(editor, file);
  if (status != 0)
    throw failure(code::refused, concat({"the editor (", editor, ") ended with status ", status, ", and nothing is changed"}));
}

/// The text; empty when there is no file. Throws `failure` when it cannot be read.
std::string text_of(const fs::path& file) {
  auto text = read_config_text(file);
  if (!text)
    throw failure(code::refused, text.failure());
  return text->value_or("");
}

/// The copy that is edited: beside the file, where hooks keep agents' tools from writing. It goes with this object unless it is kept.
class edited_copy {
public:
  edited_copy(const fs::path& file, const std::string& text) : path_(file.string() + ".edit-" + std::to_string(getpid()) + ".toml") {
    unlink(path_.c_str()); // of a process that was killed and had this number
    if (auto error = write_new_file(path_, text))
      throw failure(code::refused, path_.string() + " cannot be written: " + error.message());
  }
  ~edited_copy() {
    if (!kept_)
      unlink(path_.c_str());
  }
  edited_copy(const edited_copy&) = delete;
  edited_copy& operator=(const edited_copy&) = delete;
  const fs::path& path() const noexcept { return path_; }
  std::string keep() {
    kept_ = true;
    return path_.string();
  }

private:
  fs::path path_;
  bool kept_ = false;
};

/// Atomically, behind symbolic links, with the mode that the file had.
void replace_config(const fs::path& file, const std::string& before, const std::string& text, edited_copy& copy) {
  const auto target = fs::path{target_path(file.string())};
  if (text_of(file) != before)
    throw failure(code::refused, file.string() + " was changed by somebody else meanwhile and stays as it is; your text is in " + copy.keep());
  struct stat info {};
  const auto mode = stat(target.c_str(), &info) == 0 ? info.st_mode & 07777 : mode_t{0600};
  const auto fresh = fs::path{target.string() + ".new-" + std::to_string(getpid())};
  unlink(fresh.c_str());
  auto error = write_new_file(fresh, text);
  if (!error && (chmod(fresh.c_str(), mode) != 0 || rename(fresh.c_str(), target.c_str()) != 0)) {
    error = {errno, std::generic_category()};
    unlink(fresh.c_str());
  }
  if (error)
    throw failure(code::refused, file.string() + " cannot be written: " + error.message() + "; your text is in " + copy.keep());
  sync_directory(target.parent_path());
}

bool edits_again(const invocation& cli) {
  return isatty(STDIN_FILENO) == 1 && cli.io().err_is_terminal() && is_confirmed(cli.io(), "Edit it again? No discards what you have written.");
}

int run_edit(invocation& cli) {
  const auto editor = editor_of(cli.env());
  prepare(state_dir{cli.config_file.parent_path()});
  const auto before = text_of(cli.config_file);
  edited_copy copy{cli.config_file, before.empty() ? first_lines : before};
  for (;;) {
    run_editor(editor, copy.path());
    const auto text = text_of(copy.path());
    if (text == before || (before.empty() && text == first_lines)) {
      cli.io().line("nothing is changed");
      return code::ok;
    }
    auto document = parse_config(text, domain::whole_config());
    if (document.faults.empty()) {
      replace_config(cli.config_file, before, text, copy);
      domain::check_secrets(document, [&](std::string_view name) { return is_secret_set(cli, name); });
      tell_faults(cli, document, cli.config_file.string());
      cli.io().line("changed " + cli.config_file.string() + "; the node reads it when it starts: swarmctl down --keep-programs && swarmctl up");
      return code::ok;
    }
    tell_faults(cli, document, cli.config_file.filename().string());
    if (!edits_again(cli))
      throw failure(code::refused, cli.config_file.string() + " stays as it is");
  }
}

void build_config(CLI::App& app, invocation& cli) {
  auto word = std::make_shared<std::string>();
  auto* check = app.add_subcommand("check", "name every fault of config.toml, or of another file; exit 1 if there is one");
  option(*check, "file", *word, "a file instead of the node's own", argument::file);
  on_run(*check, cli, [word, &cli] { return run_check(cli, *word); });
  auto* show = app.add_subcommand("show", "what is set, where it is set, and the defaults; never a secret");
  option(*show, "setting", *word, "only this section or key, such as accept.spawn or limits.lock_waiters_max", argument::setting);
  on_run(*show, cli, [word, &cli] { return run_show(cli, *word); });
  on_run(*app.add_subcommand("edit", "edit a copy of config.toml with $VISUAL or $EDITOR; it replaces the file if nothing is wrong with it"), cli,
         [&cli] { return run_edit(cli); });
  on_run(app, cli, [&cli] { return run_show(cli, ""); });
}

constexpr verb verbs[] = {
  {.name = "config",
   .about = subject::node,
   .summary = "check, show or edit what this host's node is configured to do: config.toml",
   .examples = "  swarmctl config check\n  swarmctl config show accept.spawn\n  swarmctl config show limits.lock_waiters_max\n"
               "  EDITOR=nano swarmctl config edit",
   .build = build_config,
   .node = node_choice::own},
};

} // namespace

std::span<const verb> config_verbs() { return verbs; }

} // namespace swarm::cli
