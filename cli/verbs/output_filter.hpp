// What a program printed on a terminal of its own, made fit for ours.
#pragma once

#include <string>
#include <string_view>

namespace swarm::cli {

class output_filter {
public:
  enum class target {
    terminal, // colours, tabs, carriage returns and erased lines pass; every other control character is shown escaped: it may do nothing here
    text,     // a pipe or file: line ends become \n, colours go, everything else stays
    bytes,    // everything stays
  };
  explicit output_filter(target t) : target_(t) {}

  /// What can be shown so far. The beginning of a sequence or of a character waits for its rest.
  std::string take(std::string_view more);
  /// The rest, when nothing more comes.
  std::string finish();

private:
  std::string cleaned(std::string_view whole) const;
  target target_;
  std::string held_;
};

} // namespace swarm::cli
