// send_message, prompt_peer, peek_peer, resolve_workspace_handle, broadcast, poll_messages.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/mcp/workspace.hpp"
#include "gateway/session/nudge.hpp"

namespace swarm::mcp {

namespace {

workspace_access access(const tool_call& call) {
  return {[&call] { return call.query(); }, [&call](const v1::Query& q) { return call.node.ask(q); },
          [&call](const std::string& pty) {
            v1::ReadPtyRequest request;
            request.set_id(pty);
            request.set_tail(true);
            std::string out;
            call.node.read_pty(request, 0, [&](const v1::PtyChunk& chunk) {
              out += chunk.data();
              return out.size() < limits::pty_chunk_bytes_max;
            });
            return out;
          }};
}

/// Sends it, also to a session that is named by its label: a refused write names the holder of the lock so.
v1::Reply deliver(const tool_call& call, v1::Command command) {
  auto reply = call.node.execute(command);
  if (reply.refusal().code() != v1::Refusal::NOT_FOUND || call.text("recipient").empty())
    return reply;
  auto query = call.query();
  query.mutable_find_session()->set_who(call.text("recipient"));
  query.mutable_find_session()->set_whole_words(true);
  const auto answer = call.node.ask(query);
  if (answer.has_refusal() || answer.session().id() == call.text("recipient"))
    return reply;
  command.mutable_send_message()->set_recipient(answer.session().id());
  return call.node.execute(command);
}

tool_outcome send_message(const tool_call& call) {
  auto command = call.command();
  command.mutable_send_message()->set_recipient(call.text("recipient"));
  command.mutable_send_message()->set_content(call.text("content"));
  auto reply = deliver(call, command);
  return said(reply.has_refusal() ? reply.refusal().text() : "Message sent to " + call.text("recipient"));
}

tool_result await_nudge(const tool_call& call, const v1::PromptResult& prompted, std::uint64_t revision) {
  auto request = nudge_events(call.session.scope(), prompted, revision);
  const auto until = call.process.boot_ms() + limits::nudge_wait().count();
  try {
    for (auto left = limits::nudge_wait().count(); left > 0; left = until - call.process.boot_ms()) {
      auto heard = hearing::no;
      call.node.watch(request, left, [&](const v1::WatchReply& reply) {
        request.set_after(std::max(request.after(), reply.revision()));
        for (const auto& e : reply.events())
          heard = std::max(heard, heard_in(e, prompted));
        return heard == hearing::no;
      });
      if (heard == hearing::yes)
        return said(prompt(prompted));
      auto query = call.query();
      ask_for_nudge(query, prompted);
      if (was_nudged(call.node.ask(query), prompted))
        return said(prompt(prompted));
    }
  } catch (const call_failed& f) {
    if (f.exit_status == code::interrupted)
      throw;
    // The message is stored: an error of the call would have it sent again.
    return said(prompt(prompted, f.what()));
  }
  return said(prompt(prompted, nudge_error(prompted)));
}

tool_outcome prompt_peer(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_send_message();
  body->set_recipient(call.text("recipient"));
  body->set_content(call.text("message"));
  body->set_task_id(call.optional_text("task_id"));
  body->set_prompt(true);
  body->set_no_wake(!call.flag("nudge"));
  body->set_force_wake(call.flag("force"));
  auto reply = deliver(call, command);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  auto prompted = reply.message_sent().prompt();
  if (!call.flag("nudge"))
    prompted.set_skipped("nudge=false");
  if (!wakes_somebody(prompted))
    return said(prompt(prompted));
  return tool_waiting{[prompted, revision = reply.revision()](const tool_call& later) { return await_nudge(later, prompted, revision); },
                      [prompted](const std::string& why) { return said(prompt(prompted, "it is not known whether it was told: " + why)); }};
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
  auto source = call.text("source");
  auto lines = call.arguments.at("lines").get<std::size_t>();
  json out = {{"sender", call.session.id()}, {"recipient", peer}, {"peeked", false}, {"source", source}, {"lines", lines}};
  auto node = access(call);
  auto found = find_workspace(node, peer);
  if (!found.place) {
    out["peek_skipped"] = found.reason;
    return said(out);
  }
  out["workspace_backend"] = found.place->backend;
  out["workspace_handle"] = found.place->handle;
  out["handle_kind"] = found.place->handle_kind;
  out["agent_status"] = agent_status(answer.session());
  if (auto mine = find_workspace(node, call.session.id());
      mine.place && mine.place->backend == found.place->backend && mine.place->handle == found.place->handle) {
    out["peek_skipped"] = "that workspace handle is your own pane";
    return said(out);
  }
  const auto* backend = find_workspace_backend(found.place->backend);
  if (!backend->read) {
    out["peek_skipped"] = "workspace backend " + found.place->backend + " does not support reading handles";
    return said(out);
  }
  try {
    out["text"] = backend->read(node, answer.session(), found.place->handle, lines, source == "visible");
    out["peeked"] = true;
  } catch (const call_failed& f) {
    if (!f.is_refusal())
      throw;
    out["peek_error"] = f.what();
  }
  return said(out);
}

tool_outcome resolve_workspace_handle(const tool_call& call) {
  auto handle = std::string{trimmed(call.text("handle"))};
  if (handle.empty())
    return tool_result{{"resolve_workspace_handle requires handle"}, true};
  // The schema's default is that of swarm-mcp, which had one backend only: here it means any backend that knows the handle.
  std::optional<std::string> backend;
  if (const auto& named = call.text("backend"); named != "herdr")
    backend = named;
  if (backend && !find_workspace_backend(*backend))
    return tool_result{{"Unsupported workspace backend \"" + *backend + "\". Currently registered: " + workspace_backend_names() + "."}, true};
  return said(resolve_handle(access(call), handle, backend, call.text("handle_kind")));
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
