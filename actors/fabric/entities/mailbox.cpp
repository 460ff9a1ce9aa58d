#include "actors/fabric/entities/mailbox.hpp"

#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/text.hpp"

namespace swarm {

namespace {

using self_ptr = mailbox_actor::stateful_pointer<mailbox_state>;
using wait_map = std::map<std::uint64_t, mailbox_state::wait>;

bool has(const v1::Activity& a, std::string_view change) { return std::find(a.changes().begin(), a.changes().end(), change) != a.changes().end(); }

/// The hub keeps a poll until something happens, which in a quiet scope is never.
void forget_poll(self_ptr self, const mailbox_state::wait& w) {
  if (w.poll)
    caf::anon_send(self->state.place.links.watch, forget_atom_v, w.poll);
}

std::optional<mailbox_state::wait> take(self_ptr self, std::uint64_t id) {
  auto node = self->state.waits.extract(id);
  if (node.empty())
    return std::nullopt;
  forget_poll(self, node.mapped());
  if (const auto& who = node.mapped().who)
    self->demonitor(who); // one of the caller's; the others stay
  return std::move(node.mapped());
}

void finish(self_ptr self, std::uint64_t id) {
  if (auto w = take(self, id))
    w->promise.answer(activity_ptr{w->found});
}

void give_up(self_ptr self, std::uint64_t id, caf::error e) {
  if (auto w = take(self, id))
    w->promise.answer(std::move(e));
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

/// With changes of tasks, and for who comes to mail that was there already: the latter begins, and wants the whole picture.
void fetch_tasks(self_ptr self, std::uint64_t id, bool begins = false) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  if (!begins && !has(*i->second.found, "task_updates"))
    return fetch_sessions(self, id);
  auto q = viewer_query(self, i->second.request, [](v1::Query& x) { x.mutable_task_snapshot()->set_include_terminal(true); });
  self->request(self->state.place.links.readers.front(), limits::call_deadline_default(), q)
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
  self->request(self->state.place.links.readers.front(), limits::call_deadline_default(), q)
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
  // Under the wait's own request id: if the messages are taken and the answer is lost, repeating the wait finds them again.
  auto cmd = std::make_shared<execution>();
  cmd->id = i->second.request->id();
  cmd->command.set_scope(place.scope);
  cmd->command.set_actor(place.id);
  cmd->command.mutable_principal()->set_kind(v1::Principal::SESSION);
  cmd->command.mutable_principal()->set_id(place.id);
  cmd->command.mutable_consume_messages()->set_limit(50);
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

void on_changes(self_ptr self, std::uint64_t id, const std::vector<std::string>& changes, std::uint64_t revision) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto& w = i->second;
  w.after = std::max(w.after, revision);
  w.found->set_revision(std::max(w.found->revision(), w.after));
  if (changes.empty())
    return poll(self, id);
  for (const auto& c : changes)
    w.found->add_changes(c);
  w.collecting = true;
  if (!has(*w.found, "new_messages"))
    return fetch_tasks(self, id);
  consume(self, id, [self, id](bool) { fetch_tasks(self, id); });
}

/// What happened after the wait's position according to the store: for what the hub no longer, or not yet, has.
void read_store(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto after = i->second.after;
  auto q = internal_query(*self->state.place.links.node, self->state.place.scope, [&](v1::Query& x) { x.mutable_list_events()->set_after(after); });
  self->request(self->state.place.links.readers.front(), limits::call_deadline_default(), q)
    .then(
      [self, id, after](const answer_ptr& a) {
        auto w = self->state.waits.find(id);
        if (w == self->state.waits.end())
          return;
        const auto& list = a->events();
        auto changes = classify({list.events().begin(), list.events().end()}, self->state.place.id, w->second.request->include_locks());
        // So much has happened that it is not kept, or does not fit a page: say so rather than miss some of it.
        if (list.oldest() > after + 1 || !list.page().token().empty())
          changes = {"task_updates", "instance_changes", "kv_updates"};
        on_changes(self, id, changes, std::max(after, a->revision()));
      },
      [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void poll(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end())
    return;
  auto p = std::make_shared<watch_poll>();
  p->scope = self->state.place.scope;
  p->after = i->second.after;
  p->types = {"message.", "task.", "instance.", "kv."};
  if (i->second.request->include_locks())
    p->types.emplace_back("context.lock_");
  i->second.poll = p;
  // The wait has a timer of its own.
  self
    ->request(self->state.place.links.watch, caf::infinite, watch_poll_ptr{p}) // lint: edge deadline
    .then(
      [self, id](const watch_page_ptr& page) {
        auto w = self->state.waits.find(id);
        if (w == self->state.waits.end())
          return;
        w->second.poll = nullptr;
        if (page->too_old)
          read_store(self, id);
        else
          on_changes(self, id, classify(page->events, self->state.place.id, w->second.request->include_locks()), page->revision);
      },
      [self, id](caf::error& e) { give_up(self, id, std::move(e)); });
}

void time_out(self_ptr self, std::uint64_t id) {
  auto i = self->state.waits.find(id);
  if (i == self->state.waits.end() || i->second.collecting)
    return;
  if (i->second.consuming) {
    i->second.due = true;
    return;
  }
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
  self->set_down_handler([self](caf::down_msg& dm) {
    std::erase_if(self->state.waits, [&](const auto& w) {
      auto left = w.second.who == dm.source;
      if (left)
        forget_poll(self, w.second);
      return left;
    });
  });
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
      return runtime::self_row(self, self->state.waits.empty() ? "quiet" : "waited on", concat({self->state.waits.size(), " waiting"}));
    },
    [self](const wait_request_ptr& request) -> caf::result<activity_ptr> {
      auto who = caf::actor_cast<caf::actor_addr>(self->current_sender());
      auto promise = self->make_response_promise<activity_ptr>();
      auto id = self->state.next_wait++;
      auto found = std::make_shared<v1::Activity>();
      self->state.waits.emplace(id, mailbox_state::wait{request, runtime::parked<activity_ptr>{promise}, found, who, request->since()});
      if (who)
        self->monitor(who);
      auto timeout = std::chrono::milliseconds{request->timeout_ms()};
      if (timeout <= timeout.zero() || timeout > limits::server_wait_max())
        timeout = limits::server_wait_max();
      // One timer per wait; an old one finds its wait gone.
      self->delayed_send(self, timeout, tick_atom_v, id);
      consume(self, id, [self, id](bool any) {
        auto& w = self->state.waits.at(id);
        w.consuming = false;
        if (!any && w.due)
          return time_out(self, id);
        // The hub knows nothing older than itself: a position from before is looked up in the store.
        if (!any)
          return w.request->since() == 0 ? poll(self, id) : read_store(self, id);
        w.found->add_changes("new_messages");
        w.collecting = true;
        fetch_tasks(self, id, true);
      });
      return promise;
    },
    [self](tick_atom, std::uint64_t id) { time_out(self, id); },
  };
}

} // namespace swarm
