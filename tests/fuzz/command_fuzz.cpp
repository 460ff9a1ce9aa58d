// A sequence of commands as they come from outside, decided one after the other on the same rows: each is refused or its batch can
// be applied, and the rows keep what must always hold.
#include <set>

#include "actors/base/limits.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

void check_rows(const test::memory_rows& rows, const std::string& scope) {
  auto state = rows.row<v1::ScopeState>(domain::key(scope)).value_or(v1::ScopeState{});
  for (const auto& [key, lock] : rows.all<v1::Lock>()) {
    SWARM_HOLDS(key == domain::key(lock.scope(), lock.path()));
    SWARM_HOLDS(lock.fence() > 0);
    if (lock.scope() == scope)
      SWARM_HOLDS(lock.fence() <= state.fence());
    SWARM_HOLDS(rows.row<v1::Session>(domain::key(lock.session_id())).has_value());
  }
  std::set<std::pair<std::string, std::string>> in_line;
  for (const auto& [key, w] : rows.all<v1::LockWaiter>())
    SWARM_HOLDS(in_line.emplace(w.scope() + '\0' + w.path(), w.session_id()).second); // one place per session
  std::set<std::string> live;
  for (const auto& [key, s] : rows.all<v1::Spawn>())
    if (domain::is_live(s))
      SWARM_HOLDS(live.insert(domain::key(s.scope(), s.role(), s.key())).second); // one live spawn per key
  for (const auto& [key, t] : rows.all<v1::Task>()) {
    SWARM_HOLDS(t.status() != v1::TASK_STATUS_UNSPECIFIED);
    SWARM_HOLDS(t.title().size() <= limits::title_bytes_max());
    if (t.status() == v1::IN_PROGRESS || t.status() == v1::CLAIMED)
      SWARM_HOLDS(!t.assignee().empty());
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::populated start;
  fuzz::populated world = start;
  fuzz::input in{data, size};
  std::uint64_t revision = 0;
  for (int n = 0; !in.empty() && n < 16; ++n) {
    auto kind = in.byte();
    auto bytes = in.piece();
    v1::Command cmd;
    if (!cmd.ParseFromString(bytes))
      continue;
    v1::Command again;
    SWARM_HOLDS(again.ParseFromString(cmd.SerializeAsString()));
    SWARM_HOLDS(again.SerializeAsString() == cmd.SerializeAsString());
    world.name_all(cmd);
    // As the services do: who calls is not the caller's to say.
    cmd.mutable_principal()->set_kind(static_cast<v1::Principal::Kind>(kind % 8));
    if (cmd.principal().kind() == v1::Principal::OPERATOR)
      cmd.mutable_principal()->clear_id();
    if (cmd.scope() != "t")
      cmd.set_scope("s");
    world.pass(kind * 37);
    auto forbidden = domain::validate(cmd) || domain::authorize(cmd);
    world.in.request.set_client("fuzz-client");
    world.in.request.set_seq(static_cast<std::uint64_t>(n) + 1'000);
    auto batch = domain::decide(cmd, world.rows, world.in);
    SWARM_HOLDS(!forbidden || batch.reply().has_refusal());
    SWARM_HOLDS(!batch.reply().has_refusal() || (batch.patches_size() == 0 && batch.events_size() == 0 && batch.resolved_size() == 0));
    SWARM_HOLDS(!batch.reply().has_refusal() || !batch.reply().refusal().text().empty());
    SWARM_HOLDS(batch.ByteSizeLong() <= limits::batch_encoded_bytes_max);
    v1::Batch copy;
    SWARM_HOLDS(copy.ParseFromString(batch.SerializeAsString()));
    for (const auto& e : batch.events()) {
      SWARM_HOLDS(e.payload().size() <= limits::event_payload_bytes_max());
      SWARM_HOLDS(domain::json::accept(e.payload()));
    }
    world.rows.apply(batch); // throws for what no store could apply
    if (cmd.scope() == "s" && batch.events_size() > 0) {
      SWARM_HOLDS(batch.events(0).revision() > revision);
      revision = batch.events().rbegin()->revision();
    }
    check_rows(world.rows, cmd.scope());
  }
  return 0;
}
