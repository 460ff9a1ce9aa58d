#include "tests/support/scripted_node.hpp"

#include <random>
#include <stdexcept>

#include <grpcpp/impl/codegen/sync_stream.h>

#include "actors/base/clock.hpp"
#include "actors/base/crypto.hpp"
#include "services/federation/enrollment.hpp"
#include "services/federation/links.hpp"
#include "services/security/openssl.hpp"
#include "services/security/sealed_key.hpp"

namespace swarm::testing {

namespace {

using namespace std::chrono_literals;

std::int64_t unix_ms() { return system_clock_port().unix_ms(); }
runtime::link_time link_now() { return std::chrono::milliseconds{system_clock_port().boot_ms()}; }
std::uint64_t random_incarnation() { return std::random_device{}() + 1ULL; }

template <class T>
T value_of(security_result<T> f) {
  if (!f)
    throw std::runtime_error(f.failure().text);
  return *std::move(f);
}

runtime::link_options options_of(const member_identity& who, std::uint32_t protocol, std::uint32_t protocol_min) {
  runtime::link_options o;
  o.cluster_id = who.cluster_id;
  o.node_id = who.node_id;
  o.node_name = who.node_name;
  o.version = "scripted";
  o.incarnation = random_incarnation();
  o.other_id = who.home_id;
  o.protocol = protocol;
  o.protocol_min = protocol_min;
  return o;
}

} // namespace

member_identity join_as_member(const std::string& token, const std::string& name, const std::string& node_id) {
  temp_dir files;
  fs::permissions(files.path(), fs::perms::owner_all);
  node_facts facts;
  facts.node_id = node_id.empty() ? random_uuid() : node_id;
  facts.node_name = name;
  facts.version = "scripted";
  facts.dir = {files.path()};
  auto mine = cluster::open(facts.dir, facts, system_clock_port());
  auto pause = [](std::chrono::milliseconds span) {
    std::this_thread::sleep_for(span);
    return true;
  };
  if (auto failed = join_cluster(*mine, facts, token, "", unix_ms(), pause))
    throw std::runtime_error(failed->text);
  auto in = mine->authority().facts().value();
  auto shown = value_of(mine->authority().credentials());
  return {in.cluster_id, in.node_id, name, in.home_id, in.home_address, std::string{shown.key_pem.view()}, shown.chain_pem, shown.authority_pem};
}

authority authority_of(const test_node& home) {
  auto store = value_of(authority_store::open(home.dir().root / "cluster"));
  return value_of(
    authority::from(value_of(store->credentials()).authority_der, value_of(open_key(file_text(home.dir().root / "cluster/ca.key"), ""))));
}

member_identity certified_by(const authority& ca, member_identity who, std::int64_t from_ms, std::int64_t to_ms) {
  auto key = value_of(key_pair::generate());
  auto x = openssl::read_x509(value_of(ca.issue(value_of(make_csr(key, "a node")), who.node_id, unix_ms())));
  if (!ASN1_TIME_set(X509_getm_notBefore(x.get()), from_ms / 1000) || !ASN1_TIME_set(X509_getm_notAfter(x.get()), to_ms / 1000) ||
      X509_sign(x.get(), ca.key().native(), EVP_sha256()) <= 0)
    throw std::runtime_error("no certificate was made");
  auto certificate = openssl::der_of<X509>(i2d_X509, x.get());
  who.key_pem = std::string{value_of(key.to_pem()).view()};
  who.chain_pem = value_of(certificate_to_pem(certificate)) + value_of(certificate_to_pem(ca.certificate()));
  return who;
}

// -- one connection --------------------------------------------------------------------------

std::shared_ptr<grpc::Channel> channel_of(const member_identity& who) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = who.authority_pem;
  if (!who.chain_pem.empty()) {
    tls.pem_private_key = who.key_pem;
    tls.pem_cert_chain = who.chain_pem;
  }
  grpc::ChannelArguments arguments;
  set_link_arguments(arguments);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetSslTargetNameOverride(node_dns_name(who.home_id));
  return grpc::CreateCustomChannel(who.home_address, grpc::SslCredentials(tls), arguments);
}

link_stream::link_stream(const member_identity& who, link_lane lane, bool reads) : channel_(channel_of(who)) {
  context_.set_deadline(std::chrono::system_clock::now() + 2 * patience);
  const auto* method = lane == link_lane::bulk ? "/swarm.v1.Federation/Bulk" : "/swarm.v1.Federation/Link";
  using factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;
  stream_.reset(factory::Create(channel_.get(), {method, grpc::internal::RpcMethod::BIDI_STREAMING, channel_}, &context_));
  if (reads)
    reader_ = std::thread{[this] { read_all(); }};
}

link_stream::~link_stream() { end(); }

bool link_stream::read(v1::LinkFrame& f) {
  grpc::ByteBuffer bytes;
  if (!stream_->Read(&bytes))
    return false;
  grpc::ProtoBufferReader reader{&bytes};
  return f.ParseFromZeroCopyStream(&reader);
}

void link_stream::read_all() {
  grpc::ByteBuffer bytes;
  while (stream_->Read(&bytes)) {
    v1::LinkFrame f;
    grpc::ProtoBufferReader reader{&bytes};
    auto parsed = f.ParseFromZeroCopyStream(&reader);
    std::lock_guard guard{mutex_};
    if (parsed)
      frames_.push_back(std::move(f));
    changed_.notify_all();
  }
  std::lock_guard guard{mutex_};
  over_ = true;
  changed_.notify_all();
}

bool link_stream::write(const v1::LinkFrame& f) { return write_bytes(f.SerializeAsString()); }

bool link_stream::write_bytes(const std::string& bytes) {
  {
    std::lock_guard guard{mutex_};
    if (over_)
      return false;
  }
  grpc::Slice slice{bytes};
  return stream_->Write(grpc::ByteBuffer{&slice, 1});
}

std::optional<v1::LinkFrame> link_stream::next(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, deadline, [&] { return !frames_.empty() || over_; });
  if (frames_.empty())
    return std::nullopt;
  auto f = std::move(frames_.front());
  frames_.pop_front();
  return f;
}

std::optional<v1::LinkClose> link_stream::close_of_home(std::chrono::milliseconds deadline) {
  auto until = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < until) {
    auto f = next(deadline);
    if (!f)
      return std::nullopt;
    if (f->has_close())
      return f->close();
  }
  return std::nullopt;
}

bool link_stream::over(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, deadline, [&] { return over_; });
}

grpc::Status link_stream::end() {
  if (status_)
    return *status_;
  {
    std::lock_guard guard{mutex_};
    if (!over_)
      context_.TryCancel();
  }
  if (reader_.joinable())
    reader_.join();
  status_ = stream_->Finish();
  return *status_;
}

v1::LinkFrame hello_frame(const member_identity& who, std::uint32_t protocol, std::uint32_t protocol_min) {
  v1::LinkFrame f;
  auto& h = *f.mutable_hello();
  h.set_protocol(protocol);
  h.set_protocol_min(protocol_min);
  h.set_cluster_id(who.cluster_id);
  h.set_node_id(who.node_id);
  h.set_node_name(who.node_name);
  h.set_version("scripted");
  h.set_incarnation(random_incarnation());
  h.set_kept_from(1);
  h.set_time_ms(unix_ms());
  return f;
}

std::unique_ptr<link_stream> linked_stream(const member_identity& who, link_lane lane) {
  auto s = std::make_unique<link_stream>(who, lane);
  s->write(hello_frame(who));
  while (auto f = s->next())
    if (f->credit() > 0)
      return s;
  throw std::runtime_error("the home gives no credit: " + s->end().error_message());
}

// -- a link ------------------------------------------------------------------------------------

scripted_node::scripted_node(member_identity who, std::uint32_t protocol, std::uint32_t protocol_min, std::int64_t clock_offset_ms, answers a)
  : who_(std::move(who)), clock_offset_ms_(clock_offset_ms), answers_(std::move(a)), link_(options_of(who_, protocol, protocol_min)), stream_(who_),
    thread_([this] { run(); }) {}

scripted_node::~scripted_node() {
  {
    std::lock_guard guard{mutex_};
    ending_ = true;
  }
  thread_.join();
}

/// False: the link is over.
bool scripted_node::take_events() {
  for (auto& e : link_.take_events()) {
    if (std::holds_alternative<runtime::link_up>(e)) {
      up_ = true;
    } else if (std::holds_alternative<runtime::link_dropped>(e)) {
      up_ = false;
      return false;
    } else if (auto* d = std::get_if<runtime::link_delivery<link_message>>(&e)) {
      link_.consumed(d->cost);
      if (d->message->has_response())
        answered_[d->message->response().id()] = d->message->response();
      if (!d->message->has_request())
        continue;
      v1::LinkMessage m;
      auto& r = *m.mutable_response();
      if (answers_)
        answers_(d->message->request(), r);
      if (r.answer_case() == v1::LinkResponse::ANSWER_NOT_SET)
        r.mutable_error()->set_code(static_cast<std::uint32_t>(errc::not_found));
      r.set_id(d->message->request().id());
      link_.send(std::make_shared<const v1::LinkMessage>(std::move(m)));
    }
  }
  return true;
}

void scripted_node::run() {
  std::unique_lock lock{mutex_};
  connection_ = link_.connected(link_now(), unix_ms() + clock_offset_ms_);
  while (!ending_) {
    while (auto f = link_.next_frame(connection_, link_now())) {
      auto bytes = to_wire(*f);
      lock.unlock();
      auto written = stream_.write(bytes);
      lock.lock();
      if (!written)
        break;
    }
    lock.unlock();
    auto f = stream_.next(5ms); // or what the test has to say meanwhile
    auto over = !f && stream_.over(0ms);
    lock.lock();
    if (f)
      link_.received(connection_, from_wire(std::move(*f)), link_now());
    link_.tick(link_now());
    auto goes_on = take_events() && !over;
    if (!goes_on)
      up_ = false;
    changed_.notify_all();
    if (!goes_on)
      return;
  }
}

bool scripted_node::up(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, deadline, [&] { return up_; });
}

std::optional<v1::LinkResponse> scripted_node::ask(v1::LinkRequest r, std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  auto id = next_id_++;
  r.set_id(id);
  if (r.timeout_ms() == 0)
    r.set_timeout_ms(deadline.count());
  v1::LinkMessage m;
  *m.mutable_request() = std::move(r);
  link_.send(std::make_shared<const v1::LinkMessage>(std::move(m)));
  if (!changed_.wait_for(lock, deadline, [&] { return answered_.contains(id); }))
    return std::nullopt;
  return answered_.extract(id).mapped();
}

} // namespace swarm::testing
