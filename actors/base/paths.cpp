#include "actors/base/paths.hpp"

#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"

namespace fs = std::filesystem;

namespace swarm {

std::string normalize_path(std::string_view path, std::string_view cwd) {
  fs::path p{path};
  if (p.is_relative())
    p = fs::path{cwd} / p;
  auto out = p.lexically_normal().string();
  while (out.size() > 1 && out.back() == '/')
    out.pop_back();
  // POSIX leaves "//x" alone; we do not.
  while (out.size() > 1 && out[0] == '/' && out[1] == '/')
    out.erase(0, 1);
  return out;
}

std::string git_root(const std::string& directory) {
  for (fs::path p{directory};; p = p.parent_path()) {
    std::error_code ec;
    if (fs::symlink_status(p / ".git", ec).type() != fs::file_type::not_found && !ec)
      return p.string();
    if (!p.has_relative_path())
      return directory;
  }
}

std::string real_path(const std::string& path) {
  std::error_code ec;
  auto out = fs::weakly_canonical(path, ec);
  return ec || out.empty() ? path : normalize_path(out.string(), "/");
}

namespace {

/// The first part of `path` that is a symbolic link, or empty.
std::string first_link(const std::string& path) {
  std::error_code ec;
  for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    auto part = path.substr(0, slash);
    if (fs::is_symlink(fs::symlink_status(part, ec)))
      return part;
    if (slash == path.npos)
      return {};
  }
}

} // namespace

std::string target_path(const std::string& path) {
  constexpr int links_max = 40; // as the kernel
  auto out = path;
  for (int i = 0; i < links_max; ++i) {
    std::error_code ec;
    out = real_path(out);
    auto link = first_link(out);
    if (link.empty())
      return out;
    auto target = fs::read_symlink(link, ec);
    if (ec)
      return path;
    out = (fs::path{link}.parent_path() / target).string() + out.substr(link.size());
  }
  return path;
}

std::string resolve_scope(std::string_view value, const std::string& directory) {
  value = trimmed(value);
  if (value.empty()) {
    auto of_worker = scope_of_worker_tree(directory);
    return of_worker.empty() ? real_path(git_root(directory)) : of_worker;
  }
  if (is_named_scope(value))
    return std::string{value};
  return real_path(normalize_path(value, directory));
}

bool is_named_scope(std::string_view scope) noexcept {
  if (scope.size() > git_scope_prefix.size() && scope.substr(0, git_scope_prefix.size()) == git_scope_prefix)
    return true;
  return !scope.empty() && scope.find('/') == std::string_view::npos && scope != "." && scope != "..";
}

bool is_inside(std::string_view base, std::string_view path) {
  if (base == path || base == "/")
    return !path.empty() && path.front() == '/';
  return path.size() > base.size() && path.substr(0, base.size()) == base && path[base.size()] == '/';
}

std::string path_below(std::string_view root, std::string_view path) {
  if (root == path)
    return ".";
  return is_inside(root, path) ? std::string{path.substr(root == "/" ? 1 : root.size() + 1)} : std::string{path};
}

std::string path_from(std::string_view root, std::string_view path) {
  if (path.empty() || path.front() == '/' || root.empty())
    return std::string{path};
  return path == "." ? std::string{root} : std::string{root} + (root == "/" ? "" : "/") + std::string{path};
}

bool is_resolved_path(std::string_view path) {
  if (path.empty() || path.find('\0') != path.npos)
    return false;
  return path == "." || normalize_path(path, "/") == (path.front() == '/' ? std::string{path} : "/" + std::string{path});
}

namespace {

std::string rebase(std::string_view path, std::string_view from, const std::string& to) {
  if (path == from)
    return to;
  auto rest = path.substr(from == "/" ? 1 : from.size() + 1);
  return normalize_path(rest, to);
}

} // namespace

std::string absolute_path(std::string_view path) {
  if (path.starts_with('/'))
    return normalize_path(path, "/");
  std::error_code ec;
  const auto here = fs::current_path(ec);
  if (ec)
    throw std::runtime_error(
      concat({"the working directory cannot be read (", ec.message(), "), and the path ", path, " begins there; give an absolute one"}));
  return normalize_path(path, here.string());
}

std::string_view file_word(std::string_view input, const std::string& directory) {
  const auto word = trimmed(input);
  if (word.empty() || word.size() == input.size())
    return word;
  std::error_code ec;
  const auto there = fs::symlink_status(normalize_path(input, directory), ec);
  return fs::exists(there) ? input : word;
}

std::string resolve_file(std::string_view input, const std::string& directory, const std::string& file_root, const std::string& root) {
  const auto& logical_dir = file_root.empty() ? directory : file_root;
  if (input.empty())
    return logical_dir;
  if (input.front() != '/')
    return normalize_path(input, logical_dir);
  auto path = normalize_path(input, "/");
  if (is_inside(root, path))
    return rebase(path, root, git_root(logical_dir));
  if (is_inside(directory, path))
    return rebase(path, directory, logical_dir);
  return path;
}

state_dir default_state_dir() {
  auto env = [](const char* name) -> std::string {
    auto v = std::getenv(name);
    return v ? v : "";
  };
  std::string dir = env("SWARM_HOME");
  if (dir.empty()) {
    if (auto xdg = env("XDG_STATE_HOME"); !xdg.empty() && xdg.front() == '/')
      dir = xdg + "/swarm";
    else if (auto home = env("HOME"); !home.empty())
      dir = home + "/.local/state/swarm";
    else
      throw std::runtime_error("neither SWARM_HOME nor HOME is set; set SWARM_HOME to a directory for the node's state");
  }
  return {absolute_path(dir)};
}

void prepare(const state_dir& dir) {
  auto own = [](const fs::path& p) {
    std::error_code ec;
    fs::create_directories(p, ec);
    struct stat st {};
    if (lstat(p.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
      throw std::runtime_error("cannot create the directory " + p.string() + (ec ? ": " + ec.message() : ""));
    if (st.st_uid != geteuid())
      throw std::runtime_error(p.string() + " belongs to another user; set SWARM_HOME to a directory of your own");
    if ((st.st_mode & 0777) != 0700 && chmod(p.c_str(), 0700) != 0)
      throw std::runtime_error("cannot set mode 0700 on " + p.string());
  };
  own(dir.root);
  own(dir.log_dir());
  own(dir.pty_dir());
}

socket_name::socket_name(const fs::path& socket) : text_(socket.string()) {
  if (text_.size() < sizeof(sockaddr_un::sun_path))
    return;
  dir_fd_ = open(socket.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd_ < 0)
    throw std::runtime_error("cannot open " + socket.parent_path().string());
  text_ = "/proc/self/fd/" + std::to_string(dir_fd_) + "/" + socket.filename().string();
}

socket_name::~socket_name() {
  if (dir_fd_ >= 0)
    close(dir_fd_);
}

} // namespace swarm
