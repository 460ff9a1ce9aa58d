#include "actors/fabric/watch_hub.hpp"
#include "tests/support/fabric_world.hpp"

using namespace swarm;

namespace {

struct hub_world {
  hub_world() { hub = w.sys.spawn(watch_hub, std::uint64_t{1'000}), w.settle(); }
  ~hub_world() { w.end(hub); }

  void commit(const std::string& scope, std::vector<std::string> types, const std::string& subject = {}) {
    auto c = std::make_shared<swarm::commit>();
    auto& b = c->batches.emplace_back();
    b.set_scope(scope);
    for (auto& t : types) {
      auto* e = b.add_events();
      e->set_scope(scope);
      e->set_revision(++revision);
      e->set_type(t);
      e->set_subject(subject);
    }
    w.tell(hub, commit_ptr{c});
  }
  struct poll_result {
    std::shared_ptr<std::optional<test::outcome<watch_page_ptr>>> result = std::make_shared<std::optional<test::outcome<watch_page_ptr>>>();
    caf::actor who;
    bool answered() const { return result->has_value(); }
    const watch_page& page() const {
      REQUIRE(answered());
      REQUIRE(std::holds_alternative<watch_page_ptr>(**result));
      return *std::get<watch_page_ptr>(**result);
    }
  };
  poll_result poll(watch_poll p) {
    poll_result out;
    auto shared = std::make_shared<const watch_poll>(std::move(p));
    out.who = w.sys.spawn([h = hub, shared, r = out.result](caf::event_based_actor* self) {
      self->request(h, caf::infinite, watch_poll_ptr{shared})
        .then([r](const watch_page_ptr& x) { r->emplace(x); }, [r](caf::error& e) { r->emplace(std::move(e)); });
    });
    w.settle();
    return out;
  }
  const watch_hub_state& state() const {
    auto* raw = caf::actor_cast<caf::abstract_actor*>(hub);
    return static_cast<watch_hub_actor::stateful_pointer<watch_hub_state>>(raw)->state;
  }

  test::quiet log;
  test::fabric_world::sim w;
  watch_hub_actor hub;
  std::uint64_t revision = 0;
};

watch_poll at(const std::string& scope, std::uint64_t after, std::vector<std::string> types = {}, std::string subject = {}, bool wait = true) {
  watch_poll p;
  p.scope = scope;
  p.after = after;
  p.types = std::move(types);
  p.subject = std::move(subject);
  p.wait = wait;
  return p;
}

} // namespace

TEST_CASE("a follower gets what came after its position, once and in order") {
  hub_world h;
  h.commit("s", {"a", "b"});
  h.commit("s", {"c"});
  const auto p = h.poll(at("s", 1));
  REQUIRE(p.page().events.size() == 2);
  CHECK(p.page().events[0].type() == "b");
  CHECK(p.page().revision == 3);
  auto next = h.poll(at("s", 3));
  CHECK_FALSE(next.answered());
  h.commit("t", {"elsewhere"});
  CHECK_FALSE(next.answered());
  h.commit("s", {"d"});
  REQUIRE(next.page().events.size() == 1);
  CHECK(next.page().events[0].type() == "d");
}

TEST_CASE("filters by type prefix and subject let pass what they name only") {
  hub_world h;
  auto types = h.poll(at("s", 0, {"task.", "kv"}));
  auto subject = h.poll(at("s", 0, {}, "x"));
  h.commit("s", {"lock.taken"}, "y");
  CHECK_FALSE(types.answered());
  CHECK_FALSE(subject.answered());
  h.commit("s", {"task.created"}, "y");
  CHECK(types.page().events.size() == 1);
  CHECK_FALSE(subject.answered());
  h.commit("s", {"anything"}, "x");
  CHECK(subject.page().events.size() == 1);
}

TEST_CASE("a patient follower of rare events does not fall behind those it passes over") {
  hub_world h;
  h.commit("s", {"task.first"});
  auto p = h.poll(at("s", 1, {"task."}));
  for (std::size_t i = 0; i < 2 * limits::watch_buffer_events_max(); ++i)
    h.commit("s", {"lock.taken"});
  CHECK_FALSE(p.answered());
  h.commit("s", {"task.created"});
  CHECK_FALSE(p.page().too_old);
  CHECK(p.page().events.size() == 1);
}

TEST_CASE("a poll that nobody waits for any more is taken out, and its asker's others stay") {
  hub_world h;
  std::vector<watch_poll_ptr> polls;
  for (int i = 0; i < 2; ++i)
    polls.push_back(std::make_shared<const watch_poll>(at("quiet", 0)));
  auto answers = std::make_shared<int>(0);
  auto who = h.w.sys.spawn([&h, polls, answers](caf::event_based_actor* self) {
    for (const auto& p : polls)
      self->request(h.hub, caf::infinite, p).then([answers](const watch_page_ptr&) { *answers += 100; }, [answers](caf::error&) { ++*answers; });
  });
  h.w.settle();
  CHECK(h.state().parked == 2);
  h.w.tell(h.hub, forget_atom_v, polls[0]);
  h.w.settle();
  CHECK(h.state().parked == 1);
  CHECK(*answers == 1);
  h.w.tell(h.hub, forget_atom_v, polls[0]); // a second time, and one the hub never had
  h.w.tell(h.hub, forget_atom_v, watch_poll_ptr{std::make_shared<const watch_poll>(at("elsewhere", 0))});
  h.w.tell(h.hub, forget_atom_v, polls[1]);
  h.w.settle();
  CHECK(h.state().parked == 0);
  CHECK(h.state().scopes.size() == 1); // the feed
  CHECK(h.state().scope_of.empty());
  CHECK(*answers == 2);
}

TEST_CASE("a position that is no longer kept, or never was, is too old") {
  hub_world h;
  h.revision = 10;
  h.commit("s", {"a"});
  CHECK(h.poll(at("s", 5)).page().too_old);
  CHECK_FALSE(h.poll(at("s", 10)).page().too_old);
  for (std::size_t i = 0; i < limits::watch_buffer_events_max(); ++i)
    h.commit("s", {"b"});
  CHECK(h.poll(at("s", 10)).page().too_old);
  const auto p = h.poll(at("s", 11));
  CHECK_FALSE(p.page().too_old);
  CHECK(p.page().events.size() == limits::watch_page_events_max());
}

TEST_CASE("pages are bounded and go on without a gap") {
  hub_world h;
  for (int i = 0; i < 10; ++i)
    h.commit("s", std::vector<std::string>(100, "e"));
  std::uint64_t after = 0, seen = 0;
  for (;;) {
    const auto p = h.poll(at("s", after, {}, {}, false));
    if (p.page().events.empty())
      break;
    CHECK(p.page().events.size() <= limits::watch_page_events_max());
    for (const auto& e : p.page().events)
      CHECK(e.revision() == ++seen);
    after = p.page().revision;
  }
  CHECK(seen == 1000);
}

TEST_CASE("a poll that does not wait is answered at once") {
  hub_world h;
  CHECK(h.poll(at("s", 0, {}, {}, false)).page().events.empty());
  h.commit("s", {"a"});
  CHECK(h.poll(at("s", 1, {}, {}, false)).page().events.empty());
}

TEST_CASE("a follower that leaves is forgotten with all its polls") {
  hub_world h;
  auto a = h.poll(at("s", 0)), b = h.poll(at("s", 0)), c = h.poll(at("only-asked-about", 0));
  CHECK(h.state().parked == 3);
  h.w.end(a.who);
  h.w.end(c.who);
  CHECK(h.state().parked == 1);
  CHECK(h.state().scope_of.size() == 1);
  h.commit("s", {"a"});
  CHECK(b.answered());
  CHECK(h.state().parked == 0);
  CHECK(h.state().scope_of.empty());
}

TEST_CASE("names that are only asked about leave nothing behind") {
  hub_world h;
  for (int i = 0; i < 100; ++i) {
    h.poll(at("scope " + std::to_string(i), 0, {}, {}, false));
    h.w.end(h.poll(at("scope " + std::to_string(i), 0)).who);
  }
  CHECK(h.state().scopes.size() == 1); // the feed
}

TEST_CASE("followers beyond the bound are refused, and served again when others have left") {
  hub_world h;
  std::vector<hub_world::poll_result> all;
  for (std::size_t i = 0; i < limits::watchers_max(); ++i)
    all.push_back(h.poll(at("s", 0)));
  auto refused = h.poll(at("s", 0));
  REQUIRE(refused.answered());
  CHECK(static_cast<errc>(std::get<caf::error>(**refused.result).code()) == errc::overloaded);
  h.w.end(all.back().who);
  CHECK_FALSE(h.poll(at("s", 0)).answered());
  h.commit("s", {"a"});
  for (const auto& p : all)
    if (p.who != all.back().who)
      CHECK(p.answered());
}

TEST_CASE("the feed has the approvals and conversations of all scopes, numbered by itself, and nothing else") {
  hub_world h;
  auto p = h.poll(at("", 1'000));
  h.commit("s", {"task.created", "lock.taken"});
  CHECK_FALSE(p.answered());
  h.commit("s", {"approval.requested"}, "a");
  h.commit("t", {"conversation.started", "task.created", "approval.decided"}, "b");
  REQUIRE(p.page().events.size() == 1);
  CHECK(p.page().events[0].subject() == "a");
  CHECK(p.page().revision == 1'001);
  const auto next = h.poll(at("", 1'001));
  REQUIRE(next.page().events.size() == 2);
  CHECK(next.page().events[0].scope() == "t");
  CHECK(next.page().events[1].type() == "approval.decided");
  CHECK(next.page().revision == 1'003);
  // The scopes' own followers are served as before.
  CHECK(h.poll(at("t", 3, {"approval."})).page().events.size() == 1);
}

TEST_CASE("a place in the feed of an older hub, or one that has not been, is noticed") {
  hub_world h;
  h.commit("s", {"approval.requested"});
  CHECK(h.poll(at("", 999)).page().too_old);
  CHECK(h.poll(at("", 1'002)).page().too_old);
  CHECK_FALSE(h.poll(at("", 1'000)).page().too_old);
  const auto now = h.poll(at("", 0, {}, {}, false));
  CHECK(now.page().newest == 1'001);
  static_assert(feed_begin_at(1'800'000'000'001) > feed_begin_at(1'800'000'000'000) + 2'047);
}

TEST_CASE("the feed is bounded, and whoever falls behind it is told so") {
  hub_world h;
  for (std::size_t i = 0; i < limits::watch_buffer_events_max() + 1; ++i)
    h.commit("s" + std::to_string(i % 7), {"approval.requested"});
  CHECK(h.poll(at("", 1'000)).page().too_old);
  CHECK_FALSE(h.poll(at("", 1'001)).page().too_old);
  CHECK(h.state().scopes.at("").events.size() == limits::watch_buffer_events_max());
}
