#include "gateway/routine/trust.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "actors/domain/json_text.hpp"

namespace swarm::routines {

namespace {

namespace fs = std::filesystem;
using domain::json;

/// An entry is a digest, a path and a time.
constexpr std::size_t file_bytes_max = limits::routines_max * 8 * limits::kib;

/// Entries {digest, file, at}, the oldest first; nothing when there is no such file or we did not write it.
json entries_in(const fs::path& file) {
  std::string text(file_bytes_max + 1, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  auto out = text.size() > file_bytes_max ? std::nullopt : domain::parse_json(text);
  return out && out->is_array() ? std::move(*out) : json::array();
}

bool has(const json& entry, const char* name, const std::string& value) {
  return entry.is_object() && entry.contains(name) && entry[name].is_string() && entry[name].get_ref<const std::string&>() == value;
}

void replace(const fs::path& file, const std::string& text) {
  if (auto error = replace_file(file, text))
    throw std::runtime_error("cannot write " + file.string() + ": " + error.message());
}

} // namespace

const char* to_text(trust t) noexcept {
  switch (t) {
    case trust::given: return "trusted";
    case trust::changed: return "changed";
    default: return "untrusted";
  }
}

trust trust_of(const places& where, const routine_file& r) {
  if (r.from != origin::repository)
    return trust::given;
  bool known = false;
  for (const auto& entry : entries_in(where.trust)) {
    if (!r.digest.empty() && has(entry, "digest", r.digest))
      return trust::given;
    known = known || has(entry, "file", r.file.string());
  }
  return known ? trust::changed : trust::missing;
}

void trust_it(const places& where, const routine_file& r, std::int64_t now_ms) {
  prepare(state_dir{where.trust.parent_path()});
  // Two who trust at once come one after the other.
  unique_fd directory{open(where.trust.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory || flock(directory.get(), LOCK_EX) != 0)
    throw std::runtime_error("cannot lock " + where.trust.parent_path().string() + ": " + std::generic_category().message(errno));
  auto kept = json::array();
  for (auto& entry : entries_in(where.trust))
    if (!has(entry, "digest", r.digest))
      kept.push_back(std::move(entry));
  while (kept.size() >= limits::routines_max)
    kept.erase(0);
  kept.push_back({{"digest", r.digest}, {"file", r.file.string()}, {"at", now_ms / 1000}});
  replace(where.trust, kept.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

std::string objection(const places& where, const routine_file& r) {
  switch (trust_of(where, r)) {
    case trust::given: return {};
    case trust::changed:
      return "the repository's routine " + r.name + " has changed since it was trusted. Look at it and trust it again: swarmctl routine trust " +
             r.full_name();
    default:
      return "the routine " + r.name + " is the repository's and not trusted yet. Look at it and trust it: swarmctl routine trust " + r.full_name();
  }
}

} // namespace swarm::routines
