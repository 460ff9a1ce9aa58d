// Makes the output that a program wrote to its own terminal fit for our terminal or pipe.
#pragma once

#include <string>
#include <string_view>

namespace swarm::cli {

class output_filter {
public:
  enum class target {
    terminal, // colours, tabs, carriage returns and the erasing of lines pass; other control characters are shown escaped, so that they do nothing
    text,     // a pipe or file: line ends become \n, colours and the erasing of lines are removed, everything else passes
    bytes,    // everything passes
  };
  explicit output_filter(target t) : target_(t) {}

  /// The part that can be shown now. An incomplete sequence or character is held back until its rest arrives.
  std::string take(std::string_view more);
  /// What is still held back, at the end of the output.
  std::string finish();

private:
  std::string cleaned(std::string_view whole) const;
  target target_;
  std::string held_;
};

} // namespace swarm::cli
