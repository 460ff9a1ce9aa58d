#include "services/api/conversation_service.hpp"

#include <deque>

#include "services/api/conversation_call.hpp"
#include "services/api/conversation_chunks.hpp"
#include "services/call/admitted_call.hpp"
#include "services/call/asked_again.hpp"
#include "services/call/requests.hpp"

namespace swarm {

namespace {

class read_reactor final : public stream_writer<grpc::ByteBuffer, grpc::ServerWriteReactor<grpc::ByteBuffer>, many_bytes> {
protected:
  void drained() override {
    if (auto who = actor().get())
      caf::anon_send(who, tick_atom_v);
  }
};
using read_reactor_ptr = std::shared_ptr<read_reactor>;

/// Pulls: the log as far as it goes, then what the conversation's actor has behind it. The next is asked for when the last has gone out.
struct reading_state {
  static inline const char* name = "conversation-reader";
  std::shared_ptr<service_environment> service;
  v1::ReadConversationRequest request;
  path_view paths;
  v1::Principal principal;
  std::int64_t grants_until_ms = 0;
  read_reactor_ptr io;
  v1::Conversation row;
  std::optional<log_cursor> at; // nothing: the oldest that is kept
  bool resumes = false;         // `at` is of another time
  bool caught_up = false;
  bool inside_item = false; // of which the begin was skipped
  std::uint64_t state_seen = 0;
  std::deque<grpc::ByteBuffer> out; // read, and not sent
  bool waiting_for_room = false;
  ~reading_state() {
    if (io)
      io->close({grpc::StatusCode::UNAVAILABLE, "the part of the node that reads conversations went away; read on from the last cursor"});
  }
};

using reading_self = caf::stateful_actor<reading_state>*;

void finish(reading_self self, grpc::Status s) {
  self->state.io->close(std::move(s));
  self->quit();
}

const char* to_text(log_gap::why w) {
  switch (w) {
    case log_gap::why::epoch: return "epoch";
    case log_gap::why::history: return "history";
    case log_gap::why::inside_frame: return "inside_frame";
    case log_gap::why::beyond_end: return "beyond_end";
    case log_gap::why::retention: return "retention";
    case log_gap::why::damaged: break;
  }
  return "damaged";
}

void put(reading_self self, v1::ConversationChunk c) {
  self->state.paths.to_caller(c);
  self->state.out.push_back(chunk_of(c));
}

v1::ConversationChunk resumed(const std::optional<log_gap>& gap, std::uint64_t skipped) {
  v1::ConversationChunk c;
  auto& r = *c.mutable_resumed();
  r.set_skipped(skipped);
  if (gap) {
    r.set_gap(to_text(gap->reason));
    r.set_from(gap->from);
    r.set_to(gap->to);
  }
  return c;
}

void read_log(reading_self self);
void follow(reading_self self);

/// Sends what was read as far as there is room, then reads on.
void go_on(reading_self self) {
  auto& st = self->state;
  if (auto over = over_with_grant(*st.service, st.grants_until_ms))
    return finish(self, *over);
  while (!st.out.empty()) {
    auto chunk = std::move(st.out.front());
    st.out.pop_front();
    if (!st.io->push(std::move(chunk))) {
      st.waiting_for_room = true; // `drained` goes on
      return;
    }
  }
  if (st.caught_up && !st.request.follow())
    return finish(self, grpc::Status::OK);
  st.caught_up ? follow(self) : read_log(self);
}

void take_pages(reading_self self, const log_pages& p) {
  auto& st = self->state;
  const bool first = st.resumes || !st.at;
  if (first || p.gap)
    put(self, resumed(p.gap, p.skipped));
  st.inside_item |= p.skipped > 0;
  for (const auto& e : p.entries) {
    if (st.inside_item)
      st.inside_item = !e.ends_item;
    else
      st.out.push_back(chunk_with_item(e.item, swarm::to_text(e.next))); // an item has no paths of its scope
  }
  // What was read of the open item before is known by the cursor: it stays until the log goes on.
  const bool moved = !st.at || st.at->at != p.next.at || st.at->epoch != p.next.epoch;
  if (moved)
    st.at = p.next;
  const bool at_end = p.entries.empty() && !p.gap && p.skipped == 0 && !st.resumes;
  st.resumes = false;
  if (!at_end)
    return go_on(self);
  if (st.state_seen == 0) {
    st.state_seen = 1; // no number of the actor's
    v1::ConversationChunk c;
    c.mutable_caught_up()->set_cursor(swarm::to_text(*st.at));
    put(self, std::move(c));
  }
  st.caught_up = true;
  go_on(self);
}

void read_log(reading_self self) {
  auto& st = self->state;
  auto logs = st.service->board->get().conversation_logs;
  if (!logs)
    return finish(self, to_status(errc::unavailable));
  auto r = std::make_shared<log_reading>();
  r->log = {st.row.id(), st.row.log_end()};
  r->from = st.at;
  r->resumes = st.resumes;
  r->tail_bytes = st.request.tail_bytes();
  ask(self, logs, log_reading_ptr{r})
    .then([self](const log_pages_ptr& p) { take_pages(self, *p); }, [self](caf::error& e) { finish(self, to_status(e)); });
}

void follow(reading_self self) {
  auto& st = self->state;
  auto front = st.service->board->get().front;
  if (!front)
    return finish(self, to_status(errc::unavailable));
  auto poll = std::make_shared<conversation_poll>();
  poll->scope = st.request.scope();
  poll->id = st.row.id();
  poll->at = *st.at;
  poll->state_seen = st.state_seen;
  ask(self, front, conversation_poll_ptr{poll})
    .then(
      [self](const conversation_news_ptr& news) {
        auto& s = self->state;
        if (news->log_grew)
          s.caught_up = false;
        if (news->delta) {
          v1::ConversationChunk c;
          *c.mutable_delta() = *news->delta;
          s.at = news->at;
          put(self, std::move(c));
        }
        if (news->state) {
          v1::ConversationChunk c;
          *c.mutable_state() = *news->state;
          s.state_seen = news->state_number;
          put(self, std::move(c));
        }
        go_on(self);
      },
      [self](caf::error& e) { finish(self, to_status(e)); });
}

/// The caller sees the conversation, or there is none for it.
void begin(reading_self self) {
  auto& st = self->state;
  with_conversation(
    self, st.service, st.principal, st.request.scope(), st.request.conversation_id(),
    [self](const v1::Conversation& row) {
      self->state.row = row;
      read_log(self);
    },
    [self](grpc::Status s) { finish(self, std::move(s)); });
}

caf::behavior reader_of_conversation(reading_self self, service_environment service, claim who, v1::ReadConversationRequest request,
                                     read_reactor_ptr io) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.service = std::make_shared<service_environment>(std::move(service));
  st.request = std::move(request);
  st.paths = path_view{st.service->nodes.shared(), *st.request.mutable_scope(), {}};
  st.io = std::move(io);
  st.io->actor().attach(caf::actor_cast<caf::actor>(self));
  if (!st.request.cursor().empty()) {
    st.at = parse_cursor(st.request.cursor());
    st.resumes = true;
    if (!st.at)
      finish(self, {grpc::StatusCode::OUT_OF_RANGE, "this is no cursor of a conversation; read without one, from the oldest that is kept"});
  }
  if (st.request.cursor().empty() || st.at)
    with_lasting_principal(
      self, *st.service, who,
      [self](const v1::Principal& p, std::int64_t until_ms) {
        self->state.principal = p;
        self->state.grants_until_ms = until_ms;
        begin(self);
      },
      asked_again(self, [self](grpc::Status s) { finish(self, std::move(s)); }));
  return {[self](tick_atom) {
    if (std::exchange(self->state.waiting_for_room, false))
      go_on(self);
  }};
}

} // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* conversation_service::Read(grpc::CallbackServerContext* ctx, const grpc::ByteBuffer* bytes) {
  auto copy = *bytes; // reading uses it up
  v1::ReadConversationRequest req;
  const auto parsed = grpc::SerializationTraits<v1::ReadConversationRequest>::Deserialize(&copy, &req);
  return stream_when_admitted<read_reactor>(
    service_, *ctx, domain::operation::ask, parsed.ok() ? wrong_with(req) : std::optional<std::string>{"this is no request to read a conversation"},
    [&](const claim& who, const std::shared_ptr<read_reactor>& io) { service_.system.spawn(reader_of_conversation, service_, who, req, io); });
}

} // namespace swarm
