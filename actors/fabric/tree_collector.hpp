// Asks many actors for their row of the graph and answers once all have spoken or their patience is over.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/fabric/interfaces.hpp"
#include "actors/runtime/parked.hpp"

namespace swarm {

class tree_collector : public std::enable_shared_from_this<tree_collector> {
public:
  using rows = std::vector<runtime::tree_entry>;

  explicit tree_collector(caf::typed_response_promise<rows> promise) : promise_(std::move(promise)) {}
  ~tree_collector() { promise_.answer(std::move(rows_)); }

  void add(runtime::tree_entry row) { rows_.push_back(std::move(row)); }

  /// Somebody who is down, to be started again.
  void add_waiting(runtime::tree_entry row) {
    row.state = "waiting";
    add(std::move(row));
  }

  /// `row` carries path, age and restarts, perhaps a state; the entity fills in the rest. The collector answers when the last of
  /// these is done. The questions overtake the mail that they count (with a std::chrono duration
  /// CAF 0.17.6 would forget their priority).
  template <class Self, class Handle>
  void ask(Self self, const Handle& who, runtime::tree_entry row) {
    auto at = rows_.size();
    rows_.push_back(std::move(row));
    auto keep = this->shared_from_this();
    self->template request<caf::message_priority::high>(who, caf::duration{limits::tree_patience()}, tree_atom_v)
      .then(
        [keep, at](const runtime::tree_entry& said) {
          auto& r = keep->rows_[at];
          r.kind = said.kind;
          if (r.state.empty())
            r.state = said.state;
          r.detail = said.detail;
          r.mailbox_depth = said.mailbox_depth;
        },
        [keep, at](const caf::error&) { keep->rows_[at].state = "silent"; });
  }

  /// The same for an actor with a subtree of its own: its rows are put behind `row.path`.
  template <class Self, class Handle>
  void ask_below(Self self, const Handle& who, runtime::tree_entry row) {
    auto keep = this->shared_from_this();
    self->template request<caf::message_priority::high>(who, caf::duration{limits::tree_patience() * 2}, tree_atom_v)
      .then(
        [keep, row](const rows& said) {
          for (auto r : said) {
            if (r.path.empty()) {
              r.age_ms = row.age_ms;
              r.restarts = row.restarts;
            }
            r.path = r.path.empty() ? row.path : row.path + "/" + r.path;
            keep->rows_.push_back(std::move(r));
          }
        },
        [keep, row](const caf::error&) {
          keep->rows_.push_back(row);
          keep->rows_.back().state = "silent";
        });
  }

private:
  rows rows_;
  runtime::parked<rows> promise_;
};

} // namespace swarm
