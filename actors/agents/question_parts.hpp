// The parts of a question that an agent asks, as people see and answer them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm::agents {

struct question_part {
  struct choice {
    std::string label; // the agent's
    std::string description;

    /// As it is shown.
    std::string_view shown() const;
  };
  std::string text;  // the agent's
  std::string shown; // what people see, and by which an answer names it
  bool many = false; // several choices may be taken
  std::vector<choice> choices = {};

  /// The label that is meant by what a person was shown: all of it, or its begin when it is long.
  std::string meant_by(const std::string& choice) const;
};

/// Of the input of the tool that asks, as many as an agent asks at once; empty when it has none.
std::vector<question_part> question_parts(std::string_view input);

} // namespace swarm::agents
