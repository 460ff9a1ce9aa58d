#include "actors/store/commit_log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sodium.h>
#include <sqlite3.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

namespace {

constexpr std::size_t generation_bytes = 16;
constexpr std::size_t sum_bytes = 16;
constexpr std::size_t head_bytes = generation_bytes + 8 + 8; // what the checksum covers besides the payload
constexpr std::size_t header_bytes = head_bytes + sum_bytes;
constexpr std::size_t write_bytes_max = 64 * limits::kib; // SQLite's VFS takes less than 128 KiB at once
/// The file grows by so much at a time: a sync that also has to note a new size costs twice as much.
constexpr std::size_t growth_bytes = 256 * limits::kib;

/// So long can a record be at most, whatever is configured; one that says it is longer is damaged.
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

void check(int rc, const char* doing) {
  if (rc != SQLITE_OK)
    throw sqlite::io_failure{rc, std::string{"the commit log cannot be "} + doing + ": " + sqlite3_errstr(rc)};
}

} // namespace

std::string commit_log::new_generation() { return random_bytes(generation_bytes); }

commit_log::commit_log(const std::string& path, const std::string& vfs) {
  auto* v = sqlite3_vfs_find(vfs.empty() ? nullptr : vfs.c_str());
  if (v == nullptr)
    throw sqlite::io_failure{SQLITE_CANTOPEN, "there is no VFS named " + vfs};
  // Two zero bytes more: SQLite's file names are followed by parameters, of which there are none.
  path_ = path + std::string(3, '\0');
  storage_ = std::make_unique<char[]>(static_cast<std::size_t>(v->szOsFile));
  auto* file = reinterpret_cast<sqlite3_file*>(storage_.get());
  check(v->xOpen(v, path_.c_str(), file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_JOURNAL, nullptr), "opened");
  file_ = file;
  sqlite3_int64 size = 0;
  check(file_->pMethods->xFileSize(file_, &size), "measured");
  size_ = size;
}

commit_log::~commit_log() {
  if (file_ != nullptr)
    file_->pMethods->xClose(file_);
}

void commit_log::read(std::string_view generation, std::uint64_t after, const std::function<void(std::string_view)>& next) {
  generation_ = generation;
  newest_ = 0;
  end_ = 0;
  if (generation.size() != generation_bytes)
    return;
  std::string head(header_bytes, '\0'), payload;
  for (auto rest = static_cast<std::uint64_t>(size_); rest >= header_bytes;) {
    read_at(end_, head);
    auto length = number_at(head, generation_bytes + 8);
    if (!head.starts_with(generation) || number_at(head, generation_bytes) != newest_ + 1 ||
        length > std::min<std::uint64_t>(rest - header_bytes, record_bytes_max()))
      return;
    payload.resize(length);
    read_at(end_ + static_cast<std::int64_t>(header_bytes), payload);
    if (checksum({head.data(), head_bytes}, payload) != head.substr(head_bytes))
      return;
    if (++newest_ > after)
      next(payload);
    end_ += static_cast<std::int64_t>(header_bytes + length);
    rest -= header_bytes + length;
  }
}

void commit_log::read_at(std::int64_t offset, std::string& to) {
  auto rc = file_->pMethods->xRead(file_, to.data(), static_cast<int>(to.size()), offset);
  if (rc != SQLITE_IOERR_SHORT_READ) // the rest is zeros, which fit no checksum
    check(rc, "read");
}

void commit_log::start(std::string generation) {
  generation_ = std::move(generation);
  newest_ = 0;
  end_ = 0;
}

bool commit_log::full() const noexcept { return static_cast<std::size_t>(end_) >= limits::commit_log_bytes_max(); }

void commit_log::append(std::string_view payload) {
  buffer_.assign(header_bytes, '\0');
  std::memcpy(buffer_.data(), generation_.data(), generation_bytes);
  put(buffer_.data() + generation_bytes, newest_ + 1);
  put(buffer_.data() + generation_bytes + 8, payload.size());
  auto sum = checksum({buffer_.data(), head_bytes}, payload);
  std::memcpy(buffer_.data() + head_bytes, sum.data(), sum_bytes);
  buffer_.append(payload);
  auto end = end_ + static_cast<std::int64_t>(buffer_.size());
  if (end > size_)
    buffer_.resize(buffer_.size() + growth_bytes - static_cast<std::size_t>(end) % growth_bytes);
  write(buffer_);
  end_ = end;
  ++newest_;
}

void commit_log::write(std::string_view bytes) {
  for (std::size_t done = 0; done < bytes.size(); done += write_bytes_max) {
    auto part = bytes.substr(done, write_bytes_max);
    check(file_->pMethods->xWrite(file_, part.data(), static_cast<int>(part.size()), end_ + static_cast<std::int64_t>(done)), "written");
  }
  size_ = std::max(size_, end_ + static_cast<std::int64_t>(bytes.size()));
  check(file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY), "synced");
}

} // namespace swarm
