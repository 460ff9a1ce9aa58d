#include "actors/domain/workspace.hpp"

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct place_world : task_world {
  std::string me = join("identity:x");

  void publish(const std::string& prefix, const std::string& value, const std::string& identity = {}, std::int64_t expires_at_ms = 0) {
    v1::KvEntry entry;
    entry.set_scope(scope);
    entry.set_key(prefix + me);
    entry.set_value(value);
    entry.set_owner_identity(identity);
    entry.set_expires_at_ms(expires_at_ms);
    rows.put(entry);
  }
  std::optional<v1::Workspace> place(const std::string& viewer_identity = {}) const {
    v1::Session viewer;
    viewer.set_identity(viewer_identity);
    return domain::workspace_of(rows, scope, me, viewer_identity.empty() ? nullptr : &viewer, false, in.now_ms);
  }
};

} // namespace

TEST_CASE("a published place is read as it is meant, the first backend's first") {
  place_world w;
  CHECK_FALSE(w.place());
  w.publish("identity/herdr/", R"({"pane_id":"  p7 ","workspace_id":"w1","tab_id":"t1"})");
  auto herdr = w.place();
  REQUIRE(herdr);
  CHECK(herdr->key() == "identity/herdr/" + w.me);
  CHECK(herdr->backend() == "herdr");
  CHECK(herdr->handle_kind() == "pane");
  CHECK(herdr->handle() == "p7");
  CHECK(herdr->workspace_id() == "w1");
  CHECK(herdr->tab_id() == "t1");
  w.publish("identity/workspace/herdr/", R"({"handle":"p8","handle_kind":"window"})");
  CHECK(w.place()->handle() == "p8");
  CHECK(w.place()->pane_id() == "p8");
  CHECK(w.place()->handle_kind() == "window");
  w.publish("identity/workspace/pty/", R"({"handle":"t-1"})");
  CHECK(w.place()->backend() == "pty");
  CHECK(w.place()->pane_id().empty());
}

TEST_CASE("what is no place, or not for the viewer, is passed over") {
  place_world w;
  const std::string prefix = "identity/workspace/pty/";
  const auto long_name = std::string(limits::id_bytes_max + 1, 'h');
  for (const auto& value :
       {std::string{"{"}, std::string{"[]"}, std::string{"3"}, std::string{R"({"handle":5})"}, std::string{R"({"handle":" "})"},
        R"({"handle":")" + long_name + R"("})", R"({"handle":"t","x":")" + std::string(limits::note_bytes_max(), 'x') + R"("})"}) {
    w.publish(prefix, value);
    CHECK_MESSAGE(!w.place(), value.substr(0, 40));
  }
  w.publish(prefix, R"({"handle":"t","handle_kind":5,"pane_id":["p"],"tab_id":")" + long_name + R"("})");
  REQUIRE(w.place());
  CHECK(w.place()->handle_kind() == "pty");
  CHECK(w.place()->tab_id().empty());
  w.publish(prefix, R"({"handle":"t"})", "identity:x");
  CHECK(w.place());
  CHECK_FALSE(w.place("identity:y"));
  CHECK(w.place("identity:x"));
  w.publish(prefix, R"({"handle":"t"})", {}, w.in.now_ms);
  CHECK_FALSE(w.place());
}
