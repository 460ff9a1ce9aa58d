// What the commands need from a node. The gRPC client implements it; tests put a fake in its place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "swarm/v1/cluster.pb.h"
#include "swarm/v1/conversation.pb.h"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/node.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

struct target;
using environment_list = std::vector<std::pair<std::string, std::string>>;

/// How a stream ended.
enum class stream_end {
  complete, // the server had no more to say
  stopped,  // the receiver asked to stop, or cancel() was called
  lost,     // the connection or the node went away: resume from the last position
  too_slow, // the reader lagged: resume from the last position
  not_kept, // the position is no longer kept
};

/// Every function throws `call_failed` when the call itself failed by its deadline (no node 3, deadline 4); a decision against
/// the caller is a Refusal inside the reply.
class coordination_port {
public:
  virtual ~coordination_port() = default;
  /// `extra_ms` lengthens the deadline, for commands that wait on the server.
  virtual v1::Reply execute(const v1::Command&, const environment_list& environment = {}, std::int64_t extra_ms = 0) = 0;
  virtual v1::Answer ask(const v1::Query&) = 0;
  /// `on` returns false to stop.
  virtual stream_end watch(const v1::WatchRequest&, const std::function<bool(const v1::WatchReply&)>& on) = 0;
  virtual v1::Activity wait_for_activity(v1::WaitRequest) = 0;
  /// Ends the call or stream in progress; may be called from another thread.
  virtual void cancel() = 0;
};

class node_port {
public:
  virtual ~node_port() = default;
  virtual v1::NodeStatus status() = 0;
  virtual v1::ActorGraph graph(const v1::GraphRequest&) = 0;
  virtual v1::BackupReply backup(const v1::BackupRequest&) = 0;
  virtual v1::ShutdownReply shutdown(const v1::ShutdownRequest&) = 0;
  virtual v1::CheckReply check(const v1::CheckRequest&) = 0;
  virtual v1::LoginReply login(const v1::LoginRequest&) = 0;
  virtual v1::LogoutReply logout(const v1::LogoutRequest&) = 0;
  virtual v1::SetPassphraseReply set_passphrase(const v1::SetPassphraseRequest&) = 0;
  virtual v1::Explanation explain() = 0;
  virtual v1::FoundReply found_cluster(const v1::FoundRequest&) = 0;
  virtual v1::JoinToken create_join_token(const v1::CreateJoinTokenRequest&) = 0;
  virtual v1::ClusterView join_cluster(const v1::JoinClusterRequest&) = 0;
  virtual v1::ClusterView nodes() = 0;
  virtual v1::UnlockAuthorityReply unlock_authority(const v1::UnlockAuthorityRequest&) = 0;
  virtual v1::ClusterView revoke_node(const v1::RevokeNodeRequest&) = 0;
  virtual v1::ClusterView drain_node(const v1::DrainNodeRequest&) = 0;
  virtual v1::LeaveClusterReply leave_cluster(const v1::LeaveClusterRequest&) = 0;
  virtual v1::CheckoutList share_scope(const v1::ShareScopeRequest&) = 0;
  virtual v1::CheckoutList unshare_scope(const v1::UnshareScopeRequest&) = 0;
  virtual v1::CheckoutList checkouts() = 0;
};

/// Both directions of an attached terminal; read and write may be called from two threads.
class pty_stream {
public:
  virtual ~pty_stream() = default;
  virtual bool write(const v1::AttachFrame&) = 0;
  /// False at the end.
  virtual bool read(v1::PtyChunk&) = 0;
  virtual void cancel() = 0;
  /// After the last read: whether the stream ended well or was cancelled. False when it was lost, or the node has the terminal not yet, and
  /// attach_again() is worth trying. Throws `call_failed` for anything else.
  virtual bool finish() = 0;
};

class pty_port {
public:
  virtual ~pty_port() = default;
  virtual v1::PtyInfo create(v1::CreatePtyRequest) = 0;
  virtual v1::PtyList list(const v1::ListPtysRequest&) = 0;
  virtual stream_end read(const v1::ReadPtyRequest&, const std::function<bool(const v1::PtyChunk&)>& on) = 0;
  /// Of the reads from now on: this process sends the program its own standard input, under this client name. When the process goes before that
  /// has ended, the node cancels the task. An empty name: it sends none.
  virtual void pass_input(const std::string& client, const std::string& task_id) = 0;
  virtual v1::SendPtyReply send(v1::SendPtyRequest) = 0;
  virtual v1::PtyInfo resize(const v1::ResizePtyRequest&) = 0;
  virtual v1::PtyInfo kill(const v1::KillPtyRequest&) = 0;
  virtual v1::PtyInfo forget(const v1::ForgetPtyRequest&) = 0;
  virtual std::unique_ptr<pty_stream> attach() = 0;
  /// After a stream was lost: waits for the node until the deadline of a call. Null when there is none by then, or when the waiting was
  /// cancelled.
  virtual std::unique_ptr<pty_stream> attach_again() = 0;
};

/// Where a reader of a conversation goes on behind this chunk; empty when the chunk does not say.
inline std::string cursor_of(const v1::ConversationChunk& chunk) {
  return chunk.has_item() ? chunk.item().cursor() : chunk.has_delta() ? chunk.delta().cursor() : chunk.caught_up().cursor();
}

/// What to say of a cursor that is none.
inline constexpr const char* not_a_cursor = "this cursor is not one of this conversation; leave --from out to read from the beginning";

class conversation_port {
public:
  virtual ~conversation_port() = default;
  /// `not_kept`: the cursor is none of this conversation.
  virtual stream_end read_conversation(const v1::ReadConversationRequest&, const std::function<bool(const v1::ConversationChunk&)>& on) = 0;
  /// All of it. Throws `call_failed`.
  virtual std::string read_blob(const v1::ReadBlobRequest&) = 0;
  /// `head` says for which conversation. Throws `call_failed`.
  virtual v1::WriteBlobReply write_blob(const v1::WriteBlobRequest& head, std::string_view bytes) = 0;
};

/// One connection, for one thread at a time but for cancel(), which ends a call or stream of any kind.
class node_line : public coordination_port, public pty_port, public conversation_port {
public:
  virtual v1::NodeStatus status() = 0;
};

/// Where the node is found and whether it may be started.
class node_finder {
public:
  virtual ~node_finder() = default;
  /// A node answers on the socket.
  virtual bool running() = 0;
  /// Starts one unless one runs; throws `call_failed`.
  virtual void start(const std::string& node_name) = 0;
  /// Becomes swarmd in this terminal; returns only by `call_failed`.
  virtual void start_in_foreground(const std::string& node_name) = 0;
  virtual std::string state_directory() = 0;
  /// Who this process is to the node of this user, by its place alone; when none answers, whether it is below that node's keeper. Else empty.
  virtual std::optional<v1::Explanation> explain_here() = 0;
  /// What would keep a node from starting; throws `call_failed` when that cannot be found out.
  virtual std::vector<std::string> obstacles() = 0;
  /// Puts a backup in the place of the store of a node that does not run; where the old files went, empty when there were none. Throws `call_failed`.
  virtual std::string restore(const std::string& file) = 0;
  /// Before anything else: the node to find is this one, not the one of this user.
  virtual void speak_to(const target&) = 0;
  /// After `shutdown` answered with this pid: waits until that process has ended. False when it is still there after the time.
  virtual bool wait_for_exit(std::int64_t pid, std::int64_t timeout_ms) = 0;
  /// For a node that does not run: from now on only `start` starts it. Returns whether programs in terminals go on without it. Throws
  /// `call_failed`.
  virtual bool keep_down() = 0;
  /// For a node of this host that does not run: the programs that go on without it. Throws `call_failed`.
  virtual std::vector<v1::PtyInfo> kept_programs() = 0;
  /// Ends them, and returns what it ended. Throws `call_failed`.
  virtual std::vector<v1::PtyInfo> end_kept_programs() = 0;
  /// The operator has stopped the node, which stays so until `start`.
  virtual bool is_kept_down() = 0;
  /// After a stream was lost. Throws `call_failed` when the operator has stopped the node and ended its programs, which
  /// makes it useless to wait.
  virtual void expect_return() = 0;
  /// Calls made from now on refuse instead of starting a node.
  virtual void never_start() = 0;
  /// Nodes started from now on take over the keeper that runs, whatever restricts it.
  virtual void take_keeper() = 0;
  /// Deadline of each call.
  virtual void set_timeout_ms(std::int64_t) = 0;
  /// A further connection to the same node, for another thread; as the session of that token, or as this process without one.
  virtual std::unique_ptr<node_line> connect(const std::string& token, bool may_start) = 0;
};

struct ports {
  coordination_port& coordination;
  node_port& admin;
  pty_port& ptys;
  conversation_port& conversations;
  node_finder& finder;
};

} // namespace swarm::cli
