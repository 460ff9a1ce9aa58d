#include "services/security/certificate.hpp"

#include <algorithm>
#include <ctime>
#include <optional>

#include <openssl/core_names.h>
#include <openssl/pem.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/security/openssl.hpp"

namespace swarm {

using namespace openssl;

namespace {

constexpr std::string_view dns_suffix = ".node.swarm";
constexpr std::string_view uri_prefix = "swarm://@";
/// Certificates and requests travel in join requests; ours have less than 1 KiB.
constexpr std::size_t der_bytes_max = limits::join_request_bytes_max;

security_failure library_refused(const char* what) {
  return {security_error::failed, std::string{what} + ": OpenSSL refused; the machine may be short of memory"};
}

/// OpenSSL would ask for a passphrase at the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

bio_ptr reader(std::string_view bytes) {
  return bio_ptr{bytes.size() <= 4 * der_bytes_max ? BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())) : nullptr};
}

/// What was written to a BIO in memory, which wipes its own when it goes.
std::string_view written(BIO* out) {
  char* bytes = nullptr;
  auto n = BIO_get_mem_data(out, &bytes);
  return n > 0 ? std::string_view{bytes, static_cast<std::size_t>(n)} : std::string_view{};
}

template <class Owner, class T>
Owner decode(T* (*read)(T**, const unsigned char**, long), std::string_view der) {
  if (der.size() > der_bytes_max)
    return nullptr;
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* end = at + der.size();
  Owner out{read(nullptr, &at, static_cast<long>(der.size()))};
  return at == end ? std::move(out) : nullptr;
}

std::int64_t to_ms(const ASN1_TIME* t) {
  std::tm parts{};
  return ASN1_TIME_to_tm(t, &parts) == 1 ? static_cast<std::int64_t>(timegm(&parts)) * 1000 : 0;
}

std::string_view text_of(const ASN1_STRING* s) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)), static_cast<std::size_t>(ASN1_STRING_length(s))};
}

/// The id in a certificate that names one node, both ways, and nothing else.
std::string node_id_of(const X509* certificate) {
  names_ptr names{static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  if (!names || sk_GENERAL_NAME_num(names.get()) != 2)
    return {};
  const auto* dns = sk_GENERAL_NAME_value(names.get(), 0);
  const auto* uri = sk_GENERAL_NAME_value(names.get(), 1);
  if (dns->type != GEN_DNS || uri->type != GEN_URI)
    return {};
  auto name = text_of(dns->d.dNSName);
  if (!name.ends_with(dns_suffix))
    return {};
  std::string id{name.substr(0, name.size() - dns_suffix.size())};
  return is_node_id(id) && text_of(uri->d.uniformResourceIdentifier) == node_uri(id) ? id : std::string{};
}

} // namespace

x509_ptr openssl::read_x509(std::string_view der) { return decode<x509_ptr>(d2i_X509, der); }
request_ptr openssl::read_request(std::string_view der) { return decode<request_ptr>(d2i_X509_REQ, der); }

bool openssl::is_p256(const EVP_PKEY* key) {
  char group[32] = {};
  int explicit_curve = 0;
  return key && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         std::string_view{group} == SN_X9_62_prime256v1 &&
         EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &explicit_curve) == 1 && explicit_curve == 0;
}

bool is_node_id(std::string_view text) noexcept {
  if (text.size() != 36)
    return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = text[i];
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
      return false;
  }
  return true;
}

std::string node_dns_name(std::string_view node_id) { return std::string{node_id} + std::string{dns_suffix}; }
std::string node_uri(std::string_view node_id) { return std::string{uri_prefix} + std::string{node_id}; }

void key_pair::give_back::operator()(evp_pkey_st* key) const noexcept { EVP_PKEY_free(key); }

security_result<key_pair> key_pair::generate() {
  no_errors_left clean;
  auto* key = EVP_EC_gen("P-256");
  if (!key)
    return library_refused("a key could not be made");
  return key_pair{key};
}

security_result<key_pair> key_pair::from_pem(std::string_view pem) {
  no_errors_left clean;
  auto in = reader(pem);
  key_pair out{in ? PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr) : nullptr};
  if (!out.key_)
    return security_failure{security_error::malformed, "this is no private key in PEM"};
  if (!is_p256(out.native()))
    return security_failure{security_error::wrong_key, "this is no EC P-256 key"};
  return out;
}

security_result<key_pair> key_pair::from_der(std::string_view der) {
  no_errors_left clean;
  key_pair out{decode<key_ptr>(d2i_AutoPrivateKey, der).release()};
  if (!out.key_)
    return security_failure{security_error::malformed, "this is no private key"};
  if (!is_p256(out.native()))
    return security_failure{security_error::wrong_key, "this is no EC P-256 key"};
  return out;
}

security_result<secret> key_pair::to_pem() const {
  no_errors_left clean;
  bio_ptr out{BIO_new(BIO_s_mem())};
  if (!out || PEM_write_bio_PKCS8PrivateKey(out.get(), native(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return library_refused("a key could not be written");
  return secret{written(out.get())};
}

security_result<secret> key_pair::to_der() const {
  no_errors_left clean;
  key_ptr copy{EVP_PKEY_dup(native())};
  bio_ptr out{BIO_new(BIO_s_mem())};
  if (!copy || !out || EVP_PKEY_set_int_param(copy.get(), OSSL_PKEY_PARAM_EC_INCLUDE_PUBLIC, 0) != 1 ||
      i2d_PKCS8PrivateKey_bio(out.get(), copy.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return library_refused("a key could not be written");
  return secret{written(out.get())};
}

std::string key_pair::public_key() const {
  no_errors_left clean;
  return der_of<EVP_PKEY>(i2d_PUBKEY, native());
}

security_result<std::string> make_csr(const key_pair& key, std::string_view common_name) {
  no_errors_left clean;
  request_ptr request{X509_REQ_new()};
  // The subject belongs to the request.
  auto* subject = request ? X509_REQ_get_subject_name(request.get()) : nullptr;
  if (!subject ||
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.native()) != 1 || X509_REQ_sign(request.get(), key.native(), EVP_sha256()) <= 0)
    return library_refused("a request for a certificate could not be made");
  return der_of<X509_REQ>(i2d_X509_REQ, request.get());
}

security_result<std::string> csr_public_key(std::string_view der) {
  no_errors_left clean;
  auto request = read_request(der);
  if (!request)
    return security_failure{security_error::malformed, "this is no request for a certificate (PKCS#10 in DER)"};
  auto* key = X509_REQ_get0_pubkey(request.get());
  if (!is_p256(key))
    return security_failure{security_error::wrong_key, "the key of a node must be EC P-256"};
  if (X509_REQ_verify(request.get(), key) != 1)
    return security_failure{security_error::bad_signature, "the request for a certificate is not signed with its own key"};
  return der_of<EVP_PKEY>(i2d_PUBKEY, key);
}

security_result<std::string> certificate_from_pem(std::string_view pem) {
  no_errors_left clean;
  auto in = reader(pem);
  x509_ptr certificate{in ? PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr) : nullptr};
  if (!certificate)
    return security_failure{security_error::malformed, "this is no certificate in PEM"};
  return der_of<X509>(i2d_X509, certificate.get());
}

security_result<std::string> certificate_to_pem(std::string_view der) {
  no_errors_left clean;
  auto certificate = read_x509(der);
  if (!certificate)
    return security_failure{security_error::malformed, "this is no certificate in DER"};
  bio_ptr out{BIO_new(BIO_s_mem())};
  if (!out || PEM_write_bio_X509(out.get(), certificate.get()) != 1)
    return library_refused("a certificate could not be written");
  return std::string{written(out.get())};
}

security_result<certificate_info> read_certificate(std::string_view der) {
  no_errors_left clean;
  auto certificate = read_x509(der);
  // -1: only look at the extensions.
  if (!certificate || X509_check_purpose(certificate.get(), -1, 0) != 1 || (X509_get_extension_flags(certificate.get()) & EXFLAG_INVALID) != 0)
    return security_failure{security_error::malformed, "this is no certificate in DER"};
  certificate_info out;
  out.node_id = node_id_of(certificate.get());
  out.is_ca = X509_check_ca(certificate.get()) == 1;
  out.not_before_ms = to_ms(X509_get0_notBefore(certificate.get()));
  out.not_after_ms = to_ms(X509_get0_notAfter(certificate.get()));
  bignum_ptr serial{ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr)};
  if (!serial)
    return library_refused("a certificate could not be read");
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(serial.get())), '\0');
  BN_bn2bin(serial.get(), reinterpret_cast<unsigned char*>(bytes.data()));
  out.serial = to_hex(bytes);
  out.sha256 = sha256(der);
  if (auto* key = X509_get0_pubkey(certificate.get()))
    out.public_key = der_of<EVP_PKEY>(i2d_PUBKEY, key);
  return out;
}

} // namespace swarm
