#include "services/security/sealed_key.hpp"

#include <algorithm>
#include <vector>

#include <sodium.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::string_view format_name = "swarm-authority-key-";
constexpr std::string_view encrypted_line = "swarm-authority-key-1 encrypted";
constexpr std::string_view plain_line = "swarm-authority-key-1 NOT ENCRYPTED: whoever reads this can make nodes of the cluster";
constexpr std::string_view end_line = "end";
constexpr std::size_t text_bytes_max = 4 * limits::kib;
constexpr std::size_t line_chars = 44;
constexpr std::size_t check_chars = 4;
constexpr std::size_t box_bytes_max = 1 * limits::kib;
/// libsodium's "sensitive": nothing that we write is beyond.
constexpr std::uint32_t passes_max = 4;
constexpr std::uint32_t memory_kib_max = 1024 * 1024;
constexpr std::uint32_t memory_kib_min = 8;
constexpr std::size_t number_bytes = 4;
constexpr std::size_t fixed_bytes = 2 * number_bytes + crypto_pwhash_SALTBYTES + crypto_secretbox_NONCEBYTES;

const unsigned char* bytes_of(std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); }
unsigned char* bytes_of(secret& s) { return reinterpret_cast<unsigned char*>(s.data()); }

secret base64_of(std::string_view bytes) {
  auto room = secret::of_size(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING));
  sodium_bin2base64(room.data(), room.size(), bytes_of(bytes), bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  return room.prefix(room.size() - 1); // its terminating zero
}

/// Of a line: so much of a hash of its number and letters.
std::string check_of(std::size_t line, std::string_view chars) {
  auto prefix = std::to_string(line) + ":";
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, bytes_of(prefix), prefix.size());
  crypto_hash_sha256_update(&state, bytes_of(chars), chars.size());
  std::string hash(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256_final(&state, reinterpret_cast<unsigned char*>(hash.data()));
  return std::string{base64_of(std::string_view{hash}.substr(0, 3)).view()};
}

std::string number(std::uint32_t n) {
  std::string out;
  for (unsigned i = 0; i < number_bytes; ++i)
    out.push_back(static_cast<char>(n >> (8 * i) & 0xff));
  return out;
}

std::uint32_t take_number(std::string_view& bytes) {
  std::uint32_t out = 0;
  for (unsigned i = 0; i < number_bytes; ++i)
    out |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  bytes.remove_prefix(number_bytes);
  return out;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The lines that are not empty, without blanks.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    auto end = text.find('\n');
    if (auto line = trimmed(text.substr(0, end)); !line.empty())
      out.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

security_failure mistyped(std::size_t line) {
  return {security_error::mistyped,
          "line " + std::to_string(line) + " after the first of the authority's key is mistyped or missing: compare it with the copy"};
}

/// The key that the passphrase makes. Nothing when there is not enough memory.
std::optional<secret> stretch(std::string_view passphrase, const std::string& salt, seal_cost cost) {
  auto out = secret::of_size(crypto_secretbox_KEYBYTES);
  if (crypto_pwhash(bytes_of(out), out.size(), passphrase.data(), passphrase.size(), bytes_of(salt), cost.passes,
                    static_cast<std::size_t>(cost.memory_kib) * limits::kib, crypto_pwhash_ALG_ARGON2ID13) != 0)
    return std::nullopt;
  return out;
}

security_failure no_memory(seal_cost cost) {
  return {security_error::failed, "a passphrase could not be checked: that takes " + std::to_string(cost.memory_kib / 1024) +
                                    " MiB of memory, which the machine does not have free"};
}

bool within_bounds(seal_cost cost) {
  return cost.passes >= 1 && cost.passes <= passes_max && cost.memory_kib >= memory_kib_min && cost.memory_kib <= memory_kib_max;
}

std::optional<security_failure> bad_passphrase(std::string_view passphrase) {
  if (passphrase.empty())
    return security_failure{security_error::wrong_passphrase, "a passphrase is needed for the authority's key"};
  if (passphrase.size() > limits::passphrase_bytes_max)
    return security_failure{security_error::wrong_passphrase, "a passphrase has at most " + std::to_string(limits::passphrase_bytes_max) + " bytes"};
  return std::nullopt;
}

} // namespace

secret write_sealed_key(const sealed_key& k) {
  auto head = k.encrypted ? number(k.cost.passes) + number(k.cost.memory_kib) + k.salt + k.nonce : std::string{};
  auto whole = secret::of_size(head.size() + k.box.size());
  k.box.view().copy(std::copy(head.begin(), head.end(), whole.data()), k.box.size());
  auto chars = base64_of(whole.view());
  // Room for the whole text at once: growing would leave copies behind.
  auto first = k.encrypted ? encrypted_line : plain_line;
  auto lines = (chars.size() + line_chars - 1) / line_chars;
  auto out = secret::of_size(first.size() + chars.size() + lines * (check_chars + 2) + end_line.size() + 2);
  auto* at = out.data();
  auto put = [&at](std::string_view part) { at += part.copy(at, part.size()); };
  put(first);
  put("\n");
  for (std::size_t i = 0; i < lines; ++i) {
    auto line = chars.view().substr(i * line_chars, line_chars);
    put(line);
    put(" ");
    put(check_of(i + 1, line));
    put("\n");
  }
  put(end_line);
  put("\n");
  return out;
}

security_result<sealed_key> parse_sealed_key(std::string_view text) {
  auto malformed = [](const char* why) {
    return security_failure{security_error::malformed, std::string{"this is no key of a cluster's authority: "} + why};
  };
  if (text.size() > text_bytes_max)
    return malformed("it is too long");
  auto lines = lines_of(text);
  if (lines.empty() || !lines[0].starts_with(format_name))
    return malformed("its first line is another one");
  sealed_key out;
  out.encrypted = lines[0] == encrypted_line;
  if (!out.encrypted && lines[0] != plain_line) {
    if (lines[0].starts_with(encrypted_line.substr(0, format_name.size() + 2)))
      return security_failure{security_error::mistyped, "the first line of the authority's key is mistyped: compare it with the copy"};
    return security_failure{security_error::newer_version, "this key was written by another version of swarm: use that one, or a newer one"};
  }
  if (lines.back() != end_line)
    return security_failure{security_error::truncated, "the authority's key is cut off: its last line, \"end\", is missing"};
  auto whole = secret::of_size(text.size());
  std::size_t filled = 0;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    auto joined = secret::of_size(lines[i].size());
    auto* end = std::remove_copy_if(lines[i].begin(), lines[i].end(), joined.data(), is_blank);
    std::string_view all{joined.data(), static_cast<std::size_t>(end - joined.data())};
    auto last = i + 2 == lines.size();
    if (all.size() <= check_chars || all.size() > line_chars + check_chars || (!last && all.size() != line_chars + check_chars))
      return mistyped(i);
    auto chars = all.substr(0, all.size() - check_chars);
    if (check_of(i, chars) != all.substr(chars.size()))
      return mistyped(i);
    std::size_t n = 0;
    const char* stopped = nullptr;
    if (sodium_base642bin(bytes_of(whole) + filled, whole.size() - filled, chars.data(), chars.size(), nullptr, &n, &stopped,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        stopped != chars.data() + chars.size())
      return mistyped(i);
    filled += n;
  }
  auto rest = whole.view().substr(0, filled);
  if (out.encrypted) {
    if (rest.size() <= fixed_bytes + crypto_secretbox_MACBYTES)
      return security_failure{security_error::truncated, "the authority's key is cut off: lines before its end are missing"};
    out.cost.passes = take_number(rest);
    out.cost.memory_kib = take_number(rest);
    if (!within_bounds(out.cost))
      return security_failure{security_error::too_costly,
                              "this key asks for more memory or time than any that swarm has written: it is damaged or forged"};
    out.salt = rest.substr(0, crypto_pwhash_SALTBYTES);
    rest.remove_prefix(crypto_pwhash_SALTBYTES);
    out.nonce = rest.substr(0, crypto_secretbox_NONCEBYTES);
    rest.remove_prefix(crypto_secretbox_NONCEBYTES);
  }
  if (rest.empty())
    return security_failure{security_error::truncated, "the authority's key is cut off: lines before its end are missing"};
  if (rest.size() > box_bytes_max)
    return malformed("it is too long");
  out.box = secret{rest};
  return out;
}

security_result<secret> seal_key(const key_pair& key, std::string_view passphrase, seal_cost cost) {
  if (auto bad = bad_passphrase(passphrase))
    return *bad;
  if (!within_bounds(cost))
    return security_failure{security_error::too_costly, "the cost of a passphrase is out of bounds"};
  auto der = key.to_der();
  if (!der)
    return der.failure();
  sealed_key out{true, cost, random_bytes(crypto_pwhash_SALTBYTES), random_bytes(crypto_secretbox_NONCEBYTES),
                 secret::of_size(crypto_secretbox_MACBYTES + der->size())};
  auto with = stretch(passphrase, out.salt, cost);
  if (!with)
    return no_memory(cost);
  crypto_secretbox_easy(bytes_of(out.box), bytes_of(der->view()), der->size(), bytes_of(out.nonce), bytes_of(*with));
  return write_sealed_key(out);
}

security_result<secret> write_key_unsealed(const key_pair& key) {
  auto der = key.to_der();
  if (!der)
    return der.failure();
  sealed_key out;
  out.encrypted = false;
  out.box = *std::move(der);
  return write_sealed_key(out);
}

security_result<key_pair> open_key(std::string_view text, std::string_view passphrase) {
  auto sealed = parse_sealed_key(text);
  if (!sealed)
    return sealed.failure();
  if (!sealed->encrypted)
    return key_pair::from_der(sealed->box.view());
  if (auto bad = bad_passphrase(passphrase))
    return *bad;
  auto with = stretch(passphrase, sealed->salt, sealed->cost);
  if (!with)
    return no_memory(sealed->cost);
  auto der = secret::of_size(sealed->box.size() - crypto_secretbox_MACBYTES);
  if (crypto_secretbox_open_easy(bytes_of(der), bytes_of(sealed->box.view()), sealed->box.size(), bytes_of(sealed->nonce), bytes_of(*with)) != 0)
    return security_failure{security_error::wrong_passphrase, "the passphrase is not that of the authority's key"};
  return key_pair::from_der(der.view());
}

} // namespace swarm
