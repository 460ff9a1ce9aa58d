#include "actors/base/crypto.hpp"
#include "tests/fuzz/security_examples.hpp"
#include "tests/fuzz/seeds.hpp"

namespace swarm::fuzz {

void add_security_seeds(seeds& out) {
  auto add = [&out](const char* name, char kind, std::string_view bytes) { out["security"].push_back({name, kind + std::string{bytes}}); };
  add("token", 0, example_token);
  add("token-cut", 0, example_token.substr(0, 100));
  add("token-other", 0, "swarm-join-2.AAAA");
  add("address", 1, piece_of(std::string(96, '\x11')) + "host.example:7420");
  add("address-6", 1, piece_of(std::string(96, '\x11')) + "[::1]:80");
  add("address-none", 1, piece_of(std::string(96, '\x11')) + "nowhere");
  add("sealed", 2, example_sealed_key);
  add("plain", 2, example_plain_key);
  add("sealed-made", 3, std::string{"\x00\x01\x08\x00", 4} + piece_of("salt") + piece_of("nonce") + std::string(83, 'x'));
  add("plain-made", 3, std::string{"\x01\x00\x00\x00", 4} + piece_of("") + piece_of("") + std::string(67, 'x'));
  add("costly", 3, std::string{"\x00\xff\xff\x1f", 4} + piece_of("salt") + piece_of("nonce") + std::string(83, 'x'));
  add("certificate", 4, from_hex(example_certificate));
  add("authority", 4, from_hex(example_authority));
  add("request", 5, from_hex(example_request));
  add("key-pem", 6, "-----BEGIN PRIVATE KEY-----\nMEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEB\n-----END PRIVATE KEY-----\n");
  add("certificate-pem", 6, "-----BEGIN CERTIFICATE-----\nMIIBvTCCAWOgAwIBAgIQWbo=\n-----END CERTIFICATE-----\n");
  add("key-der", 6, from_hex("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420") + std::string(32, '\x22'));
}

} // namespace swarm::fuzz
