// What others hold, as a conversation and its driver hear of it.
#include <algorithm>

#include <caf/event_based_actor.hpp>

#include "actors/base/text.hpp"
#include "actors/fabric/conversations/lock_judge.hpp"
#include "actors/fabric/conversations/scope_locks.hpp"
#include "tests/support/talk_world.hpp"

using namespace swarm;
using test::talk_world;

namespace {

/// Rows as a map has them, and how often they were asked for.
struct told_locks {
  std::map<std::string, std::vector<v1::Answer>> pages; // of locks, by scope
  std::map<std::string, int> asked;
  v1::Answer sessions;
  bool fails = false;

  ask_rows ask() {
    return [this](const std::string& scope, const std::function<void(v1::Query&)>& fill, const std::function<void(const v1::Answer&)>& answered,
                  const std::function<void()>& failed) {
      v1::Query q;
      fill(q);
      v1::Answer a;
      if (q.has_list_scopes())
        for (const auto& [name, all] : pages)
          a.mutable_scopes()->add_scopes()->set_scope(name);
      else if (q.has_list_sessions())
        a = sessions;
      else
        a = pages[scope].at(static_cast<std::size_t>(asked[scope]++));
      fails&& q.has_list_locks() ? failed() : answered(a);
    };
  }
  void lock(const std::string& scope, const std::string& path, const std::string& session) {
    pages[scope].resize(1);
    auto& l = *pages[scope].front().mutable_locks()->add_locks();
    l.mutable_lock()->set_path(path);
    l.mutable_lock()->set_session_id(session);
  }
  std::vector<std::string> scopes_around(const std::string& scope, const std::string& written, bool tree = false) {
    auto node = std::make_shared<node_environment>();
    node->facts.node_id = "node-1";
    internal::HookQuestion q;
    q.add_writes()->set_name(written);
    q.mutable_writes(0)->set_tree(tree);
    std::vector<std::string> out;
    asked.clear();
    read_locks_around(
      ask(), node, scope, q,
      [&](const std::vector<scope_locks_ptr>& all) {
        for (const auto& l : all)
          out.push_back(l->scope);
      },
      [&] { out.emplace_back("failed"); });
    std::sort(out.begin(), out.end());
    return out;
  }
};

bool hears_of(const talk_world& w, const std::string& path) {
  for (const auto& [id, d] : w.drivers)
    if (std::none_of(d->heard.begin(), d->heard.end(), [&](const auto& m) {
          const auto& paths = m.locks().paths();
          return std::find(paths.begin(), paths.end(), path) != paths.end();
        }))
      return false;
  return !w.drivers.empty();
}

std::optional<internal::HookAnswer> hook_answer(const test::model_driver& d, const std::string& id) {
  for (const auto& m : d.heard)
    if (m.has_hook_answer() && m.hook_answer().question_id() == id)
      return m.hook_answer();
  return std::nullopt;
}

std::string last_option(const test::model_driver& d) {
  std::string out;
  for (const auto& m : d.heard)
    if (m.has_answer())
      out = m.answer().option();
  return out;
}

/// Silent about a tool that writes this file, as while its file system hangs.
lock_looker_actor::behavior_type looks_but_for(lock_looker_actor::pointer self, std::string hanging) {
  auto known = std::make_shared<lock_files>();
  return {
    [self, hanging, known](const lock_case_ptr& c) -> caf::result<lock_verdict_ptr> {
      auto promise = self->make_response_promise<lock_verdict_ptr>();
      if (!c->question || c->question->writes_size() == 0 || c->question->writes(0).name() != hanging)
        promise.deliver(judge_locks(*c, *known));
      return promise;
    },
    [self](tree_atom) { return self->make_response_promise<std::vector<runtime::tree_entry>>(); },
  };
}

} // namespace

TEST_CASE("a scope's locks are read page by page up to the bound, with where their holders work") {
  told_locks t;
  t.lock("s", "/repo/a", "peer");
  auto& page = t.pages["s"].front();
  page.mutable_locks()->mutable_page()->set_token("more");
  t.pages["s"].resize(limits::conversation_lock_pages_max + 1, page);
  for (const auto* node : {"node-1", "node-2"}) {
    auto& s = *t.sessions.mutable_sessions()->add_sessions();
    s.set_id(node);
    s.set_node_id(node);
    s.set_directory("/repo/tree");
  }
  node_environment node;
  node.facts.node_id = "node-1";
  scope_locks_ptr read;
  read_scope_locks(
    t.ask(), node, "s", [&](scope_locks_ptr all) { read = std::move(all); }, [] { FAIL("it was read"); });
  REQUIRE(read);
  CHECK(read->all.size() == limits::conversation_lock_pages_max);
  CHECK(read->more);
  CHECK(read->directories == std::map<std::string, std::string>{{"node-1", "/repo/tree"}});
}

TEST_CASE("the locks of other scopes are read where a tool writes in their directories, beside them in worktrees, or above them") {
  told_locks t;
  for (const auto* scope : {"/home/own", "/home/other", "/home/other/inner", "/home/away", "named"})
    t.lock(scope, concat({scope, "/a"}), "peer");
  CHECK(t.scopes_around("/home/own", "/home/own/a").empty());
  CHECK(t.scopes_around("/home/own", "/home/other/b") == std::vector<std::string>{"/home/other"});
  CHECK(t.scopes_around("/home/own", "/home/other/inner/b") == std::vector<std::string>{"/home/other", "/home/other/inner"});
  CHECK(t.scopes_around("/home/own", "/home/other.worktrees/w/b") == std::vector<std::string>{"/home/other"});
  CHECK(t.scopes_around("/home/own", "/home").empty());
  CHECK(t.scopes_around("/home/own", "/home", true).size() == 3);
  t.fails = true;
  CHECK(t.scopes_around("/home/own", "/home/other/b") == std::vector<std::string>{"failed"});
}

TEST_CASE("a tool that writes in more scopes than are read is told that there are too many locks") {
  told_locks t;
  for (int i = 0; i < 40; ++i)
    t.lock(concat({"/home/", i}), "/a", "peer");
  CHECK(t.scopes_around("s", "/home", true).size() == 1);
  CHECK(t.asked.empty());
}

TEST_CASE("the drivers of a scope hear which files peers hold, and that they do not any more") {
  talk_world w;
  const auto peer = w.f.session();
  w.start("one");
  w.start("two");
  REQUIRE(w.drivers.size() == 2);
  REQUIRE_FALSE(w.f.run(w.f.acquire(peer, "/repo/a")).has_refusal());
  w.wait();
  CHECK(hears_of(w, "/repo/a"));
  w.f.run(w.f.release(peer, "/repo/a"));
  w.wait();
  CHECK(w.driver().heard.back().has_locks());
  CHECK(w.driver().heard.back().locks().paths().empty());
}

TEST_CASE("a tool of a conversation does not write what is held in another repository") {
  talk_world w;
  const auto peer = w.f.session(100, "/other");
  auto lock = w.f.acquire(peer, "/other/a");
  lock.set_scope("/other");
  REQUIRE_FALSE(w.f.run(lock).has_refusal());
  w.start("hello");
  w.say([](auto& d) { d.ask_hook("h1", "/other/a"); });
  w.say([](auto& d) { d.ask_hook("h2", "/other/b"); });
  const auto held = hook_answer(w.driver(), "h1"), free = hook_answer(w.driver(), "h2");
  REQUIRE(held);
  REQUIRE(free);
  CHECK(held->text() == "swarm lock blocked Write for /other/a: held by a session of /other");
  CHECK_FALSE(free->denied());
}

TEST_CASE("while locks of one conversation are not found out its answers are denied in time and others go on") {
  talk_world w;
  w.f.make_lock_looker = [&w] { return lock_looker_actor{w.f.w.sys.spawn(looks_but_for, std::string{"/hangs/a"})}; };
  w.f.restart();
  w.writes = "/hangs/a";
  w.start("one");
  const auto first = w.spawn;
  w.decide("allow");
  CHECK(last_option(w.driver()).empty());
  w.writes = "/repo/b";
  w.start("two");
  REQUIRE(w.spawn != first);
  w.f.w.advance(limits::hook_call_deadline());
  w.f.w.settle();
  w.decide("allow");
  CHECK(last_option(w.driver()) == "allow");
  w.spawn = first;
  CHECK(last_option(w.driver()) == "deny");
  // The first case is still underway: the next one has its turn when its patience ends.
  w.say([](auto& d) { d.ask_hook("h1", "/repo/c"); });
  CHECK_FALSE(hook_answer(w.driver(), "h1"));
  w.f.w.advance_by(limits::lock_judge_patience, std::chrono::seconds{1});
  w.f.w.settle();
  REQUIRE(hook_answer(w.driver(), "h1"));
  CHECK_FALSE(hook_answer(w.driver(), "h1")->denied());
}
