#include "services/security/secret.hpp"

#include <algorithm>
#include <new>

#include <sodium.h>

namespace swarm {

secret::secret(std::string_view bytes) : secret(of_size(bytes.size())) { std::copy(bytes.begin(), bytes.end(), bytes_.get()); }

secret secret::of_size(std::size_t n) {
  static const bool ready = sodium_init() >= 0;
  secret out;
  if (n == 0)
    return out;
  auto* bytes = ready ? static_cast<char*>(sodium_malloc(n)) : nullptr;
  if (!bytes)
    throw std::bad_alloc{};
  out.bytes_.reset(bytes);
  out.size_ = n;
  std::fill_n(bytes, n, '\0');
  return out;
}

void secret::give_back::operator()(char* bytes) const noexcept { sodium_free(bytes); }

void fill_random(secret& s) { randombytes_buf(s.data(), s.size()); }

} // namespace swarm
