// Directories that are checkouts of scopes which hosts share, and the paths in them.
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <unistd.h>

#include "services/call/path_view.hpp"
#include "services/federation/checkouts.hpp"
#include "swarm/v1/coordination.pb.h"

namespace fs = std::filesystem;
using namespace swarm;

namespace {

struct shared_world {
  fs::path dir = fs::temp_directory_path() / ("checkouts-" + std::to_string(getpid()));
  std::unique_ptr<checkouts> kept = opened();

  shared_world() = default;
  ~shared_world() { fs::remove_all(dir); }

  std::unique_ptr<checkouts> opened() {
    fs::create_directories(dir);
    fs::permissions(dir, fs::perms::owner_all);
    auto read = checkouts::open(dir / "state" / "checkouts.json");
    REQUIRE(read);
    return std::move(*read);
  }
  std::string repository(const std::string& name, const std::string& remote) const {
    auto root = dir / name;
    fs::create_directories(root / ".git");
    std::ofstream config{root / ".git" / "config"};
    config << "[core]\n\tbare = false\n";
    if (!remote.empty())
      config << "[remote \"upstream\"]\n\turl = https://elsewhere/x\n[remote \"origin\"]\n\turl = " << remote << "\n\tfetch = +refs\n";
    return root.string();
  }
  void share(const std::string& root, const std::string& scope) const {
    v1::Checkout c;
    c.set_root(root);
    c.set_scope(scope);
    auto failed = kept->share(c);
    CHECK_MESSAGE(!failed, (failed ? failed->text : ""));
  }
};

} // namespace

TEST_CASE("a remote is the same however it is written, and without what is secret") {
  for (const auto* url : {"https://github.com/me/x", "https://github.com/me/x.git", "https://me:secret@github.com/me/x/", "git@github.com:me/x.git",
                          "ssh://git@GitHub.com:22/me/x.git", " git://github.com/me/x\n", "https://token@github.com:443//me/x.git/"}) {
    CAPTURE(url);
    CHECK(normalized_remote(url) == "github.com/me/x");
  }
  CHECK(normalized_remote("/srv/git/x.git") == "/srv/git/x");
  CHECK(normalized_remote("file:///srv/git/x") == "/srv/git/x");
  CHECK(normalized_remote("https://[::1]:8080/me/x") == "[::1]/me/x");
  CHECK(normalized_remote("../x") == "../x");
  CHECK(normalized_remote("").empty());
  CHECK(normalized_remote("https://github.com/").empty());
  CHECK(normalized_remote("https://github.com/.git").find("secret") == std::string::npos);
}

TEST_CASE("the remote stands in git's files, of a linked worktree in those of the main one") {
  shared_world w;
  auto root = w.repository("x", "git@github.com:me/x.git");
  CHECK(remote_of(root) == "github.com/me/x");
  CHECK(remote_of(w.repository("y", "")).empty());
  CHECK(remote_of(w.dir).empty());
  fs::create_directories(root + "/.git/worktrees/wt");
  std::ofstream{root + "/.git/worktrees/wt/commondir"} << "../..\n";
  fs::create_directories(w.dir / "wt");
  std::ofstream{w.dir / "wt" / ".git"} << "gitdir: " << root << "/.git/worktrees/wt\n";
  CHECK(remote_of(w.dir / "wt") == "github.com/me/x");
}

TEST_CASE("a path in a checkout is held relative to its root, and seen from the root the caller stands in") {
  shared_world w;
  CHECK(w.kept->empty());
  CHECK(w.kept->stored("game", "/a/one/src/x.c") == "/a/one/src/x.c");
  w.share("/a/one", "game");
  w.share("/a/one/deep", "game");
  w.share("/b/two", "game");
  w.share("/c/other", "other");
  CHECK(w.kept->stored("game", "/a/one/src/x.c") == "src/x.c");
  CHECK(w.kept->stored("game", "/b/two/src/x.c") == "src/x.c");
  CHECK(w.kept->stored("game", "/a/one/deep/y") == "y");
  CHECK(w.kept->stored("game", "/a/one") == ".");
  CHECK(w.kept->stored("game", "/a/onex/src") == "/a/onex/src");
  CHECK(w.kept->stored("game", "/c/other/x") == "/c/other/x");
  CHECK(w.kept->stored("game", "src/x.c") == "src/x.c");
  CHECK(w.kept->root_for("game", "/b/two/src") == "/b/two");
  CHECK(w.kept->root_for("game", "/a/one/deep/er") == "/a/one/deep");
  CHECK(w.kept->root_for("game", "/elsewhere") == "/a/one");
  CHECK(w.kept->root_for("nothing", "/a/one").empty());
  CHECK(w.kept->scope_of("/b/two") == "game");
  CHECK(w.kept->scope_of("/b") == "/b");
  CHECK(w.kept->scope_of("game") == "game");
  // It is kept.
  CHECK(w.opened()->scope_of("/c/other") == "other");
}

TEST_CASE("a checkout belongs to one scope, and can be given back") {
  shared_world w;
  w.share("/a/one", "game");
  w.share("/a/one", "game");
  v1::Checkout other;
  other.set_root("/a/one");
  other.set_scope("other");
  CHECK(w.kept->share(other));
  CHECK_FALSE(w.kept->unshare("/a/one"));
  CHECK(w.kept->unshare("/a/one"));
  CHECK(w.kept->empty());
}

TEST_CASE("a checkout that begins renames what was called otherwise, and nothing else") {
  shared_world w;
  CHECK(w.kept->would_rename("game", "/a/one", "/a/one/x"));
  CHECK(w.kept->would_rename("game", "/a/one", "/a"));
  CHECK_FALSE(w.kept->would_rename("game", "/a/one", "/a/onex"));
  CHECK_FALSE(w.kept->would_rename("game", "/a/one", "src/x"));
  w.share("/a/one", "game");
  CHECK_FALSE(w.kept->would_rename("game", "/a/one", "x"));
  // A checkout in another one.
  CHECK(w.kept->would_rename("game", "/a/one/deep", "deep/x"));
  CHECK(w.kept->would_rename("game", "/a/one/deep/er", "deep"));
  CHECK_FALSE(w.kept->would_rename("game", "/a/one/deep", "x"));
  CHECK_FALSE(w.kept->would_rename("game", "/a/one/deep", "."));
}

TEST_CASE("one scope has checkouts of one repository") {
  shared_world w;
  auto share = [&](const std::string& root, const std::string& scope) {
    v1::Checkout c;
    c.set_root(root);
    c.set_scope(scope);
    c.set_remote(remote_of(root));
    return w.kept->share(c);
  };
  const auto one = w.repository("one", "https://host/me/x"), clone = w.repository("clone", "git@host:me/x"),
             other = w.repository("other", "https://host/me/other");
  fs::create_directories(w.dir / "plain" / ".git");
  const auto plain = (w.dir / "plain").string();
  for (const auto& root : {other, plain})
    CHECK(share(root, "git:host/me/x"));
  CHECK_FALSE(share(one, "game"));
  CHECK_FALSE(share(clone, "game"));
  for (const auto& root : {other, plain})
    CHECK(share(root, "game"));
  w.repository("one", "https://host/me/other");
  CHECK(share(one, "game"));
  CHECK_FALSE(share(plain, "plain"));
}

TEST_CASE("a session that registers in a named scope makes its repository a checkout, another repository not") {
  shared_world w;
  auto one = w.repository("one", "https://host/me/x");
  auto clone = w.repository("clone", "git@host:me/x");
  auto other = w.repository("other", "https://host/me/other");
  CHECK(w.kept->learn("game", one));
  CHECK_FALSE(w.kept->learn("game", one));
  CHECK(w.kept->learn("game", clone));
  CHECK_FALSE(w.kept->learn("game", other));
  CHECK(w.kept->stored("game", clone + "/a.c") == w.kept->stored("game", one + "/a.c"));
  CHECK(w.kept->stored("game", other + "/a.c") == other + "/a.c");
  fs::create_directories(w.dir / "plain");
  CHECK_FALSE(w.kept->learn("plain", (w.dir / "plain").string()));
  CHECK_FALSE(w.kept->learn(one, one)); // a scope that is a directory stays one
  CHECK(w.kept->scope_of(one) == one);  // learned, not said: who names the directory means the directory
  CHECK_FALSE(w.kept->learn("git:host/me/x", other));
  CHECK(w.kept->learn("git:host/me/other", other));
}

TEST_CASE("a clone that lies in a checkout of its scope has its names from that one") {
  shared_world w;
  const auto outer = w.repository("outer", "https://host/me/x"), inner = w.repository("outer/copy", "https://host/me/x");
  CHECK(w.kept->learn("game", outer));
  CHECK_FALSE(w.kept->learn("game", inner));
  CHECK(w.kept->stored("game", inner + "/a.c") == "copy/a.c");
  const auto later = w.repository("around", "https://host/me/x"), first = w.repository("around/copy", "https://host/me/x");
  CHECK(w.kept->learn("second", first));
  CHECK_FALSE(w.kept->learn("second", later));
}

TEST_CASE("a directory in which another repository lies by now gets no worker, and is known as replaced") {
  shared_world w;
  auto share = [&](const std::string& root) {
    v1::Checkout c;
    c.set_root(root);
    c.set_scope("game");
    c.set_remote(remote_of(root));
    CHECK_FALSE(w.kept->share(c));
  };
  const auto one = w.repository("one", "https://host/me/x"), two = w.repository("two", "https://host/me/x");
  share(one);
  share(two);
  CHECK(w.kept->root_for_worker("game") == one);
  CHECK_FALSE(w.kept->replaced("game", one + "/src"));
  w.repository("one", "https://host/me/other");
  CHECK(w.kept->root_for_worker("game") == two);
  REQUIRE(w.kept->replaced("game", one + "/src"));
  CHECK(w.kept->replaced("game", one + "/src")->remote() == "host/me/x");
  CHECK_FALSE(w.kept->replaced("game", two));
  fs::remove_all(two);
  CHECK(w.kept->root_for_worker("game").empty());
}

TEST_CASE("a damaged list is refused with its name") {
  shared_world w;
  fs::create_directories(w.dir / "state");
  fs::permissions(w.dir / "state", fs::perms::owner_all);
  std::ofstream{w.dir / "state" / "checkouts.json"} << "{\"checkouts\": 7";
  fs::permissions(w.dir / "state" / "checkouts.json", fs::perms::owner_read | fs::perms::owner_write);
  auto read = checkouts::open(w.dir / "state" / "checkouts.json");
  REQUIRE_FALSE(read);
  CHECK(read.failure().text.find("checkouts.json") != std::string::npos);
}

TEST_CASE("a call from a shared checkout speaks the scope's paths, and its answer the caller's") {
  shared_world w;
  w.share("/a/one", "game");
  w.share("/b/two", "game");
  v1::Command cmd;
  cmd.set_scope("/a/one");
  cmd.mutable_caller()->set_directory("/a/one/src");
  cmd.mutable_acquire_lock()->set_path("/a/one/src/x.c");
  path_view paths{*w.kept, *cmd.mutable_scope(), cmd.caller().directory()};
  CHECK(cmd.scope() == "game");
  paths.to_store(cmd);
  CHECK(cmd.acquire_lock().path() == "src/x.c");
  CHECK(cmd.caller().directory() == "/a/one/src");

  v1::Reply reply;
  auto& active = *reply.mutable_lock()->mutable_active();
  active.mutable_lock()->set_path("src/x.c");
  active.add_active_tasks()->add_files("README");
  active.mutable_active_tasks(0)->add_files("/elsewhere/y");
  reply.mutable_refusal()->set_subject("src/x.c");
  std::string scope = "game";
  path_view from_two{*w.kept, scope, "/b/two"};
  auto same = cmd;
  same.mutable_acquire_lock()->set_path("/b/two/src/x.c");
  from_two.to_store(same);
  CHECK(same.acquire_lock().path() == "src/x.c");
  from_two.to_caller(reply);
  CHECK(active.lock().path() == "/b/two/src/x.c");
  CHECK(active.active_tasks(0).files(0) == "/b/two/README");
  CHECK(active.active_tasks(0).files(1) == "/elsewhere/y");
  CHECK(reply.refusal().subject() == "/b/two/src/x.c");
}

TEST_CASE("a warning names its file as the caller's host sees it") {
  shared_world w;
  w.share("/a/one", "game");
  v1::Answer answer;
  answer.mutable_status()->add_warnings()->set_file("src/x.c");
  std::string scope = "game";
  path_view{*w.kept, scope, ""}.to_caller(answer);
  CHECK(answer.status().warnings(0).file() == "/a/one/src/x.c");
}

TEST_CASE("events show paths as the caller's host sees them") {
  shared_world w;
  w.share("/a/one", "game");
  v1::WatchReply page;
  auto& lock = *page.add_events();
  lock.set_type("context.lock_acquired");
  lock.set_subject("src/x.c");
  auto& task = *page.add_events();
  task.set_type("task.created");
  task.set_subject("id");
  task.set_payload(R"({"files":["src/x.c","/abs"],"title":"src/x.c"})");
  auto& note = *page.add_events();
  note.set_type("message.sent");
  note.set_subject("src/x.c");
  std::string scope = "game";
  path_view{*w.kept, scope, ""}.to_caller(page);
  CHECK(page.events(0).subject() == "/a/one/src/x.c");
  CHECK(page.events(1).payload() == R"({"files":["/a/one/src/x.c","/abs"],"title":"src/x.c"})");
  CHECK(page.events(2).subject() == "src/x.c");
}

TEST_CASE("a scope that is a directory, and a host without checkouts, leave everything as it is") {
  shared_world w;
  v1::Command cmd;
  cmd.set_scope("game");
  cmd.mutable_acquire_lock()->set_path("/a/one/x");
  path_view{*w.kept, *cmd.mutable_scope(), "/a/one"}.to_store(cmd);
  CHECK(cmd.acquire_lock().path() == "/a/one/x");
  w.share("/a/one", "game");
  cmd.set_scope("/b");
  path_view{*w.kept, *cmd.mutable_scope(), "/a/one"}.to_store(cmd);
  CHECK(cmd.acquire_lock().path() == "/a/one/x");
}
