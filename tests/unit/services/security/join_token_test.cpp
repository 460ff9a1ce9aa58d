#include "services/security/join_token.hpp"

#include <random>

#include <sodium.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

join_token example(const std::string& address = "host.example:7420") {
  return {random_bytes(16), secret{random_bytes(32)}, random_bytes(32), node_a, address};
}

std::string text_of(const join_token& t) { return std::string{value_of(encode_join_token(t)).view()}; }

bool same(const join_token& a, const join_token& b) {
  return a.id == b.id && a.key.view() == b.key.view() && a.ca_sha256 == b.ca_sha256 && a.home_id == b.home_id && a.address == b.address;
}

/// As the token's text is made, of any bytes.
std::string written(const std::string& payload) {
  auto whole = payload + sha256("swarm-join-1." + payload).substr(0, 4);
  std::string out(sodium_base64_encoded_len(whole.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(whole.data()), whole.size(),
                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  return "swarm-join-1." + std::string{out.c_str()};
}

std::string payload(const std::string& address, std::size_t length) {
  return random_bytes(96) + std::string{static_cast<char>(length >> 8), static_cast<char>(length & 0xff)} + address;
}

} // namespace

TEST_CASE("a join token says what was put into it") {
  for (const auto* address :
       {"a:1", "host.example:7420", "10.0.0.1:65535", "[::1]:80", "[fe80::1%eth0]:7420", "under_score:9", "xn--bcher-kva.example:443"}) {
    auto token = example(address);
    auto text = text_of(token);
    CHECK(text.starts_with("swarm-join-1."));
    CHECK(text.find_first_of(" \n\t\"'$\\=") == std::string::npos);
    CHECK(same(value_of(parse_join_token(text)), token));
    CHECK(same(value_of(parse_join_token(" \t" + text + " \r\n")), token));
  }
  auto longest = text_of(example(std::string(253, 'a') + ":65535"));
  CHECK(longest.size() <= limits::join_token_bytes_max);
  CHECK(parse_join_token(longest));
}

TEST_CASE("addresses are host and port") {
  CHECK(parse_address("a:1")->host == "a");
  CHECK(parse_address("[::1]:443")->host == "::1");
  CHECK(parse_address("[::1]:443")->port == "443");
  for (const auto& wrong : {std::string{},
                            std::string{":1"},
                            std::string{"a"},
                            std::string{"a:"},
                            std::string{"a:0"},
                            std::string{"a:65536"},
                            std::string{"a:99999999999"},
                            std::string{"a:+1"},
                            std::string{"a:-1"},
                            std::string{"a:01"},
                            std::string{"a:1 "},
                            std::string{"::1:80"},
                            std::string{"[]:80"},
                            std::string{"[::1:80"},
                            std::string{"a b:1"},
                            std::string{"a/b:1"},
                            std::string{"a\n:1"},
                            std::string{"[a,b]:1"},
                            std::string{"unix:/run/x:1"},
                            std::string{"a\0:1", 4},
                            std::string(254, 'a') + ":1"})
    CHECK_MESSAGE(!parse_address(wrong), wrong);
}

TEST_CASE("no token is made of what does not belong into one") {
  auto wrong = [](auto change) {
    auto t = example();
    change(t);
    return code_of(encode_join_token(t)) == security_error::malformed;
  };
  CHECK(wrong([](join_token& t) { t.id.pop_back(); }));
  CHECK(wrong([](join_token& t) { t.key = {}; }));
  CHECK(wrong([](join_token& t) { t.ca_sha256 += "x"; }));
  CHECK(wrong([](join_token& t) { t.home_id = "host"; }));
  CHECK(wrong([](join_token& t) { t.address = "nowhere"; }));
}

TEST_CASE("a token that is cut off anywhere is reported as such") {
  auto text = text_of(example());
  for (std::size_t n = 1; n < text.size(); ++n)
    CHECK_MESSAGE(code_of(parse_join_token(text.substr(0, n))) == security_error::truncated, n);
}

TEST_CASE("a token with one wrong letter is refused, and so is one with more") {
  auto text = text_of(example());
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::mt19937 random{6};
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int round = 0; round < 8; ++round) {
      auto damaged = text;
      do
        damaged[i] = round % 4 == 0 ? static_cast<char>(random() & 0xff) : letters[random() % letters.size()];
      while (damaged[i] == text[i]);
      CHECK_MESSAGE(!parse_join_token(damaged), "letter " << i);
    }
  CHECK(code_of(parse_join_token(text + "A")) == security_error::mistyped);
  CHECK(code_of(parse_join_token(text + text)) == security_error::mistyped);
  auto middle = text;
  middle[60] = middle[60] == 'A' ? 'B' : 'A';
  CHECK(code_of(parse_join_token(middle)) == security_error::mistyped);
  middle[60] = ' ';
  CHECK(code_of(parse_join_token(middle)) == security_error::mistyped);
  std::swap(middle = text, middle);
  std::swap(middle[70], middle[71]);
  if (middle != text)
    CHECK(code_of(parse_join_token(middle)) == security_error::mistyped);
}

TEST_CASE("what is no token, or one of another version, is reported as such") {
  for (const auto* wrong : {"", "  ", "hello", "swarm", "https://example/", "Swarm-join-1.AAAA"})
    CHECK_MESSAGE((std::string_view{wrong} == "swarm" || code_of(parse_join_token(wrong)) == security_error::malformed), wrong);
  CHECK(code_of(parse_join_token("swarm-join-2.AAAA")) == security_error::newer_version);
  CHECK(code_of(parse_join_token("swarm-join-1." + std::string(limits::join_token_bytes_max, 'A'))) == security_error::malformed);
}

TEST_CASE("a forged token whose check is right is refused for what is in it") {
  CHECK(parse_join_token(written(payload("a:1", 3))));
  CHECK(code_of(parse_join_token(written(payload("no address", 10)))) == security_error::malformed);
  CHECK(code_of(parse_join_token(written(payload("a:1\n", 4)))) == security_error::malformed);
  CHECK(code_of(parse_join_token(written(payload("", 0)))) == security_error::malformed);
  CHECK(!parse_join_token(written(payload("a:1", 2))));
  CHECK(!parse_join_token(written(payload("a:1", 4))));
  CHECK(!parse_join_token(written(payload("a:1", 65535))));
  CHECK(!parse_join_token(written("")));
  CHECK(!parse_join_token(written(random_bytes(60))));
}

TEST_CASE("no text of an error holds a part of the token") {
  auto text = text_of(example());
  std::vector<std::string> said;
  for (const auto& damaged :
       {text + "A", text.substr(0, 80), text.substr(0, text.size() - 1), "x" + text, "swarm-join-2" + text.substr(12), text + "!"})
    said.push_back(parse_join_token(damaged).failure().text);
  auto secret_part = text.substr(13);
  for (const auto& s : said)
    for (std::size_t i = 0; i + 6 < secret_part.size(); ++i)
      CHECK(s.find(secret_part.substr(i, 6)) == std::string::npos);
}
