// The node's link to a real keeper.
#include "services/host/keeper_connection.hpp"

#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// Connects again whenever the keeper is lost, as the actor of the node's processes does.
class insistent {
public:
  explicit insistent(keeper_client_options options) : link(std::move(options)) {}
  void connect() {
    link.connect([this](keeper_news_ptr news) {
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
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<keeper_news::kind_t, int> seen_;

public:
  keeper_link link; // last: it tells the rest until it is gone
};

} // namespace

TEST_CASE("a keeper that was told to end is not started again by a link that stops connecting") {
  node n;
  std::int64_t pid = 0;
  {
    insistent actor{{state_dir{n.dir}, true, patience, n.program}};
    actor.connect();
    REQUIRE(actor.wait_for(keeper_news::attached));
    pid = actor.link.keeper_pid();
    actor.link.stop_connecting();
    actor.link.quit_keeper();
    REQUIRE(actor.wait_for(keeper_news::lost));
    CHECK(eventually([&] { return !is_running(static_cast<pid_t>(pid)); }));
    CHECK(actor.count(keeper_news::attached) == 1);
  }
  CHECK_THROWS(attached(n.dir, false));
}

TEST_CASE("a connection that is under way has come to its end when the link stops connecting") {
  node n;
  insistent actor{{state_dir{n.dir}, true, patience, n.program}};
  actor.connect();
  actor.link.stop_connecting();
  // There is a keeper, or there never will be one.
  actor.link.quit_keeper();
  CHECK(eventually([&] {
    try {
      attached probe{n.dir, false};
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
}
