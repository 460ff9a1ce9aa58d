// One caller's way to the node, for those who wait: calls and streams go on over a restart of the node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "gateway/client/ports.hpp"

namespace swarm::cli {

/// One caller's way to the node: one call at a time, except cancel(). A call goes on over a restart of the node, with the same request
/// id, until its deadline. Throws call_failed; a decision against the caller is a Refusal inside the answer.
class connection {
public:
  virtual ~connection() = default;
  /// `extra_ms` lengthens the deadline, for what waits in the node.
  virtual v1::Reply execute(const v1::Command&, const environment_list& environment = {}, std::int64_t extra_ms = 0) = 0;
  virtual v1::Answer ask(const v1::Query&) = 0;
  virtual v1::Activity wait_for_activity(const v1::WaitRequest&) = 0;
  /// Events in order until `on` returns false or `timeout_ms` (0 = none) has passed. Goes on where it was after a restart; a position that
  /// is no longer kept is told by an empty event list. `on` may make calls of its own on this connection.
  virtual void watch(v1::WatchRequest, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) = 0;
  virtual v1::PtyList list_ptys(const v1::ListPtysRequest&) = 0;
  /// Output in order until `on` returns false, the program has ended, `timeout_ms` (0 = none) has passed, or, unless the request follows,
  /// there is no more. Goes on where it was after a restart.
  virtual void read_pty(v1::ReadPtyRequest, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) = 0;
  /// What was said and, when following, is said, until `on` returns false, `timeout_ms` (0 = none) has passed, or, unless the request follows, there
  /// is no more. Goes on where it was after a restart. Throws call_failed for a cursor that is none.
  virtual void read_conversation(v1::ReadConversationRequest, std::int64_t timeout_ms,
                                 const std::function<bool(const v1::ConversationChunk&)>& on) = 0;
  virtual v1::SendPtyReply send_to_pty(const v1::SendPtyRequest&) = 0;
  /// Ends the call in progress, or the next one; from any thread.
  virtual void cancel() = 0;
};

/// Over a line of its own.
std::unique_ptr<connection> connection_over(std::unique_ptr<node_line>);

} // namespace swarm::cli
