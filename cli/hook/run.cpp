#include "cli/hook/run.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/hook/agent_process.hpp"
#include "cli/hook/locks.hpp"
#include "cli/hook/session.hpp"
#include "cli/hook/store.hpp"
#include "cli/profile.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "gateway/session/ambient_block.hpp"
#include "gateway/session/register.hpp"

#include <algorithm>
#include <set>

#include <unistd.h>

namespace swarm::cli {

namespace {

constexpr const char* hook_note = "actively editing";
constexpr const char* report_source = "hook";
constexpr std::size_t script_shown_bytes = limits::ambient_text_bytes_max;

class hook_run {
public:
  hook_run(const invocation& cli, const agents::agent& host, hook_event event, const hook_options& options, const std::string& input);
  void run();
  /// Says in so many words that there is nothing against it.
  void answer_nothing() { say(json::object()); }

private:
  // -- events ---------------------------------------------------------------------------------
  void session_start();
  void session_end();
  void pre_tool_use();
  void post_tool_use();
  void turn(v1::AgentReport::State);
  void tell_mail();
  void end_calls();
  std::optional<v1::AgentReport::State> notified_state() const;

  // -- the session ----------------------------------------------------------------------------
  std::string event_text(const char* key) const;
  std::string place_of_event() const;
  hook_memory known_session() const;
  hook_memory session_of_environment() const;
  hook_memory session_by_label() const;
  v1::Session registered(const hook_identity&, const std::string& scope);
  v1::Session of_worker() const;
  std::vector<v1::Session> sessions() const;
  std::optional<v1::Session> of_tool_server(const std::vector<v1::Session>&, const std::string& me) const;
  void look_for_tool_server();
  bool is_me(const std::string& session);
  void greet(const hook_identity&, const hook_memory&, bool aloud);
  bool remember(const std::function<bool(hook_memory&)>& change);

  // -- the node -------------------------------------------------------------------------------
  void hurry() const;
  v1::Command command() const;
  v1::Query query() const;
  v1::Reply decide(const v1::Command& c) const {
    hurry();
    return cli_.decide(c);
  }
  v1::Answer ask(const v1::Query& q) const {
    hurry();
    return cli_.node().coordination.ask(q);
  }
  /// Throws `failure` for a refusal.
  v1::Answer granted(const v1::Query&) const;
  std::vector<v1::LockView> locks() const;
  void report(v1::AgentReport::State);

  // -- locks ----------------------------------------------------------------------------------
  enum class verdict { none, warned, denied };
  std::string file_of(const v1::LockView&);
  verdict judge(const v1::LockView&, const path_matcher&, const shell::written_path&);
  std::string holder_text(const v1::LockView&, const char* what) const;
  void deny(const std::string& reason) { say(hook_denial(host_, reason)); }
  /// Once: a host reads one answer.
  void say(const json& answer) {
    if (!std::exchange(answered_, true))
      cli_.io().print_compact(answer);
  }
  void note(const std::string& text) const { cli_.io().error("swarmctl hook: " + text); }
  bool take_locks(const path_matcher&);
  bool passed_bounds();
  bool take_lock(const std::string& path, const std::string& task, const path_matcher&);
  std::string current_task() const;
  void give_back(const std::vector<std::string>& paths);
  void give_back_all();
  bool release(const std::string& path, std::uint64_t fence);
  void watch(const std::vector<v1::LockView>& held);
  std::vector<watched_file> changed_files(const std::vector<watched_file>&, std::int64_t since_ms) const;
  void tell_of(const std::vector<watched_file>&);

  const invocation& cli_;
  const agents::agent& host_;
  hook_event event_;
  hook_options options_;
  json input_;
  std::string place_;
  std::string session_; // as the host calls it
  std::filesystem::path state_;
  hook_store store_;
  bool worker_;
  std::int64_t until_ms_; // boot time
  hook_memory me_;
  tool_use use_;
  std::vector<std::string> taken_; // by this call
  std::vector<std::string> warnings_;
  std::map<std::string, v1::Session> holders_; // looked up
  bool looked_ = false;                        // for the tool server's session
  bool answered_ = false;
};

hook_run::hook_run(const invocation& cli, const agents::agent& host, hook_event event, const hook_options& options, const std::string& input)
  : cli_(cli), host_(host), event_(event), options_(options), input_(domain::parse_json(is_utf8(input) ? input : to_utf8(input)).value_or(json())),
    place_(place_of_event()), session_(event_text("session_id")), state_(cli.node().finder.state_directory()),
    // Half of it, so that the node is asked all the same.
    store_(state_, host.name, session_, std::chrono::milliseconds{bounded_by_timeout(cli, limits::hook_call_deadline().count()) / 2}),
    worker_(!cli.env().get("SWARM_MCP_INSTANCE_ID").empty() && !cli.env().get("SWARM_TOKEN").empty()),
    until_ms_(cli.boot_ms() + bounded_by_timeout(cli, limits::hook_call_deadline().count() * (event == hook_event::session_start ? 2 : 1))) {}

bool hook_run::remember(const std::function<bool(hook_memory&)>& change) {
  bool waited = store_.kept_out();
  bool done = store_.update(change, worker_ || event_ == hook_event::session_start);
  if (!waited && store_.kept_out())
    note("another hook of this host keeps their file; this one remembers nothing");
  return done;
}

std::string hook_run::event_text(const char* key) const {
  if (!input_.is_object())
    return {};
  auto i = input_.find(key);
  return i != input_.end() && i->is_string() ? i->get<std::string>() : std::string{};
}

std::string hook_run::place_of_event() const {
  for (const auto& place : {event_text("cwd"), cli_.env().get("SWARM_MCP_DIRECTORY"), cli_.env().get("TERMINAL_CWD")})
    if (!place.empty() && place.size() <= limits::path_bytes_max() && place.find('\0') == place.npos)
      return normalize_path(place, cli_.directory());
  return cli_.directory();
}

// -- the node -----------------------------------------------------------------------------------

/// Every call ends by the hook's own deadline.
void hook_run::hurry() const { cli_.node().finder.set_timeout_ms(std::max<std::int64_t>(until_ms_ - cli_.boot_ms(), 1)); }

v1::Command hook_run::command() const {
  v1::Command c;
  c.set_scope(me_.scope);
  c.set_actor(me_.id);
  *c.mutable_caller() = cli_.caller();
  return c;
}

v1::Query hook_run::query() const {
  v1::Query q;
  q.set_scope(me_.scope);
  *q.mutable_caller() = cli_.caller();
  return q;
}

v1::Answer hook_run::granted(const v1::Query& q) const {
  auto answer = ask(q);
  if (answer.has_refusal())
    throw refused(answer.refusal());
  return answer;
}

std::vector<v1::LockView> hook_run::locks() const {
  auto q = query();
  q.mutable_list_locks();
  return mcp::rows_of_pages<v1::LockView>(std::move(q), [this](const v1::Query& x) { return granted(x); });
}

/// Best effort: refusals and an unreachable node are ignored.
void hook_run::report(v1::AgentReport::State state) {
  auto now = cli_.now_ms();
  bool known = me_.state == state && (state != v1::AgentReport::WORKING || now - me_.reported_at_ms < limits::hook_report_ttl().count() / 2);
  if (me_.id.empty() || known)
    return;
  try {
    auto c = command();
    auto* body = c.mutable_report_agent();
    body->set_session_id(me_.id);
    body->set_source(report_source);
    body->set_seq(static_cast<std::uint64_t>(now));
    body->set_ttl_ms(state == v1::AgentReport::WORKING ? limits::hook_report_ttl().count() : 0);
    body->set_state(state);
    decide(c);
  } catch (const failure&) {
    return;
  }
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    m.state = state;
    m.reported_at_ms = now;
    return true;
  });
}

// -- the session --------------------------------------------------------------------------------

/// A worker has its session from the one who started it.
hook_memory hook_run::session_of_environment() const {
  const auto& env = cli_.env();
  hook_memory m;
  m.id = env.get("SWARM_MCP_INSTANCE_ID");
  m.directory = normalize_path(env.get("SWARM_MCP_DIRECTORY").empty() ? place_ : env.get("SWARM_MCP_DIRECTORY"), cli_.directory());
  m.root = git_root(m.directory);
  auto file_root = env.get("SWARM_MCP_FILE_ROOT");
  m.file_root = file_root.empty() ? m.directory : normalize_path(file_root, cli_.directory());
  m.scope = cli_.scope_of(m.directory);
  m.gateway = domain::has_token(env.get("SWARM_MCP_LABEL"), "mode:gateway");
  return m;
}

hook_memory hook_run::known_session() const {
  auto known = store_.load();
  if (!known && session_.empty() && !worker_)
    known = hook_store::only_one(state_, host_.name);
  if (worker_ && (!known || known->id != cli_.env().get("SWARM_MCP_INSTANCE_ID")))
    return session_of_environment();
  return known.value_or(hook_memory{});
}

v1::Session hook_run::of_worker() const {
  auto q = query();
  auto who = cli_.env().get("SWARM_MCP_INSTANCE_ID");
  q.mutable_find_session()->set_who(who);
  auto answer = ask(q);
  if (answer.has_refusal() || answer.session().id() != who)
    return {};
  return answer.session();
}

std::vector<v1::Session> hook_run::sessions() const {
  auto q = query();
  q.mutable_list_sessions();
  return mcp::rows_of_pages<v1::Session>(std::move(q), [this](const v1::Query& x) { return granted(x); });
}

std::optional<v1::Session> hook_run::of_tool_server(const std::vector<v1::Session>& all, const std::string& me) const {
  return tool_server_session(all, me, [&](const std::string& id) { return store_.is_anothers(id); });
}

/// The agent may have registered by its tool server before its first event, or again since: then that session is who we are.
void hook_run::look_for_tool_server() {
  if (worker_ || me_.scope.empty() || std::exchange(looked_, true))
    return;
  auto all = sessions();
  auto found = of_tool_server(all, me_.id);
  if (!found || found->id() == me_.id)
    return;
  auto former = me_.id;
  auto take = [&](hook_memory& m) {
    m.id = found->id();
    m.directory = found->directory();
    m.root = found->root();
    m.file_root = found->file_root();
    m.registered = false;
    m.taken.clear();
    return true;
  };
  take(me_);
  remember(take);
  // Nobody speaks for it any more. One that somebody has taken over is theirs.
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

/// Looks closer before a session counts as somebody else's.
bool hook_run::is_me(const std::string& session) {
  if (session != me_.id && !session.empty())
    look_for_tool_server();
  return session == me_.id;
}

v1::Session hook_run::registered(const hook_identity& identity, const std::string& scope) {
  const auto& env = cli_.env();
  me_.scope = scope;
  if (!env.get("SWARM_MCP_INSTANCE_ID").empty())
    if (auto present = of_worker(); !present.id().empty())
      return present;
  if (worker_)
    throw failure(code::refused, "the worker's session " + env.get("SWARM_MCP_INSTANCE_ID") + " is not there");
  if (auto server = of_tool_server(sessions(), store_.load().value_or(hook_memory{}).id))
    return *server;
  auto file_root = identity.file_root.empty() ? env.get("SWARM_MCP_FILE_ROOT") : identity.file_root;
  auto c = command();
  auto* body = c.mutable_register_session();
  body->set_directory(place_);
  body->set_root(git_root(place_));
  body->set_file_root(file_root.empty() ? place_ : normalize_path(file_root, place_));
  body->set_label(identity.label);
  body->set_preassigned_id(env.get("SWARM_MCP_INSTANCE_ID"));
  body->set_lease_ms(identity.lease_ms);
  // By it the tool server of the same agent knows which session to take over.
  if (auto agent = starter_of(getpid())) {
    body->set_pid(agent->pid);
    body->set_pid_start(agent->start);
  }
  check_identity_roots(cli_, env, body->label(), body->directory(), body->file_root());
  auto reply = mcp::register_in_its_scope(c, [&](const v1::Command& each) { return decide(each); });
  if (reply.has_refusal())
    throw refused(reply);
  me_.registered = true;
  return reply.session().session();
}

void hook_run::session_start() {
  auto source = event_text("source");
  bool aloud = source.empty() || source == "startup" || source == "resume";
  // The agent has lost what it knew and its session has ended; one that only forgets goes on.
  if (session_.empty() || (!aloud && source != "clear"))
    return;
  hook_store::remove_old(state_, limits::lease_max().count());
  auto platform = event_text("platform");
  auto identity = identity_of(host_, cli_.env(), session_, place_, cli_.scope_of(place_), platform);
  auto scope = cli_.flags.scope.empty() && !identity.scope.empty() ? resolve_scope(identity.scope, place_) : cli_.scope_of(place_);
  std::string reason;
  try {
    auto s = registered(identity, scope);
    me_.id = s.id();
    me_.scope = s.scope();
    me_.directory = s.directory();
    me_.root = s.root();
    me_.file_root = s.file_root();
    me_.gateway = domain::has_token(s.label(), "mode:gateway") || identity.gateway;
  } catch (const std::exception& e) {
    reason = e.what();
    me_ = {};
    me_.scope = scope;
    me_.directory = place_;
    me_.gateway = identity.gateway;
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
      say(hook_context(host_, event_, greeting_text(g)));
    return;
  }
  greet(identity, me_, aloud);
  report(v1::AgentReport::IDLE);
}

void hook_run::greet(const hook_identity& identity, const hook_memory& me, bool aloud) {
  hook_greeting g;
  g.id = me.id;
  g.gateway = me.gateway;
  try {
    if (auto tracker = work_tracker_of(host_, cli_.env(), identity.identity, place_, me.scope)) {
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
    if (me.gateway)
      g.soul = soul_of(host_, cli_.env());
    auto q = query();
    q.set_viewer(me.id);
    if (auto known = mcp::gather_ambient(q, [&](const v1::Query& each) { return ask(each); }))
      g.block = mcp::make_ambient_block(*known).text;
  } catch (const std::exception& e) {
    note(e.what());
  }
  say(hook_context(host_, event_, greeting_text(g)));
}

/// Of a session whose file is lost: the only one that carries its name in the label.
hook_memory hook_run::session_by_label() const {
  hook_memory m;
  m.scope = cli_.scope_of(place_);
  auto label = identity_of(host_, cli_.env(), session_, place_, m.scope, {}).label;
  auto mark = label.substr(label.rfind("session:"));
  v1::Query q;
  q.set_scope(m.scope);
  *q.mutable_caller() = cli_.caller();
  q.mutable_list_sessions()->set_label_contains(mark);
  auto answer = ask(q);
  std::size_t found = 0;
  for (const auto& s : answer.sessions().sessions())
    if (s.directory() == place_ && domain::has_token(s.label(), mark) && domain::has_token(s.label(), std::string{"origin:"} + host_.runtime) &&
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
    if (me_.id.empty() && !session_.empty())
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

/// Of a call that a person has declined no end is told.
void hook_run::end_calls() {
  auto open = [](const tool_call_seen& c) { return c.to_ms == 0; };
  if (std::any_of(me_.calls.begin(), me_.calls.end(), open))
    remember([&](hook_memory& m) {
      for (auto& c : m.calls)
        if (open(c))
          c.to_ms = cli_.now_ms();
      return true;
    });
}

/// A turn begins or ends: no tool call is under way.
void hook_run::turn(v1::AgentReport::State state) {
  me_ = known_session();
  try {
    if (event_ != hook_event::notification) {
      end_calls();
      if (!me_.taken.empty())
        give_back_all();
    }
    if (event_ == hook_event::prompt_submit)
      look_for_tool_server();
  } catch (const std::exception& e) {
    note(e.what());
  }
  report(state);
  if (host_.what == agents::program::hermes && event_ == hook_event::prompt_submit && !me_.id.empty())
    tell_mail();
}

/// What nobody types into a conversation of Hermes goes with its prompt. It stays unread until the agent reads it.
void hook_run::tell_mail() {
  auto q = query();
  q.set_viewer(me_.id);
  q.mutable_get_status();
  if (auto mail = mcp::make_mail_block(ask(q).status()); !mail.empty())
    say(hook_context(host_, event_, mail));
}

/// A host also notifies of things that nobody has to answer.
std::optional<v1::AgentReport::State> hook_run::notified_state() const {
  auto type = event_text("notification_type");
  if (type.find("idle") != type.npos || (type.empty() && event_text("message").find("waiting for your input") != std::string::npos))
    return v1::AgentReport::IDLE;
  if (type.find("auth") != type.npos)
    return std::nullopt;
  return v1::AgentReport::BLOCKED;
}

// -- locks --------------------------------------------------------------------------------------

/// "swarm lock blocked Edit for /r/a: held by somebody (why)", as swarm-mcp writes it.
std::string hook_run::holder_text(const v1::LockView& view, const char* what) const {
  auto shown = [](const std::string& text) { return escape_control(utf8_prefix(text, limits::hook_note_bytes_max), false); };
  auto label = host_.what == agents::program::hermes ? std::string{} : view.owner().label();
  auto holder = view.hidden() ? std::string{hidden_holder} : label.empty() ? view.lock().session_id().substr(0, 8) : label;
  auto out = std::string{"swarm lock "} + what + " " + shown(use_.tool) + " for " + shown(view.lock().path()) + ": held by " + shown(holder);
  if (const auto& pane = view.owner().workspace().pane_id(); !pane.empty() && host_.what != agents::program::hermes)
    out += " (pane " + shown(pane) + ")";
  return view.lock().note().empty() ? out : out + " (" + shown(view.lock().note()) + ")";
}

/// Where the file lies that this lock keeps; empty when it cannot be said.
std::string hook_run::file_of(const v1::LockView& view) {
  const auto& path = view.lock().path();
  if (view.hidden() || !has_several_trees(path))
    return path;
  auto [known, fresh] = holders_.try_emplace(view.lock().session_id());
  if (fresh) {
    try {
      auto q = query();
      q.mutable_find_session()->set_who(known->first);
      auto answer = ask(q);
      if (answer.has_session() && answer.session().id() == known->first)
        known->second = answer.session();
    } catch (const failure&) {
      // Then its place is not known.
    }
  }
  return known->second.id().empty() ? std::string{} : file_of_holder(path, known->second);
}

/// Somebody else's lock on what is to be written. In another work tree of the repository the file is another one: a word, no denial.
hook_run::verdict hook_run::judge(const v1::LockView& view, const path_matcher& written, const shell::written_path& w) {
  if (auto file = file_of(view); !file.empty() && has_several_trees(view.lock().path()) && !written.is_written(w, file)) {
    warnings_.push_back(holder_text(view, "in another work tree:") + ". Both changes will have to be merged.");
    return verdict::warned;
  }
  deny(holder_text(view, "blocked"));
  return verdict::denied;
}

std::string hook_run::current_task() const {
  auto q = query();
  q.set_viewer(me_.id);
  auto* body = q.mutable_list_tasks();
  body->add_statuses(v1::IN_PROGRESS);
  body->set_assignee(me_.id);
  body->mutable_page()->set_size(1);
  auto answer = ask(q);
  return answer.tasks().tasks().empty() ? std::string{} : answer.tasks().tasks(0).id();
}

bool hook_run::release(const std::string& path, std::uint64_t fence) {
  auto c = command();
  c.mutable_release_lock()->set_path(path);
  c.mutable_release_lock()->set_fence(fence);
  return decide(c).lock().released();
}

/// One tool call less writes each of these; the last one gives the lock back. Nobody else can have taken the fence meanwhile.
void hook_run::give_back(const std::vector<std::string>& paths) {
  std::map<std::string, std::uint64_t> over;
  remember([&](hook_memory& m) {
    for (const auto& path : paths)
      if (auto lock = m.taken.find(path); lock != m.taken.end() && --lock->second.users <= 0) {
        over[path] = lock->second.fence;
        m.taken.erase(lock);
      }
    return true;
  });
  for (const auto& [path, fence] : over)
    if (fence != 0)
      release(path, fence);
}

void hook_run::give_back_all() {
  std::map<std::string, taken_lock> over;
  remember([&](hook_memory& m) {
    over = std::exchange(m.taken, {});
    return !over.empty();
  });
  for (const auto& [path, lock] : over)
    if (lock.fence != 0)
      release(path, lock.fence);
}

/// True when the tool may write this path as far as this lock goes.
bool hook_run::take_lock(const std::string& path, const std::string& task, const path_matcher& written) {
  // Said before it is asked for: a call of the same session that ends meanwhile then leaves the lock alone.
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    ++m.taken[path].users;
    return true;
  });
  taken_.push_back(path);
  auto c = command();
  auto* body = c.mutable_acquire_lock();
  body->set_path(path);
  body->set_note(hook_note);
  body->set_task_id(task);
  body->set_ttl_ms(limits::hook_lock_ttl().count());
  body->set_exclusive(true);
  auto reply = decide(c);
  if (reply.refusal().code() == v1::Refusal::NOT_REGISTERED) {
    look_for_tool_server();
    c.set_actor(me_.id);
    reply = decide(c);
  }
  const auto mine = [&](const v1::LockView& held) { return !held.hidden() && is_me(held.lock().session_id()); };
  // Its fence says so; another call that has only just got it has not put that down yet.
  const auto of_hook = [&](const v1::Lock& held) {
    auto known = store_.load().value_or(hook_memory{}).taken[path];
    return known.fence == held.fence() || (known.fence == 0 && known.users > 1 && held.deadline_ms() != 0 && held.note() == hook_note);
  };
  if (reply.has_refusal() && mine(reply.lock().active()) && of_hook(reply.lock().active().lock())) {
    // Of another tool call under way: both write, the last one gives it back.
    body->set_exclusive(false);
    c.set_actor(me_.id);
    reply = decide(c);
  }
  if (!reply.has_refusal()) {
    remember([&](hook_memory& m) {
      m.taken[path].fence = reply.lock().lock().fence();
      return true;
    });
    return true;
  }
  taken_.pop_back();
  give_back({path});
  const auto& active = reply.lock().active();
  if (reply.lock().has_active() && mine(active))
    return true; // the agent has locked it itself, and keeps it
  if (reply.refusal().code() == v1::Refusal::CONFLICT && reply.lock().has_active()) {
    if (const auto* w = written.find(path))
      return judge(active, written, *w) != verdict::denied;
    deny(holder_text(active, "blocked"));
    return false;
  }
  if (reply.refusal().code() == v1::Refusal::NOT_REGISTERED)
    throw refused(reply);
  deny("swarm lock refused " + use_.tool + " for " + escape_control(path, false) + ": " + escape_control(reply.refusal().text(), false));
  return false;
}

/// More is written than is looked at. True when it must not run for that.
bool hook_run::passed_bounds() {
  auto text = use_.tool + " may write more files than are looked at (" + std::to_string(limits::hook_paths_max) + ")";
  if (options_.fail_closed || options_.enforce)
    deny("swarm lock check failed for " + text + ". Name fewer of them at once.");
  else
    note(text + "; the others were not checked");
  return options_.fail_closed || options_.enforce;
}

bool hook_run::take_locks(const path_matcher& written) {
  const auto paths = lock_names(use_.paths, me_);
  if (!paths) {
    deny("swarm lock refused " + use_.tool + ": it writes more than " + std::to_string(limits::hook_paths_max) +
         " files, which cannot be locked together. Name fewer of them at once.");
    return false;
  }
  if (paths->empty())
    return true;
  auto task = current_task();
  return std::all_of(paths->begin(), paths->end(), [&](const auto& path) { return take_lock(path, task, written); });
}

/// Remembered for after the tool: the files others have locked as they are now, and, for those who look at ours, that we may write.
void hook_run::watch(const std::vector<v1::LockView>& held) {
  tool_call_seen call;
  call.key = use_.key;
  call.from_ms = cli_.now_ms();
  bool mine = false;
  for (const auto& l : held) {
    bool own = !l.hidden() && l.lock().session_id() == me_.id;
    mine = mine || own;
    if (own || use_.what != tool_use::kind::shell || l.lock().path().starts_with("/__swarm/") || call.watched.size() >= limits::hook_paths_max)
      continue;
    if (auto file = file_of(l); !file.empty())
      call.watched.push_back({l.lock().path(), file, l.lock().session_id(), stamp_of(file)});
  }
  call.locks = taken_;
  if (!mine && call.watched.empty() && call.locks.empty())
    return;
  if (use_.what == tool_use::kind::write)
    for (const auto& w : use_.paths)
      call.paths.push_back(lock_name(w.path, me_));
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    std::erase_if(m.calls, [&](const auto& c) {
      if (c.key != call.key)
        return false;
      // Asked about twice, it ends once.
      for (const auto& path : c.locks)
        if (auto lock = m.taken.find(path); c.to_ms == 0 && lock != m.taken.end())
          --lock->second.users;
      return true;
    });
    m.calls.push_back(std::move(call));
    return true;
  });
}

void hook_run::pre_tool_use() {
  use_ = tool_use_of(input_, {place_, cli_.env().get("HOME")});
  me_ = known_session();
  bool writes = use_.what == tool_use::kind::write ? !use_.paths.empty() : use_.what == tool_use::kind::shell;
  if (writes && me_.id.empty()) {
    if (options_.fail_closed)
      deny("swarm lock check failed for " + use_.tool + ": this session is not registered. Restart the agent, or take --fail-closed off its hook.");
    else
      note("no locks were checked: this session is not registered; restart the agent to register it");
    return;
  }
  bool checked = writes && !(host_.what == agents::program::hermes && me_.gateway);
  bool denied = false;
  if (checked) {
    path_matcher written{use_.paths, me_};
    denied = use_.cut && passed_bounds();
    denied = denied || (options_.enforce && !take_locks(written));
    auto held = denied ? std::vector<v1::LockView>{} : locks();
    for (const auto& l : held) {
      if (denied || (!l.hidden() && l.lock().session_id() == me_.id))
        continue;
      auto others = !is_me(l.lock().session_id());
      const auto* w = written.find(l.lock().path());
      auto concerns = w && (l.hidden() || others);
      if (!concerns) {
        // The hook of another session may hold the whole directory.
        w = written.find_below(l.lock().path());
        concerns = w && options_.enforce && l.lock().note() == hook_note && others;
      }
      if (concerns)
        denied = judge(l, written, *w) == verdict::denied;
    }
    if (denied)
      give_back(std::exchange(taken_, {}));
    else
      watch(held);
  }
  if (!denied && !warnings_.empty()) {
    std::string all;
    for (const auto& w : warnings_) {
      note(w);
      all += (all.empty() ? "" : "\n") + w;
    }
    say(hook_context(host_, event_, all));
  }
  report(v1::AgentReport::WORKING);
}

// -- after the tool -----------------------------------------------------------------------------

/// Those that are not as they were, unless their holder may have written them itself or has given them up.
std::vector<watched_file> hook_run::changed_files(const std::vector<watched_file>& watched, std::int64_t since_ms) const {
  std::vector<watched_file> out;
  for (const auto& w : watched)
    if (stamp_of(w.file) != w.before && !hook_store::may_have_written(state_, w.holder, w.path, since_ms))
      out.push_back(w);
  std::erase_if(out, [&](const watched_file& w) {
    auto q = query();
    q.mutable_get_lock()->set_path(w.path);
    auto answer = ask(q);
    return answer.has_refusal() || !answer.lock().has_active() || (!w.holder.empty() && answer.lock().active().lock().session_id() != w.holder);
  });
  return out;
}

void hook_run::tell_of(const std::vector<watched_file>& changed) {
  std::string all;
  for (const auto& w : changed) {
    auto script = escape_control(utf8_prefix(use_.script, script_shown_bytes), false);
    auto file = escape_control(w.path, false);
    all += (all.empty() ? "" : "\n") + std::string{"swarm lock broken: "} + file + " changed while your " + use_.tool + " command ran, and " +
           (w.holder.empty() ? std::string{hidden_holder} : w.holder.substr(0, 8)) +
           " holds its lock. If your command wrote it, tell the holder, and undo it unless they agree.";
    if (w.holder.empty())
      continue;
    auto c = command();
    c.mutable_send_message()->set_recipient(w.holder);
    c.mutable_send_message()->set_relaxed(true);
    c.mutable_send_message()->set_content(concat(
      {"[auto] ", file, ", which you have locked, changed while ", me_.id, " ran: ", script, "\nIf that was not you, look at it before you go on."}));
    auto reply = decide(c);
    if (reply.has_refusal())
      note("the holder was not told: " + reply.refusal().text());
  }
  note(all);
  say(hook_context(host_, event_, all));
}

void hook_run::post_tool_use() {
  use_ = tool_use_of(input_, {place_, cli_.env().get("HOME")});
  me_ = known_session();
  if (me_.id.empty())
    return;
  tool_call_seen call;
  auto begun = std::find_if(me_.calls.begin(), me_.calls.end(), [&](const auto& c) { return c.key == use_.key && c.to_ms == 0; });
  if (use_.what != tool_use::kind::other && begun != me_.calls.end()) {
    call = *begun;
    remember([&](hook_memory& m) {
      for (auto& c : m.calls)
        if (c.key == use_.key) {
          c.to_ms = cli_.now_ms();
          c.watched.clear();
        }
      return true;
    });
  }
  if (auto changed = changed_files(call.watched, call.from_ms); !changed.empty())
    tell_of(changed);
  if (!call.locks.empty())
    give_back(call.locks);
  report(v1::AgentReport::WORKING);
}

void hook_run::run() {
  // Only the start of a session starts a node.
  if (event_ != hook_event::session_start)
    cli_.node().finder.never_start();
  bool guards = event_ == hook_event::pre_tool_use && options_.fail_closed;
  try {
    if (!input_.is_object()) {
      note("the event is no JSON object of at most " + std::to_string(limits::hook_input_bytes_max / limits::mib) + " MiB");
      if (guards)
        deny("swarm lock check failed: the hook could not read what the tool is to do.");
      return;
    }
    switch (event_) {
      case hook_event::session_start: return session_start();
      case hook_event::session_end: return session_end();
      case hook_event::pre_tool_use: return pre_tool_use();
      case hook_event::post_tool_use: return post_tool_use();
      case hook_event::prompt_submit: return turn(v1::AgentReport::WORKING);
      case hook_event::stop: return turn(v1::AgentReport::IDLE);
      case hook_event::notification:
        if (auto state = notified_state())
          turn(*state);
        return;
    }
  } catch (const std::exception& e) {
    if (guards)
      deny("swarm lock check failed for " + use_.tool + ": " + escape_control(e.what(), false) + ". Nothing is written unchecked.");
    else
      note((event_ == hook_event::pre_tool_use ? "no locks were checked: " : "") + std::string{e.what()});
    try {
      give_back(std::exchange(taken_, {}));
    } catch (const std::exception&) {
      // They end by themselves.
    }
  }
}

} // namespace

void run_hook(const invocation& cli, const agents::agent& host, hook_event event, const hook_options& options, const std::string& input) {
  try {
    hook_run hook{cli, host, event, options, input};
    hook.run();
    // With fail_closed Hermes takes silence for a failure.
    if (host.what == agents::program::hermes && event == hook_event::pre_tool_use && options.fail_closed)
      hook.answer_nothing();
  } catch (const std::exception& e) {
    cli.io().error(std::string{"swarmctl hook: "} + e.what());
  }
}

} // namespace swarm::cli
