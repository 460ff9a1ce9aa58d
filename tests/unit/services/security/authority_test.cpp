#include "services/security/authority.hpp"

#include <random>
#include <set>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

authority new_authority(std::int64_t at = now_ms) { return value_of(authority::create(cluster_id, at)); }

std::string common_name(std::string_view der) {
  char text[128] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(openssl::read_x509(der).get()), NID_commonName, text, sizeof text);
  return text;
}

} // namespace

TEST_CASE("the authority of a cluster can sign nodes and nothing that signs") {
  auto ca = new_authority();
  auto x = openssl::read_x509(ca.certificate());
  REQUIRE(x);
  CHECK(common_name(ca.certificate()) == "swarm cluster " + cluster_id);
  CHECK(X509_check_ca(x.get()) == 1);
  CHECK(X509_get_pathlen(x.get()) == 0);
  CHECK(X509_get_key_usage(x.get()) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  CHECK(openssl::is_p256(X509_get0_pubkey(x.get())));
  CHECK(X509_get_signature_nid(x.get()) == NID_ecdsa_with_SHA256);
  CHECK(X509_verify(x.get(), ca.key().native()) == 1);
  auto info = value_of(read_certificate(ca.certificate()));
  CHECK(info.not_before_ms == now_ms - limits::certificate_backdate.count());
  CHECK(info.not_after_ms == now_ms + limits::authority_lifetime.count());
  CHECK(code_of(authority::create("no uuid", now_ms)) == security_error::malformed);
}

TEST_CASE("an authority is put together again only from the certificate and its own key") {
  auto ca = new_authority();
  auto copy = [](const key_pair& k) { return value_of(key_pair::from_der(value_of(k.to_der()).view())); };
  auto again = value_of(authority::from(ca.certificate(), copy(ca.key())));
  auto made = value_of(again.issue(request_of(new_key()), node_a, now_ms));
  CHECK(value_of(verify_node_certificate(made, ca.certificate(), now_ms)) == node_a);
  CHECK(code_of(authority::from(ca.certificate(), new_key())) == security_error::wrong_key);
  CHECK(code_of(authority::from("x", copy(ca.key()))) == security_error::malformed);
  // A node is no authority.
  auto key = new_key();
  auto node = value_of(ca.issue(request_of(key), node_a, now_ms));
  CHECK(code_of(authority::from(node, std::move(key))) == security_error::malformed);
}

TEST_CASE("a node's certificate is for its id and key, for a year, and says nothing of what the request said") {
  auto ca = new_authority();
  auto key = new_key();
  auto der = value_of(ca.issue(value_of(make_csr(key, "swarm cluster " + cluster_id)), node_a, now_ms));
  auto info = value_of(read_certificate(der));
  CHECK(info.node_id == node_a);
  CHECK(info.public_key == key.public_key());
  CHECK(!info.is_ca);
  CHECK(info.not_before_ms == now_ms - limits::certificate_backdate.count());
  CHECK(info.not_after_ms == now_ms + limits::node_certificate_lifetime().count());
  CHECK(common_name(der) == "swarm node " + node_a);
  auto x = openssl::read_x509(der);
  CHECK(X509_check_host(x.get(), node_dns_name(node_a).c_str(), 0, 0, nullptr) == 1);
  CHECK(X509_check_host(x.get(), node_dns_name(node_b).c_str(), 0, 0, nullptr) == 0);
  CHECK(X509_get_key_usage(x.get()) == KU_DIGITAL_SIGNATURE);
  CHECK(X509_get_extended_key_usage(x.get()) == (XKU_SSL_SERVER | XKU_SSL_CLIENT));
  CHECK(value_of(verify_node_certificate(der, ca.certificate(), now_ms)) == node_a);
}

TEST_CASE("serial numbers are random and of 128 bits") {
  auto ca = new_authority();
  auto csr = request_of(new_key());
  std::set<std::string> seen;
  std::size_t longest = 0;
  for (int i = 0; i < 20; ++i) {
    auto serial = value_of(read_certificate(value_of(ca.issue(csr, node_a, now_ms)))).serial;
    longest = std::max(longest, serial.size());
    seen.insert(serial);
  }
  CHECK(seen.size() == 20);
  CHECK(longest == 32);
}

TEST_CASE("no certificate outlives the authority, and none is made when it is not valid") {
  auto ca = new_authority();
  auto info = value_of(read_certificate(ca.certificate()));
  auto csr = request_of(new_key());
  auto late = info.not_after_ms - day_ms;
  CHECK(value_of(read_certificate(value_of(ca.issue(csr, node_a, late)))).not_after_ms == info.not_after_ms);
  CHECK(value_of(read_certificate(value_of(ca.issue(csr, node_a, info.not_before_ms)))).not_before_ms == info.not_before_ms);
  CHECK(code_of(ca.issue(csr, node_a, info.not_after_ms)) == security_error::expired);
  CHECK(code_of(ca.issue(csr, node_a, info.not_before_ms - 1)) == security_error::not_yet_valid);
}

TEST_CASE("certificates are made for EC P-256 keys of anybody who has them, and for UUIDs") {
  auto ca = new_authority();
  CHECK(code_of(ca.issue(request_of(rsa_key().get()), node_a, now_ms)) == security_error::wrong_key);
  CHECK(code_of(ca.issue(request_of(ec_key("P-384").get()), node_a, now_ms)) == security_error::wrong_key);
  CHECK(code_of(ca.issue("x", node_a, now_ms)) == security_error::malformed);
  auto csr = request_of(new_key());
  csr.back() = static_cast<char>(csr.back() ^ 1);
  CHECK(code_of(ca.issue(csr, node_a, now_ms)) == security_error::bad_signature);
  CHECK(code_of(ca.issue(request_of(new_key()), "x,DNS:other", now_ms)) == security_error::malformed);
}

TEST_CASE("a certificate is valid from its first second to its last, as long as the authority's is") {
  auto ca = new_authority();
  auto der = value_of(ca.issue(request_of(new_key()), node_a, now_ms));
  auto info = value_of(read_certificate(der));
  auto at = [&](std::int64_t t) { return verify_node_certificate(der, ca.certificate(), t); };
  CHECK(at(info.not_before_ms));
  CHECK(at(info.not_after_ms - 1000));
  CHECK(code_of(at(info.not_before_ms - 1000)) == security_error::not_yet_valid);
  CHECK(at(info.not_before_ms - 1000).failure().text.find("clock") != std::string::npos);
  CHECK(code_of(at(info.not_after_ms + 1000)) == security_error::expired);
  CHECK(code_of(at(value_of(read_certificate(ca.certificate())).not_after_ms + 1000)) == security_error::expired);
}

TEST_CASE("a certificate of another authority is not valid, even of one of the same name") {
  auto ca = new_authority(), other = new_authority();
  auto der = value_of(other.issue(request_of(new_key()), node_a, now_ms));
  CHECK(code_of(verify_node_certificate(der, ca.certificate(), now_ms)) == security_error::other_cluster);
  auto third = value_of(authority::create(node_b, now_ms));
  CHECK(code_of(verify_node_certificate(value_of(third.issue(request_of(new_key()), node_a, now_ms)), ca.certificate(), now_ms)) ==
        security_error::other_cluster);
  // That of the other authority itself.
  CHECK(!verify_node_certificate(other.certificate(), ca.certificate(), now_ms));
  CHECK(code_of(verify_node_certificate("x", ca.certificate(), now_ms)) == security_error::malformed);
  CHECK(code_of(verify_node_certificate(der, "x", now_ms)) == security_error::malformed);
}

TEST_CASE("what the authority signed is valid only if it is as nodes' certificates are made") {
  auto ca = new_authority();
  auto refused = [&](const forged& f) { return code_of(verify_node_certificate(f.by(ca), ca.certificate(), now_ms)) == security_error::malformed; };
  CHECK(value_of(verify_node_certificate(forged{}.by(ca), ca.certificate(), now_ms)) == node_a);
  CHECK(refused({.basic = "critical,CA:TRUE"}));
  CHECK(refused({.usage = "critical,digitalSignature,keyCertSign"}));
  CHECK(refused({.usage = ""}));
  CHECK(refused({.extended = "serverAuth"}));
  CHECK(refused({.extended = "clientAuth"}));
  CHECK(refused({.extended = "serverAuth,clientAuth,codeSigning"}));
  CHECK(refused({.extended = ""}));
  CHECK(refused({.san = ""}));
  CHECK(refused({.san = "DNS:" + node_dns_name(node_a)}));
  CHECK(refused({.further_critical = "critical,nobody knows"}));
  CHECK(refused({.named = false})); // X.509's own rules count, too
  auto rsa = rsa_key(), p384 = ec_key("P-384");
  CHECK(refused({.key = rsa.get()}));
  CHECK(refused({.key = p384.get()}));
  CHECK(code_of(verify_node_certificate(ca.certificate(), ca.certificate(), now_ms)) == security_error::malformed);
}

TEST_CASE("no certificate of which a byte was changed is valid") {
  auto ca = new_authority();
  auto der = value_of(ca.issue(request_of(new_key()), node_a, now_ms));
  std::mt19937 random{2};
  for (std::size_t i = 0; i < der.size(); ++i) {
    auto damaged = der;
    damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1 + random() % 255));
    CHECK_MESSAGE(!verify_node_certificate(damaged, ca.certificate(), now_ms), "byte " << i);
  }
}
