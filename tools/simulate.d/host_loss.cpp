#include "tools/simulate.d/host_loss.hpp"

namespace swarm::simulate {

host_loss_watch::host_loss_watch(cluster& c) : c_(c) {
  c_.on_gone = [this](std::size_t node) { gone(node); };
  c_.on_batch = [this](const v1::Batch& b) { note(b); };
  for (const auto& a : c_.agents)
    living_.insert(a.id);
}

void host_loss_watch::lose(std::size_t node) {
  lost_.insert(node);
  for (const auto& a : c_.agents)
    if (a.node == node) {
      ends_[a.id] = 0;
      living_.erase(a.id);
    }
  for (const auto& [id, where] : c_.workers)
    if (where == node) {
      worker_ends_[id] = 0;
      ++workers_lost;
    }
}

void host_loss_watch::note(const v1::Batch& b) {
  for (const auto& p : b.patches()) {
    if (p.has_message() && !p.message().read())
      ++mail;
    if (p.has_erased() && p.erased().table() == v1::Erased::SESSIONS) {
      ended_by_mistake += living_.count(p.erased().key());
      if (auto i = ends_.find(p.erased().key()); i != ends_.end()) {
        ++(i->second++ == 0 ? sessions_ended : ended_twice);
        last_end = c_.time.now();
      }
    }
    if (p.has_spawn() && (p.spawn().status() == v1::Spawn::ENDED || p.spawn().status() == v1::Spawn::FAILED))
      if (auto i = worker_ends_.find(p.spawn().id()); i != worker_ends_.end()) {
        ++(i->second++ == 0 ? workers_ended : ended_twice);
        last_end = c_.time.now();
      }
  }
}

void host_loss_watch::gone(std::size_t node) {
  if (lost_.erase(node) == 0)
    return;
  if (first_gone == 0)
    first_gone = c_.time.now();
  for (std::size_t i = 0; i < c_.scopes(); ++i)
    for (auto workers : {false, true})
      read(star::node_id(node), c_.scope(i), workers, "");
}

void host_loss_watch::read(const std::string& node_id, const std::string& scope, bool workers, const std::string& page) {
  auto q = std::make_shared<v1::Query>();
  q->set_scope(scope);
  q->mutable_principal()->set_kind(v1::Principal::NODE);
  if (workers) {
    q->mutable_list_spawns()->set_live_only(true);
    q->mutable_list_spawns()->mutable_page()->set_token(page);
  } else {
    q->mutable_list_sessions()->mutable_page()->set_token(page);
  }
  ++reading_;
  c_.store->ask(q, [this, node_id, scope, workers](const answer_ptr& a) {
    for (const auto& row : a->sessions().sessions())
      if (row.node_id() == node_id && row.spawn_id().empty() && row.presence() == v1::Session::PROCESS)
        end(scope, [&](v1::Command& cmd) {
          cmd.mutable_expire_session()->set_session_id(row.id());
          cmd.mutable_expire_session()->set_pid(row.pid());
          cmd.mutable_expire_session()->set_pid_start(row.pid_start());
        });
    for (const auto& row : a->spawns().spawns())
      if (row.node_id() == node_id && !row.session_id().empty())
        end(scope, [&](v1::Command& cmd) {
          cmd.mutable_spawn_ended()->set_spawn_id(row.id());
          cmd.mutable_spawn_ended()->set_attempt(row.attempt());
          cmd.mutable_spawn_ended()->set_reason("node_restarted");
        });
    const auto& next = workers ? a->spawns().page().token() : a->sessions().page().token();
    if (!next.empty())
      read(node_id, scope, workers, next);
    --reading_;
  });
}

void host_loss_watch::end(const std::string& scope, const std::function<void(v1::Command&)>& fill) {
  auto e = std::make_shared<execution>();
  e->command.set_scope(scope);
  e->command.mutable_principal()->set_kind(v1::Principal::NODE);
  e->command.mutable_principal()->set_id("home");
  fill(e->command);
  ++commands;
  if (!c_.store->submit(e, [this](const outcome&) { ++answered_; }))
    ++not_taken; // the scope writes a warning, and that is all
}

} // namespace swarm::simulate
