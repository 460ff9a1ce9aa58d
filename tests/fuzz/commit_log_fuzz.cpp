// The commit log under a program of its own: records are appended, generations begun, the file damaged and opened again. What is read
// is what was written, up to the damage; a file of anybody's bytes gives no record at all.
#include <vector>

#include "actors/store/commit_log.hpp"
#include "swarm/internal/commit_log.pb.h"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/fault_vfs.hpp"

using namespace swarm;

namespace {

const std::string path = "/log";

class world {
public:
  world() { open(); }

  void append(const std::string& payload) {
    // As the store does: what the damage cut off must not come back behind new records.
    if (damaged_)
      start();
    log_->append(payload);
    written_.push_back(payload);
  }
  void start() {
    generation_ = std::string(15, 'g') + static_cast<char>(++generations_);
    log_->start(generation_);
    written_.clear();
    damaged_ = false;
  }
  void flip(std::size_t at, std::uint8_t with) {
    auto& bytes = file();
    if (bytes.empty() || with == 0)
      return;
    bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ static_cast<char>(with));
    damaged_ = true;
    open();
  }
  void cut(std::size_t at) {
    file().resize(at % (file().size() + 1));
    damaged_ = true;
    open();
  }
  /// As a disk does that wrote a sector to the wrong place.
  void move(std::size_t from, std::size_t to, std::size_t n) {
    auto& bytes = file();
    if (bytes.empty())
      return;
    auto part = bytes.substr(from % bytes.size(), n);
    bytes.replace(to % bytes.size(), part.size(), part);
    damaged_ = true;
    open();
  }
  void open() {
    log_.reset();
    log_ = std::make_unique<commit_log>(path, disk_.name());
    check(0);
  }

  void check(std::uint64_t after) {
    std::vector<std::string> found;
    log_->read(generation_, after, [&](std::string_view payload) { found.emplace_back(payload); });
    SWARM_HOLDS(log_->newest() <= written_.size());
    SWARM_HOLDS(damaged_ || log_->newest() == written_.size());
    SWARM_HOLDS(found.size() == log_->newest() - std::min<std::uint64_t>(after, log_->newest()));
    for (std::size_t i = 0; i < found.size(); ++i)
      SWARM_HOLDS(found[i] == written_[i + after]);
  }

  /// The whole file is the input's.
  void replace(std::string bytes) {
    file() = std::move(bytes);
    written_.clear();
    open();
    SWARM_HOLDS(log_->newest() == 0);
  }

private:
  std::string& file() { return disk_.files.at(path)->now; }

  test::fault_vfs disk_;
  std::unique_ptr<commit_log> log_;
  std::string generation_ = std::string(16, 'g');
  std::vector<std::string> written_;
  std::uint8_t generations_ = 0;
  bool damaged_ = false;
};

void check_record(const std::string& bytes) {
  internal::CommitRecord record, again;
  if (!record.ParseFromString(bytes))
    return;
  SWARM_HOLDS(again.ParseFromString(record.SerializeAsString()));
  SWARM_HOLDS(again.SerializeAsString() == record.SerializeAsString());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  world w;
  for (int n = 0; !in.empty() && n < 64; ++n) {
    auto number = [&in] { return static_cast<std::size_t>(in.byte()) | static_cast<std::size_t>(in.byte()) << 8; };
    switch (in.byte() % 8) {
      case 0:
      case 1: {
        auto payload = in.piece();
        check_record(payload);
        w.append(payload);
        break;
      }
      case 2: w.start(); break;
      case 3: w.open(); break;
      case 4: w.check(in.byte()); break;
      case 5: {
        auto at = number();
        w.flip(at, in.byte());
        break;
      }
      case 6: w.cut(number()); break;
      default: {
        auto from = number(), to = number();
        if (auto n_bytes = number(); n_bytes == 0)
          w.replace(in.piece());
        else
          w.move(from, to, n_bytes);
      }
    }
  }
  return 0;
}
