#include "actors/fabric/workers/spawn.hpp"

#include <algorithm>
#include <filesystem>

#include <caf/send.hpp>

#include "actors/agents/agent.hpp"
#include "actors/agents/driver_limits.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/log.hpp"
#include "actors/base/program.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/order_seal.hpp"
#include "actors/domain/rules.hpp"
#include "actors/fabric/workers/agent_environment.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm {

spawn_state::~spawn_state() {
  if (child.pid != 0 && place.links.node)
    place.links.node->workers->erase(child.pid);
  if (agent)
    runtime::kill(agent);
}

std::string worker_token(const node_facts& facts, const v1::Spawn& row) {
  return to_hex(keyed_hash(facts.token_key, row.id() + '/' + std::to_string(row.attempt())));
}

namespace {

void set(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  auto prefix = name + "=";
  std::erase_if(env, [&](const std::string& v) { return v.compare(0, prefix.size(), prefix) == 0; });
  env.push_back(prefix + value);
}

bool has(const std::vector<std::string>& env, const std::string& name) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& v) { return v.starts_with(name + "="); });
}

std::string get(const std::vector<std::string>& env, const std::string& name) {
  auto prefix = name + "=";
  for (const auto& v : env)
    if (v.compare(0, prefix.size(), prefix) == 0)
      return v.substr(prefix.size());
  return {};
}

agents::start how_to_start(const node_facts& facts, const v1::Spawn& row, const std::string& directory, const std::vector<std::string>& environment) {
  return {facts.program_dir + "/swarmctl", directory, get(environment, "SWARM_SHARE"), !row.conversation_id().empty()};
}

} // namespace

std::vector<std::string> worker_environment(const node_facts& facts, const v1::Spawn& row, const std::string& directory, const std::string& scope,
                                            const std::vector<std::string>& caller, const std::vector<std::string>& configured) {
  auto env = caller.empty() ? facts.base_environment : caller;
  for (const auto& v : configured)
    if (const auto name = v.substr(0, v.find('=')); caller.empty() || !has(caller, name))
      set(env, name, v.substr(name.size() + 1));
  auto path = get(env, "PATH");
  if ((":" + path + ":").find(":" + facts.program_dir + ":") == std::string::npos)
    set(env, "PATH", path.empty() ? facts.program_dir + ":/usr/bin:/bin" : facts.program_dir + ":" + path);
  if (get(env, "TERM").empty())
    set(env, "TERM", "xterm-256color");
  // A command of a task has a terminal, and nobody at it who would press a pager's key.
  if (row.harness() == domain::exec_harness && !row.task_id().empty())
    for (auto name : {"PAGER", "GIT_PAGER"})
      if (!has(env, name))
        set(env, name, "cat");
  set(env, "SWARM_HOME", facts.dir.root.string());
  set(env, "SWARM_SPAWN_ID", row.id());
  set(env, "SWARM_TOKEN", worker_token(facts, row));
  if (!row.task_id().empty())
    set(env, "SWARM_TASK_ID", row.task_id());
  set(env, "SWARM_MCP_INSTANCE_ID", row.session_id());
  set(env, "SWARM_MCP_SCOPE", scope);
  set(env, "SWARM_MCP_DIRECTORY", directory);
  set(env, "SWARM_MCP_FILE_ROOT", directory);
  set(env, "SWARM_MCP_LABEL", row.label());
  for (auto name : {"SWARM_AGENT_ROLE", "SWARM_CC_AGENT_ROLE", "SWARM_CODEX_AGENT_ROLE"})
    set(env, name, row.role());
  for (auto name : {"SWARM_CC_LABEL", "SWARM_CODEX_LABEL", "SWARM_HERMES_LABEL"})
    set(env, name, row.label());
  if (auto token = domain::identity_token(row.label()); !token.empty())
    for (auto name : {"AGENT_IDENTITY", "SWARM_IDENTITY", "SWARM_CC_IDENTITY", "SWARM_CODEX_IDENTITY", "SWARM_HERMES_IDENTITY"})
      set(env, name, token.substr(token.find(':') + 1));
  for (const auto& v : agents::environment(row.harness(), how_to_start(facts, row, directory, env)))
    set(env, v.substr(0, v.find('=')), v.substr(v.find('=') + 1));
  return env;
}

namespace {

using self_ptr = spawn_actor::stateful_pointer<spawn_state>;

/// With the directory it has here.
spawn_ptr row_of(self_ptr self) {
  auto row = std::make_shared<v1::Spawn>(self->state.row);
  row->set_directory(self->state.directory);
  return row;
}

template <class Fill>
execution_ptr command(self_ptr self, Fill fill) {
  auto& place = self->state.place;
  return internal_command(*place.links.node, place.scope, fill);
}

/// The scope is woken again with everything below it when the writer comes back; until then nothing is lost, the row stands.
void give_up(self_ptr self, const char* what, const caf::error& e) {
  log::warn({"spawn ", self->state.place.id, ": ", what, ": ", caf::to_string(e)});
  self->quit(fail(errc::unavailable));
}

/// A verdict on the start itself; anything else is the death of the actor that was asked, and the next activation asks again.
bool is_verdict(const caf::error& e) { return e == caf::sec::request_timeout || e == errc::keeper_failed || e == errc::overloaded; }

/// A full disk refuses it. That is no failure of ours, after which we would rest longer each time: the end must be in the store soon after there is
/// space again, for only we and the keeper know it.
void record_end(self_ptr self, const execution_ptr& cmd) {
  ask_writer(
    self, self->state.place.links.writer, cmd,
    [self](const reply_ptr&) {
      auto& s = self->state;
      if (s.child.exists)
        caf::anon_send(s.place.links.processes, forget_atom_v, s.place.id);
      self->quit();
    },
    [self, cmd](caf::error& e) {
      if (e != errc::low_disk)
        return give_up(self, "its end could not be recorded", e);
      self->state.phase = "waiting for disk space";
      self->delayed_send(self, limits::low_disk_retry, tick_atom_v, cmd);
    });
}

void report_end(self_ptr self, std::string reason, bool never_ran) {
  auto& st = self->state;
  if (std::exchange(st.ending, true))
    return;
  st.phase = "ending";
  std::string tail;
  bool truncated = false;
  if (st.child.ring) {
    auto end = st.child.ring->end();
    truncated = end > limits::output_tail_bytes_max();
    tail =
      st.child.ring->read(end > limits::output_tail_bytes_max() ? end - limits::output_tail_bytes_max() : 0, limits::output_tail_bytes_max()).bytes;
  }
  auto cmd = command(self, [&](v1::Command& c) {
    auto* e = c.mutable_spawn_ended();
    e->set_spawn_id(st.place.id);
    e->set_attempt(st.row.attempt());
    e->set_exit_status(st.child.exit_status);
    e->set_signal(st.child.signal);
    e->set_duration_ms(st.child.duration_ms);
    e->set_output_tail(tail);
    e->set_output_truncated(truncated);
    e->set_reason(reason);
    e->set_never_ran(never_ran);
  });
  record_end(self, cmd);
}

bool is_driver(const v1::Spawn& row) { return !row.conversation_id().empty(); }

/// Nobody will hear this generation of the driver out. Its state says nothing of that: a conversation is stopped, or its agent ends, while the driver
/// has still something to tell.
bool is_dealt_with(const v1::Conversation& c, const v1::Spawn& row) { return c.generation() != row.attempt() || c.state() == v1::Conversation::LOST; }

void on_heard(self_ptr self) {
  self->state.heard = true;
  if (auto end = std::exchange(self->state.once_heard, nullptr))
    end();
}

template <class Then>
void ask_conversation(self_ptr self, Then then) {
  const auto& st = self->state;
  auto q =
    internal_query(*st.place.links.node, st.place.scope, [&](v1::Query& x) { x.mutable_list_conversations()->set_id(st.row.conversation_id()); });
  self->request(st.place.links.readers.front(), limits::call_deadline_default(), q)
    .then([then](const answer_ptr& a) { then(a->conversations().conversations_size() == 1 ? &a->conversations().conversations(0) : nullptr); },
          [self](caf::error& e) { give_up(self, "its conversation could not be read", e); });
}

/// What the driver has told last stands in its pipe, and is gone when its end is recorded: its conversation reads it first.
void once_heard(self_ptr self, std::function<void()> end) {
  auto& st = self->state;
  if (!is_driver(st.row) || st.heard)
    return end();
  if (std::exchange(st.once_heard, std::move(end)))
    return;
  st.phase = "being heard out";
  self->delayed_send(self, limits::restart_grace(), tick_atom_v);
  ask_conversation(self, [self](const v1::Conversation* c) {
    if (!c || is_dealt_with(*c, self->state.row))
      on_heard(self);
  });
}

void end_of_child(self_ptr self, const child_info& child);

void on_exited(self_ptr self, const child_info& child) {
  once_heard(self, [self, child] { end_of_child(self, child); });
}

void end_of_child(self_ptr self, const child_info& child) {
  auto& st = self->state;
  auto ring = child.ring ? child.ring : st.child.ring;
  st.child = child;
  st.child.ring = ring;
  // A keeper that died took the program with it: that is the host's loss, not the program's answer.
  auto lost = child.exit_status < 0;
  if (lost) {
    st.child.exit_status = 0;
    if (st.row.started_at_ms() > 0)
      st.child.duration_ms = std::max<std::int64_t>(st.place.links.node->clock->unix_ms() - st.row.started_at_ms(), 0);
  }
  report_end(self, lost ? "node_restarted" : child.ended_on_request ? "killed" : "", false);
}

void register_worker(self_ptr self, const child_info& child) {
  const auto& st = self->state;
  const auto& node = *st.place.links.node;
  v1::Principal who;
  who.set_kind(v1::Principal::SESSION);
  who.set_id(st.row.session_id());
  *who.mutable_grants() = st.row.grants();
  node.workers->put(child.pid, std::move(who), sha256(from_hex(worker_token(node.facts, st.row))), st.row.grant_ends());
}

void drive_agent(self_ptr self) {
  auto& st = self->state;
  if (!st.agent && !is_driver(st.row) && domain::is_agent(st.row.harness()))
    st.agent = self->spawn<caf::monitored>(agent, st.place, st.row.session_id(), agents::has_early_hooks(st.row.harness()));
}

void open_gate(self_ptr self) {
  auto& st = self->state;
  st.phase = "running";
  register_worker(self, st.child);
  caf::anon_send(st.place.links.processes, gate_atom_v, st.place.id);
  drive_agent(self);
}

/// The row does not want this process any more (its task was cancelled, the attempt is over): it never leaves the gate.
void turn_away(self_ptr self, const v1::Refusal& why) {
  log::warn({"spawn ", self->state.place.id, ": refused: ", why.text()});
  caf::anon_send(self->state.place.links.processes, abort_atom_v, self->state.place.id);
  report_end(self, "spawn_failed: " + why.text(), true);
}

/// The last commit before the program runs.
void commit_running(self_ptr self) {
  auto running = command(self, [&](v1::Command& c) {
    c.mutable_spawn_running()->set_spawn_id(self->state.place.id);
    c.mutable_spawn_running()->set_attempt(self->state.row.attempt());
  });
  ask_writer(
    self, self->state.place.links.writer, running,
    [self](const reply_ptr& r) {
      if (self->state.ending)
        return; // died at the gate meanwhile
      r->has_refusal() ? turn_away(self, r->refusal()) : open_gate(self);
    },
    [self](caf::error& e) { give_up(self, "its start could not be recorded", e); });
}

/// Refused, or told already by an earlier activation of ourselves that did not live to hear the answer? The row knows.
void start_refused(self_ptr self, const v1::Refusal& why) {
  const auto& st = self->state;
  auto q = internal_query(*st.place.links.node, st.place.scope, [&](v1::Query& x) {
    x.mutable_list_spawns()->set_live_only(true);
    x.mutable_list_spawns()->set_task_id(st.row.task_id());
  });
  self->request(st.place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self, why](const answer_ptr& a) {
        const auto& s = self->state;
        for (const auto& row : a->spawns().spawns())
          if (row.id() == s.place.id && row.attempt() == s.row.attempt() && row.pid() == s.child.pid && row.pid_start() == s.child.pid_start)
            return commit_running(self);
        turn_away(self, why);
      },
      [self](caf::error& e) { give_up(self, "its row could not be read", e); });
}

/// The process stands at the gate. Only after its pid is committed, and it is the one process of this attempt, may it run.
void commit_start(self_ptr self, const child_info& child) {
  auto& st = self->state;
  st.child = child;
  st.phase = "at gate";
  auto starting = command(self, [&](v1::Command& c) {
    auto* s = c.mutable_spawn_starting();
    s->set_spawn_id(st.place.id);
    s->set_attempt(st.row.attempt());
    s->set_pid(child.pid);
    s->set_pid_start(child.pid_start);
    s->set_token_hash(sha256(from_hex(worker_token(st.place.links.node->facts, st.row))));
  });
  ask_writer(
    self, st.place.links.writer, starting,
    [self](const reply_ptr& r) {
      if (self->state.ending)
        return;
      r->has_refusal() ? start_refused(self, r->refusal()) : commit_running(self);
    },
    [self](caf::error& e) { give_up(self, "its start could not be recorded", e); });
}

/// Where it runs: a directory below the scope's checkout here, or just that.
std::string directory_of(const entity_place& place, const v1::Spawn& row) {
  const auto* cluster = place.links.node->cluster;
  return cluster ? path_from(cluster->checkout_of(place.scope), row.directory()) : row.directory();
}

/// Of what its own rows say a home knows who asked. What another home says, and who takes that over, is believed only with this node's own seal.
bool is_asked_elsewhere(const entity_place& place, const v1::Spawn& row) {
  const auto& node = *place.links.node;
  if (!node.cluster)
    return false;
  const auto& from = row.requested_by().node();
  if (place.links.home.empty())
    return !from.empty() && from != node.facts.node_id;
  return from != node.facts.node_id || !domain::is_sealed_here(row, place.scope, {node.facts.node_id, node.facts.token_key});
}

/// Why this node does not run it; empty = it does. What others ask for, its own rules decide.
std::string obstacle_here(const entity_place& place, const v1::Spawn& row, const std::string& directory) {
  const auto& node = *place.links.node;
  if (directory.empty() || directory.front() != '/')
    return concat({"the node ", node.facts.node_name, " has no checkout of the scope ", place.scope,
                   ", or another repository lies there by now (`swarmctl scope list` names it); run `swarmctl scope share` in one"});
  if (!is_asked_elsewhere(place, row))
    return {};
  // As the rules mean it, whatever links and dots lead there.
  std::error_code ec;
  auto resolved = std::filesystem::canonical(directory, ec);
  if (ec)
    return concat({"there is no directory ", directory, " on the node ", node.facts.node_name});
  auto why = domain::refused_spawn(node.cluster->accepts(), row, resolved.string());
  // Its worktree has all of the repository.
  if (auto tree = !why && row.worktree() ? find_git_tree(resolved.string()) : std::nullopt)
    why = domain::refused_spawn(node.cluster->accepts(), row, tree->repository);
  return why ? concat({"the node ", node.facts.node_name, " does not start it: ", *why}) : std::string{};
}

/// What another node has asked for it cannot have looked up here; an agent is this node's program of that name, whatever they call it.
std::string complete_argv(const entity_place& place, const v1::Spawn& row, const std::string& directory, std::vector<std::string>& argv,
                          const std::vector<std::string>& environment) {
  if (domain::is_agent(row.harness()) && is_asked_elsewhere(place, row))
    argv.clear();
  if (!argv.empty())
    return {};
  if (row.harness() == domain::shell_harness) {
    auto shell = variable(environment, "SHELL");
    argv.push_back(shell.empty() ? "/bin/sh" : shell);
    return {};
  }
  auto found = find_program(row.harness(), search_path(environment), directory);
  if (!found)
    return concat({"the harness ", row.harness(), " is not installed on this node: there is no program ", row.harness(), " on PATH"});
  argv.push_back(*found);
  return {};
}

/// It starts through `swarmctl worktree exec`, which makes the worktree. Why that cannot be; empty = it can.
std::string wrap_in_worktree(const entity_place& place, const std::string& directory, std::vector<std::string>& argv,
                             const std::vector<std::string>& environment) {
  if (!find_git_tree(directory))
    return concat({"a worker with a worktree of its own needs a git repository, and ", directory, " on the node ", place.links.node->facts.node_name,
                   " is in none"});
  if (!find_program("git", search_path(environment), directory))
    return concat({"a worker with a worktree of its own needs git, which the node ", place.links.node->facts.node_name, " does not have on PATH"});
  argv.insert(argv.begin(), {place.links.node->facts.program_dir + "/swarmctl", "worktree", "exec", "--"});
  return {};
}

start_request_ptr start_request(const spawn_state& st, const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  const auto size = terminal_size(st.row);
  auto r = std::make_shared<internal::StartChild>();
  r->set_id(st.place.id);
  r->set_attempt(st.row.attempt());
  r->mutable_argv()->Assign(argv.begin(), argv.end());
  r->mutable_environment()->Assign(environment.begin(), environment.end());
  r->set_directory(st.directory);
  r->set_columns(size.columns());
  r->set_rows(size.rows());
  r->set_pipes(st.row.pipes() || is_driver(st.row));
  r->set_no_input(st.row.no_input());
  r->set_ring_bytes(static_cast<std::uint32_t>(limits::pty_ring_bytes()));
  return r;
}

result<resolved_variables, std::string> configured_variables(const node_facts& facts, const std::string& harness) {
  const auto i = facts.agent_environment.find(harness);
  return i == facts.agent_environment.end() ? resolved_variables{} : resolve(i->second, harness, secrets_directory(facts.dir.root));
}

/// A conversation's agent runs below its driver.
void wrap_in_driver(const spawn_state& st, std::vector<std::string>& argv) {
  std::vector<std::string> driver{st.place.links.node->facts.program_dir + "/swarm-driver", st.row.harness()};
  if (!st.native_session.empty())
    driver.insert(driver.end(), {"--resume", st.native_session});
  driver.insert(driver.end(), {"--generation", std::to_string(st.row.attempt()), "--limits", agents::driver_limits(), "--"});
  argv.insert(argv.begin(), driver.begin(), driver.end());
}

void start_program(self_ptr self);

void start(self_ptr self) {
  if (!is_driver(self->state.row))
    return start_program(self);
  ask_conversation(self, [self](const v1::Conversation* c) {
    if (!c || c->generation() != self->state.row.attempt())
      return report_end(self, "spawn_failed: its conversation does not want it any more", true);
    self->state.native_session = c->native_session();
    start_program(self);
  });
}

void start_program(self_ptr self) {
  auto& st = self->state;
  st.phase = "starting";
  if (auto why = obstacle_here(st.place, st.row, st.directory); !why.empty())
    return report_end(self, "spawn_failed: " + why, true);
  if (is_asked_elsewhere(st.place, st.row))
    st.environment.clear(); // a caller's is for what the caller asked for
  const auto configured = configured_variables(st.place.links.node->facts, st.row.harness());
  if (!configured)
    return report_end(self, "spawn_failed: " + configured.failure(), true);
  auto environment = worker_environment(st.place.links.node->facts, st.row, st.directory, st.place.scope, st.environment, configured->list);
  const auto start = how_to_start(st.place.links.node->facts, st.row, st.directory, environment);
  if (auto why = agents::obstacle(st.row.harness(), start); !why.empty())
    return report_end(self, "spawn_failed: " + why, true);
  std::vector<std::string> argv{st.row.argv().begin(), st.row.argv().end()};
  if (auto why = complete_argv(st.place, st.row, st.directory, argv, environment); !why.empty())
    return report_end(self, "spawn_failed: " + why, true);
  for (auto& argument : agents::arguments(st.row.harness(), start))
    argv.push_back(std::move(argument));
  if (is_driver(st.row))
    wrap_in_driver(st, argv);
  if (st.row.worktree())
    if (auto why = wrap_in_worktree(st.place, st.directory, argv, environment); !why.empty())
      return report_end(self, "spawn_failed: " + why, true);
  self
    ->request(st.place.links.processes, limits::call_deadline_default(), start_request(st, argv, environment), caf::actor_cast<spawn_actor>(self),
              row_of(self))
    .then([self](const child_info_ptr& c) { commit_start(self, *c); },
          [self](caf::error& e) {
            if (!is_verdict(e))
              return give_up(self, "its start was interrupted", e);
            // It must not come to its gate later, for a row that has ended.
            caf::anon_send(self->state.place.links.processes, abort_atom_v, self->state.place.id);
            report_end(self, "spawn_failed: " + runtime::error_text(e), true);
          });
}

void end_unwanted(self_ptr self) {
  self->state.unwanted = true;
  caf::anon_send(self->state.place.links.processes, kill_atom_v, self->state.place.id, std::int32_t{0});
}

/// A command, or a shell, was started for its task alone. An agent may have other work by now.
bool ends_with_task(const v1::Spawn& row) {
  return !row.task_id().empty() && (row.harness() == domain::exec_harness || row.harness() == domain::shell_harness);
}

/// The task may have been cancelled while nobody was there to end its worker.
void end_if_cancelled(self_ptr self) {
  const auto& st = self->state;
  if (!ends_with_task(st.row))
    return;
  auto q = internal_query(*st.place.links.node, st.place.scope, [&](v1::Query& x) { x.mutable_get_task()->set_task_id(st.row.task_id()); });
  self->request(st.place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self](const answer_ptr& a) {
        if (a->task().status() == v1::CANCELLED)
          end_unwanted(self);
      },
      [self](caf::error& e) { give_up(self, "its task could not be read", e); });
}

/// What the keeper has, against what the row says.
void reconcile(self_ptr self, const child_info& child) {
  auto& st = self->state;
  auto same = child.exists && child.attempt == st.row.attempt();
  if (st.unwanted && same && !child.exited) {
    st.child = child;
    return end_unwanted(self); // it may not have been there when it was told before
  }
  if (st.unwanted && !same && st.row.status() == v1::Spawn::REQUESTED)
    return report_end(self, "spawn_failed: it was not wanted any more before it began", true);
  if (st.row.status() == v1::Spawn::REQUESTED)
    return same && !child.exited ? commit_start(self, child) : start(self);
  if (!same) {
    // A log that ends behind its row would say for ever that a turn is open.
    if (st.row.status() == v1::Spawn::RUNNING)
      return once_heard(self, [self] { report_end(self, "node_restarted", false); });
    return report_end(self, "node_restarted", false);
  }
  st.child = child;
  if (child.exited)
    return on_exited(self, child);
  if (!child.at_gate) {
    st.phase = "running";
    register_worker(self, child);
    drive_agent(self);
    return end_if_cancelled(self);
  }
  // Committed as starting or running before a crash, but never let go.
  if (st.row.status() == v1::Spawn::RUNNING)
    return open_gate(self);
  commit_running(self);
}

} // namespace

spawn_actor::behavior_type spawn(self_ptr self, entity_place place, v1::Spawn row, std::vector<std::string> environment) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.place = std::move(place);
  st.row = std::move(row);
  st.directory = directory_of(st.place, st.row);
  st.environment = std::move(environment);
  st.phase = "asking the keeper";
  // It has asked somebody who is being replaced. Our own restart, with the new ones, makes it again.
  self->set_down_handler([self](caf::down_msg& dm) {
    if (self->state.agent && dm.source == self->state.agent.address() && !self->state.ending)
      give_up(self, "its agent is not watched any more", dm.reason);
  });
  self->request(st.place.links.processes, limits::call_deadline_default(), child_atom_v, row_of(self), caf::actor_cast<spawn_actor>(self))
    .then([self](const child_info_ptr& c) { reconcile(self, *c); },
          [self](caf::error& e) {
            if (is_verdict(e) && self->state.row.status() == v1::Spawn::REQUESTED) {
              // What a keeper that comes back later still holds at its gate for us has no future.
              caf::anon_send(self->state.place.links.processes, abort_atom_v, self->state.place.id);
              report_end(self, "spawn_failed: " + runtime::error_text(e), true);
            } else
              give_up(self, "the keeper does not answer", e);
          });
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> { return self->delegate(self->state.place.links.writer, exec); },
    [self](const batch_ptr& b) {
      auto& s = self->state;
      for (const auto& p : b->patches()) {
        if (p.has_spawn() && p.spawn().id() == s.place.id) {
          const auto& said = p.spawn();
          // Its home has given it up while this node was away; another one may do its work by now.
          auto over = said.attempt() > s.row.attempt() || !domain::is_live(said);
          if (over && !s.place.links.home.empty() && !s.ending)
            end_unwanted(self);
          if (said.attempt() == s.row.attempt())
            s.row = said;
        }
        if (p.has_conversation() && p.conversation().id() == s.row.conversation_id() && is_dealt_with(p.conversation(), s.row) && s.once_heard)
          on_heard(self);
        // Its worker has nobody left to report to.
        if (p.has_task() && p.task().id() == s.row.task_id() && p.task().status() == v1::CANCELLED && ends_with_task(s.row))
          end_unwanted(self);
      }
    },
    [self](gone_atom) {
      if (!self->state.ending)
        end_unwanted(self);
    },
    [self](tick_atom, const execution_ptr& end) { record_end(self, end); },
    [self](tick_atom) { on_heard(self); },
    [](passivate_atom) { return false; }, // it ends with its worker
    [self](tree_atom) {
      return runtime::self_row(self, self->state.phase, self->state.child.pid != 0 ? "pid " + std::to_string(self->state.child.pid) : "");
    },
    [self](const keeper_news_ptr& news) {
      auto& s = self->state;
      if (news->child.attempt != s.row.attempt())
        return; // of the one before, whose place ours takes
      auto listed = news->kind == keeper_news::child_listed;
      if (news->kind == keeper_news::exited || (listed && news->child.exited))
        return on_exited(self, news->child);
      // The keeper was away for a while: what it was told just then may not have reached it.
      if (listed && news->child.at_gate && s.phase == "running")
        caf::anon_send(s.place.links.processes, gate_atom_v, s.place.id);
      if (listed && s.unwanted)
        caf::anon_send(s.place.links.processes, kill_atom_v, s.place.id, std::int32_t{0});
    },
  };
}

} // namespace swarm
