// The promotion policy, as in swarm-mcp. Nothing here talks to a tracker: a coordinator or a planner that has one reads the decision.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

constexpr std::size_t description_units_small = 80;
constexpr std::size_t title_units_small = 60;

std::string binding_key(const v1::Promotion& p, const std::string& task_id) { return "tracker/" + p.provider() + "/" + p.identity() + "/" + task_id; }

v1::Promotion deny(v1::Promotion p, const char* reason) {
  p.set_reason(reason);
  return p;
}

v1::Promotion promote(v1::Promotion p, const char* mode, const char* reason, const char* precedence) {
  p.set_promote(true);
  p.set_mode(mode);
  p.set_reason(reason);
  p.set_precedence(precedence);
  return p;
}

/// A part of a task goes where the whole went.
v1::Promotion as_parent(const transaction& tx, v1::Promotion p, const std::string& parent) {
  const auto entry = live_kv(tx, binding_key(p, parent));
  const auto ticket = entry ? parse_json(entry->value()) : std::nullopt;
  // Longer than any ticket's name or address: then it is something else.
  const auto text = [&](const char* name, std::size_t bytes_max) {
    if (!ticket || !ticket->is_object() || !ticket->contains(name) || !(*ticket)[name].is_string())
      return std::string();
    auto value = (*ticket)[name].get<std::string>();
    return value.size() <= bytes_max ? value : std::string();
  };
  p.set_identifier(text("identifier", limits::id_bytes_max));
  if (p.identifier().empty())
    return deny(std::move(p), "parent_routine_skipped");
  p.set_url(text("url", limits::path_bytes_max()));
  return promote(std::move(p), "link", "parent_binding_inherited", "routine");
}

std::string_view ticket_of(const v1::TaskSpec& task) {
  for (const auto* text : {&task.idempotency_key(), &task.title(), &task.description()})
    if (const auto ticket = first_ticket(*text); !ticket.empty())
      return ticket;
  return {};
}

bool is_promotable(std::string_view type) { return type == "implement" || type == "fix" || type == "review" || type == "research"; }

bool is_small(const v1::TaskSpec& task) {
  return task.files_size() <= 1 && utf16_length(trimmed(task.description())) <= description_units_small &&
         utf16_length(trimmed(task.title())) <= title_units_small;
}

v1::Promotion by_size(v1::Promotion p, const tracker_config& tracker, const v1::TaskSpec& task) {
  if (tracker.default_promotion == "explicit-only")
    return deny(std::move(p), "repo_explicit_only");
  if (tracker.default_promotion == "always")
    return promote(std::move(p), "create", "repo_default_always", "repo");
  if (is_small(task))
    return deny(std::move(p), "trivial_inline_edit");
  return promote(std::move(p), "create", "medium_or_larger", tracker.default_promotion.empty() ? "default" : "identity");
}

} // namespace

v1::Promotion decide_promotion(const transaction& tx, const v1::Dispatch& asked, const v1::TaskSpec& task, std::string_view label) {
  v1::Promotion p;
  const auto token = identity_token(label);
  p.set_identity(identity_name(token));
  if (p.identity().empty())
    return deny(std::move(p), "missing_identity_label");
  const auto tracker = configured_tracker(tx, token);
  if (!tracker)
    return deny(std::move(p), "no_tracker_configured");
  p.set_provider(tracker->provider);
  if (!tracker->identity.empty() && tracker->identity != p.identity())
    return deny(std::move(p), "identity_mismatch");
  if (!task.parent_task_id().empty())
    return as_parent(tx, std::move(p), task.parent_task_id());
  if (task.idempotency_key().rfind("__swarm/", 0) == 0)
    return deny(std::move(p), "synthetic_resource");
  if (asked.has_promote() && !asked.promote())
    return deny(std::move(p), "operator_suppressed");
  const auto named = trimmed(asked.promote_identifier());
  if (const auto ticket = named.empty() ? ticket_of(task) : named; !ticket.empty()) {
    p.set_identifier(std::string(ticket));
    return promote(std::move(p), "link", "explicit_identifier", "per_dispatch");
  }
  if (asked.promote())
    return promote(std::move(p), "create", "operator_requested", "per_dispatch");
  if (!is_promotable(task.type()))
    return deny(std::move(p), "type_not_promotable");
  return by_size(std::move(p), *tracker, task);
}

void bind_to_ticket(transaction& tx, const std::string& task_id, v1::Promotion& p) {
  if (p.identifier().empty())
    return;
  v1::SetKv link;
  link.set_key(binding_key(p, task_id));
  if (link.key().size() > limits::kv_key_bytes_max()) {
    p.set_link_error("The key of the link is longer than " + std::to_string(limits::kv_key_bytes_max()) + " bytes");
    return;
  }
  json ticket{{"identifier", p.identifier()}};
  if (!p.url().empty())
    ticket["url"] = p.url();
  ticket["linked_at"] = tx.in().now_ms;
  link.set_value(ticket.dump(-1, ' ', false, json::error_handler_t::replace));
  if (const auto reply = set_kv(tx, link); refused(reply))
    p.set_link_error(reply.refusal().text());
  else
    p.set_linked_at_ms(tx.in().now_ms);
}

} // namespace swarm::domain
