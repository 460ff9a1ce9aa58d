// Secrets of others that this user keeps for the node, such as keys of models: a file of mode 0600 for each name, in the state directory. What needs
// one names it: secret:NAME.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/base/result.hpp"

namespace swarm {

inline constexpr std::string_view secret_prefix = "secret:";
using limits::secret_bytes_max, limits::secret_name_bytes_max, limits::secrets_max;

/// Where a node keeps them.
inline std::filesystem::path secrets_directory(const std::filesystem::path& state_directory) { return state_directory / "secrets"; }

/// Why this is no name of a secret, as a sentence that does not repeat it; empty when it is one.
std::string objection_to_secret_name(std::string_view name);

struct private_text {
  std::string bytes;
};
/// A regular file of this user, of at most secret_bytes_max, without waiting; `only_ours`: refused if others can read it. The failure begins with the
/// path.
result<private_text, std::string> read_private_text(const std::filesystem::path&, bool only_ours);

/// Each failure is for people. No failure and no log holds a value.
class secret_store {
public:
  explicit secret_store(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// In order. A file that is no secret's is not named.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  /// Makes the directory when it is not there; puts the value in the place of a former one. Empty = done.
  std::string set(std::string_view name, std::string_view value) const;
  /// Empty = done.
  std::string remove(std::string_view name) const;
  /// Fails for anything but a regular file of this user that others cannot read.
  result<private_text, std::string> read(std::string_view name) const;

private:
  std::filesystem::path directory_;
};

} // namespace swarm
