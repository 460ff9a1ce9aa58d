#include "actors/runtime/supervisor_tree.hpp"

#include <iterator>
#include <memory>
#include <utility>

namespace swarm::runtime {

namespace {

using self_ptr = supervisor_actor::stateful_pointer<supervisor_state>;
using child = supervisor_state::child;
using phase = supervisor_state::phase;
using rows = std::vector<tree_entry>;

const char* text(phase p) {
  switch (p) {
    case phase::up: return "up";
    case phase::ending: return "ending";
    case phase::waiting: return "waiting";
    case phase::ended: return "ended";
  }
  return "?";
}

std::int64_t age_ms(self_ptr self, caf::actor_clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - since).count();
}

tree_entry row_of(self_ptr self, const child& c) {
  return {c.spec.name, c.spec.kind, text(c.now), c.handle ? age_ms(self, c.started) : 0, c.starts > 0 ? c.starts - 1 : 0, tree_entry::depth_unknown,
          {}};
}

tree_entry row_of_self(self_ptr self) {
  const auto& st = self->state;
  auto rest = st.options.strategy == restart_strategy::rest_for_one;
  return {{}, "supervisor",        st.stop_reason ? "ending" : "up",     age_ms(self, st.started),
          0,  mailbox_depth(self), rest ? "rest_for_one" : "one_for_one"};
}

// What a child says of itself goes into its row; what is below it gets its name in front.
rows merge(const tree_entry& known, rows shown) {
  rows out{known};
  for (auto& r : shown) {
    if (r.path.empty()) {
      auto& own = out.front();
      own.kind = own.kind.empty() ? r.kind : own.kind;
      own.state = own.state == "up" ? r.state : own.state;
      own.mailbox_depth = r.mailbox_depth;
      own.detail = std::move(r.detail);
    } else {
      r.path = known.path + "/" + r.path;
      out.push_back(std::move(r));
    }
  }
  return out;
}

/// Collects the children's rows; the last one to come sends the answer.
struct gathering {
  gathering(parked<rows> caller, tree_entry self_row, std::size_t children) : promise(std::move(caller)), own(std::move(self_row)), parts(children) {}

  void finish() {
    rows all{std::move(own)};
    for (auto& part : parts) {
      auto room = limits::tree_rows_max() - all.size();
      part.resize(std::min(part.size(), room));
      std::ranges::move(part, std::back_inserter(all));
    }
    promise.answer(std::move(all));
  }

  void done_one() {
    if (--outstanding == 0)
      finish();
  }

  parked<rows> promise;
  tree_entry own;
  std::vector<rows> parts;
  std::size_t outstanding = 1; // one for the asking itself
};

void ask_child(self_ptr self, const std::shared_ptr<gathering>& all, std::size_t i) {
  const auto& c = self->state.children[i];
  auto known = row_of(self, c);
  all->parts[i] = {known};
  if (!c.spec.shows_tree || !c.handle)
    return;
  ++all->outstanding;
  // High priority: the one who is asked tells how much mail waits, instead of working it off first. With a std::chrono duration CAF 0.17.6
  // would forget the priority.
  self->request<caf::message_priority::high>(c.handle, caf::duration{self->state.options.tree_patience}, tree_atom_v)
    .then(
      [all, i, known](rows& shown) {
        all->parts[i] = merge(known, std::move(shown));
        all->done_one();
      },
      [all, i](const caf::error&) {
        all->parts[i].front().state = "silent";
        all->done_one();
      });
}

} // namespace

caf::result<rows> show_tree(self_ptr self) {
  auto promise = self->make_response_promise<rows>();
  auto all = std::make_shared<gathering>(parked<rows>{promise}, row_of_self(self), self->state.children.size());
  for (std::size_t i = 0; i < self->state.children.size(); ++i)
    ask_child(self, all, i);
  all->done_one();
  return promise;
}

} // namespace swarm::runtime
