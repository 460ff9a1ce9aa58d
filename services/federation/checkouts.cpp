#include "services/federation/checkouts.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include <google/protobuf/util/json_util.h>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "services/security/private_file.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

/// How much of one of git's files is read.
constexpr std::size_t git_file_bytes_max = 64 * limits::kib;

std::string read_text(const fs::path& file) {
  std::string out(git_file_bytes_max, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return out;
}

/// The directory where git keeps what all worktrees of the repository share.
fs::path common_directory(const fs::path& root) {
  std::error_code ec;
  auto git = root / ".git";
  if (fs::is_directory(git, ec))
    return git;
  auto link = read_text(git);
  constexpr std::string_view prefix = "gitdir:";
  if (link.rfind(prefix, 0) != 0)
    return {};
  auto own = fs::path{normalize_path(trimmed(std::string_view{link}.substr(prefix.size())), root.string())};
  auto common = read_text(own / "commondir");
  return common.empty() ? own : fs::path{normalize_path(trimmed(common), own.string())};
}

std::string lower(std::string_view s) {
  std::string out{s};
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

} // namespace

std::string normalized_remote(std::string_view url) {
  url = trimmed(url);
  std::string_view host;
  std::string_view path = url;
  if (auto scheme = url.find("://"); scheme != url.npos) {
    auto local = url.substr(0, scheme) == "file";
    auto rest = url.substr(scheme + 3);
    auto slash = std::min(rest.find('/'), rest.size());
    host = local ? std::string_view{} : rest.substr(0, slash);
    path = rest.substr(slash);
  } else if (auto colon = url.find(':'); colon != url.npos && url.find('/') > colon) {
    host = url.substr(0, colon); // host:path, as scp has it
    path = url.substr(colon + 1);
  }
  if (auto at = host.rfind('@'); at != host.npos)
    host = host.substr(at + 1);
  if (auto port = host.rfind(':'); port != host.npos && host.find(']', port) == host.npos)
    host = host.substr(0, port);
  auto ends = [&](std::string_view tail) { return path.size() > tail.size() && path.substr(path.size() - tail.size()) == tail; };
  while (!path.empty() && path.back() == '/')
    path.remove_suffix(1);
  if (ends(".git"))
    path.remove_suffix(4);
  while (!path.empty() && path.back() == '/')
    path.remove_suffix(1);
  while (!host.empty() && !path.empty() && path.front() == '/')
    path.remove_prefix(1);
  if (path.empty())
    return {};
  auto out = host.empty() ? std::string{path} : lower(host) + "/" + std::string{path};
  return is_utf8(out) && out.find('\0') == out.npos && out.size() <= limits::path_bytes_max() - git_scope_prefix.size() ? out : std::string{};
}

std::string remote_of(const fs::path& root) {
  auto common = common_directory(root);
  if (common.empty())
    return {};
  std::istringstream config{read_text(common / "config")};
  auto in_origin = false;
  for (std::string line; std::getline(config, line);) {
    auto text = trimmed(line);
    if (!text.empty() && text.front() == '[')
      in_origin = text.rfind("[remote \"origin\"]", 0) == 0;
    if (!in_origin || lower(text.substr(0, 3)) != "url")
      continue;
    if (auto is = text.find('='); is != text.npos && trimmed(text.substr(3, is - 3)).empty())
      return normalized_remote(text.substr(is + 1));
  }
  return {};
}

bool is_repository_root(const fs::path& root) {
  std::error_code ec;
  return fs::symlink_status(root / ".git", ec).type() != fs::file_type::not_found && !ec;
}

security_result<std::unique_ptr<checkouts>> checkouts::open(fs::path file) {
  std::unique_ptr<checkouts> out{new checkouts{std::move(file)}};
  auto text = read_private_file(out->file_, limits::cluster_file_bytes_max);
  if (!text)
    return text.failure();
  if (*text)
    if (auto read = google::protobuf::util::JsonStringToMessage(std::string{(*text)->view()}, &out->all_); !read.ok())
      return security_failure{security_error::malformed, concat({out->file_.string(), " is damaged: ", std::string{read.message()},
                                                                 ". Remove it, and share the checkouts again"})};
  out->empty_ = out->all_.checkouts().empty();
  return out;
}

namespace {

/// The scope is that of a repository, and the remote is not its.
bool is_of_other_repository(const std::string& scope, const std::string& remote) {
  return scope.starts_with(git_scope_prefix) && scope != std::string{git_scope_prefix} + remote;
}

/// Drops learned checkouts whose directory is no longer a repository.
v1::CheckoutList without_gone(v1::CheckoutList all) {
  auto& rows = *all.mutable_checkouts();
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const auto& c) { return !c.declared() && !is_repository_root(c.root()); }), rows.end());
  return all;
}

} // namespace

std::optional<security_failure> checkouts::keep(v1::CheckoutList next) {
  std::sort(next.mutable_checkouts()->begin(), next.mutable_checkouts()->end(), [](const auto& a, const auto& b) { return a.root() < b.root(); });
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  if (auto printed = google::protobuf::util::MessageToJsonString(next, &text, options); !printed.ok())
    return security_failure{security_error::failed, std::string{printed.message()}};
  if (text.size() > limits::cluster_file_bytes_max)
    return security_failure{security_error::too_many,
                            "the list of checkouts is longer than 1 MiB: take one back with `swarmctl scope unshare DIRECTORY`"};
  if (auto failed = prepare_private_directory(file_.parent_path()))
    return failed;
  if (auto failed = write_private_file(file_, text))
    return failed;
  all_ = std::move(next);
  empty_ = all_.checkouts().empty();
  return std::nullopt;
}

std::string checkouts::scope_of(std::string_view named) const {
  if (empty() || named.empty() || named.front() != '/')
    return std::string{named};
  std::lock_guard guard{mutex_};
  for (const auto& c : all_.checkouts())
    if (c.declared() && c.root() == named)
      return c.scope();
  return std::string{named};
}

std::string checkouts::stored(std::string_view scope, std::string_view path) const {
  if (empty() || path.empty() || path.front() != '/')
    return std::string{path};
  std::lock_guard guard{mutex_};
  const std::string* longest = nullptr;
  for (const auto& c : all_.checkouts())
    if (c.scope() == scope && is_inside(c.root(), path) && (!longest || c.root().size() > longest->size()))
      longest = &c.root();
  return longest ? path_below(*longest, path) : std::string{path};
}

std::string checkouts::root_for(std::string_view scope, std::string_view directory) const {
  if (empty())
    return {};
  std::lock_guard guard{mutex_};
  const v1::Checkout* first = nullptr; // a declared checkout goes before a learned one
  std::string inside;
  for (const auto& c : all_.checkouts()) {
    if (c.scope() != scope)
      continue;
    if (!first || (c.declared() && !first->declared()))
      first = &c;
    if (!directory.empty() && is_inside(c.root(), directory) && c.root().size() > inside.size())
      inside = c.root();
  }
  return inside.empty() && first ? first->root() : inside;
}

namespace {

bool is_replaced(const v1::Checkout& c) { return !c.remote().empty() && remote_of(c.root()) != c.remote(); }

} // namespace

std::string checkouts::root_for_worker(std::string_view scope) const {
  const auto all = list();
  const v1::Checkout* first = nullptr;
  for (const auto& c : all.checkouts())
    if (c.scope() == scope && (!first || (c.declared() && !first->declared())) && !is_replaced(c))
      first = &c;
  return first ? first->root() : std::string{};
}

std::optional<v1::Checkout> checkouts::replaced(std::string_view scope, std::string_view directory) const {
  const auto root = root_for(scope, directory);
  if (root.empty() || !is_inside(root, directory))
    return std::nullopt;
  const auto all = list();
  for (const auto& c : all.checkouts())
    if (c.root() == root && is_replaced(c))
      return c;
  return std::nullopt;
}

v1::CheckoutList checkouts::list() const {
  std::lock_guard guard{mutex_};
  return all_;
}

std::vector<std::string> checkouts::scopes() const {
  std::lock_guard guard{mutex_};
  std::set<std::string> out;
  for (const auto& c : all_.checkouts())
    out.insert(c.scope());
  return {out.begin(), out.end()};
}

namespace {

std::string named_remote(const std::string& remote) { return remote.empty() ? "no remote \"origin\"" : concat({"the remote ", remote}); }

/// In one scope the files of two repositories would have the same names.
std::optional<security_failure> is_of_another_repository(const v1::CheckoutList& all, const v1::Checkout& declared) {
  if (is_of_other_repository(declared.scope(), declared.remote()))
    return security_failure{security_error::wrong_state,
                            concat({declared.root(), " has ", named_remote(declared.remote()), ", so it is no checkout of ", declared.scope(),
                                    ": set its remote \"origin\", or give it a scope of its own, with --as NAME"})};
  for (const auto& c : all.checkouts()) {
    if (c.root() == declared.root() && c.scope() == declared.scope() && !c.remote().empty() && c.remote() != declared.remote())
      return security_failure{security_error::wrong_state,
                              concat({c.root(), " is shared as ", c.scope(), ", a checkout of ", c.remote(), ", and has ",
                                      named_remote(declared.remote()), " now; `swarmctl scope unshare ", c.root(), "` first"})};
    if (c.root() != declared.root() && c.scope() == declared.scope() && c.remote() != declared.remote())
      return security_failure{security_error::wrong_state,
                              concat({declared.root(), " has ", named_remote(declared.remote()), ", but the checkout ", c.root(), " of ", c.scope(),
                                      " has ", named_remote(c.remote()), ": give another repository a scope of its own, with --as NAME"})};
  }
  return std::nullopt;
}

/// A root is of one scope, and a scope has the files of one repository. A clone within another one has its names from that.
bool is_new_checkout(const v1::CheckoutList& all, const v1::Checkout& learned) {
  return std::none_of(all.checkouts().begin(), all.checkouts().end(), [&](const v1::Checkout& c) {
    return c.root() == learned.root() || (c.scope() == learned.scope() && (c.remote() != learned.remote() || is_inside(c.root(), learned.root()) ||
                                                                           is_inside(learned.root(), c.root())));
  });
}

} // namespace

std::optional<security_failure> checkouts::share(v1::Checkout declared) {
  std::lock_guard guard{mutex_};
  declared.set_declared(true);
  auto next = without_gone(all_);
  if (auto refused = is_of_another_repository(next, declared))
    return refused;
  for (auto& c : *next.mutable_checkouts())
    if (c.root() == declared.root()) {
      if (c.scope() != declared.scope())
        return security_failure{security_error::wrong_state,
                                concat({c.root(), " is a checkout of ", c.scope(), " already; `swarmctl scope unshare ", c.root(), "` first"})};
      c = std::move(declared);
      return keep(std::move(next));
    }
  if (static_cast<std::size_t>(next.checkouts_size()) >= limits::checkouts_max)
    return security_failure{
      security_error::too_many,
      concat({"this node has ", limits::checkouts_max, " checkouts, which is the most: take one back with `swarmctl scope unshare DIRECTORY`"})};
  *next.add_checkouts() = std::move(declared);
  return keep(std::move(next));
}

std::optional<security_failure> checkouts::unshare(const std::string& root) {
  std::lock_guard guard{mutex_};
  auto next = all_;
  auto& rows = *next.mutable_checkouts();
  auto gone = std::remove_if(rows.begin(), rows.end(), [&](const auto& c) { return c.root() == root; });
  if (gone == rows.end())
    return security_failure{security_error::wrong_state, concat({root, " is no checkout of a shared scope; `swarmctl scope list` shows them"})};
  rows.erase(gone, rows.end());
  return keep(std::move(next));
}

bool checkouts::would_rename(std::string_view scope, const std::string& root, std::string_view path) const {
  auto concerns_root = [&](const std::string& absolute) { return is_inside(root, absolute) || is_inside(absolute, root); };
  std::lock_guard guard{mutex_};
  bool is_in_another = false;
  for (const auto& c : all_.checkouts()) {
    if (c.scope() != scope || !is_inside(c.root(), root))
      continue;
    if (c.root() == root)
      return false;
    is_in_another = true;
    // All of a checkout stays all of it.
    if (!path.starts_with('/') && path != "." && concerns_root(path_from(c.root(), path)))
      return true;
  }
  return !is_in_another && path.starts_with('/') && concerns_root(std::string{path});
}

std::optional<v1::Checkout> checkouts::learnable(const std::string& scope, const std::string& seen_root) const {
  if (!is_named_scope(scope) || seen_root.empty() || seen_root.front() != '/')
    return std::nullopt;
  // Worktrees come and go, so the checkout is the repository itself; a path is the same in both.
  auto tree = find_git_tree(seen_root);
  const auto& root = tree && tree->linked && tree->root == seen_root ? tree->repository : seen_root;
  {
    std::lock_guard guard{mutex_};
    for (const auto& c : all_.checkouts())
      if (c.root() == root && c.scope() == scope)
        return std::nullopt;
  }
  if (!is_repository_root(root))
    return std::nullopt;
  v1::Checkout learned;
  learned.set_root(root);
  learned.set_scope(scope);
  learned.set_remote(remote_of(root));
  if (learned.remote().empty() || is_of_other_repository(scope, learned.remote()))
    return std::nullopt;
  std::lock_guard guard{mutex_};
  if (!is_new_checkout(all_, learned))
    return std::nullopt;
  if (static_cast<std::size_t>(without_gone(all_).checkouts_size()) >= limits::checkouts_max)
    return std::nullopt;
  return learned;
}

bool checkouts::learn(const std::string& scope, const std::string& seen_root) {
  auto learned = learnable(scope, seen_root);
  if (!learned)
    return false;
  const auto root = learned->root();
  std::lock_guard guard{mutex_};
  if (!is_new_checkout(all_, *learned))
    return false;
  auto next = without_gone(all_);
  *next.add_checkouts() = std::move(*learned);
  if (auto failed = keep(std::move(next))) {
    log::warn({root, " is not taken for a checkout of ", scope, ": ", failed->text});
    return false;
  }
  return true;
}

} // namespace swarm
