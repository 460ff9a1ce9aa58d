#include "services/federation/links.hpp"

#include <atomic>
#include <cstdio>
#include <deque>

#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/tsan.hpp"
#include "services/security/certificate.hpp"

namespace swarm {

namespace {

/// Also while nothing is said: a connection that is gone must not be waited for.
constexpr int keepalive_ms = static_cast<int>(limits::link_keepalive.count());
constexpr int keepalive_timeout_ms = static_cast<int>(limits::link_keepalive_timeout.count());
/// What may come of a stream before it is read: a frame as large as there may be.
constexpr int stream_ahead_bytes = static_cast<int>(limits::grpc_message_bytes_max);
constexpr int connect_timeout_ms = static_cast<int>(limits::link_connect_timeout.count());

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
    if (over_ || closing_ || queue_.size() >= limits::link_frames_queued_max)
      return;
    queue_.push_back(std::move(f));
    if (queue_.size() == 1)
      this->StartWrite(&queue_.front());
  }
  void read() override {
    std::lock_guard guard{mutex_};
    if (telling_)
      read_wanted_ = true;
    else if (!over_ && !closing_)
      start_read();
  }
  void close() override {
    std::lock_guard guard{mutex_};
    if (std::exchange(closing_, true) || over_)
      return;
    if (queue_.empty())
      end();
  }

  void abort() override {
    std::lock_guard guard{mutex_};
    closing_ = true;
    if (!std::exchange(over_, true))
      finish(false);
    else if (!done_)
      cancel();
  }

  void OnReadDone(bool ok) override {
    auto wanted = false;
    v1::LinkFrame came;
    {
      std::lock_guard guard{mutex_};
      reading_ = false;
      wanted = ok && !closing_ && !over_;
      cut_short_ = !ok && !closing_ && !over_;
      if (!ok)
        end();
      else if (!wanted && drains())
        start_read(); // its end is told only when everything was read
      telling_ = wanted;
      if (wanted)
        came = std::exchange(incoming_, {});
    }
    if (wanted) {
      before_frame();
      tell(link_news::frame, std::move(came));
      // Only now: gRPC sends a window update of its own for every read, which must not go before the answer.
      read_if_wanted();
    }
    comes_before(this);
  }
  void OnWriteDone(bool ok) override {
    auto goes_on = false;
    {
      std::lock_guard guard{mutex_};
      queue_.pop_front();
      if (!ok)
        queue_.clear();
      if (!ok || (queue_.empty() && closing_))
        end();
      else if (over_)
        queue_.clear();
      else if (!queue_.empty())
        this->StartWrite(&queue_.front());
      else
        goes_on = true;
    }
    if (goes_on)
      tell(link_news::written);
    comes_before(this);
  }

protected:
  void hold() { self_ = this->shared_from_this(); }
  void tell(link_news::kind_t kind, v1::LinkFrame f = {}, std::string text = {}) {
    board_->tell({kind, this->shared_from_this(), node_id_, lane_, std::move(f), std::move(text)});
  }
  /// What was told so far is dealt with, or takes its time.
  void read_if_wanted() {
    std::lock_guard guard{mutex_};
    telling_ = false;
    if (std::exchange(read_wanted_, false) && !over_ && !closing_)
      start_read();
  }
  /// Starts nothing more on the stream; under the mutex.
  void end() {
    if (std::exchange(over_, true))
      return;
    if (drains() && !reading_ && closing_)
      start_read();
    finish(queue_.empty());
  }
  void start_read() {
    reading_ = true;
    this->StartRead(&incoming_);
  }
  /// A frame is about to be told of.
  virtual void before_frame() {}
  /// Whether what still comes is to be read after the end.
  virtual bool drains() const { return false; }
  /// `idle`: no write is under way, and what was written is to arrive.
  virtual void finish(bool idle) = 0;
  virtual void cancel() = 0;
  /// gRPC is done with it: the last thing that is said of it.
  void done(link_news::kind_t kind, std::string text) {
    comes_after(this);
    {
      std::lock_guard guard{mutex_};
      done_ = true;
    }
    if (kind == link_news::not_reached)
      board_->tell({kind, nullptr, node_id_, lane_, {}, std::move(text)});
    else
      tell(kind, {}, std::move(text));
    self_.reset();
  }
  const std::shared_ptr<link_board>& board() const { return board_; }
  bool over() const { return over_; } // under the mutex
  v1::LinkFrame incoming_;
  std::mutex mutex_;
  bool cut_short_ = false; // there was nothing more to read while the connection stood

private:
  std::shared_ptr<link_board> board_;
  const std::string node_id_;
  const link_lane lane_;
  const bool dialled_;
  std::deque<v1::LinkFrame> queue_; // the front is in flight
  bool closing_ = false;
  bool over_ = false;
  bool done_ = false; // gRPC has taken back what belongs to it
  bool reading_ = false;
  bool telling_ = false;     // of a frame
  bool read_wanted_ = false; // meanwhile
  std::shared_ptr<stream> self_;
};

class accepted final : public stream<grpc::ServerBidiReactor<v1::LinkFrame, v1::LinkFrame>> {
public:
  accepted(std::shared_ptr<link_board> board, std::string node_id, link_lane lane, grpc::CallbackServerContext& context)
    : stream(std::move(board), std::move(node_id), lane, false), context_(context) {}
  void begin() {
    hold();
    this->StartSendInitialMetadata();
    tell(link_news::connected);
    read();
    comes_before(this);
  }
  void OnCancel() override {
    std::lock_guard guard{mutex_};
    hung_up_ |= !cancelled_;
    end();
    comes_before(this);
  }
  void OnDone() override {
    auto unreadable = cut_short_ && !hung_up_;
    done(link_news::disconnected, unreadable ? "what came cannot be read as a frame, or it hung up without a word" : "");
  }

private:
  void finish(bool idle) override {
    if (!idle)
      cancel();
    this->Finish(grpc::Status::OK);
  }
  void cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }
  grpc::CallbackServerContext& context_; // gRPC's, until OnDone
  bool cancelled_ = false;               // by this side
  bool hung_up_ = false;                 // by the other, or the connection is gone
};

class dialled_stream final : public stream<grpc::ClientBidiReactor<v1::LinkFrame, v1::LinkFrame>> {
public:
  dialled_stream(std::shared_ptr<link_board> board, std::string node_id, link_lane lane, std::shared_ptr<grpc::Channel> channel)
    : stream(std::move(board), std::move(node_id), lane, true), channel_(std::move(channel)), stub_(v1::Federation::NewStub(channel_)) {}
  void begin() {
    hold();
    if (!board()->opened(this, node_id(), lane(), [this] { abort(); }) || !make_call())
      return OnDone({grpc::StatusCode::CANCELLED, "this node is stopping, or has given it up"});
    this->StartCall();
    comes_before(this);
  }
  void OnReadInitialMetadataDone(bool ok) override {
    if (ok)
      say_connected();
    comes_before(this);
  }
  void OnDone(const grpc::Status& s) override {
    auto held =
      std::make_shared<std::pair<std::unique_ptr<v1::Federation::Stub>, std::shared_ptr<grpc::Channel>>>(std::move(stub_), std::move(channel_));
    board()->over(this, std::move(held));
    done(connected_ ? link_news::disconnected : link_news::not_reached, s.error_message());
  }

private:
  /// False when it was aborted before there was a call.
  bool make_call() {
    std::lock_guard guard{mutex_};
    if (over())
      return false;
    if (lane() == link_lane::bulk)
      stub_->async()->Bulk(&context_, this);
    else
      stub_->async()->Link(&context_, this);
    has_call_ = true;
    this->AddHold(); // what is written and read is asked for from elsewhere
    start_read();
    return true;
  }
  bool drains() const override { return true; }
  void before_frame() override { say_connected(); }
  /// gRPC says that it is connected before it says that there is a frame, but on threads of which the second may be faster.
  void say_connected() {
    std::call_once(connected_once_, [this] {
      connected_ = true;
      tell(link_news::connected);
    });
  }
  void finish(bool idle) override {
    if (!has_call_)
      return;
    if (idle)
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

class refused final : public grpc::ServerBidiReactor<v1::LinkFrame, v1::LinkFrame> {
public:
  explicit refused(grpc::Status s) { this->Finish(std::move(s)); }
  void OnDone() override { delete this; }
};

grpc::Status unauthenticated(const std::string& text) { return {grpc::StatusCode::UNAUTHENTICATED, text}; }

/// An unidentified caller was refused.
void tell_of_stranger(link_board& board, std::string why) {
  board.tell({link_news::not_reached, nullptr, {}, link_lane::control, {}, std::move(why)});
}

/// What gRPC says of itself, which is the only way to hear of those who come without a certificate or do not speak TLS.
struct grpc_log {
  std::mutex mutex;
  std::weak_ptr<link_board> board;

  /// Never destroyed: gRPC's threads may outlive everything.
  static grpc_log& kept() {
    static auto* all = new grpc_log;
    return *all;
  }
  static void take(gpr_log_func_args* said) {
    std::string_view text = said->message;
    // That of a server we call; the caller is told, with the name of the node.
    auto of_server = text.find("certificate verify failed") != std::string_view::npos;
    if (text.find("Handshake failed") == std::string_view::npos || of_server) {
      std::fprintf(stderr, "%s\n", said->message);
      return;
    }
    std::shared_ptr<link_board> board;
    {
      std::lock_guard guard{kept().mutex};
      board = kept().board.lock();
    }
    text = text.substr(text.rfind(':') + 1);
    if (board)
      tell_of_stranger(*board, "TLS does not come about: " + std::string{text.substr(0, text.find_last_not_of('.') + 1)});
  }
};

} // namespace

void link_board::listen(link_listener l) {
  std::lock_guard guard{mutex_};
  listener_ = std::move(l);
}

bool link_board::opened(const void* stream, std::string node_id, link_lane lane, std::function<void()> abort) {
  std::lock_guard guard{mutex_};
  if (ending_)
    return false;
  open_[stream] = {std::move(node_id), lane, std::move(abort)};
  return true;
}

void link_board::hang_up(const std::string& node_id, link_lane lane) {
  std::lock_guard guard{mutex_}; // one that is over waits for us: what is called here is still there
  for (const auto& [stream, s] : open_)
    if (s.node_id == node_id && s.lane == lane)
      s.abort();
}

void link_board::over(const void* stream, std::shared_ptr<void> held) {
  {
    std::lock_guard guard{mutex_};
    open_.erase(stream);
    held_.push_back(std::move(held));
  }
  changed_.notify_all();
}

void link_board::sweep() {
  for (std::unique_lock lock{mutex_};;) {
    changed_.wait(lock, [this] { return closed_ || !held_.empty(); });
    auto gone = std::exchange(held_, {});
    lock.unlock();
    gone.clear();
    lock.lock();
    if (closed_ && held_.empty())
      return;
  }
}

void link_board::end_all(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  ending_ = true;
  for (const auto& [stream, s] : open_)
    s.abort();
  changed_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

void link_board::close() {
  std::unique_lock lock{mutex_};
  listener_ = nullptr;
  closed_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return telling_ == 0; });
}

void link_board::tell(link_news news) {
  link_listener listener;
  {
    std::lock_guard guard{mutex_};
    if (!listener_)
      return;
    listener = listener_;
    ++telling_;
  }
  listener(std::make_shared<const link_news>(std::move(news)));
  {
    std::lock_guard guard{mutex_};
    --telling_;
    if (!closed_)
      return;
  }
  changed_.notify_all();
}

void set_link_arguments(grpc::ChannelArguments& a) {
  a.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  a.SetMaxSendMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  a.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  a.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  a.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  a.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  a.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, stream_ahead_bytes);
  a.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, connect_timeout_ms);
  // Two links to one address are two connections: they end one by one.
  a.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
}

/// Lets in who shows a certificate of this cluster that counts.
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
    return answer(ctx, [this](const std::string& node, node_requests::done done) { owner_.requests_->leave(node, std::move(done)); });
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* ctx, const v1::DrainNodeRequest* req, v1::ClusterView* rep) override {
    return answer(ctx, [=, this](const std::string& node, node_requests::done done) { owner_.requests_->drain(node, *req, *rep, std::move(done)); });
  }

private:
  /// The node that calls; what is wrong with its certificate otherwise.
  security_result<std::string> caller(const grpc::CallbackServerContext& ctx) const {
    auto shown = ctx.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (shown.empty())
      return security_failure{security_error::malformed, "a node shows its certificate"};
    auto der = certificate_from_pem({shown[0].data(), shown[0].size()});
    if (!der)
      return der.failure();
    return owner_.authority_.verify(*der, owner_.clock_.unix_ms());
  }
  link_reactor* accept(grpc::CallbackServerContext& ctx, link_lane lane) {
    auto node = caller(ctx);
    if (!node) {
      owner_.tell_refused(node.failure().text);
      return new refused{unauthenticated(node.failure().text)};
    }
    auto made = std::make_shared<accepted>(owner_.board_, *node, lane, ctx);
    made->begin();
    return made.get();
  }
  template <class Ask>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* ctx, Ask ask) {
    auto* reactor = ctx->DefaultReactor();
    auto node = caller(*ctx);
    if (!node)
      owner_.tell_refused(node.failure().text);
    if (!node || !owner_.requests_)
      reactor->Finish(node ? grpc::Status{grpc::StatusCode::UNAVAILABLE, "the node is starting; try again"} : unauthenticated(node.failure().text));
    else
      ask(*node, [reactor](grpc::Status s) { reactor->Finish(std::move(s)); });
    return reactor;
  }
  links& owner_;
};

/// The verifier's way to its owner. It is cut when the server ends, because gRPC may keep the verifier longer.
struct links::verifier_book {
  std::mutex mutex;
  links* owner = nullptr;
};

/// Looks at the certificate that a connection begins with, in gRPC's place: that would not say what is wrong with it, nor that anything is.
/// That its holder has the key is proven by then.
class links::member_verifier final : public grpc::experimental::ExternalCertificateVerifier {
public:
  explicit member_verifier(std::shared_ptr<verifier_book> b) : book_(std::move(b)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* shown, std::function<void(grpc::Status)>, grpc::Status* status) override {
    auto pem = shown->peer_cert();
    auto der = certificate_from_pem({pem.data(), pem.size()});
    std::lock_guard guard{book_->mutex};
    if (!book_->owner) {
      *status = unauthenticated("the node stops");
      return true;
    }
    auto node = der ? book_->owner->authority_.verify(*der, book_->owner->clock_.unix_ms()) : security_result<std::string>{der.failure()};
    if (!node) {
      book_->owner->tell_refused(node.failure().text);
      *status = unauthenticated(node.failure().text);
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

private:
  std::shared_ptr<verifier_book> book_;
};

links::links(authority_store& authority, const clock_port& clock) : authority_(authority), clock_(clock) {
  auto& said = grpc_log::kept();
  std::lock_guard guard{said.mutex};
  said.board = board_;
  gpr_set_log_function(grpc_log::take);
}

links::~links() { stop(); }

void links::listen(link_listener l) { board_->listen(std::move(l)); }

void links::answer_by(node_requests* requests) {
  std::lock_guard guard{mutex_};
  requests_ = requests;
}

security_result<std::shared_ptr<grpc::Channel>> links::channel_to(const v1::NodeAddress& to) const {
  auto mine = authority_.credentials();
  if (!mine)
    return mine.failure();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = mine->authority_pem;
  tls.pem_private_key = std::string{mine->key_pem.view()};
  tls.pem_cert_chain = mine->chain_pem;
  grpc::ChannelArguments arguments;
  set_link_arguments(arguments);
  arguments.SetSslTargetNameOverride(node_dns_name(to.node_id()));
  return grpc::CreateCustomChannel(to.address(), grpc::SslCredentials(tls), arguments);
}

void links::tell_refused(std::string why) { tell_of_stranger(*board_, std::move(why)); }

void links::hang_up(const std::string& node_id, link_lane lane) { board_->hang_up(node_id, lane); }

void links::dial(const v1::NodeAddress& to, link_lane lane) {
  if (stopped_)
    return board_->tell({link_news::not_reached, nullptr, to.node_id(), lane, {}, "this node is stopping"});
  auto channel = channel_to(to);
  if (!channel)
    return board_->tell({link_news::not_reached, nullptr, to.node_id(), lane, {}, channel.failure().text});
  std::make_shared<dialled_stream>(board_, to.node_id(), lane, std::move(*channel))->begin();
}

std::optional<std::string> links::serve(const std::string& address) {
  std::lock_guard alone{serving_};
  stop_serving();
  if (address.empty())
    return std::nullopt;
  auto mine = authority_.credentials();
  if (!mine)
    return mine.failure().text;
  using namespace grpc::experimental;
  TlsServerCredentialsOptions tls{std::make_shared<StaticDataCertificateProvider>(
    mine->authority_pem, std::vector<IdentityKeyCertPair>{{std::string{mine->key_pem.view()}, mine->chain_pem}})};
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  std::lock_guard guard{mutex_};
  book_ = std::make_shared<verifier_book>();
  book_->owner = this;
  tls.set_certificate_verifier(ExternalCertificateVerifier::Create<member_verifier>(book_));
  service_ = std::make_unique<service>(*this);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, TlsServerCredentials(tls), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, keepalive_ms / 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 8);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, stream_ahead_bytes);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (!server_ || port == 0) {
    book_->owner = nullptr;
    server_ = nullptr;
    service_ = nullptr;
    return concat({address, " cannot be listened at: it must be host:port of this machine, and the port free"});
  }
  return std::nullopt;
}

void links::stop() {
  stopped_ = true;
  {
    std::lock_guard alone{serving_};
    stop_serving();
  }
  board_->end_all(std::chrono::steady_clock::now() + limits::link_stop_patience);
  board_->close();
  if (sweeping_.joinable())
    sweeping_.join();
}

void links::stop_serving() {
  std::lock_guard guard{mutex_};
  if (!server_)
    return;
  {
    std::lock_guard shown{book_->mutex};
    book_->owner = nullptr;
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
  service_ = nullptr;
}

} // namespace swarm
