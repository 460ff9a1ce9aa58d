#include "services/security/sealed_key.hpp"

#include <random>

#include <sodium.h>

#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

constexpr seal_cost cheap{1, 8};
const std::string passphrase = "correct horse battery";

std::string sealed(const key_pair& key) { return std::string{value_of(seal_key(key, passphrase, cheap)).view()}; }

sealed_key copy_of(const sealed_key& k) { return {k.encrypted, k.cost, k.salt, k.nonce, k.box.clone()}; }

security_error code_of_open(const sealed_key& k) { return code_of(open_key(write_sealed_key(k).view(), passphrase)); }

} // namespace

TEST_CASE("a key is opened by its passphrase and by no other") {
  auto key = new_key();
  auto text = sealed(key);
  CHECK(text.starts_with("swarm-authority-key-1 encrypted\n"));
  CHECK(value_of(open_key(text, passphrase)).public_key() == key.public_key());
  for (const auto& wrong : {std::string{"correct horse batterz"}, passphrase + " ", std::string{"x"}, std::string(limits::passphrase_bytes_max, 'x')})
    CHECK(code_of(open_key(text, wrong)) == security_error::wrong_passphrase);
  // The same key twice is not the same text.
  CHECK(sealed(key) != text);
}

TEST_CASE("a passphrase is neither empty nor endless") {
  auto key = new_key();
  CHECK(code_of(seal_key(key, "", cheap)) == security_error::wrong_passphrase);
  CHECK(code_of(seal_key(key, std::string(limits::passphrase_bytes_max + 1, 'x'), cheap)) == security_error::wrong_passphrase);
  CHECK(code_of(open_key(sealed(key), "")) == security_error::wrong_passphrase);
  CHECK(code_of(open_key(sealed(key), std::string(limits::passphrase_bytes_max + 1, 'x'))) == security_error::wrong_passphrase);
  std::string longest(limits::passphrase_bytes_max, '\0');
  CHECK(open_key(value_of(seal_key(key, longest, cheap)).view(), longest));
}

TEST_CASE("guessing costs what libsodium calls moderate") {
  CHECK(seal_cost{}.passes == crypto_pwhash_OPSLIMIT_MODERATE);
  CHECK(std::size_t{seal_cost{}.memory_kib} * 1024 == crypto_pwhash_MEMLIMIT_MODERATE);
  auto key = new_key();
  auto text = value_of(seal_key(key, passphrase));
  auto parsed = value_of(parse_sealed_key(text.view()));
  CHECK(parsed.cost.passes == crypto_pwhash_OPSLIMIT_MODERATE);
  CHECK(value_of(open_key(text.view(), passphrase)).public_key() == key.public_key());
}

TEST_CASE("a key without a passphrase says so in its first line") {
  auto key = new_key();
  auto text = std::string{value_of(write_key_unsealed(key)).view()};
  CHECK(text.substr(0, text.find('\n')).find("NOT ENCRYPTED") != std::string::npos);
  CHECK(value_of(open_key(text, "")).public_key() == key.public_key());
  CHECK(value_of(open_key(text, "whatever")).public_key() == key.public_key());
  // Neither kind passes for the other.
  auto body = text.substr(text.find('\n'));
  CHECK(!open_key("swarm-authority-key-1 encrypted" + body, passphrase));
  auto other = sealed(key);
  CHECK(!open_key(text.substr(0, text.find('\n')) + other.substr(other.find('\n')), ""));
}

TEST_CASE("a copy that was typed in again may have other blanks and line ends") {
  auto key = new_key();
  auto text = sealed(key);
  std::string typed = "\n \t";
  for (auto c : text)
    typed += c == '\n' ? std::string{" \r\n\r\n  "} : c == ' ' ? std::string{" "} : std::string{c};
  CHECK(value_of(open_key(typed, passphrase)).public_key() == key.public_key());
  std::string spaced;
  auto at = text.find('\n') + 1;
  auto last = text.rfind("end");
  for (auto c : text.substr(at, last - at))
    spaced += c == '\n' ? std::string{"\n"} : c == ' ' ? std::string{} : std::string{c, ' '};
  CHECK(value_of(open_key(text.substr(0, at) + spaced + "end", passphrase)).public_key() == key.public_key());
}

TEST_CASE("a wrong letter is found, and in which line") {
  auto text = sealed(new_key());
  std::mt19937 random{3};
  std::size_t line = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      continue;
    }
    if (text[i] == ' ' && line > 0)
      continue; // blanks are nobody's fault
    auto damaged = text;
    do
      damaged[i] = static_cast<char>(33 + random() % 94);
    while (damaged[i] == text[i]);
    auto opened = open_key(damaged, passphrase);
    CHECK_MESSAGE(!opened, "letter " << i);
    if (!opened && line > 0 && damaged.ends_with("\nend\n")) {
      CHECK_MESSAGE(opened.failure().code == security_error::mistyped, "letter " << i);
      CHECK(opened.failure().text.find("line " + std::to_string(line) + " ") != std::string::npos);
    }
  }
}

TEST_CASE("nothing opens of which any byte was changed") {
  auto text = sealed(new_key());
  std::mt19937 random{4};
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int round = 0; round < 4; ++round) {
      auto damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1 + random() % 255));
      // A blank for a blank is no change.
      auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; };
      if (blank(text[i]) && blank(damaged[i]))
        continue;
      CHECK_MESSAGE(!open_key(damaged, passphrase), "byte " << i);
    }
}

TEST_CASE("a forged copy whose lines are right does not open either") {
  auto key = new_key();
  auto good = value_of(parse_sealed_key(sealed(key)));
  CHECK(value_of(open_key(write_sealed_key(good).view(), passphrase)).public_key() == key.public_key());
  auto each_byte = [](std::string& s, const auto& check) {
    std::mt19937 random{5};
    for (auto& c : s) {
      auto before = c;
      c = static_cast<char>(c ^ static_cast<char>(1 + random() % 255));
      check();
      c = before;
    }
  };
  auto k = copy_of(good);
  each_byte(k.salt, [&] { CHECK(code_of_open(k) == security_error::wrong_passphrase); });
  each_byte(k.nonce, [&] { CHECK(code_of_open(k) == security_error::wrong_passphrase); });
  std::string box{k.box.view()};
  each_byte(box, [&] {
    k.box = secret{box};
    CHECK(code_of_open(k) == security_error::wrong_passphrase);
  });
  for (std::size_t n = 1; n < good.box.size(); ++n) {
    k.box = good.box.prefix(n);
    CHECK(!open_key(write_sealed_key(k).view(), passphrase));
  }
  k = copy_of(good);
  k.cost.passes = 2;
  CHECK(code_of_open(k) == security_error::wrong_passphrase);
  k.cost = {1, 16};
  CHECK(code_of_open(k) == security_error::wrong_passphrase);
}

TEST_CASE("a forged copy cannot ask for more memory or time than there is any need for") {
  auto k = value_of(parse_sealed_key(sealed(new_key())));
  constexpr std::uint32_t all = 0xffff'ffff;
  for (seal_cost cost : {seal_cost{0, 8}, seal_cost{5, 8}, seal_cost{all, 8}, seal_cost{1, 0}, seal_cost{1, 7}, seal_cost{1, 1024 * 1024 + 1},
                         seal_cost{1, all}, seal_cost{all, all}}) {
    k.cost = cost;
    CHECK(code_of_open(k) == security_error::too_costly);
  }
  CHECK(code_of(seal_key(new_key(), passphrase, {5, 8})) == security_error::too_costly);
}

TEST_CASE("a copy that is cut off, in another order or of another kind is refused") {
  auto text = sealed(new_key());
  for (std::size_t n = 0; n + 1 < text.size(); ++n)
    CHECK_MESSAGE(!open_key(text.substr(0, n), passphrase), n);
  CHECK(code_of(open_key(text.substr(0, text.rfind("end")), passphrase)) == security_error::truncated);
  auto head = text.find('\n') + 1;
  auto second = text.find('\n', head) + 1;
  auto third = text.find('\n', second) + 1;
  auto line1 = text.substr(head, second - head), line2 = text.substr(second, third - second);
  CHECK(code_of(open_key(text.substr(0, head) + line2 + line1 + text.substr(third), passphrase)) == security_error::mistyped);
  CHECK(code_of(open_key(text.substr(0, head) + text.substr(second), passphrase)) == security_error::mistyped);
  CHECK(code_of(open_key(text.substr(0, head) + line1 + line1 + text.substr(third), passphrase)) == security_error::mistyped);
  CHECK(code_of(open_key(text.substr(0, head) + "end", passphrase)) == security_error::truncated);
  CHECK(code_of(open_key("", passphrase)) == security_error::malformed);
  CHECK(code_of(open_key("-----BEGIN PRIVATE KEY-----", passphrase)) == security_error::malformed);
  CHECK(code_of(open_key(text + std::string(1 << 20, '\n'), passphrase)) == security_error::malformed);
  auto newer = text;
  newer[newer.find('1')] = '2';
  CHECK(code_of(open_key(newer, passphrase)) == security_error::newer_version);
}

TEST_CASE("no text of an error holds a passphrase or a key") {
  auto key = new_key();
  auto text = sealed(key);
  auto plain = std::string{value_of(write_key_unsealed(key)).view()};
  std::vector<std::string> said{open_key(text, "a wrong passphrase").failure().text, open_key("x" + passphrase, passphrase).failure().text,
                                open_key(plain.substr(0, plain.size() - 4), passphrase).failure().text,
                                seal_key(key, passphrase + std::string(2000, 'x'), cheap).failure().text};
  auto mistyped = plain;
  mistyped[plain.find('\n') + 3] = '!';
  said.push_back(open_key(mistyped, passphrase).failure().text);
  auto body = plain.substr(plain.find('\n') + 1);
  for (const auto& s : said) {
    CHECK(s.find("wrong passphrase") == std::string::npos);
    CHECK(s.find(passphrase) == std::string::npos);
    for (std::size_t i = 0; i + 8 < body.size(); ++i)
      CHECK(s.find(body.substr(i, 8)) == std::string::npos);
  }
}
