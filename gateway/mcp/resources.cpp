#include "gateway/mcp/resources.hpp"

#include "actors/base/paths.hpp"
#include "actors/base/worktree.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/guides.hpp"
#include "gateway/mcp/rows.hpp"
#include "gateway/session/ambient_block.hpp"

namespace swarm::mcp {

namespace {

constexpr std::string_view lock_prefix = "swarm://lock?file=";

json entry(const char* uri, const char* name, const char* description) {
  return {{"uri", uri}, {"name", name}, {"description", description}, {"mimeType", "application/json"}};
}

v1::Query query_of(const host& process, const binding& who) {
  v1::Query q;
  q.set_scope(who.session.scope());
  q.set_viewer(who.session.id());
  *q.mutable_caller() = process.caller();
  return q;
}

json inbox(connection& node, v1::Query query, const binding& who) {
  auto* body = query.mutable_list_messages();
  body->set_to(who.session.id());
  body->set_unread_only(true);
  body->set_limit(50);
  auto out = json::array();
  const auto answer = node.ask(query);
  for (const auto& m : answer.messages().messages())
    out.push_back(message(m));
  return out;
}

json instances(connection& node, v1::Query query) {
  query.mutable_list_sessions()->set_adopted_only(true);
  auto out = json::array();
  for (const auto& s : all_sessions(node, std::move(query)))
    out.push_back(peer(s));
  return out;
}

/// The block as text beside its facts: some hosts put a resource into the prompt as it is, others read it.
json ambient_context(connection& node, const v1::Query& query) {
  auto known = gather_ambient(query, [&](const v1::Query& q) { return node.ask(q); });
  if (!known)
    return nullptr;
  auto block = make_ambient_block(*known);
  block.value["text"] = std::move(block.text);
  return std::move(block.value);
}

json no_tasks() {
  auto out = json::object();
  for (const auto* status : {"open", "claimed", "in_progress", "blocked", "approval_required", "done", "failed", "cancelled"})
    out[status] = json::array();
  return out;
}

json lock_for(const std::string& input, const host& process, connection& node, const binding_ptr& bound) {
  v1::Query query;
  if (bound) {
    query = query_of(process, *bound);
    const auto& s = bound->session;
    auto path = resolve_file(file_word(input, s.directory()), s.directory(), s.file_root(), s.root().empty() ? s.directory() : s.root());
    query.mutable_get_lock()->set_path(repository_path(path, s.scope()));
  } else {
    auto here = process.working_directory();
    *query.mutable_caller() = process.caller();
    query.set_scope(resolve_scope(process.variable("SWARM_MCP_SCOPE"), here));
    query.mutable_get_lock()->set_path(repository_path(resolve_file(file_word(input, here), here, here, git_root(here)), query.scope()));
  }
  auto answer = node.ask(query);
  if (answer.has_refusal())
    throw call_failed(code::refused, answer.refusal().text());
  return file_lock(answer.lock(), process.now_ms());
}

} // namespace

json resource_list() {
  return json::array({entry(inbox_uri, "inbox", "Your unread messages; reading them here marks nothing as read"),
                      entry(tasks_uri, "tasks", "The task board, by status"), entry(instances_uri, "instances", "The sessions you may work with"),
                      entry(context_uri, "context", "A short block for a prompt: who you are, your mail, tasks and locks, your peers")});
}

json resource_templates() {
  return json::array({{{"uriTemplate", "swarm://lock{?file}"},
                       {"name", "lock-for-file"},
                       {"description", "Who has a file locked"},
                       {"mimeType", "application/json"}}});
}

std::optional<std::string> read_resource(const std::string& uri, const host& process, connection& node, const binding_ptr& bound) {
  if (uri == inbox_uri)
    return dump(bound ? inbox(node, query_of(process, *bound), *bound) : json::array());
  if (uri == instances_uri)
    return dump(bound ? instances(node, query_of(process, *bound)) : json::array());
  if (uri == context_uri)
    return dump(bound ? ambient_context(node, query_of(process, *bound)) : json(nullptr));
  if (uri == tasks_uri) {
    if (!bound)
      return dump(no_tasks());
    auto query = query_of(process, *bound);
    query.mutable_task_snapshot()->set_include_terminal(true);
    return dump(snapshot(node.ask(query).snapshot()));
  }
  if (uri.starts_with(lock_prefix))
    return dump(lock_for(uri.substr(lock_prefix.size()), process, node, bound));
  return std::nullopt;
}

json prompt_list() {
  return json::array({{{"name", "setup"}, {"title", "Swarm Setup"}, {"description", "Join the swarm of this repository"}},
                      {{"name", "protocol"}, {"title", "Swarm Protocol"}, {"description", "How sessions work together"}}});
}

std::optional<json> get_prompt(const std::string& name) {
  if (name != "setup" && name != "protocol")
    return std::nullopt;
  auto text = name == "setup" ? setup_prompt() : protocol_prompt();
  return json{{"messages", json::array({{{"role", "user"}, {"content", {{"type", "text"}, {"text", std::move(text)}}}}})}};
}

} // namespace swarm::mcp
