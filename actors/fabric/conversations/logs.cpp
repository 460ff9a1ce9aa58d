#include "actors/fabric/conversations/logs.hpp"

#include <algorithm>
#include <fstream>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/conversations/dialogue.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"
#include "actors/store/conversation/copy.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

using self_ptr = conversation_logs_actor::stateful_pointer<conversation_logs_state>;

constexpr std::size_t open_max = limits::pty_logs_open_max;
constexpr auto hello_file = "hello";

fs::path directory_of(self_ptr self, const std::string& id) { return conversations_of(self->state.node->facts.dir) / id; }

log_options options_of(self_ptr self, const conversation_log_name& name) {
  log_options o;
  o.segment_bytes = limits::conversation_segment_bytes();
  o.total_bytes = limits::conversation_log_bytes_max();
  o.segments = limits::conversation_segments_max;
  o.age_ms = limits::conversation_log_retention().count();
  o.synced = name.synced;
  o.now_ms = self->state.node->clock->unix_ms();
  o.new_epoch = [] {
    std::uint64_t n = 0;
    for (unsigned char c : random_bytes(sizeof n))
      n = n << 8 | c;
    return n == 0 ? 1 : n;
  };
  return o;
}

void close(self_ptr self, const std::string& id) {
  auto& st = self->state;
  if (auto i = st.open.find(id); i != st.open.end()) {
    st.order.erase(i->second.used);
    st.open.erase(i);
  }
}

or_failure<conversation_log*> log_of(self_ptr self, const conversation_log_name& name) {
  auto& st = self->state;
  if (!is_plain_name(name.id))
    return failed_to("the conversation's log cannot be opened", std::make_error_code(std::errc::invalid_argument));
  if (st.forgotten.has(name.id))
    return failed_to("the conversation is deleted", std::make_error_code(std::errc::no_such_file_or_directory));
  if (auto i = st.open.find(name.id); i != st.open.end()) {
    st.order.splice(st.order.end(), st.order, i->second.used);
    return i->second.log.get();
  }
  auto opened = conversation_log::open(system_disk(), directory_of(self, name.id), options_of(self, name));
  if (!opened)
    return opened.failure();
  if (auto failed = (*opened)->retain(st.node->clock->unix_ms()))
    log::warn({"conversation ", name.id, ": ", failed->text});
  if (st.open.size() >= open_max)
    close(self, std::string{st.order.front()});
  auto& entry = st.open[name.id];
  entry.log = *std::move(opened);
  entry.used = st.order.insert(st.order.end(), name.id);
  if (const auto& lost = entry.log->opened().lost)
    log::error({"conversation ", name.id, ": its log has lost the bytes from ", lost->from, " to ", lost->to});
  return entry.log.get();
}

caf::error failure_of(const disk_failure& f) {
  if (f.code == std::errc::no_such_file_or_directory)
    return fail(errc::not_found, f.text);
  // A person has to mend it: who asks again gets the same.
  if (f.code == std::errc::permission_denied || f.code == std::errc::not_a_directory || f.code == std::errc::read_only_file_system)
    return fail(errc::state_dir, f.text);
  return fail(f.is_full() ? errc::low_disk : errc::store_failed, f.text);
}

// -- hello -----------------------------------------------------------------------------------------

/// "generation nonce", the newest first.
std::vector<std::pair<std::uint32_t, std::string>> hellos_of(self_ptr self, const std::string& id) {
  std::vector<std::pair<std::uint32_t, std::string>> out;
  std::ifstream in{directory_of(self, id) / hello_file};
  std::uint32_t generation = 0;
  for (std::string nonce; out.size() < limits::driver_hellos_kept && in >> generation >> nonce;)
    out.emplace_back(generation, from_hex(nonce));
  return out;
}

std::error_code write_file(disk& d, const fs::path& path, std::string_view text) {
  const fs::path fresh = path.string() + ".new";
  if (auto error = d.remove(fresh))
    return error;
  auto file = d.open(fresh, disk::how::make);
  if (!file)
    return file.failure();
  auto error = (*file)->write_at(0, text);
  if (!error)
    error = (*file)->sync();
  if (!error)
    error = d.rename(fresh, path);
  return error ? error : d.sync_directory(path.parent_path());
}

caf::result<bool> keep_hello(self_ptr self, const log_hello& h) {
  if (auto log = log_of(self, h.log); !log)
    return failure_of(log.failure());
  auto all = hellos_of(self, h.log.id);
  all.insert(all.begin(), {h.generation, h.nonce});
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), limits::driver_hellos_kept); ++i)
    text += concat({all[i].first, " ", to_hex(all[i].second), "\n"});
  if (auto error = write_file(system_disk(), directory_of(self, h.log.id) / hello_file, text))
    return failure_of(failed_to("what the driver is greeted with cannot be kept", error));
  return true;
}

// -- the log ---------------------------------------------------------------------------------------

struct read_tail {
  log_tail tail;
  bool has_any = false;                // of the generation
  std::uint64_t generation_before = 0; // of the newest frame before
};

/// Reads backwards, further each time, until it has seen where the generation or its last turn begins.
or_failure<read_tail> tail_of(const conversation_log& log, std::uint64_t generation) {
  const auto end = log.end().offset, start = log.start().offset;
  for (std::uint64_t back = 1 * limits::mib;; back *= 4) {
    const auto from = end - std::min(end - start, back);
    auto at = log.seek(from);
    if (!at)
      return at.failure();
    read_tail out;
    bool seen = from == start;
    for (;;) {
      auto batch = log.read(*at, limits::conversation_page_bytes);
      if (!batch)
        return batch.failure();
      for (const auto& e : batch->entries) {
        seen |= e.frame.generation < generation || (e.frame.generation == generation && e.frame.kind == v1::CONVERSATION_TURN);
        out.has_any |= e.frame.generation == generation;
        if (e.frame.generation < generation)
          out.generation_before = e.frame.generation;
        take_frame(out.tail, static_cast<std::uint32_t>(generation), e.frame);
      }
      if (batch->entries.empty() && !batch->gap)
        break;
      at = batch->next;
    }
    if (seen)
      return out;
  }
}

caf::result<log_state_ptr> look(self_ptr self, const log_question& q) {
  auto log = log_of(self, q.log);
  if (!log)
    return failure_of(log.failure());
  if (auto failed = (*log)->sync())
    return failure_of(*failed);
  auto tail = tail_of(**log, q.generation);
  if (!tail)
    return failure_of(tail.failure());
  auto out = std::make_shared<log_state>();
  out->end = (*log)->cursor((*log)->end());
  if (!tail->has_any && tail->generation_before != 0) {
    auto before = tail_of(**log, tail->generation_before);
    if (!before)
      return failure_of(before.failure());
    out->generation_before = static_cast<std::uint32_t>(tail->generation_before);
    out->before = std::move(before->tail);
  }
  out->tail = std::move(tail->tail);
  for (auto& [generation, nonce] : hellos_of(self, q.log.id))
    if (generation == q.generation)
      out->nonces.push_back(std::move(nonce));
  return log_state_ptr{out};
}

caf::result<log_state_ptr> append(self_ptr self, const log_frames& f) {
  auto log = log_of(self, f.log);
  if (!log)
    return failure_of(log.failure());
  const auto before = (*log)->end();
  for (const auto& frame : f.frames)
    if (auto at = (*log)->append(frame); !at) {
      // Some of them may stand in the log by now: the caller reads the log again before it appends.
      return (*log)->end() == before ? failure_of(at.failure()) : fail(errc::unavailable, at.failure().text);
    }
  if (f.sync)
    if (auto failed = (*log)->sync())
      return fail(errc::unavailable, failed->text);
  auto out = std::make_shared<log_state>();
  out->end = (*log)->cursor((*log)->end());
  return log_state_ptr{out};
}

/// What is said from now on is not hidden by damage before it.
void leave_damage(self_ptr self, const std::string& id, const log_batch& read) {
  auto& entry = self->state.open.at(id);
  const auto end = entry.log->end().offset;
  const bool reaches_end = read.gap && read.gap->reason == log_gap::why::damaged && read.next.offset == end;
  if (!reaches_end || entry.damaged_to == end)
    return;
  if (auto failed = entry.log->turn_over(self->state.node->clock->unix_ms()))
    return log::warn({"conversation ", id, ": ", failed->text});
  entry.damaged_to = end;
}

/// A reader that begins with the oldest entry that is kept hears why it does not get those before it.
log_gap gap_at_begin(const conversation_log& log, const std::optional<log_gap>& next) {
  const auto start = log.start().offset;
  const auto& lost = log.opened().lost;
  const bool was_lost = (lost && lost->to >= start) || (next && next->from <= start);
  return {0, next ? next->to : start, was_lost ? log_gap::why::damaged : log_gap::why::retention};
}

caf::result<log_pages_ptr> read(self_ptr self, const log_reading& r) {
  auto found = log_of(self, r.log);
  if (!found)
    return failure_of(found.failure());
  const auto& log = **found;
  auto out = std::make_shared<log_pages>();
  auto at = log.start();
  if (r.from && r.resumes) {
    auto resumed = log.resume(*r.from);
    if (!resumed)
      return failure_of(resumed.failure());
    at = resumed->at;
    out->gap = resumed->gap;
    out->next = log.cursor(at);
    return log_pages_ptr{out};
  }
  if (r.from)
    at = r.from->at;
  if (!r.from && r.tail_bytes > 0 && log.end().offset > at.offset + r.tail_bytes) {
    auto tail = log.seek(log.end().offset - r.tail_bytes);
    if (!tail)
      return failure_of(tail.failure());
    out->skipped = tail->offset - at.offset;
    out->next = log.cursor(*tail);
    return log_pages_ptr{out};
  }
  auto batch = log.read(at, limits::conversation_page_bytes);
  if (!batch)
    return failure_of(batch.failure());
  leave_damage(self, r.log.id, *batch);
  out->gap = batch->gap;
  if (!r.from && log.start().offset > 0)
    out->gap = gap_at_begin(log, out->gap);
  v1::ConversationItem item; // the same for all: it has its memory then
  for (auto& e : batch->entries)
    if (item.ParseFromString(e.frame.body))
      out->entries.push_back({.item = std::move(e.frame.body), .ends_item = item.last(), .next = log.cursor(e.next)});
  out->next = log.cursor(batch->next);
  return log_pages_ptr{out};
}

void age(self_ptr self, const conversation_log_name& name) {
  auto found = log_of(self, name);
  auto failed = found ? (*found)->retain(self->state.node->clock->unix_ms()) : std::optional{found.failure()};
  if (failed)
    log::warn({"conversation ", name.id, ": ", failed->text});
}

} // namespace

conversation_logs_actor::behavior_type conversation_logs(self_ptr self, node_environment_ptr node) {
  runtime::install_defaults(self);
  self->state.node = std::move(node);
  return {
    [self](const log_question_ptr& q) { return look(self, *q); },
    [self](const log_frames_ptr& f) { return append(self, *f); },
    [self](const log_hello_ptr& h) { return keep_hello(self, *h); },
    [self](const log_reading_ptr& r) { return read(self, *r); },
    [self](const log_ageing_ptr& a) { age(self, a->log); },
    [self](forget_atom, const std::string& id) {
      close(self, id);
      self->state.forgotten.add(id);
    },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up", std::to_string(self->state.open.size()) + " open")}; },
  };
}

} // namespace swarm
