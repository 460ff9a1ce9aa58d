// What strangers and people's hands give to a node's identity: join tokens, typed copies of keys, certificates, requests for them.
#include "services/security/authority.hpp"
#include "services/security/join_token.hpp"
#include "services/security/sealed_key.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/security_examples.hpp"

using namespace swarm;

namespace {

constexpr std::size_t p256_public_key_bytes = 91;

void check_token(const std::string& text) {
  auto token = parse_join_token(text);
  if (!token) {
    SWARM_HOLDS(!token.failure().text.empty());
    return;
  }
  SWARM_HOLDS(parse_address(token->address).has_value());
  auto again = encode_join_token(*token);
  SWARM_HOLDS(static_cast<bool>(again));
  SWARM_HOLDS(text.find(again->view()) != std::string::npos); // one token has one text
}

/// Whatever a token could be made of: it is refused, or its text says the same.
void check_token_of(fuzz::input& in) {
  auto bytes = in.piece();
  bytes.resize(96, 'x');
  join_token made{bytes.substr(0, 16), secret{bytes.substr(16, 32)}, bytes.substr(48, 32), {}, in.rest()};
  auto h = to_hex(bytes.substr(80));
  made.home_id = h.substr(0, 8) + '-' + h.substr(8, 4) + '-' + h.substr(12, 4) + '-' + h.substr(16, 4) + '-' + h.substr(20);
  auto text = encode_join_token(made);
  SWARM_HOLDS(static_cast<bool>(text) == parse_address(made.address).has_value());
  if (!text)
    return;
  auto read = parse_join_token(text->view());
  SWARM_HOLDS(static_cast<bool>(read));
  SWARM_HOLDS(read->id == made.id && read->key.view() == made.key.view() && read->ca_sha256 == made.ca_sha256 && read->home_id == made.home_id &&
              read->address == made.address);
}

void check_sealed(const std::string& text) {
  auto k = parse_sealed_key(text);
  if (!k) {
    SWARM_HOLDS(!k.failure().text.empty());
    return;
  }
  auto written = write_sealed_key(*k);
  auto again = parse_sealed_key(written.view());
  SWARM_HOLDS(static_cast<bool>(again));
  SWARM_HOLDS(write_sealed_key(*again).view() == written.view());
  // What costs little is tried.
  if (k->encrypted && (k->cost.passes > 1 || k->cost.memory_kib > 64))
    return;
  auto key = open_key(text, "passphrase");
  auto known = open_key(k->encrypted ? fuzz::example_sealed_key : fuzz::example_plain_key, "passphrase");
  SWARM_HOLDS(static_cast<bool>(known));
  // An encrypted one cannot be made without the passphrase.
  SWARM_HOLDS(!key || !k->encrypted || key->public_key() == known->public_key());
}

/// Lines that are right around bytes that are anything.
void check_sealed_of(fuzz::input& in) {
  sealed_key k;
  k.encrypted = in.byte() % 2 == 0;
  k.cost = {in.byte(), static_cast<std::uint32_t>(in.byte()) << (in.byte() % 32)};
  k.salt = in.piece();
  k.salt.resize(16, 's');
  k.nonce = in.piece();
  k.nonce.resize(24, 'n');
  k.box = secret{in.rest()};
  check_sealed(std::string{write_sealed_key(k).view()});
}

void check_certificate(const std::string& der) {
  static const auto ca = from_hex(fuzz::example_authority);
  static const auto node = from_hex(fuzz::example_certificate);
  if (auto info = read_certificate(der)) {
    SWARM_HOLDS(info->sha256 == sha256(der));
    SWARM_HOLDS(info->node_id.empty() || is_node_id(info->node_id));
    if (auto pem = certificate_to_pem(der))
      SWARM_HOLDS(static_cast<bool>(certificate_from_pem(*pem)));
  }
  SWARM_HOLDS(static_cast<bool>(verify_node_certificate(der, ca, fuzz::example_ms)) == (der == node));
  (void)verify_node_certificate(node, der, fuzz::example_ms);
}

void check_request(const std::string& der) {
  if (auto key = csr_public_key(der))
    SWARM_HOLDS(key->size() == p256_public_key_bytes);
}

void check_key(const std::string& text) {
  for (const auto& key : {key_pair::from_pem(text), key_pair::from_der(text)})
    if (key)
      SWARM_HOLDS(key->public_key().size() == p256_public_key_bytes);
  (void)certificate_from_pem(text);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  switch (in.byte() % 7) {
    case 0: check_token(in.rest()); break;
    case 1: check_token_of(in); break;
    case 2: check_sealed(in.rest()); break;
    case 3: check_sealed_of(in); break;
    case 4: check_certificate(in.rest()); break;
    case 5: check_request(in.rest()); break;
    default: check_key(in.rest());
  }
  return 0;
}
