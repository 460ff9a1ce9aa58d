#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/parked.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace swarm;

namespace {

using waiter_actor = caf::typed_actor<caf::replies_to<int>::with<int>, caf::reacts_to<double>, caf::reacts_to<std::string>>;

struct waiter_state {
  static inline const char* name = "waiter";
  std::vector<runtime::parked<int>> numbers;
  std::vector<runtime::parked<void>> empties;
};

waiter_actor::behavior_type waiter(waiter_actor::stateful_pointer<waiter_state> self, errc otherwise) {
  runtime::install_defaults(self);
  return {
    [self, otherwise](int) -> caf::result<int> {
      auto promise = self->make_response_promise<int>();
      self->state.numbers.emplace_back(promise, otherwise);
      return promise;
    },
    [self](double) -> caf::result<void> {
      auto promise = self->make_response_promise<void>();
      self->state.empties.emplace_back(promise);
      return promise;
    },
    [self](const std::string& what) {
      auto& st = self->state;
      if (what == "answer")
        for (auto& p : st.numbers)
          p.answer(42);
      for (auto& p : st.empties)
        p.answer();
      if (what == "error")
        for (auto& p : st.numbers)
          p.answer(fail(errc::forbidden));
      if (what == "move")
        st.numbers.front() = std::move(st.numbers.back());
      if (what == "drop")
        st.numbers.clear();
      if (what == "die")
        self->quit(caf::exit_reason::user_shutdown);
      if (what == "throw")
        throw std::runtime_error("bad command");
    },
  };
}

std::string text(const test::outcome<int>& o) { return o.index() == 0 ? std::to_string(std::get<0>(o)) : to_string(std::get<1>(o)); }

} // namespace

TEST_CASE("a parked promise is answered on every way out, once") {
  for (auto otherwise : {errc::unavailable, errc::unknown_outcome})
    for (std::string how : {"answer", "error", "drop", "die", "throw", "exit", "kill"}) {
      CAPTURE(how);
      test::quiet log;
      test::world<> w;
      auto a = w.sys.spawn(waiter, otherwise);
      auto pending = w.me->request(a, caf::infinite, 1);
      w.settle();
      REQUIRE_FALSE(w.me->has_next_message());
      if (how == "kill")
        runtime::kill(a);
      else if (how == "exit")
        runtime::ask_to_end(a);
      else
        caf::anon_send(a, how);
      w.settle();
      REQUIRE(w.me->has_next_message());
      test::outcome<int> got;
      pending.receive([&](int x) { got = x; }, [&](caf::error& e) { got = std::move(e); });
      if (how == "answer")
        CHECK(std::get<0>(got) == 42);
      else
        CHECK(text(got) == text(how == "error" ? fail(errc::forbidden) : fail(otherwise)));
      CHECK_FALSE(w.me->has_next_message());
      w.end(a);
      CHECK_FALSE(w.me->has_next_message());
      CHECK((log.text().find("died: bad command") != std::string::npos) == (how == "throw"));
    }
}

TEST_CASE("moving over a parked promise answers the one that was there and keeps the other") {
  test::quiet log;
  test::world<> w;
  auto a = w.sys.spawn(waiter, errc::unavailable);
  auto first = w.me->request(a, caf::infinite, 1);
  auto second = w.me->request(a, caf::infinite, 2);
  w.settle();
  w.tell(a, std::string{"move"});
  auto refused = caf::error{};
  first.receive([](int) {}, [&](caf::error& e) { refused = std::move(e); });
  CHECK(refused == fail(errc::unavailable));
  CHECK_FALSE(w.me->has_next_message());
  w.tell(a, std::string{"answer"});
  auto got = 0;
  second.receive([&](int x) { got = x; }, [](const caf::error&) {});
  CHECK(got == 42);
  w.end(a);
}

TEST_CASE("an empty reply can be parked") {
  test::quiet log;
  test::world<> w;
  auto a = w.sys.spawn(waiter, errc::unavailable);
  auto pending = w.me->request(a, caf::infinite, 1.0);
  w.settle();
  REQUIRE_FALSE(w.me->has_next_message());
  w.tell(a, std::string{"go on"});
  auto acknowledged = false;
  pending.receive([&] { acknowledged = true; }, [](const caf::error&) {});
  CHECK(acknowledged);
  w.end(a);
}

TEST_CASE("a message nobody understands is answered and logged by its types, not its values") {
  test::quiet log;
  test::world<> w;
  auto a = caf::actor_cast<caf::actor>(w.sys.spawn(waiter, errc::unavailable));
  auto got = w.ask<int>(a, std::string{"secret"}, 7);
  CHECK(std::get<1>(*got) == caf::sec::unexpected_message);
  CHECK(log.text().find("does not understand") != std::string::npos);
  CHECK(log.text().find("secret") == std::string::npos);
  w.end(a);
}

TEST_CASE("an actor survives a stray error and the death of another") {
  test::quiet log;
  test::world<> w;
  auto a = w.sys.spawn(waiter, errc::unavailable);
  w.me->send(caf::actor_cast<caf::actor>(a), fail(errc::overloaded));
  w.me->send(caf::actor_cast<caf::actor>(a), caf::down_msg{w.me->address(), fail(errc::unavailable)});
  w.settle();
  auto pending = w.me->request(a, caf::infinite, 1);
  w.settle();
  w.tell(a, std::string{"answer"});
  auto got = 0;
  pending.receive([&](int x) { got = x; }, [](const caf::error&) {});
  CHECK(got == 42);
  w.end(a);
}
