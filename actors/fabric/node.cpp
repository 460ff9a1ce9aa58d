#include "actors/fabric/node.hpp"

#include <caf/actor_cast.hpp>

#include "actors/fabric/cluster/federation.hpp"
#include "actors/fabric/conversations/blobs.hpp"
#include "actors/fabric/conversations/lock_judge.hpp"
#include "actors/fabric/conversations/logs.hpp"
#include "actors/fabric/conversations/resting_drivers.hpp"
#include "actors/fabric/front.hpp"
#include "actors/fabric/short_calls.hpp"
#include "actors/fabric/terminals/processes.hpp"
#include "actors/fabric/terminals/pty_log.hpp"
#include "actors/fabric/watch_hub.hpp"

namespace swarm {

namespace {

/// What the factories share: under rest_for_one a part is always started after those it needs, so the handles here are current.
struct wiring {
  node_options options;
  node_links links;
  std::shared_ptr<read_barrier> barrier; // of the writer in links
};
using wiring_ptr = std::shared_ptr<wiring>;

template <class Make>
runtime::child_spec part(std::string name, std::string kind, Make make) {
  runtime::child_spec spec;
  spec.name = std::move(name);
  spec.kind = std::move(kind);
  spec.shows_tree = true;
  spec.start = [make](caf::local_actor* self) { return caf::actor_cast<caf::actor>(make(self)); };
  return spec;
}

template <class Behavior, class... Ts>
auto spawn_blocking(caf::local_actor* self, bool detached, Behavior behavior, Ts&&... xs) {
  return detached ? self->home_system().spawn<caf::detached>(behavior, std::forward<Ts>(xs)...)
                  : self->home_system().spawn(behavior, std::forward<Ts>(xs)...);
}

reader_options reader_settings(const wiring& w) {
  reader_options o;
  o.path = w.options.environment->facts.dir.database().string();
  o.clock = w.options.environment->clock;
  o.node_id = w.options.ledger.node_id;
  o.user_identity = w.options.ledger.user_identity;
  o.barrier = w.barrier;
  o.writer = w.links.writer;
  o.grace_until_ms = w.options.environment->clock->unix_ms() + w.options.ledger.grace.count();
  return o;
}

std::vector<runtime::child_spec> parts(const wiring_ptr& w) {
  std::vector<runtime::child_spec> out;
  out.push_back(part("watch", "watch_hub", [w](caf::local_actor* self) {
    auto hub = self->home_system().spawn(watch_hub, feed_begin_at(w->options.environment->clock->unix_ms()));
    w->links.watch = hub;
    w->links.readers.clear();
    return hub;
  }));
  out.push_back(part("writer", "writer", [w](caf::local_actor* self) {
    writer_options o;
    o.path = w->options.environment->facts.dir.database().string();
    o.ledger = w->options.ledger;
    o.ledger.barrier = w->barrier = std::make_shared<read_barrier>();
    o.sink = w->links.watch;
    // On a worker of the scheduler, so that a command changes threads as little as possible; it says when it is about to block.
    auto a = self->home_system().spawn(writer, std::move(o));
    w->links.writer = a;
    w->links.readers.clear();
    return a;
  }));
  for (std::size_t i = 0; i <= w->options.readers; ++i) {
    auto maintenance = i == w->options.readers;
    out.push_back(part(maintenance ? "reader-maintenance" : "reader-" + std::to_string(i), "reader", [w, i, maintenance](caf::local_actor* self) {
      auto a = spawn_blocking(self, w->options.detached, reader, reader_settings(*w));
      if (!maintenance) {
        w->links.readers.resize(i);
        w->links.readers.push_back(a);
      }
      return a;
    }));
  }
  out.push_back(part("pty-log", "pty_log", [w](caf::local_actor* self) {
    auto a = spawn_blocking(self, w->options.detached, pty_log, w->options.environment);
    w->links.pty_log = a;
    return a;
  }));
  out.push_back(part("conversation-logs", "conversation_logs", [w](caf::local_actor* self) {
    auto a = spawn_blocking(self, w->options.detached, conversation_logs, w->options.environment);
    w->links.conversation_logs = a;
    return a;
  }));
  out.push_back(part("conversation-blobs", "conversation_blobs", [w](caf::local_actor* self) {
    blobs_links links{w->links.readers.front(), w->links.conversation_logs, w->options.ledger.free_disk_bytes};
    auto a = spawn_blocking(self, w->options.detached, conversation_blobs, w->options.environment, std::move(links));
    w->links.conversation_blobs = a;
    return a;
  }));
  out.push_back(part("lock-judge", "lock_judge", [w](caf::local_actor* self) {
    const auto usual = [&sys = self->home_system(), detached = w->options.detached]() -> lock_looker_actor {
      return detached ? sys.spawn<caf::detached>(lock_looker) : sys.spawn(lock_looker);
    };
    const auto& given = w->options.make_lock_looker;
    auto a = self->home_system().spawn(lock_judge, given ? given : usual);
    w->links.lock_judge = a;
    return a;
  }));
  out.push_back(part("resting-drivers", "resting_drivers", [w](caf::local_actor* self) {
    auto a = self->home_system().spawn(resting_drivers);
    w->links.resting_drivers = a;
    return a;
  }));
  auto processes_part = part("processes", "processes", [w](caf::local_actor* self) {
    auto a = self->home_system().spawn(processes, w->options.environment, w->links.pty_log);
    w->links.processes = a;
    return a;
  });
  processes_part.kills_below = true;
  out.push_back(std::move(processes_part));
  out.push_back(part("federation", "federation", [w](caf::local_actor* self) {
    auto a = self->home_system().spawn(federation, w->options.environment, w->links.watch, w->links.processes);
    w->links.federation = a;
    return a;
  }));
  auto front_part = part("scopes", "front", [w](caf::local_actor* self) {
    w->links.node = w->options.environment;
    return self->home_system().spawn(front, w->links);
  });
  front_part.kills_below = true;
  out.push_back(std::move(front_part));
  out.push_back(part("short-calls", "short-calls", [](caf::local_actor* self) { return self->home_system().spawn(short_calls); }));
  return out;
}

} // namespace

node_entries entry_actors::get() const {
  auto entrance = [this](auto& handle, const char* part) { handle = names_->find<std::decay_t<decltype(handle)>>(part); };
  node_entries out;
  entrance(out.front, "node/scopes");
  entrance(out.watch, "node/watch");
  entrance(out.processes, "node/processes");
  entrance(out.conversation_logs, "node/conversation-logs");
  entrance(out.conversation_blobs, "node/conversation-blobs");
  entrance(out.federation, "node/federation");
  entrance(out.writer, "node/writer");
  entrance(out.short_calls, "node/short-calls");
  entrance(out.maintenance, "node/reader-maintenance");
  return out;
}

front_actor entry_actors::wait_for_front(const front_actor& other_than, std::chrono::steady_clock::time_point deadline) const {
  return caf::actor_cast<front_actor>(names_->wait_for("node/scopes", caf::actor_cast<caf::strong_actor_ptr>(other_than), deadline));
}

runtime::supervisor_actor start_node(caf::actor_system& sys, node_options options, std::shared_ptr<entry_actors> board) {
  auto w = std::make_shared<wiring>();
  w->options = std::move(options);
  auto supervision = w->options.supervision;
  supervision.strategy = runtime::restart_strategy::rest_for_one;
  supervision.path = "node";
  // Below it the front waits for its scopes, and those for their entities: one that is silent there must not hide the others.
  supervision.tree_patience = 4 * limits::tree_patience();
  auto environment = w->options.environment;
  auto root = sys.spawn(runtime::supervisor, supervision, parts(w), board->names());
  environment->root->set(root);
  return root;
}

} // namespace swarm
