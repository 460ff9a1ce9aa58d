#include <doctest/doctest.h>

#include <map>
#include <random>

#include "actors/store/reply_memory.hpp"
#include "actors/store/schema.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

using client_key = std::pair<std::string, std::string>; // principal, client

struct client_model {
  std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> kept; // seq: digest, revision of the reply
  std::uint64_t watermark = 0;
  std::uint64_t next = 1;
};

v1::Reply reply_with(std::uint64_t revision) {
  v1::Reply reply;
  reply.set_revision(revision);
  return reply;
}

/// Remembers, acknowledges, resolves and asks at random, and writes or reopens it in between.
void compare_with_model(std::uint64_t seed) {
  CAPTURE(seed);
  std::mt19937_64 rng{seed};
  auto below = [&](std::uint64_t n) { return rng() % n; };
  sqlite::connection db{":memory:", {}};
  migrate(db);
  std::optional<reply_memory> memory{std::in_place, db};
  std::map<client_key, client_model> model;
  for (std::uint64_t step = 1; step <= 600; ++step) {
    CAPTURE(step);
    client_key who{"principal-" + std::to_string(below(2)), "client-" + std::to_string(below(3))};
    auto& m = model[who];
    auto id = [&](std::uint64_t seq) { return request_key{who.first, who.second, seq}; };
    switch (below(6)) {
      case 0:
      case 1:
      case 2: {
        auto seq = m.next++;
        memory->remember(id(seq), "digest-" + std::to_string(step), reply_with(step), 1'000);
        m.kept[seq] = {"digest-" + std::to_string(step), step};
        auto acked = below(seq + 3);
        memory->acknowledge(id(seq), acked, memory->watermark(id(seq)), 1'000);
        acked = std::min(acked, seq);
        if (acked >= m.watermark + reply_memory::ack_stride) {
          m.watermark = acked;
          m.kept.erase(m.kept.begin(), m.kept.lower_bound(acked));
        }
        break;
      }
      case 3: {
        auto seq = 1 + below(m.next);
        v1::ResolvedWait wait;
        wait.mutable_principal()->set_kind(v1::Principal::OPERATOR);
        // principal_key() makes its name, hence a client of its own.
        auto principal = domain::principal_key(wait.principal());
        memory->remember({principal, "waiter-" + std::to_string(step), seq}, "w", reply_with(1), 1'000);
        if (below(2) == 0)
          memory->write();
        wait.mutable_request()->set_client("waiter-" + std::to_string(step));
        wait.mutable_request()->set_seq(seq);
        *wait.mutable_reply() = reply_with(step);
        memory->resolve(wait);
        auto found = memory->find({principal, "waiter-" + std::to_string(step), seq});
        REQUIRE(found);
        CHECK(found->reply.revision() == step);
        break;
      }
      case 4: memory->write(); break;
      default: memory->write(); memory.emplace(db);
    }
    for (std::uint64_t seq = 1; seq <= m.next; ++seq) {
      auto found = memory->find(id(seq));
      auto expected = m.kept.find(seq);
      REQUIRE(found.has_value() == (expected != m.kept.end()));
      if (found) {
        CHECK(found->digest == expected->second.first);
        CHECK(found->reply.revision() == expected->second.second);
      }
    }
    CHECK(memory->watermark(id(1)) == m.watermark);
  }
  memory->write();
  std::size_t kept = 0;
  for (const auto& [who, m] : model)
    kept += m.kept.size();
  CHECK(db.number("SELECT count(*) FROM replies WHERE client LIKE 'client-%'") == static_cast<std::int64_t>(kept));
}

} // namespace

TEST_CASE("remembered replies agree with a plain model, whenever they are written") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    compare_with_model(seed);
}

TEST_CASE("a reply that is acknowledged before it is written never reaches the file") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  reply_memory memory{db};
  auto last = reply_memory::ack_stride + 1;
  for (std::uint64_t seq = 1; seq <= last; ++seq)
    memory.remember({"p", "client-aa", seq}, "d", reply_with(seq), 1'000);
  memory.acknowledge({"p", "client-aa", last}, last, 0, 1'000);
  memory.write();
  CHECK(db.number("SELECT count(*) FROM replies") == 1);
  CHECK(db.number("SELECT below FROM watermarks") == static_cast<std::int64_t>(last));
}

TEST_CASE("clients beyond those known by heart keep their replies and watermarks") {
  sqlite::connection db{":memory:", {}};
  migrate(db);
  reply_memory memory{db};
  auto many = limits::reply_clients_known_max() + 10;
  for (std::size_t i = 0; i < many; ++i) {
    request_key id{"principal-" + std::to_string(i), "client-aa", reply_memory::ack_stride};
    memory.remember(id, "d", reply_with(i), 1'000);
    memory.acknowledge(id, reply_memory::ack_stride, 0, 1'000);
  }
  for (std::size_t i = 0; i < many; i += many / 7) {
    request_key id{"principal-" + std::to_string(i), "client-aa", reply_memory::ack_stride};
    CHECK(memory.watermark(id) == reply_memory::ack_stride);
    REQUIRE(memory.find(id));
    CHECK(memory.find(id)->reply.revision() == i);
  }
}
