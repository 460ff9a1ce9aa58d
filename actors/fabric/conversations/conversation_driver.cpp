// The pipes of a conversation's driver.
#include <variant>

#include "actors/base/crypto.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/conversation_internal.hpp"
#include "actors/runtime/error_text.hpp"

namespace swarm::conversation_internal {

namespace {

/// The next node that finds the driver dead needs its newest answer to hello, which the keeper's ring has only so long.
std::uint64_t greeting_pause_bytes() { return limits::pty_ring_bytes() / 4; }

v1::Principal this_node(self_ptr self) {
  v1::Principal p;
  p.set_kind(v1::Principal::NODE);
  p.set_id(self->state.place.links.node->facts.node_id);
  return p;
}

std::string next_request(self_ptr self) { return concat({self->state.activation, "-", ++self->state.inputs}); }

/// The keeper takes a frame whole or not at all.
void write(self_ptr self, std::string bytes, std::function<void()> then) {
  auto& st = self->state;
  auto in = std::make_shared<pty_input>();
  in->request = st.input.front().request;
  in->data = std::move(bytes);
  in->who = this_node(self);
  self->request(st.pipes, limits::call_deadline_default(), pty_input_ptr{in})
    .then(
      [self, then, n = st.connection](std::uint64_t) {
        if (n == self->state.connection)
          then();
      },
      [self, n = st.connection](caf::error& e) {
        if (n != self->state.connection || e == errc::not_found)
          return; // it has ended, which its output says
        after(self, again_soon, [self, n] {
          if (n == self->state.connection) {
            self->state.typing = false;
            type(self);
          }
        });
      });
}

void go_on(self_ptr self, bool done) {
  auto& st = self->state;
  st.typing = false;
  if (done)
    st.input.pop_front();
  type(self);
}

/// What follows of its prompt would be another prompt.
void drop_prompt(self_ptr self, const std::string& prompt, const std::string& why) {
  auto& st = self->state;
  const auto is_of_it = [&](const conversation_state::typed& t) {
    const auto* file = std::get_if<conversation_state::sent_file>(&t.what);
    return file && file->what.head.id() == prompt;
  };
  std::erase_if(st.input, is_of_it);
  if (st.talk)
    st.talk->file_missing(prompt, why);
  go_on(self, false);
  pump(self);
}

void write_page(self_ptr self, const blob_page& page) {
  auto& st = self->state;
  auto& file = std::get<conversation_state::sent_file>(st.input.front().what);
  internal::ToDriver out;
  auto& part = *out.mutable_prompt();
  part = file.what.head;
  part.set_media(page.data);
  part.set_begins(file.sent == 0);
  const auto sent = file.sent + page.data.size();
  const bool whole = sent >= page.total || page.data.empty();
  part.set_last(whole && file.what.last);
  write(self, agents::encode_driver_frame(out), [self, sent, whole] {
    auto& front = self->state.input.front();
    std::get<conversation_state::sent_file>(front.what).sent = sent;
    front.request = next_request(self);
    go_on(self, whole);
  });
}

/// Only what is gone or damaged stays so. Else it can be read when somebody has the time.
bool is_final(const caf::error& e) { return e == errc::not_found || e == errc::invalid || e == errc::store_failed; }

void read_again(self_ptr self, const caf::error& e) {
  log::warn({"conversation ", self->state.place.id, ": a file that goes with a prompt is not read yet: ", runtime::error_text(e)});
  after(self, again_later, [self, n = self->state.connection] {
    if (n == self->state.connection)
      go_on(self, false);
  });
}

/// Piece by piece, so that no more than one is in memory.
void send_file(self_ptr self) {
  auto& st = self->state;
  const auto& file = std::get<conversation_state::sent_file>(st.input.front().what);
  auto r = std::make_shared<blob_reading>(blob_reading{st.place.id, file.what.file.digest(), file.sent, limits::driver_part_bytes_max});
  self->request(st.place.links.conversation_blobs, limits::call_deadline_default(), blob_reading_ptr{r})
    .then(
      [self, n = st.connection](const blob_page_ptr& page) {
        if (n == self->state.connection)
          write_page(self, *page);
      },
      [self, n = st.connection, prompt = file.what.head.id(), name = file.what.file.name()](caf::error& e) {
        if (n != self->state.connection)
          return;
        is_final(e) ? drop_prompt(self, prompt, concat({"the file ", name, " that goes with it cannot be read: ", runtime::error_text(e)}))
                    : read_again(self, e);
      });
}

void hear_end(self_ptr self, const v1::PtyChunk& c) {
  auto& st = self->state;
  auto why = c.signal() != 0        ? concat({"the driver was ended by signal ", c.signal()})
             : c.exit_status() != 0 ? concat({"the driver ended with status ", c.exit_status()})
                                    : std::string{};
  if (st.last_words)
    st.talk->last_words(*std::exchange(st.last_words, std::nullopt), st.nonces);
  st.talk->driver_ended(std::move(why), now_ms(self));
  st.pipes = nullptr;
}

/// It will not answer: what it has told is found by its answer to an earlier hello.
void hear_out(self_ptr self) {
  self->state.read_to = 0;
  self->state.last_words.emplace();
}

void reconnect_later(self_ptr self) {
  lose_pipes(self);
  after(self, again_soon, [self] { connect(self); });
}

void hear(self_ptr self, const v1::PtyChunk& c) {
  auto& st = self->state;
  st.read_to = c.offset() + c.data().size();
  if (st.last_words) {
    *st.last_words += c.data();
  } else if (c.gap() > 0 && !c.ended()) {
    return reconnect_later(self);
  } else {
    st.talk->heard(c.data());
    if (c.ended() && !st.talk->is_ready())
      return hear_out(self);
  }
  if (c.ended())
    hear_end(self, c);
  else if (!st.last_words && st.talk->is_ready() && st.input.empty() && st.read_to - st.greeted_at > greeting_pause_bytes())
    reconnect_later(self);
}

void greet(self_ptr self, const pty_actor& pipes, const pty_info_ptr& info, const std::function<void(caf::error&)>& later) {
  auto& st = self->state;
  if (!info->running()) {
    st.connecting = false;
    st.pipes = pipes;
    hear_out(self);
    return pump(self);
  }
  auto hello = std::make_shared<log_hello>();
  hello->log = {st.place.id, st.row.log_end()};
  hello->generation = st.talk->generation();
  hello->nonce = random_bytes(agents::driver_nonce_bytes);
  self->request(st.place.links.conversation_logs, limits::call_deadline_default(), log_hello_ptr{hello})
    .then(
      [self, hello, pipes, from = info->end(), n = st.connection](bool) {
        auto& s = self->state;
        if (n != s.connection || !s.talk)
          return;
        s.connecting = false;
        s.pipes = pipes;
        s.read_to = s.greeted_at = from;
        s.nonces.insert(s.nonces.begin(), hello->nonce);
        s.nonces.resize(std::min<std::size_t>(s.nonces.size(), 2));
        s.talk->connected(hello->nonce);
        pump(self);
      },
      later);
}

} // namespace

void enqueue(self_ptr self, conversation_state::frame f) {
  self->state.input.push_back({next_request(self), std::move(f)});
  type(self);
}

void enqueue(self_ptr self, conversation_state::sent_file f) {
  self->state.input.push_back({next_request(self), std::move(f)});
  type(self);
}

void lose_pipes(self_ptr self) {
  auto& st = self->state;
  ++st.connection;
  st.pipes = nullptr;
  st.reading = st.typing = st.connecting = false;
  st.input.clear();
  st.last_words.reset();
  if (st.talk)
    st.talk->disconnected();
}

void type(self_ptr self) {
  auto& st = self->state;
  if (st.typing || st.input.empty() || !st.pipes)
    return;
  st.typing = true;
  const auto* frame = std::get_if<conversation_state::frame>(&st.input.front().what);
  if (!frame)
    return send_file(self);
  write(self, frame->bytes, [self, interrupt = frame->interrupt] {
    go_on(self, true);
    if (interrupt == 0 || !self->state.talk)
      return;
    self->state.talk->interrupt_taken(interrupt);
    pump(self);
  });
}

void read_output(self_ptr self) {
  auto& st = self->state;
  if (st.reading || !st.pipes || !st.talk || !(st.last_words || st.talk->wants_output()))
    return;
  st.reading = true;
  auto read = std::make_shared<pty_read>();
  read->from = st.read_to;
  self
    ->request(st.pipes, caf::infinite, pty_read_ptr{read}) // lint: edge deadline
    .then(
      [self, n = st.connection](const pty_chunk_ptr& c) {
        auto& s = self->state;
        if (n != s.connection || !s.talk)
          return;
        s.reading = false;
        hear(self, *c);
        pump(self);
      },
      [self, n = st.connection](caf::error&) {
        if (n == self->state.connection)
          reconnect_later(self);
      });
}

void connect(self_ptr self) {
  auto& st = self->state;
  if (!st.talk || st.talk->is_over() || st.pipes || st.connecting)
    return;
  if (!st.spawn) { // it has ended while its output could not be read
    st.talk->driver_ended("the driver has ended", now_ms(self));
    return pump(self);
  }
  if (!st.spawn || st.spawn->attempt() != st.talk->generation() || st.spawn->status() != v1::Spawn::RUNNING)
    return;
  st.connecting = true;
  const auto n = ++st.connection;
  auto later = [self, n](caf::error&) {
    if (n != self->state.connection)
      return;
    self->state.connecting = false;
    after(self, again_soon, [self] { connect(self); });
  };
  // Not there: its keeper is another one, and what it has told last is lost.
  auto gone = [self, n, later](caf::error& e) {
    if (n != self->state.connection || !self->state.talk || e != errc::not_found)
      return later(e);
    self->state.connecting = false;
    self->state.talk->driver_ended(ended_with_node, now_ms(self));
    pump(self);
  };
  self->request(st.place.links.processes, limits::call_deadline_default(), pty_atom_v, child_atom_v, st.row.spawn_id())
    .then(
      [self, n, later](const pty_actor& pipes) {
        if (n != self->state.connection)
          return;
        self->request(pipes, limits::call_deadline_default(), status_atom_v)
          .then(
            [self, n, pipes, later](const pty_info_ptr& info) {
              if (n == self->state.connection && self->state.talk)
                greet(self, pipes, info, later);
            },
            later);
      },
      gone);
}

} // namespace swarm::conversation_internal
