#include "services/principals.hpp"

#include <charconv>
#include <set>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm {

namespace {

v1::Principal session_principal(const std::string& id) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(id);
  return p;
}

} // namespace

void worker_registry::put(std::int64_t pid, std::string session_id, std::string token_hash) {
  std::lock_guard guard{mutex_};
  by_token_[token_hash] = session_id;
  by_pid_[pid] = {std::move(session_id), std::move(token_hash)};
}

void worker_registry::erase(std::int64_t pid) {
  std::lock_guard guard{mutex_};
  auto node = by_pid_.extract(pid);
  if (!node.empty())
    by_token_.erase(node.mapped().token_hash);
}

std::optional<std::string> worker_registry::session_of_tree(std::int64_t pid) const {
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
  return w == by_pid_.end() ? std::nullopt : std::optional{w->second.session_id};
}

std::optional<std::string> worker_registry::session_of_token(std::string_view token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = by_token_.find(std::string{token_hash});
  return i == by_token_.end() ? std::nullopt : std::optional{i->second};
}

void peer_table::put(int fd, peer p) {
  std::lock_guard guard{mutex_};
  peers_[fd] = std::move(p);
}

std::optional<peer> peer_table::find(int fd) const {
  std::lock_guard guard{mutex_};
  auto i = peers_.find(fd);
  return i == peers_.end() ? std::nullopt : std::optional{i->second};
}

claim principals::identify(const grpc::ServerContextBase& ctx) const {
  claim out;
  auto name = ctx.peer();
  int fd = -1;
  if (name.rfind("fd:", 0) == 0)
    std::from_chars(name.data() + 3, name.data() + name.size(), fd);
  auto who = peers_.find(fd);
  if (!who) {
    out.refused = true;
    return out;
  }
  const auto& metadata = ctx.client_metadata();
  if (auto i = metadata.find(token_metadata); i != metadata.end()) {
    // A token outranks the place: it was handed out on purpose. One that is unknown is no reason to fall back to more rights.
    auto hash = sha256(from_hex({i->second.data(), i->second.size()}));
    auto session = workers_.session_of_token(hash);
    if (!session)
      session = resolved(hash);
    if (session)
      out.principal = session_principal(*session);
    else
      out.token_hash = hash;
    return out;
  }
  if (!who->in_worker_tree) {
    out.principal.set_kind(v1::Principal::OPERATOR);
    return out;
  }
  if (who->session_id.empty())
    out.refused = true;
  else
    out.principal = session_principal(who->session_id);
  return out;
}

std::optional<std::string> principals::resolved(const std::string& token_hash) const {
  std::lock_guard guard{mutex_};
  auto i = resolved_.find(token_hash);
  return i == resolved_.end() ? std::nullopt : std::optional{i->second};
}

void principals::remember(const std::string& token_hash, const std::string& session_id) {
  std::lock_guard guard{mutex_};
  if (resolved_.emplace(token_hash, session_id).second)
    order_.push_back(token_hash);
  if (order_.size() > limits::resolved_tokens_max()) {
    resolved_.erase(order_.front());
    order_.pop_front();
  }
}

} // namespace swarm
