#include "services/security/join_tokens.hpp"

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

constexpr std::int64_t minute_ms = 60'000;

struct world {
  world() { open(); }
  void open() { tokens = value_of(join_tokens::open(dir.path)); }
  join_tokens::made make(std::int64_t ttl_ms = 0, std::int64_t at = now_ms) { return value_of(tokens->create(ttl_ms, at)); }
  auto redeem(const join_tokens::made& t, std::int64_t at = now_ms) { return tokens->redeem(t.id, t.key.view(), node_b, csr, at); }
  std::string file() const {
    std::ifstream in{dir.path / "join-tokens.json"};
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put_file(const std::string& text) const {
    std::ofstream{dir.path / "join-tokens.json"} << text;
    std::filesystem::permissions(dir.path / "join-tokens.json", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  temp_dir dir;
  std::unique_ptr<join_tokens> tokens;
  key_pair key = new_key();
  std::string csr = request_of(key);
};

} // namespace

TEST_CASE("a token lets one node in, and that one again if the answer was lost") {
  world w;
  auto t = w.make();
  CHECK(t.id.size() == 16);
  CHECK(t.key.size() == 32);
  CHECK(t.expires_ms == now_ms + limits::join_token_lifetime.count());
  CHECK(!w.redeem(t));
  CHECK(!w.redeem(t, now_ms + 1000));
  // The same node after a restart: another request, the same key.
  CHECK(!w.tokens->redeem(t.id, t.key.view(), node_b, request_of(w.key), now_ms + 2000));
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view(), node_a, w.csr, now_ms)) == security_error::used_token);
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view(), node_b, request_of(new_key()), now_ms)) == security_error::used_token);
  CHECK(code_of(w.redeem(t, t.expires_ms)) == security_error::expired);
}

TEST_CASE("a token is valid until it expires") {
  world w;
  auto t = w.make(5000);
  CHECK(t.expires_ms == now_ms + 5000);
  CHECK(code_of(w.redeem(t, now_ms + 5000)) == security_error::expired);
  CHECK(!w.redeem(t, now_ms + 4999));
  CHECK(code_of(w.tokens->create(-1, now_ms)) == security_error::malformed);
  CHECK(code_of(w.tokens->create(limits::join_token_lifetime_max.count() + 1, now_ms)) == security_error::malformed);
  CHECK(w.tokens->create(limits::join_token_lifetime_max.count(), now_ms));
}

TEST_CASE("an unknown token and a wrong secret get the same answer, and five of them a minute") {
  world w;
  auto t = w.make();
  auto other = w.make();
  auto unknown = w.tokens->redeem(random_bytes(16), t.key.view(), node_b, w.csr, now_ms);
  auto wrong = w.tokens->redeem(t.id, random_bytes(32), node_b, w.csr, now_ms + 1);
  CHECK(code_of(unknown) == security_error::unknown_token);
  CHECK(code_of(wrong) == security_error::unknown_token);
  CHECK(unknown->text == wrong->text);
  CHECK(code_of(w.tokens->redeem(t.id, other.key.view(), node_b, w.csr, now_ms + 2)) == security_error::unknown_token);
  CHECK(code_of(w.tokens->redeem("", "", node_b, w.csr, now_ms + 3)) == security_error::unknown_token);
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view().substr(0, 31), node_b, w.csr, now_ms + 4)) == security_error::unknown_token);
  // From here on the right one as well.
  CHECK(code_of(w.redeem(t, now_ms + 5)) == security_error::too_many_attempts);
  CHECK(code_of(w.redeem(t, now_ms + minute_ms - 1)) == security_error::too_many_attempts);
  CHECK(!w.redeem(t, now_ms + minute_ms));
  // A clock that is set back does not keep the join listener closed.
  for (int i = 0; i < 4; ++i)
    CHECK(code_of(w.tokens->redeem(t.id, "", node_b, w.csr, now_ms + minute_ms + i)) == security_error::unknown_token);
  CHECK(code_of(w.redeem(other, now_ms + minute_ms + 3)) == security_error::too_many_attempts);
  CHECK(!w.redeem(other, now_ms - minute_ms));
}

TEST_CASE("a request that cannot be answered does not use the token up") {
  world w;
  auto t = w.make();
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view(), node_b, "no request", now_ms)) == security_error::malformed);
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view(), node_b, request_of(rsa_key().get()), now_ms)) == security_error::wrong_key);
  CHECK(code_of(w.tokens->redeem(t.id, t.key.view(), "no id", w.csr, now_ms)) == security_error::malformed);
  CHECK(!w.redeem(t));
}

TEST_CASE("to look whether a token is valid does not use it up, and a wrong one is a try") {
  world w;
  auto t = w.make();
  auto check = [&](std::string_view key, const std::string& node, const std::string& csr, std::int64_t at = now_ms) {
    return w.tokens->check(t.id, key, node, csr, at);
  };
  CHECK_FALSE(value_of(check(t.key.view(), node_b, w.csr)));
  CHECK_FALSE(value_of(check(t.key.view(), node_a, request_of(new_key())))); // nobody has come in yet
  CHECK(code_of(check(t.key.view(), node_b, "no request")) == security_error::malformed);
  CHECK(code_of(check(t.key.view(), node_b, w.csr, t.expires_ms)) == security_error::expired);
  CHECK(!w.redeem(t));
  CHECK(value_of(check(t.key.view(), node_b, w.csr)));
  CHECK(code_of(check(t.key.view(), node_a, w.csr)) == security_error::used_token);
  // The secret goes before all else that could be wrong.
  const auto wrong = random_bytes(32);
  CHECK(code_of(check(wrong, "no id", "no request")) == security_error::unknown_token);
  CHECK(code_of(check(wrong, node_a, w.csr)) == security_error::unknown_token);
  CHECK(code_of(check(wrong, node_b, w.csr, t.expires_ms - 1)) == security_error::unknown_token);
}

TEST_CASE("wrong tokens that are only looked at are counted with the others") {
  world w;
  auto t = w.make();
  for (std::size_t i = 0; i < limits::join_attempts_per_minute_max; ++i)
    CHECK(code_of(w.tokens->check(t.id, "", node_b, w.csr, now_ms)) == security_error::unknown_token);
  CHECK(code_of(w.tokens->check(t.id, t.key.view(), node_b, w.csr, now_ms)) == security_error::too_many_attempts);
  CHECK(code_of(w.redeem(t)) == security_error::too_many_attempts);
  CHECK_FALSE(value_of(w.tokens->check(t.id, t.key.view(), node_b, w.csr, now_ms + minute_ms)));
}

TEST_CASE("of several hosts that come with one token at the same time one comes in") {
  world w;
  auto t = w.make();
  std::vector<std::string> requests;
  for (int i = 0; i < 8; ++i)
    requests.push_back(request_of(new_key()));
  std::atomic<int> in = 0, used = 0;
  std::vector<std::thread> hosts;
  for (const auto& r : requests)
    hosts.emplace_back([&w, &t, &r, &in, &used] {
      auto why = w.tokens->redeem(t.id, t.key.view(), node_b, r, now_ms);
      if (!why)
        ++in;
      else if (why->code == security_error::used_token)
        ++used;
    });
  for (auto& h : hosts)
    h.join();
  CHECK(in == 1);
  CHECK(used == 7);
}

TEST_CASE("there are so many open tokens and no more") {
  world w;
  std::vector<join_tokens::made> all;
  for (std::size_t i = 0; i < limits::join_tokens_max; ++i)
    all.push_back(w.make(10'000));
  CHECK(code_of(w.tokens->create(0, now_ms)) == security_error::too_many);
  CHECK(!w.redeem(all[0]));
  CHECK(w.tokens->create(10'000, now_ms)); // a used one is not open
  CHECK(code_of(w.tokens->create(0, now_ms)) == security_error::too_many);
  CHECK(w.tokens->create(0, now_ms + 10'000)); // nor are expired ones
  // However many there were, those that are open are kept, and the file has an end.
  for (int i = 0; i < 80; ++i) {
    auto t = w.make(10'000, now_ms + 20'000);
    CHECK(!w.redeem(t, now_ms + 20'000));
  }
  CHECK(w.file().size() < 64 * limits::kib);
  w.open();
  CHECK(w.tokens->any_open(now_ms + 20'000));
}

TEST_CASE("the listener is open while any token may be answered") {
  world w;
  CHECK(!w.tokens->any_open(now_ms));
  CHECK(w.tokens->open_until(now_ms) == 0);
  auto one = w.make(5000);
  auto two = w.make(9000);
  CHECK(w.tokens->open_until(now_ms) == two.expires_ms);
  CHECK(!w.redeem(two)); // its answer may be lost
  CHECK(w.tokens->any_open(one.expires_ms));
  CHECK(!w.tokens->any_open(two.expires_ms));
}

TEST_CASE("tokens survive a restart, as hashes in a file of their owner") {
  world w;
  auto fresh = w.make();
  auto used = w.make();
  CHECK(!w.redeem(used));
  CHECK(mode_of(w.dir.path / "join-tokens.json") == 0600);
  auto text = w.file();
  CHECK(text.find(to_hex(fresh.id)) != std::string::npos);
  CHECK(text.find(to_hex(fresh.key.view())) == std::string::npos);
  CHECK(text.find(to_hex(sha256(fresh.key.view()))) != std::string::npos);
  w.open();
  CHECK(code_of(w.tokens->redeem(used.id, used.key.view(), node_a, w.csr, now_ms)) == security_error::used_token);
  CHECK(!w.redeem(used));
  CHECK(!w.redeem(fresh));
}

TEST_CASE("a use that cannot be kept is refused") {
  world w;
  auto t = w.make();
  // A directory in the way of the file.
  auto file = w.dir.path / "join-tokens.json";
  std::filesystem::remove(file);
  std::filesystem::create_directories(file / "x");
  CHECK(code_of(w.redeem(t)) == security_error::storage);
  CHECK(code_of(w.tokens->create(0, now_ms)) == security_error::storage);
  std::filesystem::remove_all(file);
  CHECK(!w.tokens->redeem(t.id, t.key.view(), node_a, w.csr, now_ms)); // nobody had it
  CHECK(code_of(w.redeem(t)) == security_error::used_token);
}

TEST_CASE("a damaged file of tokens is refused, not taken for an empty one") {
  world w;
  (void)w.make();
  auto good = w.file();
  for (const auto& text : {std::string{"{}"}, std::string{"x"}, std::string{"[1]"}, std::string{"[{}]"}, good.substr(0, good.size() / 2),
                           std::string{R"([{"id":"00","secret_sha256":"00","expires_ms":1}])"}, "[" + std::string(100'000, ' ') + "]"}) {
    w.put_file(text);
    CHECK(code_of(join_tokens::open(w.dir.path)) == security_error::malformed);
  }
  w.put_file(good);
  CHECK(join_tokens::open(w.dir.path));
  std::filesystem::permissions(w.dir.path / "join-tokens.json", std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  CHECK(code_of(join_tokens::open(w.dir.path)) == security_error::storage);
}
