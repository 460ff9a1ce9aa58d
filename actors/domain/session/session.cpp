#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/lock_names.hpp"
#include "actors/domain/lost_host.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/sender_name.hpp"
#include "actors/domain/session/registrant.hpp"

namespace swarm::domain {

namespace {

/// Ids and start times of processes, and names of directories, say nothing about those of another host.
bool is_of_host(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  const auto& host = r.node_id().empty() ? tx.in().node_id : r.node_id();
  return s.node_id().empty() || s.node_id() == host;
}

bool is_same_process(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  return r.pid() > 0 && s.pid() == r.pid() && s.pid_start() == r.pid_start() && is_of_host(tx, s, r);
}

/// The caller has proved to be that session by its token.
bool is_caller(const transaction& tx, const v1::Session& s) {
  const auto& who = tx.command().principal();
  return who.kind() == v1::Principal::SESSION && who.id() == s.id();
}

/// Nobody takes over what another process holds. A caller may name any process, so that alone is no proof.
bool may_adopt(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  return is_of_host(tx, s, r) && is_made_for_caller(tx, s, r) && (!is_held(s) || is_same_process(tx, s, r) || is_caller(tx, s));
}

v1::Reply could_not_adopt(v1::Refusal::Code code, const std::string& id) { return refuse(code, "Could not adopt instance " + id, id); }

v1::Reply could_not_adopt(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  auto reply = could_not_adopt(v1::Refusal::CONFLICT, s.id());
  if (is_made_for_caller(tx, s, r))
    return reply;
  reply.mutable_refusal()->set_code(v1::Refusal::FORBIDDEN);
  reply.mutable_refusal()->set_explanation("The session " + s.id() +
                                           " was not made for this agent. Register a session of your own, or let a person start this agent with " +
                                           "SWARM_MCP_INSTANCE_ID=" + s.id() + " in its environment.");
  return reply;
}

std::string session_token(std::string_view label) {
  constexpr std::string_view mark = "session:";
  for (auto rest = label; !rest.empty();) {
    auto end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
    if (end > mark.size() && rest.substr(0, mark.size()) == mark)
      return std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

std::optional<v1::Session> oldest_with_label(const transaction& tx, const v1::RegisterSession& r) {
  for (auto& s : tx.find<v1::Session>({.scope = tx.scope()}))
    if (s.label() == r.label() && s.directory() == r.directory() && is_of_host(tx, s, r) && is_made_for_caller(tx, s, r))
      return s;
  return std::nullopt;
}

void set_presence(v1::Session& s, const v1::RegisterSession& r, std::int64_t now_ms) {
  s.set_pid(r.pid());
  s.set_pid_start(r.pid_start());
  s.set_adopted(r.lease_ms() == 0);
  s.set_lease_until_ms(r.lease_ms() > 0 ? now_ms + r.lease_ms() : 0);
  if (r.lease_ms() > 0)
    s.set_presence(v1::Session::LEASE);
  else if (r.attached())
    s.set_presence(v1::Session::CONNECTION);
  else
    s.set_presence(r.pid() > 0 ? v1::Session::PROCESS : v1::Session::HEARTBEAT);
}

/// One token per session: the newest replaces the one before.
std::optional<v1::Reply> bind_token(transaction& tx, const v1::Session& s, const std::string& token_hash) {
  if (token_hash.empty())
    return std::nullopt;
  auto known = tx.get<v1::Credential>(key(token_hash));
  if (known && known->session_id() != s.id())
    return refuse(v1::Refusal::CONFLICT, "That token belongs to another session. Make a new one.");
  if (known)
    return std::nullopt;
  for (const auto& c : tx.find<v1::Credential>({.session_id = s.id()}))
    tx.erase(c);
  v1::Credential c;
  c.set_token_hash(token_hash);
  c.set_session_id(s.id());
  c.set_created_at_ms(tx.in().now_ms);
  tx.put(std::move(c));
  return std::nullopt;
}

v1::Reply session_reply(v1::Session s, bool adopted_existing) {
  v1::Reply reply;
  *reply.mutable_session()->mutable_session() = std::move(s);
  reply.mutable_session()->set_adopted_existing(adopted_existing);
  return reply;
}

v1::Reply already_ended(const std::string& id) {
  v1::Reply reply;
  reply.mutable_session()->mutable_session()->set_id(id);
  reply.mutable_session()->set_already_ended(true);
  return reply;
}

v1::Reply store(transaction& tx, v1::Session s, const v1::RegisterSession& r, bool adopted_existing) {
  std::string note;
  if (!r.label().empty() || !adopted_existing)
    s.set_label(label_in_rights(tx, r, adopted_existing ? &s : nullptr, note));
  s.set_identity(effective_identity(s.label(), tx.in()));
  if (auto refusal = check_registrant(tx, r, s))
    return *refusal;
  s.set_heartbeat_ms(tx.in().now_ms);
  if (!r.node_id().empty()) {
    s.set_node_id(r.node_id());
    s.set_node_name(r.node_name());
    // A session that goes on keeps the names that its files have.
    auto renames = would_rename_locks(tx, s, r.checkout());
    if (renames && !adopted_existing)
      return *renames;
    if (!renames)
      s.set_checkout(r.checkout());
  }
  if (auto refusal = bind_token(tx, s, r.token_hash()))
    return *refusal;
  remember_registrant(tx, s, r);
  put_registered(tx, s, adopted_existing, s.id());
  claim_planner(tx, s);
  auto reply = session_reply(std::move(s), adopted_existing);
  reply.mutable_session()->set_note(std::move(note));
  return reply;
}

bool same_grants(const v1::Session& s, const v1::RegisterSession& r, std::int64_t now_ms) {
  const auto have = grants_at(s.grants(), s.grant_ends(), now_ms);
  const auto& wish = r.grants();
  return r.grant_times().empty() && have.size() == wish.size() && std::is_permutation(have.begin(), have.end(), wish.begin());
}

v1::Reply adopt(transaction& tx, v1::Session s, const v1::RegisterSession& r) {
  // Its token may be known with these rights in many places already.
  if (!r.grants().empty() && !same_grants(s, r, tx.in().now_ms))
    return refuse(v1::Refusal::STATE, "A session keeps the grants it was registered with. Deregister it and register it again.", s.id());
  // A worker's session lives and dies with the worker, not with the tool server inside it that registers once more.
  bool keeps_process = is_held(s) && !is_same_process(tx, s, r);
  if (!keeps_process)
    set_presence(s, r, tx.in().now_ms);
  return store(tx, std::move(s), r, true);
}

v1::Reply create(transaction& tx, std::string id, const v1::RegisterSession& r) {
  if (tx.count<v1::Session>({.scope = tx.scope()}) >= limits::scope_sessions_max())
    return refuse(v1::Refusal::LIMIT,
                  "The scope has " + std::to_string(limits::scope_sessions_max()) + " sessions. End some or wait until stale ones are reclaimed.");
  v1::Session s;
  s.set_id(std::move(id));
  s.set_scope(tx.scope());
  s.set_directory(r.directory());
  s.set_root(r.root().empty() ? r.directory() : r.root());
  s.set_file_root(r.file_root().empty() ? r.directory() : r.file_root());
  s.set_registered_at_ms(tx.in().now_ms);
  s.set_node_id(tx.in().node_id);
  *s.mutable_grants() = r.grants();
  *s.mutable_grant_ends() = grant_ends(r.grant_times(), tx.in().now_ms);
  add_grants_of_start(tx, s, r);
  set_presence(s, r, tx.in().now_ms);
  return store(tx, std::move(s), r, false);
}

/// Explicit adoption; nullopt = there is nothing to adopt, go on.
std::optional<v1::Reply> adopt_explicitly(transaction& tx, const v1::RegisterSession& r) {
  auto row = tx.get<v1::Session>(key(r.adopt_session_id()));
  if (row && row->scope() == tx.scope() && row->directory() == r.directory())
    return may_adopt(tx, *row, r) ? adopt(tx, *row, r) : could_not_adopt(tx, *row, r);
  if (r.adopt_only())
    return could_not_adopt(v1::Refusal::NOT_FOUND, r.adopt_session_id());
  return std::nullopt;
}

/// Adoption of what the caller's agent program has registered; nullopt = there is nothing to adopt, go on.
std::optional<v1::Reply> adopt_of_agent(transaction& tx, const v1::RegisterSession& r) {
  if (auto row = session_of_agent(tx, r))
    return adopt(tx, std::move(*row), r);
  if (r.adopt_only() && r.adopt_session_id().empty())
    return refuse(v1::Refusal::NOT_FOUND, "No session has been registered for this agent in this scope that nobody holds yet.");
  return std::nullopt;
}

std::string new_id(const transaction& tx, const v1::RegisterSession& r) {
  if (!r.preassigned_id().empty())
    return r.preassigned_id();
  if (!r.adopt_session_id().empty() && !tx.get<v1::Session>(key(r.adopt_session_id())))
    return r.adopt_session_id();
  return tx.in().new_uuid();
}

std::optional<v1::Session> own_row(const transaction& tx, const std::string& id) {
  auto row = tx.get<v1::Session>(key(id));
  return row && row->scope() == tx.scope() ? row : std::nullopt;
}

/// A spawned worker's session ends with the report of its exit, which also settles its task.
bool ends_with_spawn(const transaction& tx, const v1::Session& s) {
  if (s.spawn_id().empty())
    return false;
  auto spawn = tx.get<v1::Spawn>(key(s.spawn_id()));
  return spawn && is_live(*spawn);
}

bool has_ended(const transaction& tx, const v1::Session& s, const v1::ExpireSession& e) {
  if (ends_with_spawn(tx, s))
    return false;
  if (!e.lost_node().empty())
    return s.node_id() == read_host_loss(e.lost_node()).word;
  if (e.pid() != 0)
    return is_held(s) && s.pid() == e.pid() && s.pid_start() == e.pid_start();
  if (s.presence() == v1::Session::CONNECTION)
    return true;
  auto now = tx.in().now_ms;
  return now >= tx.in().grace_until_ms && table<v1::Session>::matches({.due_at_ms = now}, s);
}

} // namespace

void put_registered(transaction& tx, const v1::Session& s, bool adopted_existing, std::string_view actor) {
  json payload = {{"label", nullable(s.label())}, {"adopted", adopted_existing}, {"pid", s.pid()}, {"directory", s.directory()}, {"root", s.root()},
                  {"file_root", s.file_root()}};
  if (s.lease_until_ms() != 0)
    payload["lease_until"] = s.lease_until_ms() / 1000;
  tx.put(s);
  tx.event("instance.registered", s.id(), payload, actor);
}

v1::Reply register_session(transaction& tx, const v1::RegisterSession& r) {
  if (auto refusal = check_no_reserved_sender(r.label()))
    return *refusal;
  if (auto refusal = check_grants(tx, r.grants(), r.grant_times()))
    return *refusal;
  if (r.of_agent())
    if (auto reply = adopt_of_agent(tx, r))
      return *reply;
  if (!r.adopt_session_id().empty())
    if (auto reply = adopt_explicitly(tx, r))
      return *reply;
  if (!r.preassigned_id().empty()) {
    if (auto row = tx.get<v1::Session>(key(r.preassigned_id()))) {
      if (!may_adopt(tx, *row, r))
        return could_not_adopt(tx, *row, r);
      if (row->scope() == tx.scope())
        return adopt(tx, *row, r);
      // Only its own scope looks after a session: the caller hears of it here and registers there.
      if (auto refusal = check_registrant(tx, r, *row))
        return *refusal;
      return session_reply(std::move(*row), true);
    }
  } else if (!session_token(r.label()).empty()) {
    if (auto row = oldest_with_label(tx, r)) {
      // A hook that repeats its registration is told the id; the session stays with the process that holds it.
      if (!may_adopt(tx, *row, r))
        return session_reply(std::move(*row), true);
      return adopt(tx, *row, r);
    }
  }
  return create(tx, new_id(tx, r), r);
}

v1::Reply deregister_session(transaction& tx, const v1::DeregisterSession& d) {
  const auto& id = d.session_id().empty() ? tx.actor_name() : d.session_id();
  auto row = own_row(tx, id);
  if (!row)
    return already_ended(id);
  end_session(tx, *row, "instance.deregistered", false, nullptr);
  return session_reply(std::move(*row), false);
}

v1::Reply remove_session(transaction& tx, const v1::RemoveSession& r) {
  auto me = tx.acting_session();
  if (me && me->id() == r.session_id())
    return refuse(v1::Refusal::STATE, "Cannot remove yourself. Use deregister instead.", me->id());
  auto row = own_row(tx, r.session_id());
  if (!row)
    return refuse(v1::Refusal::NOT_FOUND, "Instance " + r.session_id() + " not found in this scope", r.session_id());
  end_session(tx, *row, "instance.deregistered", false, nullptr);
  v1::Broadcast news;
  news.set_content("[auto] Instance " + display_name(*row) + " (" + row->id() + ") was removed by " + (me ? display_name(*me) : tx.actor_name()) +
                   ". Its tasks and locks have been released.");
  if (auto sent = broadcast(tx, news); refused(sent))
    return sent;
  return session_reply(std::move(*row), false);
}

v1::Reply heartbeat(transaction& tx, const v1::Heartbeat& h) {
  const auto& id = h.session_id().empty() ? tx.actor_name() : h.session_id();
  auto row = own_row(tx, id);
  if (!row)
    return already_ended(id);
  row->set_heartbeat_ms(tx.in().now_ms);
  if (h.pid() > 0 && row->presence() == v1::Session::HEARTBEAT)
    row->set_pid(h.pid());
  tx.put(*row);
  claim_planner(tx, *row);
  return session_reply(std::move(*row), false);
}

v1::Reply expire_session(transaction& tx, const v1::ExpireSession& e) {
  auto row = own_row(tx, e.session_id());
  if (!row)
    return already_ended(e.session_id());
  if (!has_ended(tx, *row, e))
    return session_reply(std::move(*row), false);
  if (e.lost_node().empty())
    end_session(tx, *row, "instance.stale_reclaimed", true, nullptr);
  else
    end_lost_session(tx, *row, read_host_loss(e.lost_node()).how);
  return already_ended(e.session_id());
}

} // namespace swarm::domain
