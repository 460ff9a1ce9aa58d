#include "services/federation/links.hpp"

#include <atomic>
#include <charconv>
#include <cstdio>
#include <deque>

#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/tsan.hpp"
#include "actors/fabric/cluster/link.hpp"
#include "services/federation/failure_text.hpp"
#include "services/federation/listen_address.hpp"
#include "services/security/certificate.hpp"

namespace swarm {

namespace {

// The words of this file, each with one meaning:
//   close   the stream finishes after it has written the queued frames (link_connection::close)
//   abort   the stream finishes at once and is cancelled (link_connection::abort)
//   finish  this side starts no further write (gRPC: StartWritesDone, Finish)
//   cancel  the call ends at once and unsent frames are lost (gRPC: TryCancel, OnCancel)
//   done    gRPC has released the stream (OnDone); the last report about it follows

/// gRPC pings an idle connection too, so that this node notices a connection that is gone.
constexpr int keepalive_ms = static_cast<int>(limits::link_keepalive.count());
constexpr int keepalive_timeout_ms = static_cast<int>(limits::link_keepalive_timeout.count());
/// gRPC ends a connection whose client pings more often than this. Clients ping once per keepalive, but the network may deliver one ping late
/// and the next one in time, so the server accepts pings at half the keepalive.
constexpr int ping_pause_min_ms = static_cast<int>(limits::link_ping_pause_min.count());
static_assert(limits::link_ping_pause_min * 2 <= limits::link_keepalive);
/// How much of a stream gRPC receives before this node reads it: one frame of the largest size.
constexpr int stream_ahead_bytes = static_cast<int>(limits::grpc_message_bytes_max);
constexpr int connect_timeout_ms = static_cast<int>(limits::link_connect_timeout.count());
constexpr const char* copy_is_linked = "another node with the id of this one is linked: the state directory of one is a copy of the other's";
/// Values of gRPC's switches.
constexpr int off = 0, on = 1;
/// gRPC's value for "no bound": keepalive pings need not wait for data.
constexpr int pings_without_data_unlimited = 0;

/// One stream, of either side. `Base` is gRPC's reactor.
template <class Base>
class stream : public Base, public link_connection, public std::enable_shared_from_this<stream<Base>> {
public:
  stream(std::shared_ptr<link_board> board, std::string node_id, link_lane lane, bool dialled)
    : board_(std::move(board)), node_id_(std::move(node_id)), lane_(lane), dialled_(dialled) {}

  const std::string& node_id() const noexcept override { return node_id_; }
  bool dialled() const noexcept override { return dialled_; }
  link_lane lane() const noexcept override { return lane_; }

  void write(v1::LinkFrame f) override {
    std::lock_guard guard{mutex_};
    if (finished_ || closing_ || queue_.size() >= limits::link_frames_queued_max)
      return;
    queue_.push_back(std::move(f));
    if (queue_.size() == 1)
      this->StartWrite(&queue_.front());
  }
  void read() override {
    std::lock_guard guard{mutex_};
    if (reporting_frame_)
      read_asked_ = true;
    else if (!finished_ && !closing_)
      start_read();
  }
  void close() override {
    std::lock_guard guard{mutex_};
    if (std::exchange(closing_, true) || finished_)
      return;
    if (queue_.empty())
      finish();
  }

  void abort() override {
    std::lock_guard guard{mutex_};
    closing_ = true;
    if (!std::exchange(finished_, true))
      finish_call(false);
    else if (!done_)
      cancel();
  }

  void OnReadDone(bool ok) override {
    auto deliver = false;
    v1::LinkFrame frame;
    {
      std::lock_guard guard{mutex_};
      reading_ = false;
      deliver = ok && !closing_ && !finished_;
      read_failed_ = !ok && !closing_ && !finished_;
      if (!ok)
        finish();
      else if (!deliver && reads_to_end())
        start_read(); // to the end, and drops the frames
      reporting_frame_ = deliver;
      if (deliver)
        frame = std::exchange(incoming_, {});
    }
    if (deliver) {
      before_frame(frame);
      report(link_news::frame, std::move(frame));
      // The next read starts after the report, so that the answer to this frame goes out before gRPC's window update for that read.
      read_if_asked();
    }
    comes_before(this);
  }
  void OnWriteDone(bool ok) override {
    auto all_written = false;
    {
      std::lock_guard guard{mutex_};
      queue_.pop_front();
      if (!ok)
        queue_.clear();
      if (!ok || (queue_.empty() && closing_))
        finish();
      else if (finished_)
        queue_.clear();
      else if (!queue_.empty())
        this->StartWrite(&queue_.front());
      else
        all_written = true;
    }
    if (all_written)
      report(link_news::written);
    comes_before(this);
  }

protected:
  /// The stream owns itself until it is done, because gRPC holds a bare pointer to it.
  void own_itself() { self_ = this->shared_from_this(); }
  void report(link_news::kind_t kind, v1::LinkFrame f = {}, std::string text = {}) {
    board_->report({kind, this->shared_from_this(), node_id_, lane_, std::move(f), std::move(text)});
  }
  /// Starts the read that the listener asked for while a frame was reported.
  void read_if_asked() {
    std::lock_guard guard{mutex_};
    reporting_frame_ = false;
    if (std::exchange(read_asked_, false) && !finished_ && !closing_)
      start_read();
  }
  /// Under the mutex.
  void finish() {
    if (std::exchange(finished_, true))
      return;
    if (reads_to_end() && !reading_ && closing_)
      start_read();
    finish_call(queue_.empty());
  }
  void start_read() {
    reading_ = true;
    this->StartRead(&incoming_);
  }
  /// Called before a frame is reported.
  virtual void before_frame(const v1::LinkFrame&) {}
  /// True when gRPC reports the end of the stream only after every frame was read.
  virtual bool reads_to_end() const { return false; }
  /// Tells gRPC to finish. `all_written`: no write is in flight; otherwise the call is cancelled too. Under the mutex.
  virtual void finish_call(bool all_written) = 0;
  /// Under the mutex.
  virtual void cancel() = 0;
  /// From OnDone: makes the last report about the stream. gRPC does not use the stream afterwards.
  void report_done(link_news::kind_t kind, std::string text) {
    comes_after(this);
    {
      std::lock_guard guard{mutex_};
      done_ = true;
    }
    if (kind == link_news::not_reached)
      board_->report({kind, nullptr, node_id_, lane_, {}, std::move(text)});
    else
      report(kind, {}, std::move(text));
    self_.reset();
  }
  const std::shared_ptr<link_board>& board() const { return board_; }
  bool finished() const { return finished_; } // under the mutex
  v1::LinkFrame incoming_;
  std::mutex mutex_;
  bool read_failed_ = false; // before this side closed or finished the stream

private:
  std::shared_ptr<link_board> board_;
  const std::string node_id_;
  const link_lane lane_;
  const bool dialled_;
  std::deque<v1::LinkFrame> queue_; // the front is being written
  bool closing_ = false;            // close() or abort() was called
  bool finished_ = false;
  bool done_ = false;
  bool reading_ = false;         // a read is in flight
  bool reporting_frame_ = false; // the listener is handling a frame
  bool read_asked_ = false;      // read() was called meanwhile
  std::shared_ptr<stream> self_;
};

/// A stream that another node opened.
class accepted_stream final : public stream<grpc::ServerBidiReactor<v1::LinkFrame, v1::LinkFrame>> {
public:
  accepted_stream(std::shared_ptr<link_board> board, std::string node_id, link_lane lane, grpc::CallbackServerContext& context,
                  const clock_port& clock)
    : stream(std::move(board), std::move(node_id), lane, false), context_(context), clock_(clock) {}
  void start() {
    own_itself();
    this->StartSendInitialMetadata();
    report(link_news::connected);
    read();
    comes_before(this);
  }
  void OnCancel() override {
    std::lock_guard guard{mutex_};
    cancelled_there_ |= !cancelled_here_;
    finish();
    comes_before(this);
  }
  void write(v1::LinkFrame f) override {
    if (f.has_hello()) {
      run_->is_welcome = true;
      tell_run();
    }
    stream::write(std::move(f));
  }
  void OnDone() override {
    board()->unlinked(node_id(), run_);
    auto unexplained = read_failed_ && !cancelled_there_;
    report_done(link_news::disconnected, unexplained ? "a frame could not be read, or the other node ended the stream without closing it" : "");
  }

private:
  void before_frame(const v1::LinkFrame& f) override {
    run_->heard_ms = clock_.boot_ms();
    if (f.has_hello()) {
      run_->run = f.hello().incarnation();
      tell_run();
    }
  }
  /// The member is linked once both sides have said hello, whichever does so first: one that is turned away is not welcomed.
  void tell_run() {
    if (lane() == link_lane::control && run_->is_welcome && run_->run != 0)
      board()->linked(node_id(), run_);
  }
  void finish_call(bool all_written) override {
    if (!all_written)
      cancel();
    this->Finish(grpc::Status::OK);
  }
  void cancel() override {
    cancelled_here_ = true;
    context_.TryCancel();
  }
  grpc::CallbackServerContext& context_; // gRPC owns it, until OnDone
  const clock_port& clock_;
  const std::shared_ptr<linked_run> run_ = std::make_shared<linked_run>();
  bool cancelled_here_ = false;
  bool cancelled_there_ = false; // the other node cancelled the call, or the connection broke
};

/// A stream that this node opened.
class dialled_stream final : public stream<grpc::ClientBidiReactor<v1::LinkFrame, v1::LinkFrame>> {
public:
  dialled_stream(std::shared_ptr<link_board> board, std::string node_id, link_lane lane, std::shared_ptr<grpc::Channel> channel)
    : stream(std::move(board), std::move(node_id), lane, true), channel_(std::move(channel)), stub_(v1::Federation::NewStub(channel_)) {}
  void start() {
    own_itself();
    if (!board()->add_dialled(this, node_id(), lane(), [this] { abort(); }) || !make_call())
      return OnDone({grpc::StatusCode::CANCELLED, "this node is stopping, or cancelled the dial"});
    this->StartCall();
    comes_before(this);
  }
  void OnReadInitialMetadataDone(bool ok) override {
    if (ok)
      report_connected();
    comes_before(this);
  }
  void OnDone(const grpc::Status& s) override {
    auto resources =
      std::make_shared<std::pair<std::unique_ptr<v1::Federation::Stub>, std::shared_ptr<grpc::Channel>>>(std::move(stub_), std::move(channel_));
    board()->remove_dialled(this, std::move(resources));
    report_done(connected_ ? link_news::disconnected : link_news::not_reached, failure_text(s.error_message()));
  }

private:
  /// False when the stream was aborted before there was a call.
  bool make_call() {
    std::lock_guard guard{mutex_};
    if (finished())
      return false;
    if (lane() == link_lane::bulk)
      stub_->async()->Bulk(&context_, this);
    else
      stub_->async()->Link(&context_, this);
    has_call_ = true;
    this->AddHold(); // gRPC requires a hold where reads and writes start outside of its callbacks
    start_read();
    return true;
  }
  bool reads_to_end() const override { return true; }
  void before_frame(const v1::LinkFrame&) override { report_connected(); }
  /// Reports `connected` once, before any frame: gRPC calls OnReadInitialMetadataDone before OnReadDone, but on two threads, and the second may
  /// be faster.
  void report_connected() {
    std::call_once(connected_once_, [this] {
      connected_ = true;
      report(link_news::connected);
    });
  }
  void finish_call(bool all_written) override {
    if (!has_call_)
      return;
    if (all_written)
      this->StartWritesDone();
    else
      cancel();
    this->RemoveHold();
  }
  void cancel() override { context_.TryCancel(); }
  bool has_call_ = false; // under the mutex
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Federation::Stub> stub_;
  grpc::ClientContext context_;
  std::once_flag connected_once_;
  bool connected_ = false;
};

/// A stream that ends with an error before it has begun.
class refused_stream final : public grpc::ServerBidiReactor<v1::LinkFrame, v1::LinkFrame> {
public:
  explicit refused_stream(grpc::Status s) { this->Finish(std::move(s)); }
  void OnDone() override { delete this; }
};

grpc::Status unauthenticated(const std::string& text) { return {grpc::StatusCode::UNAUTHENTICATED, text}; }

/// Reports that a caller was refused. Its node is unknown, because its certificate is not valid.
void report_refused_caller(link_board& board, std::string why) {
  board.report({link_news::not_reached, nullptr, {}, link_lane::control, {}, std::move(why)});
}

/// Receives gRPC's log. gRPC itself refuses a caller that has no certificate or does not speak TLS, and only its log mentions that.
struct grpc_log {
  std::mutex mutex;
  std::weak_ptr<link_board> board;

  /// Never destroyed, because gRPC's threads may log until the process ends.
  static grpc_log& instance() {
    static auto* log = new grpc_log;
    return *log;
  }
  static void on_line(gpr_log_func_args* line) {
    std::string_view text = line->message;
    // This line is about a server that this node has dialled. The dialled stream reports the failure, with the id of that node.
    auto of_server = text.find("certificate verify failed") != std::string_view::npos;
    if (text.find("Handshake failed") == std::string_view::npos || of_server) {
      std::fprintf(stderr, "%s\n", line->message);
      return;
    }
    std::shared_ptr<link_board> board;
    {
      std::lock_guard guard{instance().mutex};
      board = instance().board.lock();
    }
    text = text.substr(text.rfind(':') + 1);
    if (board)
      report_refused_caller(*board, concat({"the TLS handshake failed: ", trimmed(text.substr(0, text.find_last_not_of('.') + 1))}));
  }
};

/// gRPC 1.51 frees the queue of its callbacks twice if the last channel that uses it goes while a server or another channel begins to, as when a node
/// that starts is turned away at once. This channel leads nowhere, and uses the queue until the node ends.
std::shared_ptr<grpc::Channel> hold_callback_queue() {
  struct call {
    grpc::ClientContext context;
    v1::LeaveRequest request;
    v1::LeaveReply reply;
  };
  auto channel = grpc::CreateChannel("unix:/dev/null/nobody", grpc::InsecureChannelCredentials());
  auto c = std::make_shared<call>();
  v1::Federation::NewStub(channel)->async()->Leave(&c->context, &c->request, &c->reply, [c](const grpc::Status&) {});
  return channel;
}

} // namespace

void link_board::listen(link_listener l) {
  std::lock_guard guard{mutex_};
  listener_ = std::move(l);
}

bool link_board::add_dialled(const void* stream, std::string node_id, link_lane lane, std::function<void()> abort) {
  std::lock_guard guard{mutex_};
  if (stopping_)
    return false;
  dialled_[stream] = {std::move(node_id), lane, std::move(abort)};
  return true;
}

void link_board::abort_dialled(const std::string& node_id, link_lane lane) {
  std::lock_guard guard{mutex_}; // remove_dialled() waits for the mutex, so every stream in the map still exists
  for (const auto& [stream, s] : dialled_)
    if (s.node_id == node_id && s.lane == lane)
      s.abort();
}

void link_board::remove_dialled(const void* stream, std::shared_ptr<void> resources) {
  {
    std::lock_guard guard{mutex_};
    dialled_.erase(stream);
    released_.push_back(std::move(resources));
  }
  changed_.notify_all();
}

void link_board::linked(const std::string& node_id, std::shared_ptr<linked_run> run) {
  std::lock_guard guard{mutex_};
  runs_[node_id] = std::move(run);
}

void link_board::unlinked(const std::string& node_id, const std::shared_ptr<linked_run>& run) {
  std::lock_guard guard{mutex_};
  if (auto i = runs_.find(node_id); i != runs_.end() && i->second == run)
    runs_.erase(i);
}

bool link_board::is_another_linked(const std::string& node_id, std::uint64_t run, std::int64_t now_ms) {
  std::lock_guard guard{mutex_};
  auto i = runs_.find(node_id);
  return i != runs_.end() && i->second->run != run && now_ms - i->second->heard_ms < twin_patience().count();
}

void link_board::destroy_released() {
  for (std::unique_lock lock{mutex_};;) {
    changed_.wait(lock, [this] { return silent_ || !released_.empty(); });
    auto resources = std::exchange(released_, {});
    lock.unlock();
    resources.clear();
    lock.lock();
    if (silent_ && released_.empty())
      return;
  }
}

void link_board::abort_all(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  for (const auto& [stream, s] : dialled_)
    s.abort();
  changed_.wait_until(lock, deadline, [this] { return dialled_.empty(); });
}

void link_board::stop_reports() {
  std::unique_lock lock{mutex_};
  listener_ = nullptr;
  silent_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return reporting_ == 0; });
}

void link_board::report(link_news news) {
  link_listener listener;
  {
    std::lock_guard guard{mutex_};
    if (!listener_)
      return;
    listener = listener_;
    ++reporting_;
  }
  listener(std::make_shared<const link_news>(std::move(news)));
  {
    std::lock_guard guard{mutex_};
    --reporting_;
    if (!silent_)
      return;
  }
  changed_.notify_all();
}

void set_link_arguments(grpc::ChannelArguments& a) {
  a.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  a.SetMaxSendMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  a.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  a.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  a.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, pings_without_data_unlimited);
  a.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, off);
  a.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, stream_ahead_bytes);
  a.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, connect_timeout_ms);
  // Each channel has a connection of its own, even to the same address, so that one can end without the other.
  a.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, on);
}

/// Serves the nodes that have a valid certificate of this cluster.
class links::service final : public v1::Federation::CallbackService {
public:
  service(links& owner) : owner_(owner) {}

  using link_reactor = grpc::ServerBidiReactor<v1::LinkFrame, v1::LinkFrame>;

  link_reactor* Link(grpc::CallbackServerContext* ctx) override { return accept(*ctx, link_lane::control); }
  link_reactor* Bulk(grpc::CallbackServerContext* ctx) override { return accept(*ctx, link_lane::bulk); }

  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* ctx, const v1::RenewRequest* req, v1::RenewReply* rep) override {
    return answer(ctx, [=, this](const std::string& node, node_requests::done done) { owner_.requests_->renew(node, *req, *rep, std::move(done)); });
  }
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* ctx, const v1::LeaveRequest*, v1::LeaveReply*) override {
    return answer(ctx, [this, run = run_of(*ctx)](const std::string& node, node_requests::done done) {
      if (owner_.is_copy(node, run))
        return done({grpc::StatusCode::ALREADY_EXISTS, concat({copy_is_linked, ", and that node stays in the cluster"})});
      owner_.requests_->leave(node, std::move(done));
    });
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* ctx, const v1::DrainNodeRequest* req, v1::ClusterView* rep) override {
    return answer(ctx, [=, this, run = run_of(*ctx)](const std::string& node, node_requests::done done) {
      if (owner_.is_copy(node, run))
        return done({grpc::StatusCode::FAILED_PRECONDITION, copy_is_linked});
      owner_.requests_->drain(node, *req, *rep, std::move(done));
    });
  }

private:
  /// Which run of its node calls; none of a version that does not say so.
  static std::optional<std::uint64_t> run_of(const grpc::CallbackServerContext& ctx) {
    const auto& all = ctx.client_metadata();
    const auto i = all.find(run_metadata);
    if (i == all.end())
      return std::nullopt;
    std::uint64_t run = 0;
    std::from_chars(i->second.data(), i->second.data() + i->second.size(), run);
    return run;
  }
  /// The id of the calling node, or why its certificate is not valid.
  security_result<std::string> caller(const grpc::CallbackServerContext& ctx) const {
    auto certificates = ctx.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (certificates.empty())
      return security_failure{security_error::malformed, "the caller has not sent the certificate of a node"};
    auto der = certificate_from_pem({certificates[0].data(), certificates[0].size()});
    if (!der)
      return der.failure();
    return owner_.authority_.verify(*der, owner_.clock_.unix_ms());
  }
  link_reactor* accept(grpc::CallbackServerContext& ctx, link_lane lane) {
    auto node = caller(ctx);
    if (!node) {
      owner_.report_refused(node.failure().text);
      return new refused_stream{unauthenticated(node.failure().text)};
    }
    auto accepted = std::make_shared<accepted_stream>(owner_.board_, *node, lane, ctx, owner_.clock_);
    accepted->start();
    return accepted.get();
  }
  template <class Ask>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* ctx, Ask ask) {
    auto* reactor = ctx->DefaultReactor();
    auto node = caller(*ctx);
    if (!node)
      owner_.report_refused(node.failure().text);
    if (!node || !owner_.requests_)
      reactor->Finish(node ? grpc::Status{grpc::StatusCode::UNAVAILABLE, "the node is starting; try again"} : unauthenticated(node.failure().text));
    else
      ask(*node, [reactor](grpc::Status s) { reactor->Finish(std::move(s)); });
    return reactor;
  }
  links& owner_;
};

/// How the verifier finds its owner. The end of the listener clears `owner`, because gRPC may keep the verifier longer than the server.
struct links::verifier_owner {
  std::mutex mutex;
  links* owner = nullptr;
};

/// Verifies the certificate of a caller in gRPC's place, because gRPC reports neither that it refused one nor why. gRPC asks after the handshake,
/// which has proven that the caller holds the certificate's key.
class links::member_verifier final : public grpc::experimental::ExternalCertificateVerifier {
public:
  explicit member_verifier(std::shared_ptr<verifier_owner> o) : owner_(std::move(o)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>, grpc::Status* status) override {
    auto pem = request->peer_cert();
    auto der = certificate_from_pem({pem.data(), pem.size()});
    std::lock_guard guard{owner_->mutex};
    auto* owner = owner_->owner;
    if (!owner) {
      *status = unauthenticated("this node is stopping");
      return true;
    }
    auto node = der ? owner->authority_.verify(*der, owner->clock_.unix_ms()) : security_result<std::string>{der.failure()};
    if (!node) {
      owner->report_refused(node.failure().text);
      *status = unauthenticated(node.failure().text);
    }
    return true; // the answer is in `status`
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

private:
  std::shared_ptr<verifier_owner> owner_;
};

/// The server at one address, with what it needs as long as it runs.
struct links::listening {
  std::string address;
  std::shared_ptr<verifier_owner> verifying = std::make_shared<verifier_owner>();
  std::unique_ptr<service> answering;
  std::unique_ptr<grpc::Server> server;

  listening() = default;
  listening(const listening&) = delete;
  listening& operator=(const listening&) = delete;
  ~listening() {
    {
      std::lock_guard no_verification{verifying->mutex};
      verifying->owner = nullptr;
    }
    if (!server)
      return;
    server->Shutdown(std::chrono::system_clock::now());
    server->Wait();
  }
};

links::links(authority_store& authority, const clock_port& clock) : authority_(authority), clock_(clock), queue_holder_(hold_callback_queue()) {
  auto& log = grpc_log::instance();
  std::lock_guard guard{log.mutex};
  log.board = board_;
  gpr_set_log_function(grpc_log::on_line);
}

links::~links() { stop(); }

void links::listen(link_listener l) { board_->listen(std::move(l)); }

void links::answer_with(node_requests* requests) {
  std::lock_guard guard{mutex_};
  requests_ = requests;
}

std::shared_ptr<grpc::Channel> channel_with(const node_credentials& mine, const v1::NodeAddress& to) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = mine.authority_pem;
  tls.pem_private_key = std::string{mine.key_pem.view()};
  tls.pem_cert_chain = mine.chain_pem;
  grpc::ChannelArguments arguments;
  set_link_arguments(arguments);
  arguments.SetSslTargetNameOverride(node_dns_name(to.node_id()));
  return grpc::CreateCustomChannel(to.address(), grpc::SslCredentials(tls), arguments);
}

security_result<std::shared_ptr<grpc::Channel>> links::channel_to(const v1::NodeAddress& to) const {
  auto mine = authority_.credentials();
  if (!mine)
    return mine.failure();
  return channel_with(*mine, to);
}

bool links::is_copy(const std::string& node_id, const std::optional<std::uint64_t>& run) {
  return run && board_->is_another_linked(node_id, *run, clock_.boot_ms());
}

void links::report_refused(std::string why) { report_refused_caller(*board_, std::move(why)); }

void links::cancel_dial(const std::string& node_id, link_lane lane) { board_->abort_dialled(node_id, lane); }

void links::dial(const v1::NodeAddress& to, link_lane lane) {
  if (stopped_)
    return board_->report({link_news::not_reached, nullptr, to.node_id(), lane, {}, "this node is stopping"});
  auto channel = channel_to(to);
  if (!channel)
    return board_->report({link_news::not_reached, nullptr, to.node_id(), lane, {}, channel.failure().text});
  std::make_shared<dialled_stream>(board_, to.node_id(), lane, std::move(*channel))->start();
}

namespace {

security_failure cannot_listen(const std::string& address, const std::string& why) {
  return {security_error::wrong_state, concat({"cannot listen at ", address, ": ", why})};
}

} // namespace

security_result<std::unique_ptr<links::listening>> links::listen_at(const std::string& address) {
  auto mine = authority_.credentials();
  if (!mine)
    return mine.failure();
  // gRPC does not say why, and writes to standard error.
  if (auto why = listen_obstacle(address))
    return cannot_listen(address, *why);
  using namespace grpc::experimental;
  TlsServerCredentialsOptions tls{std::make_shared<StaticDataCertificateProvider>(
    mine->authority_pem, std::vector<IdentityKeyCertPair>{{std::string{mine->key_pem.view()}, mine->chain_pem}})};
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  auto out = std::make_unique<listening>();
  out->address = address;
  out->verifying->owner = this;
  tls.set_certificate_verifier(ExternalCertificateVerifier::Create<member_verifier>(out->verifying));
  out->answering = std::make_unique<service>(*this);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, TlsServerCredentials(tls), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, off);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, ping_pause_min_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::link_streams_max);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, off);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, stream_ahead_bytes);
  builder.RegisterService(out->answering.get());
  out->server = builder.BuildAndStart();
  if (!out->server || port == 0)
    return cannot_listen(address, listen_obstacle(address).value_or("the port is taken"));
  return out;
}

std::optional<std::string> links::serve(const std::string& address) {
  std::lock_guard alone{serve_mutex_};
  if (address.empty()) {
    listening_ = nullptr;
    return std::nullopt;
  }
  // Two addresses of one port may be one: the new listener then waits for the end of the old one.
  const auto before = listening_ && has_port_of(listening_->address, address) ? listening_->address : "";
  if (!before.empty() && before != address)
    if (auto why = listen_obstacle(address, port_is::ours))
      return cannot_listen(address, *why).text; // the members keep their links
  if (!before.empty())
    listening_ = nullptr;
  auto opened = listen_at(address);
  if (opened) {
    listening_ = std::move(*opened);
    return std::nullopt;
  }
  if (!before.empty() && before != address)
    if (auto again = listen_at(before))
      listening_ = std::move(*again);
  return opened.failure().text;
}

bool links::listens() {
  std::lock_guard alone{serve_mutex_};
  return listening_ != nullptr;
}

void links::stop() {
  stopped_ = true;
  {
    std::lock_guard alone{serve_mutex_};
    listening_ = nullptr;
  }
  board_->abort_all(std::chrono::steady_clock::now() + limits::link_stop_patience);
  board_->stop_reports();
  if (destroyer_.joinable())
    destroyer_.join();
  // Its threads have used the actor system, which waits for their end.
  queue_holder_ = nullptr;
}

} // namespace swarm
