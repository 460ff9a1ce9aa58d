#include "gateway/session/task_news.hpp"

#include "actors/domain/json_text.hpp"

namespace swarm::mcp {

namespace {

/// A host that restarted may try again; whether it does, the task's row tells.
constexpr const char* may_be_repeated = "node_restarted";

} // namespace

nlohmann::ordered_json payload_of(const v1::Event& e) {
  auto out = domain::parse_json(e.payload());
  return out && out->is_object() ? std::move(*out) : nlohmann::ordered_json::object();
}

bool concerns(const v1::Event& e, const std::string& task_id) {
  return e.subject() == task_id || domain::text_in(payload_of(e), "task_id") == task_id;
}

void worker_news::take(const v1::Event& e) {
  if (e.type() == "spawn.running" || e.type() == "spawn.ended") {
    bound = true;
    spawn_error.clear();
  } else if (e.type() == "spawn.failed") {
    auto reason = domain::text_in(payload_of(e), "reason");
    if (reason != may_be_repeated)
      spawn_error = reason.empty() ? "the worker could not be started" : reason;
  }
}

bool asked_for_worker(const v1::DispatchReply& d) {
  return d.status() == v1::DispatchReply::SPAWNING || d.status() == v1::DispatchReply::SPAWN_IN_FLIGHT;
}

} // namespace swarm::mcp
