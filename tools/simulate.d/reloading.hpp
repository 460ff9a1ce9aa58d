// What a member does whose link was reset: it reads the scopes, and of each the sessions and workers, a page after the other, as
// actors/fabric front and scope do. What is not answered in time is begun again after limits::link_redial_max().
#pragma once

#include "tools/simulate.d/cluster.hpp"

namespace swarm::simulate {

class reloading {
public:
  explicit reloading(cluster& c) : c_(c), nodes_(c.setup.nodes) {}
  reloading(const reloading&) = delete;
  reloading& operator=(const reloading&) = delete;

  void start(std::size_t node) {
    auto& n = nodes_[node];
    ++n.generation;
    n.left = 0;
    n.done = false;
    read(node, "", list::scopes, "");
  }
  std::size_t done() const {
    return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.done; }));
  }
  std::uint64_t begun_again = 0, rows = 0;

private:
  enum class list { scopes, sessions, spawns };
  struct state {
    std::uint64_t generation = 0;
    std::size_t left = 0; // lists that are being read
    bool done = false;
  };

  void read(std::size_t node, const std::string& scope, list what, const std::string& page) {
    auto& n = nodes_[node];
    n.left += page.empty() ? 1 : 0;
    c_.ask(node, question(scope, what, page), [this, node, scope, what, generation = n.generation](const v1::LinkResponse* r) {
      if (generation != nodes_[node].generation)
        return;
      if (!r || !r->has_answer_to_query()) {
        ++begun_again;
        c_.time.in(limits::link_redial_max().count() * one_ms, [this, node, scope, what, generation] {
          if (generation != nodes_[node].generation)
            return;
          --nodes_[node].left;
          read(node, scope, what, "");
        });
        return;
      }
      take(node, scope, what, r->answer_to_query());
    });
  }

  void take(std::size_t node, const std::string& scope, list what, const v1::Answer& a) {
    rows += static_cast<std::size_t>(a.sessions().sessions_size() + a.spawns().spawns_size());
    for (const auto& s : a.scopes().scopes())
      for (auto of_scope : {list::sessions, list::spawns})
        read(node, s.scope(), of_scope, "");
    const auto& next = what == list::scopes     ? a.scopes().page().token()
                       : what == list::sessions ? a.sessions().page().token()
                                                : a.spawns().page().token();
    if (!next.empty())
      return read(node, scope, what, next);
    auto& n = nodes_[node];
    n.done = --n.left == 0;
  }

  static v1::LinkRequest question(const std::string& scope, list what, const std::string& page) {
    v1::LinkRequest r;
    r.mutable_principal()->set_kind(v1::Principal::NODE);
    auto& q = *r.mutable_query();
    q.set_scope(scope);
    *q.mutable_principal() = r.principal();
    if (what == list::scopes) {
      q.mutable_list_scopes()->mutable_page()->set_token(page);
    } else if (what == list::sessions) {
      q.mutable_list_sessions()->mutable_page()->set_token(page);
    } else {
      q.mutable_list_spawns()->set_live_only(true);
      q.mutable_list_spawns()->mutable_page()->set_token(page);
    }
    return r;
  }

  cluster& c_;
  std::vector<state> nodes_;
};

} // namespace swarm::simulate
