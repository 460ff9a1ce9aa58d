#include <algorithm>
#include <cctype>
#include <utility>

#include "actors/base/crypto.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/explained.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/order_seal.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/domain/rows.hpp"
#include "actors/fabric/admit_command.hpp"
#include "actors/fabric/cluster/placement.hpp"
#include "services/call/agent_call.hpp"
#include "services/call/requests.hpp"
#include "services/call/service_environment.hpp"
#include "services/host/harness.hpp"

namespace swarm {

grpc::Status to_status(const v1::Refusal& r) { return {grpc::StatusCode::PERMISSION_DENIED, r.text()}; }

namespace {

/// With the rule that made the caller who it is. Of a background process the refusal itself says it, and a user's place is no reason.
grpc::Status with_place(const grpc::Status& why, const caller_place& place) {
  if (place.is == caller_place::kind::user || place.is == caller_place::kind::orphan)
    return why;
  const auto refusal = why.error_message();
  std::string_view text = refusal;
  if (text.ends_with(domain::explained))
    text.remove_suffix(domain::explained.size());
  auto reason = reason_of(place);
  reason.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(reason.front())));
  return {why.error_code(), concat({text, text.ends_with('.') ? " " : ". ", reason, ask_why})};
}

} // namespace

grpc::Status note(const service_environment& service, const claim& who, const v1::Principal& principal, grpc::Status why) {
  service.refused.add(principal, name_of(who.asks), why.error_message());
  return why;
}

admitted admit(const service_environment& service, const grpc::CallbackServerContext& ctx, domain::operation what, look_again when) {
  admitted out;
  out.who = service.callers.identify(ctx, when);
  out.who.asks = what;
  if (!out.who.refused.empty()) {
    out.status = note(service, out.who, {}, {grpc::StatusCode::PERMISSION_DENIED, out.who.refused});
    return out;
  }
  if (auto refused = domain::may_ever(out.who.is_final() ? out.who.principal.kind() : v1::Principal::SESSION, what)) {
    const auto stands_by_place = out.who.rule != v1::Explanation::LOGIN;
    out.status = stands_by_place ? with_place(to_status(*refused), out.who.place) : to_status(*refused);
    auto principal = out.who.principal;
    if (!out.who.is_final())
      principal.set_kind(v1::Principal::SESSION);
    note(service, out.who, principal, out.status);
    return out;
  }
  auto key = out.who.token_hash.empty() ? domain::principal_key(out.who.principal) : "token/" + to_hex(out.who.token_hash);
  const auto is_operator = out.who.is_final() && out.who.principal.kind() == v1::Principal::OPERATOR;
  auto slot = service.admission.enter(key, out.who.share, is_operator);
  if (!slot) {
    out.status = to_status(errc::overloaded);
    return out;
  }
  out.slot = std::make_shared<runtime::admission::slot>(std::move(*slot));
  return out;
}

namespace {

prepared_call refuse(const std::string& text) { return {nullptr, {grpc::StatusCode::INVALID_ARGUMENT, text}, std::nullopt}; }

/// Where a command asks for a worker on this node by its name. That is no choice of nodes: the worker works in the checkout that was named, as it
/// does without a name. Null when none or another is named. With labels the worker may go to another host when this one is lost, so it is not bound
/// to a directory of this one.
std::string* own_name_in(const service_environment& service, v1::Command& cmd) {
  if (!service.node->cluster)
    return nullptr;
  auto look = [&](auto& body) -> std::string* {
    if (body.on().empty() || !body.where().empty())
      return nullptr;
    const auto view = service.node->cluster->view();
    const auto& here = service.node->facts.node_id;
    const auto& all = view.nodes();
    const auto me = std::find_if(all.begin(), all.end(), [&](const auto& n) { return n.info().node_id() == here; });
    const bool is_meant = body.on() == here || (me != all.end() && me->info().node_name() == body.on());
    return is_meant ? body.mutable_on() : nullptr;
  };
  if (cmd.has_dispatch())
    return look(*cmd.mutable_dispatch());
  return cmd.has_request_spawn() ? look(*cmd.mutable_request_spawn()) : nullptr;
}

/// Binds a worker to the node, which goes for no choice of nodes.
void set_on(v1::Command& cmd, const std::string& node_id) {
  if (cmd.has_dispatch())
    cmd.mutable_dispatch()->set_on(node_id);
  else if (cmd.has_request_spawn() && !cmd.request_spawn().here())
    cmd.mutable_request_spawn()->set_on(node_id);
}

/// Whether this node could start the worker that a command asks for, as far as it knows. False where that is nobody's to choose.
bool fits_here(const service_environment& service, const v1::Command& cmd) {
  const auto* cluster = service.node->cluster;
  if (!cluster || !cluster->is_shared(cmd.scope()))
    return false;
  auto trial = cmd;
  set_on(trial, service.node->facts.node_id);
  if (place(trial, cluster->view(), service.node->facts.node_id))
    return false;
  return (cmd.has_dispatch() ? trial.dispatch().node_id() : trial.request_spawn().node_id()) == service.node->facts.node_id;
}

void to_store(const service_environment& service, path_view& paths, v1::Command& cmd) {
  if (auto* on = own_name_in(service, cmd)) {
    const auto own_name = std::exchange(*on, {});
    paths.to_store(cmd);
    *on = own_name;
    return;
  }
  if (!cmd.has_dispatch() && !cmd.has_request_spawn()) {
    paths.to_store(cmd);
    return;
  }
  const auto is_alone = !service.node->cluster || service.node->cluster->view().nodes().empty();
  // Where the worker may go to another host, its directory is one that this host has, too. What only this host has binds the worker to it: on
  // another one the path would be that of whatever lies there.
  if (paths.to_store(cmd, is_alone || fits_here(service, cmd)) && !is_alone)
    set_on(cmd, service.node->facts.node_id);
}

/// With the paths of this host: programs and directories are looked for.
std::optional<v1::Refusal> check_harness_here(const service_environment& service, v1::Command& cmd, const std::vector<std::string>& environment,
                                              path_view& paths) {
  if (!cmd.has_dispatch() && !cmd.has_request_spawn() && !cmd.has_start_conversation())
    return std::nullopt;
  const auto scope = cmd.scope();
  paths.to_caller(cmd);
  auto refusal = check_harness(cmd, environment);
  to_store(service, paths, cmd);
  cmd.set_scope(scope);
  return refusal;
}

/// The node that starts the worker a command asks for, and whether it can; both are the home's to say when that is another node.
std::optional<v1::Refusal> check_worker(const service_environment& service, v1::Command& cmd, const std::vector<std::string>& environment,
                                        path_view& paths) {
  const auto* cluster = service.node->cluster;
  const auto& here = service.node->facts.node_id;
  if (!cluster)
    return check_harness_here(service, cmd, environment, paths);
  if (!cluster->home_of(cmd.scope()).empty())
    return std::nullopt;
  auto asks = [&](const auto& body) { return !body.on().empty() || !body.where().empty(); };
  auto chooses = cmd.has_dispatch() ? asks(cmd.dispatch()) : cmd.has_request_spawn() && asks(cmd.request_spawn());
  // A directory of this host is worked on here, whatever other nodes there are.
  if (cluster->is_shared(cmd.scope()) || chooses)
    if (auto refusal = place(cmd, cluster->view(), here))
      return refusal;
  const auto& chosen = cmd.has_dispatch() ? cmd.dispatch().node_id() : cmd.request_spawn().node_id();
  const auto& reason = cmd.has_dispatch() ? cmd.dispatch().placement() : cmd.request_spawn().placement();
  if (chosen.empty() && !reason.empty())
    return std::nullopt; // none fits: refused if a worker is really needed
  if (chosen.empty() || chosen == here)
    return check_harness_here(service, cmd, environment, paths);
  if (cluster->is_shared(cmd.scope()))
    return std::nullopt;
  return domain::refusal(v1::Refusal::STATE, "The scope " + cmd.scope() +
                                               " is a directory of this host, so its workers run here. Name a scope that hosts share, for "
                                               "instance --scope NAME.");
}

/// As config.toml has it for what does not say where its agent works: in a conversation, when it can work in one.
void prefer_conversation(const service_environment& service, v1::Command& cmd) {
  const auto* cluster = service.node->cluster;
  if (!service.node->facts.structured_workers || !cmd.has_dispatch() || (cluster && !cluster->home_of(cmd.scope()).empty()))
    return;
  auto& d = *cmd.mutable_dispatch();
  const bool wants_terminal = d.on_terminal() || d.worktree() || d.pipes() || d.passes_input();
  const bool chooses_node = !d.on().empty() || !d.where().empty();
  if (domain::is_driven(d.harness()) && !wants_terminal && !chooses_node)
    d.set_structured(true);
}

/// Where another repository has taken the place of a shared checkout, a path would name a file that is another one on the other hosts.
std::optional<v1::Refusal> check_checkout(const service_environment& service, const v1::Command& cmd) {
  if (!cmd.has_register_session() || service.nodes.shared().empty() || !is_named_scope(cmd.scope()))
    return std::nullopt;
  const auto was = service.nodes.shared().replaced(cmd.scope(), cmd.register_session().directory());
  if (!was)
    return std::nullopt;
  const auto now = remote_of(was->root());
  return domain::refusal(v1::Refusal::STATE,
                         concat({was->root(), " is shared as ", was->scope(), ", a checkout of ", was->remote(), ", but ",
                                 now.empty() ? "that repository is not there" : concat({"now holds ", now}), ". Run `swarmctl scope unshare ",
                                 was->root(), "`, then `swarmctl scope share` if it is to be shared again"}),
                         was->root());
}

/// Of the session, or of the repository of its worktree; the one that it makes a checkout as soon as it is registered, if it makes one.
std::string checkout_around(const checkouts& shared, const std::string& scope, const v1::RegisterSession& session) {
  const auto learned = shared.learnable(scope, session.root());
  for (const auto& place : {session.directory(), repository_path(session.directory())}) {
    if (learned && is_inside(learned->root(), place))
      return learned->root();
    if (auto root = shared.root_for(scope, place); !root.empty() && is_inside(root, place))
      return root;
  }
  return {};
}

} // namespace

void learn_checkout(const service_environment& service, const v1::Command& cmd, const v1::Session& made) {
  const auto is_shared = service.node->cluster && service.node->cluster->is_shared(cmd.scope());
  if (is_shared && !made.checkout().empty() && service.nodes.shared().learn(cmd.scope(), cmd.register_session().root()))
    service.nodes.checkouts_changed();
}

prepared_call prepare(const service_environment& service, const v1::ExecuteRequest& req, const claim& by, const v1::Principal& who,
                      const std::optional<std::chrono::milliseconds>& patience) {
  if (req.id().client().size() < 8 || req.id().client().size() > limits::request_client_bytes_max || req.id().seq() == 0)
    return refuse("a request id has a client name of 8 to 64 bytes and a number from 1");
  if (auto wrong = wrong_scope(req.command().scope(), scope_is::required))
    return refuse(*wrong);
  const auto& asked = req.command();
  auto environment = worker_environment(req.environment(), asked.has_dispatch()             ? asked.dispatch().harness()
                                                           : asked.has_start_conversation() ? asked.start_conversation().harness()
                                                                                            : asked.request_spawn().harness());
  if (!environment)
    return refuse("the environment is larger than 256 KiB");
  std::optional<path_view> paths;
  way_in in;
  const auto& places = service.callers.places();
  in.principal = speaker(places, by, who, req.command().actor());
  if (req.command().has_register_session())
    in.agent = agent_start_of(places, by);
  in.node_id = service.node->facts.node_id;
  in.node_name = service.node->facts.node_name;
  in.to_store = [&](v1::Command& cmd) {
    paths.emplace(service.nodes.shared(), *cmd.mutable_scope(), cmd.caller().directory());
    to_store(service, *paths, cmd);
    if (!service.node->cluster || service.node->cluster->home_of(cmd.scope()).empty())
      hide_variables(cmd, service.node->facts.token_key);
    // Hosts that are in no cluster have nobody to name their files for.
    if (!cmd.has_register_session() || !service.node->cluster || !service.node->cluster->is_shared(cmd.scope()))
      return;
    auto& session = *cmd.mutable_register_session();
    session.set_checkout(checkout_around(service.nodes.shared(), cmd.scope(), session));
  };
  in.place = [&](v1::Command& cmd) {
    auto refusal = check_checkout(service, cmd);
    prefer_conversation(service, cmd);
    if (!refusal)
      refusal = check_worker(service, cmd, *environment, *paths);
    if (!refusal && service.node->cluster && !service.node->cluster->home_of(cmd.scope()).empty())
      domain::seal_order(cmd, req.id(), {service.node->facts.node_id, service.node->facts.token_key});
    return refusal;
  };
  auto admitted = admit_command(req.id(), req.command(), in);
  if (!admitted.what)
    return refuse(admitted.wrong);
  auto c = std::make_shared<call>();
  c->environment = std::move(*environment);
  c->patience = patience;
  c->what = std::move(admitted.what);
  return {std::move(c), grpc::Status::OK, std::move(admitted.refusal), std::move(*paths)};
}

std::function<void()> leaves_line(const service_environment& service, call_ptr c) {
  const auto& command = c->what->command;
  const auto stands_in_line = command.has_acquire_lock() && command.acquire_lock().wait_ms() > 0;
  const auto* cluster = service.node->cluster;
  if (!stands_in_line && (!cluster || cluster->home_of(command.scope()).empty()))
    return nullptr;
  // A client of a node that stops comes back to its place.
  return [stopping = service.stopping, board = service.board, c = std::move(c)] {
    if (auto front = board->get().front; front && !*stopping)
      caf::anon_send(front, abort_atom_v, c);
  };
}

} // namespace swarm
