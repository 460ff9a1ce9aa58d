#include "gateway/routine/places.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::routines {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view ending = ".toml";
constexpr std::array all_origins{origin::user, origin::shipped, origin::repository};

const fs::path& directory_of(const places& where, origin from) {
  switch (from) {
    case origin::repository: return where.repository;
    case origin::user: return where.user;
    default: return where.shipped;
  }
}

fs::path file_of(const places& where, origin from, std::string_view name) {
  return directory_of(where, from) / (std::string{name} + std::string{ending});
}

/// At most one byte more than is allowed; the reading refuses that. Nothing for what is no plain file.
std::optional<std::string> bytes_of(const fs::path& file, origin from) {
  // A repository's file is no way to another one.
  unique_fd fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (from == origin::repository ? O_NOFOLLOW : 0))};
  struct stat what {};
  if (!fd || fstat(fd.get(), &what) != 0 || !S_ISREG(what.st_mode))
    return std::nullopt;
  std::string out(limits::routine_bytes_max + 1, '\0');
  std::size_t size = 0;
  while (size < out.size()) {
    auto n = read(fd.get(), out.data() + size, out.size() - size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return std::nullopt;
    if (n == 0)
      break;
    size += static_cast<std::size_t>(n);
  }
  out.resize(size);
  return out;
}

bool is_there(const places& where, origin from, std::string_view name) {
  struct stat what {};
  return !directory_of(where, from).empty() && lstat(file_of(where, from, name).c_str(), &what) == 0;
}

routine_file read_routine(const places& where, origin from, std::string name) {
  routine_file out;
  out.name = std::move(name);
  out.from = from;
  out.file = file_of(where, from, out.name);
  auto text = bytes_of(out.file, from);
  if (!text) {
    out.content.problems.push_back({0, "cannot be read, or is no plain file"});
    return out;
  }
  out.text = std::move(*text);
  out.content = parse(out.text, out.name);
  out.digest = to_hex(sha256(out.text));
  return out;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> out;
  std::error_code ec;
  if (directory.empty())
    return out;
  for (fs::directory_iterator i{directory, ec}, end; !ec && i != end && out.size() < limits::routines_max; i.increment(ec))
    if (auto name = i->path().stem().string(); i->path().extension() == ending && is_plain_name(name))
      out.push_back(std::move(name));
  std::sort(out.begin(), out.end());
  return out;
}

/// The place a full name begins with, and the rest.
std::pair<std::optional<origin>, std::string_view> parts_of(std::string_view name) {
  for (auto from : all_origins)
    if (std::string_view place = to_text(from); name.size() > place.size() && name.substr(0, place.size()) == place && name[place.size()] == '/')
      return {from, name.substr(place.size() + 1)};
  return {std::nullopt, name};
}

} // namespace

places places_of(const std::string& directory, const std::string& state_directory, const std::string& share) {
  places out;
  out.root = git_root(directory);
  out.repository = fs::path{out.root} / ".swarm" / "routines";
  out.user = fs::path{state_directory} / "routines";
  out.trust = fs::path{state_directory} / "trusted-routines.json";
  if (auto shared = share_directory(share); !shared.empty())
    out.shipped = shared / "routines";
  return out;
}

std::string routine_file::problems_text() const {
  std::string out;
  for (const auto& p : content.problems)
    out += (out.empty() ? "" : "\n") + escape_control(file.string(), false) + ":" + (p.line > 0 ? std::to_string(p.line) + ":" : "") + " " + p.text;
  return out;
}

std::vector<routine_file> list(const places& where) {
  std::vector<routine_file> out;
  for (auto from : all_origins)
    for (auto& name : names_in(directory_of(where, from)))
      out.push_back(read_routine(where, from, std::move(name)));
  return out;
}

found find(const places& where, std::string_view name) {
  auto [place, plain] = parts_of(name);
  if (!is_plain_name(plain))
    return {std::nullopt, "\"" + escape_control(utf8_prefix(name, limits::id_bytes_max), false) +
                            "\" is no name of a routine: letters, digits, - and _, perhaps with repository/, user/ or shipped/ before it"};
  std::vector<origin> there;
  for (auto from : all_origins)
    if ((!place || *place == from) && is_there(where, from, plain))
      there.push_back(from);
  if (there.empty())
    return {std::nullopt, "there is no routine " + std::string{name} + "; see: swarmctl routine list"};
  if (there.size() > 1 && there.back() == origin::repository)
    return {std::nullopt, "the routine " + std::string{plain} + " is in the repository and elsewhere; say which one is meant: repository/" +
                            std::string{plain} + " or " + to_text(there.front()) + "/" + std::string{plain}};
  return {read_routine(where, there.front(), std::string{plain}), {}};
}

} // namespace swarm::routines
