// What a person carries from the home to a host that is to join: swarm-join-1.<base64url>
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "services/security/failure.hpp"
#include "services/security/secret.hpp"

namespace swarm {

inline constexpr std::size_t join_token_id_bytes = 16;
inline constexpr std::size_t join_token_secret_bytes = 32;

struct join_token {
  std::string id;        // 16 bytes
  secret key;            // 32 bytes: what the home compares
  std::string ca_sha256; // 32 bytes, of the authority's certificate in DER
  std::string home_id;   // UUID of the node that made it
  std::string address;   // host:port of its join listener
};

struct host_port {
  std::string host; // without the brackets of an IPv6 address
  std::string port; // 1 to 65535
};

/// host:port or [v6]:port. Nothing for anything else.
std::optional<host_port> parse_address(std::string_view);

/// malformed when a part is not what it should be.
security_result<secret> encode_join_token(const join_token&);
/// Blanks around it do not matter.
security_result<join_token> parse_join_token(std::string_view text);

} // namespace swarm
