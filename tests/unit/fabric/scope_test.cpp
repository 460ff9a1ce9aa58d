#include "actors/base/limits.hpp"
#include "actors/fabric/scope.hpp"
#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

std::string make_task(fabric_world& f, const std::string& after = {}) {
  auto c = f.command();
  auto* spec = c.mutable_create_tasks()->add_tasks();
  spec->set_type("implement");
  spec->set_title("t");
  spec->set_description(std::string(128 * limits::kib, 'd'));
  if (!after.empty())
    spec->add_depends_on(after);
  return f.run(c).tasks_created().tasks(0).task().id();
}

v1::Command cancel(fabric_world& f, const std::string& id) {
  auto c = f.command();
  c.mutable_update_task()->set_task_id(id);
  c.mutable_update_task()->set_status(v1::CANCELLED);
  return c;
}

int cancelled(fabric_world& f, const std::vector<std::string>& ids) {
  return static_cast<int>(std::count_if(ids.begin(), ids.end(), [&](const auto& id) { return f.task(id).status() == v1::CANCELLED; }));
}

} // namespace

TEST_CASE("a cascade that does not fit its command goes on by itself, and after a restart as well") {
  for (auto restart : {false, true}) {
    CAPTURE(restart);
    fabric_world f;
    auto root = make_task(f);
    std::vector<std::string> waiting;
    for (int i = 0; i < 10; ++i)
      waiting.push_back(make_task(f, root));
    auto ended = f.send(cancel(f, root));
    while (!ended.answered())
      REQUIRE(f.w.step());
    REQUIRE_FALSE(ended.get()->has_refusal());
    CHECK(f.task(root).status() == v1::CANCELLED);
    if (restart)
      f.restart(); // wakes the scope, which sweeps first
    f.w.advance_by(5s, 250ms);
    CHECK(cancelled(f, waiting) == 10);
  }
}
