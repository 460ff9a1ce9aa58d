#include "cli/hook/store.hpp"

#include "actors/base/atomic_file.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "actors/domain/json_text.hpp"
#include "gateway/json/shapes.hpp"

#include <algorithm>
#include <future>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::size_t name_characters = 32;

fs::path directory_of(const fs::path& state_directory, std::string_view agent) { return state_directory / "hooks" / agent; }

template <class T>
T read(const json& from, const char* name, T otherwise) {
  auto i = from.find(name);
  if (i == from.end())
    return otherwise;
  if constexpr (std::is_same_v<T, std::string>)
    return i->is_string() ? i->template get<std::string>() : otherwise;
  else if constexpr (std::is_same_v<T, bool>)
    return i->is_boolean() ? i->template get<bool>() : otherwise;
  else
    return i->is_number_integer() ? i->template get<T>() : otherwise;
}

const json& part(const json& from, const char* name) {
  static const json none = json::array();
  auto i = from.find(name);
  return i != from.end() && i->is_structured() ? *i : none;
}

json as_json(const file_stamp& s) { return s.there ? json::array({s.mtime_ns, s.inode, s.size}) : json(nullptr); }

file_stamp stamp_from(const json& j) {
  if (!j.is_array() || j.size() != 3 || !j[0].is_number_integer() || !j[1].is_number_integer() || !j[2].is_number_integer())
    return {};
  return {true, j[0].get<std::int64_t>(), j[1].get<std::uint64_t>(), j[2].get<std::int64_t>()};
}

json as_json(const hook_memory& m) {
  json out = {{"id", m.id},
              {"scope", m.scope},
              {"directory", m.directory},
              {"root", m.root},
              {"file_root", m.file_root},
              {"registered", m.registered},
              {"gateway", m.coordinator},
              {"state", static_cast<int>(m.state)},
              {"reported_at_ms", m.reported_at_ms}};
  for (const auto& [path, lock] : m.taken)
    out["taken"].push_back({{"path", path}, {"fence", lock.fence}, {"users", lock.users}});
  for (const auto& c : m.calls) {
    json call = {{"key", c.key}, {"from_ms", c.from_ms}, {"to_ms", c.to_ms}, {"paths", c.paths}, {"locks", c.locks}};
    for (const auto& w : c.watched)
      call["watched"].push_back({{"path", w.path}, {"file", w.file}, {"holder", w.holder}, {"before", as_json(w.before)}});
    out["calls"].push_back(std::move(call));
  }
  return out;
}

hook_memory memory_from(const json& j) {
  hook_memory m;
  m.id = read(j, "id", std::string{});
  m.scope = read(j, "scope", std::string{});
  m.directory = read(j, "directory", std::string{});
  m.root = read(j, "root", std::string{});
  m.file_root = read(j, "file_root", std::string{});
  m.registered = read(j, "registered", false);
  m.coordinator = read(j, "gateway", false);
  if (auto state = read(j, "state", 0); v1::AgentReport::State_IsValid(state))
    m.state = static_cast<v1::AgentReport::State>(state);
  m.reported_at_ms = read(j, "reported_at_ms", std::int64_t{0});
  for (const auto& lock : part(j, "taken"))
    m.taken[read(lock, "path", std::string{})] = {read(lock, "fence", std::uint64_t{0}), read(lock, "users", std::int64_t{0})};
  for (const auto& call : part(j, "calls")) {
    tool_call_seen c;
    c.key = read(call, "key", std::string{});
    c.from_ms = read(call, "from_ms", std::int64_t{0});
    c.to_ms = read(call, "to_ms", std::int64_t{0});
    for (const auto& path : part(call, "paths"))
      if (path.is_string())
        c.paths.push_back(path);
    for (const auto& path : part(call, "locks"))
      if (path.is_string())
        c.locks.push_back(path);
    for (const auto& w : part(call, "watched"))
      c.watched.push_back({read(w, "path", std::string{}), read(w, "file", std::string{}), read(w, "holder", std::string{}),
                           stamp_from(w.contains("before") ? w["before"] : json())});
    m.calls.push_back(std::move(c));
  }
  return m;
}

std::optional<hook_memory> read_memory(const fs::path& file) {
  unique_fd fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
      static_cast<std::size_t>(st.st_size) > limits::hook_record_bytes_max)
    return std::nullopt;
  std::string text(static_cast<std::size_t>(st.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    auto n = ::read(fd.get(), text.data() + size, text.size() - size);
    if (n <= 0)
      break;
    size += static_cast<std::size_t>(n);
  }
  auto parsed = domain::parse_json(std::string_view{text}.substr(0, size));
  return parsed && parsed->is_object() ? std::optional{memory_from(*parsed)} : std::nullopt;
}

/// Not synced to disk: every hook writes it, and a power cut ends every session anyway.
bool write_memory(const fs::path& file, const std::string& text) { return !replace_file(file, text, durability::cached); }

/// Visits the session files below `directory`: those of one agent program, or of all.
template <class Visit>
void for_each_file(const fs::path& directory, Visit visit) {
  std::error_code ec;
  std::size_t seen = 0;
  for (auto i = fs::recursive_directory_iterator(directory, fs::directory_options::skip_permission_denied, ec);
       !ec && i != fs::recursive_directory_iterator(); i.increment(ec))
    if (i->path().extension() == ".json" && ++seen <= limits::hook_records_max && i->is_regular_file(ec))
      visit(i->path());
}

bool make_private(const fs::path& directory) {
  std::error_code ec;
  fs::create_directories(directory.parent_path(), ec);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return false;
  struct stat st {};
  return lstat(directory.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
         ((st.st_mode & 0777) == 0700 || chmod(directory.c_str(), 0700) == 0);
}

bool lock_directory(int fd, bool wait) { return flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0; }

/// One file serves all sessions, each has a byte of it: a file of its own could not be removed while another hook opens it.
bool lock_number(int fd, std::int64_t number, bool wait) {
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = number;
  byte.l_len = 1;
  return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &byte) == 0;
}

/// The descriptor, locked against other hooks; nothing when that fails. Sets `kept_out` when other hooks held the lock for longer than `patience`.
/// These locks have no deadline, so a thread waits. It is left behind with its descriptor when the time is up, because the process ends soon.
unique_fd locked(unique_fd fd, const std::function<bool(int fd, bool wait)>& lock, std::chrono::milliseconds patience, bool& kept_out) {
  if (!fd || lock(fd.get(), false))
    return fd;
  if (errno != EWOULDBLOCK && errno != EACCES)
    return {};
  std::promise<unique_fd> done;
  auto waits = done.get_future();
  std::thread{[fd = std::move(fd), lock, done = std::move(done)]() mutable {
    if (!lock(fd.get(), true))
      fd = {};
    done.set_value(std::move(fd));
  }}.detach();
  kept_out = waits.wait_for(patience) != std::future_status::ready;
  return kept_out ? unique_fd{} : waits.get();
}

} // namespace

file_stamp stamp_of(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0)
    return {};
  return {true, st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec, st.st_ino, st.st_size};
}

hook_store::hook_store(const fs::path& state_directory, std::string_view agent, std::string_view session, std::chrono::milliseconds patience)
  : directory_(directory_of(state_directory, agent)), patience_(patience) {
  if (session.empty())
    return;
  file_ = directory_ / (to_hex(sha256(session)).substr(0, name_characters) + ".json");
  constexpr std::size_t digits = 15; // as many as fit a file's offset
  number_ = std::stoll(to_hex(sha256(file_.string())).substr(0, digits), nullptr, 16);
}

std::optional<hook_memory> hook_store::load() const { return file_.empty() ? std::nullopt : read_memory(file_); }

bool hook_store::make_place() const {
  return make_private(directory_.parent_path().parent_path()) && make_private(directory_.parent_path()) && make_private(directory_);
}

bool hook_store::update(const std::function<bool(hook_memory&)>& change, bool create) {
  if (file_.empty() || kept_out_)
    return false;
  if (create && !make_place())
    return false;
  auto lock = locked(unique_fd{open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)}, lock_directory, patience_, kept_out_);
  if (!lock)
    return false;
  auto memory = read_memory(file_);
  if (!memory && !create)
    return false;
  hook_memory now = memory.value_or(hook_memory{});
  if (!change(now))
    return false;
  // Calls that are over are forgotten first.
  while (now.calls.size() > limits::hook_calls_max) {
    auto over = std::find_if(now.calls.begin(), now.calls.end(), [](const auto& c) { return c.to_ms != 0; });
    now.calls.erase(over == now.calls.end() ? now.calls.begin() : over);
  }
  return write_memory(file_, mcp::dump(as_json(now), -1));
}

unique_fd hook_store::turn(std::chrono::milliseconds patience) {
  if (file_.empty() || !make_place())
    return {};
  bool too_long = false;
  unique_fd fd{open((directory_.parent_path() / "turns").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  return locked(
    std::move(fd), [number = number_](int file, bool wait) { return lock_number(file, number, wait); }, patience, too_long);
}

void hook_store::remove() const {
  if (!file_.empty())
    unlink(file_.c_str());
}

bool hook_store::is_anothers(const std::string& session_id) const {
  bool found = false;
  for_each_file(directory_.parent_path(), [&](const fs::path& file) {
    auto memory = found || file == file_ ? std::nullopt : read_memory(file);
    found = found || (memory && memory->id == session_id);
  });
  return found;
}

bool hook_store::may_have_written(const fs::path& state_directory, const std::string& session_id, const std::string& path, std::int64_t since_ms) {
  bool found = false;
  if (session_id.empty())
    return found;
  for_each_file(state_directory / "hooks", [&](const fs::path& file) {
    auto memory = found ? std::nullopt : read_memory(file);
    if (!memory || memory->id != session_id)
      return;
    for (const auto& c : memory->calls)
      if ((c.to_ms == 0 || c.to_ms >= since_ms) && (c.paths.empty() || std::find(c.paths.begin(), c.paths.end(), path) != c.paths.end()))
        found = true;
  });
  return found;
}

std::optional<hook_memory> hook_store::only_one(const fs::path& state_directory, std::string_view agent) {
  std::optional<hook_memory> out;
  std::size_t count = 0;
  for_each_file(directory_of(state_directory, agent), [&](const fs::path& file) {
    auto memory = read_memory(file);
    if (memory && !memory->id.empty() && ++count == 1)
      out = std::move(memory);
  });
  return count == 1 ? out : std::nullopt;
}

void hook_store::remove_old(const fs::path& state_directory, std::int64_t lease_ms) {
  auto now = fs::file_time_type::clock::now();
  for_each_file(state_directory / "hooks", [&](const fs::path& file) {
    std::error_code ec;
    if (auto at = fs::last_write_time(file, ec); !ec && now - at > std::chrono::milliseconds{lease_ms})
      fs::remove(file, ec);
  });
}

} // namespace swarm::cli
