#include "gateway/session/nudge.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "gateway/session/task_follow.hpp"

namespace swarm::mcp {

bool wakes_somebody(const v1::PromptResult& p) { return p.skipped().empty() && p.message_id() != 0 && !p.handle().empty(); }

v1::WatchRequest nudge_events(const std::string& scope, const v1::PromptResult& p, std::uint64_t revision) {
  v1::WatchRequest request;
  request.set_scope(scope);
  request.set_after(revision);
  request.set_subject(p.recipient());
  request.add_types("message.delivered");
  request.add_types("message.read");
  return request;
}

hearing heard_in(const v1::Event& e, const v1::PromptResult& p) {
  const auto payload = payload_of(e);
  auto named = payload.find("messages");
  if (named == payload.end() || !named->is_array())
    return hearing::unclear;
  if (std::any_of(named->begin(), named->end(),
                  [&](const auto& m) { return m.is_object() && m.value("id", nlohmann::ordered_json{}) == p.message_id(); }))
    return hearing::yes;
  return named->size() < limits::announced_tasks_max ? hearing::no : hearing::unclear;
}

void ask_for_nudge(v1::Query& query, const v1::PromptResult& p) {
  auto* list = query.mutable_list_messages();
  list->set_from(p.sender());
  list->set_to(p.recipient());
  list->set_limit(limits::messages_listed_max);
}

bool was_nudged(const v1::Answer& answer, const v1::PromptResult& p) {
  const auto& all = answer.messages().messages();
  return std::any_of(all.begin(), all.end(), [&](const auto& m) { return m.id() == p.message_id() && (m.read() || m.delivered_at_ms() != 0); });
}

std::string nudge_error(const v1::PromptResult& p) {
  if (p.agent_status() == v1::AgentReport::UNKNOWN)
    return "it is still starting; it is told when it waits for input";
  return "it could not be told within " + std::to_string(limits::nudge_wait().count()) +
         " ms: a person types there, or the program does not read; it is told as soon as it can be";
}

} // namespace swarm::mcp
