#include <random>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

TEST_CASE("events get consecutive revisions with the epoch in the upper bits and say who caused them") {
  domain_world w;
  auto cmd = domain_world::command();
  domain::transaction tx(w.rows, cmd, w.in);
  tx.event("a", "x", {{"k", 1}});
  tx.event("b", "y", {{"long", std::string(100'000, 'x')}});
  auto batch = tx.take({});
  REQUIRE(batch.events_size() == 2);
  CHECK(batch.events(0).revision() == (1ull << 36) + 1);
  CHECK(batch.events(1).revision() == (1ull << 36) + 2);
  CHECK(batch.reply().revision() == batch.events(1).revision());
  CHECK(batch.events(0).principal().kind() == v1::Principal::OPERATOR);
  CHECK(batch.events(0).actor() == "operator");
  CHECK(batch.events(1).payload().size() <= 8192);
  CHECK(domain::json::parse(batch.events(1).payload())["truncated"] == true);
}

TEST_CASE("a refusal and a batch that is too large change nothing") {
  domain_world w;
  auto cmd = domain_world::command();
  domain::transaction small(w.rows, cmd, w.in);
  small.event("a", "x", {});
  auto refused = small.take(domain::refuse(v1::Refusal::STATE, "no"));
  CHECK(refused.events().empty());
  CHECK(refused.patches().empty());
  domain::transaction large(w.rows, cmd, w.in);
  for (int i = 0; i < 6; ++i) {
    v1::KvEntry e;
    e.set_scope("s");
    e.set_key(std::to_string(i));
    e.set_value(std::string(100'000, 'v'));
    large.put(e);
  }
  auto too_large = large.take({});
  CHECK(too_large.reply().refusal().code() == v1::Refusal::LIMIT);
  CHECK(too_large.patches().empty());
}

TEST_CASE("reads see the command's own writes, whatever the filter and limit") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    domain_world w;
    auto cmd = domain_world::command();
    std::mt19937_64 random(seed);
    test::memory_rows naive;
    auto message = [&] {
      v1::Message m;
      m.set_scope("s");
      m.set_id(random() % 20);
      m.set_read(random() % 2 == 0);
      return m;
    };
    for (int i = 0; i < 10; ++i) {
      auto m = message();
      w.rows.put(m);
      naive.put(m);
    }
    domain::transaction tx(w.rows, cmd, w.in);
    for (int i = 0; i < 10; ++i) {
      auto m = message();
      if (random() % 2 == 0) {
        tx.put(m);
        naive.put(m);
      } else {
        tx.erase(m);
        naive.erase(m);
      }
      domain::message_filter f{.scope = "s", .read = random() % 2 == 0, .newest = random() % 2 == 0, .limit = random() % 5};
      auto got = tx.find<v1::Message>(f), expected = naive.rows<v1::Message>(f);
      REQUIRE(got.size() == expected.size());
      for (std::size_t k = 0; k < got.size(); ++k)
        CHECK(got[k].id() == expected[k].id());
      CHECK(tx.count<v1::Message>(f) == naive.total<v1::Message>(f));
    }
  }
}

TEST_CASE("LIKE is case-insensitive for ASCII and counts characters, not bytes") {
  CHECK(domain::like("Role:Planner", "%role:%"));
  CHECK(domain::like("a\xc3\xa9z", "a_z"));
  CHECK_FALSE(domain::like("a\xc3\xa9z", "a__z"));
  CHECK(domain::like("", "%"));
  CHECK_FALSE(domain::like("abc", "ab"));
}

TEST_CASE("the list of tables is the contract's") {
  std::vector<std::string> names;
  std::set<int> erased;
  domain::all_rows::each([&]<class Row>() {
    names.push_back(Row::descriptor()->name());
    erased.insert(domain::table<Row>::erased);
    // A row is found in a patch of its own kind only.
    v1::RowPatch patch;
    CHECK(domain::table<Row>::in(patch) == nullptr);
    domain::table<Row>::mutable_in(patch);
    CHECK(domain::table<Row>::in(patch) != nullptr);
  });
  const auto* patch = v1::RowPatch::descriptor()->FindOneofByName("row");
  REQUIRE(patch->field_count() == static_cast<int>(names.size()) + 1); // and `erased`
  for (int i = 0; i + 1 < patch->field_count(); ++i)
    CHECK(patch->field(i)->message_type()->name() == names[static_cast<std::size_t>(i)]);
  CHECK(static_cast<int>(erased.size()) == v1::Erased::Table_descriptor()->value_count());
}
