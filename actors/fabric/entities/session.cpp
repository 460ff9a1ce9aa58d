#include "actors/fabric/entities/session.hpp"

#include <caf/send.hpp>

#include "actors/base/log.hpp"

namespace swarm {

session_state::~session_state() {
  if (watch != 0)
    place.links.node->watch->forget(watch);
}

namespace {

using self_ptr = session_actor::stateful_pointer<session_state>;

constexpr std::chrono::milliseconds expire_again_after{1'000};

/// The command checks pid and start time against the row, so a session that has moved on is left alone.
void expire(self_ptr self, std::int64_t pid, std::uint64_t pid_start) {
  auto& st = self->state;
  if (std::exchange(st.ending, true))
    return;
  auto cmd = internal_command(*st.place.links.node, st.place.scope, [&](v1::Command& c) {
    auto* e = c.mutable_expire_session();
    e->set_session_id(st.place.id);
    e->set_pid(pid);
    e->set_pid_start(pid_start);
  });
  ask_writer(
    self, st.place.links.writer, cmd,
    [self](const reply_ptr& r) {
      // The row may have moved on meanwhile, to another process that we watch already.
      if (r->session().already_ended())
        self->quit();
      else
        self->state.ending = false;
    },
    [self, pid, pid_start](caf::error& e) {
      // After a crash of the writer the scope looks at the process again; after anything else we do.
      log::warn({"session ", self->state.place.id, " could not be ended: ", caf::to_string(e)});
      self->state.ending = false;
      if (pid != 0)
        self->delayed_send(self, expire_again_after, gone_atom_v, pid, pid_start);
      else
        self->delayed_send(self, expire_again_after, tick_atom_v, ++self->state.grace);
    });
}

void watch_process(self_ptr self) {
  auto& st = self->state;
  auto& port = *st.place.links.node->watch;
  if (st.watch != 0)
    port.forget(std::exchange(st.watch, 0));
  // The end of a worker is reported by its spawn, with its exit status.
  if (st.row.presence() != v1::Session::PROCESS || !st.row.spawn_id().empty())
    return;
  auto pid = st.row.pid();
  auto start = st.row.pid_start();
  st.watch = port.watch(pid, start, [hdl = caf::actor_cast<session_actor>(self), pid, start] { caf::anon_send(hdl, gone_atom_v, pid, start); });
}

} // namespace

session_actor::behavior_type session(self_ptr self, entity_place place, v1::Session row, bool restarted) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.place = std::move(place);
  st.row = std::move(row);
  watch_process(self);
  if (restarted && st.row.presence() == v1::Session::CONNECTION)
    self->delayed_send(self, limits::restart_grace(), tick_atom_v, ++st.grace);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> { return self->delegate(self->state.place.links.writer, exec); },
    [self](const batch_ptr& b) {
      auto& s = self->state;
      for (const auto& p : b->patches()) {
        if (p.has_session() && p.session().id() == s.place.id) {
          auto moved = p.session().pid() != s.row.pid() || p.session().pid_start() != s.row.pid_start() || p.session().presence() != s.row.presence();
          s.row = p.session();
          if (moved)
            watch_process(self);
        }
        if (p.has_erased() && p.erased().table() == v1::Erased::SESSIONS && p.erased().key() == s.place.id)
          return self->quit();
      }
    },
    [self](passivate_atom) {
      auto& s = self->state;
      auto stays = s.watch != 0 || !s.streams.empty() || s.row.presence() == v1::Session::CONNECTION;
      if (!stays)
        self->quit();
      return !stays;
    },
    [self](tree_atom) {
      const auto& s = self->state;
      auto where = s.row.pid() != 0 ? "pid " + std::to_string(s.row.pid()) + " " : std::string{};
      return runtime::self_row(self, s.ending ? "ending" : s.streams.empty() ? "present" : "attached", where + s.row.label());
    },
    [self](attach_atom, std::uint64_t stream, bool on) {
      auto& s = self->state;
      if (on)
        s.streams.insert(stream);
      else
        s.streams.erase(stream);
      ++s.grace;
      if (s.streams.empty() && s.row.presence() == v1::Session::CONNECTION)
        expire(self, 0, 0);
    },
    [self](gone_atom, std::int64_t pid, std::uint64_t start) {
      if (auto& s = self->state; s.row.pid() == pid && s.row.pid_start() == start)
        s.watch = 0;
      expire(self, pid, start);
    },
    [self](tick_atom, std::uint64_t generation) {
      auto& s = self->state;
      if (generation == s.grace && s.streams.empty())
        expire(self, 0, 0);
    },
  };
}

} // namespace swarm
