#include "services/federation/renewal.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"

namespace swarm {

renewal::renewal(cluster& of, const links& transport, const clock_port& clock, std::function<void()> renewed)
  : cluster_(of), links_(transport), clock_(clock), renewed_(std::move(renewed)), thread_([this] { run(); }) {}

renewal::~renewal() { stop(); }

void renewal::wake() {
  {
    std::lock_guard guard{mutex_};
    woken_ = true;
  }
  changed_.notify_all();
}

void renewal::stop() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void renewal::run() {
  std::string logged; // the last failure, which is logged once
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    woken_ = false;
    auto wait = limits::node_certificate_check;
    lock.unlock();
    auto& authority = cluster_.authority();
    auto now = clock_.unix_ms();
    if (authority.facts() && authority.renewal_due(now)) {
      auto failed = renew();
      if (failed && std::exchange(logged, failed->text) != failed->text)
        log::warn({"the certificate of this node is not renewed yet: ", failed->text});
      if (!failed)
        logged.clear();
      wait = limits::node_certificate_renewal_retry();
    } else if (auto mine = authority.credentials()) {
      auto due = mine->certificate.not_after_ms - limits::node_certificate_renewal().count();
      wait = std::clamp(std::chrono::milliseconds{due - now}, std::chrono::milliseconds{1}, limits::node_certificate_check);
    }
    // The store wipes an expired key when somebody asks for it. Nobody may ask, so this thread does.
    if (auto left = authority.wipe_in_time(clock_.unix_ms()); left > 0)
      wait = std::min(wait, std::chrono::milliseconds{left});
    lock.lock();
    changed_.wait_for(lock, wait, [this] { return stopping_ || woken_; });
  }
}

std::optional<security_failure> renewal::renew() {
  auto& authority = cluster_.authority();
  auto facts = authority.facts();
  if (!facts)
    return std::nullopt;
  auto csr = authority.request_certificate(facts->node_id);
  if (!csr)
    return csr.failure();
  auto now = clock_.unix_ms();
  if (facts->is_home() && authority.locked(now))
    return security_failure{security_error::locked, "the cluster's authority is locked: run `swarmctl ca unlock`"};
  auto certificate = facts->is_home() ? authority.issue(*csr, facts->node_id, now) : ask_home(*facts, *csr);
  if (!certificate) {
    auto failed = certificate.failure();
    if (auto mine = authority.credentials(); mine && mine->certificate.not_after_ms < now)
      failed.text =
        "it has ended and nobody speaks with this node: run `swarmctl leave --force` here, then `swarmctl join` with a new token; " + failed.text;
    return failed;
  }
  if (auto failed = authority.renew(*certificate, now))
    return failed;
  log::info({"the certificate of this node was renewed"});
  renewed_();
  return std::nullopt;
}

security_result<std::string> renewal::ask_home(const cluster_facts& facts, const std::string& csr) const {
  v1::NodeAddress home;
  home.set_node_id(facts.home_id);
  home.set_address(facts.home_address);
  auto channel = links_.channel_to(home);
  if (!channel)
    return channel.failure();
  auto stub = v1::Federation::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limits::cluster_call_timeout);
  v1::RenewRequest ask;
  ask.set_csr(csr);
  v1::RenewReply reply;
  if (auto s = stub->Renew(&context, ask, &reply); !s.ok())
    return security_failure{security_error::unreachable, concat({"the home of the cluster, ", facts.home_name, ", says: ", s.error_message()})};
  return reply.certificate();
}

} // namespace swarm
