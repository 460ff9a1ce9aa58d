#include "services/call/principals.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
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

std::string share_of(const caller_process& p, std::uint64_t start) {
  if (p.in_worker_tree)
    return std::string{workers_share} + p.worker.id();
  return "process/" + std::to_string(p.pid) + "." + std::to_string(start);
}

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

std::optional<v1::Principal> worker_registry::of_tree(std::int64_t pid) const {
  std::set<pid_t> workers;
  {
    std::lock_guard guard{mutex_};
    for (const auto& w : by_pid_)
      workers.insert(static_cast<pid_t>(w.first));
  }
  auto nearest = ancestor_in(static_cast<pid_t>(pid), workers);
  if (!nearest)
    return std::nullopt;
  std::lock_guard guard{mutex_};
  auto w = by_pid_.find(*nearest);
  return w == by_pid_.end() ? std::nullopt : std::optional{as_of_now(w->second)};
}

std::optional<v1::Principal> worker_registry::of_token(std::string_view token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = by_token_.find(std::string{token_hash});
  return i == by_token_.end() ? std::nullopt : std::optional{as_of_now(i->second)};
}

std::optional<v1::Principal> token_cache::resolved(const std::string& token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = resolved_.find(token_hash);
  if (i == resolved_.end() || now_ms_() - i->second.at_ms > i->second.age_max_ms)
    return std::nullopt;
  return i->second.who;
}

std::int64_t token_cache::grants_until(const std::string& token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = resolved_.find(token_hash);
  return i == resolved_.end() ? 0 : i->second.until_ms;
}

void token_cache::remember(const std::string& token_hash, const v1::Principal& who, std::uint64_t asked_at, std::int64_t until_ms,
                           std::int64_t unix_ms) {
  // At its end a grant is gone: the last moment at which it holds is the one before.
  const auto age_max = until_ms == 0 ? limits::resolved_token_age.count() : std::min(limits::resolved_token_age.count(), until_ms - unix_ms - 1);
  std::lock_guard guard{mutex_};
  if (invalidations_ != asked_at)
    return; // it may have gone meanwhile
  if (resolved_.insert_or_assign(token_hash, known{who, now_ms_(), age_max, until_ms}).second)
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
    for (auto& [number, a] : attending_)
      if (a.session_id == session_id)
        told.push_back(std::exchange(a.gone, nullptr));
  }
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

int connection_of(const grpc::ServerContextBase& ctx) {
  auto name = ctx.peer();
  int fd = -1;
  if (name.rfind("fd:", 0) == 0)
    std::from_chars(name.data() + 3, name.data() + name.size(), fd);
  return fd;
}

} // namespace

std::int64_t principals::process_of(const grpc::ServerContextBase& ctx) const {
  auto who = table_.find(connection_of(ctx));
  return who ? who->pid : 0;
}

claim principals::identify(const grpc::ServerContextBase& ctx) const {
  claim out;
  out.at = tokens_.invalidations();
  auto who = table_.find(connection_of(ctx));
  if (!who) {
    out.refused = true;
    return out;
  }
  out.share = who->share;
  const auto& metadata = ctx.client_metadata();
  if (auto i = metadata.find(token_metadata); i != metadata.end()) {
    // A token outranks the place: it was handed out on purpose. One that is unknown is no reason to fall back to more rights.
    auto hash = sha256(from_hex({i->second.data(), i->second.size()}));
    if (auto worker = workers_.of_token(hash)) {
      std::tie(out.principal, out.grants_until_ms) = workers_.current(std::move(*worker));
    } else if (auto bearer = tokens_.resolved(hash)) {
      out.principal = std::move(*bearer);
      out.grants_until_ms = tokens_.grants_until(hash);
    } else {
      out.token_hash = hash;
    }
    return out;
  }
  if (!who->in_worker_tree) {
    out.principal.set_kind(v1::Principal::OPERATOR);
    return out;
  }
  if (who->worker.id().empty())
    out.refused = true;
  else
    std::tie(out.principal, out.grants_until_ms) = workers_.current(who->worker);
  return out;
}

} // namespace swarm
