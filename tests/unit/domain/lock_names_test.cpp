#include "actors/domain/lock_names.hpp"

#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;

namespace {

/// Sessions and locks of the scope "game", from several hosts.
struct named_scope {
  domain_world w;

  static v1::Command of(const std::string& actor, const std::string& node) {
    auto cmd = domain_world::command(actor);
    cmd.set_scope("game");
    cmd.mutable_principal()->set_node(node);
    return cmd;
  }
  v1::Reply registers(const std::string& label, const std::string& node, const std::string& directory, const std::string& checkout = {},
                      const std::string& adopts = {}) {
    auto cmd = of({}, node);
    auto& r = *cmd.mutable_register_session();
    r.set_label(label);
    r.set_node_id(node);
    r.set_node_name(node);
    r.set_directory(directory);
    r.set_root(directory);
    r.set_checkout(checkout);
    r.set_lease_ms(600'000);
    r.set_adopt_session_id(adopts);
    return w.reply(cmd);
  }
  std::string session(const std::string& label, const std::string& node, const std::string& directory, const std::string& checkout = {}) {
    return registers(label, node, directory, checkout).session().session().id();
  }
  v1::Reply lock(const std::string& who, const std::string& node, const std::string& path, std::int64_t wait_ms = 0) {
    auto cmd = of(who, node);
    cmd.mutable_acquire_lock()->set_path(path);
    cmd.mutable_acquire_lock()->set_wait_ms(wait_ms);
    return w.reply(cmd);
  }
};

} // namespace

TEST_CASE("a session makes no checkout of a directory in which one of its host holds or awaits a lock by an absolute name") {
  named_scope s;
  const auto ann = s.session("name:ann", "p", "/tools");
  const auto far = s.session("name:far", "q", "/tools");
  REQUIRE_FALSE(s.lock(ann, "p", "/game/README").has_refusal());
  const auto refused = s.registers("name:bob", "p", "/game", "/game").refusal();
  CHECK(refused.code() == v1::Refusal::STATE);
  CHECK_MESSAGE(refused.text().find("name:ann holds /game/README") != std::string::npos, refused.text());
  // On another host that is another file.
  REQUIRE_FALSE(s.lock(far, "q", "/other/x").has_refusal());
  REQUIRE(s.lock(ann, "p", "/other/x", 60'000).has_lock_waiting());
  CHECK(s.registers("name:cid", "p", "/other", "/other").refusal().text().find("name:ann waits for /other/x") != std::string::npos);
  CHECK_FALSE(s.registers("name:cid", "r", "/other", "/other").has_refusal());
  CHECK_FALSE(s.registers("name:cid", "p", "/third", "/third").has_refusal());
}

TEST_CASE("a session that goes on keeps the names of what it holds, and is not refused for them") {
  named_scope s;
  const auto ann = s.session("name:ann", "p", "/game");
  REQUIRE_FALSE(s.lock(ann, "p", "/game/README").has_refusal());
  const auto again = s.registers("name:ann", "p", "/game", "/game", ann);
  REQUIRE_MESSAGE(again.has_session(), again.refusal().text());
  CHECK(again.session().session().id() == ann);
  CHECK(again.session().session().checkout().empty());
  CHECK(s.registers("name:bob", "p", "/game", "/game").refusal().code() == v1::Refusal::STATE);
}

TEST_CASE("a further session in a checkout renames nothing") {
  named_scope s;
  const auto ann = s.session("name:ann", "p", "/tools");
  s.session("name:bob", "p", "/game", "/game");
  REQUIRE_FALSE(s.lock(ann, "p", "src/x").has_refusal());
  CHECK_FALSE(s.registers("name:cid", "p", "/game", "/game").has_refusal());
}

TEST_CASE("what is a file of a checkout of the host, or contains one, is not locked by an absolute name") {
  named_scope s;
  const auto ann = s.session("name:ann", "p", "/tools");
  s.session("name:bob", "p", "/home/game", "/home/game");
  CHECK(s.lock(ann, "p", "/home/game/x").refusal().text().find("has just become a checkout of game") != std::string::npos);
  CHECK(s.lock(ann, "p", "/home").refusal().text().find("contains /home/game, a checkout of game") != std::string::npos);
  CHECK_FALSE(s.lock(ann, "p", "/home/other").has_refusal());
}

TEST_CASE("a file is not locked by the name that it has in a worktree of another host's checkout") {
  named_scope s;
  const auto ann = s.session("name:ann", "p", "/tools");
  s.session("name:bob", "q", "/game", "/game");
  const auto refused = s.lock(ann, "p", "/game.worktrees/1/x").refusal();
  CHECK(refused.code() == v1::Refusal::STATE);
  CHECK_MESSAGE(refused.text().find("it lies in a worktree of the checkout /game") != std::string::npos, refused.text());
  CHECK_FALSE(s.lock(ann, "p", "/game.worktrees2/x").has_refusal());
}
