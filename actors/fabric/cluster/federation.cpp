#include "actors/fabric/cluster/federation.hpp"

#include <algorithm>

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/cluster/link.hpp"
#include "actors/fabric/cluster/remote.hpp"
#include "actors/fabric/graph.hpp"
#include "actors/fabric/tree_collector.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/error_text.hpp"
#include "actors/runtime/scheduling.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

federation_state::~federation_state() {
  for (auto& [id, m] : members)
    if (m.who)
      runtime::ask_to_end(m.who);
}

namespace {

using self_ptr = federation_actor::stateful_pointer<federation_state>;

/// The number of steps that the thread which has read a frame takes itself. A command needs fewer until its answer; in a flood the workers
/// do the rest.
constexpr int link_turns = 32;

bool is_home(self_ptr self) {
  auto* cluster = self->state.node->cluster;
  return cluster && cluster->shared_home().empty() && !cluster->view().cluster_id().empty();
}

void start(self_ptr self, const std::string& id, federation_state::member& m) {
  auto& st = self->state;
  // Members call their home, which may not be able to call them.
  auto dials = st.node->cluster->shared_home() == id && !m.address.address().empty();
  m.who = self->spawn<caf::monitored>(link, st.node, m.address, dials, caf::actor_cast<federation_actor>(self), st.watch, st.processes);
  m.since_ms = st.node->clock->boot_ms();
  if (st.front)
    caf::anon_send(m.who, attach_atom_v, st.front);
  if (m.revoked)
    caf::anon_send(m.who, gone_atom_v);
}

/// Members are linked to the home only.
bool is_linked(self_ptr self, const std::string& id) {
  auto home = self->state.node->cluster->shared_home();
  return home.empty() || home == id;
}

/// A node that has gone out of the cluster takes its links with it.
void forget_others(self_ptr self, const v1::ClusterView& view) {
  auto& st = self->state;
  auto stays = [&](const std::string& id) {
    return is_linked(self, id) &&
           std::any_of(view.nodes().begin(), view.nodes().end(), [&](const v1::ClusterNode& n) { return n.info().node_id() == id; });
  };
  for (auto i = st.members.begin(); i != st.members.end();) {
    if (stays(i->first)) {
      ++i;
      continue;
    }
    if (i->second.who)
      runtime::ask_to_end(i->second.who);
    st.due.cancel(i->first);
    i = st.members.erase(i);
  }
}

void take_view(self_ptr self, const v1::ClusterView& view) {
  auto& st = self->state;
  forget_others(self, view);
  const bool here_is_home = is_home(self);
  for (const auto& n : view.nodes()) {
    const auto& id = n.info().node_id();
    if (id == st.node->facts.node_id || !is_linked(self, id))
      continue;
    auto& m = st.members[id];
    m.address.set_node_id(id);
    m.address.set_node_name(n.info().node_name());
    m.address.set_address(n.info().address());
    // A member keeps calling a home that has revoked it.
    auto revoked = here_is_home && n.link() == v1::ClusterNode::REVOKED;
    if (revoked && !std::exchange(m.revoked, true) && m.who)
      caf::anon_send(m.who, gone_atom_v);
    // One that had left has come in again: with a link that knows nothing of the last one.
    if (!revoked && std::exchange(m.revoked, false) && m.who)
      runtime::ask_to_end(std::exchange(m.who, nullptr));
    if (!m.who)
      start(self, id, m);
  }
}

/// The link to the node, or to the home, which passes on what is asked of another member.
link_actor way_to(self_ptr self, const std::string& node_id) {
  auto& st = self->state;
  auto i = st.members.find(node_id);
  if (i == st.members.end() && st.node->cluster)
    i = st.members.find(st.node->cluster->shared_home());
  return i == st.members.end() ? link_actor{} : i->second.who;
}

caf::result<link_response_ptr> ask(self_ptr self, const std::string& node_id, const link_request_ptr& request) {
  if (auto who = way_to(self, node_id))
    return self->delegate(who, request);
  if (self->state.members.contains(node_id))
    return fail(errc::unavailable, "the part that speaks to that node is being started again; try again");
  return fail(errc::not_found, concat({"there is no link to a node ", node_id, "; `swarmctl nodes` lists the nodes"}));
}

// -- terminals of other nodes ----------------------------------------------------------------

link_request_ptr by(const v1::Principal& who, std::function<void(v1::LinkRequest&)> fill) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(limits::call_deadline_default().count() / 2);
  *r->mutable_principal() = who;
  fill(*r);
  return r;
}

/// A link that ends says so, and its node is looked at then; also when this process was suspended, and has heard of nothing meanwhile.
void look_at(self_ptr self, const std::string& node_id, const v1::ClusterNode& n) {
  auto i = self->state.members.find(node_id);
  if (i == self->state.members.end())
    return;
  const bool is_up = n.link() == v1::ClusterNode::UP;
  if (std::exchange(i->second.was_up, is_up) && !is_up)
    i->second.lost_ms = self->state.node->clock->boot_ms();
}

/// The link is likely to come up: it was lost a moment ago, or this node, or its actor for the other one, has just started and has not heard of
/// the other one since.
bool is_awaited(self_ptr self, const federation_state::member& m, const v1::ClusterNode& n) {
  auto recent = [now = self->state.node->clock->boot_ms()](std::int64_t ms) { return now - ms < limits::restart_grace().count(); };
  return n.link() == v1::ClusterNode::DOWN && ((n.last_heard_ms() == 0 && recent(m.since_ms)) || (m.lost_ms != 0 && recent(m.lost_ms)));
}

/// Asks all linked nodes at once, but not the one that the question comes from; `each` for every answer, `not_asked` for a node that is not linked
/// or does not answer, and whether it is likely to do so soon, `done` when the last has come or failed.
void ask_all(
  self_ptr self, const link_request_ptr& request, std::function<void(const v1::LinkResponse&)> each, std::function<void()> done,
  std::function<void(const std::string& node, bool is_awaited)> not_asked = [](const std::string&, bool) {}) {
  auto left = std::make_shared<std::size_t>(1);
  auto step = [left, done] {
    if (--*left == 0)
      done();
  };
  for (const auto& [id, m] : self->state.members) {
    if (m.revoked || id == request->principal().node())
      continue;
    if (!m.who) {
      not_asked(m.address.node_name(), true); // it is being started again
      continue;
    }
    ++*left;
    // A link that is lost, or an actor that ends, while the question is under way says nothing of what the node has.
    auto failed = [step, not_asked, name = m.address.node_name()](caf::error& e) {
      not_asked(name, e != errc::forbidden);
      step();
    };
    self->request(m.who, limits::tree_patience(), status_atom_v)
      .then(
        [self, node_id = id, who = m.who, request, each, step, not_asked, failed](const cluster_node_ptr& n) {
          look_at(self, node_id, *n);
          if (n->link() != v1::ClusterNode::UP) {
            auto known = self->state.members.find(node_id);
            not_asked(n->info().node_name(), known != self->state.members.end() && is_awaited(self, known->second, *n));
            return step();
          }
          self->request(who, std::chrono::milliseconds{request->timeout_ms()}, request)
            .then(
              [each, step](const link_response_ptr& r) {
                each(*r);
                step();
              },
              failed);
        },
        failed);
  }
  step();
}

caf::result<pty_actor> find_pty(self_ptr self, const std::string& id, const principal_ptr& who) {
  auto promise = self->make_response_promise<pty_actor>();
  auto kept = std::make_shared<runtime::parked<pty_actor>>(promise);
  auto failure = std::make_shared<caf::error>(fail(errc::not_found, concat({"no terminal ", id, " on the nodes that are linked"})));
  auto away = std::make_shared<std::string>();
  ask_all(
    self, by(*who, [&](v1::LinkRequest& r) { r.mutable_find_pty()->set_id(id); }),
    [self, kept, who, failure](const v1::LinkResponse& r) {
      const bool is_of_home = !self->state.node->cluster->shared_home().empty();
      const auto code = static_cast<errc>(r.error().code());
      if (r.has_pty() && kept->pending())
        kept->answer(self->home_system().spawn(remote_pty, caf::actor_cast<federation_actor>(self), r.pty().node_id(), r.pty(), who));
      // Which nodes it has not asked is the home's to say.
      else if (r.has_error() && (code == errc::forbidden || (*failure == errc::not_found && (code != errc::not_found || is_of_home))))
        *failure = fail(code, r.error().text());
    },
    // A node that does not say what terminals it has may hold this one.
    [kept, failure, away, id] {
      if (*failure == errc::not_found && !away->empty())
        *failure = fail(errc::not_found, concat({"no terminal ", id, " on the nodes that are linked; not linked, and so not asked: ", *away,
                                                 "; `swarmctl nodes` shows since when"}));
      kept->answer(std::move(*failure));
    },
    [failure, away, id](const std::string& node, bool is_awaited) {
      if (!is_awaited)
        *away += concat({away->empty() ? "" : ", ", node});
      else if (*failure == errc::not_found)
        *failure = fail(errc::unavailable, concat({"no terminal ", id, " on the nodes that are linked; the node ", node,
                                                   ", which does not answer just now, is waited for: try again"}));
    });
  return promise;
}

caf::result<std::vector<pty_info_ptr>> list_ptys(self_ptr self, const std::string& scope, const v1::Principal& who) {
  auto promise = self->make_response_promise<std::vector<pty_info_ptr>>();
  auto kept = std::make_shared<runtime::parked<std::vector<pty_info_ptr>>>(promise);
  auto all = std::make_shared<std::vector<pty_info_ptr>>();
  auto fill = [&](v1::LinkRequest& r) {
    r.mutable_list_ptys()->set_scope(scope);
    // The home asks for a member: its answer comes while the member still waits, also when a third node does not answer.
    if (self->state.members.contains(who.node()))
      r.set_timeout_ms(r.timeout_ms() / 2);
  };
  ask_all(
    self, by(who, fill),
    [all](const v1::LinkResponse& r) {
      for (const auto& p : r.ptys().ptys())
        all->push_back(std::make_shared<const v1::PtyInfo>(p));
    },
    [kept, all] { kept->answer(std::move(*all)); });
  return promise;
}

// -- the graph -------------------------------------------------------------------------------

/// Of all nodes but this one, those of other members by way of the home.
caf::result<graph_ptr> graph_of_others(self_ptr self, const std::string& filter) {
  auto& st = self->state;
  auto promise = self->make_response_promise<graph_ptr>();
  auto kept = std::make_shared<runtime::parked<graph_ptr>>(promise);
  auto all = std::make_shared<v1::ActorGraph>();
  auto left = std::make_shared<std::size_t>(1);
  auto step = [kept, all, left] {
    if (--*left == 0)
      kept->answer(std::make_shared<const v1::ActorGraph>(std::move(*all)));
  };
  v1::Principal person;
  person.set_kind(v1::Principal::OPERATOR);
  const auto view = st.node->cluster ? st.node->cluster->view() : v1::ClusterView{};
  for (const auto& n : view.nodes()) {
    const auto& id = n.info().node_id();
    if (n.link() == v1::ClusterNode::SELF || n.link() == v1::ClusterNode::REVOKED)
      continue;
    auto who = way_to(self, id);
    auto missing = [all, step, name = n.info().node_name()](const std::string& why) {
      auto& row = *all->add_nodes();
      row.set_path("node");
      row.set_kind("node");
      row.set_state("silent");
      row.set_detail(why);
      row.set_node(name);
      step();
    };
    ++*left;
    if (!who) {
      missing("the part that speaks to it is being started again; try again");
      continue;
    }
    auto request = by(person, [&](v1::LinkRequest& r) {
      r.set_timeout_ms(limits::graph_of_others_patience.count());
      r.set_to_node(id);
      r.mutable_graph()->set_scope(filter);
    });
    self->request(who, 2 * limits::graph_of_others_patience, request)
      .then(
        [all, step, missing](const link_response_ptr& r) {
          if (!r->has_graph())
            return missing(r->error().text());
          add_rows(*all, r->graph());
          step();
        },
        [missing](caf::error& e) { missing(runtime::error_text(e)); });
  }
  step();
  return promise;
}

// -- how the nodes are -----------------------------------------------------------------------

/// Answers once every linked node has reported its state, or its time is over.
void collect(self_ptr self, std::function<void(v1::ClusterView)> done) {
  auto& st = self->state;
  auto view = std::make_shared<v1::ClusterView>(st.node->cluster ? st.node->cluster->view() : v1::ClusterView{});
  auto left = std::make_shared<std::size_t>(1);
  auto step = [view, left, done] {
    if (--*left == 0)
      done(std::move(*view));
  };
  for (int i = 0; i < view->nodes_size(); ++i) {
    auto known = st.members.find(view->nodes(i).info().node_id());
    auto who = known == st.members.end() ? link_actor{} : known->second.who;
    if (!who)
      continue;
    ++*left;
    self->request(who, limits::tree_patience(), status_atom_v)
      .then(
        [self, view, i, step](const cluster_node_ptr& said) {
          look_at(self, said->info().node_id(), *said);
          auto& n = *view->mutable_nodes(i);
          auto address = n.info().address();
          auto draining = n.info().draining();
          if (said->info().version().empty()) {
            n.set_link(said->link()); // it has not spoken yet
          } else {
            *n.mutable_info() = said->info();
            n.mutable_info()->set_address(address);
            n.mutable_info()->set_draining(draining); // the home says so, not the node
            n.set_link(said->link());
          }
          n.set_last_heard_ms(said->last_heard_ms());
          n.set_round_trip_us(said->round_trip_us());
          n.set_clock_offset_ms(said->clock_offset_ms());
          n.set_unacknowledged(said->unacknowledged());
          n.set_down_ms(said->down_ms());
          n.set_down_reason(said->down_reason());
          step();
        },
        [step](caf::error&) { step(); });
  }
  step();
}

/// The home tells all others when one of them comes, goes or says something new of itself.
void pass_on(self_ptr self) {
  auto& st = self->state;
  if (!st.node->cluster)
    return;
  if (std::exchange(st.asking, true)) {
    st.changed = true;
    return;
  }
  collect(self, [self](v1::ClusterView view) {
    auto& s = self->state;
    s.asking = false;
    s.node->cluster->keep(view);
    auto shared = std::make_shared<const v1::ClusterView>(std::move(view));
    for (const auto& [id, m] : s.members)
      if (m.who)
        caf::anon_send(m.who, shared);
    if (std::exchange(s.changed, false))
      pass_on(self);
  });
}

void complain(self_ptr self, const std::string& why) {
  if (self->state.refused.add(why, self->state.node->clock->boot_ms()))
    log::warn({"a node was not let in: ", why});
}

void on_news(self_ptr self, const link_news_ptr& news) {
  auto& st = self->state;
  if (news->node_id.empty())
    return complain(self, news->text); // nobody knows who it was
  auto i = st.members.find(news->node_id);
  if (i != st.members.end() && i->second.who)
    return caf::anon_send(i->second.who, news);
  if (news->kind != link_news::connected)
    return;
  // The transport has verified its certificate, so the list of nodes was lost.
  if (is_home(self) && i == st.members.end()) {
    auto view = st.node->cluster->view();
    view.add_nodes()->mutable_info()->set_node_id(news->node_id);
    st.node->cluster->keep(view);
    take_view(self, view);
    if (auto who = way_to(self, news->node_id))
      return caf::anon_send(who, news);
  }
  complain(self, concat({"the node ", news->node_id, " is not linked to this one; members are linked to the home only"}));
  news->connection->close();
}

void on_down(self_ptr self, const caf::down_msg& dm) {
  auto& st = self->state;
  for (auto& [id, m] : st.members) {
    if (!m.who || m.who.address() != dm.source)
      continue;
    auto now = st.node->clock->boot_ms();
    auto next = m.failures.failed(st.node->restarts, std::chrono::milliseconds{now - m.since_ms}, now, std::hash<std::string>{}(id));
    m.who = nullptr;
    st.due.set(id, now + next.wait.count());
    st.timer.arm(self, now, st.due.next());
  }
}

void start_due(self_ptr self) {
  auto& st = self->state;
  auto now = st.node->clock->boot_ms();
  while (auto id = st.due.take_due(now))
    if (auto i = st.members.find(*id); i != st.members.end() && !i->second.who)
      start(self, i->first, i->second);
  st.timer.arm(self, now, st.due.next());
}

caf::result<std::vector<runtime::tree_entry>> tree(self_ptr self) {
  auto& st = self->state;
  auto promise = self->make_response_promise<std::vector<runtime::tree_entry>>();
  auto out = std::make_shared<tree_collector>(promise);
  out->add(runtime::self_row(
    self, "up", (st.members.empty() ? "no other nodes" : std::to_string(st.members.size()) + " other nodes") + st.refused.summary("refused")));
  for (const auto& [id, m] : st.members) {
    runtime::tree_entry row;
    row.path = m.address.node_name().empty() ? id : m.address.node_name();
    row.kind = "link";
    row.restarts = m.failures.failures();
    if (!m.who) {
      out->add_waiting(std::move(row));
      continue;
    }
    row.age_ms = st.node->clock->boot_ms() - m.since_ms;
    out->ask(self, m.who, std::move(row));
  }
  return promise;
}

} // namespace

federation_actor::behavior_type federation(self_ptr self, node_environment_ptr node, watch_hub_actor watch, processes_actor processes) {
  runtime::install_defaults(self);
  self->set_down_handler([self](caf::down_msg& dm) { on_down(self, dm); });
  auto& st = self->state;
  st.node = std::move(node);
  st.watch = std::move(watch);
  st.processes = std::move(processes);
  caf::anon_send(st.watch, attach_atom_v, caf::actor_cast<commit_sink_actor>(self));
  if (st.node->links)
    st.node->links->listen([addr = self->address(), &sys = self->home_system()](const link_news_ptr& news) {
      auto who = caf::actor_cast<federation_actor>(addr);
      if (!who)
        return;
      auto post = [&] { caf::anon_send(who, news); };
      if (news->kind != link_news::frame && news->kind != link_news::written)
        return post();
      runtime::run_here(sys, post, [left = link_turns]() mutable { return left-- <= 0; });
    });
  if (st.node->cluster) {
    take_view(self, st.node->cluster->view());
    st.node->cluster->listen([addr = self->address()] {
      if (auto who = caf::actor_cast<federation_actor>(addr))
        caf::anon_send(who, tick_atom_v, std::uint64_t{0});
    });
  }
  return {
    [self](const link_news_ptr& news) { on_news(self, news); },
    [self](const cluster_view_ptr& view) {
      self->state.node->cluster->keep(*view);
      take_view(self, self->state.node->cluster->view());
      pass_on(self);
    },
    [self](const std::string& node_id, const link_request_ptr& request) { return ask(self, node_id, request); },
    [self](abort_atom, const std::string& node_id, const link_request_ptr& request) {
      if (auto who = way_to(self, node_id))
        caf::anon_send(who, abort_atom_v, request);
    },
    [self](const commit_ptr& c) {
      if (self->state.members.empty() || !is_home(self))
        return;
      for (const auto& b : c->batches)
        for (const auto& p : b.patches())
          if (p.has_spawn() && p.spawn().status() == v1::Spawn::REQUESTED && !p.spawn().session_id().empty())
            self->state.node->cluster->placed(p.spawn().node_id());
      for (const auto& b : c->batches)
        for (const auto& [id, m] : self->state.members)
          if (m.who && !m.revoked && concerns(b, id))
            caf::anon_send(m.who, batch_ptr{c, &b});
    },
    [self](attach_atom, const front_actor& front) {
      self->state.front = front;
      for (const auto& [id, m] : self->state.members)
        if (m.who)
          caf::anon_send(m.who, attach_atom_v, front);
    },
    [self](pty_atom, const std::string& id, const principal_ptr& who) { return find_pty(self, id, who); },
    [self](list_atom, const std::string& scope, const principal_ptr& who) { return list_ptys(self, scope, *who); },
    [self](tree_atom, const std::string& filter) { return graph_of_others(self, filter); },
    [self](list_atom) -> caf::result<cluster_view_ptr> {
      auto promise = self->make_response_promise<cluster_view_ptr>();
      auto kept = std::make_shared<runtime::parked<cluster_view_ptr>>(promise);
      collect(self, [kept](v1::ClusterView view) { kept->answer(std::make_shared<const v1::ClusterView>(std::move(view))); });
      return promise;
    },
    [self](tick_atom, std::uint64_t stamp) {
      if (stamp != 0 && self->state.timer.fired(stamp))
        return start_due(self);
      pass_on(self); // a link has news
    },
    [self](tree_atom) { return tree(self); },
  };
}

} // namespace swarm
