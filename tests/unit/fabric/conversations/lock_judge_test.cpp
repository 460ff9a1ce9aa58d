// What peers hold, and what a tool would write.
#include "actors/fabric/conversations/lock_judge.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <doctest/doctest.h>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/limits.hpp"
#include "tests/support/sim_world.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct scratch {
  scratch() {
    std::string name = (fs::temp_directory_path() / "judge-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = fs::canonical(name).string();
  }
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  std::string root;
};

struct judged_case {
  lock_case c;
  scope_locks locks;
  std::vector<scope_locks> others;

  judged_case() {
    c.session_id = "me";
    locks.scope = "/repo";
  }
  void lock(const std::string& path, const std::string& session = "peer") { lock_in(locks, path, session); }
  void lock_in(scope_locks& where, const std::string& path, const std::string& session) {
    auto& l = where.all.emplace_back();
    l.mutable_lock()->set_path(path);
    l.mutable_lock()->set_session_id(session);
    l.mutable_owner()->set_label("the peer");
  }
  std::string why_not(const std::string& name, const std::string& real = {}, bool more = false) {
    auto& q = c.question.emplace();
    q.set_tool("Write");
    q.set_more_writes(more);
    if (!name.empty()) {
      q.add_writes()->set_name(name);
      q.mutable_writes(0)->set_real(real);
    }
    return judge()->why_not;
  }
  internal::Locks list() {
    c.question.reset();
    return judge()->locks;
  }
  lock_verdict_ptr judge() {
    lock_files known;
    c.locks = std::make_shared<const scope_locks>(locks);
    c.others.clear();
    for (const auto& o : others)
      c.others.push_back(std::make_shared<const scope_locks>(o));
    return judge_locks(c, known);
  }
};

} // namespace

TEST_CASE("a tool is judged against each lock also when there are more than a driver is told of") {
  judged_case j;
  const auto most = static_cast<int>(limits::driver_locked_paths_max);
  for (int i = 0; i <= most; ++i)
    j.lock("/repo/" + std::to_string(10'000 + i));
  CHECK(j.why_not("/repo/free").empty());
  CHECK(j.why_not("/repo/" + std::to_string(10'000 + most)).find("held by the peer") != std::string::npos);
  CHECK(j.list().paths_size() == most);
  CHECK(j.list().more());
  j.locks.more = true; // than one reads
  CHECK(j.why_not("/repo/free").find("too many locks") != std::string::npos);
  CHECK(j.why_not("").empty());
}

TEST_CASE("a list of long paths is cut so that it fits in a frame and says that there are more") {
  judged_case j;
  for (int i = 0; i < 1'000; ++i)
    j.lock("/repo/" + std::string(100, 'x') + std::to_string(i));
  internal::ToDriver out;
  *out.mutable_locks() = j.list();
  CHECK(out.locks().more());
  CHECK(out.locks().paths_size() > 400);
  CHECK_FALSE(agents::encode_driver_frame(out).empty());
}

TEST_CASE("a lock counts by its name and by the file that it leads to, and what the agent names is not looked at") {
  const scratch s;
  const auto& dir = s.root;
  std::ofstream{dir + "/file"} << "x";
  fs::create_symlink(dir + "/file", dir + "/link");
  fs::create_symlink(dir + "/file", dir + "/agents");
  judged_case j;
  j.lock(dir + "/link");
  CHECK_FALSE(j.why_not(dir + "/link").empty());
  CHECK_FALSE(j.why_not(dir + "/file").empty());
  CHECK_FALSE(j.why_not(dir + "/agents", dir + "/file").empty());
  CHECK(j.why_not(dir + "/agents").empty());
  const auto list = j.list();
  CHECK(std::vector<std::string>{list.paths().begin(), list.paths().end()} == std::vector<std::string>{dir + "/file", dir + "/link"});
}

TEST_CASE("what a tool does not show all of is denied while others hold something, and one's own locks are in nobody's way") {
  judged_case j;
  j.lock("/repo/mine", "me");
  CHECK(j.why_not("/repo/mine", {}, true).empty());
  j.lock("/repo/a");
  CHECK(j.why_not("", {}, true).find("too much to be looked at") != std::string::npos);
  CHECK(j.why_not("/repo/mine").empty());
}

TEST_CASE("a lock of who works in a linked worktree is on that one's file") {
  const scratch s;
  // As git has them.
  const auto repository = s.root + "/repo", own = repository + "/.git/worktrees/w", tree = s.root + "/w";
  fs::create_directories(repository + "/.git/objects");
  fs::create_directories(own);
  fs::create_directories(tree + "/sub");
  for (const auto& head : {repository + "/.git/HEAD", own + "/HEAD"})
    std::ofstream{head} << "ref: refs/heads/main\n";
  std::ofstream{own + "/commondir"} << "../..\n";
  std::ofstream{tree + "/.git"} << "gitdir: " << own << "\n";
  judged_case j;
  j.locks.scope = repository;
  j.locks.directories["peer"] = tree + "/sub";
  j.lock(repository + "/a");
  CHECK(j.why_not(tree + "/a").find("held by the peer") != std::string::npos);
  CHECK(j.why_not(repository + "/a").empty());
  const auto list = j.list();
  CHECK(std::vector<std::string>{list.paths().begin(), list.paths().end()} == std::vector<std::string>{tree + "/a"});
  // Where the holder works nobody knows: the lock's name counts.
  j.locks.directories.clear();
  CHECK_FALSE(j.why_not(repository + "/a").empty());
}

TEST_CASE("a lock of another scope is in the way of a tool that writes there, and its holder is not named") {
  judged_case j;
  auto& other = j.others.emplace_back();
  other.scope = "/other";
  j.lock_in(other, "/other/a", "peer");
  CHECK(j.why_not("/other/a") == "swarm lock blocked Write for /other/a: held by a session of /other");
  CHECK(j.why_not("/other/b").empty());
  CHECK(j.why_not("", {}, true).empty());
  other.more = true;
  CHECK(j.why_not("/other/b").find("too many locks") != std::string::npos);
}

TEST_CASE("the files of a scope's locks are looked at once for all of its conversations") {
  const scratch s;
  const auto& dir = s.root;
  judged_case j;
  j.lock(dir + "/link");
  j.c.locks = std::make_shared<const scope_locks>(j.locks);
  lock_files known;
  CHECK(judge_locks(j.c, known)->locks.paths_size() == 1);
  std::ofstream{dir + "/file"} << "x";
  fs::create_symlink(dir + "/file", dir + "/link");
  j.c.session_id = "another";
  CHECK(judge_locks(j.c, known)->locks.paths_size() == 1);
  j.c.locks = std::make_shared<const scope_locks>(j.locks);
  CHECK(judge_locks(j.c, known)->locks.paths_size() == 2);
}

namespace {

/// A judge whose lookers answer nothing about a scope whose file system hangs, until it comes back.
struct judge_world {
  using promise = caf::typed_response_promise<lock_verdict_ptr>;

  test::world<caf::id_block::swarm_store, caf::id_block::swarm_fabric> w;
  std::set<std::string> hanging;
  std::size_t hung = 0;
  std::vector<lock_looker_actor> lookers;
  lock_judge_actor judge = w.sys.spawn(lock_judge, [this] { return lookers.emplace_back(make()); });

  ~judge_world() {
    lookers.clear();
    caf::anon_send_exit(judge, caf::exit_reason::kill);
    w.settle();
  }
  lock_looker_actor make() {
    return w.sys.spawn([this](lock_looker_actor::pointer self) -> lock_looker_actor::behavior_type {
      auto mine = std::make_shared<std::vector<promise>>();
      return {
        [this, self, mine](const lock_case_ptr& c) -> caf::result<lock_verdict_ptr> {
          auto told = self->make_response_promise<lock_verdict_ptr>();
          if (hanging.contains(c->locks->scope)) {
            ++hung;
            mine->push_back(told);
          } else {
            told.deliver(std::make_shared<const lock_verdict>());
          }
          return told;
        },
        [this, self, mine](tree_atom) -> caf::result<std::vector<runtime::tree_entry>> {
          auto told = self->make_response_promise<std::vector<runtime::tree_entry>>();
          if (!hanging.empty())
            return told;
          for (auto& p : std::exchange(*mine, {}))
            p.deliver(std::make_shared<const lock_verdict>());
          told.deliver(std::vector<runtime::tree_entry>{});
          return told;
        },
      };
    });
  }
  /// The file systems answer again, and the first looker is the first to hear of it.
  void come_back() {
    hanging.clear();
    w.tell(lookers.front(), tree_atom_v);
  }
  /// Of one conversation after the other.
  std::shared_ptr<std::optional<bool>> ask(const std::string& scope) {
    auto out = std::make_shared<std::optional<bool>>();
    w.sys.spawn([this, scope, out](caf::event_based_actor* self) { ask_as(self, scope, out); });
    w.settle();
    return out;
  }
  void ask_as(caf::event_based_actor* self, const std::string& scope, const std::shared_ptr<std::optional<bool>>& out) const {
    auto c = std::make_shared<lock_case>();
    c->locks = std::make_shared<const scope_locks>(scope_locks{scope, {}, {}, false, {}});
    self->request(judge, caf::infinite, lock_case_ptr{c}).then([out](const lock_verdict_ptr&) { *out = true; }, [out](caf::error&) { *out = false; });
  }
};

} // namespace

TEST_CASE("a file system that hangs keeps two lookers and the cases of other scopes are judged") {
  judge_world j;
  j.hanging = {"hangs"};
  const auto first = j.ask("hangs"), second = j.ask("hangs"), third = j.ask("hangs");
  CHECK(j.hung == 2);
  for (int i = 0; i < 20; ++i)
    CHECK(*j.ask("other") == true);
  CHECK(j.lookers.size() == 3);
  CHECK_FALSE(first->has_value());
  // It comes back: who waited is judged.
  j.come_back();
  CHECK(*first == true);
  CHECK(*third == true);
  CHECK(j.lookers.size() == 3);
}

TEST_CASE("a second case of a scope is judged while the first one hangs") {
  judge_world j;
  j.hanging = {"s"};
  const auto first = j.ask("s");
  j.hanging.clear();
  CHECK(*j.ask("s") == true);
  CHECK_FALSE(first->has_value());
}

TEST_CASE("a case whose sender asks again waits no longer and lookers have a bound") {
  judge_world j;
  for (int i = 0; i < 10; ++i) {
    j.hanging.insert(std::to_string(i));
    j.ask(std::to_string(i));
  }
  CHECK(j.lookers.size() == 8);
  const auto before = std::make_shared<std::optional<bool>>(), after = std::make_shared<std::optional<bool>>();
  j.w.sys.spawn([&](caf::event_based_actor* self) {
    j.ask_as(self, "more", before);
    j.ask_as(self, "more", after);
  });
  j.w.settle();
  CHECK(*before == false);
  CHECK_FALSE(after->has_value());
  j.come_back();
  CHECK(*after == true);
}

TEST_CASE("a looker that was silent for longer than a case may take has work again when it is back") {
  judge_world j;
  j.hanging = {"s"};
  const auto first = j.ask("s"), second = j.ask("s"), third = j.ask("s");
  j.w.advance_by(3 * limits::lock_judge_patience, std::chrono::seconds{10});
  CHECK(*first == false);
  CHECK(*second == false);
  CHECK_FALSE(third->has_value());
  j.hanging.clear();
  j.w.advance_by(limits::lock_judge_patience, std::chrono::seconds{10});
  CHECK(*third == true);
  CHECK(j.lookers.size() == 2);
}
