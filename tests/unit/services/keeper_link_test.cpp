// The node's link to a real keeper.
#include "services/keeper_link.hpp"

#include "tests/unit/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// Connects again whenever the keeper is lost, as the actor of the node's processes does.
class insistent {
public:
  explicit insistent(keeper_link& link) : link_(link) {}
  void connect() {
    link_.connect([this](keeper_news_ptr news) {
      {
        std::lock_guard lock{mutex_};
        ++seen_[news->kind];
      }
      if (news->kind == keeper_news::lost)
        connect();
      changed_.notify_all();
    });
  }
  bool wait_for(keeper_news::kind_t kind) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return seen_[kind] > 0; });
  }
  int count(keeper_news::kind_t kind) {
    std::lock_guard lock{mutex_};
    return seen_[kind];
  }

private:
  keeper_link& link_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<keeper_news::kind_t, int> seen_;
};

} // namespace

TEST_CASE("a keeper that was told to end is not started again by a link that stops connecting") {
  node n;
  std::int64_t pid = 0;
  {
    keeper_link link{{state_dir{n.dir}, true, patience, n.program}};
    insistent actor{link};
    actor.connect();
    REQUIRE(actor.wait_for(keeper_news::attached));
    pid = link.keeper_pid();
    link.stop_connecting();
    link.quit_keeper();
    REQUIRE(actor.wait_for(keeper_news::lost));
    CHECK(eventually([&] { return !is_running(static_cast<pid_t>(pid)); }));
    CHECK(actor.count(keeper_news::attached) == 1);
  }
  CHECK_THROWS(attached(n.dir, false));
}

TEST_CASE("a connection that is under way has come to its end when the link stops connecting") {
  node n;
  keeper_link link{{state_dir{n.dir}, true, patience, n.program}};
  insistent actor{link};
  actor.connect();
  link.stop_connecting();
  // There is a keeper, or there never will be one.
  link.quit_keeper();
  CHECK(eventually([&] {
    try {
      attached probe{n.dir, false};
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
}
