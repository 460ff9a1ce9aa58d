// What each agent's program needs to be told of us, and where: its tool server, its hooks, its skill, a plugin (docs/agent-setup.md).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/environment.hpp"

namespace swarm::cli {

struct install_options {
  std::filesystem::path program; // swarmctl, as the configurations name it
  std::filesystem::path share;   // share_directory()
  bool fail_closed = false;      // a check that fails blocks the tool, where the host can be told so
  bool enforce = false;          // a write takes its lock
  bool force = false;            // take the place of another server or skill of our name
  bool skill = true;
};

/// The text of a file as it is, or as it will be; empty when there is none.
using contents = std::function<std::string(const std::filesystem::path&)>;

/// One thing of ours in one file. Both functions throw `unreadable` or `failure` for a file they cannot change, and give the text
/// back as it was when there is nothing to do.
struct setting {
  std::string what; // empty: of no interest to the user
  std::filesystem::path file;
  std::function<std::string(const std::string&, const contents&)> put;
  std::function<std::string(const std::string&, const contents&)> take;
  bool ours_alone = false; // nobody else writes the file: without us there is none
  bool former = false;     // of an earlier install; all that is wanted is that it goes
  /// The program that the setting starts, as the file has it; empty for none.
  std::function<std::string(const std::string&)> program = {};
  /// Whether install has written the entry: one that somebody made by hand is ours as well, and install takes it over.
  std::function<bool(const std::string&)> by_install = {};
  /// `take`, but with the entry that `before` has, if any, in the place of ours. Empty where only the whole file can be given back.
  std::function<std::string(const std::string& text, const std::string& before)> give_back = {};
};

struct install_host {
  std::string name;
  std::string title;
  bool found = false; // its program is on the path, or its settings exist
  std::vector<setting> settings;
  std::filesystem::path stamp;    // what a plugin of ours writes when it is loaded; empty without a plugin
  std::vector<std::string> notes; // for the user, once it is set up
};

/// Of all agents that actors/agents knows.
const std::vector<std::string>& install_host_names();
/// Throws `failure` when the home directory is not known or the files to install are not there.
install_host install_host_of(const std::string& name, const environment&, const install_options&);

/// swarmctl as others are to call it: the one on the path if that is this program, else this program's file.
std::filesystem::path program_for_settings(const environment&);
/// The first program of that name on $PATH; empty for none.
std::filesystem::path program_on_path(const environment&, const std::string& name);

/// The project's .mcp.json: our server by its name only, so that the file works on every machine.
setting project_setting(const std::filesystem::path& file, bool force);

enum class setting_state { absent, current, outdated, left_over, unreadable };
/// How the file stands to the setting.
setting_state state_of(const setting&, const std::string& text, const contents&);

/// Words of a command line, quotes taken off.
std::vector<std::string> shell_words(const std::string&);

} // namespace swarm::cli
