#include "services/security/join_token.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <sodium.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "services/security/certificate.hpp"

namespace swarm {

namespace {

constexpr std::string_view any_prefix = "swarm-join-";
constexpr std::string_view prefix = "swarm-join-1.";
constexpr std::size_t hash_bytes = crypto_hash_sha256_BYTES;
constexpr std::size_t node_bytes = 16;
constexpr std::size_t length_bytes = 2;
/// Everything before the address.
constexpr std::size_t head_bytes = join_token_id_bytes + join_token_secret_bytes + hash_bytes + node_bytes + length_bytes;
constexpr std::size_t check_bytes = 4;
constexpr std::size_t host_bytes_max = 253;

const unsigned char* bytes_of(std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); }

bool is_token_char(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

std::size_t chars_of(std::size_t bytes) { return (bytes * 8 + 5) / 6; }

/// Nothing for letters that no bytes are written with.
std::optional<secret> decode(std::string_view chars) {
  auto out = secret::of_size(chars.size());
  std::size_t n = 0;
  const char* stopped = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), chars.data(), chars.size(), nullptr, &n, &stopped,
                        sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
      stopped != chars.data() + chars.size())
    return std::nullopt;
  return out.prefix(n);
}

/// Of the version and all bytes before it.
std::string check_of(std::string_view payload) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, bytes_of(prefix), prefix.size());
  crypto_hash_sha256_update(&state, bytes_of(payload), payload.size());
  std::string hash(hash_bytes, '\0');
  crypto_hash_sha256_final(&state, reinterpret_cast<unsigned char*>(hash.data()));
  return hash.substr(0, check_bytes);
}

std::string uuid_bytes(std::string_view id) {
  std::string digits;
  std::copy_if(id.begin(), id.end(), std::back_inserter(digits), [](char c) { return c != '-'; });
  return from_hex(digits);
}

std::string uuid_text(std::string_view bytes) {
  auto h = to_hex(bytes);
  return h.substr(0, 8) + '-' + h.substr(8, 4) + '-' + h.substr(12, 4) + '-' + h.substr(16, 4) + '-' + h.substr(20);
}

} // namespace

std::optional<host_port> parse_address(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  auto host = text.substr(0, colon);
  auto port = text.substr(colon + 1);
  auto letters = std::string_view{"-._"};
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    host = host.substr(1, host.size() - 2);
    letters = ":.%-_";
  }
  unsigned number = 0;
  auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (wrong != std::errc{} || end != port.data() + port.size() || port.front() == '0' || number > 65535 || host.empty() ||
      host.size() > host_bytes_max || !std::all_of(host.begin(), host.end(), [letters](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || letters.find(c) != std::string_view::npos;
      }))
    return std::nullopt;
  return host_port{std::string{host}, std::string{port}};
}

security_result<secret> encode_join_token(const join_token& t) {
  if (t.id.size() != join_token_id_bytes || t.key.size() != join_token_secret_bytes || t.ca_sha256.size() != hash_bytes || !is_node_id(t.home_id) ||
      !parse_address(t.address))
    return security_failure{security_error::malformed,
                            "a join token cannot be made for the address \"" + escape_control(t.address, false) + "\": it must be host:port"};
  auto payload = secret::of_size(head_bytes + t.address.size() + check_bytes);
  auto* at = payload.data();
  auto put = [&at](std::string_view part) { at += part.copy(at, part.size()); };
  put(t.id);
  put(t.key.view());
  put(t.ca_sha256);
  put(uuid_bytes(t.home_id));
  put(std::string{static_cast<char>(t.address.size() >> 8), static_cast<char>(t.address.size() & 0xff)});
  put(t.address);
  put(check_of(payload.view().substr(0, payload.size() - check_bytes)));
  // One more for the zero that libsodium writes at the end.
  auto out = secret::of_size(prefix.size() + chars_of(payload.size()) + 1);
  prefix.copy(out.data(), prefix.size());
  sodium_bin2base64(out.data() + prefix.size(), out.size() - prefix.size(), bytes_of(payload.view()), payload.size(),
                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  return out.prefix(out.size() - 1);
}

security_result<join_token> parse_join_token(std::string_view text) {
  auto token = trimmed(text);
  if (!token.starts_with(any_prefix)) {
    if (any_prefix.starts_with(token) && !token.empty())
      return security_failure{security_error::truncated, "the join token is cut off: copy all of it"};
    return security_failure{security_error::malformed,
                            "this is no join token: it must begin with \"swarm-join-\", as `swarmctl join-token create` prints it"};
  }
  if (!token.starts_with(prefix)) {
    if (prefix.starts_with(token))
      return security_failure{security_error::truncated, "the join token is cut off: copy all of it"};
    return security_failure{security_error::newer_version,
                            "this join token was made by another version of swarm: install the same one on both hosts"};
  }
  if (token.size() > limits::join_token_bytes_max)
    return security_failure{security_error::malformed, "this is no join token: it is too long"};
  auto chars = token.substr(prefix.size());
  auto mistyped = security_failure{security_error::mistyped, "the join token is mistyped: copy it again"};
  auto cut = security_failure{security_error::truncated, "the join token is cut off: copy all of it"};
  if (!std::all_of(chars.begin(), chars.end(), is_token_char))
    return mistyped;
  // How long it should be stands within, and is read first: what is cut off is not the same as what is wrong.
  constexpr std::size_t head_chars = (head_bytes + 2) / 3 * 4;
  if (chars.size() < head_chars)
    return cut;
  auto head = decode(chars.substr(0, head_chars));
  if (!head)
    return mistyped;
  auto length = static_cast<std::size_t>(static_cast<unsigned char>(head->view()[head_bytes - 2])) << 8 |
                static_cast<unsigned char>(head->view()[head_bytes - 1]);
  auto wanted = chars_of(head_bytes + length + check_bytes);
  if (chars.size() < wanted)
    return cut;
  auto payload = decode(chars);
  if (chars.size() != wanted || !payload)
    return mistyped;
  auto rest = payload->view();
  auto checked = rest.substr(0, rest.size() - check_bytes);
  if (check_of(checked) != rest.substr(checked.size()))
    return mistyped;
  join_token out;
  auto take = [&checked](std::size_t n) {
    auto part = checked.substr(0, n);
    checked.remove_prefix(n);
    return part;
  };
  out.id = take(join_token_id_bytes);
  out.key = secret{take(join_token_secret_bytes)};
  out.ca_sha256 = take(hash_bytes);
  out.home_id = uuid_text(take(node_bytes));
  take(length_bytes);
  out.address = take(length);
  if (!parse_address(out.address))
    return security_failure{security_error::malformed, "this is no join token: there is no address in it"};
  return out;
}

} // namespace swarm
