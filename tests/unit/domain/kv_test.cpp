#include <map>
#include <random>

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

v1::Command set(const std::string& who, const std::string& key, const std::string& value, std::int64_t ttl_ms = 0) {
  auto cmd = domain_world::command(who);
  cmd.mutable_set_kv()->set_key(key);
  cmd.mutable_set_kv()->set_value(value);
  cmd.mutable_set_kv()->set_ttl_ms(ttl_ms);
  return cmd;
}

v1::Command compare_set(const std::string& key, const std::string& value, std::uint64_t expected) {
  auto cmd = set("", key, value);
  cmd.mutable_set_kv()->set_compare(true);
  cmd.mutable_set_kv()->set_expected_revision(expected);
  return cmd;
}

v1::Command append(const std::string& who, const std::string& key, const std::string& json) {
  auto cmd = domain_world::command(who);
  cmd.mutable_append_kv()->set_key(key);
  cmd.mutable_append_kv()->set_json(json);
  return cmd;
}

v1::Command remove(const std::string& who, const std::string& key) {
  auto cmd = domain_world::command(who);
  cmd.mutable_delete_kv()->set_key(key);
  return cmd;
}

std::string value_of(const domain_world& w, const std::string& key) {
  auto e = w.rows.row<v1::KvEntry>(domain::key("s", key));
  return e ? e->value() : "(none)";
}

} // namespace

TEST_CASE("append keeps an array, wraps anything else and counts") {
  domain_world w;
  CHECK(w.reply(append("", "a", "1")).kv_written().items() == 1);
  CHECK(w.reply(append("", "a", "{\"b\": [2]}")).kv_written().items() == 2);
  CHECK(value_of(w, "a") == "[1,{\"b\":[2]}]");
  w.run(set("", "t", "plain text"));
  w.run(append("", "t", "null"));
  CHECK(value_of(w, "t") == "[\"plain text\",null]");
  w.run(set("", "o", "{\"z\":1,\"a\":2}"));
  w.run(append("", "o", "\"x\""));
  CHECK(value_of(w, "o") == "[{\"z\":1,\"a\":2},\"x\"]");
}

TEST_CASE("an append that asks for an array leaves any other value as it is") {
  domain_world w;
  auto only = [](const std::string& key) {
    auto cmd = append("", key, "3");
    cmd.mutable_append_kv()->set_only_to_array(true);
    return cmd;
  };
  for (const auto* value : {"ship it", "\"ship it\"", "{}", "1", "null", ""}) {
    w.run(set("", "k", value));
    CHECK(w.reply(only("k")).refusal().code() == v1::Refusal::STATE);
    CHECK(value_of(w, "k") == value);
  }
  w.run(set("", "k", "ship it"));
  CHECK(w.reply(only("k")).refusal().text().find("k holds text and no JSON array: ship it\n") != std::string::npos);
  w.run(set("", "k", "{}"));
  CHECK(w.reply(only("k")).refusal().text().find("JSON of type object") != std::string::npos);
  w.run(set("", "k", "[1]"));
  CHECK(w.reply(only("k")).kv_written().items() == 2);
  CHECK(w.reply(only("new")).kv_written().items() == 1);
}

TEST_CASE("append refuses what is not JSON, is nested too deeply or grows too long") {
  domain_world w;
  for (const auto& bad : {std::string("not json"), std::string(60'000, '[') + std::string(60'000, ']')}) {
    auto r = w.reply(append("", "a", bad));
    CHECK(r.refusal().code() == v1::Refusal::INVALID);
    CHECK(r.refusal().text() == "Value must be valid JSON");
  }
  w.run(set("", "a", "[\"" + std::string(128 * 1024 - 10, 'x') + "\"]"));
  CHECK(w.reply(append("", "a", "\"0123456789\"")).refusal().code() == v1::Refusal::LIMIT);
}

TEST_CASE("what was appended last does not keep the next append from finding the array") {
  auto nested = [](int depth) { return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']'); };
  domain_world w;
  CHECK_FALSE(w.reply(append("", "a", nested(255))).has_refusal());
  CHECK(w.reply(append("", "a", "1")).kv_written().items() == 2);
  CHECK(w.reply(append("", "a", nested(256))).refusal().code() == v1::Refusal::INVALID);
  std::string object;
  for (int i = 0; i < 256; ++i)
    object += "{\"a\":";
  w.run(set("", "o", object + "1" + std::string(256, '}')));
  CHECK(w.reply(append("", "o", "1")).kv_written().items() == 2);
  CHECK(w.reply(append("", "o", "2")).kv_written().items() == 3);
}

TEST_CASE("keys belong to the first labeled writer's identity, and un-owned ones to everybody") {
  domain_world w;
  auto a = w.session("identity:a"), b = w.session("identity:b"), plain = w.session();
  w.run(set(plain, "k", "1"));
  CHECK(w.rows.row<v1::KvEntry>(domain::key("s", "k"))->owner_identity().empty());
  w.run(set(a, "k", "2"));
  CHECK(w.rows.row<v1::KvEntry>(domain::key("s", "k"))->owner_identity() == "identity:a");
  for (const auto& who : {b, plain})
    for (const auto& cmd : {set(who, "k", "3"), append(who, "k", "3"), remove(who, "k")}) {
      auto r = w.reply(cmd);
      CHECK(r.refusal().code() == v1::Refusal::CROSS_IDENTITY);
      CHECK(r.refusal().text() == "KV key is owned by another identity");
    }
  CHECK_FALSE(w.reply(set("", "k", "4")).has_refusal());
  auto over = set(b, "k", "5");
  over.mutable_caller()->set_allow_cross_identity(true);
  CHECK_FALSE(w.reply(over).has_refusal());
  over.mutable_principal()->set_kind(v1::Principal::SESSION);
  over.mutable_principal()->set_id(b);
  CHECK(w.reply(over).refusal().code() == v1::Refusal::CROSS_IDENTITY);
  over.mutable_principal()->add_grants("cross_identity");
  CHECK_FALSE(w.reply(over).has_refusal());
}

TEST_CASE("compare-and-set writes only what the writer has read") {
  domain_world w;
  auto first = w.reply(compare_set("k", "1", 0)).kv_written().entry().revision();
  CHECK(first > 0);
  auto r = w.reply(compare_set("k", "2", 0));
  CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
  CHECK(r.refusal().text() == "The key has changed; read it again");
  auto second = w.reply(compare_set("k", "2", first)).kv_written().entry().revision();
  CHECK(second > first);
  CHECK(w.reply(compare_set("k", "3", first)).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("an entry whose time is over is absent for every writer and swept with an event") {
  domain_world w;
  auto a = w.session("identity:a"), b = w.session("identity:b");
  w.run(set(a, "k", "1", 100));
  CHECK(w.sweep().next_deadline_ms() == w.in.now_ms + 100);
  w.pass(100);
  CHECK_FALSE(w.reply(append(b, "k", "2")).has_refusal());
  CHECK(value_of(w, "k") == "[2]");
  w.run(set(b, "l", "1", 100));
  w.pass(100);
  CHECK(w.sweep().kv_deleted() == 1);
  CHECK(value_of(w, "l") == "(none)");
}

TEST_CASE("a write under a lock is refused once the lock is not the writer's with that fence") {
  domain_world w;
  auto a = w.session(), b = w.session();
  auto lock = [&](const std::string& who) {
    auto cmd = domain_world::command(who);
    cmd.mutable_acquire_lock()->set_path("/repo/x");
    cmd.mutable_acquire_lock()->set_ttl_ms(1000);
    return w.reply(cmd).lock().lock().fence();
  };
  auto under = [&](v1::Command cmd, std::uint64_t fence, const std::string& path = "/repo/x") {
    auto& guard = cmd.has_set_kv()      ? *cmd.mutable_set_kv()->mutable_guard()
                  : cmd.has_append_kv() ? *cmd.mutable_append_kv()->mutable_guard()
                                        : *cmd.mutable_delete_kv()->mutable_guard();
    guard.set_path(path);
    guard.set_fence(fence);
    return w.reply(cmd);
  };
  auto first = lock(a);
  for (const auto& cmd : {set(a, "k", "1"), append(a, "k", "2"), remove(a, "k"), set(a, "k", "3")})
    CHECK_FALSE(under(cmd, first).has_refusal());
  auto refused_all = [&](const std::string& who, std::uint64_t fence, const std::string& path, v1::Refusal::Code code) {
    for (const auto& cmd : {set(who, "k", "9"), append(who, "k", "9"), remove(who, "k"), remove(who, "missing")}) {
      auto r = under(cmd, fence, path);
      CHECK(r.refusal().code() == code);
    }
    CHECK(value_of(w, "k") == "3");
  };
  refused_all(b, first, "/repo/x", v1::Refusal::STALE);
  refused_all("", first, "/repo/x", v1::Refusal::STALE);
  refused_all(a, first + 1, "/repo/x", v1::Refusal::STALE);
  refused_all(a, first, "/repo/y", v1::Refusal::STALE);
  refused_all(a, 0, "/repo/x", v1::Refusal::INVALID);
  refused_all(a, first, "", v1::Refusal::INVALID);
  w.pass(1000);
  refused_all(a, first, "/repo/x", v1::Refusal::STALE);
  auto second = lock(b);
  CHECK(second > first);
  refused_all(a, first, "/repo/x", v1::Refusal::STALE);
  CHECK_FALSE(under(set(b, "k", "4"), second).has_refusal());
}

TEST_CASE("deleting a missing key is done without an event") {
  domain_world w;
  auto batch = w.run(remove("", "nothing"));
  CHECK(batch.reply().has_done());
  CHECK(batch.events().empty());
}

TEST_CASE("a scope has exactly so many keys, and each that goes makes room for one") {
  domain_world w;
  w.run(set("", "expires", "1", 50));
  auto state = w.rows.row<v1::ScopeState>("s").value();
  CHECK(state.kv_entries() == 1);
  state.set_kv_entries(limits::scope_kv_keys_max() - 1);
  w.rows.put(state);
  CHECK_FALSE(w.reply(set("", "last", "1")).has_refusal());
  for (int i = 0; i < 3; ++i) {
    CHECK(w.reply(set("", "more", "1")).refusal().code() == v1::Refusal::LIMIT);
    CHECK(w.reply(append("", "more", "1")).refusal().code() == v1::Refusal::LIMIT);
  }
  CHECK_FALSE(w.reply(set("", "last", "2")).has_refusal());
  w.pass(50);
  CHECK_FALSE(w.reply(set("", "expires", "its place is still there", 50)).has_refusal());
  CHECK(w.reply(set("", "more", "1")).refusal().code() == v1::Refusal::LIMIT);
  w.pass(50);
  CHECK(w.sweep().kv_deleted() == 1);
  CHECK_FALSE(w.reply(set("", "more", "1")).has_refusal());
  CHECK(w.reply(set("", "another", "1")).refusal().code() == v1::Refusal::LIMIT);
  w.run(remove("", "more"));
  CHECK_FALSE(w.reply(set("", "another", "1")).has_refusal());
}

TEST_CASE("the values of a scope's keys are bounded together, and what becomes no longer always goes in") {
  domain_world w;
  w.run(set("", "a", "1234"));
  w.run(append("", "b", "5"));
  auto state = w.rows.row<v1::ScopeState>("s").value();
  CHECK(state.kv_bytes() == 4 + 3);
  state.set_kv_bytes(limits::scope_kv_bytes_max() - 2);
  w.rows.put(state);
  CHECK_FALSE(w.reply(set("", "a", "123456")).has_refusal());
  CHECK(w.reply(set("", "a", "1234567")).refusal().code() == v1::Refusal::LIMIT);
  CHECK(w.reply(set("", "c", "1")).refusal().code() == v1::Refusal::LIMIT);
  CHECK(w.reply(append("", "b", "6")).refusal().code() == v1::Refusal::LIMIT);
  CHECK_FALSE(w.reply(set("", "a", "654321")).has_refusal());
  w.run(remove("", "a"));
  CHECK_FALSE(w.reply(append("", "b", "6")).has_refusal());
}

TEST_CASE("the keys of a scope older than its totals are counted with its first change") {
  domain_world w;
  for (const char* name : {"a", "b", "c"}) {
    v1::KvEntry e;
    e.set_scope("s");
    e.set_key(name);
    w.rows.put(e);
  }
  w.run(remove("", "b"));
  CHECK(w.rows.row<v1::ScopeState>("s")->kv_entries() == 2);
  w.run(set("", "d", "1"));
  CHECK(w.rows.row<v1::ScopeState>("s")->kv_entries() == 3);
}

TEST_CASE("the keys that come and go with sessions and the planner's role are counted too") {
  domain_world w;
  auto count = [&] { return w.rows.row<v1::ScopeState>("s")->kv_entries(); };
  auto a = w.session("role:planner");
  CHECK(count() == w.rows.all<v1::KvEntry>().size());
  CHECK(count() == 1);
  w.run(set(a, "identity/pty/" + a, "1"));
  CHECK(count() == 2);
  auto leave = domain_world::command(a);
  leave.mutable_deregister_session();
  w.run(leave);
  CHECK(count() == w.rows.all<v1::KvEntry>().size());
  CHECK(count() == 0);
}

TEST_CASE("key-value entries behave like a map with deadlines") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    struct item {
      std::string value;
      std::int64_t expires = 0;
      std::uint64_t revision = 0;
    };
    domain_world w(seed);
    std::mt19937_64 random(seed);
    std::map<std::string, item> model;
    std::uint64_t version = 0;
    auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int i = 0; i < 80; ++i) {
      CAPTURE(i);
      auto k = std::string(1, "abc"[pick(3)]);
      auto v = std::to_string(pick(100));
      std::erase_if(model, [&](const auto& e) { return e.second.expires != 0 && e.second.expires <= w.in.now_ms; });
      auto known = model.find(k);
      auto dice = pick(5);
      if (dice == 0) {
        auto ttl = static_cast<std::int64_t>(pick(3) * 20);
        auto r = w.reply(set("", k, v, ttl));
        model[k] = {v, ttl == 0 ? 0 : w.in.now_ms + ttl, r.kv_written().entry().revision()};
      } else if (dice == 1) {
        auto expected = pick(2) == 0 || known == model.end() ? 0 : known->second.revision;
        auto right = expected == (known == model.end() ? 0 : known->second.revision);
        auto r = w.reply(compare_set(k, v, expected));
        CHECK(r.has_refusal() == !right);
        if (right)
          model[k] = {v, 0, r.kv_written().entry().revision()};
      } else if (dice == 2) {
        auto old = known == model.end() ? item{"", 0, 0} : known->second;
        auto inner = old.value.empty() ? "" : old.value.front() == '[' ? old.value.substr(1, old.value.size() - 2) : old.value;
        auto r = w.reply(append("", k, v));
        model[k] = {"[" + inner + (inner.empty() ? "" : ",") + v + "]", old.expires, r.kv_written().entry().revision()};
      } else if (dice == 3) {
        w.run(remove("", k));
        model.erase(k);
      } else {
        w.pass(static_cast<std::int64_t>(pick(30)));
        w.sweep();
        std::erase_if(model, [&](const auto& e) { return e.second.expires != 0 && e.second.expires <= w.in.now_ms; });
        CHECK(w.rows.all<v1::KvEntry>().size() == model.size());
      }
      for (const auto& [name, x] : model)
        CHECK(value_of(w, name) == x.value);
      auto state = w.rows.row<v1::ScopeState>("s");
      CHECK((state ? state->kv_entries() : 0) == w.rows.all<v1::KvEntry>().size());
      std::uint64_t bytes = 0;
      for (const auto& [at, e] : w.rows.all<v1::KvEntry>())
        bytes += e.value().size();
      CHECK((state ? state->kv_bytes() : 0) == bytes);
      auto now_version = state ? state->kv_version() : 0;
      CHECK(now_version >= version);
      version = now_version;
    }
  }
}
