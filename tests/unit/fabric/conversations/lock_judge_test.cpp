// What peers hold, and what a tool would write.
#include "actors/fabric/conversations/lock_judge.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/limits.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

struct judged_case {
  lock_case c;

  judged_case() { c.session_id = "me"; }
  void lock(const std::string& path, const std::string& session = "peer") {
    auto& l = c.locks.emplace_back();
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
    return judge_locks(c)->why_not;
  }
  internal::Locks list() {
    c.question.reset();
    return judge_locks(c)->locks;
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
  j.c.more = true; // than one reads
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
  std::string name = (fs::temp_directory_path() / "judge-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const auto dir = fs::canonical(name).string();
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
  fs::remove_all(dir);
}

TEST_CASE("what a tool does not show all of is denied while others hold something, and one's own locks are in nobody's way") {
  judged_case j;
  j.lock("/repo/mine", "me");
  CHECK(j.why_not("/repo/mine", {}, true).empty());
  j.lock("/repo/a");
  CHECK(j.why_not("", {}, true).find("too much to be looked at") != std::string::npos);
  CHECK(j.why_not("/repo/mine").empty());
}
