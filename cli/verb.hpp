// How a command declares itself. Only the command in use is built: declaring them all costs a millisecond.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// The headings of `swarmctl --help`, in the order shown.
enum class subject : std::uint8_t { start, tasks, locks, sessions, workers, agents, hosts, node };

struct verb {
  const char* name;
  /// Has no default, so that a verb without a heading does not compile.
  subject about;
  const char* summary;
  const char* examples;
  void (*build)(CLI::App&, invocation&);
  const char* alias = nullptr;
  /// The command of this verb, itself or one below it, that takes a program and its arguments after `--`. To any other command
  /// words after `--` are text.
  std::string_view program_of = "";
  /// Not offered: whatever follows the name, this is the answer, with status 1.
  const char* refusal = nullptr;
  /// Where its node may come from.
  node_choice node = node_choice::current;
  /// Why it does not go with the node of another host; null when it does.
  const char* only_here = nullptr;
  /// Calls speak_to_chosen itself, because it has something to say when there is no choice.
  bool chooses_node = false;
  /// For swarmctl itself: no help or completion speaks of it.
  bool internal = false;
};

/// Of verbs that agents' programs start: why these are only for this host's node.
inline constexpr const char* agents_are_here =
  "an agent of this host is a session of this host's node; let the hosts join one cluster instead: swarmctl join";

// One for each family of verbs in cli/verbs.
std::span<const verb> node_verbs();
std::span<const verb> login_verbs();
std::span<const verb> cluster_verbs();
std::span<const verb> scope_verbs();
std::span<const verb> session_verbs();
std::span<const verb> message_verbs();
std::span<const verb> task_verbs();
std::span<const verb> task_worker_verbs();
std::span<const verb> lock_verbs();
std::span<const verb> kv_verbs();
std::span<const verb> dispatch_verbs();
std::span<const verb> spawn_verbs();
std::span<const verb> approval_verbs();
std::span<const verb> chat_verbs();
std::span<const verb> usage_verbs();
std::span<const verb> event_verbs();
std::span<const verb> mcp_verbs();
std::span<const verb> overview_verbs();
std::span<const verb> pty_verbs();
std::span<const verb> doctor_verbs();
std::span<const verb> hook_verbs();
std::span<const verb> install_verbs();
std::span<const verb> worktree_verbs();
std::span<const verb> routine_verbs();
std::span<const verb> agent_verbs();
std::span<const verb> completion_verbs();
std::span<const verb> complete_verbs();
std::span<const verb> elsewhere_verbs();
std::span<const verb> context_verbs();
std::span<const verb> config_verbs();
std::span<const verb> secret_verbs();
/// All of them, in the order of the help: by subject.
std::vector<verb> all_verbs();
/// The whole command tree, for help and completion.
std::unique_ptr<CLI::App> full_tree(invocation&);
/// The manual page of swarmctl with all its commands, as roff source.
std::string manual_page(invocation&);

// -- reading a command line ----------------------------------------------------------

/// How a session is named.
inline const std::string who_words = "its id, the first four characters of it or more, or a word of its label";

/// What a usage line says of a command that takes a program.
inline constexpr std::string_view program_words = " [-- COMMAND ARGUMENT...]";

/// Null when there is none of that name.
const verb* find_verb(const std::vector<verb>&, const std::string& name);
CLI::App* subcommand(CLI::App&, const std::string& name);
/// The option of the command, or of one above it, that is spelled so; null when there is none.
CLI::Option* option_of(CLI::App*, const std::string& name);
/// From here on the invocation is about the node that its flags, the environment and the file choose. `only_here` as in `verb`. Throws `failure`.
void speak_to_chosen(invocation&, const char* only_here);

// -- declaring options ---------------------------------------------------------------

/// What a value names. Help texts show its word, and completion offers what there is of it (cli/verbs/complete.cpp has the table of both).
enum class argument : std::uint8_t {
  text, // anything; nothing is offered
  file,
  directory,
  task,
  task_status,
  end_status,
  task_type,
  terminal,
  session,
  approval,
  conversation,
  routine,
  harness,
  agent,
  node,
  context,
  scope,
  key,
  subscription,
  worktree,
  shell,
  setting,
  secret,
  permissions,
  driven,  // an agent that can work in a conversation
  choice,  // an answer to what waits for a decision
  pattern, // what a conversation's agent may do unasked
  mode,    // of an agent's own
};
/// "TASK"; null for a text, which keeps the parser's own word.
const char* word_of(argument);

/// A word that starts with one dash is text, not a flag, as in swarm-mcp. Marked before the parser sees it, unmarked after.
inline constexpr char dash_mark = '\x01';

CLI::Option* option(CLI::App&, const std::string& names, std::string& target, const std::string& help, argument = argument::text);
/// One value per use.
CLI::Option* option(CLI::App&, const std::string& names, std::vector<std::string>& target, const std::string& help, argument = argument::text);
CLI::Option* option(CLI::App&, const std::string& names, std::int64_t& target, const std::string& help);
CLI::Option* option(CLI::App&, const std::string& names, double& target, const std::string& help);
CLI::Option* flag(CLI::App&, const std::string& names, bool& target, const std::string& help);
/// All remaining words.
CLI::Option* words(CLI::App&, const std::string& name, std::vector<std::string>& target, const std::string& help, argument = argument::text);

/// Further attempts as given on the command line; refuses what the message cannot carry. How many are allowed is the node's to say.
std::uint32_t retries_of(std::int64_t);
/// A time: a whole number of seconds, or with s, m, h or d. Nothing for another word.
std::optional<std::int64_t> span_of(std::string);
/// A --grant: NAME, or NAME=DURATION in seconds, or with s, m, h or d.
struct grant_word {
  std::string name;
  std::int64_t for_ms = 0; // 0 = as long as the session
};
grant_word grant_of(const std::string& word);
/// The help of a --grant option.
std::string grant_help(const char* whose);
template <class Body>
void add_grants(Body& body, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    const auto g = grant_of(word);
    body.add_grants(g.name);
    if (g.for_ms == 0)
      continue;
    auto& time = *body.add_grant_times();
    time.set_grant(g.name);
    time.set_for_ms(g.for_ms);
  }
}
/// What clocks can add up.
inline constexpr std::chrono::milliseconds longest_wait{std::chrono::hours{24 * 36'500}};
/// Seconds as given on the command line to milliseconds; refuses negative values and what cannot be carried. `most` is what the
/// node allows, for the refusal's text.
std::int64_t milliseconds_of(double seconds, const char* what, std::chrono::milliseconds most = longest_wait);
/// The shorter of a wait (0 = without end) and --timeout, if that was given.
std::int64_t bounded_by_timeout(const invocation&, std::int64_t wait_ms);

/// Binds what the command does; its return value is the exit status.
template <class Action>
void on_run(CLI::App& app, invocation& cli, Action action) {
  app.callback([&app, &cli, action] {
    if (app.get_subcommands().empty())
      cli.action = action;
  });
}

/// `up --listen`: this node is the home of a cluster.
struct cluster_options {
  std::string listen;
  std::string passphrase_file;
  bool insecure = false;
};
/// Gives the recovery copy of the authority's key if there is a new one. It is shown already unless JSON is wanted.
std::string found_cluster(const invocation&, const cluster_options&);

/// A mistake in the call: status 2, and where its help is.
failure usage(const std::string& text);

} // namespace swarm::cli
