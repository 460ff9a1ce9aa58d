#include "actors/fabric/mailbox.hpp"

#include <algorithm>

#include <caf/send.hpp>
#include <fmt/format.h>

namespace swarm {

namespace {

using self_ptr = mailbox_actor::stateful_pointer<mailbox_state>;
using wait_map = std::map<std::uint64_t, mailbox_state::wait>;

bool has(const v1::Activity& a, std::string_view change) { return std::find(a.changes().begin(), a.changes().end(), change) != a.changes().end(); }

void finish(self_ptr self, std::uint64_t id) {
  auto node = self->state.waits.extract(id);
  if (!node.empty())
    node.mapped().promise.answer(activity_ptr{node.mapped().found});
}

void give_up(self_ptr self, std::uint64_t id, caf::error e) {
  auto node = self->state.waits.extract(id);
  if (!node.empty())
    node.mapped().promise.answer(std::move(e));
}

query_ptr viewer_query(self_ptr self, const wait_request_ptr& request, std::function<void(v1::Query&)> fill) {
  auto& place = self->state.place;
  return internal_query(*place.links.node, place.scope, [&](v1::Query& q) {
    q.set_viewer(place.id);
    *q.mutable_caller() = request->caller();
    fill(q);
  });
}

void fetch_sessions(self_ptr self, std::uint64_t id);

void fetch_tasks(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto& found = *i->second.found;
  if (!has(found, "task_updates") && !has(found, "new_messages"))
    return fetch_sessions(self, id);
  auto q = viewer_query(self, i->second.request, [](v1::Query& x) { x.mutable_task_snapshot()->set_include_terminal(true); });
  self->request(self->state.place.links.readers.front(), limits::call_deadline_default, q)
    .then(
      [self, id](const answer_ptr& a) {
        if (auto w = self->state.waits.find(id); w != self->state.waits.end())
          *w->second.found->mutable_tasks() = a->snapshot();
        fetch_sessions(self, id);
      },
      [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void fetch_sessions(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  if (!has(*i->second.found, "instance_changes"))
    return finish(self, id);
  auto q = viewer_query(self, i->second.request, [](v1::Query& x) { x.mutable_list_sessions()->set_adopted_only(true); });
  self->request(self->state.place.links.readers.front(), limits::call_deadline_default, q)
    .then(
      [self, id](const answer_ptr& a) {
        if (auto w = self->state.waits.find(id); w != self->state.waits.end())
          *w->second.found->mutable_sessions() = a->sessions().sessions();
        finish(self, id);
      },
      [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void poll(self_ptr self, std::uint64_t id);

/// Takes the unread messages; `then` runs afterwards with whether there were any.
void consume(self_ptr self, std::uint64_t id, std::function<void(bool)> then) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto& place = self->state.place;
  auto cmd = internal_command(*place.links.node, place.scope, [&](v1::Command& c) {
    c.set_actor(place.id);
    c.mutable_consume_messages()->set_limit(50);
  });
  ask_writer(
    self, place.links.writer, cmd,
    [self, id, then](const reply_ptr& r) {
      auto w = self->state.waits.find(id);
      if (w == self->state.waits.end())
        return;
      auto& found = *w->second.found;
      if (r->has_refusal()) {
        *found.mutable_refusal() = r->refusal();
        return finish(self, id);
      }
      found.set_revision(std::max(found.revision(), r->revision()));
      w->second.after = std::max(w->second.after, w->second.request->since() == 0 ? r->revision() : std::uint64_t{0});
      *found.mutable_messages() = r->messages().messages();
      then(!r->messages().messages().empty());
    },
    [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void on_page(self_ptr self, std::uint64_t id, const watch_page_ptr& page) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto& w = i->second;
  // Falling out of the buffer means that a lot has happened: say so rather than miss it.
  auto changes = page->too_old ? std::vector<std::string>{"task_updates", "instance_changes", "kv_updates"}
                               : classify(page->events, self->state.place.id, w.request->include_locks());
  w.after = std::max(w.after, page->revision);
  w.found->set_revision(std::max(w.found->revision(), w.after));
  if (changes.empty())
    return poll(self, id);
  for (auto& c : changes)
    w.found->add_changes(c);
  w.collecting = true;
  if (!has(*w.found, "new_messages"))
    return fetch_tasks(self, id);
  consume(self, id, [self, id](bool) { fetch_tasks(self, id); });
}

void poll(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto p = std::make_shared<watch_poll>();
  p->scope = self->state.place.scope;
  p->after = i->second.after;
  self->request(self->state.place.links.watch, limits::server_wait_max * 2, watch_poll_ptr{p})
    .then([self, id](const watch_page_ptr& page) { on_page(self, id, page); }, [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void time_out(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end() || i->second.collecting)
    return;
  i->second.found->set_timed_out(true);
  finish(self, id);
}

} // namespace

std::vector<std::string> classify(const std::vector<v1::Event>& events, const std::string& session_id, bool include_locks) {
  bool mail = false, tasks = false, instances = false, kv = false, locks = false;
  auto starts = [](const v1::Event& e, std::string_view prefix) { return e.type().compare(0, prefix.size(), prefix) == 0; };
  for (const auto& e : events) {
    mail |= (e.type() == "message.sent" && e.subject() == session_id) || (e.type() == "message.broadcast" && e.actor() != session_id);
    tasks |= starts(e, "task.");
    instances |= starts(e, "instance.");
    kv |= starts(e, "kv.");
    locks |= starts(e, "context.lock_");
  }
  std::vector<std::string> out;
  if (mail)
    out.emplace_back("new_messages");
  if (tasks)
    out.emplace_back("task_updates");
  if (instances)
    out.emplace_back("instance_changes");
  if (kv)
    out.emplace_back("kv_updates");
  if (locks && include_locks)
    out.emplace_back("lock_updates");
  return out;
}

mailbox_actor::behavior_type mailbox(self_ptr self, entity_place place) {
  runtime::install_defaults(self);
  self->state.place = std::move(place);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> { return self->delegate(self->state.place.links.writer, exec); },
    [](const batch_ptr&) {},
    [self](passivate_atom) {
      auto stays = !self->state.waits.empty();
      if (!stays)
        self->quit();
      return !stays;
    },
    [self](tree_atom) {
      return self_row(self, self->state.waits.empty() ? "quiet" : "waited on", fmt::format("{} waiting", self->state.waits.size()));
    },
    [self](const wait_request_ptr& request) -> caf::result<activity_ptr> {
      auto promise = self->make_response_promise<activity_ptr>();
      auto id = self->state.next_wait++;
      auto found = std::make_shared<v1::Activity>();
      self->state.waits.emplace(id, mailbox_state::wait{request, runtime::parked<activity_ptr>{promise}, found, request->since(), false});
      auto timeout = std::chrono::milliseconds{request->timeout_ms()};
      if (timeout <= timeout.zero() || timeout > limits::server_wait_max)
        timeout = limits::server_wait_max;
      // One timer per wait; an old one finds its wait gone.
      self->delayed_send(self, timeout, tick_atom_v, id);
      consume(self, id, [self, id](bool any) {
        if (!any)
          return poll(self, id);
        auto& w = self->state.waits.at(id);
        w.found->add_changes("new_messages");
        w.collecting = true;
        fetch_tasks(self, id);
      });
      return promise;
    },
    [self](tick_atom, std::uint64_t id) { time_out(self, id); },
  };
}

} // namespace swarm
