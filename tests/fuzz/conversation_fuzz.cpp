// The log of a conversation under a program of its own: frames are appended, the disk fails, files are damaged or replaced, the log is opened again.
// What is read was written, in this order; while nothing was damaged it is all of it, and each cursor goes on where its reader was.
#include <iterator>
#include <utility>
#include <vector>

#include "actors/base/text.hpp"
#include "actors/store/conversation/log.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/fault_disk.hpp"

using namespace swarm;

namespace {

class world {
public:
  world() {
    options_.segment_bytes = 300;
    options_.total_bytes = 4000;
    options_.new_epoch = [this] { return ++epochs_; };
    open();
    cursors_.push_back(log_->cursor(log_->end()));
    read_.push_back(0);
  }

  void append(std::string body, std::uint8_t kind) {
    conversation_frame frame{.generation = epochs_,
                             .driver_seq = written_.size(),
                             .at_ms = static_cast<std::int64_t>(written_.size()),
                             .kind = kind,
                             .body = std::move(body)};
    const auto before = log_->end();
    if (!log_->append(frame)) {
      SWARM_HOLDS(log_->end() == before);
      SWARM_HOLDS(kind == 0 || failing_);
      return;
    }
    written_.push_back(std::move(frame));
    cursors_.push_back(log_->cursor(log_->end()));
    read_.push_back(written_.size());
  }
  void fail(std::uint8_t at) {
    failing_ = at % 4 != 0;
    failing_ ? disk_.fill(at % 2 == 0) : disk_.heal();
    if (at % 4 == 1)
      disk_.fail_at(1 + at / 16, std::errc::io_error);
  }
  void sync(bool noted) {
    if (log_->sync())
      SWARM_HOLDS(failing_);
    else if (noted)
      options_.synced = log_->end().offset;
  }
  void open() {
    log_.reset();
    disk_.heal();
    failing_ = false;
    auto opened = conversation_log::open(disk_, "/log", options_);
    SWARM_HOLDS(opened);
    log_ = *std::move(opened);
    SWARM_HOLDS(damaged_ || (log_->opened().cut == 0 && !log_->opened().lost));
    check(log_->start(), 0);
  }

  /// From there on, where frames with lower numbers were read.
  void check(log_position at, std::size_t next, std::size_t bytes = 1000) {
    const auto nothing_follows = at == log_->end() && next == 0;
    for (;;) {
      auto batch = log_->read(at, bytes);
      SWARM_HOLDS(batch);
      SWARM_HOLDS(!batch->gap || batch->entries.empty());
      SWARM_HOLDS(!batch->gap || damaged_);
      if (batch->entries.empty() && !batch->gap)
        break;
      for (const auto& e : batch->entries) {
        const auto number = e.frame.driver_seq;
        SWARM_HOLDS(number >= next && number < written_.size());
        SWARM_HOLDS(e.frame == written_[number]);
        SWARM_HOLDS(e.at == at);
        at = e.next;
        next = number + 1;
      }
      SWARM_HOLDS(batch->next.offset >= at.offset);
      at = batch->next;
    }
    SWARM_HOLDS(at == log_->end());
    SWARM_HOLDS(damaged_ || next == written_.size() || nothing_follows);
  }
  void resume(std::size_t which, std::size_t bytes) {
    which %= cursors_.size();
    auto found = log_->resume(cursors_[which]);
    SWARM_HOLDS(found);
    if (!found->gap) {
      check(found->at, read_[which], bytes);
      return;
    }
    SWARM_HOLDS(damaged_ || found->gap->reason == log_gap::why::retention);
    SWARM_HOLDS(found->gap->to == found->at.offset);
    check(found->at, 0, bytes);
  }
  /// A cursor that nobody gave out.
  void resume(const log_cursor& c) {
    auto found = log_->resume(c);
    SWARM_HOLDS(found);
    check(found->at, 0);
    if (auto place = log_->seek(c.at.offset); place && *place != found->at)
      check(*place, 0);
  }

  template <class Change>
  void damage(std::size_t file, Change change) {
    if (disk_.files().empty())
      return;
    const auto name = std::next(disk_.files().begin(), static_cast<std::ptrdiff_t>(file % disk_.files().size()))->first;
    disk_.damage(name, change);
    damaged_ = true;
    open();
  }
  void strange(std::uint64_t base, std::string bytes) {
    const auto name = "/log/" + hex(base, 16) + ".log";
    (void)disk_.open(name, disk::how::make);
    disk_.damage(name, [&bytes](std::string& all) { all = std::move(bytes); });
    damaged_ = true;
    open();
  }

private:
  test::fault_disk disk_;
  log_options options_;
  std::uint64_t epochs_ = 0;
  std::unique_ptr<conversation_log> log_;
  std::vector<conversation_frame> written_;
  std::vector<log_cursor> cursors_;
  std::vector<std::size_t> read_; // how many frames precede it
  bool damaged_ = false;
  bool failing_ = false;
};

std::uint64_t number(fuzz::input& in, unsigned bytes) {
  std::uint64_t n = 0;
  for (unsigned i = 0; i < bytes; ++i)
    n |= static_cast<std::uint64_t>(in.byte()) << (8 * i);
  return n;
}

void strike(world& w, fuzz::input& in) {
  const auto file = in.byte(), what = in.byte();
  const auto at = static_cast<std::size_t>(number(in, 2));
  w.damage(file, [&in, what, at](std::string& bytes) {
    if (what % 4 == 0)
      bytes.resize(at % 2000);
    else if (bytes.empty())
      bytes = in.piece();
    else if (what % 4 == 1)
      bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ static_cast<char>(in.byte()));
    else if (what % 4 == 2) {
      auto part = bytes.substr(at % bytes.size(), in.byte());
      bytes.replace(number(in, 2) % bytes.size(), part.size(), part);
    } else
      bytes.insert(at % bytes.size(), in.piece());
  });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  world w;
  for (int n = 0; !in.empty() && n < 64; ++n)
    switch (in.byte() % 9) {
      case 0:
      case 1: {
        const auto kind = in.byte();
        w.append(in.piece(), kind);
        break;
      }
      case 2: w.sync(in.byte() % 2 == 0); break;
      case 3: w.open(); break;
      case 4: {
        const auto which = in.byte();
        w.resume(which, in.byte());
        break;
      }
      case 5: w.fail(in.byte()); break;
      case 6: strike(w, in); break;
      case 7: {
        const auto base = number(in, 8);
        w.strange(base, in.piece());
        break;
      }
      default: {
        const auto epoch = in.byte();
        const auto offset = number(in, 8);
        w.resume(log_cursor{.epoch = epoch, .at = {offset, static_cast<log_mark>(number(in, 4))}});
      }
    }
  return 0;
}
