// What goes to swarmd: frames that are kept until it has stored them, frames that may be lost, and pieces of texts that are joined. Without I/O and
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/limits.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::driver {

struct moment {
  std::int64_t unix_ms = 0;
  std::int64_t boot_ms = 0;
};

class outbox {
public:
  /// Sent now and again until it is stored. Returns its number.
  std::uint64_t keep(internal::FromDriver body, moment now);
  /// Sent to who listens now.
  void pass(internal::FromDriver body, moment now);
  /// Sent a little later, with what comes until then. It is the first to be dropped.
  void join(internal::Delta delta, moment now);
  /// When join() is due; nothing = nothing is joined.
  std::optional<std::int64_t> joined_until() const;
  void send_joined(moment now);

  /// Somebody new listens, who has everything up to `last_seq`.
  void connect(const std::string& nonce, internal::Ready ready, std::uint64_t last_seq, moment now);
  bool is_connected() const noexcept { return connected_; }
  void stored(std::uint64_t seq);
  /// From here on the ring has no bound: the end is near, and nobody may be there to make room.
  void release();

  /// Bytes for the pipe.
  std::string_view pending() const;
  void written(std::size_t bytes);

  /// What is kept, also what has no room in the ring yet.
  std::size_t unstored_bytes() const noexcept { return ring_bytes_ + backlog_bytes_; }
  std::size_t waiting() const noexcept { return backlog_.size(); }
  /// Nobody should ask for more to be passed before the pipe has taken some.
  bool is_clogged() const noexcept { return asking_bytes_ >= limits::driver_asking_bytes_max; }
  bool is_stored(std::uint64_t seq) const noexcept { return seq <= stored_; }

private:
  using bytes = std::shared_ptr<const std::string>;
  struct kept {
    std::uint64_t seq;
    bytes frame;
  };
  enum class kind { kept, text, other };
  struct sent {
    bytes frame;
    kind what;
  };

  void fill_ring();
  void put(internal::FromDriver frame);
  void send(std::string frame, kind what);

  bool connected_ = false;
  bool released_ = false;
  std::uint64_t last_ = 0; // given
  std::uint64_t stored_ = 0;
  std::deque<kept> ring_;
  std::size_t ring_bytes_ = 0;
  std::deque<internal::FromDriver> backlog_;
  std::size_t backlog_bytes_ = 0;
  std::deque<sent> sending_;
  std::size_t written_ = 0; // of the first
  std::size_t passing_bytes_ = 0;
  std::size_t asking_bytes_ = 0;
  std::optional<internal::Delta> joined_;
  std::int64_t joined_until_ = 0;
};

} // namespace swarm::driver
