// Stand-ins for what lives on another node: the same typed interfaces, answered over the link to it.
#pragma once

#include <map>

#include <caf/expected.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/limits.hpp"
#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/parked.hpp"

namespace swarm {

/// How long the caller waits; nullopt: as long as is usual.
using link_patience = std::optional<std::chrono::milliseconds>;
/// A command for the node that is home of its scope.
link_request_ptr to_link(const execution& what, const link_patience& = {});
link_request_ptr to_link(const v1::Query& query, const link_patience& = {});
link_request_ptr to_link(const v1::WaitRequest& wait);
link_request_ptr to_link(const watch_poll& poll);
/// The answer to it, or the error that came instead.
caf::expected<reply_ptr> reply_in(const v1::LinkResponse&);
caf::expected<answer_ptr> answer_in(const v1::LinkResponse&);
caf::expected<activity_ptr> activity_in(const v1::LinkResponse&);
caf::expected<watch_page_ptr> page_in(const v1::LinkResponse&);

struct remote_state {
  static inline const char* name = "remote";
  federation_actor federation;
  std::string home;         // node id
  remote_state() = default; // no aggregate: CAF would initialise `federation` with the actor itself
};

/// The writer of the home, for the entities of its scopes that live here.
writer_actor::behavior_type remote_writer(writer_actor::stateful_pointer<remote_state> self, federation_actor federation, std::string home);
/// The readers of the home.
reader_actor::behavior_type remote_reader(reader_actor::stateful_pointer<remote_state> self, federation_actor federation, std::string home);

struct remote_watch_state {
  static inline const char* name = "remote-watch";
  federation_actor federation;
  std::string home;
  struct follower {
    link_request_ptr request;
    caf::actor_addr who; // its end gives the place at the home up
  };
  std::map<watch_poll_ptr, follower> asked;
  remote_watch_state() = default;
};

/// The watch hub of the home, for those who follow its scopes here.
watch_hub_actor::behavior_type remote_watch(watch_hub_actor::stateful_pointer<remote_watch_state> self, federation_actor federation,
                                            std::string home);

struct remote_pty_state {
  static inline const char* name = "remote-pty";
  federation_actor federation;
  std::string node_id;
  v1::PtyInfo info;  // as last said
  principal_ptr who; // on whose behalf
  std::uint64_t next_input = 1;
  std::string client; // of inputs that name no request of their own: repeated by the link, they are applied once
  /// What the follower will ask for next, asked for while it deals with what it has: only of a program that writes much.
  struct read_ahead {
    pty_read read;
    link_request_ptr request;
    pty_chunk_ptr chunk;                                   // null: it is on its way
    std::optional<runtime::parked<pty_chunk_ptr>> waiting; // the caller that requested it meanwhile
  };
  std::optional<read_ahead> ahead;
  bool writes_little = false; // its last chunk was small: an echo, a prompt
  remote_pty_state() = default;
  ~remote_pty_state();
};

/// A terminal of another node. Lives for as long as somebody holds it.
pty_actor::behavior_type remote_pty(pty_actor::stateful_pointer<remote_pty_state> self, federation_actor federation, std::string node_id,
                                    v1::PtyInfo info, principal_ptr who);

/// Asks the node and answers the promise with what `take` finds in the response; `done` when it is over, one way or the other.
template <class T, class Self, class Take, class Done = void (*)()>
void ask_node(
  Self self, const federation_actor& federation, const std::string& node_id, link_request_ptr request, caf::typed_response_promise<T> promise,
  Take take, Done done = [] {}) {
  auto kept = std::make_shared<runtime::parked<T>>(promise);
  // The actor that has the link answers by the deadline of the request, or ends; either way this is answered, too.
  self
    ->request(federation, caf::infinite, node_id, std::move(request)) // lint: edge deadline
    .then(
      [kept, take, done](const link_response_ptr& r) {
        done();
        if (auto taken = take(*r))
          kept->answer(std::move(*taken));
        else
          kept->answer(std::move(taken.error()));
      },
      [kept, done](caf::error& e) {
        done();
        kept->answer(std::move(e));
      });
}

/// This node is there, and its client has nothing to wait for: that the home is away is an answer, which refuses.
void answer_or_refuse(runtime::parked<answer_ptr>&, caf::expected<answer_ptr>);

/// Asks the home a client's query, as ask_node does. What this node asks for itself, such as whose a token is, must not be refused: not to know is no
/// "no".
template <class Self>
void ask_home(Self self, const federation_actor& federation, const std::string& home, link_request_ptr request,
              caf::typed_response_promise<answer_ptr> promise) {
  auto kept = std::make_shared<runtime::parked<answer_ptr>>(promise);
  self
    ->request(federation, caf::infinite, home, std::move(request)) // lint: edge deadline
    .then([kept](const link_response_ptr& r) { answer_or_refuse(*kept, answer_in(*r)); },
          [kept](caf::error& e) { answer_or_refuse(*kept, std::move(e)); });
}

} // namespace swarm
