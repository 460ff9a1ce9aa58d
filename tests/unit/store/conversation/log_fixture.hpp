// What the tests of a conversation's log share: a log on a disk that fails on command, and all that can be read of it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "actors/store/conversation/log.hpp"
#include "tests/support/fault_disk.hpp"

namespace swarm::test {

inline conversation_frame text_frame(std::string body, std::int64_t at_ms = 1000) {
  return {.generation = 1, .driver_seq = 7, .at_ms = at_ms, .kind = 2, .body = std::move(body)};
}

/// Everything from a place to the end, and the gaps between.
struct reading {
  std::vector<log_entry> entries;
  std::vector<log_gap> gaps;

  std::vector<std::string> bodies() const {
    std::vector<std::string> out;
    for (const auto& e : entries)
      out.push_back(e.frame.body);
    return out;
  }
};

inline reading read_on(const conversation_log& log, log_position from, std::size_t at_once = 100) {
  reading out;
  for (;;) {
    auto batch = log.read(from, at_once);
    REQUIRE(batch);
    out.entries.insert(out.entries.end(), batch->entries.begin(), batch->entries.end());
    if (batch->gap)
      out.gaps.push_back(*batch->gap);
    if (batch->entries.empty() && !batch->gap) {
      REQUIRE(batch->next == log.end());
      return out;
    }
    REQUIRE(batch->next.offset > from.offset);
    from = batch->next;
  }
}

inline reading read_all(const conversation_log& log) { return read_on(log, log.start()); }

/// One conversation, opened as often as the test likes.
class log_world {
public:
  log_world() {
    options.segment_bytes = 200;
    options.total_bytes = 10'000;
    options.new_epoch = [this] { return ++epochs; };
  }

  /// As a node that starts.
  conversation_log& open() {
    log.reset();
    auto opened = conversation_log::open(disk, "/log", options);
    REQUIRE(opened);
    log = *std::move(opened);
    return *log;
  }
  log_position append(const std::string& body, std::int64_t at_ms = 1000) {
    auto at = log->append(text_frame(body, at_ms));
    REQUIRE(at);
    return *at;
  }
  log_resumed resume(const log_cursor& c) const {
    auto found = log->resume(c);
    REQUIRE(found);
    return *found;
  }
  std::optional<log_gap::why> why_not(const log_cursor& c) const {
    auto found = resume(c);
    return found.gap ? std::optional{found.gap->reason} : std::nullopt;
  }
  void sync() { REQUIRE_FALSE(log->sync()); }
  void damage(std::uint64_t base, std::size_t at) {
    disk.damage("/log/" + file_name(base), [at](std::string& bytes) { bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1); });
  }
  static std::string file_name(std::uint64_t base) {
    char text[32];
    std::snprintf(text, sizeof text, "%016llx.log", static_cast<unsigned long long>(base));
    return text;
  }

  fault_disk disk;
  log_options options;
  std::uint64_t epochs = 0;
  std::unique_ptr<conversation_log> log;
};

} // namespace swarm::test
