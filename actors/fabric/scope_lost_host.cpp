#include "actors/fabric/scope_lost_host.hpp"

#include <algorithm>

#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lost_host.hpp"
#include "actors/domain/rules.hpp"
#include "actors/fabric/cluster/placement.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm::lost_host {

namespace {

/// What is under way for a host that has gone: answers when the last step has ended.
class loss {
public:
  loss(std::string node_id, runtime::parked<bool> answer) : node_id_(std::move(node_id)), answer_(std::move(answer)) {}
  const std::string& node_id() const noexcept { return node_id_; }
  void begin() noexcept { ++steps_; }
  void end(bool well) {
    failed_ |= !well;
    if (--steps_ > 0)
      return;
    if (failed_)
      answer_.answer(fail(errc::unavailable, "what a lost host held is not all released yet"));
    else
      answer_.answer(true);
  }

private:
  const std::string node_id_;
  runtime::parked<bool> answer_; // dropped with the actor, it answers that it is not done
  std::size_t steps_ = 0;
  bool failed_ = false;
};
using loss_ptr = std::shared_ptr<loss>;

/// The row as it is now decides whether it still ends.
void end_as_lost(self_ptr self, const loss_ptr& of, std::function<void(v1::Command&)> fill) {
  of->begin();
  ask_writer(
    self, self->state.links.writer, internal_command(*self->state.links.node, self->state.id, std::move(fill)),
    [of](const reply_ptr&) { of->end(true); },
    [self, of](caf::error& e) {
      log::warn({"scope ", self->state.id, ": what a lost host held is not released yet: ", runtime::error_text(e)});
      of->end(false);
    });
}

/// How the host went, for people; empty when the cluster does not know it any more.
std::string how_it_went(self_ptr self, const std::string& node_id) {
  auto* cluster = self->state.links.node->cluster;
  const auto view = cluster ? cluster->view() : v1::ClusterView{};
  for (const auto& n : view.nodes())
    if (n.info().node_id() == node_id)
      return concat({"host ", n.info().node_name(),
                     n.left()                               ? " has left the cluster"
                     : n.link() == v1::ClusterNode::REVOKED ? " was revoked"
                                                            : " was lost"});
  return {};
}

void end_lost_sessions(self_ptr self, const loss_ptr& of, std::string page = {}) {
  of->begin();
  auto q = internal_query(*self->state.links.node, self->state.id, [&](v1::Query& x) { x.mutable_list_sessions()->mutable_page()->set_token(page); });
  self->request(self->state.reader(), limits::call_deadline_default(), q)
    .then(
      [self, of](const answer_ptr& a) {
        for (const auto& row : a->sessions().sessions())
          if (row.node_id() == of->node_id() && row.spawn_id().empty())
            end_as_lost(self, of, [&](v1::Command& c) {
              c.mutable_expire_session()->set_session_id(row.id());
              c.mutable_expire_session()->set_lost_node(domain::text_of({of->node_id(), how_it_went(self, of->node_id())}));
            });
        if (auto next = a->sessions().page().token(); !next.empty())
          end_lost_sessions(self, of, next);
        of->end(true);
      },
      [self, of](caf::error& e) {
        of->end(false);
        scope_internal::not_read(self, "sessions", e);
      });
}

v1::SpawnEnded end_of_lost(self_ptr self, const v1::Spawn& row) {
  auto* cluster = self->state.links.node->cluster;
  const auto view = cluster ? cluster->view() : v1::ClusterView{};
  auto next = row.retries_left() > 0 ? place_again(row, view) : placement{};
  v1::SpawnEnded end;
  end.set_spawn_id(row.id());
  end.set_attempt(row.attempt());
  end.set_reason(domain::text_of({domain::host_lost, how_it_went(self, row.node_id())}));
  end.set_next_node_id(next.node_id);
  end.set_next_placement(next.why);
  // One that comes back starts it again; one that has left does not.
  auto has_left = std::any_of(view.nodes().begin(), view.nodes().end(),
                              [&](const auto& n) { return n.info().node_id() == row.node_id() && n.link() == v1::ClusterNode::REVOKED; });
  if (row.retries_left() > 0 && next.node_id.empty() && has_left)
    end.set_reason(concat({"spawn_failed: ", how_it_went(self, row.node_id()), "; ", next.why}));
  return end;
}

void end_lost_spawns(self_ptr self, const loss_ptr& of, std::string page = {}) {
  of->begin();
  auto q = internal_query(*self->state.links.node, self->state.id, [&](v1::Query& x) {
    x.mutable_list_spawns()->set_live_only(true);
    x.mutable_list_spawns()->mutable_page()->set_token(page);
  });
  self->request(self->state.reader(), limits::call_deadline_default(), q)
    .then(
      [self, of](const answer_ptr& a) {
        for (const auto& row : a->spawns().spawns()) {
          if (row.node_id() != of->node_id() || row.session_id().empty())
            continue;
          end_as_lost(self, of, [&](v1::Command& c) { *c.mutable_spawn_ended() = end_of_lost(self, row); });
        }
        if (auto next = a->spawns().page().token(); !next.empty())
          end_lost_spawns(self, of, next);
        of->end(true);
      },
      [self, of](caf::error& e) {
        of->end(false);
        scope_internal::not_read(self, "workers", e);
      });
}

} // namespace

void begin_elsewhere_if_gone(self_ptr self, const v1::Spawn& row) {
  const auto& node = *self->state.links.node;
  if (self->state.is_away() || !node.cluster || row.session_id().empty() || row.node_id() == node.facts.node_id)
    return;
  const auto view = node.cluster->view();
  auto why = gone_since(row.node_id(), view, self->state.now_ms());
  if (why.empty())
    return;
  auto next = place_again(row, view);
  auto comes_back = std::any_of(view.nodes().begin(), view.nodes().end(),
                                [&](const auto& n) { return n.info().node_id() == row.node_id() && n.link() == v1::ClusterNode::DOWN; });
  if (next.node_id.empty() && comes_back)
    return; // it is started there then
  auto cmd = internal_command(node, self->state.id, [&](v1::Command& c) {
    auto& end = *c.mutable_spawn_ended();
    end.set_spawn_id(row.id());
    end.set_attempt(row.attempt());
    end.set_never_ran(true);
    end.set_reason(next.node_id.empty() ? concat({"spawn_failed: ", why, "; ", next.why}) : domain::node_restarted);
    end.set_next_node_id(next.node_id);
    end.set_next_placement(next.why);
  });
  ask_writer(
    self, self->state.links.writer, cmd, [](const reply_ptr&) {},
    [self](caf::error& e) {
      log::warn({"scope ", self->state.id, ": a worker waits for a host that has gone: ", runtime::error_text(e)});
    });
}

caf::result<bool> end_what_lived_on(self_ptr self, const std::string& node_id) {
  if (self->state.is_away())
    return true;
  auto promise = self->make_response_promise<bool>();
  auto of = std::make_shared<loss>(node_id, runtime::parked<bool>{promise});
  of->begin();
  end_lost_sessions(self, of);
  end_lost_spawns(self, of);
  of->end(true);
  return promise;
}

} // namespace swarm::lost_host
