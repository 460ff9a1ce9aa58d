// The answers given, so that a repeated request gets the first answer and an id that was forgotten is refused, never run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "actors/store/sqlite.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm {

namespace v1 = ::swarm::v1;

/// Who asked: the principal's key and its request id. Ids of different principals never meet.
struct request_key {
  std::string principal;
  std::string client;
  std::uint64_t seq = 0;
};

/// Works inside whatever transaction its connection is in. After a rollback of that transaction it must be thrown away, because
/// it keeps counts in memory.
class reply_memory {
public:
  explicit reply_memory(sqlite::connection& db);

  struct remembered {
    std::string digest;
    v1::Reply reply;
  };
  std::optional<remembered> find(const request_key&) const;

  /// Ids of that client below this are forgotten and must be refused.
  std::uint64_t watermark(const request_key&) const;

  /// Keeps a reply. Beyond limits::replies_per_principal_max() the principal's oldest go and the watermarks of their clients rise.
  void remember(const request_key&, const std::string& digest, const v1::Reply&, std::int64_t now_ms);

  /// Replaces the reply of a request that had been told to wait; nothing when it is no longer kept.
  void resolve(const v1::ResolvedWait&);

  /// The client has all answers below this: forgets them and raises the watermark. Acts on every `ack_stride`-th id only, which
  /// spares most calls two writes; what stays meanwhile is still answered from memory.
  void acknowledge(const request_key&, std::uint64_t below, std::uint64_t watermark, std::int64_t now_ms);

  /// Forgets a few of what is older than limits::reply_retention(); looks once a second while there is nothing.
  void sweep(std::int64_t now_ms);

  static constexpr std::uint64_t ack_stride = 16; // 64 busy clients of one principal stay below its share of replies
  static constexpr std::int64_t sweep_rows = 64;
  static constexpr std::int64_t evicted_at_once = 64;

private:
  void evict(const std::string& principal, std::int64_t now_ms);
  void forget_below(const std::string& principal, const std::string& client, std::uint64_t below, std::int64_t now_ms);
  void forgot(const std::string& principal, std::uint64_t rows);

  struct client_state {
    std::uint64_t watermark = 0;
    std::uint64_t highest = 0; // number of a kept reply: above it there is nothing to look for
  };
  client_state& client_of(const request_key&) const;

  sqlite::connection& db_;
  std::unordered_map<std::string, std::uint64_t> kept_;           // replies per principal
  mutable std::unordered_map<std::string, client_state> clients_; // by principal and client; bounded, read again when forgotten
  std::int64_t next_sweep_ms_ = 0;
};

} // namespace swarm
