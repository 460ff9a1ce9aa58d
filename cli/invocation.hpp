// What every command works with: the global flags, the node, the scope and who is acting.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/clock.hpp"
#include "cli/environment.hpp"
#include "cli/output.hpp"
#include "cli/recent.hpp"
#include "cli/targets.hpp"
#include "gateway/client/failure.hpp"
#include "gateway/client/ports.hpp"
#include "gateway/json/pages.hpp"
#include "swarm/v1/query.pb.h"

namespace swarm::cli {

struct global_flags {
  std::string scope;
  std::string as;
  std::string node; // --context
  bool json = false;
  double timeout_s = 30;
  /// --timeout stands on the command line: then it bounds also what would wait without end.
  bool timeout_given = false;
  bool no_autostart = false;
  /// --identity of the verbs that have it; empty = what the environment says.
  std::string identity;
};

class invocation {
public:
  invocation(ports node, const environment& env, console& io, const clock_port& clock, std::string directory);

  /// The name under which the program was started: swarmctl, or swarm-mcp, whose help and exit statuses it then has.
  std::string program = "swarmctl";
  bool is_swarm_mcp() const noexcept { return program == "swarm-mcp"; }
  global_flags flags;
  /// Arguments after `--`, for the commands that run a program.
  std::vector<std::string> tail;
  /// What this terminal made last, for @last.
  recent_things recent;
  /// config.toml of this user's state directory, also when another node is spoken to; empty = none.
  std::filesystem::path config_file;
  /// Set by the parsed command; gives the exit status.
  std::function<int()> action;
  /// Where the action's node may come from.
  node_choice choice = node_choice::current;

  /// From here on it is about this node; throws `failure` when the scope named does not go with it.
  void speak_to(const target&);
  /// The node is on another host: directories, files and processes of this one mean nothing to it.
  bool elsewhere() const noexcept { return target_ && target_->elsewhere(); }
  /// Of the context; empty = the node of this user.
  std::string node_name() const { return target_ ? target_->name : std::string{}; }
  /// What a worker of this harness inherits from this process.
  environment_list inheritable(std::string_view harness) const;
  const environment& env() const noexcept { return env_; }
  console& io() const noexcept { return io_; }
  const ports& node() const noexcept { return node_; }
  std::int64_t now_ms() const { return clock_.unix_ms(); }
  /// For durations.
  std::int64_t boot_ms() const { return clock_.boot_ms(); }
  /// Throws `failure` when it has been removed.
  const std::string& directory() const;
  /// Empty when it has been removed.
  const std::string& directory_if_any() const noexcept { return directory_; }
  bool json_wanted() const noexcept { return flags.json; }

  /// --scope, $SWARM_MCP_SCOPE, that of --context, or the git root of the working directory; the last not for the node of another host, for
  /// which this throws `failure`.
  std::string scope() const;
  /// The same for another directory.
  std::string scope_of(const std::string& directory) const;

  /// The name that --identity or the environment gives; empty = none. Throws `failure` (usage) when --identity is no name.
  std::string identity() const;
  /// Who asks. Without the work tracker, which no question depends on.
  v1::Caller caller() const;
  /// Throws `failure` (usage) when $SWARM_WORK_TRACKER cannot be read.
  v1::Command command() const;
  /// With the scope, and who asks; the question itself is to be filled in, as of command().
  v1::Query query() const;
  /// A refusal becomes a `failure`; `decide` gives it as it is. `extra_ms` lengthens the deadline.
  v1::Reply execute(const v1::Command&, const environment_list& environment = {}) const;
  v1::Reply decide(const v1::Command&, const environment_list& environment = {}, std::int64_t extra_ms = 0) const;
  /// A refusal becomes a `failure`.
  v1::Answer ask(const v1::Query&) const;

  /// <who>: an id, a label, a word of it, or the beginning of an id; under the name swarm-mcp any part of a label.
  v1::Session find(const std::string& who) const;
  /// Throws `failure` when --as names nobody: no verb acts or answers as somebody else than was named. Each ask() looks.
  void require_named_actor() const;
  /// --as, $SWARM_MCP_INSTANCE_ID, or the session that the caller is; under the name swarm-mcp the only instance of the scope. Throws `failure`
  /// when there is none: a person is no session.
  v1::Session actor() const;
  /// --as or $SWARM_MCP_INSTANCE_ID; otherwise nobody: the person at the terminal, or the session $SWARM_TOKEN stands for.
  std::optional<v1::Session> named_actor() const;
  /// Id of named_actor(), or empty.
  std::string named_actor_id() const;

  /// A relative path means the working directory as far as that lies in the session's tree, else the session's
  /// file root.
  std::string file(std::string_view input, const std::optional<v1::Session>& session) const;
  /// The working directory is the session's, or lies in its repository.
  bool stands_with(const v1::Session& session) const;
  /// The same for a lock: symbolic links are followed, and with `wanted` a pattern that no file is called is refused. Throws `failure`.
  std::string lock_file(std::string_view input, const std::optional<v1::Session>& session, bool wanted = false) const;

private:
  std::string named_scope() const;
  ports node_;
  const environment& env_;
  console& io_;
  const clock_port& clock_;
  std::string directory_;
  std::optional<target> target_;
  mutable bool as_known_ = false; // --as has been looked up
};

/// What a refusal says: more than swarm-mcp's text where that says too little.
const std::string& text_for_people(const v1::Refusal&) noexcept;
/// The failure a refusal ends a command with: status 4 for a wait that was too long, else 1.
failure refused(const v1::Reply&);
failure refused(const v1::Refusal&);
/// The body of such a failure as it is printed: with the text for people, or swarm-mcp's under its name.
json refusal_json(const invocation&, json body);
int exit_code_of(v1::Refusal::Code) noexcept;

/// The rows of every page of a list.
template <class Row>
std::vector<Row> all_rows(const invocation& cli, v1::Query query) {
  return mcp::rows_of_pages<Row>(std::move(query), [&](const v1::Query& q) { return cli.ask(q); });
}

/// The name under which hosts share the scope of this root; the root itself if they do not.
std::string shared_name(const v1::CheckoutList& checkouts, const std::string& root);
/// By whichever of its directories, or by its name, a scope that hosts share is meant: its name. Any other scope is as it is.
std::string one_name_of(const invocation&, const std::string& scope);
/// The command's scope as people are told: by its name, if hosts share it.
std::string scope_shown(const invocation&);
/// "(no locks in scope /srv/game)", for an empty list of `what`.
std::string none_in_scope(const invocation&, std::string_view what);

/// Every session, task, lock of the scope, in list order.
std::vector<v1::Session> all_sessions(const invocation&, const std::string& scope);
/// `statuses`: none = all; `scope`: empty = that of the command.
std::vector<v1::Task> all_tasks(const invocation&, const std::vector<v1::TaskStatus>& statuses, bool by_creation, const std::string& scope = {});
std::vector<v1::LockView> all_locks(const invocation&, const std::string& holder);
std::vector<v1::KvEntry> all_kv(const invocation&, const std::string& prefix);

/// The names of the cluster's nodes by their ids, this node's by the empty id as well. Empty when there is no other node, or when the caller may not
/// ask.
std::map<std::string, std::string> node_names(const invocation&);
/// Its name; of an unknown node the beginning of its id.
std::string name_of_node(const std::map<std::string, std::string>& names, const std::string& id);

/// The non-empty parts between the commas of all values.
std::vector<std::string> comma_separated(const std::vector<std::string>& values);
/// Words joined by blanks, as a shell would have given them.
std::string joined(const std::vector<std::string>& words);

} // namespace swarm::cli
