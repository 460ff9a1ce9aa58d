// register, list_instances, whoami, bootstrap, remove_instance, deregister.
#include <cctype>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/guides.hpp"
#include "gateway/mcp/rows.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/session/register.hpp"

namespace swarm::mcp {

namespace {

using domain::text_in;

tool_result registered(const member& me, const registration& asked) {
  const auto& s = me.bound()->session;
  const auto here = me.process().working_directory();
  const auto directory = normalize_path(asked.directory.empty() ? "." : asked.directory, here);
  const auto& note = me.bound()->note; // of a label, too
  const auto kept = kept_text(s, {.directory = asked.directory.empty() ? "" : directory,
                                  .label = note.empty() ? std::string{trimmed(asked.label)} : std::string{},
                                  .scope = asked.scope.empty() ? "" : resolve_scope(asked.scope, directory),
                                  .file_root = asked.file_root.empty() ? "" : normalize_path(asked.file_root, here)});
  tool_result out;
  // Consumers decode what stands first: compact, and nothing before it.
  out.texts.push_back(dump(instance(s), -1));
  out.texts.push_back(registered_text(kept));
  if (!note.empty())
    out.texts.push_back(note);
  std::string role;
  for (auto c : domain::role_of(s.label()))
    role += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (auto guidance = role_text(role); !guidance.empty())
    out.texts.push_back(std::move(guidance));
  return out;
}

tool_result register_session(member& me, const json& arguments) {
  registration r{text_in(arguments, "directory"), text_in(arguments, "label"), text_in(arguments, "scope"), text_in(arguments, "file_root"),
                 text_in(arguments, "adopt_instance_id")};
  auto before = me.bound();
  if (!r.adopt.empty() && (!before || before->session.id() != r.adopt)) {
    if (me.adopt(r))
      return registered(me, r);
    if (before)
      return said(json{{"error", "Could not adopt instance " + r.adopt + "; keeping current registration"}, {"instance", instance(before->session)}});
  }
  if (!before) {
    if (!r.directory.empty())
      me.process().check_directory(normalize_path(r.directory, me.process().working_directory()));
    me.enroll(r);
  }
  return registered(me, r);
}

tool_result deregister(member& me, const json&) {
  if (!me.ensure())
    return said("Not registered. Call register first.");
  auto id = me.bound()->session.id();
  me.deregister();
  return said("Deregistered instance " + id + ". Tasks released, locks cleared.");
}

v1::Query peers_query(const tool_call& call) {
  auto query = call.query();
  query.mutable_list_sessions()->set_adopted_only(true);
  return query;
}

tool_outcome list_instances(const tool_call& call) {
  auto query = peers_query(call);
  query.mutable_list_sessions()->set_label_contains(call.optional_text("label_contains"));
  auto out = json::array();
  for (const auto& s : all_sessions(call.node, std::move(query)))
    out.push_back(located_peer(s));
  return said(out);
}

tool_outcome whoami(const tool_call& call) {
  auto query = call.query();
  query.mutable_find_session()->set_who(call.session.id());
  auto answer = call.node.ask(query);
  return said(instance(answer.has_refusal() ? call.session : answer.session()));
}

json unread_messages(const tool_call& call, bool mark_read) {
  constexpr std::uint32_t at_most = 50;
  auto out = json::array();
  auto add = [&](const v1::Messages& found) {
    for (const auto& m : found.messages())
      out.push_back(message(m));
  };
  if (mark_read) {
    auto command = call.command();
    command.mutable_consume_messages()->set_limit(at_most);
    add(call.node.execute(command).messages());
  } else {
    auto query = call.query();
    auto* body = query.mutable_list_messages();
    body->set_to(call.session.id());
    body->set_unread_only(true);
    body->set_limit(at_most);
    add(call.node.ask(query).messages());
  }
  return out;
}

json work_tracker(const tool_call& call) {
  for (const auto& name : {domain::identity_name(domain::identity_token(call.session.label())), std::string{"default"}}) {
    if (name.empty())
      continue;
    auto query = call.query();
    query.mutable_get_kv()->set_key("config/work_tracker/" + name);
    auto answer = call.node.ask(query);
    if (answer.has_refusal())
      continue;
    auto value = domain::parse_json(answer.kv().value());
    return {{"key", answer.kv().key()},
            {"value", value ? std::move(*value) : json(answer.kv().value())},
            {"updated_at", seconds(answer.kv().updated_at_ms())}};
  }
  return nullptr;
}

json state_backend(const tool_call& call) {
  const auto& process = call.process;
  auto given = process.variable("SWARM_HOME");
  auto home = process.variable("HOME");
  auto state = process.variable("XDG_STATE_HOME");
  auto standard = (state.empty() ? home + "/.local/state" : state) + "/swarm";
  return {{"backend", "sqlite"},
          {"db_path", process.state_directory() + "/swarm.db"},
          {"db_path_source", given.empty() ? "home_default" : "SWARM_HOME"},
          {"default_db_path", standard + "/swarm.db"},
          {"scope", call.session.scope()},
          {"home", home},
          {"hermes_host_home", text_or_null(process.variable("HERMES_HOST_HOME"))},
          {"hermes_profile_home", text_or_null(process.variable("HERMES_PROFILE_HOME"))}};
}

tool_outcome bootstrap(const tool_call& call) {
  auto peers = json::array();
  for (const auto& s : all_sessions(call.node, peers_query(call)))
    if (s.id() != call.session.id())
      peers.push_back(peer(s));
  auto unread = unread_messages(call, call.flag("mark_read"));
  auto query = call.query();
  auto limit = call.arguments.at("terminal_limit").get<std::int64_t>();
  query.mutable_task_snapshot()->set_include_terminal(call.flag("include_terminal"));
  query.mutable_task_snapshot()->set_terminal_limit(
    static_cast<std::uint32_t>(std::min<std::int64_t>(limit, std::numeric_limits<std::uint32_t>::max())));
  auto tasks = snapshot(call.node.ask(query).snapshot(), call.flag("include_terminal") || limit > 0);
  return said(json{{"instance", instance(call.session)},
                   {"peers", peers},
                   {"unread_messages", unread},
                   {"state_backend", state_backend(call)},
                   {"tasks", tasks},
                   {"work_tracker", work_tracker(call)}});
}

/// What cannot be adopted is no reason not to begin.
void adopt_first(member& me, const json& arguments) {
  auto wanted = text_in(arguments, "adopt_instance_id");
  auto now = me.bound();
  if (!wanted.empty() && (!now || now->session.id() != wanted))
    me.adopt({.directory = {}, .label = {}, .scope = {}, .file_root = {}, .adopt = wanted});
}

tool_outcome remove_instance(const tool_call& call) {
  auto command = call.command();
  command.mutable_remove_session()->set_session_id(call.text("instance_id"));
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return said(reply.refusal().text());
  const auto& gone = reply.session().session();
  return said("Removed instance " + domain::display_name(gone) + " (" + gone.id() + "). Tasks released, locks cleared.");
}

} // namespace

std::vector<tool> session_tools() {
  const json reads = {{"readOnlyHint", true}};
  return {
    {.name = "register",
     .description = "Join the swarm of a repository as a session of your own. Call it once, first.",
     .input_schema = input_schema("register"),
     .bind = register_session},
    {.name = "list_instances",
     .description = "The sessions of the scope that you may work with, yourself included.",
     .input_schema = input_schema("list_instances"),
     .annotations = reads,
     .run = list_instances},
    {.name = "whoami", .description = "Which session you are.", .input_schema = input_schema("whoami"), .annotations = reads, .run = whoami},
    {.name = "bootstrap",
     .description = "Everything you need to begin: who you are, peers, unread messages (read with this), tasks, the work tracker.",
     .input_schema = input_schema("bootstrap"),
     .annotations = {{"readOnlyHint", false}, {"idempotentHint", false}},
     .run = bootstrap,
     .before = adopt_first},
    {.name = "remove_instance",
     .description = "End another session that is stuck: its tasks reopen, its locks are released, the others are told.",
     .input_schema = input_schema("remove_instance"),
     .run = remove_instance},
    {.name = "deregister",
     .description = "Leave the swarm: your tasks reopen and your locks are released.",
     .input_schema = input_schema("deregister"),
     .bind = deregister},
  };
}

} // namespace swarm::mcp
