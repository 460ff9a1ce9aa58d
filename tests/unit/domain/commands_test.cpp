#include <doctest/doctest.h>

#include <map>
#include <set>

#include <google/protobuf/descriptor.h>

#include "actors/domain/commands.hpp"
#include "actors/domain/decide.hpp"

using namespace swarm;
using namespace swarm::domain;

namespace {

const google::protobuf::OneofDescriptor& bodies() { return *v1::Command::descriptor()->FindOneofByName("body"); }

/// The spec of the body that stands at this place in the contract.
const command_spec& spec_at(int i) {
  REQUIRE(commands().size() == static_cast<std::size_t>(bodies().field_count()));
  return commands()[static_cast<std::size_t>(i)];
}

/// A command with this body, from this kind of caller.
v1::Command of(const google::protobuf::FieldDescriptor& body, v1::Principal::Kind kind) {
  v1::Command cmd;
  cmd.GetReflection()->MutableMessage(&cmd, &body);
  cmd.mutable_principal()->set_kind(kind);
  cmd.mutable_principal()->set_id("me");
  return cmd;
}

// A spec that leaves out who may send the command, or whether the store grows, does not compile.
template <class Spec>
concept complete = requires {
  Spec{.body = v1::Command::kSweep, .run = nullptr, .from = rights::node, .store = effect_on_store::grows};
};
template <class Spec>
concept complete_without_from = requires {
  Spec{.body = v1::Command::kSweep, .run = nullptr, .store = effect_on_store::grows};
};
template <class Spec>
concept complete_without_store = requires {
  Spec{.body = v1::Command::kSweep, .run = nullptr, .from = rights::node};
};
static_assert(complete<command_spec>);
static_assert(!complete_without_from<command_spec>);
static_assert(!complete_without_store<command_spec>);

} // namespace

TEST_CASE("each command of the contract has one spec, in the contract's order") {
  for (int i = 0; i < bodies().field_count(); ++i) {
    const auto& field = *bodies().field(i);
    CAPTURE(field.name());
    const auto& spec = spec_at(i);
    CHECK(static_cast<int>(spec.body) == field.number());
    CHECK(spec_of(of(field, v1::Principal::OPERATOR)) == &spec);
    CHECK((spec.run != nullptr));
  }
}

TEST_CASE("a command without a spec is nobody's") {
  v1::Command none;
  none.set_scope("s");
  CHECK(spec_of(none) == nullptr);
  for (auto kind : {v1::Principal::OPERATOR, v1::Principal::SESSION, v1::Principal::NODE, v1::Principal::DEVICE, v1::Principal::GATEWAY,
                    v1::Principal::AGENT, v1::Principal::ORPHAN}) {
    none.mutable_principal()->set_kind(kind);
    CHECK(authorize(none));
  }
  CHECK_FALSE(grows_store(none));
}

TEST_CASE("the fields of a spec agree with each other") {
  for (int i = 0; i < bodies().field_count(); ++i) {
    const auto& field = *bodies().field(i);
    CAPTURE(field.name());
    const auto& spec = spec_at(i);
    CHECK((spec.about.kind != subject::nothing) == static_cast<bool>(spec.about.id));
    if (spec.about.own_only)
      CHECK(spec.about.kind == subject::session);
    if (spec.from_other_nodes)
      CHECK((spec.about.kind == subject::session || spec.about.kind == subject::worker || spec.about.kind == subject::conversation));
    CHECK(spec.from.get().own.has(v1::Principal::SESSION) == (spec.about.own_only != nullptr));
    if (spec.from_other_nodes)
      CHECK(spec.from.get().all.has(v1::Principal::NODE));
    if (spec.from.get() == rights::node) {
      CHECK(spec.unregistered);
      CHECK((spec.store == effect_on_store::does_not_grow));
    }
  }
}

TEST_CASE("a command that names a task, a session or a worker is about it") {
  const std::map<std::string, subject> kinds{{"task_id", subject::task}, {"session_id", subject::session}, {"spawn_id", subject::worker}};
  // These create a row of their own and only mention the task.
  std::set<std::string> only_mentions{"swarm.v1.SendMessage.task_id", "swarm.v1.AcquireLock.task_id", "swarm.v1.RequestSpawn.task_id"};
  for (int i = 0; i < bodies().field_count(); ++i) {
    const auto& field = *bodies().field(i);
    const auto& spec = spec_at(i);
    for (const auto& [name, kind] : kinds) {
      const auto* id = field.message_type()->FindFieldByName(name);
      if (!id || only_mentions.erase(id->full_name()) == 1)
        continue;
      CAPTURE(id->full_name());
      REQUIRE((spec.about.kind == kind));
      auto cmd = of(field, v1::Principal::OPERATOR);
      auto* body = cmd.GetReflection()->MutableMessage(&cmd, &field);
      body->GetReflection()->SetString(body, id, "x");
      CHECK(spec.about.id(cmd) == "x");
    }
  }
  CHECK(only_mentions.empty());
}

TEST_CASE("a row of the table lets pass whom it names, and nobody else") {
  using p = v1::Principal;
  for (int i = 0; i < bodies().field_count(); ++i) {
    const auto& field = *bodies().field(i);
    CAPTURE(field.name());
    const auto& from = spec_at(i).from.get();
    for (auto kind : {p::DEVICE, p::GATEWAY, p::AGENT, p::ORPHAN, p::KIND_UNSPECIFIED})
      CHECK(authorize(of(field, kind)).has_value() == !from.without_grant(kind));
    for (auto kind : {p::OPERATOR, p::SESSION})
      if (from == rights::node)
        CHECK(authorize(of(field, kind)));
    if (!from.all.has(p::NODE))
      CHECK(authorize(of(field, p::NODE)));
  }
}
