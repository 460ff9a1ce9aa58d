#include "services/call/principals.hpp"

#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm {

v1::Principal principal_of(const v1::Session& s) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(s.id());
  *p.mutable_grants() = s.grants();
  return p;
}

std::string share_of(const caller_process& p, std::uint64_t start) {
  if (p.in_worker_tree)
    return std::string{workers_share} + p.worker.id();
  return "process/" + std::to_string(p.pid) + "." + std::to_string(start);
}

void worker_registry::put(std::int64_t pid, v1::Principal who, std::string token_hash) {
  std::lock_guard guard{mutex_};
  by_token_[token_hash] = who;
  by_pid_[pid] = {std::move(who), std::move(token_hash)};
}

void worker_registry::erase(std::int64_t pid) {
  std::lock_guard guard{mutex_};
  auto node = by_pid_.extract(pid);
  if (!node.empty())
    by_token_.erase(node.mapped().token_hash);
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
  return w == by_pid_.end() ? std::nullopt : std::optional{w->second.who};
}

std::optional<v1::Principal> worker_registry::of_token(std::string_view token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = by_token_.find(std::string{token_hash});
  return i == by_token_.end() ? std::nullopt : std::optional{i->second};
}

std::optional<v1::Principal> token_cache::resolved(const std::string& token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = resolved_.find(token_hash);
  if (i == resolved_.end() || now_ms_() - i->second.at_ms > limits::resolved_token_age.count())
    return std::nullopt;
  return i->second.who;
}

void token_cache::remember(const std::string& token_hash, const v1::Principal& who, std::uint64_t asked_at) {
  std::lock_guard guard{mutex_};
  if (invalidations_ != asked_at)
    return; // it may have gone meanwhile
  if (resolved_.insert_or_assign(token_hash, known{who, now_ms_()}).second)
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
    auto who_shows_it = workers_.of_token(hash);
    if (!who_shows_it)
      who_shows_it = tokens_.resolved(hash);
    if (who_shows_it)
      out.principal = std::move(*who_shows_it);
    else
      out.token_hash = hash;
    return out;
  }
  if (!who->in_worker_tree) {
    out.principal.set_kind(v1::Principal::OPERATOR);
    return out;
  }
  if (who->worker.id().empty())
    out.refused = true;
  else
    out.principal = who->worker;
  return out;
}

} // namespace swarm
