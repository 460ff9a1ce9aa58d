// The answers given, so that a repeated request gets the first answer and one whose answer was forgotten is refused, not run again. What
// is kept of a client that is silent goes after twice limits::reply_retention().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/store/sqlite.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// Who asked: the principal's key and its request id. Ids of different principals never meet.
struct request_key {
  std::string principal;
  std::string client;
  std::uint64_t seq = 0;
};

/// Works inside whatever transaction its connection is in, and keeps what is new in memory until write(): most answers are
/// acknowledged before that. After a rollback of the transaction it must be thrown away.
class reply_memory {
public:
  explicit reply_memory(sqlite::connection& db);

  struct remembered {
    std::string digest;
    v1::Reply reply;
  };
  std::optional<remembered> find(const request_key&);

  /// Ids of that client below this are forgotten and must be refused.
  std::uint64_t watermark(const request_key&);

  /// Keeps a reply. Beyond limits::replies_per_principal_max() the principal's oldest go and the watermarks of their clients rise.
  void remember(const request_key&, const std::string& digest, const v1::Reply&, std::int64_t now_ms);

  /// Replaces the reply of a request that had been told to wait; nothing when it is no longer kept.
  void resolve(const v1::ResolvedWait&);

  /// The client has all answers below this: forgets them and raises the watermark. Acts on every `ack_stride`-th id only, which
  /// spares most calls two writes; what stays meanwhile is still answered from memory.
  void acknowledge(const request_key&, std::uint64_t below, std::uint64_t watermark, std::int64_t now_ms);

  /// Puts what is new into the database.
  void write();

  /// Forgets a few of what is older than limits::reply_retention(); looks once a second while there is nothing. Only after write().
  void sweep(std::int64_t now_ms);

  static constexpr std::uint64_t ack_stride = 16; // 64 busy clients of one principal stay below its share of replies
  static constexpr std::int64_t sweep_rows = 64;
  static constexpr std::int64_t evicted_at_once = 64;

private:
  void evict(const std::string& principal, std::int64_t now_ms);
  void forget_below(const std::string& principal, const std::string& client, std::uint64_t below, std::int64_t now_ms);
  void forgot(const std::string& principal, std::uint64_t rows);

  struct new_reply {
    std::string digest;
    std::string bytes; // of the reply
    bool pending = false;
    std::int64_t at_ms = 0;
  };
  struct client_state {
    request_key who; // seq means nothing
    std::uint64_t watermark = 0;
    std::uint64_t highest = 0;                        // number of a kept reply: above it there is nothing to look for
    std::uint64_t highest_written = 0;                // of those in the database; 0 = there are none
    std::map<std::uint64_t, new_reply> unwritten;     // by number
    std::optional<std::int64_t> watermark_changed_ms; // the database has an older one
  };
  client_state& client_of(const request_key&);
  void insert(const client_state&, std::uint64_t seq, const new_reply&);

  sqlite::connection& db_;
  std::unordered_map<std::string, std::uint64_t> kept_;           // replies per principal
  std::unordered_map<std::string, client_state> clients_;         // by principal and client; bounded, written and read again when forgotten
  std::vector<std::pair<client_state*, std::uint64_t>> arrivals_; // what is unwritten, in order; some of it has gone since
  std::vector<client_state*> risen_;                              // whose watermark has changed
  std::int64_t next_sweep_ms_ = 0;
};

} // namespace swarm
