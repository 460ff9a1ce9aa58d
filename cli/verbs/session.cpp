// register, bootstrap, deregister, whoami, instances, remove-instance.
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/ambient_block.hpp"
#include "gateway/session/register.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace swarm::cli {

namespace {

struct register_options {
  std::string positional;
  std::string directory;
  std::string label;
  std::string file_root;
  std::int64_t lease_s = 0;
  std::string adopt;
  std::vector<std::string> grants;
  std::int64_t limit = 50;
};

std::string longest_lease() {
  constexpr std::int64_t day_ms = 86'400'000;
  const auto ms = limits::lease_max().count();
  return ms % day_ms == 0 ? counted(static_cast<std::uint64_t>(ms / day_ms), "day") : duration(ms);
}

/// The label with what --identity adds, else the identity of this shell. Under the name swarm-mcp that is the profile's; a worker has its own.
std::string with_identity(const invocation& cli, std::string label) {
  const bool asked = !cli.flags.identity.empty();
  const auto name = asked ? cli.identity() : cli.is_swarm_mcp() || cli.env().in_worker() ? "" : domain::identity_name(cli.env().identity());
  if (name.empty())
    return label;
  const auto token = "identity:" + name;
  const auto own = domain::identity_token(label);
  if (asked && !own.empty() && own != token)
    throw usage("--identity says " + token + ", and the label " + own + "; give one of them");
  if (own.empty())
    label += (label.empty() ? "" : " ") + token;
  return label;
}

v1::Command registration(const invocation& cli, const register_options& o) {
  auto value = o.directory.empty() ? o.positional : o.directory;
  if (value.empty())
    value = cli.env().get("SWARM_MCP_DIRECTORY");
  auto directory = normalize_path(value.empty() ? "." : value, cli.directory());
  auto file_root = o.file_root.empty() ? cli.env().get("SWARM_MCP_FILE_ROOT") : o.file_root;
  auto command = cli.command();
  command.set_scope(cli.scope_of(directory));
  auto* body = command.mutable_register_session();
  body->set_directory(directory);
  body->set_root(git_root(directory));
  body->set_file_root(file_root.empty() ? directory : normalize_path(file_root, cli.directory()));
  body->set_label(with_identity(cli, o.label.empty() ? cli.env().get("SWARM_MCP_LABEL") : o.label));
  body->set_preassigned_id(cli.env().get("SWARM_MCP_INSTANCE_ID"));
  body->set_adopt_session_id(o.adopt);
  body->set_lease_ms(o.lease_s * 1000);
  add_grants(*body, o.grants);
  return command;
}

v1::Reply register_session(const invocation& cli, const register_options& o) {
  auto command = registration(cli, o);
  const auto& body = command.register_session();
  check_identity_roots(cli, cli.env(), body.label(), body.directory(), body.file_root());
  return mcp::register_in_its_scope(command, [&](const v1::Command& c) { return cli.execute(c); });
}

int run_register(invocation& cli, const register_options& o) {
  if (o.lease_s < 0 || o.lease_s > limits::lease_max().count() / 1000)
    throw usage(concat({"--lease-seconds takes 0 to ", limits::lease_max().count() / 1000, " (", longest_lease(), ")"}));
  const auto wished = registration(cli, o);
  const bool place_given = !o.directory.empty() || !o.positional.empty();
  if (place_given && !cli.is_swarm_mcp())
    check_directory(cli, wished.register_session().directory());
  auto registered = register_session(cli, o).session();
  const auto& session = registered.session();
  if (!registered.note().empty())
    cli.io().note(registered.note());
  if (registered.adopted_existing() && !cli.is_swarm_mcp()) {
    const auto& body = wished.register_session();
    auto kept = mcp::kept_text(session, {.directory = place_given ? body.directory() : "",
                                         .label = "",
                                         .scope = cli.flags.scope.empty() ? "" : wished.scope(),
                                         .file_root = o.file_root.empty() ? "" : body.file_root()});
    if (!kept.empty())
      cli.io().note(concat({"the session ", short_id(session.id()), " was there already: ", kept, "; to change that, deregister it first"}));
  }
  if (!cli.json_wanted()) {
    cli.io().line("registered " + session.id());
    return code::ok;
  }
  auto out = mcp::instance(session);
  mcp::add_grants(out, session, cli.now_ms());
  if (o.lease_s > 0)
    out["heartbeat"] = mcp::seconds(session.heartbeat_ms());
  cli.io().print(out);
  return code::ok;
}

void registration_options(CLI::App& app, register_options& o) {
  option(app, "dir", o.positional, "directory of the session (the current one)", argument::directory);
  option(app, "--directory", o.directory, "the same", argument::directory);
  option(app, "--label", o.label, "tokens such as identity:work role:reviewer ($SWARM_MCP_LABEL)");
  option(app, "--file-root", o.file_root, "what relative file names mean ($SWARM_MCP_FILE_ROOT)", argument::directory);
  option(app, "--adopt-instance-id", o.adopt, "take over this instance of the same scope and directory");
  option(app, "--grant", o.grants, grant_help("session"));
}

void build_register(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<register_options>();
  registration_options(app, *o);
  option(app, "--identity", cli.flags.identity, identity_words);
  option(app, "--lease-seconds", o->lease_s,
         "seconds that the session lives; without it, it ends " + duration(limits::session_reclaim().count()) + " after it last changed something");
  on_run(app, cli, [o, &cli] { return run_register(cli, *o); });
}

/// The session a bootstrap speaks for: adopted, named, or made under the preassigned id.
v1::Session bootstrap_session(const invocation& cli, const register_options& o) {
  if (!o.adopt.empty()) {
    auto command = registration(cli, o);
    command.mutable_register_session()->set_adopt_only(true);
    auto reply = cli.decide(command);
    if (reply.has_refusal())
      throw refused(reply);
    return reply.session().session();
  }
  auto preassigned = cli.env().get("SWARM_MCP_INSTANCE_ID");
  if (preassigned.empty() || !cli.flags.as.empty())
    return cli.actor();
  auto query = cli.query();
  query.mutable_find_session()->set_who(preassigned);
  auto answer = cli.node().coordination.ask(query);
  if (!answer.has_refusal())
    return answer.session();
  return register_session(cli, o).session().session();
}

json work_tracker(const invocation& cli, const v1::Session& session) {
  auto identity = domain::identity_name(domain::identity_token(session.label()));
  for (const auto& name : {identity, std::string{"default"}}) {
    if (name.empty())
      continue;
    auto query = cli.query();
    query.set_scope(session.scope());
    query.mutable_get_kv()->set_key("config/work_tracker/" + name);
    auto answer = cli.node().coordination.ask(query);
    if (answer.has_refusal())
      continue;
    auto value = domain::parse_json(answer.kv().value());
    return {{"key", answer.kv().key()},
            {"value", value ? std::move(*value) : json(answer.kv().value())},
            {"updated_at", mcp::seconds(answer.kv().updated_at_ms())}};
  }
  return nullptr;
}

int run_bootstrap(invocation& cli, const register_options& o) {
  if (o.limit < 1 || o.limit > 200)
    throw usage("--limit takes 1 to 200");
  auto session = bootstrap_session(cli, o);
  auto peers = json::array();
  for (const auto& peer : all_sessions(cli, session.scope()))
    if (peer.id() != session.id())
      peers.push_back(mcp::peer(peer));
  auto command = cli.command();
  command.set_scope(session.scope());
  command.set_actor(session.id());
  command.mutable_consume_messages()->set_limit(static_cast<std::uint32_t>(o.limit));
  auto unread = json::array();
  const auto consumed = cli.execute(command);
  for (const auto& m : consumed.messages().messages())
    unread.push_back(mcp::message(m));
  auto query = cli.query();
  query.set_scope(session.scope());
  query.mutable_task_snapshot()->set_include_terminal(true);
  auto tasks = mcp::snapshot(cli.ask(query).snapshot());
  cli.io().print({{"instance", mcp::instance(session)},
                  {"peers", peers},
                  {"unread_messages", unread},
                  {"tasks", tasks},
                  {"work_tracker", work_tracker(cli, session)}});
  return code::ok;
}

void build_bootstrap(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<register_options>();
  registration_options(app, *o);
  option(app, "--limit", o->limit, "at most this many unread messages, 1 to 200 (50)");
  on_run(app, cli, [o, &cli] { return run_bootstrap(cli, *o); });
}

/// The program of a worker that the node has started would go on without its session, while its locks and its task pass to others. What runs inside
/// of it may say that it is done.
void refuse_running_worker(const invocation& cli, const v1::Session& s) {
  if (cli.is_swarm_mcp() || s.spawn_id().empty() || s.spawn_id() == cli.env().get("SWARM_SPAWN_ID"))
    return;
  auto query = cli.query();
  query.set_scope(s.scope());
  query.mutable_list_spawns()->set_live_only(true);
  for (const auto& worker : all_rows<v1::Spawn>(cli, std::move(query))) {
    if (worker.id() != s.spawn_id())
      continue;
    const auto by_task = worker.harness() == domain::exec_harness && !worker.task_id().empty();
    throw failure(code::refused, escape_control(s.label().empty() ? s.id() : s.label(), false) +
                                   " is a worker whose program runs. End that with: swarmctl " +
                                   (by_task ? "cancel " + short_id(worker.task_id()) : "pty kill " + short_id(worker.id())));
  }
}

int run_deregister(invocation& cli) {
  auto session = cli.actor();
  refuse_running_worker(cli, session);
  auto command = cli.command();
  command.set_scope(session.scope());
  command.set_actor(session.id());
  command.mutable_deregister_session()->set_session_id(session.id());
  cli.execute(command);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"id", session.id()}, {"scope", session.scope()}});
  else
    cli.io().line("deregistered " + session.id());
  return code::ok;
}

void build_deregister(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_deregister(cli); });
}

/// The block about the swarm that belongs into an agent's prompt.
int run_prompt(invocation& cli) {
  auto me = cli.actor();
  auto query = cli.query();
  query.set_scope(me.scope());
  query.set_viewer(me.id());
  auto known = mcp::gather_ambient(query, [&](const v1::Query& q) { return cli.node().coordination.ask(q); });
  if (!known)
    throw failure(code::refused, "instance " + me.id() + " has just ended");
  auto block = mcp::make_ambient_block(*known);
  if (cli.json_wanted())
    cli.io().print(block.value);
  else
    cli.io().raw(block.text);
  return code::ok;
}

/// "  grants=pty,spawn(29 min left)"; empty for a session without any.
std::string grants_text(const invocation& cli, const v1::Session& s) {
  std::string out;
  for (const auto& g : domain::grants_at(s.grants(), s.grant_ends(), cli.now_ms())) {
    out += (out.empty() ? "  grants=" : ",") + g;
    for (const auto& e : s.grant_ends())
      if (e.grant() == g)
        out += "(" + duration(e.until_ms() - cli.now_ms()) + " left)";
  }
  return out;
}

int run_whoami(invocation& cli) {
  v1::Session session;
  try {
    session = cli.actor();
  } catch (const failure& f) {
    // In swarm-mcp nobody to be found is an answer.
    if (f.exit_status != code::refused || !cli.is_swarm_mcp())
      throw;
    throw failure(f.exit_status, f.what(), json(nullptr));
  }
  if (cli.json_wanted()) {
    auto out = mcp::instance(session);
    mcp::add_grants(out, session, cli.now_ms());
    cli.io().print(out);
    return code::ok;
  }
  cli.io().line(session.id() + "  " + (session.label().empty() ? "-" : session.label()) + "  scope=" + session.scope() + grants_text(cli, session));
  return code::ok;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return text;
}

json list_of(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  auto out = json::array();
  for (const auto& t : texts)
    out.push_back(t);
  return out;
}

json explained(const v1::Explanation& e) {
  json principal = nullptr;
  if (e.has_principal())
    principal = {{"kind", lower_case(v1::Principal::Kind_Name(e.principal().kind()))},
                 {"id", mcp::text_or_null(e.principal().id())},
                 {"grants", list_of(e.principal().grants())}};
  auto chain = json::array();
  for (const auto& p : e.chain())
    chain.push_back({{"pid", p.pid()},
                     {"start", p.start()},
                     {"program", mcp::text_or_null(p.program())},
                     {"role", mcp::text_or_null(p.role())},
                     {"session", mcp::text_or_null(p.session())},
                     {"matched", p.matched()}});
  return {{"principal", principal},
          {"rule", lower_case(v1::Explanation::Rule_Name(e.rule()))},
          {"reason", e.reason()},
          {"chain", chain},
          {"end", mcp::text_or_null(e.end())},
          {"scope", mcp::text_or_null(e.scope())},
          {"may", list_of(e.may())},
          {"may_not", list_of(e.may_not())},
          {"ways_out", list_of(e.ways_out())}};
}

/// Who this process is to the node, and why; also for who is refused everything else.
int run_explain(invocation& cli) {
  const auto e = cli.node().admin.explain();
  if (cli.json_wanted()) {
    cli.io().print(explained(e));
    return code::ok;
  }
  auto& io = cli.io();
  auto who = e.has_principal() ? lower_case(v1::Principal::Kind_Name(e.principal().kind())) : std::string{"nobody"};
  if (!e.principal().id().empty())
    who += " " + e.principal().id();
  io.line(who + (e.scope().empty() ? "" : "  scope=" + e.scope()));
  io.line("  because    " + escape_control(e.reason(), false));
  const char* head = "  processes  ";
  for (const auto& p : e.chain()) {
    io.line(concat({std::exchange(head, "             "), p.pid(), "  ", p.program().empty() ? "?" : escape_control(p.program(), false),
                    p.role().empty() ? "" : " (" + p.role() + ")", p.matched() ? "  <- this one" : ""}));
  }
  if (!e.end().empty())
    io.line(concat({std::exchange(head, "             "), escape_control(e.end(), false)}));
  auto list = [&](const char* name, const google::protobuf::RepeatedPtrField<std::string>& texts) {
    for (const auto& t : texts)
      io.line(concat({std::exchange(name, "             "), escape_control(t, false)}));
  };
  list("  may        ", e.may());
  list("  may not    ", e.may_not());
  list("  way out    ", e.ways_out());
  return code::ok;
}

void build_whoami(CLI::App& app, invocation& cli) {
  auto prompt = std::make_shared<bool>(false);
  auto explain = std::make_shared<bool>(false);
  flag(app, "--prompt", *prompt, "the block for a prompt: this session, its mail, tasks, locks and peers");
  flag(app, "--explain", *explain, "who this process is to the node, by which rule, what it may do, and the way out");
  on_run(app, cli, [prompt, explain, &cli] { return *explain ? run_explain(cli) : *prompt ? run_prompt(cli) : run_whoami(cli); });
}

json cli_instance_row(const v1::Session& s, std::int64_t now_ms) {
  json out = {{"id", s.id()},
              {"scope", s.scope()},
              {"directory", s.directory()},
              {"root", s.root()},
              {"file_root", s.file_root()},
              {"label", mcp::text_or_null(s.label())},
              {"pid", s.pid()},
              {"registered_at", mcp::seconds(s.registered_at_ms())},
              {"heartbeat", mcp::seconds(s.heartbeat_ms())}};
  mcp::add_located(out, s);
  mcp::add_grants(out, s, now_ms);
  return out;
}

std::string presence_text(const v1::Session& s, std::int64_t now_ms, colour& c) {
  auto age = std::max<std::int64_t>(0, now_ms - s.heartbeat_ms());
  bool attended = domain::is_attended(s, now_ms);
  const char* word = "live";
  c = colour::green;
  if (!attended && age > limits::session_reclaim().count())
    word = "offline", c = colour::red;
  else if (!attended && age > limits::session_stale().count())
    word = "stale", c = colour::yellow;
  return std::string{word} + " (" + std::to_string(age / 1000) + "s)";
}

int run_instances(invocation& cli) {
  auto sessions = all_sessions(cli, cli.scope());
  std::set<std::string> hosts;
  for (const auto& s : sessions)
    hosts.insert(s.node_id());
  tell_stale(cli, "instances", hosts);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& s : sessions)
      out.push_back(cli_instance_row(s, cli.now_ms()));
    cli.io().print(out);
    return code::ok;
  }
  if (sessions.empty()) {
    cli.io().line(none_in_scope(cli, "instances"));
    return code::ok;
  }
  cli.io().line("scope: " + scope_shown(cli));
  for (const auto& s : sessions) {
    auto c = colour::none;
    auto presence = presence_text(s, cli.now_ms(), c);
    cli.io().painted_line("  " + short_id(s.id()) + "  " + cli.io().paint(colour::cyan, s.label().empty() ? "-" : s.label()) +
                          "  pid=" + std::to_string(s.pid()) + "  " + cli.io().paint(c, presence) +
                          (s.workspace().pane_id().empty() ? "" : "  pane=" + cli.io().paint(colour::none, s.workspace().pane_id())));
  }
  return code::ok;
}

void build_instances(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_instances(cli); });
}

int run_remove(invocation& cli, const std::string& who) {
  auto target = cli.find(who);
  refuse_running_worker(cli, target);
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  command.mutable_remove_session()->set_session_id(target.id());
  cli.execute(command);
  auto name = target.label().empty() ? target.id() : target.label();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"id", target.id()}, {"scope", target.scope()}});
  else
    cli.io().line("Removed instance " + name + " (" + target.id() + "). Tasks released, locks cleared.");
  return code::ok;
}

void build_remove(CLI::App& app, invocation& cli) {
  auto who = std::make_shared<std::string>();
  option(app, "who", *who, who_words, argument::session)->required();
  on_run(app, cli, [who, &cli] { return run_remove(cli, *who); });
}

constexpr verb verbs[] = {
  {"register", subject::sessions, "register a session; it ends a minute after it last changed something, or when --lease-seconds are over",
   "  swarmctl register --label \"identity:work role:reviewer\" --lease-seconds 3600 --json", build_register},
  {"bootstrap", subject::sessions, "show what a session needs to start: peers, unread messages, tasks", "  swarmctl bootstrap --as reviewer",
   build_bootstrap},
  {"deregister", subject::sessions, "end this instance: its tasks reopen, its locks pass on", "  swarmctl deregister --as 3fa1", build_deregister},
  {"whoami", subject::sessions, "show which instance this is",
   "  swarmctl whoami --json\n  swarmctl whoami --explain\n  swarmctl whoami --prompt --as 3fa1", build_whoami},
  {"instances", subject::sessions, "list the instances of the scope", "  swarmctl instances --json", build_instances, "list-instances"},
  {"remove-instance", subject::sessions, "end another instance", "  swarmctl remove-instance 3fa1", build_remove},
};

} // namespace

std::span<const verb> session_verbs() { return verbs; }

} // namespace swarm::cli
