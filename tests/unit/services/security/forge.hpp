// Keys, requests and certificates as this cluster does not make them, and a place for files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <sys/stat.h>

#include "services/security/authority.hpp"
#include "services/security/openssl.hpp"

namespace swarm::test {

inline constexpr std::int64_t now_ms = 1'800'000'000'000;
inline constexpr std::int64_t day_ms = 24LL * 3600 * 1000;
inline const std::string cluster_id = "11111111-2222-4333-8444-555555555555";
inline const std::string node_a = "aaaaaaaa-0000-4000-8000-00000000000a";
inline const std::string node_b = "bbbbbbbb-0000-4000-8000-00000000000b";

struct temp_dir {
  temp_dir() {
    std::string name = "/tmp/swarm-security-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temp_dir() {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
  }
  temp_dir(const temp_dir&) = delete;
  temp_dir& operator=(const temp_dir&) = delete;
  std::filesystem::path path;
};

inline unsigned mode_of(const std::filesystem::path& p) {
  struct stat st {};
  REQUIRE(stat(p.c_str(), &st) == 0);
  return st.st_mode & 07777;
}

template <class T>
security_error code_of(const security_result<T>& f) {
  REQUIRE(!f);
  CHECK(!f.failure().text.empty());
  return f.failure().code;
}
inline security_error code_of(const std::optional<security_failure>& f) {
  REQUIRE(f);
  CHECK(!f->text.empty());
  return f->code;
}

template <class T>
T value_of(security_result<T> f) {
  if (!f)
    FAIL(f.failure().text);
  return *std::move(f);
}

inline key_pair new_key() { return value_of(key_pair::generate()); }
inline std::string request_of(const key_pair& key) { return value_of(make_csr(key, "anything")); }

inline openssl::key_ptr rsa_key() { return openssl::key_ptr{EVP_RSA_gen(2048)}; }
inline openssl::key_ptr ec_key(const char* curve) { return openssl::key_ptr{EVP_EC_gen(curve)}; }
/// P-256, its numbers spelled out instead of its name.
inline openssl::key_ptr explicit_key() {
  auto key = ec_key("P-256");
  REQUIRE(EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_ENCODING, OSSL_PKEY_EC_ENCODING_EXPLICIT) == 1);
  return key;
}

inline std::string request_of(EVP_PKEY* key) {
  openssl::request_ptr r{X509_REQ_new()};
  REQUIRE(X509_REQ_set_pubkey(r.get(), key) == 1);
  REQUIRE(X509_REQ_sign(r.get(), key, EVP_sha256()) > 0);
  return openssl::der_of<X509_REQ>(i2d_X509_REQ, r.get());
}

inline std::string pem_of(EVP_PKEY* key, const EVP_CIPHER* cipher = nullptr) {
  openssl::bio_ptr out{BIO_new(BIO_s_mem())};
  char password[] = "password";
  REQUIRE(PEM_write_bio_PKCS8PrivateKey(out.get(), key, cipher, cipher ? password : nullptr, cipher ? 8 : 0, nullptr, nullptr) == 1);
  char* bytes = nullptr;
  auto n = BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<std::size_t>(n)};
}

/// A certificate that the authority could be brought to sign if it were careless.
struct forged {
  std::string san = "DNS:" + node_dns_name(node_a) + ",URI:" + node_uri(node_a);
  std::string basic = "critical,CA:FALSE";
  std::string usage = "critical,digitalSignature";
  std::string extended = "serverAuth,clientAuth";
  std::string further_critical = {}; // an extension that nobody knows, as a certificate policy
  bool named = true;                 // its subject says something
  EVP_PKEY* key = nullptr;           // another than a fresh P-256 key

  std::string by(const authority& ca) const {
    auto issuer = openssl::read_x509(ca.certificate());
    openssl::x509_ptr x{X509_new()};
    auto fresh = new_key();
    X509_set_version(x.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x.get()), 7);
    ASN1_TIME_set(X509_getm_notBefore(x.get()), (now_ms - day_ms) / 1000);
    ASN1_TIME_set(X509_getm_notAfter(x.get()), (now_ms + day_ms) / 1000);
    if (named)
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x.get()), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("forged"), -1, -1, 0);
    X509_set_issuer_name(x.get(), X509_get_subject_name(issuer.get()));
    X509_set_pubkey(x.get(), key ? key : fresh.native());
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer.get(), x.get(), nullptr, nullptr, 0);
    auto add = [&](int kind, const std::string& value) {
      if (value.empty())
        return;
      openssl::extension_ptr e{X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())};
      REQUIRE(e);
      X509_add_ext(x.get(), e.get(), -1);
    };
    add(NID_basic_constraints, basic);
    add(NID_key_usage, usage);
    add(NID_ext_key_usage, extended);
    add(NID_subject_alt_name, san);
    add(NID_netscape_comment, further_critical);
    add(NID_subject_key_identifier, "hash");
    add(NID_authority_key_identifier, "keyid:always");
    REQUIRE(X509_sign(x.get(), ca.key().native(), EVP_sha256()) > 0);
    return openssl::der_of<X509>(i2d_X509, x.get());
  }
};

} // namespace swarm::test
