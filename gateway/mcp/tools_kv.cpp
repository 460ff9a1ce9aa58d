// kv_get, kv_set, kv_append, kv_delete, kv_list, kv_set_ttl.
#include "actors/base/limits.hpp"
#include "actors/domain/json_text.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/rows.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"

namespace swarm::mcp {

namespace {

std::string quoted(const std::string& key) { return "\"" + key + "\""; }

tool_outcome kv_get(const tool_call& call) {
  auto query = call.query();
  query.mutable_get_kv()->set_key(call.text("key"));
  auto answer = call.node.ask(query);
  if (answer.has_refusal())
    return said(answer.refusal().code() == v1::Refusal::NOT_FOUND ? "Key " + quoted(call.text("key")) + " not found" : answer.refusal().text());
  return said(kv_value(answer.kv()));
}

tool_outcome kv_set(const tool_call& call) {
  auto command = call.command();
  command.mutable_set_kv()->set_key(call.text("key"));
  command.mutable_set_kv()->set_value(call.text("value"));
  auto reply = call.node.execute(command);
  return reply.has_refusal() ? said_error(reply.refusal().text()) : said("Set " + quoted(call.text("key")));
}

tool_outcome kv_set_ttl(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_set_kv();
  body->set_key(call.text("key"));
  body->set_value(call.text("value"));
  body->set_ttl_ms(call.arguments.at("ttl_seconds").get<std::int64_t>() * 1000);
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  return said(json{{"ok", true}, {"key", body->key()}, {"expires_at", seconds(reply.kv_written().entry().expires_at_ms())}});
}

json kv_set_ttl_schema() {
  using namespace schemas;
  auto longest_s = std::chrono::duration_cast<std::chrono::seconds>(limits::kv_ttl_max()).count();
  return arguments({required("key", schemas::text()), required("value", schemas::text()),
                    required("ttl_seconds", integer("the key goes by itself after that", {.minimum = 1, .maximum = longest_s}))});
}

tool_outcome kv_append(const tool_call& call) {
  if (!domain::parse_json(call.text("value")))
    return said("Value must be valid JSON");
  auto command = call.command();
  command.mutable_append_kv()->set_key(call.text("key"));
  command.mutable_append_kv()->set_json(call.text("value"));
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return tool_result{{reply.refusal().text()}, true};
  return said("Appended to " + quoted(call.text("key")) + " (" + std::to_string(reply.kv_written().items()) + " items)");
}

tool_outcome kv_delete(const tool_call& call) {
  auto command = call.command();
  command.mutable_delete_kv()->set_key(call.text("key"));
  call.node.execute(command);
  // Also for a key that is missing or another identity's: swarm-mcp knows no other answer.
  return said("Deleted " + quoted(call.text("key")));
}

tool_outcome kv_list(const tool_call& call) {
  auto query = call.query();
  query.mutable_list_kv()->set_prefix(call.optional_text("prefix"));
  auto out = json::array();
  for (const auto& entry : all_kv(call.node, std::move(query)))
    out.push_back(kv_row(entry));
  return said(out);
}

} // namespace

std::vector<tool> kv_tools() {
  const json reads = {{"readOnlyHint", true}};
  return {
    {.name = "kv_get", .description = "Read a shared key of the scope.", .input_schema = input_schema("kv_get"), .annotations = reads, .run = kv_get},
    {.name = "kv_set",
     .description = "Write a shared key of the scope, such as plan/latest. It then belongs to your identity.",
     .input_schema = input_schema("kv_set"),
     .run = kv_set},
    {.name = "kv_append",
     .description = "Add one JSON value to the array in a shared key. Several sessions may append at once and nothing is lost.",
     .input_schema = input_schema("kv_append"),
     .run = kv_append},
    {.name = "kv_delete", .description = "Remove a shared key of the scope.", .input_schema = input_schema("kv_delete"), .run = kv_delete},
    {.name = "kv_list",
     .description = "The keys of the scope and when they were written.",
     .input_schema = input_schema("kv_list"),
     .annotations = reads,
     .run = kv_list},
    {.name = "kv_set_ttl",
     .description = "Write a shared key of the scope that goes by itself after a time, such as a sign that you are busy.",
     .input_schema = kv_set_ttl_schema(),
     .run = kv_set_ttl},
  };
}

} // namespace swarm::mcp
