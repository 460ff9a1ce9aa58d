// What is known of the keys that were typed at an attached terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "actors/base/limits.hpp"

namespace swarm::cli {

/// Keys are sent once. Of a line that was typed while the node was away nothing is missing in its middle: all of the absence is kept, or nothing.
class typed_keys {
public:
  /// Some went out on the stream.
  void sent() noexcept { ++on_the_way_; }
  /// The oldest of those that are on the way have arrived.
  void taken() noexcept { on_the_way_ -= on_the_way_ > 0; }
  /// The stream broke. True when some were on the way: whether they have arrived is not known, and what is typed behind them is not kept.
  bool lost() noexcept {
    keeps_ = on_the_way_ == 0;
    return std::exchange(on_the_way_, 0) > 0;
  }
  /// Whether these, typed without a stream, are kept for the next one. When they are not, nothing of this absence is.
  bool keep(std::string_view keys) {
    if (!keeps_ || kept_.size() + keys.size() > limits::pty_input_bytes_max) {
      drop();
      return false;
    }
    kept_ += keys;
    return true;
  }
  /// From now until the next stream nothing is kept. Whether something was.
  bool drop() noexcept {
    keeps_ = false;
    return !std::exchange(kept_, {}).empty();
  }
  /// There is a stream again: what is to be sent on it.
  std::string back() {
    keeps_ = true;
    return std::exchange(kept_, {});
  }

private:
  std::size_t on_the_way_ = 0; // pieces
  std::string kept_;
  bool keeps_ = true;
};

} // namespace swarm::cli
