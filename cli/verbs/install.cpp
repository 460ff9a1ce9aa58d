// install: tells the agents' own programs of us, and takes it back. init: the same for one project.
#include "cli/edit/diff.hpp"
#include "cli/edit/file.hpp"
#include "cli/edit/json.hpp"
#include "cli/install/check.hpp"
#include "cli/install/hosts.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/confirmation.hpp"

#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;

/// A program that writes its own settings while we do is waited for no longer than this many times.
constexpr int attempts_max = 5;

struct request {
  std::vector<std::string> hosts;
  install_options options;
  bool uninstall = false;
  bool dry_run = false;
  bool yes = false;
  bool no_skill = false;
  bool in_repository = false;
};

struct change {
  settings_file file;
  std::optional<std::string> bytes; // empty: the file goes
  bool keep = true;                 // a backup of what was there
  bool whole = false;               // the file is ours alone, as it is shipped
  std::string name;                 // as it is shown
  fs::path backup;
};

struct host_plan {
  install_host host;
  std::vector<change> changes;
  std::string error;
  bool written = false;
};

std::string shown_path(const invocation& cli, const fs::path& path) {
  auto home = cli.env().get("HOME");
  auto text = path.string();
  return home.size() > 1 && text.starts_with(home + "/") ? "~" + text.substr(home.size()) : text;
}

/// The text with all of ours in it.
std::string put_into(const install_host& host, const fs::path& file, std::string text, const contents& now) {
  for (const auto& s : host.settings)
    if (s.file == file)
      text = s.put(text, now);
  return text;
}

/// The newest text of the file without an entry that install has written: what was there before it came.
std::optional<std::string> text_before(const setting& s, const settings_file& file) {
  auto backups = backups_of(file);
  for (auto i = backups.rbegin(); i != backups.rend(); ++i) {
    try {
      if (auto bytes = read_settings(*i).bytes; bytes && !s.by_install(*bytes))
        return bytes;
    } catch (const std::exception&) { // it is no longer a file that we can read
    }
  }
  return std::nullopt;
}

/// The text without us, and with what made way for us.
std::string taken_out(const install_host& host, const settings_file& file, const contents& now) {
  auto text = file.bytes.value_or("");
  for (const auto& s : host.settings) {
    if (s.file != file.path)
      continue;
    auto before = s.by_install ? text_before(s, file) : std::nullopt;
    const bool by_hand_before = before && s.take(*before, now) != *before;
    if (by_hand_before && !s.by_install(text))
      continue; // it has been given back already
    text = before && s.give_back ? s.give_back(text, *before) : s.take(text, now);
  }
  return text;
}

/// Whether nothing in the text is of an install. An entry that somebody made by hand is not.
bool is_without_install(const install_host& host, const fs::path& file, const std::string& text, const contents& now) {
  return std::all_of(host.settings.begin(), host.settings.end(),
                     [&](const setting& s) { return s.file != file || s.take(text, now) == text || (s.by_install && !s.by_install(text)); });
}

/// Why the file cannot be changed, with the line that it has as it is: others of our entries may have been put above meanwhile.
std::string objection_to(const install_host& host, const fs::path& file, const std::string& text, const contents& now, bool take,
                         const unreadable& met) {
  for (const auto& s : host.settings) {
    if (s.file != file)
      continue;
    try {
      take ? s.take(text, now) : s.put(text, now);
    } catch (const unreadable& e) {
      return e.what();
    } catch (const failure&) { // another one's turn was first
    }
  }
  return met.what();
}

bool is_ours_alone(const install_host& host, const fs::path& file) {
  return std::any_of(host.settings.begin(), host.settings.end(), [&](const setting& s) { return s.file == file && s.ours_alone; });
}

struct original {
  bool known = false;
  std::optional<std::string> bytes; // empty: there was no file
};

/// What was there before we came: a backup without us that gives the file as it is when we are put into it again, or nothing, if that
/// does. Taking out piece by piece cannot know whether an empty list or a missing newline was there before.
original original_of(const install_host& host, const settings_file& file, const contents& now) {
  auto leads_here = [&](const std::string& text) {
    try {
      return put_into(host, file.path, text, now) == *file.bytes && is_without_install(host, file.path, text, now);
    } catch (const std::exception&) {
      return false;
    }
  };
  for (const auto& backup : backups_of(file)) {
    try {
      if (auto bytes = read_settings(backup).bytes; bytes && leads_here(*bytes))
        return {true, std::move(bytes)};
    } catch (const failure&) { // it is no longer a file that we can read
    }
  }
  return {leads_here(""), std::nullopt};
}

/// Before anything is written: half a set-up helps nobody.
void refuse_unwritable(const change& c) {
  auto directory = c.file.target.parent_path();
  std::error_code ec;
  while (!fs::exists(directory, ec) && directory.has_relative_path())
    directory = directory.parent_path();
  if (!fs::is_directory(directory, ec) || access(directory.c_str(), W_OK | X_OK) != 0)
    throw failure(code::refused, c.name + ": nothing can be written into " + directory.string());
}

/// Everything that has to change for this host. Throws for a file that cannot be changed: then nothing of this host is.
std::vector<change> changes_of(const invocation& cli, const install_host& host, const request& r) {
  std::vector<change> out;
  std::map<fs::path, settings_file> files;
  std::map<fs::path, std::string> after;
  std::vector<fs::path> order;
  for (const auto& s : host.settings)
    if (files.emplace(s.file, read_settings(s.file)).second)
      order.push_back(s.file);
  auto text_of = [&](const fs::path& path) {
    auto i = files.find(path);
    return i == files.end() ? std::string{} : i->second.bytes.value_or("");
  };
  contents before = text_of;
  contents planned = [&](const fs::path& path) {
    auto i = after.find(path);
    return i == after.end() ? text_of(path) : i->second;
  };
  for (const auto& path : order) {
    const auto& file = files.at(path);
    auto now = file.bytes.value_or("");
    const auto& seen = r.uninstall ? before : planned;
    try {
      after[path] = r.uninstall ? taken_out(host, file, seen) : put_into(host, path, now, seen);
    } catch (const unreadable& e) {
      throw failure(code::refused, shown_path(cli, path) + ", " + objection_to(host, path, now, seen, r.uninstall, e));
    } catch (const failure& e) {
      throw failure(code::refused, shown_path(cli, path) + ": " + e.what());
    }
    if (after[path] == now)
      continue;
    change c;
    c.file = file;
    c.name = shown_path(cli, path);
    c.bytes = after[path];
    bool alone = is_ours_alone(host, path);
    if (r.uninstall && alone) {
      c.bytes.reset();
      c.keep = put_into(host, path, now, before) != now;
    } else if (r.uninstall) {
      if (auto first = original_of(host, file, before); first.known) {
        c.bytes = std::move(first.bytes);
        c.keep = false; // install would bring all of it back
      }
    }
    c.whole = alone && (!file.bytes || !c.keep);
    if (auto repository = repository_of(file); !repository.empty() && !r.in_repository)
      throw failure(code::refused,
                    c.name + " lies in the Git repository " + shown_path(cli, repository) + ", which others may get; --in-repository writes there");
    refuse_unwritable(c);
    out.push_back(std::move(c));
  }
  return out;
}

const char* action_of(const change& c) { return !c.file.bytes ? "create" : c.bytes ? "change" : "remove"; }

std::string diff_of(const change& c) { return unified_diff(c.file.bytes.value_or(""), c.bytes.value_or("")); }

void show_diff(invocation& cli, const change& c) {
  auto& io = cli.io();
  if (c.whole)
    return io.painted_line(io.paint(colour::bold, (c.bytes ? "+++ " : "--- ") + c.name) +
                           io.paint(colour::dim, c.bytes ? "  (new, comes with swarmctl)" : "  (came with swarmctl)"));
  io.painted_line(io.paint(colour::bold, "--- " + (c.file.bytes ? c.name : "/dev/null")));
  io.painted_line(io.paint(colour::bold, "+++ " + (c.bytes ? c.name : "/dev/null")));
  auto diff = diff_of(c);
  for (std::string_view text = diff; !text.empty();) {
    auto end = std::min(text.find('\n'), text.size() - 1);
    auto line = text.substr(0, end);
    auto tint = line.starts_with("@@") ? colour::cyan : line.starts_with("+") ? colour::green : line.starts_with("-") ? colour::red : colour::none;
    io.painted_line(io.paint(tint, line));
    text.remove_prefix(end + 1);
  }
}

/// One install at a time for this user. Without effect where the file system cannot lock a directory.
unique_fd turn_of(const invocation& cli) {
  unique_fd home{open(cli.env().get("HOME").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (home)
    while (flock(home.get(), LOCK_EX) != 0 && errno == EINTR)
      ;
  return home;
}

/// Directories that are empty now, as far as install may have made them; the program's own directory stays.
void remove_empty_directories(const host_plan& plan) {
  const std::set<std::string> names{"references", "swarm", "swarm-fabric", "skills", "plugins"};
  std::set<fs::path> directories;
  for (const auto& c : plan.changes)
    if (!c.bytes)
      directories.insert(c.file.target.parent_path());
  // The deepest first: their names begin with those above them.
  for (auto i = directories.rbegin(); i != directories.rend(); ++i) {
    std::error_code ec;
    if (i->filename() == "swarm" && i->parent_path().filename() == "plugins")
      fs::remove_all(*i / "__pycache__", ec); // the interpreter's, of our plugin
    for (auto directory = *i; names.count(directory.filename().string()) > 0 && rmdir(directory.c_str()) == 0;)
      directory = directory.parent_path();
  }
}

void write_host(invocation& cli, host_plan& plan, const request& r) {
  std::vector<change> done;
  auto left = std::move(plan.changes);
  auto write = [&] {
    for (auto& c : left) {
      c.backup = replace_settings(c.file, c.bytes, c.keep);
      done.push_back(c);
    }
  };
  for (int attempt = 0;; ++attempt) {
    try {
      write();
      break;
    } catch (const changed_meanwhile&) {
      if (attempt == attempts_max)
        throw failure(code::refused, "its settings change all the time; end it and try again");
      left = changes_of(cli, plan.host, r);
    } catch (const failure& e) {
      plan.changes = done;
      std::string before;
      for (const auto& c : done)
        before += (before.empty() ? "; written before that: " : ", ") + c.name;
      throw failure(code::refused, e.what() + before);
    }
  }
  plan.changes = std::move(done);
  plan.written = true;
  if (r.uninstall)
    remove_empty_directories(plan);
}

std::vector<std::string> names_wanted(const request& r) {
  const auto& known = install_host_names();
  auto names = comma_separated(r.hosts);
  // Without a name it would be all that are found.
  if (!r.hosts.empty() && names.empty())
    throw usage("--host names no host; leave it out for those that are found, or give claude, codex, opencode, gemini, hermes or all");
  if (std::find(names.begin(), names.end(), "all") != names.end())
    return known;
  std::vector<std::string> out;
  for (auto& name : names) {
    if (name == "claude-code")
      name = "claude";
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw usage("unknown host \"" + name + "\"; one of claude, codex, opencode, gemini, hermes, all");
    if (std::find(out.begin(), out.end(), name) == out.end())
      out.push_back(name);
  }
  return out;
}

host_plan planned(const invocation& cli, const std::string& name, const request& r) {
  host_plan plan;
  plan.host.name = name;
  try {
    auto options = r.options;
    if (r.uninstall) {
      // What would give the files as they are shows what they were before, also if another one's entry made way.
      options = options_as_installed(name, cli.env(), options);
      options.force = true;
    }
    plan.host = install_host_of(name, cli.env(), options);
    plan.changes = changes_of(cli, plan.host, r);
  } catch (const std::exception& e) {
    plan.error = e.what();
  }
  return plan;
}

json as_json(const host_plan& plan) {
  json files = json::array();
  for (const auto& c : plan.changes) {
    json file{{"path", c.file.path.string()}, {"action", action_of(c)}};
    if (!c.whole)
      file["diff"] = diff_of(c);
    if (!c.backup.empty())
      file["backup"] = c.backup.string();
    files.push_back(std::move(file));
  }
  json out{{"host", plan.host.name}, {"found", plan.host.found}};
  out["status"] = !plan.error.empty() ? "failed" : plan.changes.empty() ? "current" : plan.written ? "written" : "planned";
  out["files"] = std::move(files);
  if (!plan.error.empty())
    out["error"] = plan.error;
  if (!plan.host.notes.empty())
    out["notes"] = plan.host.notes;
  return out;
}

void say_result(invocation& cli, const host_plan& plan, const request& r) {
  auto& io = cli.io();
  if (!plan.error.empty())
    return cli.io().error("swarmctl install: " + plan.host.name + ": " + plan.error);
  if (plan.changes.empty())
    return io.line(plan.host.title + ": " + (r.uninstall ? "nothing of ours is there" : "nothing to do, it is set up"));
  io.line(plan.host.title + ": " + (plan.written ? (r.uninstall ? "taken out" : "set up") : "not written"));
  if (!plan.written)
    return;
  for (const auto& c : plan.changes)
    if (!c.backup.empty())
      io.line("  what was there: " + shown_path(cli, c.backup));
  for (const auto& note : plan.host.notes)
    if (!r.uninstall)
      io.line("  " + note);
}

int finish(invocation& cli, const std::vector<host_plan>& plans, const request& r) {
  bool failed = std::any_of(plans.begin(), plans.end(), [](const host_plan& p) { return !p.error.empty(); });
  if (cli.json_wanted()) {
    json hosts = json::array();
    for (const auto& plan : plans)
      hosts.push_back(as_json(plan));
    cli.io().print({{"ok", !failed}, {"dry_run", r.dry_run}, {"program", r.options.program.string()}, {"hosts", hosts}});
  } else {
    for (const auto& plan : plans)
      say_result(cli, plan, r);
    if (std::any_of(plans.begin(), plans.end(), [](const host_plan& p) { return p.written; }))
      cli.io().line(std::string{"Sessions that run now go on as they were; new ones "} + (r.uninstall ? "are without it." : "have it."));
  }
  return failed ? code::refused : code::ok;
}

int run_install(invocation& cli, request r) {
  r.options.program = program_for_settings(cli.env());
  r.options.share = share_directory(cli.env().get("SWARM_SHARE"));
  r.options.skill = !r.no_skill;
  auto names = names_wanted(r);
  bool chosen = !names.empty();
  std::vector<host_plan> plans;
  for (const auto& name : chosen ? names : install_host_names())
    if (auto plan = planned(cli, name, r); chosen || plan.host.found)
      plans.push_back(std::move(plan));
  if (plans.empty())
    throw failure(code::refused, "none of claude, codex, opencode, gemini and hermes is on the path or has settings here; name one with --host");
  std::size_t count = 0;
  for (const auto& plan : plans)
    count += plan.changes.size();
  if (!cli.json_wanted())
    for (const auto& plan : plans)
      for (const auto& c : plan.changes)
        show_diff(cli, c);
  bool ask = !r.yes && isatty(STDIN_FILENO) == 1 && cli.io().out_is_terminal();
  if (r.dry_run || count == 0 || (ask && !is_confirmed(cli.io(), "Apply this?")))
    return finish(cli, plans, r);
  auto turn = turn_of(cli);
  for (auto& plan : plans) {
    if (!plan.error.empty())
      continue;
    try {
      // Somebody may have been at it since it was shown.
      plan.changes = changes_of(cli, plan.host, r);
      write_host(cli, plan, r);
    } catch (const std::exception& e) {
      plan.error = e.what();
    }
  }
  return finish(cli, plans, r);
}

int run_init(invocation& cli, const std::string& directory, bool force, bool dry_run) {
  auto where = directory.empty() ? fs::path{cli.directory()} : fs::path{cli.directory()} / directory;
  std::error_code ec;
  if (!fs::is_directory(where, ec))
    throw failure(code::refused, where.string() + " is no directory");
  host_plan plan;
  plan.host.settings.push_back(project_setting(where.lexically_normal() / ".mcp.json", force));
  request r;
  r.in_repository = true; // it is made for one: a name, no path of this machine, no secret
  plan.changes = changes_of(cli, plan.host, r);
  if (!cli.json_wanted())
    for (const auto& c : plan.changes)
      show_diff(cli, c);
  if (!dry_run)
    write_host(cli, plan, r);
  auto path = plan.host.settings[0].file.string();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"path", path}, {"changed", !plan.changes.empty() && !dry_run}});
  else
    cli.io().line(plan.changes.empty() ? "nothing to do: " + path + " names the server" : (dry_run ? "not written: " : "wrote ") + path);
  return code::ok;
}

void build_install(CLI::App& app, invocation& cli) {
  auto r = std::make_shared<request>();
  option(app, "--host", r->hosts, "claude, codex, opencode, gemini, hermes, several with commas, or all; without it those that are found",
         argument::agent);
  flag(app, "--dry-run", r->dry_run, "show what would change and write nothing");
  flag(app, "--uninstall", r->uninstall, "take out what install has put in");
  flag(app, "--yes,-y", r->yes, "do not ask (it asks on a terminal only)");
  flag(app, "--fail-closed", r->options.fail_closed, "a lock check that fails blocks the tool, where the host can be told so");
  flag(app, "--enforce", r->options.enforce, "a write takes the lock of its file");
  flag(app, "--no-skill", r->no_skill, "leave the skill out");
  flag(app, "--force", r->options.force, "take the place of another server or skill named swarm");
  flag(app, "--in-repository", r->in_repository, "write settings that lie in a Git repository, too");
  on_run(app, cli, [&cli, r] { return run_install(cli, *r); });
}

struct init_request {
  std::string directory;
  bool force = false;
  bool dry_run = false;
  bool no_skills = false;
};

void build_init(CLI::App& app, invocation& cli) {
  auto r = std::make_shared<init_request>();
  option(app, "--dir", r->directory, "the project (the working directory)", argument::directory);
  flag(app, "--dry-run", r->dry_run, "show what would change and write nothing");
  flag(app, "--force", r->force, "take the place of another server named swarm");
  flag(app, "--no-skills", r->no_skills, "as swarm-mcp has it; the skill comes with install, never with init");
  on_run(app, cli, [&cli, r] { return run_init(cli, r->directory, r->force, r->dry_run); });
}

constexpr verb verbs[] = {
  {"install", subject::start, "set up this user's agents: tool server, hooks, skill; shows each change and keeps what is there",
   "  swarmctl install --dry-run\n  swarmctl install --host claude,codex --fail-closed\n  swarmctl install --uninstall --host all", build_install,
   nullptr, "", nullptr, node_choice::own},
  {"init", subject::agents, "add the tool server to a project's .mcp.json, so that it can be committed", "  swarmctl init --dir ~/src/app",
   build_init, nullptr, "", nullptr, node_choice::own},
};

} // namespace

std::span<const verb> install_verbs() { return verbs; }

} // namespace swarm::cli
