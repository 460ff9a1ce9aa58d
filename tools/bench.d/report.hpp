// The table: what was measured, beside what, and whether that is good enough.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace swarm::bench {

struct goal {
  enum kind { none, ratio_at_most, ratio_at_least, value_at_most, value_below } what = none;
  double bound = 0;
};

struct row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string reference_name; // empty: measured against nothing
  double reference = 0;
  swarm::bench::goal goal;
  bool of_the_machine = false; // of none of our programs: what others are measured beside

  std::optional<double> ratio() const;
  std::optional<bool> met() const;
  std::string goal_text() const;
};

void print(const std::vector<row>&);

/// A row of ours beside the same of another checkout's programs, measured in turn.
struct compared {
  row ours, theirs;
  double least = 0, most = 0; // of theirs, over the rounds
  /// More is worse for what takes time or room, better for what is counted in a second.
  bool more_is_better() const;
  /// Worse by more than a twentieth, and by a value that theirs had in no round. The machine's own rows never are.
  bool is_regression() const;
};
void print(const std::vector<compared>&);
void write_json(const std::vector<compared>&, const std::string& file);
/// A list of {name, value, unit, reference, ratio, goal, met}; what a row does not have is null.
void write_json(const std::vector<row>&, const std::string& file);

} // namespace swarm::bench
