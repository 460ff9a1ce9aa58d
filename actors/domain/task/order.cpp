// Worker processes from the request to the moment the node takes over.
#include <algorithm>
#include <set>
#include <sstream>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/sender_name.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

constexpr const char* deferred_intent = "deferred";
constexpr std::string_view launch_mark = "launch:";
constexpr std::int64_t minute_ms = 60'000;
/// What telling somebody takes besides the text: its event, and the words around it.
constexpr std::size_t told_bytes = 16 * limits::kib;

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> out;
  for (std::string w; in >> w;)
    out.push_back(w);
  return out;
}

std::vector<std::string> sorted(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<std::string> out(texts.begin(), texts.end());
  std::sort(out.begin(), out.end());
  return out;
}

/// It works where, as what and with the rights with which the other would be started.
bool is_like(const transaction& tx, const v1::Spawn& driver, const v1::Spawn& other) {
  const auto now = tx.in().now_ms;
  return driver.harness() == other.harness() && driver.directory() == other.directory() && driver.grant_ends().empty() &&
         other.grant_ends().empty() && std::equal(driver.argv().begin(), driver.argv().end(), other.argv().begin(), other.argv().end()) &&
         sorted(grants_at(driver.grants(), driver.grant_ends(), now)) == sorted(grants_at(other.grants(), other.grant_ends(), now));
}

/// Whoever is on a terminal is told of any task; a conversation begins it at once, with what it has.
bool may_take(const transaction& tx, const v1::Session& s, const worker_wish& w) {
  const auto driver = s.spawn_id().empty() ? std::nullopt : tx.get<v1::Spawn>(key(s.spawn_id()));
  if (!driver || driver->conversation_id().empty())
    return true;
  return w.permissions && (!w.described || is_like(tx, *driver, *w.described)) && waits_for_task(tx, driver->conversation_id(), *w.permissions);
}

std::string one_word(std::string_view text) {
  std::string out(text);
  std::replace_if(
    out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; }, '_');
  return out;
}

// The row the worker's process will adopt. Until then it lives by a lease, so that a request nobody serves leaves nothing.
v1::Session prepare_session(transaction& tx, const v1::Spawn& spawn) {
  auto s = worker_session(tx, spawn, tx.in().new_uuid());
  s.set_heartbeat_ms(tx.in().now_ms);
  s.set_lease_until_ms(tx.in().now_ms + limits::spawn_session_lease().count());
  s.set_presence(v1::Session::LEASE);
  put_registered(tx, s, false);
  return s;
}

/// The fields that both commands have.
template <class Command>
v1::Spawn row_of(const Command& c) {
  v1::Spawn s;
  s.set_id(c.order().spawn_id());
  s.set_seal(c.order().seal());
  s.set_harness(c.harness());
  *s.mutable_argv() = c.argv();
  *s.mutable_grants() = c.grants();
  s.set_retries_left(c.retries());
  s.set_columns(c.columns());
  s.set_rows(c.rows());
  s.set_worktree(c.worktree());
  s.set_pipes(c.pipes());
  s.set_on(c.on());
  *s.mutable_where() = c.where();
  s.set_node_id(c.node_id());
  s.set_placement(c.placement());
  return s;
}

/// Each worker's own launch token is added when it is ordered.
std::string label_without_launch(const std::string& label) {
  std::string out;
  for (const auto& token : words(label))
    if (!token.starts_with(launch_mark))
      out += (out.empty() ? "" : " ") + token;
  return out;
}

/// How many of those spawns the caller has asked for.
std::size_t of_caller(const transaction& tx, const spawn_filter& f) {
  const auto mine = principal_key(tx.command().principal());
  const auto found = tx.find<v1::Spawn>(f);
  return static_cast<std::size_t>(
    std::count_if(found.begin(), found.end(), [&](const auto& s) { return !s.harness().empty() && principal_key(s.requested_by()) == mine; }));
}

/// Tells a live worker of the task as a dispatch does, in the name of the task's requester. A text that does not fit into the command is
/// left out: the task has it.
void tell_live_worker(transaction& tx, const v1::Task& task, const v1::Spawn& order) {
  const auto identity = identity_token(order.label());
  const auto worker = live_worker(tx, {.role = order.role(), .identity = identity, .requester = task.requester()});
  if (!worker)
    return; // a worker that looks for work finds it
  // The reply may repeat the task.
  const bool fits = tx.has_room(message_of(task).size() + task.ByteSizeLong() + told_bytes);
  prompt(tx, task.requester(), worker->id(), instruction(task, fits ? message_of(task) : task.title()), task.id());
}

} // namespace

v1::Session worker_session(const transaction& tx, const v1::Spawn& spawn, std::string id) {
  v1::Session s;
  s.set_id(std::move(id));
  s.set_scope(tx.scope());
  s.set_directory(spawn.directory());
  const bool below = !spawn.directory().empty() && spawn.directory().front() != '/'; // the root of whatever checkout it gets
  const bool inside = !is_named_scope(tx.scope()) && is_inside(tx.scope(), spawn.directory());
  s.set_root(below ? "." : inside ? tx.scope() : spawn.directory());
  s.set_file_root(spawn.directory());
  s.set_label(spawn.label());
  *s.mutable_grants() = spawn.grants();
  *s.mutable_grant_ends() = spawn.grant_ends();
  s.set_registered_at_ms(tx.in().now_ms);
  s.set_node_id(spawn.node_id());
  s.set_spawn_id(spawn.id());
  s.set_identity(effective_identity(spawn.label(), tx.in()));
  return s;
}

std::vector<v1::Spawn> live_orders_of(const transaction& tx, const std::string& task_id) {
  spawn_filter f;
  f.scope = tx.scope();
  f.task_id = task_id;
  f.live = true;
  return tx.find<v1::Spawn>(f);
}

std::optional<v1::Session> live_worker(const transaction& tx, const worker_wish& w) {
  session_filter f;
  f.scope = tx.scope();
  f.adopted = true;
  const auto mark = "role:" + std::string(w.role);
  // Nobody reads messages in a command or a plain shell. An agent that begins in one has a label of its own.
  const auto reads = [](const v1::Session& s) { return !has_token(s.label(), "provider:exec") && !has_token(s.label(), "provider:shell"); };
  std::optional<v1::Session> generalist;
  for (auto& s : tx.find<v1::Session>(f)) {
    if (s.id() == w.requester || !reads(s) || !may_take(tx, s, w) || (!w.identity.empty() && identity_token(s.label()) != w.identity) ||
        (!w.node_id.empty() && s.node_id() != w.node_id))
      continue;
    if (has_token(s.label(), mark))
      return std::move(s);
    // A coordinator hands work out: another one's task would lie in its mail, and nobody would be started.
    const bool coordinates = has_token(s.label(), gateway_token) && role_of(s.label()).empty();
    if (!generalist && !coordinates && (has_token(s.label(), "role:generalist") || role_of(s.label()).empty()))
      generalist = std::move(s);
  }
  return generalist;
}

void issue_spawn(transaction& tx, v1::Spawn& spawn) {
  spawn.set_status(v1::Spawn::REQUESTED);
  spawn.set_session_id(prepare_session(tx, spawn).id());
  tx.put(spawn);
  tx.event("spawn.requested", spawn.id(),
           {{"role", spawn.role()},
            {"key", spawn.key()},
            {"harness", spawn.harness()},
            {"task_id", spawn.task_id()},
            {"session_id", spawn.session_id()},
            {"attempt", spawn.attempt()}});
}

void next_attempt(v1::Spawn& s) {
  s.set_attempt(s.attempt() + 1);
  s.clear_pid();
  s.clear_pid_start();
  s.clear_pty_id();
  s.clear_started_at_ms();
  s.clear_ended_at_ms();
  s.clear_exit_status();
  s.clear_signal();
  s.clear_reason();
  s.set_fence(0);
}

v1::Spawn described_worker(const v1::RequestSpawn& c) { return row_of(c); }

v1::Spawn described_worker(const v1::Dispatch& c) {
  auto s = row_of(c);
  s.set_no_input(c.no_input());
  s.set_passed_input(c.passes_input());
  s.set_has_variables(!c.variables_digest().empty());
  return s;
}

v1::Dispatch dispatch_like(const v1::Spawn& s, std::int64_t now_ms) {
  v1::Dispatch d;
  d.set_role(s.role());
  d.set_harness(s.harness());
  d.set_label(label_without_launch(s.label()));
  d.set_directory(s.directory());
  *d.mutable_argv() = s.argv();
  // Not as many as were asked for at first: `attempt` counts moves to other nodes as well, and a command must not run more often than asked for.
  d.set_retries(s.retries_left());
  d.set_columns(s.columns());
  d.set_rows(s.rows());
  // What was given for a time is not given anew: the rest of it is, and nothing of what has ended.
  *d.mutable_grants() = grants_at(s.grants(), s.grant_ends(), now_ms);
  for (const auto& end : s.grant_ends())
    if (end.until_ms() > now_ms) {
      auto& time = *d.add_grant_times();
      time.set_grant(end.grant());
      time.set_for_ms(end.until_ms() - now_ms);
    }
  d.set_worktree(s.worktree());
  d.set_on(s.on());
  *d.mutable_where() = s.where();
  d.set_structured(!s.conversation_id().empty());
  d.set_on_terminal(!d.structured());
  d.set_pipes(s.pipes() && !d.structured());
  d.set_no_input(s.no_input());
  return d;
}

v1::Spawn order_worker(transaction& tx, v1::Spawn s, bool deferred) {
  if (s.id().empty())
    s.set_id(tx.in().new_uuid());
  s.set_scope(tx.scope());
  if (s.node_id().empty())
    s.set_node_id(tx.in().node_id);
  s.set_status(v1::Spawn::REQUESTED);
  s.set_requested_at_ms(tx.in().now_ms);
  s.set_attempt(1);
  *s.mutable_requested_by() = tx.command().principal();
  if (deferred) {
    s.set_intent(deferred_intent);
    tx.put(s);
  } else {
    issue_spawn(tx, s);
  }
  return s;
}

void release_deferred_spawn(transaction& tx, const v1::Task& task) {
  for (auto& order : live_orders_of(tx, task.id())) {
    if (order.harness().empty()) {
      tx.erase(order);
      tell_live_worker(tx, task, order);
    } else if (order.session_id().empty()) {
      order.set_intent(task.title());
      issue_spawn(tx, order);
      deferred_driver_ordered(tx, order);
    }
  }
}

void drop_unstarted_spawns(transaction& tx, const v1::Task& task) {
  for (auto& spawn : live_orders_of(tx, task.id())) {
    if (spawn.harness().empty()) {
      tx.erase(spawn);
      continue;
    }
    if (spawn.status() != v1::Spawn::REQUESTED)
      continue;
    spawn.set_status(v1::Spawn::FAILED);
    spawn.set_reason(std::string("task is ") + to_text(task.status()));
    spawn.set_ended_at_ms(tx.in().now_ms);
    tx.put(spawn);
    tx.event("spawn.failed", spawn.id(), {{"reason", spawn.reason()}, {"task_id", spawn.task_id()}, {"attempt", spawn.attempt()}});
    if (auto session = tx.get<v1::Session>(key(spawn.session_id())); session && !spawn.session_id().empty())
      end_session(tx, *session, "instance.deregistered", false, nullptr);
    driver_dropped(tx, spawn);
  }
}

std::optional<v1::Reply> check_spawn_authority(const transaction& tx, std::string_view verb) {
  const auto& principal = tx.command().principal();
  if (acts_as_operator(tx))
    return std::nullopt;
  const auto me = tx.acting_session();
  if (me && has_token(me->label(), gateway_token))
    return std::nullopt;
  if (tx.command().caller().allow_spawn() && holds_outright(principal, rights::who_starts_workers))
    return std::nullopt;
  return refuse(v1::Refusal::FORBIDDEN,
                std::string(verb) +
                  " is gateway-only. Use a requester labeled mode:gateway, or set SWARM_MCP_ALLOW_SPAWN=1 from a trusted operator shell.");
}

std::optional<v1::Reply> check_spawn_quota(const transaction& tx) {
  v1::Spawn a_minute_ago;
  a_minute_ago.set_requested_at_ms(std::max<std::int64_t>(tx.in().now_ms - minute_ms, 0));
  spawn_filter f;
  f.scope = tx.scope();
  f.after_id = position(a_minute_ago);
  if (of_caller(tx, f) >= limits::principal_spawns_per_minute_max())
    return refuse(v1::Refusal::LIMIT, "More than " + std::to_string(limits::principal_spawns_per_minute_max()) +
                                        " workers were asked for within a minute. Try again in a minute.");
  // Rarely is anybody near the bound: those of all callers are counted before the rows are looked at.
  const spawn_filter live{.scope = tx.scope(), .live = true};
  if (tx.count<v1::Spawn>(live) >= limits::principal_spawns_live_max() && of_caller(tx, live) >= limits::principal_spawns_live_max())
    return refuse(v1::Refusal::LIMIT, "You have " + std::to_string(limits::principal_spawns_live_max()) +
                                        " workers that have not ended. Wait for some, or cancel the tasks they wait for.");
  return std::nullopt;
}

std::optional<v1::Reply> check_worker(const v1::Spawn& s, std::string_view scope) {
  if (!is_harness(s.harness()))
    return refuse(v1::Refusal::INVALID, "Unknown harness \"" + s.harness() + "\". Known harnesses: " + harness_names() + ".");
  if (s.harness() == exec_harness && (s.argv().empty() || s.argv(0).empty()))
    return refuse(v1::Refusal::INVALID, "harness exec needs a command. Give it after --, for instance: -- sh -c 'make test'");
  if (s.pipes() && is_agent(s.harness()))
    return refuse(v1::Refusal::INVALID,
                  "The harness " + s.harness() + " needs a terminal. Leave --pipes out, or give a command to the harness exec.");
  const bool below = is_named_scope(scope) && is_resolved_path(s.directory());
  if (s.directory().empty() || (s.directory().front() != '/' && !below))
    return refuse(v1::Refusal::INVALID, "The worker's directory must be an absolute path");
  if (s.retries_left() > limits::spawn_retries_max())
    return refuse(v1::Refusal::INVALID, "retries must be at most " + std::to_string(limits::spawn_retries_max()));
  return std::nullopt;
}

std::optional<v1::Reply> check_order(const transaction& tx, const v1::Spawn& s) {
  if (s.id().empty())
    return std::nullopt;
  if (!is_uuid(s.id()))
    return refuse(v1::Refusal::INVALID, "The order of the node does not name the spawn by a UUID. Update the node that was asked.", s.id());
  if (tx.get<v1::Spawn>(key(s.id())))
    return refuse(v1::Refusal::CONFLICT, "The order has been carried out already. Ask again with a new request.", s.id());
  return std::nullopt;
}

std::optional<v1::Reply> check_place(const v1::Spawn& s) {
  if (!s.node_id().empty() || s.placement().empty())
    return std::nullopt;
  return refuse(v1::Refusal::UNAVAILABLE, "No node can take this worker: " + s.placement());
}

worker_label make_worker_label(const transaction& tx, std::string_view role, std::string_view harness, std::string_view launch, std::string_view name,
                               std::string_view extra) {
  const auto me = tx.acting_session();
  const auto token = actor_identity_token(tx);
  const auto identity = me ? me->identity() : token;
  const bool may_make_gateways = !may(tx.command().principal(), operation::make_coordinators) || (me && has_token(me->label(), gateway_token));
  std::vector<std::string> tokens;
  std::set<std::string> seen;
  const auto add = [&](std::string t) {
    if (!t.empty() && seen.insert(t).second)
      tokens.push_back(std::move(t));
  };
  add(token);
  add("role:" + one_word(role));
  add("provider:" + std::string(harness));
  add(concat({launch_mark, launch}));
  if (!name.empty())
    add("name:" + one_word(name));
  for (auto& t : words(extra)) {
    if ((me || !identity.empty()) && t.rfind("identity:", 0) == 0 && t != identity)
      return {{}, refuse(v1::Refusal::CROSS_IDENTITY, concat({"Spawn label identity ", t, " does not match requester ", identity}))};
    if (t == gateway_token && !may_make_gateways)
      return {{}, refuse(v1::Refusal::FORBIDDEN, "Only a coordinator may ask for another one. Leave mode:gateway out of the worker's label.")};
    add(std::move(t));
  }
  worker_label out;
  for (const auto& t : tokens)
    out.text += (out.text.empty() ? "" : " ") + t;
  if (out.text.size() > limits::label_bytes_max())
    out.refusal = refuse(v1::Refusal::INVALID, "The worker's label is longer than " + std::to_string(limits::label_bytes_max()) + " bytes");
  else
    out.refusal = check_no_reserved_sender(out.text);
  return out;
}

const std::string& message_of(const v1::Task& task) { return task.description().empty() ? task.title() : task.description(); }

std::string instruction(const v1::Task& task, std::string_view message) {
  return "Task " + task.id() + " is ready: " + task.title() + "\n\n" + std::string(message) +
         "\n\nCall bootstrap to read your messages, claim the task with claim_task, and finish it with complete_task.";
}

} // namespace swarm::domain
