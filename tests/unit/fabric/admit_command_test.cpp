#include "actors/fabric/admit_command.hpp"

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"

using namespace swarm;

namespace {

v1::RequestId id_of(std::size_t client_bytes) {
  v1::RequestId id;
  id.set_client(std::string(client_bytes, 'c'));
  id.set_seq(1);
  return id;
}

way_in as_session(const std::string& session) {
  way_in in;
  in.principal.set_kind(v1::Principal::SESSION);
  in.principal.set_id(session);
  in.node_id = "here";
  return in;
}

v1::Command spawn_in(const std::string& directory) {
  v1::Command cmd;
  cmd.set_scope("/r");
  cmd.mutable_caller()->set_directory(directory);
  cmd.mutable_request_spawn()->set_role("helper");
  cmd.mutable_request_spawn()->set_key("k");
  return cmd;
}

} // namespace

TEST_CASE("who asks is whom the way in has identified, whatever the command says") {
  auto cmd = spawn_in("/r/sub");
  cmd.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  auto admitted = admit_command(id_of(8), cmd, as_session("me"));
  REQUIRE(admitted.what);
  CHECK(admitted.what->command.principal().kind() == v1::Principal::SESSION);
  CHECK(admitted.what->command.actor() == "me");
  CHECK(admitted.what->command.request_spawn().directory() == "/r/sub");
  CHECK(admitted.what->valid);

  v1::Command registers;
  registers.set_scope("/r");
  registers.mutable_register_session()->set_directory("/r");
  registers.mutable_register_session()->set_node_id("another");
  CHECK(admit_command(id_of(8), registers, as_session("me")).what->command.register_session().node_id() == "here");
}

TEST_CASE("below which agent a caller runs is what its own node has found, whatever the command says") {
  v1::Command registers;
  registers.set_scope("/r");
  registers.mutable_register_session()->set_directory("/r");
  registers.mutable_register_session()->mutable_agent()->set_coordinator(true);
  registers.mutable_register_session()->mutable_agent()->set_root("1.1");
  auto in = as_session("me");
  auto agent_in = [&] { return admit_command(id_of(8), registers, in).what->command.register_session().agent(); };
  CHECK(agent_in().root().empty());
  CHECK_FALSE(agent_in().coordinator());
  in.agent.emplace().set_root("70.7");
  CHECK(agent_in().root() == "70.7");
  CHECK_FALSE(agent_in().coordinator());
  in.agent.reset();
  in.of_other_node = true;
  CHECK(agent_in().root() == "1.1");
  // It is no part of what a repeated request is known by: the node may have started again and not know the agent any more.
  auto digest = [&] { return admit_command(id_of(8), registers, in).what->digest; };
  const auto before = digest();
  registers.mutable_register_session()->clear_agent();
  CHECK(digest() == before);
}

TEST_CASE("what is stored of a worker's variables is the home's keyed hash of what was sent") {
  v1::Command cmd;
  cmd.mutable_dispatch()->set_variables_digest("digest");
  auto stored = [&](char key) {
    auto in = as_session("me");
    in.to_store = [&](v1::Command& c) { hide_variables(c, std::string(32, key)); };
    return admit_command(id_of(8), cmd, in).what->command.dispatch().variables_digest();
  };
  CHECK(stored('a') == stored('a'));
  CHECK(stored('a') != stored('b'));
  CHECK(stored('a').find("digest") == std::string::npos);
  cmd.mutable_dispatch()->clear_variables_digest();
  CHECK(stored('a').empty());
}

TEST_CASE("a command or a request id that is too large is wrong, and nothing of it is looked at") {
  auto in = as_session("me");
  in.place = [](v1::Command&) -> std::optional<v1::Refusal> { throw std::logic_error("must not be asked"); };
  CHECK_FALSE(admit_command(id_of(limits::request_client_bytes_max + 1), spawn_in("/r"), in).what);
  auto large = spawn_in("/r");
  large.mutable_request_spawn()->set_intent(std::string(limits::command_encoded_bytes_max, 'x'));
  auto refused = admit_command(id_of(8), large, in);
  CHECK_FALSE(refused.what);
  CHECK(refused.wrong == "the command is larger than 256 KiB");
}

TEST_CASE("the digest is of what the store sees and before a place is chosen, so that a repeated request is known wherever its worker runs") {
  auto in = as_session("me");
  in.to_store = [](v1::Command& cmd) { cmd.set_scope("shared"); };
  auto digest_on = [&](const std::string& node) {
    in.place = [node](v1::Command& cmd) -> std::optional<v1::Refusal> {
      CHECK(cmd.scope() == "shared");
      cmd.mutable_request_spawn()->set_node_id(node);
      return std::nullopt;
    };
    auto admitted = admit_command(id_of(8), spawn_in("/r"), in);
    CHECK(admitted.what->command.request_spawn().node_id() == node);
    return admitted.what->digest;
  };
  const auto shared = digest_on("a");
  CHECK(shared == digest_on("b"));
  in.to_store = {};
  in.place = {};
  CHECK(admit_command(id_of(8), spawn_in("/r"), in).what->digest != shared);
}

TEST_CASE("a place that cannot be is the answer, and an invalid command is marked as such") {
  auto in = as_session("me");
  in.place = [](v1::Command&) {
    v1::Refusal no;
    no.set_text("no host");
    return std::optional{no};
  };
  auto refused = admit_command(id_of(8), spawn_in("/r"), in);
  CHECK(refused.refusal->text() == "no host");
  auto nameless = spawn_in("/r");
  nameless.mutable_request_spawn()->clear_key();
  CHECK_FALSE(admit_command(id_of(8), nameless, as_session("me")).what->valid);
}

TEST_CASE("that an order is a member's own is said by the member, not by its client, and is no part of what a repeated request is known by") {
  auto cmd = spawn_in("/r");
  const auto plain = admit_command(id_of(8), cmd, as_session("me")).what;
  cmd.mutable_request_spawn()->mutable_order()->set_spawn_id("chosen");
  CHECK_FALSE(admit_command(id_of(8), cmd, as_session("me")).what->command.request_spawn().has_order());
  auto in = as_session("me");
  in.of_other_node = true;
  const auto of_member = admit_command(id_of(8), cmd, in).what;
  CHECK(of_member->command.request_spawn().order().spawn_id() == "chosen");
  CHECK(of_member->digest == plain->digest);
}
