// The gRPC client: one connection over the node's Unix socket, made from a connected descriptor so that neither name resolution
// nor gRPC's own connection management takes part. Every call repeats itself with the same request id until its deadline.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/stopped_mark.hpp"
#include "actors/base/unique_fd.hpp"
#include "gateway/client/failure.hpp"
#include "gateway/client/node_start.hpp"
#include "gateway/client/ports.hpp"
#include "gateway/client/ssh_line.hpp"

namespace swarm::cli {

struct client_settings {
  state_dir dir;
  std::string token;      // metadata swarm-token; empty = none
  bool may_start = true;  // start swarmd when none answers
  bool in_worker = false; // never start one from inside a worker
  std::int64_t timeout_ms = 30'000;
  std::optional<target> elsewhere; // the node of another host, behind ssh
};

class client final : public node_line, public node_port, public node_finder {
public:
  explicit client(client_settings);
  ~client() override;

  v1::Reply execute(const v1::Command&, const environment_list& environment, std::int64_t extra_ms) override;
  v1::Answer ask(const v1::Query&) override;
  stream_end watch(const v1::WatchRequest&, const std::function<bool(const v1::WatchReply&)>& on) override;
  v1::Activity wait_for_activity(v1::WaitRequest) override;
  void cancel() override;

  v1::NodeStatus status() override;
  v1::ActorGraph graph(const v1::GraphRequest&) override;
  v1::BackupReply backup(const v1::BackupRequest&) override;
  v1::ShutdownReply shutdown(const v1::ShutdownRequest&) override;
  v1::CheckReply check(const v1::CheckRequest&) override;
  v1::LoginReply login(const v1::LoginRequest&) override;
  v1::LogoutReply logout(const v1::LogoutRequest&) override;
  v1::SetPassphraseReply set_passphrase(const v1::SetPassphraseRequest&) override;
  v1::Explanation explain() override;
  v1::FoundReply found_cluster(const v1::FoundRequest&) override;
  v1::JoinToken create_join_token(const v1::CreateJoinTokenRequest&) override;
  v1::ClusterView join_cluster(const v1::JoinClusterRequest&) override;
  v1::ClusterView nodes() override;
  v1::UnlockAuthorityReply unlock_authority(const v1::UnlockAuthorityRequest&) override;
  v1::ClusterView revoke_node(const v1::RevokeNodeRequest&) override;
  v1::ClusterView drain_node(const v1::DrainNodeRequest&) override;
  v1::LeaveClusterReply leave_cluster(const v1::LeaveClusterRequest&) override;
  v1::CheckoutList share_scope(const v1::ShareScopeRequest&) override;
  v1::CheckoutList unshare_scope(const v1::UnshareScopeRequest&) override;
  v1::CheckoutList checkouts() override;

  v1::PtyInfo create(v1::CreatePtyRequest) override;
  v1::PtyList list(const v1::ListPtysRequest&) override;
  stream_end read(const v1::ReadPtyRequest&, const std::function<bool(const v1::PtyChunk&)>& on) override;
  void pass_input(const std::string& client, const std::string& task_id) override { input_ = client.empty() ? "" : client + "/" + task_id; }
  v1::SendPtyReply send(v1::SendPtyRequest) override;
  v1::PtyInfo resize(const v1::ResizePtyRequest&) override;
  v1::PtyInfo kill(const v1::KillPtyRequest&) override;
  v1::PtyInfo forget(const v1::ForgetPtyRequest&) override;
  std::unique_ptr<pty_stream> attach() override;
  std::unique_ptr<pty_stream> attach_again() override;

  stream_end read_conversation(const v1::ReadConversationRequest&, const std::function<bool(const v1::ConversationChunk&)>& on) override;
  std::string read_blob(const v1::ReadBlobRequest&) override;
  v1::WriteBlobReply write_blob(const v1::WriteBlobRequest& head, std::string_view bytes) override;

  bool running() override;
  void start(const std::string& node_name) override;
  void start_in_foreground(const std::string& node_name) override;
  bool wait_for_exit(std::int64_t pid, std::int64_t timeout_ms) override;
  void speak_to(const target&) override;
  std::string state_directory() override;
  std::optional<v1::Explanation> explain_here() override;
  std::vector<std::string> obstacles() override;
  std::string restore(const std::string& file) override;
  bool keep_down() override;
  std::vector<v1::PtyInfo> kept_programs() override;
  std::vector<v1::PtyInfo> end_kept_programs() override;
  bool is_kept_down() override;
  void expect_return() override;
  void never_start() override { settings_.may_start = false; }
  void take_keeper() override { take_keeper_ = true; }
  void set_timeout_ms(std::int64_t ms) override { settings_.timeout_ms = ms; }
  std::unique_ptr<node_line> connect(const std::string& token, bool may_start) override;

private:
  using time_point = std::chrono::steady_clock::time_point;

  /// Connects, starting a node if there is none and that is allowed. Throws `call_failed`; null if a node that was there is away.
  std::shared_ptr<grpc::Channel> channel(time_point until);
  std::shared_ptr<grpc::Channel> try_connect(time_point until);
  /// To the node of this user, whose pid is node_pid_ then; empty when nobody listens.
  unique_fd connect_here();
  /// The same, empty also for a node that is ending. Throws `call_failed` when the one that listens says nothing by then.
  unique_fd connect_to_speaker(time_point until);
  /// The same over ssh, which starts a node there if that is allowed; else it waits for one, if it may.
  unique_fd connect_over_ssh(time_point until, bool wait);
  std::shared_ptr<grpc::Channel> channel_over(unique_fd connected) const;
  std::unique_ptr<pty_stream> stream_over(const std::shared_ptr<grpc::Channel>&) const;
  call_failed no_node() const;
  call_failed stopped(const stopped_mark&) const;
  /// Starts a node and connects to it, or to the one that turned out to run; throws `call_failed` when neither works by then.
  void start_and_connect(const std::string& node_name, start_reason, time_point until);
  void prepare(grpc::ClientContext&, time_point until) const;
  v1::RequestId next_id();

  /// Repeats `ask`, which makes one call over the connection it gets, until that has succeeded.
  template <class Ask>
  void until_answered(Ask ask, std::int64_t extra_ms = 0, bool repeat = true, bool waits_out_pause = false);
  template <class Service, class Request, class Answer>
  Answer call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Answer*), const Request&, std::int64_t extra_ms = 0,
              bool repeat = true, bool waits_out_pause = false);
  template <class Request, class Answer, class Open>
  stream_end stream(const Request&, Open open, const std::function<bool(const Answer&)>& on, time_point until, grpc::Status* end = nullptr);

  /// The same for what is kept and goes on: a read that brings nothing is tried again, less and less often.
  template <class Chunk, class Request, class Open>
  stream_end read_kept(const Request&, Open open, const std::function<bool(const Chunk&)>& on);

  /// The context that cancel() ends, while this lives. A handler of stream news may make calls: those come first then, and
  /// a cancellation that has ended one of them ends the stream as well.
  class in_progress {
  public:
    in_progress(client&, grpc::ClientContext&);
    ~in_progress();
    in_progress(const in_progress&) = delete;
    in_progress& operator=(const in_progress&) = delete;
    /// False when cancel() has been called already.
    explicit operator bool() const noexcept { return wanted_; }

  private:
    client& client_;
    grpc::ClientContext* outer_;
    bool wanted_;
  };
  /// False when cancelled meanwhile.
  bool pause(std::chrono::milliseconds);
  /// Until a node that was there and is not ours to start answers again; false when cancelled.
  bool await_node(time_point until);
  /// Forgets it when nothing is in progress any more: a later call, such as giving up a place in line, works again.
  bool take_cancelled();

  client_settings settings_;
  bool take_keeper_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  std::int64_t node_pid_ = 0; // of the process at the other end of the connection
  unique_fd leaving_;         // pidfd of the node that was asked to stop, or of the ssh that leads to it
  std::unique_ptr<ssh_line> line_;
  bool was_connected_ = false;
  std::chrono::milliseconds read_pause_{0}; // before the next try of a read that brought nothing
  std::string input_;                       // for the metadata of a read; empty = none
  std::string client_name_;
  std::uint64_t seq_ = 0;

  std::mutex mutex_;
  unique_fd wake_; // readable while cancelled_
  grpc::ClientContext* current_ = nullptr;
  bool cancelled_ = false;
};

} // namespace swarm::cli
