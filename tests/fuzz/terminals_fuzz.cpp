// The files of a terminal under a program of its own: appended to, opened again, damaged. Undamaged they give what a plain list of ranges
// says; damaged they stay within their bounds and never fail a reader who could be served.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "actors/base/limits.hpp"
#include "actors/fabric/terminals/pty_log_files.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

char byte_at(std::uint64_t offset) { return static_cast<char>((offset * 0x9e3779b97f4a7c15u) >> 56); }

class terminal {
public:
  explicit terminal(fs::path dir) : dir_(std::move(dir)), files_(dir_) {}

  void append(std::uint64_t offset, std::size_t n) {
    std::string bytes(n, '\0');
    for (std::size_t i = 0; i < n; ++i)
      bytes[i] = byte_at(offset + i);
    try {
      files_.append(offset, bytes);
    } catch (const std::system_error&) {
      SWARM_HOLDS(damaged_ || offset + n < offset); // an offset no program can reach
      reopen();
      return;
    }
    if (damaged_ || n == 0)
      return;
    if (kept_.empty() || offset > end())
      kept_[offset] = offset + n;
    else
      kept_.rbegin()->second = std::max(end(), offset + n);
    SWARM_HOLDS(files_.end() == end());
    drop_below(files_.start());
    std::uint64_t total = 0;
    for (const auto& [first, last] : kept_)
      total += last - first;
    SWARM_HOLDS(total <= limits::pty_segments_total_bytes());
  }

  void reopen() {
    files_ = pty_log_files{dir_};
    if (!damaged_)
      SWARM_HOLDS(files_.empty() == kept_.empty() && files_.end() == end());
  }

  void read(std::uint64_t from, std::size_t max) {
    std::string out;
    std::uint64_t offset = 0;
    try {
      offset = files_.read(from, max, out);
    } catch (const std::system_error&) {
      SWARM_HOLDS(damaged_);
      return;
    }
    SWARM_HOLDS(offset >= from && out.size() <= max);
    SWARM_HOLDS(files_.start() <= files_.end());
    if (damaged_)
      return;
    auto i = kept_.upper_bound(from);
    if (i != kept_.begin() && std::prev(i)->second > from)
      --i;
    SWARM_HOLDS(out.empty() == (i == kept_.end() || max == 0));
    if (i == kept_.end())
      return;
    SWARM_HOLDS(offset == std::max(from, i->first) && out.size() <= i->second - offset);
    for (auto c : out)
      SWARM_HOLDS(c == byte_at(offset++));
  }

  /// What a crash, a full disk or a person may have left.
  void damage(const std::string& name, const std::string& bytes, bool append) {
    if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos || name.size() > 64 || name == "." || name == "..")
      return;
    fs::create_directories(dir_);
    std::ofstream{dir_ / name, append ? std::ios::app : std::ios::trunc} << bytes;
    damaged_ = true;
    reopen();
  }
  void cut(std::size_t which, std::size_t size) {
    for (const auto& f : fs::directory_iterator{dir_})
      if (which-- == 0) {
        fs::resize_file(f.path(), size % (f.file_size() + 1));
        damaged_ = true;
        return reopen();
      }
  }
  void clear() {
    files_.clear();
    kept_.clear();
    SWARM_HOLDS(files_.empty() && files_.end() == 0);
  }
  bool damaged() const { return damaged_; }

private:
  std::uint64_t end() const { return kept_.empty() ? 0 : kept_.rbegin()->second; }
  /// The oldest go when there is too much.
  void drop_below(std::uint64_t start) {
    while (!kept_.empty() && kept_.begin()->second <= start)
      kept_.erase(kept_.begin());
    if (auto i = kept_.begin(); i != kept_.end() && i->first < start) {
      auto last = i->second;
      kept_.erase(i);
      kept_[start] = last;
    }
  }

  fs::path dir_;
  pty_log_files files_;
  std::map<std::uint64_t, std::uint64_t> kept_; // first offset → the one behind the last
  bool damaged_ = false;
};

void check_record(const fs::path& dir, const std::string& bytes) {
  fs::create_directories(dir);
  std::ofstream{dir / terminal_record_name, std::ios::binary} << bytes;
  auto info = read_terminal_record(dir);
  SWARM_HOLDS(info.has_value() == parse_terminal_record(bytes, dir.filename().string()).has_value());
  if (!info)
    return;
  SWARM_HOLDS(info->id() == dir.filename());
  write_terminal_record(dir, *info);
  auto again = read_terminal_record(dir, info->running() ? terminal_started_name : terminal_record_name);
  SWARM_HOLDS(again && again->SerializeAsString() == info->SerializeAsString());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool small = limits::pty_segment_bytes.set(limits::pty_segment_bytes.lowest());
  SWARM_HOLDS(small);
  fuzz::input in{data, size};
  fuzz::scratch_directory dir;
  fs::create_directories(dir.path / "p");
  terminal t{dir.path / "p"};
  std::uint64_t at = 0;
  auto number = [&in] { return static_cast<std::size_t>(in.byte()) | static_cast<std::size_t>(in.byte()) << 8; };
  for (int n = 0; !in.empty() && n < 32; ++n)
    switch (in.byte() % 9) {
      case 0: {
        auto bytes = number();
        t.append(at, bytes);
        at += bytes;
        break;
      }
      case 1: at += number(); break;
      case 2: at -= std::min<std::uint64_t>(at, number()); break;
      case 3: t.reopen(); break;
      case 4: {
        auto back = number();
        t.read(at - std::min<std::uint64_t>(at, back), number());
        break;
      }
      case 5: {
        auto name = in.piece();
        auto append = in.byte() % 2 == 0;
        t.damage(name, in.piece(), append);
        break;
      }
      case 6: {
        auto which = in.byte();
        t.cut(which, number());
        break;
      }
      case 7:
        if (!t.damaged()) // a file cannot always be removed then
          t.clear();
        at = 0;
        break;
      default:
        at = 0;
        for (int i = 0; i < 8; ++i)
          at |= static_cast<std::uint64_t>(in.byte()) << (8 * i);
    }
  check_record(dir.path / "p", in.rest());
  return 0;
}
