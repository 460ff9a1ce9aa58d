// Pipeline, Watch and Attach: calls that last.
#include <map>

#include "services/api/coordination_service.hpp"
#include "services/api/prompt_files.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/asked_again.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

using namespace std::chrono_literals;

// -- Pipeline ------------------------------------------------------------------------------

class pipeline_reactor final : public stream_writer<v1::PipelineReply, grpc::ServerBidiReactor<v1::ExecuteRequest, v1::PipelineReply>> {
public:
  using request_ptr = std::shared_ptr<const v1::ExecuteRequest>;

  void read_more() { StartRead(&in_); }
  void OnReadDone(bool ok) override;

protected:
  void drained() override;

private:
  v1::ExecuteRequest in_;
};

using pipeline_ptr = std::shared_ptr<pipeline_reactor>;

} // namespace
} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pipeline_reactor::request_ptr)

namespace swarm {
namespace {

void pipeline_reactor::OnReadDone(bool ok) {
  if (auto who = actor().get()) {
    if (ok)
      caf::anon_send(who, std::make_shared<const v1::ExecuteRequest>(std::move(in_)));
    else
      caf::anon_send(who, gone_atom_v);
  }
}

void pipeline_reactor::drained() {
  if (auto who = actor().get())
    caf::anon_send(who, tick_atom_v);
}

/// Replies leave in the order of the requests, however the commands overtake each other inside.
struct pipeline_state {
  static inline const char* name = "pipeline";
  std::shared_ptr<service_environment> service;
  claim who;
  v1::Principal principal;
  std::int64_t grants_until_ms = 0;
  pipeline_ptr io;
  std::uint64_t next_in = 0, next_out = 0;
  std::map<std::uint64_t, v1::PipelineReply> done;
  std::map<std::uint64_t, std::function<void()>> leave; // what is to be done when the stream ends before the answer
  bool reading = false, input_over = false;
  bool room = true;       // for another reply in the stream
  bool packs = false;     // the client sends several requests in a message, and takes several replies in one
  bool flush_due = false; // a flush is in our mailbox, behind the replies that came together
  ~pipeline_state() {
    for (const auto& [at, gone] : leave)
      gone();
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the stream ended; repeat what was not answered"});
  }
};

using pipeline_self = caf::stateful_actor<pipeline_state>*;

constexpr int packed_max = static_cast<int>(limits::pipeline_message_requests_max) - 1;

void read_if_room(pipeline_self self) {
  auto& st = self->state;
  if (st.reading || st.input_over || st.next_in - st.next_out >= limits::pipeline_outstanding_max())
    return;
  st.reading = true;
  st.io->read_more();
}

void flush(pipeline_self self) {
  auto& st = self->state;
  auto ready = [&] { return !st.done.empty() && st.done.begin()->first == st.next_out; };
  auto take = [&] {
    ++st.next_out;
    return std::move(st.done.extract(st.done.begin()).mapped());
  };
  while (st.room && ready()) {
    auto out = take();
    auto bytes = out.ByteSizeLong();
    while (st.packs && ready() && out.more_size() < packed_max &&
           (bytes += st.done.begin()->second.ByteSizeLong()) <= limits::pipeline_packed_bytes_max)
      *out.add_more() = take();
    st.room = st.io->push(std::move(out));
  }
  if (!st.room)
    return; // `drained` calls again
  if (st.input_over && st.next_out == st.next_in) {
    st.io->close(grpc::Status::OK);
    return self->quit();
  }
  read_if_room(self);
}

void answer_one(pipeline_self self, std::uint64_t at, std::uint64_t seq, const v1::Reply* reply, const grpc::Status& status,
                const path_view& paths = {}) {
  self->state.leave.erase(at);
  v1::PipelineReply out;
  out.set_seq(seq);
  if (reply)
    *out.mutable_reply() = *reply;
  if (reply)
    paths.to_caller(*out.mutable_reply());
  out.set_status(static_cast<std::uint32_t>(status.error_code()));
  out.set_status_text(status.error_message());
  self->state.done.emplace(at, std::move(out));
  if (!std::exchange(self->state.flush_due, true))
    caf::anon_send(caf::actor_cast<caf::actor>(self), flush_atom_v);
}

/// Who calls from now on, if an agent is above the caller.
void note_registration(pipeline_self self, const v1::Command& registers, const v1::Session& session) {
  auto& st = self->state;
  learn_checkout(*st.service, registers, session);
  if (auto now = st.service->callers.registered(st.who, session, st.service->node->clock->unix_ms())) {
    st.principal = std::move(now->who);
    st.grants_until_ms = now->until_ms;
  }
}

void execute_one(pipeline_self self, const v1::ExecuteRequest& req) {
  auto& st = self->state;
  auto at = st.next_in++;
  auto seq = req.id().seq();
  auto prepared = prepare(*st.service, req, st.who, st.principal);
  auto front = st.service->board->get().front;
  if (prepared.refusal) {
    st.service->refused.add_if_forbidden(prepared.call->what->command, *prepared.refusal);
    v1::Reply r;
    *r.mutable_refusal() = *prepared.refusal;
    return answer_one(self, at, seq, &r, grpc::Status::OK);
  }
  if (!prepared.status.ok() || !front)
    return answer_one(self, at, seq, nullptr, prepared.status.ok() ? to_status(errc::unavailable) : prepared.status);
  if (auto gone = leaves_line(*st.service, prepared.call))
    st.leave.emplace(at, std::move(gone));
  auto go_on = [self, at, seq, front, call = prepared.call, paths = prepared.paths] {
    ask(self, front, call)
      .then(
        [self, at, seq, call, paths](const reply_ptr& r) {
          if (r->has_refusal())
            self->state.service->refused.add_if_forbidden(call->what->command, r->refusal());
          else if (call->what->command.has_register_session() && r->has_session())
            note_registration(self, call->what->command, r->session().session());
          answer_one(self, at, seq, r.get(), grpc::Status::OK, paths);
        },
        [self, at, seq](caf::error& e) { answer_one(self, at, seq, nullptr, to_status(e)); });
  };
  with_files(self, st.service, prepared.call, std::move(go_on), [self, at, seq](v1::Refusal why) {
    v1::Reply r;
    *r.mutable_refusal() = std::move(why);
    answer_one(self, at, seq, &r, grpc::Status::OK);
  });
}

caf::behavior pipeline(pipeline_self self, service_environment service, claim who, pipeline_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.who = std::move(who);
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  with_principal(
    self, *st.service, st.who,
    [self](const v1::Principal& p, std::int64_t until_ms) {
      self->state.principal = p;
      self->state.grants_until_ms = until_ms;
      read_if_room(self);
    },
    [self](grpc::Status s) {
      self->state.io->close(std::move(s));
      self->quit();
    });
  return {
    [self](const pipeline_reactor::request_ptr& req) {
      self->state.reading = false;
      if (auto over = over_with_grant(*self->state.service, self->state.grants_until_ms)) {
        self->state.io->close(*over);
        return self->quit();
      }
      if (req->more_size() > packed_max) {
        self->state.io->close({grpc::StatusCode::INVALID_ARGUMENT, "a message of a pipeline holds at most 256 requests"});
        return self->quit();
      }
      if (!self->state.service->callers.still_holds(self->state.who)) {
        self->state.io->close(
          {grpc::StatusCode::UNAVAILABLE, "an agent was found above this process since the pipeline began, or its login has ended; open it again"});
        return self->quit();
      }
      self->state.packs |= req->more_size() > 0;
      execute_one(self, *req);
      for (const auto& further : req->more())
        execute_one(self, further);
      read_if_room(self);
    },
    [self](flush_atom) {
      self->state.flush_due = false;
      flush(self);
    },
    [self](gone_atom) {
      self->state.input_over = true;
      flush(self);
    },
    [self](tick_atom) {
      self->state.room = true;
      flush(self);
    },
  };
}

// -- Watch -----------------------------------------------------------------------------------

class watch_reactor final : public stream_writer<v1::WatchReply, grpc::ServerWriteReactor<v1::WatchReply>> {
protected:
  void drained() override {
    if (auto who = actor().get())
      caf::anon_send(who, tick_atom_v);
  }
};

using watch_reactor_ptr = std::shared_ptr<watch_reactor>;

struct watch_state {
  static inline const char* name = "watcher";
  std::shared_ptr<service_environment> service;
  v1::WatchRequest request;
  path_view paths;
  v1::Principal principal;
  watch_reactor_ptr io;
  std::uint64_t after = 0;
  bool caught_up = false;
  bool waiting_for_room = false;
  ~watch_state() {
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the watch ended; resume after the last revision seen"});
  }
};

using watch_self = caf::stateful_actor<watch_state>*;

void next_page(watch_self self);

void finish(watch_self self, grpc::Status s) {
  self->state.io->close(std::move(s));
  self->quit();
}

void send_and_go_on(watch_self self, v1::WatchReply page) {
  self->state.paths.to_caller(page);
  if (self->state.io->push(std::move(page)))
    next_page(self);
  else
    self->state.waiting_for_room = true; // `drained` goes on
}

query_ptr event_query(watch_self self, std::function<void(v1::ListEvents&)> fill) {
  auto& st = self->state;
  auto q = std::make_shared<v1::Query>();
  q->set_scope(st.request.scope());
  *q->mutable_principal() = st.principal;
  fill(*q->mutable_list_events());
  return q;
}

void await_home(watch_self self);

/// From the store, until the end of what it has; then live from the hub.
void read_store(watch_self self) {
  auto front = self->state.service->board->get().front;
  if (!front)
    return finish(self, to_status(errc::unavailable));
  auto& st = self->state;
  auto q = event_query(self, [&](v1::ListEvents& l) {
    l.set_after(st.after);
    *l.mutable_types() = st.request.types();
    l.set_subject(st.request.subject());
    l.mutable_page()->set_size(static_cast<std::uint32_t>(limits::watch_page_events_max()));
  });
  ask(self, front, q)
    .then(
      [self, q](const answer_ptr& a) {
        auto& s = self->state;
        // That the home is away is no fault of the request. Whoever goes on with what was followed before waits for it.
        if (a->refusal().code() == v1::Refusal::UNAVAILABLE && s.request.after() != 0)
          return await_home(self);
        if (a->refusal().code() == v1::Refusal::UNAVAILABLE)
          return finish(self, to_status(errc::away, a->refusal().text()));
        if (a->has_refusal()) {
          s.service->refused.add_if_forbidden(*q, a->refusal());
          return finish(self, {grpc::StatusCode::INVALID_ARGUMENT, a->refusal().text()});
        }
        const auto& list = a->events();
        if (s.after != 0 && list.oldest() > s.after + 1)
          return finish(self, {grpc::StatusCode::OUT_OF_RANGE, "events after revision " + std::to_string(s.after) +
                                                                 " are no longer kept; the oldest is " + std::to_string(list.oldest())});
        v1::WatchReply page;
        *page.mutable_events() = list.events();
        auto more = !list.page().token().empty();
        s.after = more && !list.events().empty() ? list.events().rbegin()->revision() : std::max(s.after, a->revision());
        page.set_revision(s.after);
        s.caught_up = !more;
        if (page.events().empty() && more)
          return read_store(self);
        // The empty page that says "caught up" goes out once.
        v1::WatchReply mark;
        mark.set_revision(s.after);
        if (s.caught_up && !page.events().empty()) {
          s.paths.to_caller(page);
          s.io->push(std::move(page));
        } else
          mark = std::move(page);
        send_and_go_on(self, std::move(mark));
      },
      [self](caf::error& e) { finish(self, to_status(e)); });
}

watch_poll_ptr poll_of(watch_self self, bool wait = true) {
  auto& st = self->state;
  auto poll = std::make_shared<watch_poll>();
  poll->wait = wait;
  poll->scope = st.request.scope();
  poll->after = st.after;
  poll->types.assign(st.request.types().begin(), st.request.types().end());
  poll->subject = st.request.subject();
  return poll;
}

/// Until the home answers, and has something new. Its store says what, and to whom.
void await_home(watch_self self) {
  poll_events(
    self, *self->state.service, poll_of(self), [self](const watch_page_ptr&) { read_store(self); },
    [self](grpc::Status s) { finish(self, std::move(s)); });
}

void read_hub(watch_self self) {
  poll_events(
    self, *self->state.service, poll_of(self),
    [self](const watch_page_ptr& p) {
      auto& s = self->state;
      // Its home may have started again with the store of a backup: the client looks at what it follows, as after a restart of its own node.
      if (p->too_old && !home_of(*s.service, s.request.scope()).empty())
        return finish(self, to_status(errc::unavailable, "the home of the scope has started again; resume after the last revision seen"));
      if (p->too_old && s.request.scope().empty())
        return finish(self, {grpc::StatusCode::OUT_OF_RANGE, "what happened meanwhile is not known; look at the approvals and conversations again"});
      if (p->too_old)
        return read_store(self);
      s.after = std::max(s.after, p->revision);
      v1::WatchReply page;
      for (const auto& e : p->events)
        *page.add_events() = e;
      page.set_revision(s.after);
      send_and_go_on(self, std::move(page));
    },
    [self](grpc::Status s) { finish(self, std::move(s)); });
}

void next_page(watch_self self) { self->state.caught_up ? read_hub(self) : read_store(self); }

/// Of all scopes: nothing of the past, since only the hub has them.
void begin_feed(watch_self self) {
  auto& st = self->state;
  st.caught_up = true;
  st.after = st.request.from_now() ? 0 : st.request.after();
  if (st.after != 0)
    return read_hub(self);
  auto now = poll_of(self, false);
  poll_events(
    self, *st.service, now,
    [self](const watch_page_ptr& p) {
      v1::WatchReply mark;
      mark.set_revision(self->state.after = p->newest);
      send_and_go_on(self, std::move(mark));
    },
    [self](grpc::Status s) { finish(self, std::move(s)); });
}

/// Where to start: the request's revision, now, or a subscription's cursor.
void begin(watch_self self) {
  auto& st = self->state;
  if (st.request.scope().empty())
    return begin_feed(self);
  auto front = st.service->board->get().front;
  if (!front)
    return finish(self, to_status(errc::unavailable));
  st.after = st.request.after();
  if (!st.request.from_now() && st.request.subscription().empty())
    return read_store(self);
  auto q = std::make_shared<v1::Query>();
  q->set_scope(st.request.scope());
  *q->mutable_principal() = st.principal;
  q->mutable_list_subscriptions();
  ask(self, front, query_ptr{q})
    .then(
      [self](const answer_ptr& a) {
        auto& s = self->state;
        s.after = a->revision();
        if (s.request.subscription().empty())
          return read_store(self);
        for (const auto& sub : a->subscriptions().subscriptions())
          if (sub.name() == s.request.subscription()) {
            s.after = sub.cursor();
            if (s.request.types().empty())
              *s.request.mutable_types() = sub.types();
            return read_store(self);
          }
        finish(self, {grpc::StatusCode::NOT_FOUND, "no subscription " + s.request.subscription() + "; `swarmctl subscriptions` shows them"});
      },
      [self](caf::error& e) { finish(self, to_status(e)); });
}

caf::behavior watcher(watch_self self, service_environment service, claim who, v1::WatchRequest request, watch_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.request = std::move(request);
  st.paths = path_view{st.service->nodes.shared(), *st.request.mutable_scope(), {}};
  st.paths.to_store(st.request);
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  with_lasting_principal(
    self, *st.service, who,
    [self, who](const v1::Principal& p) {
      auto& s = self->state;
      s.principal = p;
      if (auto refused = domain::may(p, who.asks))
        return finish(self, note(*s.service, who, p, to_status(*refused)));
      begin(self);
    },
    asked_again(self, [self](grpc::Status s) { finish(self, std::move(s)); }));
  return {
    [self](tick_atom) {
      if (std::exchange(self->state.waiting_for_room, false))
        next_page(self);
    },
  };
}

// -- Attach ----------------------------------------------------------------------------------

class attach_reactor final : public stream_writer<v1::AttachReply, grpc::ServerWriteReactor<v1::AttachReply>> {};
using attach_reactor_ptr = std::shared_ptr<attach_reactor>;

struct attach_state {
  static inline const char* name = "attachment";
  front_actor front;
  v1::AttachRequest request;
  std::uint64_t stream = 0;
  attach_reactor_ptr io;
  bool attached = false;
  ~attach_state() {
    if (attached)
      caf::anon_send(front, attach_atom_v, request.scope(), request.session_id(), stream, false);
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the attachment ended; attach again"});
  }
};

caf::behavior attachment(caf::stateful_actor<attach_state>* self, service_environment service, claim who, v1::AttachRequest request,
                         std::uint64_t stream, attach_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.request = std::move(request);
  st.request.set_scope(service.nodes.shared().scope_of(st.request.scope()));
  st.stream = stream;
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  st.front = service.board->get().front;
  auto close = [self](grpc::Status s) {
    self->state.io->close(std::move(s));
    self->quit();
  };
  if (!st.front)
    close(to_status(errc::unavailable));
  else
    with_principal(
      self, service, who,
      [self, service, who, close](const v1::Principal& p) {
        auto& s = self->state;
        if (p.kind() == v1::Principal::SESSION && p.id() != s.request.session_id())
          return close(note(service, who, p, {grpc::StatusCode::PERMISSION_DENIED, "a session may only attach itself"}));
        s.attached = true;
        // A restart of what serves us ends the stream, and the client attaches again.
        self->monitor(s.front);
        caf::anon_send(s.front, attach_atom_v, s.request.scope(), s.request.session_id(), s.stream, true);
        v1::AttachReply hello;
        hello.set_attached(true);
        s.io->push(hello);
      },
      asked_again(self, close));
  self->set_down_handler([self](caf::down_msg&) {
    self->state.attached = false;
    self->quit();
  });
  return {[](tick_atom) {}};
}

} // namespace

grpc::ServerBidiReactor<v1::ExecuteRequest, v1::PipelineReply>* coordination_service::Pipeline(grpc::CallbackServerContext* ctx) {
  return stream_when_admitted<pipeline_reactor>(
    service_, *ctx, domain::operation::execute, std::nullopt,
    [&](const claim& who, const std::shared_ptr<pipeline_reactor>& io) { service_.system.spawn(pipeline, service_, who, io); });
}

grpc::ServerWriteReactor<v1::WatchReply>* coordination_service::Watch(grpc::CallbackServerContext* ctx, const v1::WatchRequest* req) {
  return stream_when_admitted<watch_reactor>(
    service_, *ctx, req->scope().empty() ? domain::operation::watch_all_scopes : domain::operation::watch_events, wrong_with(*req),
    [&](const claim& who, const std::shared_ptr<watch_reactor>& io) { service_.system.spawn(watcher, service_, who, *req, io); });
}

grpc::ServerWriteReactor<v1::AttachReply>* coordination_service::Attach(grpc::CallbackServerContext* ctx, const v1::AttachRequest* req) {
  return stream_when_admitted<attach_reactor>(
    service_, *ctx, domain::operation::attach_session, wrong_with(*req),
    [&](const claim& who, const std::shared_ptr<attach_reactor>& io) { service_.system.spawn(attachment, service_, who, *req, next_stream_++, io); });
}

} // namespace swarm
