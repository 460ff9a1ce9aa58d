#include "cli/invocation.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/file_uri.hpp"
#include "gateway/session/lock_target.hpp"

#include <filesystem>
#include <sstream>
#include <utility>

namespace swarm::cli {

invocation::invocation(ports node, const environment& env, console& io, const clock_port& clock, std::string directory)
  : node_(node), env_(env), io_(io), clock_(clock), directory_(std::move(directory)) {}

const std::string& invocation::directory() const {
  if (directory_.empty())
    throw failure(code::refused, "the working directory has been removed; change to another one");
  return directory_;
}

std::string invocation::scope() const { return scope_of(directory_); }

std::string invocation::named_scope() const {
  if (!flags.scope.empty())
    return flags.scope;
  if (auto name = env_.get("SWARM_MCP_SCOPE"); !name.empty())
    return name;
  return target_ ? target_->scope : std::string{};
}

std::string invocation::scope_of(const std::string& directory) const {
  auto name = named_scope();
  if (elsewhere() && trimmed(name).empty())
    throw failure(code::usage, "which scope? A directory of this host means nothing to the node of another one: name it with --scope, or for good "
                               "with: swarmctl context set " +
                                 target_->name + " --scope SCOPE");
  if (directory.empty() && (trimmed(name).empty() || (name.front() != '/' && !is_named_scope(name))))
    throw failure(code::refused, "the working directory has been removed: name a --scope, or change to another directory");
  // Only the other host knows the symbolic links there.
  return elsewhere() && !is_named_scope(trimmed(name)) ? normalize_path(trimmed(name), directory) : resolve_scope(name, directory);
}

void invocation::speak_to(const target& c) {
  target_ = c;
  if (!c.elsewhere())
    return;
  auto name = std::string{trimmed(named_scope())};
  if (name.empty() || is_named_scope(name))
    return;
  if (name.front() != '/')
    throw failure(code::usage, "scope " + name +
                                 " is a directory of this host, which means nothing to the node of another one: give a name or an "
                                 "absolute path of that host");
  // What is relative there is so to the scope.
  directory_ = normalize_path(name, "/");
}

environment_list invocation::inheritable(std::string_view harness) const { return elsewhere() ? environment_list{} : env_.inheritable(harness); }

v1::Caller invocation::caller() const {
  v1::Caller out;
  out.set_directory(directory_.empty() ? "/" : directory_);
  out.set_allow_cross_identity(env_.truthy("SWARM_MCP_ALLOW_CROSS_IDENTITY"));
  out.set_allow_unlabeled(env_.truthy("SWARM_MCP_ALLOW_UNLABELED"));
  out.set_allow_spawn(env_.truthy("SWARM_MCP_ALLOW_SPAWN"));
  out.set_identity(identity());
  return out;
}

std::string invocation::identity() const {
  if (flags.identity.empty())
    return env_.identity();
  auto name = domain::identity_name(flags.identity);
  if (name.empty() || name.size() > limits::id_bytes_max)
    throw failure(code::usage,
                  "--identity takes a name of letters, digits, '_', '.' and '-', at most " + std::to_string(limits::id_bytes_max) + " of them");
  return name;
}

v1::Command invocation::command() const {
  v1::Command out;
  out.set_scope(scope());
  *out.mutable_caller() = caller();
  out.mutable_caller()->set_work_tracker(env_.work_tracker());
  return out;
}

v1::Query invocation::query() const {
  v1::Query out;
  out.set_scope(scope());
  *out.mutable_caller() = caller();
  return out;
}

v1::Reply invocation::decide(const v1::Command& command, const environment_list& environment, std::int64_t extra_ms) const {
  return node_.coordination.execute(command, environment, extra_ms);
}

v1::Reply invocation::execute(const v1::Command& command, const environment_list& environment) const {
  auto reply = decide(command, environment);
  if (reply.has_refusal())
    throw refused(reply);
  return reply;
}

v1::Answer invocation::ask(const v1::Query& query) const {
  require_named_actor();
  auto answer = node_.coordination.ask(query);
  if (answer.has_refusal())
    throw refused(answer.refusal());
  return answer;
}

void invocation::require_named_actor() const {
  if (!flags.as.empty() && !is_swarm_mcp() && !std::exchange(as_known_, true))
    find(flags.as);
}

v1::Session invocation::find(const std::string& who) const {
  if (trimmed(who).empty() && !is_swarm_mcp())
    throw failure(code::usage, "the name of the session is empty; see who is here: swarmctl instances");
  as_known_ = as_known_ || who == flags.as;
  auto q = query();
  q.mutable_find_session()->set_who(who);
  // swarm-mcp takes any part of a label.
  q.mutable_find_session()->set_whole_words(!is_swarm_mcp());
  return ask(q).session();
}

std::optional<v1::Session> invocation::named_actor() const {
  auto who = flags.as.empty() ? env_.get("SWARM_MCP_INSTANCE_ID") : flags.as;
  if (who.empty())
    return std::nullopt;
  return find(who);
}

std::string invocation::named_actor_id() const {
  auto session = named_actor();
  return session ? session->id() : std::string{};
}

v1::Session invocation::actor() const {
  if (auto session = named_actor())
    return *session;
  auto q = query();
  // swarm-mcp takes the only session of the scope.
  q.mutable_find_session()->set_own(!is_swarm_mcp());
  return ask(q).session();
}

bool invocation::stands_with(const v1::Session& session) const {
  const auto& home = session.directory();
  const auto& root = session.root().empty() ? home : session.root();
  auto at_home = [&](const std::string& directory) { return is_inside(root, directory) || is_inside(home, directory); };
  return at_home(directory_) || at_home(repository_path(directory_, session.scope()));
}

std::string invocation::file(std::string_view input, const std::optional<v1::Session>& session) const {
  if (is_swarm_mcp())
    input = file_word(input, directory_);
  if (!input.empty() && input.front() != '/')
    directory(); // which must be there
  const auto in_scope = session ? session->scope() : scope();
  // In a linked worktree a file is locked under its path in the main one.
  auto locked = [&](const std::string& path) { return repository_path(path, in_scope); };
  bool relative = !input.empty() && input.front() != '/';
  if (!session) {
    if (relative && locked(directory_) != directory_)
      return locked(normalize_path(input, directory_));
    auto file_root = env_.get("SWARM_MCP_FILE_ROOT");
    return locked(resolve_file(input, directory_, file_root.empty() ? "" : normalize_path(file_root, directory_), git_root(directory_)));
  }
  const auto& home = session->directory();
  const auto& root = session->root().empty() ? home : session->root();
  auto path = stands_with(*session) && relative ? locked(resolve_file(locked(normalize_path(input, directory_)), home, session->file_root(), root))
                                                : locked(resolve_file(input, home, session->file_root(), root));
  // As the scope calls it, whichever host the session lives on: only that host knows the path of its own checkout.
  const auto& checkout = session->checkout();
  return checkout.empty() || !is_inside(checkout, path) ? path : path_below(checkout, path);
}

namespace {

/// It lives on another host than the node.
bool is_of_other_host(const invocation& cli, const v1::Session& session) {
  if (session.node_id().empty())
    return false;
  const auto here = cli.node().admin.status().node_id();
  return !here.empty() && here != session.node_id();
}

/// The node's checkout of the scope: that around `place`, else the first one. Empty = none.
std::string own_checkout(const invocation& cli, const std::string& scope, const std::string& place) {
  const auto all = cli.node().admin.checkouts();
  const auto name = shared_name(all, scope);
  const v1::Checkout* first = nullptr;
  std::string around;
  for (const auto& c : all.checkouts()) {
    if (c.scope() != name)
      continue;
    if (!first || (c.declared() && !first->declared()))
      first = &c;
    if (is_inside(c.root(), place) && c.root().size() > around.size())
      around = c.root();
  }
  return !around.empty() ? around : first ? first->root() : std::string{};
}

/// For a session of another host, whose links only that host can follow: throws `failure` when `path`, as the scope holds it, goes through a link in
/// this host's checkout, or when there is none.
void require_no_link(const invocation& cli, const std::string& path, const v1::Session& session) {
  const auto& host = session.node_name().empty() ? session.node_id() : session.node_name();
  const auto own = own_checkout(cli, session.scope(), repository_path(cli.directory_if_any()));
  if (own.empty())
    throw failure(code::refused, "this host has no checkout of " + session.scope() + ", so it cannot tell whether " + path +
                                   " is a symbolic link on host " + host + ", where another name would be locked: run this on " + host +
                                   ", or share a checkout here with: swarmctl scope share");
  const auto given = path_from(own, path);
  const auto real = mcp::follow_links(given, own);
  if (real != given)
    throw failure(code::refused, path + " goes through a symbolic link in " + own + ", and may do so on host " + host +
                                   ", where only that host can follow it: name what it stands for here, " + path_below(own, real) +
                                   ", or run this on " + host);
}

/// lock_file() for a session of another host, whose files are not to be seen here.
std::string lock_file_elsewhere(const invocation& cli, std::string_view input, const v1::Session& session, bool wanted) {
  if (input.starts_with('/')) {
    const auto given = normalize_path(input, "/");
    const auto in_checkout = repository_path(given);
    if (const auto own = own_checkout(cli, session.scope(), in_checkout); !own.empty() && is_inside(own, in_checkout))
      return repository_path(mcp::follow_links(given, own)); // a file of this host
  }
  auto path = cli.file(input, session);
  if (wanted && !path.starts_with('/'))
    require_no_link(cli, path, session);
  return path;
}

/// A name that a shell or a program would have expanded, and a lock would take for a file below this directory.
void refuse_unexpanded(const invocation& cli, std::string_view input) {
  std::string meant;
  if (input == "~" || input.starts_with("~/"))
    meant = cli.env().get("HOME").empty() ? "" : cli.env().get("HOME") + std::string{input.substr(1)};
  else if (const auto in_uri = mcp::path_of_file_uri(input))
    meant = *in_uri;
  else
    return;
  throw failure(code::usage, concat({input, " names a file only once it is expanded", meant.empty() ? "" : "; if you mean " + meant + ", name that",
                                     "; for a file of this very name: ./", input}));
}

} // namespace

std::string invocation::lock_file(std::string_view input, const std::optional<v1::Session>& session, bool wanted) const {
  if (is_swarm_mcp())
    input = file_word(input, directory_);
  else
    refuse_unexpanded(*this, input);
  if (wanted && trimmed(input).empty())
    throw failure(code::usage, "the name of the file is empty; to lock everything below this directory, name it: .");
  if (elsewhere() || input.empty())
    return file(input, session);
  bool relative = input.front() != '/';
  if (session && is_of_other_host(*this, *session))
    return lock_file_elsewhere(*this, input, *session, wanted);
  auto base = !relative ? "/" : session && !stands_with(*session) ? session->directory() : directory();
  std::error_code ec;
  if (!std::filesystem::exists(base, ec)) // it is on the session's host
    return file(input, session);
  auto given = normalize_path(input, base);
  auto in = session ? session->scope() : scope();
  auto real = mcp::follow_links(given, in.starts_with('/') ? in : session ? session->root() : git_root(directory_));
  if (auto why = wanted ? mcp::why_not_lockable(real, session ? mcp::scope_of_files(*session) : "") : std::nullopt)
    throw failure(code::refused, *why);
  return real == given ? file(input, session) : file(real, session);
}

int exit_code_of(v1::Refusal::Code refusal) noexcept { return refusal == v1::Refusal::TIMEOUT ? code::deadline : code::refused; }

const std::string& text_for_people(const v1::Refusal& r) noexcept { return r.explanation().empty() ? r.text() : r.explanation(); }

/// Only between refused() and refusal_json().
constexpr const char* for_people = "for_people";

failure refused(const v1::Reply& reply) {
  // A refusal quotes names that others chose.
  auto text = escape_control(text_for_people(reply.refusal()), false);
  for (const auto& d : reply.refusal().details())
    text += "\n  task " + std::to_string(d.task_index()) + " " + escape_control(d.field() + ": " + d.message(), false);
  auto body = mcp::error(reply);
  if (!reply.refusal().explanation().empty())
    body[for_people] = reply.refusal().explanation();
  return {exit_code_of(reply.refusal().code()), text, std::move(body)};
}

json refusal_json(const invocation& cli, json body) {
  if (!body.is_object() || !body.contains(for_people))
    return body;
  if (!cli.is_swarm_mcp())
    body["error"] = body[for_people];
  body.erase(for_people);
  return body;
}

failure refused(const v1::Refusal& refusal) {
  v1::Reply reply;
  *reply.mutable_refusal() = refusal;
  return refused(reply);
}

std::string shared_name(const v1::CheckoutList& checkouts, const std::string& root) {
  for (const auto& c : checkouts.checkouts())
    if (c.declared() && c.root() == root)
      return c.scope();
  return root;
}

std::string one_name_of(const invocation& cli, const std::string& scope) {
  if (is_named_scope(scope))
    return scope;
  try {
    return shared_name(cli.node().admin.checkouts(), scope);
  } catch (const call_failed&) {
    return scope; // not everybody may ask that
  }
}

std::string scope_shown(const invocation& cli) { return one_name_of(cli, cli.scope()); }

std::string none_in_scope(const invocation& cli, std::string_view what) { return concat({"(no ", what, " in scope ", scope_shown(cli), ")"}); }

std::vector<v1::Session> all_sessions(const invocation& cli, const std::string& scope) {
  auto q = cli.query();
  q.set_scope(scope);
  q.mutable_list_sessions();
  return all_rows<v1::Session>(cli, std::move(q));
}

std::vector<v1::Task> all_tasks(const invocation& cli, const std::vector<v1::TaskStatus>& statuses, bool by_creation, const std::string& scope) {
  auto q = cli.query();
  if (!scope.empty())
    q.set_scope(scope);
  q.mutable_list_tasks()->set_by_creation(by_creation);
  for (auto status : statuses)
    q.mutable_list_tasks()->add_statuses(status);
  return all_rows<v1::Task>(cli, std::move(q));
}

std::vector<v1::LockView> all_locks(const invocation& cli, const std::string& holder) {
  auto q = cli.query();
  q.mutable_list_locks()->set_holder(holder);
  return all_rows<v1::LockView>(cli, std::move(q));
}

std::vector<v1::KvEntry> all_kv(const invocation& cli, const std::string& prefix) {
  auto q = cli.query();
  q.mutable_list_kv()->set_prefix(prefix);
  return all_rows<v1::KvEntry>(cli, std::move(q));
}

std::map<std::string, std::string> node_names(const invocation& cli) {
  std::map<std::string, std::string> out;
  v1::ClusterView view;
  try {
    view = cli.node().admin.nodes();
  } catch (const call_failed&) {
    return out; // Not everybody may ask that.
  }
  if (view.nodes_size() < 2)
    return out;
  for (const auto& n : view.nodes()) {
    out[n.info().node_id()] = n.info().node_name();
    if (n.link() == v1::ClusterNode::SELF)
      out[""] = n.info().node_name();
  }
  return out;
}

std::string name_of_node(const std::map<std::string, std::string>& names, const std::string& id) {
  auto known = names.find(id);
  return known == names.end() ? short_id(id) : known->second;
}

std::vector<std::string> comma_separated(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const auto& value : values) {
    std::stringstream in{value};
    for (std::string item; std::getline(in, item, ',');)
      if (!item.empty())
        out.push_back(item);
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words)
    out += (out.empty() ? "" : " ") + w;
  return out;
}

} // namespace swarm::cli
