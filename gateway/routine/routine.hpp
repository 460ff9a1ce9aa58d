// A routine: named steps for agents, written down as TOML, with parameters (docs/routines.md). This is what a file says, and what is
// wrong with it; nothing here is done yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::routines {

/// Where a routine comes from. A repository's is somebody else's word until it is trusted.
enum class origin { repository, user, shipped };
/// "repository", "user", "shipped".
const char* to_text(origin) noexcept;

/// Something wrong in a file, for people. `line` from 1; 0 = the file as a whole.
struct problem {
  std::size_t line = 0;
  std::string text;
};

struct parameter {
  std::string name;
  std::string description;
  /// What holds when none is given; a parameter that is neither required nor has one is empty then.
  std::optional<std::string> value;
  bool required = false;
  /// The only values allowed; empty = any.
  std::vector<std::string> choices;
};

struct step {
  std::string id;
  std::string title;
  std::string description;
  std::string role;
  std::string type;
  std::vector<std::string> files;
  /// Ids of the steps that come before.
  std::vector<std::string> needs;
  bool approval = false;
  std::int64_t priority = 0;
  /// An agent's name; empty = whatever the run says.
  std::string harness;
  std::size_t line = 0;
};

struct routine {
  std::string name;
  std::string summary;
  std::vector<parameter> parameters;
  /// In the order of the file.
  std::vector<step> steps;
};

/// What a file says. With problems the routine is not to be run, and may be incomplete.
struct reading {
  routine value;
  std::vector<problem> problems;
};

/// `name`: of the file without its ending; the routine must have it. At most limits::routine_bytes_max bytes; of very many problems only the
/// first are told.
reading parse(std::string_view text, std::string_view name);

/// The steps by their place, each after those it needs, otherwise as in the file. Fewer than there are when steps need each other.
std::vector<std::size_t> in_order(const std::vector<step>&);

// -- expansion -----------------------------------------------------------------------

using values = std::map<std::string, std::string, std::less<>>;

/// What every parameter is, with what was given. What is wrong with the values is added to `problems`.
values settle(const routine&, const values& given, std::vector<problem>& problems);

/// One step of a run.
struct planned_step {
  step what;
  /// Places, in the plan, of the steps it needs; all are smaller than its own.
  std::vector<std::size_t> needs;
};

/// The steps in an order in which each comes after those it needs, with the values for their placeholders. `root`: files are
/// relative to it and become absolute; a repository's stay inside it. What does not fit is added to `problems`.
std::vector<planned_step> plan(const routine&, origin, const values&, const std::string& root, std::vector<problem>& problems);

/// The text with ${name} replaced and $${ as ${, in one go: what a value holds is not looked at again. A name without a value stays.
std::string filled_in(std::string_view text, const values&);

} // namespace swarm::routines
