// Who was refused what, because he may not do it: each kind of refusal is logged once and counted (docs/security.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/domain/rights.hpp"
#include "actors/runtime/log_limiter.hpp"
#include "swarm/v1/common.pb.h"
#include "swarm/v1/node.pb.h"

namespace swarm {

/// "node_shutdown", "pty_kill", "watch": what callers are refused by. A call has its name in the contract.
std::string name_of(domain::operation);

/// Thread-safe; outlives the services. Bounded: there are as many entries as kinds of principals and operations of the contract.
class refusals {
public:
  struct clock {
    std::function<std::int64_t()> steady_ms; // only goes forward
    std::function<std::int64_t()> unix_ms;
  };

  refusals(clock now, std::function<void(const std::string&)> log) : now_(std::move(now)), log_(std::move(log)) {}

  /// `operation`: a command, query or call of the contract, never text of the caller. `who`: unset when the caller is nobody.
  void add(const v1::Principal& who, std::string_view operation, std::string_view reason);
  /// What the node answers to a command or query, which names its principal: noted when it is refused because the principal may not.
  template <class Request>
  void add_if_forbidden(const Request& asked, const v1::Refusal& r) {
    // An agent without a session is told to register whenever it may not.
    if (r.code() == v1::Refusal::FORBIDDEN || (r.code() == v1::Refusal::NOT_REGISTERED && asked.principal().kind() == v1::Principal::AGENT))
      add(asked.principal(), body_of(asked, static_cast<int>(asked.body_case())), r.text());
  }
  /// By kind and operation, in that order.
  std::vector<v1::RefusalCount> counts() const;

private:
  /// Name of the field that the body is in.
  static std::string body_of(const google::protobuf::Message&, int number);

  struct entry {
    std::uint64_t count = 0;
    std::int64_t last_at_ms = 0;
  };

  clock now_;
  std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, entry> entries_;
  runtime::log_limiter said_;
};

} // namespace swarm
