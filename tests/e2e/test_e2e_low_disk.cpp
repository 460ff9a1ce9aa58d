// A node whose disk runs full. The state directory lies on a small file system of its own, mounted where only this program and its
// children see it; where that is not permitted the tests are skipped, and say so.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "actors/base/limits.hpp"
#include "actors/base/stopped_mark.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/small_disk.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

constexpr std::uint64_t disk_bytes = 64 * limits::mib;
constexpr int exit_skipped = 77; // as tests/CMakeLists.txt tells ctest
constexpr int exit_gave_up = 70; // of swarmd, when its parts fail again and again

/// Ends the program when such a disk cannot be had here.
small_disk disk_of(const test_node& node) {
  if (auto obstacle = small_disk::obstacle(); !obstacle.empty()) {
    std::cerr << "SKIPPED, low disk is not tested here: " << obstacle << "\n";
    std::_Exit(exit_skipped);
  }
  return {node.dir().root, disk_bytes};
}

/// The lowest marks there are.
void configure(const test_node& node) {
  std::ofstream{node.dir().config_file()} << "[limits]\ndisk_low_bytes = " << limits::disk_low_bytes.lowest()
                                          << "\ndisk_critical_bytes = " << limits::disk_critical_bytes.lowest() << "\n";
}

bool names_the_fix(const run_result& r) { return r.status == 1 && r.err.find("free some space") != std::string::npos; }

grpc::StatusCode code_of(node_client& client, const v1::Command& cmd) {
  v1::ExecuteRequest request;
  *request.mutable_id() = client.next_id();
  *request.mutable_command() = cmd;
  v1::Reply reply;
  return client.execute(request, reply).error_code();
}

v1::Command set_kv(const node_client& client, const std::string& key, std::size_t bytes) {
  auto cmd = client.command();
  cmd.mutable_set_kv()->set_key(key);
  cmd.mutable_set_kv()->set_value(std::string(bytes, 'v'));
  return cmd;
}

} // namespace

TEST_CASE("a disk that runs full stops what grows, then every change, and goes on by itself when there is space again") {
  test_node node;
  auto disk = disk_of(node);
  configure(node);
  node.start();
  auto pid = node.node_pid();
  auto holder = node.session("name:holder");
  REQUIRE(node.ctl({"kv", "set", "kept", "value"}).status == 0);
  for (const auto* path : {"one", "two"})
    REQUIRE(node.ctl({"lock", path, "--as", holder}).status == 0);
  std::vector<std::string> tasks;
  for (const auto* title : {"first", "second"}) {
    tasks.push_back(node.ctl_json({"request-task", "fix", title}).at("id"));
    REQUIRE(node.ctl({"claim", tasks.back(), "--as", holder}).status == 0);
  }
  node_client client{node};

  disk.leave((limits::disk_low_bytes.lowest() + limits::disk_critical_bytes.lowest()) / 2);
  REQUIRE(eventually([&] { return code_of(client, set_kv(client, "probe", 1)) == grpc::StatusCode::FAILED_PRECONDITION; }));
  for (const auto& growing : std::vector<std::vector<std::string>>{
         {"kv", "set", "more", "x"}, {"lock", "three", "--as", holder}, {"request-task", "fix", "third"}, {"register", "--lease-seconds", "600"}}) {
    auto refused = node.ctl(growing);
    CHECK_MESSAGE(names_the_fix(refused), growing.front(), ": ", refused.status, " ", refused.err);
  }
  CHECK(node.ctl_json({"status"}).at("low_disk") == true);
  CHECK(node.ctl({"kv", "get", "kept"}).out == "value\n");
  CHECK(node.ctl({"unlock", "one", "--as", holder}).status == 0);
  CHECK(node.ctl({"update-task", tasks[0], "--status", "done", "--as", holder}).status == 0);

  disk.leave(limits::disk_critical_bytes.lowest() / 2);
  auto release = client.command(holder);
  release.mutable_release_lock()->set_path(node.work() + "/none");
  REQUIRE(eventually([&] { return code_of(client, release) == grpc::StatusCode::FAILED_PRECONDITION; }));
  CHECK(names_the_fix(node.ctl({"unlock", "two", "--as", holder})));
  CHECK(names_the_fix(node.ctl({"update-task", tasks[1], "--status", "done", "--as", holder})));
  CHECK(node.ctl({"kv", "get", "kept"}).out == "value\n");
  CHECK(node.ctl_json({"locks"}).size() == 1);

  disk.empty();
  REQUIRE(eventually([&] { return code_of(client, set_kv(client, "probe", 1)) == grpc::StatusCode::OK; }));
  CHECK(node.ctl({"unlock", "two", "--as", holder}).status == 0);
  CHECK(node.ctl({"update-task", tasks[1], "--status", "done", "--as", holder}).status == 0);
  CHECK(node.ctl({"kv", "set", "more", "x"}).status == 0);
  CHECK(node.node_pid() == pid);
  CHECK(is_running(pid));
}

TEST_CASE("a node that finds no space at its start says so in those words, and so does a backup, while the node goes on") {
  test_node node;
  auto disk = disk_of(node);
  configure(node);
  REQUIRE(node.ctl({"kv", "set", "kept", std::string(100'000, 'v')}).status == 0);
  {
    small_disk backups{node.work() + "/backups", limits::mib};
    backups.fill();
    auto backup = node.ctl({"backup", node.work() + "/backups/one.db"});
    CHECK(backup.status == 1);
    CHECK(backup.err.find("/backups/one.db could not be written: its disk is full") != std::string::npos);
    CHECK(node.ctl({"kv", "get", "kept"}).status == 0);
  }
  REQUIRE(node.down().status == 0);
  disk.fill();
  auto up = node.ctl({"up"});
  CHECK(up.status != 0);
  CHECK_MESSAGE(up.err.find("the disk is full; free some space") != std::string::npos, up.err);
  CHECK(up.err.find("PRAGMA") == std::string::npos);
  disk.empty();
  CHECK(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "kept"}).status == 0);
}

TEST_CASE("a first start on a disk with too little space names the disk and doctor does not say that nothing is in its way") {
  for (const auto left : {0 * limits::kib, 16 * limits::kib, 300 * limits::kib}) {
    CAPTURE(left);
    test_node node;
    auto disk = disk_of(node);
    disk.leave(left);
    const auto up = node.ctl({"up"});
    CHECK_MESSAGE((up.status == 0 || up.err.find("space") != std::string::npos), up.err);
    REQUIRE(node.ctl({"down", "--yes"}).status == 0);
    CHECK(node.ctl({"doctor"}).out.find("nothing keeps the node from starting") == std::string::npos);
    disk.empty();
    CHECK(node.ctl({"up"}).status == 0);
    REQUIRE(node.ctl({"down", "--yes"}).status == 0);
  }
}

TEST_CASE("a node on a disk without a single byte left can be stopped, with its programs and without them, and says the right thing then") {
  test_node node;
  auto disk = disk_of(node);
  configure(node);
  node.start();
  const auto pid = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("pid").get<pid_t>();
  disk.fill();
  auto paused = node.down({"--keep-programs"});
  CHECK_MESSAGE(paused.status == 0, paused.err);
  CHECK(is_running(pid));
  auto kept_down = node.ctl({"tasks"});
  CHECK(kept_down.status == 3);
  CHECK(kept_down.err.find("ended its programs") == std::string::npos);
  CHECK(read_stopped_mark(node.dir())->programs_go_on);
  auto down = node.ctl({"down", "--yes"});
  CHECK_MESSAGE(down.status == 0, down.err);
  CHECK(eventually([&] { return !is_running(pid); }));
  CHECK_FALSE(read_stopped_mark(node.dir())->programs_go_on);
  disk.empty();
  CHECK(node.ctl({"up"}).status == 0);
  disk.fill();
  CHECK(node.down({"--yes"}).status == 0);
}

TEST_CASE("whoever follows a task that ends on a full disk is told what its result waits for, and gets it once there is space") {
  test_node node;
  auto disk = disk_of(node);
  configure(node);
  node.start();
  const auto go_on = node.dir().root.parent_path() / "go-on"; // not on that disk
  auto follower =
    node.ctl_start({"dispatch", "ends late", "--", "sh", "-c", "echo begun; until [ -e " + go_on.string() + " ]; do sleep 0.05; done; echo over"});
  REQUIRE(follower.read_until("begun"));
  disk.fill();
  REQUIRE(eventually([&] { return node.ctl_json({"status"}).at("low_disk") == true; }));
  std::ofstream{go_on};
  CHECK(follower.read_until([](const run_result& r) { return r.err.find("disk is full; the result waits") != std::string::npos; }));
  CHECK(follower.so_far().out.find("over") != std::string::npos);
  disk.empty();
  const auto end = follower.finish();
  CHECK_MESSAGE(end.status == 0, end.err);
  CHECK(end.err.find("done") != std::string::npos);
}

TEST_CASE("a disk without a single byte left loses nothing that was answered") {
  test_node node;
  auto disk = disk_of(node);
  configure(node);
  node.start();
  node_client client{node};
  std::vector<std::string> answered;
  v1::ExecuteRequest open; // without an answer yet: repeated as it is
  auto put = [&] {
    if (open.id().seq() == 0) {
      *open.mutable_id() = client.next_id();
      *open.mutable_command() = set_kv(client, "key-" + std::to_string(answered.size()), 60'000);
    }
    v1::Reply reply;
    auto status = client.execute(open, reply);
    if (!status.ok())
      return false;
    REQUIRE_FALSE(reply.has_refusal());
    answered.push_back(open.command().set_kv().key());
    open.Clear();
    return true;
  };
  auto log = node.dir().root.parent_path() / "swarmd.err"; // not on that disk
  auto failures = [&] { return file_text(log).find("the store failed") != std::string::npos; };
  // It goes on, or it has ended because its store failed again and again, and can be started.
  auto goes_on = [&] {
    disk.empty();
    for (int i = 0; i < 5; ++i)
      REQUIRE(eventually([&] {
        int status = 0;
        if (auto pid = node.node_pid(); waitpid(pid, &status, WNOHANG) == pid) {
          REQUIRE(WIFEXITED(status));
          REQUIRE(WEXITSTATUS(status) == exit_gave_up);
          node.start();
        }
        return put();
      }));
  };
  // The node looks at the disk once a second: until then it writes on, and the write fails.
  for (int round = 0; round < 10 && !failures(); ++round) {
    goes_on();
    disk.fill();
    while (put()) {
    }
  }
  CHECK(failures());
  goes_on();
  for (const auto& key : answered) {
    auto q = client.query();
    q.mutable_get_kv()->set_key(key);
    CHECK_MESSAGE(client.ask(q).kv().value().size() == 60'000, key);
  }
  CHECK(answered.size() >= 10);
}
