// Rules over memory_rows with a clock that moves when told: decides a command, applies the batch, returns it.
#pragma once

#include "actors/base/crypto.hpp"
#include "actors/domain/decide.hpp"
#include "tests/support/memory_rows.hpp"

namespace swarm::test {

class domain_world {
public:
  explicit domain_world(std::uint64_t seed = 1) { in.new_uuid = seeded_uuids(seed); }

  memory_rows rows;
  domain::inputs in = [] {
    domain::inputs i;
    i.now_ms = 1'700'000'000'000;
    i.node_id = "node-1";
    i.user_identity = "user:ada";
    i.digest = std::string(32, 'd');
    return i;
  }();

  /// A command of the operator, on behalf of `actor` unless that is empty.
  static v1::Command command(const std::string& actor = {}) {
    v1::Command cmd;
    cmd.set_scope("s");
    cmd.set_actor(actor);
    cmd.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    return cmd;
  }
  static v1::Command by(v1::Principal::Kind kind, const std::string& id = {}) {
    auto cmd = command();
    cmd.mutable_principal()->set_kind(kind);
    cmd.mutable_principal()->set_id(id);
    return cmd;
  }

  v1::Batch run(const v1::Command& cmd) {
    in.request.set_client("test-client");
    in.request.set_seq(in.request.seq() + 1);
    auto batch = domain::decide(cmd, rows, in);
    rows.apply(batch);
    return batch;
  }
  v1::Reply reply(const v1::Command& cmd) { return run(cmd).reply(); }

  /// Of a session that lives with that process; 0 = with its heartbeat.
  static v1::Command registration(const std::string& label = {}, std::int64_t pid = 0) {
    auto cmd = command();
    auto& r = *cmd.mutable_register_session();
    r.set_directory("/repo");
    r.set_root("/repo");
    r.set_label(label);
    r.set_pid(pid);
    r.set_pid_start(static_cast<std::uint64_t>(pid));
    return cmd;
  }
  /// A session that lives with a process, so that it never becomes stale by itself. Returns its id.
  std::string session(const std::string& label = {}, std::int64_t pid = 100) { return reply(registration(label, pid)).session().session().id(); }
  v1::SweepReport sweep() {
    auto cmd = by(v1::Principal::NODE);
    cmd.mutable_sweep()->set_mode("periodic");
    return reply(cmd).sweep();
  }
  void pass(std::int64_t ms) { in.now_ms += ms; }
};

inline std::vector<std::string> event_types(const v1::Batch& b) {
  std::vector<std::string> out;
  for (const auto& e : b.events())
    out.push_back(e.type());
  return out;
}

inline bool has_event(const v1::Batch& b, const std::string& type) {
  auto types = event_types(b);
  return std::find(types.begin(), types.end(), type) != types.end();
}

} // namespace swarm::test
