// How a hook finds, registers, greets and ends the session of its agent.
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/rules.hpp"
#include "cli/hook/agent_process.hpp"
#include "cli/hook/run_internal.hpp"
#include "cli/profile.hpp"
#include "gateway/session/ambient_block.hpp"
#include "gateway/session/register.hpp"

#include <algorithm>

#include <unistd.h>

namespace swarm::cli {

/// A worker's session was made by the node that started it, which names it in the environment.
hook_memory hook_run::session_of_environment() const {
  const auto& env = cli_.env();
  hook_memory m;
  m.id = env.get("SWARM_MCP_INSTANCE_ID");
  m.directory = normalize_path(env.get("SWARM_MCP_DIRECTORY").empty() ? place_ : env.get("SWARM_MCP_DIRECTORY"), cli_.directory());
  m.root = git_root(m.directory);
  auto file_root = env.get("SWARM_MCP_FILE_ROOT");
  m.file_root = file_root.empty() ? m.directory : normalize_path(file_root, cli_.directory());
  m.scope = cli_.scope_of(m.directory);
  m.coordinator = domain::has_token(env.get("SWARM_MCP_LABEL"), "mode:gateway");
  return m;
}

hook_memory hook_run::known_session() const {
  auto known = store_.load();
  if (!known && agent_session_.empty() && !worker_)
    known = hook_store::only_one(state_directory_, agent_.name);
  if (worker_ && (!known || known->id != cli_.env().get("SWARM_MCP_INSTANCE_ID")))
    return session_of_environment();
  return known.value_or(hook_memory{});
}

v1::Session hook_run::worker_session() const {
  auto q = query();
  auto who = cli_.env().get("SWARM_MCP_INSTANCE_ID");
  q.mutable_find_session()->set_who(who);
  auto answer = ask(q);
  if (answer.has_refusal() || answer.session().id() != who)
    return {};
  return answer.session();
}

/// The session that the node takes this process for: its agent's. Nothing for an agent that has none here yet, and for a person. A node that
/// does not know such a question answers with the only session there is, which has no agent.
std::optional<v1::Session> hook_run::session_of_caller() const {
  auto q = query();
  q.mutable_find_session()->set_own(true);
  auto answer = ask(q);
  return answer.session().agent_root().empty() ? std::nullopt : std::optional{answer.session()};
}

std::vector<v1::Session> hook_run::sessions() const {
  auto q = query();
  q.mutable_list_sessions();
  return mcp::rows_of_pages<v1::Session>(std::move(q), [this](const v1::Query& x) { return ask_or_throw(x); });
}

std::optional<v1::Session> hook_run::session_of_tool_server(const std::vector<v1::Session>& all, const std::string& me) const {
  return tool_server_session(all, me, [&](const std::string& id) { return store_.is_anothers(id); });
}

/// From now on the hooks speak for this session.
void hook_run::speak_for(const v1::Session& s, bool registered) {
  auto take = [&](hook_memory& m) {
    if (m.id != s.id())
      for (auto& [path, lock] : m.taken)
        lock.fence = 0; // it was the former session's; the calls that write under it go on
    m.id = s.id();
    m.scope = s.scope();
    m.directory = s.directory();
    m.root = s.root();
    m.file_root = s.file_root();
    m.registered = registered;
    m.coordinator = me_.coordinator;
  };
  take(me_);
  remember([&](hook_memory& m) {
    take(m);
    return true;
  });
}

/// The agent's tool server may have registered a session of its own, before the first event or later. That session is then the agent's, and
/// the hook's own one ends.
void hook_run::look_for_tool_server() {
  if (worker_ || me_.scope.empty() || std::exchange(looked_, true))
    return;
  auto all = sessions();
  auto found = session_of_tool_server(all, me_.id);
  if (!found || found->id() == me_.id)
    return;
  auto former = me_.id;
  speak_for(*found, false);
  // The former session is ended only while it lives by its lease: otherwise a tool server has taken it over.
  if (std::any_of(all.begin(), all.end(), [&](const v1::Session& s) { return s.id() == former && s.presence() == v1::Session::LEASE; })) {
    auto c = command();
    c.set_actor(former);
    c.mutable_deregister_session()->set_session_id(former);
    try {
      decide(c);
    } catch (const failure& f) {
      note(std::string{"the former session could not be ended: "} + f.what());
    }
  }
}

/// Looks for the tool server's session before it calls a session somebody else's.
bool hook_run::is_me(const std::string& session) {
  if (session != me_.id && !session.empty())
    look_for_tool_server();
  return session == me_.id;
}

v1::Session hook_run::find_or_register(const hook_identity& identity, const std::string& scope, const std::string& directory) {
  const auto& env = cli_.env();
  me_.scope = scope;
  if (!env.get("SWARM_MCP_INSTANCE_ID").empty())
    if (auto present = worker_session(); !present.id().empty())
      return present;
  if (worker_)
    throw failure(code::refused, "the worker's session " + env.get("SWARM_MCP_INSTANCE_ID") + " is not there");
  // A row that lives by its lease is registered again: that renews it.
  if (auto own = session_of_caller(); own && own->presence() != v1::Session::LEASE && !store_.is_anothers(own->id()))
    return *own;
  if (auto server = session_of_tool_server(sessions(), store_.load().value_or(hook_memory{}).id))
    return *server;
  auto file_root = identity.file_root.empty() ? env.get("SWARM_MCP_FILE_ROOT") : identity.file_root;
  auto c = command();
  auto* body = c.mutable_register_session();
  body->set_directory(directory);
  body->set_root(git_root(directory));
  body->set_file_root(file_root.empty() ? directory : normalize_path(file_root, directory));
  body->set_label(identity.label);
  body->set_preassigned_id(env.get("SWARM_MCP_INSTANCE_ID"));
  body->set_lease_ms(identity.lease_ms);
  // What is no id to the node is named by its hash.
  const bool is_id = agent_session_.size() <= limits::id_bytes_max && agent_session_.find('\0') == std::string::npos;
  body->set_agent_session(is_id ? agent_session_ : to_hex(sha256(agent_session_)));
  // The tool server of the same agent finds the session to take over by this process.
  if (auto starter = starter_of(getpid())) {
    body->set_pid(starter->pid);
    body->set_pid_start(starter->start);
  }
  check_identity_roots(cli_, env, body->label(), body->directory(), body->file_root());
  auto reply = mcp::register_in_its_scope(c, [&](const v1::Command& each) { return decide(each); });
  if (reply.has_refusal())
    throw refused(reply);
  me_.registered = true;
  if (!reply.session().note().empty())
    note(reply.session().note());
  return reply.session().session();
}

std::string hook_run::scope_for(const hook_identity& identity, const std::string& directory) const {
  return cli_.flags.scope.empty() && !identity.scope.empty() ? resolve_scope(identity.scope, directory) : cli_.scope_of(directory);
}

void hook_run::enter(const hook_identity& identity, const std::string& scope, const std::string& directory) {
  me_.registered = false;
  auto s = find_or_register(identity, scope, directory);
  me_.coordinator = domain::has_token(s.label(), "mode:gateway") || identity.coordinator;
  speak_for(s, me_.registered);
}

/// For a session that is not there, or not any more: no node answered when its agent began, the tool server that kept it ended, or its lease did.
/// False when nobody can say which session it is.
bool hook_run::enter_again() {
  if (worker_ || agent_session_.empty() || std::exchange(entered_, true))
    return false;
  const auto directory = me_.directory.empty() ? place_ : me_.directory;
  const auto identity = identity_of(agent_, cli_.env(), agent_session_, directory, cli_.scope_of(directory), event_text("platform"));
  enter(identity, me_.scope.empty() ? scope_for(identity, directory) : me_.scope, directory);
  return true;
}

void hook_run::session_start() {
  auto source = event_text("source");
  bool aloud = source.empty() || source == "startup" || source == "resume";
  // After "clear" the agent starts a new session, so it is registered again, without a greeting. After others, such as "compact", the session goes
  // on.
  if (agent_session_.empty() || (!aloud && source != "clear"))
    return;
  hook_store::remove_old(state_directory_, limits::lease_max().count());
  auto platform = event_text("platform");
  auto identity = identity_of(agent_, cli_.env(), agent_session_, place_, cli_.scope_of(place_), platform);
  auto scope = scope_for(identity, place_);
  std::string reason;
  try {
    enter(identity, scope, place_);
  } catch (const std::exception& e) {
    reason = e.what();
    me_ = {};
    me_.scope = scope;
    me_.directory = place_;
    me_.coordinator = identity.coordinator;
  }
  remember([&](hook_memory& m) {
    m = me_;
    return true;
  });
  if (me_.id.empty()) {
    note("not registered: " + reason);
    hook_greeting g;
    g.reason = reason;
    if (aloud)
      say(hook_context(agent_, event_, greeting_text(g)));
    return;
  }
  greet(identity, me_, aloud);
  report(v1::AgentReport::IDLE);
}

void hook_run::greet(const hook_identity& identity, const hook_memory& me, bool aloud) {
  hook_greeting g;
  g.id = me.id;
  g.coordinator = me.coordinator;
  try {
    if (auto tracker = work_tracker_of(agent_, cli_.env(), identity.identity, place_, me.scope)) {
      auto c = command();
      c.mutable_set_kv()->set_key(tracker->key);
      c.mutable_set_kv()->set_value(tracker->value);
      auto reply = decide(c);
      if (reply.has_refusal())
        note("the work tracker was not published: " + reply.refusal().text());
      else
        g.tracker = std::move(tracker);
    }
    if (!aloud)
      return;
    if (me.coordinator)
      g.soul = soul_of(agent_, cli_.env());
    auto q = query();
    q.set_viewer(me.id);
    if (auto known = mcp::gather_ambient(q, [&](const v1::Query& each) { return ask(each); }))
      g.block = mcp::make_ambient_block(*known).text;
  } catch (const std::exception& e) {
    note(e.what());
  }
  say(hook_context(agent_, event_, greeting_text(g)));
}

/// The session when its file is lost: the only one of this directory and agent whose label holds its name.
hook_memory hook_run::session_by_label() const {
  hook_memory m;
  m.scope = cli_.scope_of(place_);
  auto label = identity_of(agent_, cli_.env(), agent_session_, place_, m.scope, {}).label;
  auto mark = label.substr(label.rfind("session:"));
  v1::Query q;
  q.set_scope(m.scope);
  *q.mutable_caller() = cli_.caller();
  q.mutable_list_sessions()->set_label_contains(mark);
  auto answer = ask(q);
  std::size_t found = 0;
  for (const auto& s : answer.sessions().sessions())
    if (s.directory() == place_ && domain::has_token(s.label(), mark) && domain::has_token(s.label(), std::string{"origin:"} + agent_.runtime) &&
        ++found == 1)
      m.id = s.id();
  m.registered = found == 1;
  if (!m.registered)
    m.id.clear();
  return m;
}

void hook_run::session_end() {
  me_ = known_session();
  try {
    if (me_.id.empty() && !agent_session_.empty())
      me_ = session_by_label();
    if (me_.id.empty())
      return store_.remove();
    if (worker_ || !me_.registered) {
      give_back_all();
    } else {
      auto c = command();
      c.mutable_deregister_session()->set_session_id(me_.id);
      decide(c);
    }
  } catch (const std::exception& e) {
    note(std::string{"the session could not be ended: "} + e.what());
  }
  store_.remove();
}

} // namespace swarm::cli
