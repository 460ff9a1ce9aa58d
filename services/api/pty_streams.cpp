// Read and Attach: output by pulling from the terminal, one chunk for each that went out.
#include <atomic>
#include <chrono>
#include <optional>

#include "actors/base/crypto.hpp"
#include "services/api/pty_service.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/asked_again.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

// -- output, shared by Read and Attach ---------------------------------------------------

/// Pulls chunks while there is room in the stream.
template <class State>
void pull(caf::stateful_actor<State>* self) {
  auto& st = self->state;
  if (st.pulling || !st.terminal)
    return;
  st.pulling = true;
  auto read = std::make_shared<pty_read>(st.read);
  ask(self, st.terminal, pty_read_ptr{read})
    .then(
      [self](const pty_chunk_ptr& c) {
        auto& s = self->state;
        s.pulling = false;
        if (auto over = over_with_grant(*s.service, s.grants_until_ms)) {
          s.io->close(*over);
          return self->quit();
        }
        s.read.tail = false;
        s.read.from = c->offset() + c->data().size();
        s.sent += c->data().size();
        auto caught_up = c->data().empty() && c->gap() == 0;
        auto over = c->ended() || (!s.read.wait && caught_up) || (s.limit != 0 && s.sent >= s.limit);
        // A terminal of another node answers a wait in which nothing happened. It is not passed on: an empty chunk says that an input was taken.
        auto room = (s.read.wait && caught_up && !over) || s.io->push(*c);
        if (over) {
          s.complete = true;
          s.io->close(grpc::Status::OK);
          return self->quit();
        }
        if (s.limit != 0)
          s.read.max_bytes = s.limit - s.sent;
        if (room)
          pull(self);
        else
          s.waiting_for_room = true;
      },
      [self](caf::error& e) {
        self->state.io->close(to_status(e));
        self->quit();
      });
}

/// A session may look at the screen of a peer that it can see.
void look_at_peer(caf::event_based_actor* self, const service_environment& service, const v1::Principal& p, const pty_info_ptr& info,
                  std::function<void()> next, std::function<void()> refuse) {
  auto front = service.board->get().front;
  if (!front || info->session_id().empty() || info->scope().empty())
    return refuse();
  auto q = internal_query(*service.node, info->scope(), [&](v1::Query& x) {
    *x.mutable_principal() = p;
    x.set_viewer(p.id());
    x.mutable_find_session()->set_who(info->session_id());
  });
  ask(self, front, q)
    .then(
      [=](const answer_ptr& a) {
        auto visible = !a->has_refusal() && a->session().id() == info->session_id();
        visible ? next() : refuse();
      },
      [refuse](caf::error&) { refuse(); });
}

template <class State>
void open_terminal(caf::stateful_actor<State>* self, const claim& who, domain::operation what, const std::string& id, bool look_only, bool lasts,
                   std::function<void()> opened) {
  const auto& service = *self->state.service;
  std::function<void(grpc::Status)> refuse = [self](grpc::Status s) {
    self->state.io->close(std::move(s));
    self->quit();
  };
  const auto unknown = lasts ? std::function<void(grpc::Status)>{asked_again(self, refuse)} : refuse;
  with_lasting_principal(
    self, service, who,
    [=](const v1::Principal& p, std::int64_t until_ms) {
      self->state.principal = p;
      self->state.grants_until_ms = until_ms;
      with_terminal(
        self, *self->state.service, id, p,
        [=](pty_actor terminal) {
          ask(self, terminal, status_atom_v)
            .then(
              [=](const pty_info_ptr& info) {
                auto go = [=] {
                  self->state.scope = info->scope();
                  self->state.terminal = terminal;
                  self->state.of = domain::terminal_of(p, *info);
                  opened();
                  pull(self);
                };
                auto s = may_use_terminal(p, what, *info);
                if (s.ok())
                  return go();
                auto say_no = [=] { refuse(note(*self->state.service, who, p, s)); };
                if (!look_only || !may_use_terminal(p, domain::operation::pty_peek, *info).ok())
                  return say_no();
                look_at_peer(self, *self->state.service, p, info, go, say_no);
              },
              [refuse](caf::error& e) { refuse(to_status(e)); });
        },
        refuse);
    },
    unknown);
}

struct output_state {
  std::shared_ptr<service_environment> service;
  v1::Principal principal;
  std::int64_t grants_until_ms = 0;
  pty_actor terminal;
  domain::terminal of = domain::terminal::program;
  std::string scope; // of the terminal
  pty_read read;
  std::uint64_t sent = 0;
  std::uint64_t limit = 0; // 0 = none
  bool pulling = false;
  bool waiting_for_room = false;
  bool complete = false; // all that was asked for is sent
};

// -- Read ------------------------------------------------------------------------------------

class read_reactor final : public stream_writer<v1::PtyChunk, grpc::ServerWriteReactor<v1::PtyChunk>> {
public:
  void OnCancel() override {
    cancelled_ = true;
    stream_writer::OnCancel();
  }
  /// It was not the node that ended the stream.
  bool cancelled() const noexcept { return cancelled_; }

protected:
  void drained() override {
    if (auto who = actor().get())
      caf::anon_send(who, tick_atom_v);
  }

private:
  std::atomic<bool> cancelled_ = false;
};
using read_reactor_ptr = std::shared_ptr<read_reactor>;

/// The caller's standard input on its way to a command.
struct input_passed {
  std::shared_ptr<passed_inputs> all;
  std::string client; // empty: the caller passes none
  std::string task;
  std::chrono::system_clock::time_point renewed; // when the caller ends the stream to open another one
};

input_passed input_of(const grpc::CallbackServerContext& ctx, std::shared_ptr<passed_inputs> all) {
  auto found = ctx.client_metadata().find("swarm-input");
  if (found == ctx.client_metadata().end())
    return {};
  const std::string_view said{found->second.data(), found->second.size()};
  const auto slash = said.find('/');
  if (slash == said.npos || slash > limits::request_client_bytes_max || said.size() - slash > limits::id_bytes_max)
    return {};
  return {std::move(all), std::string{said.substr(0, slash)}, std::string{said.substr(slash + 1)}, ctx.deadline()};
}

/// In the caller's name: it may do no more than the caller.
void cancel_task(const service_environment& service, const v1::Principal& who, const std::string& scope, const std::string& task) {
  v1::ExecuteRequest request;
  request.mutable_id()->set_client(random_uuid());
  request.mutable_id()->set_seq(1);
  auto& command = *request.mutable_command();
  command.set_scope(scope);
  auto& update = *command.mutable_update_task();
  update.set_task_id(task);
  update.set_status(v1::CANCELLED);
  update.set_result("its standard input was broken off");
  update.set_has_result(true);
  auto prepared = prepare(service, request, {}, who);
  if (auto front = service.board->get().front; front && prepared.status.ok() && !prepared.refusal)
    caf::anon_send(front, prepared.call);
}

/// The caller of a stream has gone. One that only renews its stream is there again soon.
caf::behavior input_broken_off(caf::event_based_actor* self, service_environment service, input_passed input, v1::Principal who, std::string scope) {
  runtime::install_defaults(self);
  const bool renews = std::chrono::system_clock::now() + limits::restart_grace() > input.renewed;
  self->delayed_send(self, renews ? std::chrono::milliseconds{limits::restart_grace()} : std::chrono::milliseconds{0}, tick_atom_v);
  return {[=](tick_atom) {
    if (!input.all->stands(input.client) && !input.all->has_ended(input.client) && !*service.stopping)
      cancel_task(service, who, scope, input.task);
    self->quit();
  }};
}

struct read_state : output_state {
  static inline const char* name = "pty-reader";
  read_reactor_ptr io;
  input_passed input;
  ~read_state() {
    if (!input.client.empty())
      input.all->leave(input.client);
    if (!input.client.empty() && io->cancelled() && terminal && !complete && !input.all->has_ended(input.client) && !*service->stopping)
      service->system.spawn(input_broken_off, *service, input, principal, scope);
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the terminal went away; read on from the last offset"});
  }
};

caf::behavior pty_reader(caf::stateful_actor<read_state>* self, service_environment service, claim who, v1::ReadPtyRequest req, input_passed input,
                         read_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.io = std::move(io);
  st.input = std::move(input);
  if (!st.input.client.empty())
    st.input.all->stand(st.input.client);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  st.read.from = req.from();
  st.read.wait = req.follow();
  st.read.tail = req.tail();
  st.read.max_bytes = req.max_bytes();
  st.limit = req.follow() ? 0 : req.max_bytes();
  open_terminal(self, who, domain::operation::pty_read, req.id(), req.tail() && !req.follow(), req.follow(), [] {});
  return {[self](tick_atom) {
    if (std::exchange(self->state.waiting_for_room, false))
      pull(self);
  }};
}

// -- Attach ----------------------------------------------------------------------------------

class attach_reactor final : public stream_writer<v1::PtyChunk, grpc::ServerBidiReactor<v1::AttachFrame, v1::PtyChunk>> {
public:
  using frame_ptr = std::shared_ptr<const v1::AttachFrame>;
  void read_more() { StartRead(&in_); }
  void OnReadDone(bool ok) override;

protected:
  void drained() override {
    if (auto who = actor().get())
      caf::anon_send(who, tick_atom_v);
  }

private:
  v1::AttachFrame in_;
};
using attach_reactor_ptr = std::shared_ptr<attach_reactor>;

} // namespace
} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::attach_reactor::frame_ptr)

namespace swarm {
namespace {

void attach_reactor::OnReadDone(bool ok) {
  if (auto who = actor().get()) {
    if (ok)
      caf::anon_send(who, std::make_shared<const v1::AttachFrame>(std::move(in_)));
    else
      caf::anon_send(who, gone_atom_v);
  }
}

struct attach_state : output_state {
  static inline const char* name = "pty-attachment";
  claim who;
  attach_reactor_ptr io;
  bool reads_when_room = false; // the next frame
  ~attach_state() {
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the terminal went away; attach again"});
  }
};

using attach_self = caf::stateful_actor<attach_state>*;

/// Whether the caller may still do that; if not, the attachment is over.
bool may_go_on(attach_self self, domain::operation what) {
  auto& st = self->state;
  auto over = over_with_grant(*st.service, st.grants_until_ms);
  if (auto refused = domain::may(st.principal, what, st.of); !over && refused)
    over = note(*st.service, st.who, st.principal, to_status(*refused));
  if (over) {
    st.io->close(*over);
    self->quit();
  }
  return !over;
}

/// A chunk with nothing in it, without a gap and not the last. The first one says that the terminal is attached, each later one that the oldest input
/// of which none has said so was taken: what was typed into a stream that breaks off has arrived, or is not known to. Says whether there is room.
bool confirm(attach_self self) {
  auto& st = self->state;
  v1::PtyChunk nothing;
  nothing.set_offset(st.read.from);
  return st.io->push(std::move(nothing));
}

void read_more(attach_self self, bool there_is_room) {
  if (there_is_room)
    return self->state.io->read_more();
  self->state.reads_when_room = true;
}

/// The program takes no more, or the input itself was wrong. With any other failure it may have arrived or not, and what is typed next must not be
/// taken for it.
bool is_certain(const caf::error& e) { return e == errc::not_found || e == errc::invalid || e == errc::stale; }

/// Size first, then keys; the next frame is read when these were taken.
void apply(attach_self self, const v1::AttachFrame& f) {
  auto& st = self->state;
  if (!f.input().empty() && !may_go_on(self, domain::operation::pty_write))
    return;
  if (f.has_size() && !may_go_on(self, domain::operation::pty_resize))
    return;
  if (f.has_size())
    ask(self, st.terminal, resize_atom_v, f.size().columns(), f.size().rows()).then([](const pty_info_ptr&) {}, [](caf::error&) {});
  if (f.input().empty())
    return st.io->read_more();
  auto in = std::make_shared<pty_input>();
  in->data = f.input();
  in->who = st.principal;
  ask(self, st.terminal, pty_input_ptr{in})
    .then([self](std::uint64_t) { read_more(self, confirm(self)); },
          [self](caf::error& e) {
            if (e == errc::overloaded)
              return read_more(self, confirm(self)); // it was not taken, which is as certain
            if (is_certain(e))
              return self->state.io->read_more();
            if (e == errc::forbidden)
              self->state.io->close(to_status(e));
            self->quit(); // the client attaches again, and knows that keys were on their way
          });
}

caf::behavior attachment(attach_self self, service_environment service, claim who, attach_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.who = std::move(who);
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  st.io->read_more();
  return {
    [self](const attach_reactor::frame_ptr& f) {
      auto& s = self->state;
      if (auto wrong = wrong_with(*f)) {
        s.io->close({grpc::StatusCode::INVALID_ARGUMENT, *wrong});
        return self->quit();
      }
      if (s.terminal)
        return apply(self, *f);
      s.read.from = f->from();
      s.read.tail = f->tail();
      open_terminal(self, s.who, domain::operation::pty_attach, f->pty_id(), false, true, [self, f] {
        confirm(self);
        apply(self, *f);
      });
    },
    [self](gone_atom) {
      self->state.io->close(grpc::Status::OK);
      self->quit();
    },
    [self](tick_atom) {
      if (std::exchange(self->state.reads_when_room, false))
        self->state.io->read_more();
      if (std::exchange(self->state.waiting_for_room, false))
        pull(self);
    },
  };
}

} // namespace

grpc::ServerWriteReactor<v1::PtyChunk>* pty_service::Read(grpc::CallbackServerContext* ctx, const v1::ReadPtyRequest* req) {
  return stream_when_admitted<read_reactor>(service_, *ctx, domain::operation::pty_read, wrong_with(*req),
                                            [&](const claim& who, const std::shared_ptr<read_reactor>& io) {
                                              service_.system.spawn(pty_reader, service_, who, *req, input_of(*ctx, inputs_), io);
                                            });
}

grpc::ServerBidiReactor<v1::AttachFrame, v1::PtyChunk>* pty_service::Attach(grpc::CallbackServerContext* ctx) {
  return stream_when_admitted<attach_reactor>(
    service_, *ctx, domain::operation::pty_attach, std::nullopt,
    [&](const claim& who, const std::shared_ptr<attach_reactor>& io) { service_.system.spawn(attachment, service_, who, io); });
}

} // namespace swarm
