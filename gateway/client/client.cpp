#include "gateway/client/client_calls.hpp"

#include "actors/base/crypto.hpp"
#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/process.hpp"
#include "gateway/client/failure.hpp"
#include "gateway/client/node_start.hpp"
#include "swarm/v1/cluster.grpc.pb.h"
#include "swarm/v1/coordination.grpc.pb.h"
#include "swarm/v1/node.grpc.pb.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

/// Also when the other end has hung up, or the process of a pidfd has ended. False when the time is over.
bool await_readable(int fd, steady_clock::time_point until) {
  pollfd p{fd, POLLIN, 0};
  int n = 0;
  do {
    auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    n = poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max())));
  } while ((n < 0 && errno == EINTR) || (n == 0 && steady_clock::now() < until));
  return n > 0;
}

} // namespace

client::client(client_settings settings) : settings_(std::move(settings)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

client::~client() = default;

std::shared_ptr<grpc::Channel> client::try_connect(time_point until) {
  if (settings_.elsewhere)
    return channel_over(connect_over_ssh(until, false));
  return channel_over(connect_here());
}

unique_fd client::connect_here() {
  auto connected = connect_at(settings_.dir.socket());
  ucred peer{};
  socklen_t size = sizeof peer;
  if (connected)
    node_pid_ = getsockopt(connected.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
  return connected;
}

/// A node speaks first. One that was killed takes connections until its last thread has ended, and says nothing.
unique_fd client::connect_to_speaker(time_point until) {
  auto connected = connect_here();
  if (!connected)
    return {};
  auto process = open_pidfd(static_cast<pid_t>(node_pid_));
  if (!await_readable(connected.get(), until))
    throw as_failure({grpc::StatusCode::DEADLINE_EXCEEDED, ""});
  char first = 0;
  if (recv(connected.get(), &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) > 0)
    return connected;
  if (auto again = connect_here())
    return again; // it turns callers away
  // With its process the lock goes.
  if (process)
    await_readable(process->get(), until);
  return {};
}

unique_fd client::connect_over_ssh(time_point until, bool wait) {
  dial_options options;
  options.may_start = settings_.may_start;
  auto left = std::max(std::chrono::ceil<milliseconds>(until - steady_clock::now()), milliseconds{0});
  if (wait) {
    // Until then it waits there; to say that none came takes a moment more.
    options.wait = left;
    left += milliseconds{settings_.timeout_ms};
  }
  line_ = open_ssh_line(*settings_.elsewhere, options, left, wake_.get());
  return line_ ? line_->take_socket() : unique_fd{};
}

std::shared_ptr<grpc::Channel> client::channel_over(unique_fd connected) const {
  if (!connected)
    return nullptr;
  auto fd = connected.release();
  fcntl(fd, F_SETFL, O_NONBLOCK);
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  return grpc::CreateCustomInsecureChannelFromFd("swarmd", fd, args);
}

void client::start_and_connect(const std::string& node_name, start_reason why, time_point until) {
  auto left = [&] { return std::max(std::chrono::ceil<milliseconds>(until - steady_clock::now()), milliseconds{0}); };
  auto outcome = start_outcome::started;
  std::optional<owner_news> news;
  do {
    // Who owns the directory without answering either comes up, then connecting succeeds, or is on its way out, then starting does.
    outcome = start_node(settings_.dir, node_name, {why, take_keeper_}, std::max<std::int64_t>(left().count(), 1));
    // One that is still on its way out may answer.
    if (outcome == start_outcome::stopped && !(channel_ = try_connect(until)))
      throw stopped(read_stopped_mark(settings_.dir).value_or(stopped_mark{}));
    if (!news)
      news.emplace(settings_.dir.lock_file(), settings_.dir.socket());
    if ((channel_ = try_connect(until)))
      return;
    news->wait(left(), wake_.get());
    if (take_cancelled())
      throw interrupted();
    if ((channel_ = try_connect(until)))
      return;
  } while (left().count() > 0);
  if (outcome == start_outcome::owned)
    throw call_failed(code::no_node, no_node_text(settings_.dir));
  throw call_failed(code::no_node, "a node was started but does not answer; look into " + settings_.dir.log_dir().string());
}

std::shared_ptr<grpc::Channel> client::channel(time_point until) {
  if (channel_)
    return channel_;
  channel_ = try_connect(until);
  if (!channel_ && settings_.elsewhere && take_cancelled())
    throw interrupted();
  if (!channel_ && !settings_.elsewhere && settings_.may_start && !settings_.in_worker)
    start_and_connect("", start_reason::needed, until);
  if (!channel_ && settings_.in_worker && !was_connected_)
    throw call_failed(code::no_node, "no node answers, and a worker does not start one; the person running this host can: swarmctl up");
  if (!channel_ && !was_connected_)
    throw no_node();
  was_connected_ = was_connected_ || channel_;
  return channel_;
}

void client::prepare(grpc::ClientContext& context, time_point until) const {
  context.set_deadline(std::chrono::system_clock::now() + (until - steady_clock::now()));
  if (!settings_.token.empty())
    context.AddMetadata("swarm-token", settings_.token);
}

v1::RequestId client::next_id() {
  if (client_name_.empty())
    client_name_ = to_hex(random_bytes(16));
  v1::RequestId id;
  id.set_client(client_name_);
  id.set_seq(++seq_);
  id.set_acked_below(seq_); // calls follow one another, so everything before has been answered
  return id;
}

client::in_progress::in_progress(client& c, grpc::ClientContext& context) : client_(c) {
  std::lock_guard guard{client_.mutex_};
  outer_ = std::exchange(client_.current_, &context);
  wanted_ = !client_.cancelled_;
}

client::in_progress::~in_progress() {
  std::lock_guard guard{client_.mutex_};
  client_.current_ = outer_;
  if (outer_ && client_.cancelled_)
    outer_->TryCancel();
}

void client::cancel() {
  std::lock_guard guard{mutex_};
  cancelled_ = true;
  if (current_)
    current_->TryCancel();
  std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

bool client::take_cancelled() {
  std::lock_guard guard{mutex_};
  if (current_)
    return cancelled_;
  std::uint64_t heard = 0;
  (void)!::read(wake_.get(), &heard, sizeof heard);
  return std::exchange(cancelled_, false);
}

bool client::pause(milliseconds d) {
  pollfd cancelled{wake_.get(), POLLIN, 0};
  return poll(&cancelled, 1, static_cast<int>(d.count())) <= 0;
}

bool client::await_node(time_point until) {
  if (settings_.elsewhere) {
    channel_ = channel_over(connect_over_ssh(until, !settings_.may_start));
    return pause(milliseconds{0});
  }
  owner_news news{{}, settings_.dir.socket()};
  if ((channel_ = try_connect(until)))
    return true;
  news.wait(std::chrono::ceil<milliseconds>(until - steady_clock::now()), wake_.get());
  return pause(milliseconds{0});
}

v1::Reply client::execute(const v1::Command& command, const environment_list& environment, std::int64_t extra_ms) {
  v1::ExecuteRequest request;
  *request.mutable_id() = next_id();
  *request.mutable_command() = command;
  for (const auto& [name, value] : environment) {
    auto* variable = request.add_environment();
    variable->set_name(name);
    variable->set_value(value);
    variable->set_asked_for(!inheritable(name));
  }
  auto until = steady_clock::now() + milliseconds{settings_.timeout_ms + extra_ms};
  for (auto wait = pause_first;; wait = std::min(wait * 2, pause_longest)) {
    auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
    auto reply = call<v1::Coordination>(&v1::Coordination::Stub::Execute, request, left - settings_.timeout_ms, true, extra_ms > 0);
    // "You still stand in line" is not final: the same request waits on.
    if (!reply.has_lock_waiting() || steady_clock::now() + wait >= until)
      return reply;
    if (!pause(wait)) {
      take_cancelled();
      throw interrupted();
    }
  }
}

v1::Answer client::ask(const v1::Query& query) { return call<v1::Coordination>(&v1::Coordination::Stub::Ask, query); }

v1::Activity client::wait_for_activity(v1::WaitRequest request) {
  *request.mutable_id() = next_id();
  return call<v1::Coordination>(&v1::Coordination::Stub::WaitForActivity, request, request.timeout_ms(), true, true);
}

v1::NodeStatus client::status() { return call<v1::Node>(&v1::Node::Stub::Status, v1::NodeStatusRequest{}); }

v1::ActorGraph client::graph(const v1::GraphRequest& request) { return call<v1::Node>(&v1::Node::Stub::Graph, request); }

v1::BackupReply client::backup(const v1::BackupRequest& request) {
  return call<v1::Node>(&v1::Node::Stub::Backup, request, limits::server_wait_max().count(), false);
}

v1::ShutdownReply client::shutdown(const v1::ShutdownRequest& request) {
  channel(steady_clock::now() + milliseconds{settings_.timeout_ms});
  if (line_) {
    // Its process is of another host; ssh ends when the node closes the connection.
    leaving_ = unique_fd{fcntl(line_->process().get(), F_DUPFD_CLOEXEC, 0)};
    auto reply = call<v1::Node>(&v1::Node::Stub::Shutdown, request, 0, false);
    node_pid_ = reply.pid();
    return reply;
  }
  // Taken before the node is told, so that its number cannot mean another process by then.
  if (auto process = open_pidfd(static_cast<pid_t>(node_pid_)))
    leaving_ = std::move(*process);
  auto reply = call<v1::Node>(&v1::Node::Stub::Shutdown, request, 0, false);
  if (reply.pid() != node_pid_) {
    node_pid_ = reply.pid();
    leaving_ = open_pidfd(static_cast<pid_t>(reply.pid())).value_or(unique_fd{});
  }
  // A node that stops waits a while for those who are connected.
  channel_.reset();
  return reply;
}

bool client::wait_for_exit(std::int64_t pid, std::int64_t timeout_ms) {
  if (pid != node_pid_ || !leaving_)
    return true; // it was gone before anybody could look
  return await_readable(leaving_.get(), steady_clock::now() + milliseconds{std::max<std::int64_t>(timeout_ms, 0)});
}

v1::CheckReply client::check(const v1::CheckRequest& request) {
  return call<v1::Node>(&v1::Node::Stub::Check, request, limits::server_wait_max().count());
}

v1::LoginReply client::login(const v1::LoginRequest& request) { return call<v1::Node>(&v1::Node::Stub::Login, request, 0, false); }

v1::LogoutReply client::logout(const v1::LogoutRequest& request) { return call<v1::Node>(&v1::Node::Stub::Logout, request, 0, false); }

v1::SetPassphraseReply client::set_passphrase(const v1::SetPassphraseRequest& request) {
  return call<v1::Node>(&v1::Node::Stub::SetPassphrase, request, 0, false);
}

v1::Explanation client::explain() { return call<v1::Node>(&v1::Node::Stub::Explain, v1::ExplainRequest{}); }

v1::FoundReply client::found_cluster(const v1::FoundRequest& request) { return call<v1::Cluster>(&v1::Cluster::Stub::Found, request, 0, false); }

v1::JoinToken client::create_join_token(const v1::CreateJoinTokenRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::CreateJoinToken, request, 0, false);
}

v1::ClusterView client::join_cluster(const v1::JoinClusterRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::JoinCluster, request, 0, false);
}

v1::ClusterView client::nodes() { return call<v1::Cluster>(&v1::Cluster::Stub::ListNodes, v1::ListNodesRequest{}); }

v1::UnlockAuthorityReply client::unlock_authority(const v1::UnlockAuthorityRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::UnlockAuthority, request, 0, false);
}

v1::ClusterView client::revoke_node(const v1::RevokeNodeRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::RevokeNode, request, 0, false);
}

v1::ClusterView client::drain_node(const v1::DrainNodeRequest& request) { return call<v1::Cluster>(&v1::Cluster::Stub::DrainNode, request); }

v1::LeaveClusterReply client::leave_cluster(const v1::LeaveClusterRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::LeaveCluster, request, 0, false);
}

v1::CheckoutList client::share_scope(const v1::ShareScopeRequest& request) { return call<v1::Cluster>(&v1::Cluster::Stub::ShareScope, request); }

v1::CheckoutList client::unshare_scope(const v1::UnshareScopeRequest& request) {
  return call<v1::Cluster>(&v1::Cluster::Stub::UnshareScope, request, 0, false);
}

v1::CheckoutList client::checkouts() { return call<v1::Cluster>(&v1::Cluster::Stub::ListCheckouts, v1::ListCheckoutsRequest{}); }

void client::speak_to(const target& c) {
  // The token of this process is of the node it came from.
  settings_.token.clear();
  if (c.elsewhere())
    settings_.elsewhere = c;
  else
    settings_.dir.root = c.state_dir;
}

std::string client::state_directory() {
  return settings_.elsewhere ? settings_.elsewhere->ssh + ":" + settings_.elsewhere->remote_state_dir : settings_.dir.root.string();
}

namespace {

/// Programs of a node that does not run are its keeper's children, whatever variables they have.
std::optional<v1::Explanation> place_below_keeper(const state_dir& dir) {
  const auto keeper = keeper_of(dir);
  if (!keeper || !is_descendant(getpid(), *keeper).value_or(false))
    return std::nullopt;
  v1::Explanation out;
  out.set_rule(v1::Explanation::STRAY);
  out.set_reason("this process runs below the node's keeper (process " + std::to_string(*keeper) + "), as workers do");
  return out;
}

} // namespace

std::optional<v1::Explanation> client::explain_here() {
  if (auto connected = connect_at(settings_.dir.socket())) {
    auto stub = v1::Node::NewStub(channel_over(std::move(connected)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + milliseconds{settings_.timeout_ms});
    v1::Explanation out;
    if (stub->Explain(&context, v1::ExplainRequest{}, &out).ok())
      return out;
  }
  return place_below_keeper(settings_.dir);
}

std::vector<std::string> client::obstacles() { return settings_.elsewhere ? std::vector<std::string>{} : obstacles_to_start(settings_.dir); }

std::string client::restore(const std::string& file) { return restore_backup(settings_.dir, file); }

call_failed client::no_node() const {
  if (settings_.elsewhere)
    return {code::no_node,
            "no node is running at " + settings_.elsewhere->ssh + "; start one there: " + ssh_by_hand(*settings_.elsewhere) + " swarmctl up"};
  return {code::no_node, no_node_text(settings_.dir)};
}

call_failed client::stopped(const stopped_mark& mark) const {
  const bool ended_others = was_connected_ && !mark.programs_go_on;
  call_failed f{code::no_node, "the node of " + settings_.dir.root.string() + " was stopped with swarmctl down" +
                                 (ended_others ? ", which ended its programs," : ",") + " and stays so until: swarmctl up"};
  f.node_stopped = true;
  f.programs_go_on = mark.programs_go_on;
  return f;
}

void client::expect_return() {
  if (settings_.elsewhere)
    return;
  if (auto mark = read_stopped_mark(settings_.dir); mark && !mark->programs_go_on)
    throw stopped(*mark);
}

bool client::keep_down() {
  if (settings_.elsewhere)
    throw no_node();
  return mark_stopped(settings_.dir);
}

std::vector<v1::PtyInfo> client::kept_programs() { return settings_.elsewhere ? std::vector<v1::PtyInfo>{} : cli::kept_programs(settings_.dir); }

std::vector<v1::PtyInfo> client::end_kept_programs() {
  if (settings_.elsewhere)
    throw no_node();
  return cli::end_kept_programs(settings_.dir);
}

bool client::is_kept_down() { return !settings_.elsewhere && read_stopped_mark(settings_.dir).has_value(); }

std::unique_ptr<node_line> client::connect(const std::string& token, bool may_start) {
  auto settings = settings_;
  settings.may_start = settings.may_start && may_start;
  if (!token.empty())
    settings.token = token;
  return std::make_unique<client>(std::move(settings));
}

bool client::running() {
  const auto until = steady_clock::now() + milliseconds{settings_.timeout_ms};
  if (!channel_)
    channel_ = settings_.elsewhere ? try_connect(until) : channel_over(connect_to_speaker(until));
  if (!channel_ && settings_.elsewhere && take_cancelled())
    throw interrupted();
  was_connected_ = was_connected_ || channel_;
  return channel_ != nullptr;
}

void client::start(const std::string& node_name) {
  if (running())
    return;
  if (settings_.in_worker)
    throw call_failed(code::no_node, "a worker does not start a node; the person running this host can: swarmctl up");
  if (settings_.elsewhere)
    throw no_node();
  start_and_connect(node_name, start_reason::wanted, steady_clock::now() + milliseconds{settings_.timeout_ms});
  was_connected_ = true;
}

void client::start_in_foreground(const std::string& node_name) {
  if (settings_.in_worker)
    throw call_failed(code::no_node, "a worker does not start a node; the person running this host can: swarmctl up");
  become_node(settings_.dir, node_name);
}

} // namespace swarm::cli
