#include "actors/fabric/cluster/remote.hpp"

#include <algorithm>

#include <caf/send.hpp>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/error_text.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

namespace {

/// How long the caller waits for it, unless that is known.
std::int64_t timeout_of(const v1::Command& c) {
  return limits::call_deadline_default().count() + (c.has_acquire_lock() ? c.acquire_lock().wait_ms() : 0);
}
std::int64_t shorter(std::int64_t timeout_ms, const link_patience& known) {
  return known ? std::min<std::int64_t>(timeout_ms, known->count()) : timeout_ms;
}

template <class T>
caf::expected<std::shared_ptr<const T>> taken(const v1::LinkResponse& r, bool there, const T& what) {
  if (there)
    return std::make_shared<const T>(what);
  if (r.has_error() && r.error().code() >= 1 && r.error().code() <= static_cast<std::uint32_t>(errc::away))
    return fail(static_cast<errc>(r.error().code()), r.error().text());
  return fail(errc::invalid, "the other node answered something else than it was asked");
}

} // namespace

link_request_ptr to_link(const execution& what, const link_patience& patience) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(shorter(timeout_of(what.command), patience));
  *r->mutable_principal() = what.command.principal();
  *r->mutable_execute()->mutable_id() = what.id;
  *r->mutable_execute()->mutable_command() = what.command;
  return r;
}

link_request_ptr to_link(const v1::Query& query, const link_patience& patience) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(shorter(limits::call_deadline_default().count(), patience));
  *r->mutable_principal() = query.principal();
  *r->mutable_query() = query;
  return r;
}

link_request_ptr to_link(const v1::WaitRequest& wait) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(limits::call_deadline_default().count() + (wait.timeout_ms() > 0 ? wait.timeout_ms() : limits::server_wait_max().count()));
  // The services have checked that a session waits only for itself.
  r->mutable_principal()->set_kind(v1::Principal::SESSION);
  r->mutable_principal()->set_id(wait.session_id());
  *r->mutable_wait() = wait;
  return r;
}

link_request_ptr to_link(const watch_poll& poll) {
  auto r = std::make_shared<v1::LinkRequest>();
  r->set_timeout_ms(limits::server_wait_max().count());
  r->mutable_principal()->set_kind(v1::Principal::NODE);
  auto* watch = r->mutable_watch();
  watch->set_scope(poll.scope);
  watch->set_after(poll.after);
  watch->mutable_types()->Assign(poll.types.begin(), poll.types.end());
  watch->set_subject(poll.subject);
  watch->set_wait(poll.wait);
  return r;
}

caf::expected<reply_ptr> reply_in(const v1::LinkResponse& r) { return taken(r, r.has_reply(), r.reply()); }
caf::expected<answer_ptr> answer_in(const v1::LinkResponse& r) { return taken(r, r.has_answer_to_query(), r.answer_to_query()); }
caf::expected<activity_ptr> activity_in(const v1::LinkResponse& r) { return taken(r, r.has_activity(), r.activity()); }
caf::expected<watch_page_ptr> page_in(const v1::LinkResponse& r) {
  auto said = taken(r, r.has_page(), r.page());
  if (!said)
    return std::move(said.error());
  auto page = std::make_shared<watch_page>();
  page->events.assign((*said)->events().begin(), (*said)->events().end());
  page->revision = (*said)->revision();
  page->too_old = (*said)->too_old();
  return watch_page_ptr{page};
}

writer_actor::behavior_type remote_writer(writer_actor::stateful_pointer<remote_state> self, federation_actor federation, std::string home) {
  runtime::install_defaults(self);
  self->state.federation = std::move(federation);
  self->state.home = std::move(home);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> {
      auto promise = self->make_response_promise<reply_ptr>();
      ask_node(self, self->state.federation, self->state.home, to_link(*exec), promise, reply_in);
      return promise;
    },
    [](flush_atom) {},
    [](catch_up_atom) { return true; },
    [](tick_atom) {},
    [](status_atom) -> caf::result<store_status_ptr> { return fail(errc::unavailable, "the store is another node's"); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", self->state.home)}; },
  };
}

void answer_or_refuse(runtime::parked<answer_ptr>& kept, caf::expected<answer_ptr> answer) {
  if (answer)
    return kept.answer(std::move(*answer));
  if (answer.error() != errc::unavailable && answer.error() != errc::away)
    return kept.answer(std::move(answer.error()));
  auto refused = std::make_shared<v1::Answer>();
  *refused->mutable_refusal() = domain::refusal(v1::Refusal::UNAVAILABLE, runtime::error_text(answer.error()));
  kept.answer(answer_ptr{refused});
}

reader_actor::behavior_type remote_reader(reader_actor::stateful_pointer<remote_state> self, federation_actor federation, std::string home) {
  runtime::install_defaults(self);
  self->state.federation = std::move(federation);
  self->state.home = std::move(home);
  auto elsewhere = [] { return fail(errc::unavailable, "the store is another node's"); };
  return {
    [self](const query_ptr& q) -> caf::result<answer_ptr> {
      auto promise = self->make_response_promise<answer_ptr>();
      ask_node(self, self->state.federation, self->state.home, to_link(*q), promise, answer_in);
      return promise;
    },
    [elsewhere](backup_atom, const std::string&) -> caf::result<std::uint64_t> { return elsewhere(); },
    [elsewhere](check_atom, bool) -> caf::result<std::string> { return elsewhere(); },
    [elsewhere](places_atom, const std::string&) -> caf::result<lock_places_ptr> { return elsewhere(); },
    [elsewhere](const kept_question_ptr&) -> caf::result<kept_conversations_ptr> { return elsewhere(); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", self->state.home)}; },
  };
}

namespace {

using watch_self = watch_hub_actor::stateful_pointer<remote_watch_state>;

void forget(watch_self self, const watch_poll_ptr& poll) {
  auto node = self->state.asked.extract(poll);
  if (!node.empty() && node.mapped().who)
    self->demonitor(node.mapped().who);
}

/// The home answers with nothing when nothing has happened for long.
void poll_home(watch_self self, const watch_poll_ptr& poll, const std::shared_ptr<runtime::parked<watch_page_ptr>>& promise) {
  auto& st = self->state;
  auto request = to_link(*poll);
  st.asked[poll].request = request;
  self->request(st.federation, std::chrono::milliseconds{request->timeout_ms()} + limits::call_deadline_default(), st.home, request)
    .then(
      [self, poll, promise](const link_response_ptr& r) {
        auto page = page_in(*r);
        if (page && self->state.asked.contains(poll) && poll->wait && (*page)->events.empty() && !(*page)->too_old)
          return poll_home(self, poll, promise);
        forget(self, poll);
        if (page)
          promise->answer(*page);
        else
          promise->answer(std::move(page.error()));
      },
      [self, poll, promise](caf::error& e) {
        forget(self, poll);
        promise->answer(std::move(e));
      });
}

/// The follower has gone, or wants no more: the home need not look out for it.
void take_back(watch_self self, const watch_poll_ptr& poll) {
  auto& st = self->state;
  if (auto i = st.asked.find(poll); i != st.asked.end()) {
    caf::anon_send(st.federation, abort_atom_v, st.home, i->second.request);
    forget(self, poll);
  }
}

} // namespace

watch_hub_actor::behavior_type remote_watch(watch_self self, federation_actor federation, std::string home) {
  runtime::install_defaults(self);
  self->state.federation = std::move(federation);
  self->state.home = std::move(home);
  self->set_down_handler([self](caf::down_msg& dm) {
    std::vector<watch_poll_ptr> left;
    for (const auto& [poll, f] : self->state.asked)
      if (f.who == dm.source)
        left.push_back(poll);
    for (const auto& poll : left)
      take_back(self, poll);
  });
  return {
    [](const commit_ptr&) {},
    [self](const watch_poll_ptr& poll) -> caf::result<watch_page_ptr> {
      auto promise = self->make_response_promise<watch_page_ptr>();
      if (auto who = caf::actor_cast<caf::actor_addr>(self->current_sender())) {
        self->monitor(who);
        self->state.asked[poll].who = who;
      }
      poll_home(self, poll, std::make_shared<runtime::parked<watch_page_ptr>>(promise));
      return promise;
    },
    [self](forget_atom, const watch_poll_ptr& poll) { take_back(self, poll); },
    [](attach_atom, const commit_sink_actor&) {},
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", self->state.home)}; },
  };
}

namespace {

using pty_self = pty_actor::stateful_pointer<remote_pty_state>;

/// Asks the node for something about the terminal; `put` fills in what.
template <class T, class Put, class Take>
caf::result<T> ask_pty(pty_self self, std::chrono::milliseconds timeout, Put put, Take take) {
  auto request = std::make_shared<v1::LinkRequest>();
  request->set_timeout_ms(timeout.count());
  // This node's services have identified the caller; the other node applies its own rules.
  *request->mutable_principal() = *self->state.who;
  request->set_to_node(self->state.node_id);
  put(*request);
  auto promise = self->template make_response_promise<T>();
  ask_node(self, self->state.federation, self->state.node_id, link_request_ptr{request}, promise, take);
  return promise;
}

link_request_ptr to_link(const remote_pty_state& st, const pty_read& r) {
  auto request = std::make_shared<v1::LinkRequest>();
  request->set_timeout_ms(limits::server_wait_max().count());
  *request->mutable_principal() = *st.who;
  request->set_to_node(st.node_id);
  auto* read = request->mutable_read_pty();
  read->set_id(st.info.id());
  read->set_from(r.from);
  read->set_follow(r.wait);
  read->set_tail(r.tail);
  read->set_max_bytes(r.max_bytes);
  return request;
}

/// The node asks for it no more.
void take_back(remote_pty_state& st) {
  if (st.ahead && !st.ahead->chunk)
    caf::anon_send(st.federation, abort_atom_v, st.node_id, st.ahead->request);
  st.ahead.reset();
}

caf::expected<pty_info_ptr> info_in(const v1::LinkResponse& r) { return taken(r, r.has_pty(), r.pty()); }
caf::expected<pty_chunk_ptr> chunk_in(const v1::LinkResponse& r) { return taken(r, r.has_chunk(), r.chunk()); }
void read_on(pty_self self, const pty_read& last, const v1::PtyChunk& chunk);

/// Asks for it; `done` with what came.
template <class Done>
void ask_for(pty_self self, const pty_read& r, const link_request_ptr& request, Done done) {
  self
    ->request(self->state.federation, caf::infinite, self->state.node_id, request) // lint: edge deadline
    .then(
      [self, r, done](const link_response_ptr& said) {
        auto chunk = chunk_in(*said);
        auto more = chunk ? *chunk : nullptr;
        if (more)
          self->state.writes_little = more->data().size() < limits::pty_interactive_bytes_max;
        done(std::move(chunk));
        if (more && !self->state.ahead)
          read_on(self, r, *more);
      },
      [done](caf::error& e) { done(caf::expected<pty_chunk_ptr>{std::move(e)}); });
}

void answer(runtime::parked<pty_chunk_ptr>& promise, caf::expected<pty_chunk_ptr> chunk) {
  if (chunk)
    promise.answer(std::move(*chunk));
  else
    promise.answer(std::move(chunk.error()));
}

/// Half a chunk is a sign that there is more already.
void read_on(pty_self self, const pty_read& last, const v1::PtyChunk& chunk) {
  auto& st = self->state;
  if (!last.wait || chunk.ended() || chunk.data().size() < limits::pty_chunk_bytes_max / 2)
    return;
  auto next = last;
  next.tail = false;
  next.from = chunk.offset() + chunk.data().size();
  auto request = to_link(st, next);
  st.ahead.emplace(remote_pty_state::read_ahead{next, request, nullptr, std::nullopt});
  ask_for(self, next, request, [self, request](caf::expected<pty_chunk_ptr> came) {
    auto& ahead = self->state.ahead;
    if (!ahead || ahead->request != request)
      return; // it was taken back
    if (came && !ahead->waiting) {
      ahead->chunk = std::move(*came);
      return;
    }
    auto waiting = std::move(ahead->waiting);
    ahead.reset();
    if (waiting)
      answer(*waiting, std::move(came));
  });
}

caf::result<pty_chunk_ptr> read(pty_self self, const pty_read& r) {
  auto& st = self->state;
  if (st.ahead && !st.ahead->waiting) {
    const auto& next = st.ahead->read;
    if (!r.wait || r.tail || r.from != next.from || r.max_bytes != next.max_bytes) {
      take_back(st);
    } else if (auto chunk = st.ahead->chunk) {
      st.ahead.reset();
      read_on(self, r, *chunk);
      return chunk;
    } else {
      auto later = self->make_response_promise<pty_chunk_ptr>();
      st.ahead->waiting.emplace(later);
      return later;
    }
  }
  auto promise = self->make_response_promise<pty_chunk_ptr>();
  auto kept = std::make_shared<runtime::parked<pty_chunk_ptr>>(promise);
  // What follows little is little, too, or the first piece of much.
  auto asked = r;
  if (r.wait && !r.tail && st.writes_little && (r.max_bytes == 0 || r.max_bytes > limits::pty_interactive_bytes_max))
    asked.max_bytes = limits::pty_interactive_bytes_max;
  ask_for(self, r, to_link(st, asked), [kept](caf::expected<pty_chunk_ptr> came) { answer(*kept, std::move(came)); });
  return promise;
}

caf::expected<std::uint64_t> accepted_in(const v1::LinkResponse& r) {
  auto sent = taken(r, r.has_sent(), r.sent());
  return sent ? caf::expected<std::uint64_t>{(*sent)->accepted()} : caf::expected<std::uint64_t>{std::move(sent.error())};
}

} // namespace

remote_pty_state::~remote_pty_state() { take_back(*this); }

pty_actor::behavior_type remote_pty(pty_self self, federation_actor federation, std::string node_id, v1::PtyInfo info, principal_ptr who) {
  runtime::install_defaults(self);
  auto& st = self->state;
  st.federation = std::move(federation);
  st.node_id = std::move(node_id);
  st.info = std::move(info);
  st.who = std::move(who);
  st.client = to_hex(random_bytes(16));
  const auto id = st.info.id();
  const auto soon = limits::call_deadline_default();
  return {
    [self](const pty_read_ptr& r) { return read(self, *r); },
    [self, id, soon](const pty_input_ptr& in) {
      if (in->stale)
        return caf::result<std::uint64_t>{fail(errc::stale)};
      return ask_pty<std::uint64_t>(
        self, soon,
        [&](v1::LinkRequest& x) {
          auto* send = x.mutable_send_pty();
          send->set_pty_id(id);
          send->set_data(in->data);
          auto& s = self->state;
          send->mutable_id()->set_client(in->request.empty() ? s.client : in->request);
          send->mutable_id()->set_seq(in->request.empty() ? s.next_input++ : 1);
        },
        accepted_in);
    },
    [self, id, soon](resize_atom, std::uint32_t columns, std::uint32_t rows) {
      return ask_pty<pty_info_ptr>(
        self, soon,
        [&](v1::LinkRequest& x) {
          x.mutable_resize_pty()->set_pty_id(id);
          x.mutable_resize_pty()->mutable_size()->set_columns(columns);
          x.mutable_resize_pty()->mutable_size()->set_rows(rows);
        },
        info_in);
    },
    [self, id, soon](kill_atom, std::int32_t signal) {
      return ask_pty<pty_info_ptr>(
        self, soon,
        [&](v1::LinkRequest& x) {
          x.mutable_kill_pty()->set_pty_id(id);
          x.mutable_kill_pty()->set_signal(signal);
        },
        info_in);
    },
    [self, id, soon](status_atom) {
      return ask_pty<pty_info_ptr>(
        self, soon, [&](v1::LinkRequest& x) { x.mutable_find_pty()->set_id(id); }, info_in);
    },
    [self, id, soon](forget_atom) {
      return ask_pty<pty_info_ptr>(
        self, soon, [&](v1::LinkRequest& x) { x.mutable_forget_pty()->set_pty_id(id); }, info_in);
    },
    // An agent is looked after where it runs.
    [](gate_atom, std::int32_t) {},
    [](attach_atom, std::uint64_t) -> caf::result<pty_change_ptr> { return fail(errc::invalid, "the terminal is another node's"); },
    [](const keeper_news_ptr&) {},
    [self](tree_atom) { return runtime::self_row(self, "up", self->state.node_id); },
  };
}

} // namespace swarm
