#include "actors/store/commit_log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sodium.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"

namespace swarm {

namespace {

constexpr std::size_t generation_bytes = 16;
constexpr std::size_t sum_bytes = 16;
constexpr std::size_t head_bytes = generation_bytes + 8 + 8; // what the checksum covers besides the payload
constexpr std::size_t header_bytes = head_bytes + sum_bytes;
/// The file grows by so much at a time: a sync that also has to note a new size costs twice as much.
constexpr std::size_t growth_blocks = 256 * limits::kib / log_block_bytes;

/// The largest record that any configuration allows; one whose length field says more is damaged.
std::size_t record_bytes_max() { return limits::writer_batch_commands_max.highest() * (limits::batch_encoded_bytes_max + limits::kib); }

void put(char* to, std::uint64_t n) {
  for (int i = 0; i < 8; ++i)
    to[i] = static_cast<char>(n >> (8 * i));
}

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < 8; ++i)
    n |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return n;
}

std::string checksum(std::string_view head, std::string_view payload) {
  crypto_generichash_state state;
  std::string sum(sum_bytes, '\0');
  auto bytes = [](std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); };
  crypto_generichash_init(&state, nullptr, 0, sum_bytes);
  crypto_generichash_update(&state, bytes(head), head.size());
  crypto_generichash_update(&state, bytes(payload), payload.size());
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(sum.data()), sum_bytes);
  return sum;
}

} // namespace

std::string commit_log::new_generation() { return random_bytes(generation_bytes); }

commit_log::commit_log(const std::string& path, const std::string& vfs) : file_(open_log_file(path, vfs)), size_(file_->size()) {}

void commit_log::read(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>& next) {
  generation_ = generation;
  newest_ = 0;
  end_ = 0;
  if (generation.size() == generation_bytes)
    follow(generation, after, next);
  if (auto kept = end_in_block(); kept > 0)
    file_->read_at(end_ - static_cast<std::int64_t>(kept), {blocks_.front().bytes, kept});
}

void commit_log::follow(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>& next) {
  std::string head(header_bytes, '\0'), payload;
  for (auto rest = static_cast<std::uint64_t>(size_); rest >= header_bytes;) {
    file_->read_at(end_, head);
    auto length = number_at(head, generation_bytes + 8);
    if (!head.starts_with(generation) || number_at(head, generation_bytes) != newest_ + 1 ||
        length > std::min<std::uint64_t>(rest - header_bytes, record_bytes_max()))
      return;
    payload.resize(length);
    file_->read_at(end_ + static_cast<std::int64_t>(header_bytes), payload);
    if (checksum({head.data(), head_bytes}, payload) != head.substr(head_bytes))
      return;
    if (++newest_ > after)
      next(payload);
    end_ += static_cast<std::int64_t>(header_bytes + length);
    rest -= header_bytes + length;
  }
}

void commit_log::start(std::string generation) {
  generation_ = std::move(generation);
  newest_ = 0;
  end_ = 0;
}

bool commit_log::full() const noexcept { return static_cast<std::size_t>(end_) >= limits::commit_log_bytes_max(); }

void commit_log::append(std::string_view payload) {
  // Goes on behind the records before, whose bytes in the first block are written once more as they are.
  auto at = end_in_block();
  auto bytes = at + header_bytes + payload.size();
  auto blocks = (bytes + log_block_bytes - 1) / log_block_bytes;
  auto first = static_cast<std::size_t>(end_) / log_block_bytes;
  if ((first + blocks) * log_block_bytes > static_cast<std::size_t>(size_))
    blocks += growth_blocks - (first + blocks) % growth_blocks;
  blocks_.resize(std::max(blocks_.size(), blocks));
  auto* to = blocks_.front().bytes;
  auto* head = to + at;
  std::memcpy(head, generation_.data(), generation_bytes);
  put(head + generation_bytes, newest_ + 1);
  put(head + generation_bytes + 8, payload.size());
  auto sum = checksum({head, head_bytes}, payload);
  std::memcpy(head + head_bytes, sum.data(), sum_bytes);
  std::memcpy(head + header_bytes, payload.data(), payload.size());
  std::memset(to + bytes, 0, blocks * log_block_bytes - bytes);
  file_->write(static_cast<std::int64_t>(first * log_block_bytes), {blocks_.data(), blocks});
  size_ = std::max(size_, static_cast<std::int64_t>((first + blocks) * log_block_bytes));
  end_ += static_cast<std::int64_t>(header_bytes + payload.size());
  ++newest_;
  if (auto last = bytes / log_block_bytes; last > 0)
    std::memcpy(to, to + last * log_block_bytes, end_in_block());
}

std::size_t commit_log::end_in_block() const noexcept { return static_cast<std::size_t>(end_) % log_block_bytes; }

} // namespace swarm
