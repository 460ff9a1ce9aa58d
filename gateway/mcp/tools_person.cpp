// ask_person.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"

namespace swarm::mcp {

namespace {

json question(const v1::Approval& a) {
  const bool open = a.decided_at_ms() == 0;
  return {{"id", a.id()},
          {"state", open                     ? "open"
                    : !a.decision().empty()  ? "decided"
                    : !a.withdrawn().empty() ? "withdrawn"
                                             : "expired"},
          {"answer", text_or_null(a.decision())},
          {"decided_at", seconds_or_null(a.decided_at_ms())}};
}

struct asked {
  v1::Approval approval;
  std::uint64_t revision = 0; // of the scope when it was so
  std::string refusal;
};

asked look(const tool_call& call, const std::string& id) {
  auto query = call.query();
  query.mutable_list_approvals()->set_id(id);
  const auto answer = call.node.ask(query);
  if (answer.has_refusal())
    return {{}, 0, answer.refusal().text()};
  if (answer.approvals().approvals().empty())
    return {{}, 0, "There is no question " + id + " of yours"};
  return {answer.approvals().approvals(0), answer.revision(), {}};
}

asked ask(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_request_approval();
  body->set_subject("session/" + call.session.id());
  body->set_kind(v1::Approval::QUESTION);
  body->set_title(call.text("title"));
  body->set_body(call.optional_text("body"));
  if (call.given("options"))
    for (const auto& option : call.arguments.at("options"))
      body->add_options(option.get<std::string>());
  else
    for (const auto* option : {"yes", "no"})
      body->add_options(option);
  body->set_timeout_ms(call.arguments.at("timeout_seconds").get<std::int64_t>() * 1000);
  const auto reply = call.node.execute(command);
  if (reply.has_refusal())
    return {{}, 0, reply.refusal().text()};
  return {reply.approval(), reply.revision(), {}};
}

tool_result told(const asked& what) { return what.refusal.empty() ? said(question(what.approval)) : said_error(what.refusal); }

/// An answer that is told here is mail no more: it would be the agent's next turn. What cannot be taken back is told twice.
tool_result told_here(const tool_call& call, const asked& what) {
  if (what.refusal.empty() && !what.approval.decision().empty()) {
    auto command = call.command();
    command.mutable_withdraw_approval()->set_approval_id(what.approval.id());
    try {
      call.node.execute(command);
    } catch (const call_failed& f) {
      if (f.exit_status == code::interrupted)
        throw;
    }
  }
  return told(what);
}

/// Until it is decided, or as long as a program waits for a tool.
tool_result await_answer(const tool_call& call, asked what) {
  const auto until = call.process.boot_ms() + limits::ask_person_wait.count();
  v1::WatchRequest request;
  request.set_scope(call.session.scope());
  request.set_subject(what.approval.id());
  request.add_types("approval.");
  request.set_after(what.revision);
  try {
    for (auto left = limits::ask_person_wait.count(); left > 0 && what.refusal.empty() && what.approval.decided_at_ms() == 0;
         left = until - call.process.boot_ms()) {
      call.node.watch(request, left, [&](const v1::WatchReply& reply) {
        request.set_after(std::max(request.after(), reply.revision()));
        return reply.events().empty();
      });
      what = look(call, what.approval.id());
    }
  } catch (const call_failed& f) {
    if (f.exit_status == code::interrupted)
      throw;
    // The question is stored: an error of the call would have it asked again under another id.
  }
  return told_here(call, what);
}

tool_outcome ask_person(const tool_call& call) {
  if (call.given("id") == call.given("title"))
    return said_error("Pass title to ask a question, or the id of one that you have asked to wait for its answer");
  auto what = call.given("id") ? look(call, call.text("id")) : ask(call);
  if (!what.refusal.empty() || what.approval.decided_at_ms() != 0)
    return told_here(call, what);
  return tool_waiting{[what](const tool_call& later) { return await_answer(later, what); }, [what](const std::string&) { return told(what); }};
}

json ask_person_schema() {
  using namespace schemas;
  return arguments({
    optional("title", text("The question, in one line of at most 1 KiB.")),
    optional("body", text("What the person needs to know to answer it, at most 16 KiB.")),
    optional("options", list(text("An answer that may be chosen, at most 64 bytes; at most 8 of them. Left out: yes and no."))),
    defaulted("timeout_seconds",
              integer("After so many seconds the question expires without an answer; 0: it waits.",
                      {.minimum = 0, .maximum = limits::lease_max().count() / 1000}),
              0),
    optional("id", text("Of a question that you have asked: waits for its answer again.")),
  });
}

} // namespace

std::vector<tool> person_tools() {
  return {
    {.name = "ask_person",
     .description =
       "Ask a person a question with a few answers to choose from. Waits at most 50 seconds; while state is open, call it again with the id, or go "
       "on: an answer that no call waits for comes as a message.",
     .input_schema = ask_person_schema(),
     .annotations = {{"readOnlyHint", false}, {"idempotentHint", false}, {"openWorldHint", false}},
     .run = ask_person},
  };
}

} // namespace swarm::mcp
