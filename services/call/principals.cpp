#include "services/call/principals.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm {

v1::Principal principal_of(const v1::Session& s, std::int64_t now_ms) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(s.id());
  *p.mutable_grants() = domain::grants_at(s.grants(), s.grant_ends(), now_ms);
  return p;
}

std::string share_of(const caller_process& p) {
  switch (p.place.is) {
    case caller_place::kind::worker: return std::string{workers_share} + p.place.worker.id();
    case caller_place::kind::stray: return std::string{workers_share};
    case caller_place::kind::agent: return "agent/" + p.place.root.text();
    case caller_place::kind::unseen:
    case caller_place::kind::marked:
    case caller_place::kind::orphan:
    case caller_place::kind::user: break;
  }
  return own_share_of(p);
}

std::string own_share_of(const caller_process& p) { return "process/" + std::to_string(p.pid) + "." + std::to_string(p.start); }

void worker_registry::put(std::int64_t pid, v1::Principal who, std::string token_hash, domain::grant_end_list ends) {
  std::lock_guard guard{mutex_};
  worker w{std::move(who), std::move(token_hash), std::move(ends)};
  by_token_[w.token_hash] = w;
  by_pid_[pid] = std::move(w);
}

void worker_registry::erase(std::int64_t pid) {
  std::lock_guard guard{mutex_};
  auto node = by_pid_.extract(pid);
  if (!node.empty())
    by_token_.erase(node.mapped().token_hash);
}

std::int64_t worker_registry::now_ms() const { return unix_ms_ ? unix_ms_() : std::numeric_limits<std::int64_t>::max(); }

v1::Principal worker_registry::as_of_now(const worker& w) const {
  auto who = w.who;
  if (!w.ends.empty())
    *who.mutable_grants() = domain::grants_at(w.who.grants(), w.ends, now_ms());
  return who;
}

std::pair<v1::Principal, std::int64_t> worker_registry::current(v1::Principal who) const {
  if (who.grants().empty())
    return {std::move(who), 0};
  std::lock_guard guard{mutex_};
  for (const auto& [pid, w] : by_pid_)
    if (w.who.id() == who.id())
      return {as_of_now(w), domain::next_grant_end(w.who.grants(), w.ends, now_ms())};
  who.clear_grants();
  return {std::move(who), 0};
}

std::optional<v1::Principal> worker_registry::of_lineage(const std::vector<named_process>& chain) const {
  std::lock_guard guard{mutex_};
  for (const auto& p : chain)
    if (auto w = by_pid_.find(p.pid); w != by_pid_.end())
      return as_of_now(w->second);
  // A background job that its shell has left behind is in the worker's kernel session still.
  for (const auto& p : chain)
    if (auto w = by_pid_.find(p.session); w != by_pid_.end())
      return as_of_now(w->second);
  return std::nullopt;
}

bool worker_registry::has_session(std::string_view id) const {
  std::lock_guard guard{mutex_};
  return std::any_of(by_pid_.begin(), by_pid_.end(), [&](const auto& w) { return w.second.who.id() == id; });
}

std::optional<v1::Principal> worker_registry::of_token(std::string_view token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = by_token_.find(std::string{token_hash});
  return i == by_token_.end() ? std::nullopt : std::optional{as_of_now(i->second)};
}

bearer bearer_of(const v1::Session& s, std::int64_t now_ms) {
  return {principal_of(s, now_ms), s.agent_root(), s.made_by(), domain::next_grant_end(s.grants(), s.grant_ends(), now_ms)};
}

std::optional<bearer> token_cache::resolved(const std::string& token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = resolved_.find(token_hash);
  if (i == resolved_.end() || now_ms_() - i->second.at_ms > i->second.age_max_ms)
    return std::nullopt;
  return i->second.who;
}

void token_cache::remember(const std::string& token_hash, const bearer& who, std::uint64_t asked_at, std::int64_t unix_ms) {
  // At its end a grant is gone: the last moment at which it holds is the one before.
  const auto age = limits::resolved_token_age.count();
  const auto age_max = who.until_ms == 0 ? age : std::min(age, who.until_ms - unix_ms - 1);
  std::lock_guard guard{mutex_};
  if (invalidations_ != asked_at)
    return; // it may have gone meanwhile
  if (resolved_.insert_or_assign(token_hash, known{who, now_ms_(), age_max}).second)
    order_.push_back(token_hash);
  if (order_.size() > limits::resolved_tokens_max()) {
    resolved_.erase(order_.front());
    order_.pop_front();
  }
}

std::shared_ptr<void> token_cache::watch(const std::string& session_id, std::uint64_t asked_at, std::function<void()> gone) {
  std::lock_guard guard{mutex_};
  if (invalidations_ != asked_at)
    return nullptr;
  attending_.emplace(++last_attendance_, attendance{session_id, std::move(gone)});
  return {this, [this, number = last_attendance_](void*) {
            std::lock_guard forgets{mutex_};
            attending_.erase(number);
          }};
}

void token_cache::token_gone(const std::string& token_hash) {
  std::lock_guard guard{mutex_};
  ++invalidations_;
  resolved_.erase(token_hash);
}

void token_cache::session_gone(const std::string& session_id) {
  std::vector<std::function<void()>> told;
  {
    std::lock_guard guard{mutex_};
    ++invalidations_;
    resolved_.erase(key_of_session(session_id));
    for (auto& [number, a] : attending_)
      if (a.session_id == session_id)
        told.push_back(std::exchange(a.gone, nullptr));
  }
  if (heard_)
    heard_(session_id);
  for (auto& gone : told)
    if (gone)
      gone();
}

void caller_table::put(int fd, caller_process p) {
  std::lock_guard guard{mutex_};
  table_[fd] = std::move(p);
}

std::optional<caller_process> caller_table::find(int fd) const {
  std::lock_guard guard{mutex_};
  auto i = table_.find(fd);
  return i == table_.end() ? std::nullopt : std::optional{i->second};
}

namespace {

using place_kind = caller_place::kind;

/// gRPC names a connection by its descriptor.
int connection_of(const grpc::ServerContextBase& ctx) {
  auto name = ctx.peer();
  int fd = -1;
  if (name.rfind("fd:", 0) == 0)
    std::from_chars(name.data() + 3, name.data() + name.size(), fd);
  return fd;
}

v1::Principal agent_without_session(const process_key& root) {
  v1::Principal out;
  out.set_kind(v1::Principal::AGENT);
  out.set_id(root.text());
  return out;
}

bool is_same_place(const caller_place& a, const caller_place& b) { return a.is == b.is && a.worker.id() == b.worker.id() && a.root == b.root; }

} // namespace

std::int64_t principals::process_of(const grpc::ServerContextBase& ctx) const {
  auto who = table_.find(connection_of(ctx));
  return who ? who->pid : 0;
}

/// A connection may be older than the agent that its process runs below: a shell that connected and then became the agent.
std::optional<caller_process> principals::look(int connection, look_again when) const {
  auto who = table_.find(connection);
  const auto now = places_.roots().generation();
  if (!who || (who->looked_at == now && when == look_again::if_needed))
    return who;
  auto seen = places_.look_at(who->pid);
  const auto is_same_process = !seen.line.processes.empty() && seen.line.processes.front().start == who->start;
  // Whoever was an agent's stays so, and nobody's place is another one because his starter has ended meanwhile.
  if (is_same_process && (seen.place.is == place_kind::agent || seen.place.is == place_kind::worker) && who->place.is != place_kind::worker)
    who->place = std::move(seen.place);
  who->looked_at = now;
  table_.put(connection, *who);
  return who;
}

claim principals::identify(const grpc::ServerContextBase& ctx, look_again when) const {
  claim out;
  out.at = tokens_.invalidations();
  out.connection = connection_of(ctx);
  auto who = look(out.connection, when);
  if (who) {
    out.share = share_of(*who);
    out.place = who->place;
    out.looked_at = who->looked_at;
  }
  if (!who || who->pid <= 0) {
    out.rule = v1::Explanation::UNREADABLE;
    out.refused = reason_of(out.place) + ask_why;
    return out;
  }
  const auto& metadata = ctx.client_metadata();
  if (auto i = metadata.find(token_metadata); i != metadata.end())
    identify_by_token(out, {i->second.data(), i->second.size()});
  else if (!identify_by_login(out, *who))
    identify_by_place(out);
  return out;
}

/// A token outranks the place: it was handed out on purpose. One that is unknown is no reason to fall back to more rights.
void principals::identify_by_token(claim& out, std::string_view hex) const {
  auto hash = sha256(from_hex(hex));
  out.rule = v1::Explanation::TOKEN;
  std::optional<bearer> shown;
  if (auto worker = workers_.of_token(hash)) {
    auto [now, until_ms] = workers_.current(std::move(*worker));
    shown = bearer{std::move(now), {}, {}, until_ms};
  } else
    shown = tokens_.resolved(hash);
  if (!shown) {
    out.token_hash = std::move(hash);
    return;
  }
  if (auto objection = objection_to_token(out.place, *shown); !objection.empty()) {
    out.rule = v1::Explanation::TOKEN_ELSEWHERE;
    out.refused = std::move(objection);
    return;
  }
  out.principal = std::move(shown->who);
  out.grants_until_ms = shown->until_ms;
}

/// Who can read another process's environment has its token, too. Below a worker or an agent it is no proof that it was handed out there.
std::string principals::objection_to_token(const caller_place& at, const bearer& shown) const {
  if (at.is == place_kind::user || at.is == place_kind::orphan)
    return {};
  const auto& roots = places_.roots();
  auto is_at_worker = [&](const std::string& session) {
    return (at.is == place_kind::worker && at.worker.id() == session) || (at.is == place_kind::stray && at.own_session == session);
  };
  const auto& id = shown.who.id();
  bool elsewhere = false;
  if (workers_.has_session(id))
    elsewhere = !is_at_worker(id);
  else if (workers_.has_session(shown.made_by))
    elsewhere = !is_at_worker(shown.made_by);
  else if (auto root = roots.root_of_session(id))
    elsewhere = at.is != place_kind::agent || at.root != *root;
  return elsewhere ? "the token is that of another worker or agent, and " + reason_of(at) + "; unset SWARM_TOKEN" + ask_why : std::string{};
}

session_view principals::sessions() const {
  auto view = machines_sessions();
  view.is_agents = [&roots = places_.roots(), by_name = std::move(view.is_agents)](const process_stat& p, const process_stat& leader) {
    return roots.known(p) || by_name(p, leader);
  };
  return view;
}

bool principals::is_logged_in(const caller_process& who) const {
  const auto is = who.place.is;
  if (!logins_ || (is != place_kind::agent && is != place_kind::marked && is != place_kind::orphan) || !logins_->any())
    return false;
  const auto pid = static_cast<pid_t>(who.pid);
  auto session = person_session_of(pid, sessions());
  return session && logins_->is_person(*session) && pid_start_time(pid) == who.start;
}

/// A person who has shown the passphrase in this terminal outranks what the place looks like. Asked only where the place alone says otherwise.
bool principals::identify_by_login(claim& out, const caller_process& who) const {
  if (!is_logged_in(who))
    return false;
  out.share = own_share_of(who);
  out.rule = v1::Explanation::LOGIN;
  out.principal.set_kind(v1::Principal::OPERATOR);
  return true;
}

void principals::identify_by_place(claim& out) const {
  const auto& place = out.place;
  switch (place.is) {
    case place_kind::unseen:
    case place_kind::stray:
      out.rule = place.is == place_kind::stray ? v1::Explanation::STRAY : v1::Explanation::UNREADABLE;
      out.refused = reason_of(place) + ask_why;
      return;
    case place_kind::worker:
      out.rule = v1::Explanation::WORKER;
      std::tie(out.principal, out.grants_until_ms) = workers_.current(place.worker);
      return;
    case place_kind::marked:
      out.rule = v1::Explanation::MARK;
      out.principal = agent_without_session(place.root);
      return;
    case place_kind::orphan:
      out.rule = v1::Explanation::ORPHAN;
      out.principal.set_kind(v1::Principal::ORPHAN);
      return;
    case place_kind::user:
      out.rule = v1::Explanation::USER;
      out.principal.set_kind(v1::Principal::OPERATOR);
      return;
    case place_kind::agent: break;
  }
  out.rule = v1::Explanation::AGENT_UNREGISTERED;
  out.principal = agent_without_session(place.root);
  auto root = places_.roots().find(place.root);
  if (!root || root->sessions.empty())
    return;
  if (auto known = tokens_.resolved(token_cache::key_of_session(root->sessions.back().id))) {
    out.rule = v1::Explanation::AGENT_ROOT;
    out.principal = std::move(known->who);
    out.grants_until_ms = known->until_ms;
    return;
  }
  out.sessions.assign(root->sessions.rbegin(), root->sessions.rend());
}

bool principals::still_holds(claim& who) const {
  if (who.rule == v1::Explanation::LOGIN) {
    auto process = table_.find(who.connection);
    if (!process || !is_logged_in(*process))
      return false;
  }
  if (who.looked_at == places_.roots().generation())
    return true;
  auto now = look(who.connection, look_again::if_needed);
  if (!now || !is_same_place(now->place, who.place))
    return false;
  who.looked_at = now->looked_at;
  return true;
}

std::optional<bearer> principals::registered(const claim& who, const v1::Session& s, std::int64_t now_ms) const {
  if (!who.is_below_agent() || !places_.roots().bind(who.place.root, s.id(), s.scope()))
    return std::nullopt;
  // The session is the agent's all the same: only who shows a token stays who the token says.
  if (who.rule == v1::Explanation::TOKEN)
    return std::nullopt;
  return bearer_of(s, now_ms);
}

} // namespace swarm
