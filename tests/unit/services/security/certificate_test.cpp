#include "services/security/certificate.hpp"

#include <random>
#include <set>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a node's names are made of its id, which is a UUID in lower case") {
  CHECK(node_dns_name(node_a) == node_a + ".node.swarm");
  CHECK(node_uri(node_a) == "swarm://@" + node_a);
  CHECK(is_node_id(node_a));
  CHECK(is_node_id(random_uuid()));
  for (const auto* wrong :
       {"", "a", "AAAAAAAA-0000-4000-8000-00000000000A", "aaaaaaaa-0000-4000-8000-00000000000", "aaaaaaaa-0000-4000-8000-00000000000ab",
        "aaaaaaaa00000-4000-8000-00000000000a", "gaaaaaaa-0000-4000-8000-00000000000a", "aaaaaaaa-0000-4000-8000-0000000,DNS:x"})
    CHECK_MESSAGE(!is_node_id(wrong), wrong);
}

TEST_CASE("a key survives being written and read, with its public half and without") {
  auto key = new_key();
  auto pem = value_of(key.to_pem());
  CHECK(pem.view().starts_with("-----BEGIN PRIVATE KEY-----\n"));
  CHECK(value_of(key_pair::from_pem(pem.view())).public_key() == key.public_key());
  auto der = value_of(key.to_der());
  CHECK(der.size() < 80);
  auto back = value_of(key_pair::from_der(der.view()));
  CHECK(back.public_key() == key.public_key());
  // It signs: what it signs can be verified.
  CHECK(value_of(csr_public_key(request_of(back))) == key.public_key());
  CHECK(new_key().public_key() != key.public_key());
}

TEST_CASE("only private EC P-256 keys are keys") {
  CHECK(code_of(key_pair::from_pem("")) == security_error::malformed);
  CHECK(code_of(key_pair::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")) == security_error::malformed);
  CHECK(code_of(key_pair::from_pem(std::string(1'000'000, 'x'))) == security_error::malformed);
  // Nobody is asked for the password.
  CHECK(code_of(key_pair::from_pem(pem_of(ec_key("P-256").get(), EVP_aes_256_cbc()))) == security_error::malformed);
  CHECK(code_of(key_pair::from_pem(pem_of(rsa_key().get()))) == security_error::wrong_key);
  CHECK(code_of(key_pair::from_pem(pem_of(ec_key("P-384").get()))) == security_error::wrong_key);
  CHECK(code_of(key_pair::from_pem(pem_of(explicit_key().get()))) == security_error::wrong_key);
  CHECK(code_of(key_pair::from_der("")) == security_error::malformed);
  auto der = value_of(new_key().to_der());
  CHECK(code_of(key_pair::from_der(std::string{der.view()} + "x")) == security_error::malformed);
  CHECK(code_of(key_pair::from_der(der.view().substr(0, der.size() - 1))) == security_error::malformed);
}

TEST_CASE("a request says for which key it is, and only who has the key can have made it") {
  auto key = new_key();
  auto csr = request_of(key);
  CHECK(value_of(csr_public_key(csr)) == key.public_key());
  CHECK(code_of(csr_public_key("")) == security_error::malformed);
  CHECK(code_of(csr_public_key(csr + "x")) == security_error::malformed);
  CHECK(code_of(csr_public_key(csr + std::string(limits::join_request_bytes_max, '\0'))) == security_error::malformed);
  CHECK(code_of(csr_public_key(request_of(rsa_key().get()))) == security_error::wrong_key);
  CHECK(code_of(csr_public_key(request_of(ec_key("P-384").get()))) == security_error::wrong_key);
  CHECK(code_of(csr_public_key(request_of(explicit_key().get()))) == security_error::wrong_key);
  // Another's key with a signature of one's own.
  openssl::request_ptr stolen{X509_REQ_new()};
  auto other = new_key();
  X509_REQ_set_pubkey(stolen.get(), key.native());
  REQUIRE(X509_REQ_sign(stolen.get(), other.native(), EVP_sha256()) > 0);
  CHECK(code_of(csr_public_key(openssl::der_of<X509_REQ>(i2d_X509_REQ, stolen.get()))) == security_error::bad_signature);
}

TEST_CASE("no request of which a byte was changed is one for the same key") {
  auto key = new_key();
  auto csr = request_of(key);
  std::mt19937 random{1};
  for (std::size_t i = 0; i < csr.size(); ++i) {
    auto damaged = csr;
    damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1 + random() % 255));
    CHECK_MESSAGE(!csr_public_key(damaged), "byte " << i);
  }
}

TEST_CASE("certificates go to PEM and back, and say what they say") {
  auto ca = value_of(authority::create(cluster_id, now_ms));
  auto key = new_key();
  auto der = value_of(ca.issue(request_of(key), node_a, now_ms));
  auto pem = value_of(certificate_to_pem(der));
  CHECK(pem.starts_with("-----BEGIN CERTIFICATE-----\n"));
  CHECK(value_of(certificate_from_pem(pem)) == der);
  CHECK(value_of(certificate_from_pem(pem + value_of(certificate_to_pem(ca.certificate())))) == der);
  auto info = value_of(read_certificate(der));
  CHECK(info.node_id == node_a);
  CHECK(!info.is_ca);
  CHECK(info.sha256 == sha256(der));
  CHECK(info.public_key == key.public_key());
  auto own = value_of(read_certificate(ca.certificate()));
  CHECK(own.is_ca);
  CHECK(own.node_id.empty());
  for (const auto& wrong : {std::string{}, std::string{"x"}, der + "x", der.substr(0, der.size() - 1), request_of(key)}) {
    CHECK(code_of(read_certificate(wrong)) == security_error::malformed);
    CHECK(code_of(certificate_to_pem(wrong)) == security_error::malformed);
  }
  CHECK(code_of(certificate_from_pem("no certificate")) == security_error::malformed);
  CHECK(ERR_peek_error() == 0); // nothing is left for the thread's next user of OpenSSL
}

TEST_CASE("a certificate is a node's only if it names one node, both ways, and nothing else") {
  auto ca = value_of(authority::create(cluster_id, now_ms));
  auto id_of = [&](const std::string& san) {
    forged f;
    f.san = san;
    return value_of(read_certificate(f.by(ca))).node_id;
  };
  auto dns = "DNS:" + node_dns_name(node_a), uri = "URI:" + node_uri(node_a);
  CHECK(id_of(dns + "," + uri) == node_a);
  for (const auto& wrong : {std::string{}, dns, uri, uri + "," + dns, dns + "," + uri + ",DNS:other", dns + "," + uri + "," + dns, dns + "," + dns,
                            dns + ",URI:" + node_uri(node_b), "DNS:" + node_a + "," + uri, "DNS:x" + node_dns_name(node_a) + "," + uri,
                            dns + "," + uri + "/", dns + "x," + uri, "email:" + node_a + "@node.swarm," + uri})
    CHECK_MESSAGE(id_of(wrong).empty(), wrong);
}
