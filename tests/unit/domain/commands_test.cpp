#include <doctest/doctest.h>
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
  for (auto kind : {v1::Principal::OPERATOR, v1::Principal::SESSION, v1::Principal::NODE, v1::Principal::DEVICE, v1::Principal::GATEWAY}) {
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
    CHECK((spec.about != subject::nothing) == static_cast<bool>(spec.id));
    if (spec.own_only)
      CHECK(spec.about == subject::session);
    if (spec.from_other_nodes)
      CHECK((spec.about == subject::session || spec.about == subject::worker));
    if (spec.from == sent_by::node) {
      CHECK(spec.unregistered);
      CHECK_FALSE(spec.grows_store);
    }
    // The id is the body's own field of that name.
    if (spec.id) {
      auto cmd = of(field, v1::Principal::OPERATOR);
      auto* body = cmd.GetReflection()->MutableMessage(&cmd, &field);
      const auto* name = spec.about == subject::task ? "task_id" : spec.about == subject::worker ? "spawn_id" : "session_id";
      const auto* id = field.message_type()->FindFieldByName(name);
      REQUIRE(id);
      body->GetReflection()->SetString(body, id, "x");
      CHECK(spec.id(cmd) == "x");
    }
  }
}

TEST_CASE("devices and gateways send only what a spec opens to them, and only the node what is the node's") {
  for (int i = 0; i < bodies().field_count(); ++i) {
    const auto& field = *bodies().field(i);
    CAPTURE(field.name());
    const auto& spec = spec_at(i);
    for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY})
      CHECK(authorize(of(field, kind)).has_value() == (spec.from != sent_by::members_and_edge));
    for (auto kind : {v1::Principal::OPERATOR, v1::Principal::SESSION})
      if (spec.from == sent_by::node)
        CHECK(authorize(of(field, kind)));
    CHECK(authorize(of(field, v1::Principal::KIND_UNSPECIFIED)));
  }
}
