// The prompts of one life of a driver: their parts as they come, and what has become of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/agents/claude_lines.hpp"
#include "actors/base/limits.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::driver {

struct prompt {
  std::string id;
  std::vector<agents::claude_lines::prompt_part> parts = {};
  std::size_t bytes = 0;
  bool steer = false; // into the turn that is open
};

class prompt_table {
public:
  /// What became of a prompt, and the number of the frame that says so.
  struct outcome {
    internal::PromptState state;
    std::uint64_t seq = 0;
  };
  /// What comes of a part. At most one of them.
  struct taken {
    std::optional<prompt> whole = {};
    std::string refused = {};          // why the prompt cannot be taken
    const outcome* repeated = nullptr; // it was here before
  };

  taken take(const internal::PromptPart& part);
  /// The prompt that is not whole yet never will be. Its id, if there was one.
  std::optional<std::string> drop_unfinished();

  const outcome* find(const std::string& id) const;
  /// A prompt for which there is no place was refused, and is when it comes again.
  void put(const internal::PromptState& state, std::uint64_t seq) {
    if (known_.size() < limits::driver_prompts_known_max || known_.contains(state.id()))
      known_[state.id()] = {state, seq};
  }

private:
  std::unordered_map<std::string, outcome> known_;
  std::optional<prompt> unfinished_;
  std::string too_much_; // why the unfinished one cannot be taken
};

} // namespace swarm::driver
