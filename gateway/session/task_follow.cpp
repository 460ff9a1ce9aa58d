#include "gateway/session/task_follow.hpp"

#include "actors/base/limits.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::mcp {

namespace {

struct end_words {
  std::string_view reason;
  const char* words;
};
constexpr end_words known_ends[] = {
  {domain::node_restarted, "its process was lost with its node or the keeper there"},
  {domain::host_lost, "its host was lost"},
  {"killed", "it was ended on request"},
};

bool ends_task(const v1::Event& e) {
  return e.type() == "task.cascade.cancelled" ||
         (e.type().starts_with("task.") && domain::is_terminal(domain::task_status_from(domain::text_in(payload_of(e), "status"))));
}

} // namespace

nlohmann::ordered_json payload_of(const v1::Event& e) {
  auto out = domain::parse_json(e.payload());
  return out && out->is_object() ? std::move(*out) : nlohmann::ordered_json::object();
}

std::string end_in_words(std::string reason) {
  for (const auto& known : known_ends)
    if (reason == known.reason)
      return known.words;
  return reason;
}

std::string told_end(const nlohmann::ordered_json& what) {
  auto how = domain::text_in(what, "detail");
  return how.empty() ? end_in_words(domain::text_in(what, "reason")) : how;
}

bool concerns(const v1::Event& e, const std::string& task_id) {
  return e.subject() == task_id || domain::text_in(payload_of(e), "task_id") == task_id;
}

bool asked_for_worker(const v1::DispatchReply& d) {
  return d.status() == v1::DispatchReply::SPAWNING || d.status() == v1::DispatchReply::SPAWN_IN_FLIGHT;
}

bool task_follow::done() const { return domain::is_terminal(task.status()) || (until == target::worker && (bound || !last_spawn_error.empty())); }

nlohmann::ordered_json task_follow::details() const {
  if (task.harness() != domain::exec_harness)
    return nullptr;
  auto result = domain::parse_json(task.result());
  return result && result->is_object() ? std::move(*result) : nlohmann::ordered_json(nullptr);
}

std::string task_follow::spawn_error() const {
  if (!last_spawn_error.empty())
    return last_spawn_error;
  // The event may have been missed. A command that ran has an exit status.
  const auto known = details();
  if (!known.is_object() || known.contains("exit_status") || known.contains("signal"))
    return {};
  return domain::text_in(known, "reason");
}

bool task_follow::has_run() const { return bound || !task.assignee().empty() || details().is_object(); }

bool task_follow::take(const v1::Event& e) {
  if (e.type() == "spawn.running" || e.type() == "spawn.ended") {
    bound = true;
    last_spawn_error.clear();
  } else if (e.type() == "spawn.failed") {
    auto reason = domain::text_in(payload_of(e), "reason");
    // A loss may be made good by a further attempt; the task's row tells whether it is.
    if (!domain::is_loss(reason))
      last_spawn_error = reason.empty() ? "the worker could not be started" : reason;
  }
  return ends_task(e);
}

void follow(task_follow& f, std::uint64_t after, const follow_port& port) {
  v1::WatchRequest request;
  request.set_scope(f.task.scope());
  request.set_after(after);
  request.set_from_now(after == 0);
  request.add_types("task.");
  request.add_types("spawn.");
  if (port.tell_approval)
    request.add_types("approval.");
  auto read = [&] { f.task = port.read(f.task); };
  auto on = [&](const v1::Event& e) {
    if (port.tell_approval && e.type().starts_with("approval."))
      port.tell_approval(e);
    if (!concerns(e, f.task.id()))
      return true;
    const bool ends = f.take(e);
    if (port.tell)
      port.tell(e);
    if (ends)
      read();
    return !f.done();
  };
  auto on_reset = [&] {
    read();
    return !f.done();
  };
  if (!f.done())
    port.watch(request, on, on_reset);
  read();
}

void add_worker(nlohmann::ordered_json& payload, const v1::DispatchReply& d, const task_follow& f) {
  payload["task"] = task(f.task);
  if (!asked_for_worker(d))
    return;
  if (auto error = f.spawn_error(); !error.empty()) {
    payload["status"] = "spawn_failed";
    payload["error"] = error;
  } else if (f.has_run()) {
    payload["status"] = "spawned";
    payload["spawned_instance"] = text_or_null(f.task.assignee());
  }
}

nlohmann::ordered_json completion(const task_follow& f, std::int64_t timeout_ms, std::int64_t waited_ms) {
  const bool over = domain::is_terminal(f.task.status());
  nlohmann::ordered_json out = {{"status", over ? "completed" : "timeout"}};
  if (over)
    out["terminal_status"] = domain::to_text(f.task.status());
  out["timeout_seconds"] = timeout_ms > 0 ? nlohmann::ordered_json(static_cast<double>(timeout_ms) / 1000) : nlohmann::ordered_json(nullptr);
  out["waited_ms"] = waited_ms;
  out["task"] = task(f.task);
  return out;
}

nlohmann::ordered_json consume_messages(const v1::Command& command, const std::string& task_id,
                                        const std::function<v1::Reply(const v1::Command&)>& execute) {
  auto out = nlohmann::ordered_json::array();
  if (command.actor().empty())
    return out;
  auto consume = command;
  consume.mutable_consume_messages()->set_task_prefix(task_id);
  consume.mutable_consume_messages()->set_limit(limits::consumed_messages_max);
  try {
    for (bool more = true; more;) {
      auto reply = execute(consume);
      for (const auto& m : reply.messages().messages())
        out.push_back(message(m));
      more = reply.messages().messages_size() == static_cast<int>(limits::consumed_messages_max);
    }
  } catch (const std::exception&) {
    // Mail that stays unread is found later.
  }
  return out;
}

} // namespace swarm::mcp
