// Path and scope rules as in swarm-mcp, and the names inside the state directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace swarm {

/// Absolute against `cwd`, then lexically normalised: no `.`, `..`, doubled or trailing slashes. Symbolic links are not resolved.
std::string normalize_path(std::string_view path, std::string_view cwd);
/// The same against the working directory of this process, which may have been removed: only a path that begins there needs it. Throws
/// std::runtime_error.
std::string absolute_path(std::string_view path);
/// Nearest ancestor-or-self holding an entry named `.git`, else the directory itself. Reads the file system.
std::string git_root(const std::string& directory);
/// The path without symbolic links, as far as it exists. Reads the file system.
std::string real_path(const std::string& path);
/// The file that a write to the path changes or makes: real_path stops at a link whose target does not exist. Reads the file system.
std::string target_path(const std::string& path);
/// A value without `/` names a scope; any other value is a path; no value means the git root of `directory`. A repository is one scope, by whatever
/// symbolic link it is reached. Reads the file system.
std::string resolve_scope(std::string_view value, const std::string& directory);
/// What the scope of a repository begins with; the normalised git remote follows.
inline constexpr std::string_view git_scope_prefix = "git:";
/// True for a scope that is a name rather than a path: one without `/`, or of a repository.
bool is_named_scope(std::string_view scope) noexcept;
/// As scopes that are no directory hold paths: relative to the root they lie in, "." for itself; a path elsewhere as it is.
std::string path_below(std::string_view root, std::string_view path);
/// The inverse. Without a root a relative path stays so.
std::string path_from(std::string_view root, std::string_view path);
/// Absolute and normalised; or the same below some root, which it does not leave.
bool is_resolved_path(std::string_view path);
/// `path` relative to `base` does not leave it.
bool is_inside(std::string_view base, std::string_view path);
/// The name of a file as swarm-mcp takes it: without the blanks around it, unless a file is really called so. Reads the file system.
std::string_view file_word(std::string_view input, const std::string& directory);
/// The file that an argument names, as in swarm-mcp, but with the blanks of its name. All arguments but `input` are normalised absolute paths.
std::string resolve_file(std::string_view input, const std::string& directory, const std::string& file_root, const std::string& root);

/// Where a node keeps everything. Two state directories never meet.
struct state_dir {
  std::filesystem::path root;

  std::filesystem::path database() const { return root / "swarm.db"; }
  std::filesystem::path socket() const { return root / "swarmd.sock"; }
  std::filesystem::path keeper_socket() const { return root / "keeper.sock"; }
  std::filesystem::path lock_file() const { return root / "swarmd.lock"; }
  /// While it is there, the operator has stopped the node: only `swarmctl up`, or swarmd itself without --if-wanted, starts it.
  std::filesystem::path stopped_mark() const { return root / "stopped"; }
  /// What each terminal of a person has made last.
  std::filesystem::path recent_dir() const { return root / "recent"; }
  std::filesystem::path config_file() const { return root / "config.toml"; }
  std::filesystem::path node_file() const { return root / "node.json"; }
  /// The hash of the passphrase of `swarmctl login`.
  std::filesystem::path login_file() const { return root / "login.hash"; }
  /// Which agents run on this host, and as which sessions.
  std::filesystem::path agents_file() const { return root / "agents.json"; }
  std::filesystem::path log_dir() const { return root / "log"; }
  std::filesystem::path pty_dir() const { return root / "pty"; }
};

/// `$SWARM_HOME`, else `$XDG_STATE_HOME/swarm`, else `~/.local/state/swarm`. Throws std::runtime_error when none can be formed.
state_dir default_state_dir();
/// Creates the directory and its children with mode 0700, or tightens them; throws std::runtime_error if they are not ours.
void prepare(const state_dir&);

/// A name for a socket file that fits sockaddr_un (108 bytes) however deep its directory is: the path itself if short enough,
/// else /proc/self/fd/<n>/<file> over a descriptor of the directory that this object keeps open.
class socket_name {
public:
  explicit socket_name(const std::filesystem::path& socket);
  ~socket_name();
  socket_name(const socket_name&) = delete;
  socket_name& operator=(const socket_name&) = delete;
  const std::string& text() const noexcept { return text_; }

private:
  int dir_fd_ = -1;
  std::string text_;
};

} // namespace swarm
