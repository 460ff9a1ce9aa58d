// Owners for what OpenSSL hands out. For sources of this room only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace swarm::openssl {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* p) const noexcept {
    Free(p);
  }
};

using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using bignum_ptr = std::unique_ptr<BIGNUM, freed_by<BN_free>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using names_ptr = std::unique_ptr<GENERAL_NAMES, freed_by<GENERAL_NAMES_free>>;
using request_ptr = std::unique_ptr<X509_REQ, freed_by<X509_REQ_free>>;
using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_ptr = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;
using x509_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using ssl_context_ptr = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;
using ssl_ptr = std::unique_ptr<SSL, freed_by<SSL_free>>;

/// OpenSSL's errors wait in a queue of the thread, where the next user, gRPC for one, would take them for its own.
struct no_errors_left {
  no_errors_left() = default;
  no_errors_left(const no_errors_left&) = delete;
  no_errors_left& operator=(const no_errors_left&) = delete;
  ~no_errors_left() { ERR_clear_error(); }
};

/// As DER; empty when OpenSSL refuses.
template <class T>
std::string der_of(int (*encode)(const T*, unsigned char**), const T* what) {
  unsigned char* bytes = nullptr;
  auto n = encode(what, &bytes);
  if (n <= 0)
    return {};
  std::string out{reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n)};
  OPENSSL_free(bytes);
  return out;
}

/// Null for what is no such thing, is longer than one can be here, or has something behind its end.
x509_ptr read_x509(std::string_view der);
request_ptr read_request(std::string_view der);
/// An EC key on P-256 whose curve is given by name.
bool is_p256(const EVP_PKEY*);

} // namespace swarm::openssl
