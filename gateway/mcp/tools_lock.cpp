// get_file_lock, lock_file, unlock_file, lock_acquire, lock_verify.
#include <cmath>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/session/lock_target.hpp"

namespace swarm::mcp {

namespace {

/// The name under which a file is locked: where its symbolic links lead.
std::string locked_name(const tool_call& call) {
  const auto& input = call.text("file");
  const auto& directory = call.session.directory();
  auto real = call.real_file(input);
  return real == normalize_path(file_word(input, directory), directory) ? call.file(input) : call.file(real);
}

tool_outcome get_file_lock(const tool_call& call) {
  auto query = call.query();
  query.mutable_get_lock()->set_path(locked_name(call));
  auto answer = call.node.ask(query);
  if (answer.has_refusal())
    return said_error(answer.refusal().text());
  return said(file_lock(answer.lock(), call.process.now_ms()));
}

/// What lock_file and lock_acquire have in common.
v1::Command acquisition(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_acquire_lock();
  body->set_path(locked_name(call));
  body->set_note(call.given("reason") ? call.text("reason") : "actively editing");
  body->set_task_id(call.optional_text("task_id"));
  body->set_exclusive(call.flag("exclusive"));
  return command;
}

std::optional<std::string> why_not_lockable(const tool_call& call) {
  if (trimmed(call.text("file")).empty())
    return "The name of the file is empty. To lock everything below your directory, name it: .";
  return mcp::why_not_lockable(call.real_file(call.text("file")), scope_of_files(call.session));
}

tool_outcome lock_file(const tool_call& call) {
  if (auto why = why_not_lockable(call))
    return said_error(*why);
  return said(lock_reply(call.node.execute(acquisition(call)), call.process.now_ms()));
}

tool_outcome unlock_file(const tool_call& call) {
  auto command = call.command();
  const auto given = call.file(call.text("file")), followed = locked_name(call);
  // First by the name as it is given: a symbolic link may have taken the place of what was locked.
  command.mutable_release_lock()->set_path(given);
  if (const auto reply = call.node.execute(command); !reply.lock().released() && given != followed) {
    command.mutable_release_lock()->set_path(followed);
    call.node.execute(command);
  }
  // Also when somebody else holds it and nothing has happened: swarm-mcp knows no other answer.
  return said("Unlocked " + call.text("file"));
}

// -- not in swarm-mcp ----------------------------------------------------------------------

std::int64_t milliseconds_in(const tool_call& call, const char* name) {
  return call.given(name) ? static_cast<std::int64_t>(std::ceil(call.arguments.at(name).get<double>() * 1000)) : 0;
}

json acquired(const v1::Reply& reply, std::int64_t now_ms) {
  auto out = lock_reply(reply, now_ms);
  if (reply.has_refusal())
    return out;
  const auto& lock = reply.lock().lock();
  out["file"] = lock.path();
  out["fence"] = lock.fence();
  if (lock.deadline_ms() != 0)
    out["expires_at"] = seconds(lock.deadline_ms());
  return out;
}

/// In line until it is granted, refused or given up; a caller that gives up leaves the line.
tool_result stand_in_line(const tool_call& call, v1::Command command) {
  auto wait_ms = command.acquire_lock().wait_ms();
  auto path = command.acquire_lock().path();
  auto leave = [&] {
    command.mutable_cancel_lock_wait()->set_path(path);
    auto left = call.node.execute(command);
    // Too late: it had been granted. Nobody would know of it.
    if (!left.has_lock())
      return;
    command.mutable_release_lock()->set_path(path);
    command.mutable_release_lock()->set_fence(left.lock().lock().fence());
    call.node.execute(command);
  };
  try {
    auto reply = call.node.execute(command, {}, wait_ms);
    if (!reply.has_lock_waiting())
      return said(acquired(reply, call.process.now_ms()));
    leave();
    return said_error("Still in line for " + path);
  } catch (const call_failed&) {
    leave();
    throw;
  }
}

tool_outcome lock_acquire(const tool_call& call) {
  if (auto why = why_not_lockable(call))
    return said_error(*why);
  auto command = acquisition(call);
  auto* body = command.mutable_acquire_lock();
  body->set_ttl_ms(milliseconds_in(call, "ttl_seconds"));
  auto reply = call.node.execute(command);
  auto wait_ms = milliseconds_in(call, "wait_seconds");
  if (wait_ms == 0 || reply.refusal().code() != v1::Refusal::CONFLICT)
    return said(acquired(reply, call.process.now_ms()));
  body->set_wait_ms(wait_ms);
  return tool_waiting{[command](const tool_call& later) { return stand_in_line(later, command); }};
}

tool_outcome lock_verify(const tool_call& call) {
  auto query = call.query();
  auto* body = query.mutable_verify_lock();
  body->set_path(locked_name(call));
  body->set_fence(call.arguments.at("fence").get<std::uint64_t>());
  auto answer = call.node.ask(query);
  if (answer.has_refusal())
    return said_error(answer.refusal().text());
  json out = {{"ok", answer.lock_verified().valid()}, {"file", body->path()}, {"fence", body->fence()}};
  if (answer.lock_verified().has_lock())
    out["current_fence"] = answer.lock_verified().lock().fence();
  return said(out);
}

json lock_acquire_schema() {
  using namespace schemas;
  auto longest_s = [](std::chrono::milliseconds most) { return std::chrono::duration_cast<std::chrono::seconds>(most).count(); };
  return arguments(
    {required("file", schemas::text("file to lock; a relative path means the session's file root")),
     optional("reason", schemas::text("why, shown to peers")), optional("task_id", schemas::text("the lock goes when this task of yours ends")),
     optional("exclusive", schemas::flag("refuse even if you hold it already")),
     optional("wait_seconds",
              number("longest time to stand in line; 0 or absent: do not wait", {.minimum = 0, .maximum = longest_s(limits::lock_wait_max())})),
     optional("ttl_seconds",
              number("the lock ends by itself after that; 0 or absent: it does not", {.minimum = 0, .maximum = longest_s(limits::lock_ttl_max())}))});
}

json lock_verify_schema() {
  using namespace schemas;
  return arguments(
    {required("file", schemas::text("the locked file")), required("fence", integer("the number that lock_acquire gave", {.minimum = 1}))});
}

} // namespace

std::vector<tool> lock_tools() {
  return {
    {.name = "get_file_lock",
     .description = "Who has a file locked, and what they work on. Look before you edit.",
     .input_schema = input_schema("get_file_lock"),
     .annotations = {{"readOnlyHint", true}},
     .run = get_file_lock},
    {.name = "lock_file",
     .description = "Lock a file while you edit it, so that peers keep off. The lock goes with your task, with your session, or with unlock_file.",
     .input_schema = input_schema("lock_file"),
     .run = lock_file},
    {.name = "unlock_file",
     .description = "Give up your lock on a file; the next in line gets it.",
     .input_schema = input_schema("unlock_file"),
     .run = unlock_file},
    {.name = "lock_acquire",
     .description =
       "Lock a file, waiting in line if a peer has it. Gives a fence: a number that proves, to lock_verify, that the lock is still yours.",
     .input_schema = lock_acquire_schema(),
     .run = lock_acquire},
    {.name = "lock_verify",
     .description = "Whether the lock with this fence still holds. Ask before you write something that must not meet a peer's change.",
     .input_schema = lock_verify_schema(),
     .annotations = {{"readOnlyHint", true}},
     .run = lock_verify},
  };
}

} // namespace swarm::mcp
