// Where routines lie, and which of them a name means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/routine/routine.hpp"

namespace swarm::routines {

/// The directories looked into. Missing ones hold nothing; an empty path is not looked at.
struct places {
  /// The git root of the working directory: what a repository's routines are about, and where all workers start.
  std::string root;
  std::filesystem::path repository; // <root>/.swarm/routines
  std::filesystem::path user;       // <state directory>/routines
  std::filesystem::path shipped;
  std::filesystem::path trust; // the file of what is trusted, in the state directory
};

/// `share`: $SWARM_SHARE, or empty; then what is shipped lies beside this program (share_directory()).
places places_of(const std::string& directory, const std::string& state_directory, const std::string& share);

/// A file as it is found.
struct routine_file {
  std::string name;
  origin from = origin::user;
  std::filesystem::path file;
  std::string text;
  /// SHA-256 of the bytes, as hex; empty when they could not be read.
  std::string digest;
  reading content;

  /// "repository/release-check"
  std::string full_name() const { return std::string{to_text(from)} + "/" + name; }
  bool usable() const { return content.problems.empty(); }
  /// A line for each: "FILE:LINE: what and what to do".
  std::string problems_text() const;
};

/// By name, the repository's last; at most limits::routines_max of each place.
std::vector<routine_file> list(const places&);

/// What a name means. Of two with one name the user's takes precedence over a shipped one; a repository's never takes the place of either: then
/// the full name has to be given ("repository/NAME", "user/NAME", "shipped/NAME").
struct found {
  std::optional<routine_file> routine;
  std::string why_not; // for people, when there is none
};
found find(const places&, std::string_view name);

} // namespace swarm::routines
