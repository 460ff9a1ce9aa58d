// send_message, prompt_peer, peek_peer, resolve_workspace_handle, broadcast, poll_messages.
#include "actors/base/text.hpp"
#include "gateway/mcp/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"

namespace swarm::mcp {

namespace {

constexpr const char* no_identity = "no workspace identity is published for that instance";

tool_outcome send_message(const tool_call& call) {
  auto command = call.command();
  command.mutable_send_message()->set_recipient(call.text("recipient"));
  command.mutable_send_message()->set_content(call.text("content"));
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? reply.refusal().text() : "Message sent to " + call.text("recipient"));
}

tool_outcome prompt_peer(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_send_message();
  body->set_recipient(call.text("recipient"));
  body->set_content(call.text("message"));
  body->set_task_id(call.optional_text("task_id"));
  body->set_prompt(true);
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  auto prompted = reply.message_sent().prompt();
  if (!call.flag("nudge"))
    prompted.set_skipped("nudge=false");
  return said(prompt(prompted));
}

tool_outcome peek_peer(const tool_call& call) {
  const auto& peer = call.text("recipient");
  if (peer == call.session.id())
    return said_error("Cannot peek yourself");
  auto query = call.query();
  query.mutable_find_session()->set_who(peer);
  auto answer = call.node.ask(query);
  if (answer.has_refusal() || answer.session().id() != peer)
    return said_error("Instance " + peer + " is not active in this scope");
  return said(json{{"sender", call.session.id()},
                   {"recipient", peer},
                   {"peeked", false},
                   {"source", call.text("source")},
                   {"lines", call.arguments.at("lines")},
                   {"peek_skipped", no_identity}});
}

tool_outcome resolve_workspace_handle(const tool_call& call) {
  auto handle = std::string{trimmed(call.text("handle"))};
  if (handle.empty())
    return tool_result{{"resolve_workspace_handle requires handle"}, true};
  const auto& backend = call.text("backend");
  if (backend != "herdr")
    return tool_result{{"Unsupported workspace backend \"" + backend + "\". Currently registered: herdr."}, true};
  return said(json{{"backend", backend},
                   {"handle_kind", call.text("handle_kind")},
                   {"handle", handle},
                   {"canonical_handle", handle},
                   {"instance_id", nullptr},
                   {"ambiguous", false},
                   {"matches", json::array()}});
}

tool_outcome broadcast(const tool_call& call) {
  auto command = call.command();
  command.mutable_broadcast()->set_content(call.text("content"));
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return said(reply.refusal().text());
  return said("Broadcast sent to " + std::to_string(reply.broadcast_sent().recipients()) + " instance(s)");
}

tool_outcome poll_messages(const tool_call& call) {
  auto command = call.command();
  command.mutable_consume_messages()->set_limit(call.arguments.at("limit").get<std::uint32_t>());
  auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  auto out = json::array();
  for (const auto& m : reply.messages().messages())
    out.push_back(message(m));
  return said(out);
}

} // namespace

std::vector<tool> message_tools() {
  return {
    {.name = "send_message",
     .description = "Send a message to one session of the scope. It is kept until the recipient reads it.",
     .input_schema = input_schema("send_message"),
     .run = send_message},
    {.name = "prompt_peer",
     .description =
       "Send a message to one session and wake it, so that it looks into its mailbox now. The message is kept even when the peer cannot be woken.",
     .input_schema = input_schema("prompt_peer"),
     .run = prompt_peer},
    {.name = "peek_peer",
     .description = "Read the last lines of a peer's terminal without disturbing it.",
     .input_schema = input_schema("peek_peer"),
     .run = peek_peer},
    {.name = "resolve_workspace_handle",
     .description = "Find out which session sits behind a handle of a terminal workspace.",
     .input_schema = input_schema("resolve_workspace_handle"),
     .run = resolve_workspace_handle},
    {.name = "broadcast",
     .description = "Send a message to every other session of the scope that shares your identity.",
     .input_schema = input_schema("broadcast"),
     .run = broadcast},
    {.name = "poll_messages",
     .description = "Take your unread messages, the oldest first. They count as read then.",
     .input_schema = input_schema("poll_messages"),
     .run = poll_messages},
  };
}

} // namespace swarm::mcp
