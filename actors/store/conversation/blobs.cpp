#include "actors/store/conversation/blobs.hpp"

#include <algorithm>
#include <utility>

#include <sodium.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view unfinished = ".new";
constexpr auto cannot_store = "the content cannot be stored";
constexpr auto cannot_read = "the content cannot be read";
constexpr std::size_t piece_bytes = 256 * limits::kib;

/// As sha256 makes it: no other name leads out of the directory.
bool is_digest(std::string_view text) { return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

disk_failure no_such_blob(std::string_view sha256) {
  return failed_to(concat({cannot_read, ", ", escape_control(sha256.substr(0, 64), false)}),
                   std::make_error_code(std::errc::no_such_file_or_directory));
}

disk_failure is_damaged() { return failed_to(concat({cannot_read, ": its file is damaged"}), std::make_error_code(std::errc::io_error)); }

} // namespace

struct blob_writer::state {
  disk* where;
  fs::path directory;
  fs::path fresh;
  std::unique_ptr<disk_file> file;
  std::uint64_t bytes_max;
  std::uint64_t bytes = 0;
  crypto_hash_sha256_state hash = {};
  std::optional<disk_failure> failed = {};
};

blob_writer::blob_writer(std::unique_ptr<state> s) : state_(std::move(s)) {}
blob_writer::blob_writer(blob_writer&&) noexcept = default;

blob_writer::~blob_writer() {
  if (state_)
    state_->where->remove(state_->fresh);
}

std::optional<disk_failure> blob_writer::add(std::string_view part) {
  auto& s = *state_;
  if (s.failed)
    return s.failed;
  if (part.size() > s.bytes_max - s.bytes)
    s.failed = failed_to(concat({cannot_store, ": it has more than ", s.bytes_max, " bytes"}), std::make_error_code(std::errc::file_too_large));
  else if (auto error = s.file->write_at(s.bytes, part))
    s.failed = failed_to(cannot_store, error);
  if (s.failed)
    return s.failed;
  crypto_hash_sha256_update(&s.hash, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  s.bytes += part.size();
  return std::nullopt;
}

or_failure<blob> blob_writer::finish() {
  auto s = std::move(state_);
  auto fail = [&s](disk_failure why) {
    s->where->remove(s->fresh);
    return why;
  };
  if (s->failed)
    return fail(*std::move(s->failed));
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256_final(&s->hash, reinterpret_cast<unsigned char*>(digest.data()));
  blob out{to_hex(digest), s->bytes};
  auto error = s->file->sync();
  // Another one of that name has the same bytes.
  if (!error)
    error = s->where->rename(s->fresh, s->directory / out.sha256);
  if (error)
    return fail(failed_to(cannot_store, error));
  if ((error = s->where->sync_directory(s->directory)))
    return failed_to(cannot_store, error);
  return out;
}

or_failure<blobs> blobs::open(disk& d, fs::path directory) {
  auto error = d.make_directory(directory);
  if (error)
    return failed_to(cannot_store, error);
  if (auto failed = remove_unfinished(d, directory))
    return *std::move(failed);
  return blobs{d, std::move(directory)};
}

std::optional<disk_failure> blobs::remove_unfinished(disk& d, const fs::path& directory) {
  auto names = d.list(directory);
  if (!names && names.failure() == std::errc::no_such_file_or_directory)
    return std::nullopt;
  if (!names)
    return failed_to(cannot_store, names.failure());
  for (const auto& name : *names)
    if (name.ends_with(unfinished))
      if (auto error = d.remove(directory / name))
        return failed_to(cannot_store, error);
  return std::nullopt;
}

or_failure<blob_writer> blobs::write(std::uint64_t bytes_max) {
  auto s = std::make_unique<blob_writer::state>(blob_writer::state{
    .where = disk_, .directory = directory_, .fresh = directory_ / concat({random_uuid(), unfinished}), .file = {}, .bytes_max = bytes_max});
  auto file = disk_->open(s->fresh, disk::how::make);
  if (!file)
    return failed_to(cannot_store, file.failure());
  s->file = *std::move(file);
  crypto_hash_sha256_init(&s->hash);
  return blob_writer{std::move(s)};
}

or_failure<std::unique_ptr<disk_file>> blobs::open_one(std::string_view sha256) const {
  if (!is_digest(sha256))
    return no_such_blob(sha256);
  auto file = disk_->open(directory_ / std::string{sha256}, disk::how::read);
  if (!file)
    return file.failure() == std::errc::no_such_file_or_directory ? no_such_blob(sha256) : failed_to(cannot_read, file.failure());
  return *std::move(file);
}

or_failure<std::string> blobs::read(std::string_view sha256, std::uint64_t offset, std::size_t bytes) const {
  auto file = open_one(sha256);
  if (!file)
    return file.failure();
  auto size = (*file)->size();
  if (!size)
    return failed_to(cannot_read, size.failure());
  std::string out(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, *size - std::min(*size, offset))), '\0');
  auto n = (*file)->read_at(offset, out);
  if (!n)
    return failed_to(cannot_read, n.failure());
  out.resize(*n);
  return out;
}

or_failure<std::string> blobs::read_whole(std::string_view sha256, std::size_t bytes_max) const {
  auto bytes = size(sha256);
  if (!bytes)
    return bytes.failure();
  if (*bytes > bytes_max)
    return failed_to(concat({cannot_read, ": it has more than ", bytes_max, " bytes"}), std::make_error_code(std::errc::file_too_large));
  auto out = read(sha256, 0, static_cast<std::size_t>(*bytes));
  if (out && to_hex(swarm::sha256(*out)) != sha256)
    return is_damaged();
  return out;
}

or_failure<std::uint64_t> blobs::size(std::string_view sha256) const {
  auto file = open_one(sha256);
  if (!file)
    return file.failure();
  auto bytes = (*file)->size();
  if (!bytes)
    return failed_to(cannot_read, bytes.failure());
  return *bytes;
}

or_failure<std::uint64_t> blobs::check(std::string_view sha256) const {
  auto file = open_one(sha256);
  if (!file)
    return file.failure();
  crypto_hash_sha256_state hash = {};
  crypto_hash_sha256_init(&hash);
  std::vector<char> piece(piece_bytes);
  std::uint64_t bytes = 0;
  for (;;) {
    auto n = (*file)->read_at(bytes, piece);
    if (!n)
      return failed_to(cannot_read, n.failure());
    crypto_hash_sha256_update(&hash, reinterpret_cast<const unsigned char*>(piece.data()), *n);
    bytes += *n;
    if (*n < piece.size())
      break;
  }
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256_final(&hash, reinterpret_cast<unsigned char*>(digest.data()));
  if (to_hex(digest) != sha256)
    return is_damaged();
  return bytes;
}

or_failure<std::vector<blob_file>> blobs::list() const {
  std::vector<blob_file> out;
  auto names = disk_->list(directory_);
  if (!names && names.failure() == std::errc::no_such_file_or_directory)
    return out;
  if (!names)
    return failed_to(cannot_read, names.failure());
  std::sort(names->begin(), names->end());
  for (auto& name : *names) {
    if (!is_digest(name))
      continue;
    auto file = open_one(name);
    if (!file)
      return file.failure();
    auto bytes = (*file)->size();
    auto written = (*file)->changed_ms();
    if (!bytes || !written)
      return failed_to(cannot_read, bytes ? written.failure() : bytes.failure());
    out.push_back({{std::move(name), *bytes}, *written});
  }
  return out;
}

std::optional<disk_failure> blobs::remove(std::string_view sha256) {
  if (!is_digest(sha256))
    return std::nullopt;
  auto error = disk_->remove(directory_ / std::string{sha256});
  if (!error)
    error = disk_->sync_directory(directory_);
  if (error)
    return failed_to("the content cannot be deleted", error);
  return std::nullopt;
}

} // namespace swarm
