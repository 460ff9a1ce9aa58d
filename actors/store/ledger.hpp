// The ledger: executes commands, durably and once each.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/clock.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/transaction.hpp"
#include "actors/store/commit_log.hpp"
#include "actors/store/interfaces.hpp"
#include "actors/store/reply_memory.hpp"
#include "actors/store/schema.hpp"
#include "actors/store/sqlite_rows.hpp"
#include "actors/store/staged_rows.hpp"
#include "swarm/internal/commit_log.pb.h"

namespace swarm {

/// What the store is told about the node it serves. The clock must outlive it.
struct ledger_options {
  const clock_port* clock = &system_clock_port();
  std::function<std::string()> new_uuid;
  std::string node_id;
  /// Identity of sessions whose label has none, for instance "user:ada".
  std::string user_identity;
  /// `[identity] boundary` of the configuration.
  bool identity_boundary = false;
  /// SQLite VFS; empty = the default one.
  std::string vfs;
  /// Bytes free on the store's disk; unset = ask the file system. Asked at most once a second.
  std::function<std::uint64_t()> free_disk_bytes;
  /// How long after opening an existing store nothing expires.
  std::chrono::milliseconds grace = limits::restart_grace();
  /// Whether the store's file is still where it was opened; unset = it is not looked at. Asked before each answer: what is written to a file that
  /// somebody has moved away or replaced is in no store.
  std::function<bool()> is_in_place;
  /// Closed while readers cannot see all that has been answered; unset = nobody reads.
  std::shared_ptr<read_barrier> barrier;
};

/// What became of one command: a reply (possibly a refusal), or the reason the store would not look at it.
struct outcome {
  reply_ptr reply;
  std::optional<errc> error;
};

struct executed {
  std::vector<outcome> outcomes; // one per command, in order
  commit_ptr committed;          // the batches that changed something; null when none did
};

/// One connection and the commit log, used by one thread at a time.
class ledger {
public:
  /// Opens or creates the file (mode 0600) and migrates it. Throws store_error.
  ledger(const std::string& path, ledger_options);
  /// As close(), unless the ledger has failed: then the file is left as it is for the next one to recover.
  ~ledger();
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  /// Executes the commands in order; when it returns, all of it is durable: in the commit log, and only after catch_up() in the
  /// database. A command that fails by itself is answered with a refusal and leaves nothing behind. Throws store_error when a file
  /// failed: then the outcome of all of them is unknown, and this ledger refuses everything from now on.
  executed execute_all(std::span<const execution_ptr>);

  /// Commits to the database what has been executed, so that other connections see it. Throws like execute_all().
  void catch_up();
  /// Something has been executed that others cannot see yet.
  bool behind() const noexcept { return window_commands_ > 0; }
  /// It is time to catch up, so that what a restart has to do again stays bounded.
  bool far_behind() const noexcept { return window_commands_ >= limits::writer_window_commands_max; }

  /// Marks a clean stop and empties the write-ahead log. Nothing can be executed afterwards.
  void close();

  /// False when the program that had the store open before did not get to close it.
  bool was_clean() const noexcept { return was_clean_; }
  /// Counters and disk state; `integrity` is "ok" after a clean stop, else "unchecked".
  store_status status();

private:
  struct decided {
    outcome answer;
    std::optional<v1::Batch> batch; // changes something; its reply is the answer
  };

  void settle_log();
  void recover();
  void replay(std::string_view record);
  void start_log();
  void make_durable();
  void commit_window();
  void begin_again();
  [[noreturn]] void fail_for_good(const std::exception&);
  void log(const execution&, const std::string& digest, bool remembers, v1::Batch&);
  void raise_epochs();
  std::vector<decided> decide_together(std::span<const execution_ptr>);
  std::vector<decided> decide_apart(std::span<const execution_ptr>);
  void write_late_rows();
  void write_events();
  decided execute(const execution&);
  std::optional<outcome> recall(const request_key&, const std::string& digest, std::uint64_t watermark);
  v1::Batch decide_and_apply(const execution&, const std::string& digest);
  void write_alone(const v1::Batch&);
  bool disk_allows(const v1::Command&);
  void probe_disk();

  ledger_options options_;
  sqlite::connection db_; // in a transaction from the first command after catch_up() on
  commit_log log_;
  sqlite_rows rows_;
  staged_rows staged_;
  bool apart_ = false;                    // every command is written by itself, inside a savepoint
  std::vector<decided>* group_ = nullptr; // the transaction's commands so far
  std::size_t events_written_ = 0;        // of so many of them
  std::optional<reply_memory> replies_;
  std::int64_t grace_until_ms_ = 0;
  std::optional<std::int64_t> probed_ms_;
  std::int64_t now_ms_ = 0;     // of the commands being executed
  std::string generation_;      // of the commit log
  std::uint64_t caught_up_ = 0; // number of the record up to which the database has it
  std::string record_;          // of the commands being executed
  internal::CommitEntry entry_; // its memory is used again
  std::size_t window_commands_ = 0;
  store_status status_;
  bool was_clean_ = true;
  bool usable_ = true;
};

} // namespace swarm
