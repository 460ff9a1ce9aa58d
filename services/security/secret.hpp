// Keys, passphrases and the secrets of tokens, in memory that is not swapped, not dumped, and wiped when it is given back.
#pragma once

#include <memory>
#include <string_view>

namespace swarm {

class secret {
public:
  secret() = default;
  explicit secret(std::string_view);
  /// Of so many zero bytes, to be filled through data().
  static secret of_size(std::size_t);

  secret clone() const { return secret{view()}; }
  /// The first n bytes.
  secret prefix(std::size_t n) const { return secret{view().substr(0, n)}; }
  std::string_view view() const noexcept { return {bytes_.get(), size_}; }
  char* data() noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

private:
  struct give_back {
    void operator()(char*) const noexcept;
  };
  std::unique_ptr<char[], give_back> bytes_;
  std::size_t size_ = 0;
};

/// With bytes from the operating system.
void fill_random(secret&);

} // namespace swarm
