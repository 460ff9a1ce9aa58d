// swarm_status, wait_for_activity, events_since.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"

namespace swarm::mcp {

namespace {

tool_outcome swarm_status(const tool_call& call) {
  auto query = call.query();
  query.mutable_get_status();
  auto answer = call.node.ask(query);
  return answer.has_refusal() ? said_error(answer.refusal().text()) : said(status(answer.status()));
}

tool_outcome events_since(const tool_call& call) {
  auto query = call.query();
  auto* body = query.mutable_list_events();
  body->set_after(call.arguments.at("revision").get<std::uint64_t>());
  if (call.given("types"))
    for (const auto& type : call.arguments.at("types"))
      body->add_types(type.get<std::string>());
  body->mutable_page()->set_size(call.arguments.at("limit").get<std::uint32_t>());
  auto answer = call.node.ask(query);
  // A page may end without a row when much else has happened: then it goes on.
  while (!answer.has_refusal() && answer.events().events().empty() && !answer.events().page().token().empty()) {
    body->mutable_page()->set_token(answer.events().page().token());
    answer = call.node.ask(query);
  }
  if (answer.has_refusal())
    return said_error(answer.refusal().text());
  const auto& found = answer.events();
  auto rows = json::array();
  for (const auto& e : found.events())
    rows.push_back(event(e));
  // With no more to come the position is the present one, so that events of other types are not gone through again.
  auto more = !found.page().token().empty();
  auto next = more ? found.events().rbegin()->revision() : answer.revision();
  return said(json{{"events", rows}, {"next", next}, {"more", more}, {"oldest", found.oldest()}});
}

json events_since_schema() {
  using namespace schemas;
  return arguments(
    {defaulted("revision", integer("only events after this one; 0: from the oldest kept. Go on with the `next` of the last answer", {.minimum = 0}),
               0),
     optional("types", list(text("a type or its beginning, such as task."))),
     defaulted("limit", integer("at most so many", {.minimum = 1, .maximum = static_cast<std::int64_t>(limits::page_rows_max)}), 100)});
}

/// As long as it takes, in waits that the node grants, each from where the last one ended.
tool_result wait(const tool_call& call, std::int64_t timeout_ms, std::uint64_t since, bool mail_waits) {
  auto began = call.process.boot_ms();
  v1::WaitRequest request;
  request.set_scope(call.session.scope());
  request.set_session_id(call.session.id());
  *request.mutable_caller() = call.process.caller();
  request.set_since(since);
  for (;;) {
    auto waited = call.process.boot_ms() - began;
    if (timeout_ms > 0 && waited >= timeout_ms)
      break;
    auto longest = limits::server_wait_max().count();
    request.set_timeout_ms(timeout_ms > 0 ? std::min<std::int64_t>(longest, timeout_ms - waited) : longest);
    auto happened = call.node.wait_for_activity(request);
    if (happened.has_refusal())
      return said_error(happened.refusal().text());
    if (!happened.timed_out()) {
      // What came between the two steps was no mail that waited.
      if (!mail_waits && std::count(happened.changes().begin(), happened.changes().end(), "task_updates") == 0)
        happened.clear_tasks();
      return said(activity(happened));
    }
    request.set_since(happened.revision());
  }
  v1::Activity nothing;
  nothing.set_timed_out(true);
  return said(dump(activity(nothing), -1));
}

tool_outcome wait_for_activity(const tool_call& call) {
  auto query = call.query();
  auto* unread = query.mutable_list_messages();
  unread->set_to(call.session.id());
  unread->set_unread_only(true);
  unread->set_limit(1);
  auto answer = call.node.ask(query);
  if (answer.has_refusal())
    return said_error(answer.refusal().text());
  // Changes by later requests of this session are news, so the wait begins here and not when its thread does.
  auto since = answer.revision();
  bool mail_waits = !answer.messages().messages().empty();
  auto seconds = call.arguments.at("timeout_seconds").get<std::int64_t>();
  constexpr std::int64_t longest_s = 365LL * 24 * 3600;
  return tool_waiting{[=](const tool_call& later) { return wait(later, std::min(seconds, longest_s) * 1000, since, mail_waits); }};
}

} // namespace

std::vector<tool> status_tools() {
  return {
    {.name = "swarm_status",
     .description = "What you should know and do next: your tasks and locks, who blocks you, warnings, and the tool to call.",
     .input_schema = input_schema("swarm_status"),
     .annotations = {{"readOnlyHint", true}},
     .run = swarm_status},
    {.name = "wait_for_activity",
     .description =
       "Wait until there is mail for you or tasks, peers or keys change. Returns at once when mail is waiting. Use it instead of asking again.",
     .input_schema = input_schema("wait_for_activity"),
     .annotations = {{"readOnlyHint", false}, {"idempotentHint", false}, {"openWorldHint", false}},
     .run = wait_for_activity},
    {.name = "events_since",
     .description = "What has happened in the scope after a position, in order: who did what to which task, lock, key or session.",
     .input_schema = events_since_schema(),
     .annotations = {{"readOnlyHint", true}},
     .run = events_since},
  };
}

} // namespace swarm::mcp
