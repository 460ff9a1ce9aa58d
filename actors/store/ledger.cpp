#include "actors/store/ledger.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <limits>
#include <new>

#include <google/protobuf/io/coded_stream.h>
#include <sqlite3.h>

#include "actors/base/crypto.hpp"
#include "actors/base/log.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/store/apply.hpp"

namespace swarm {

namespace {

/// SQLite gives the log and its index the mode of the file, so the file has to be private before SQLite sees it. An existing file
/// is not opened here: closing it again would drop the locks of this process's other connections.
const std::string& make_private(const std::string& path, const std::string& vfs) {
  if (!vfs.empty())
    return path;
  auto fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0)
    ::close(fd);
  else if (errno != EEXIST)
    throw store_error{errc::store_failed, "cannot create the store " + path + ": " + std::generic_category().message(errno)};
  return path;
}

ledger_options completed(ledger_options options, const std::string& path) {
  if (!options.new_uuid)
    options.new_uuid = random_uuid;
  if (!options.barrier)
    options.barrier = std::make_shared<read_barrier>();
  if (!options.free_disk_bytes)
    options.free_disk_bytes = [directory = std::filesystem::absolute(path).parent_path()] {
      std::error_code unknown;
      auto space = std::filesystem::space(directory, unknown);
      // Not knowing is no reason to refuse work: a full disk still shows as a failed write.
      return unknown ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(space.available);
    };
  return options;
}

outcome answer(v1::Reply reply) { return {std::make_shared<const v1::Reply>(std::move(reply)), std::nullopt}; }

bool changes_something(const v1::Batch& batch) {
  return batch.patches_size() > 0 || batch.events_size() > 0 || batch.resolved_size() > 0 || batch.delete_events_below() != 0;
}

/// Of the batch only the scope's row.
v1::Batch counters_of(const v1::Batch& batch) {
  v1::Batch out;
  out.set_scope(batch.scope());
  for (const auto& patch : batch.patches())
    if (patch.has_scope_state())
      *out.add_patches() = patch;
  return out;
}

std::optional<std::string> malformed(const v1::RequestId& id) {
  constexpr auto highest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (id.client().size() > limits::request_client_bytes_max)
    return "the request id's client name is longer than " + std::to_string(limits::request_client_bytes_max) + " bytes";
  if (id.seq() == 0 || id.seq() >= highest)
    return "the request id's number must count up from 1";
  return std::nullopt;
}

} // namespace

// -- opening and closing -------------------------------------------------------------------

ledger::ledger(const std::string& path, ledger_options options) try
  : options_(completed(std::move(options), path)), db_(make_private(path, options_.vfs), {.vfs = options_.vfs}),
    log_(make_private(path + ".commits", options_.vfs), options_.vfs), rows_(db_), staged_(rows_, [this] { write_events(); }) {
  auto existed = stored_schema_version(db_) != 0;
  migrate(db_);
  if (existed) {
    was_clean_ = fact(db_, "clean") == "1";
    if (!was_clean_)
      settle_log();
    grace_until_ms_ = options_.clock->unix_ms() + options_.grace.count();
  } else {
    set_fact(db_, "created_ms", std::to_string(options_.clock->unix_ms()));
  }
  replies_.emplace(db_);
  recover();
  if (fact(db_, "restored") == "1")
    raise_epochs();
  set_fact(db_, "node_id", options_.node_id);
  set_fact(db_, "clean", "0");
  start_log();
  options_.barrier->lift();
  status_.schema_version = schema_version();
  status_.integrity = was_clean_ ? "ok" : "unchecked";
} catch (const sqlite::error& e) {
  throw store_error{errc::store_failed, e.what()};
}

/// After a failed fsync the kernel counts the lost pages of the log as written: what recovery reads from memory may not be on the
/// disk, nor ever get there, and everything appended behind it would be lost with it. So what was recovered is written again, into
/// the database file, and the log restarted, before anything is answered.
void ledger::settle_log() {
  if (db_.number("PRAGMA wal_checkpoint(TRUNCATE)") != 0)
    throw store_error{errc::store_failed, "the store's log cannot be settled while another program or a backup reads it"};
}

/// What the commit log has and the database not yet.
void ledger::recover() {
  generation_ = from_hex(fact(db_, "commit_log"));
  auto known = fact(db_, "commit_log_known");
  caught_up_ = 0;
  std::from_chars(known.data(), known.data() + known.size(), caught_up_);
  db_.run("BEGIN IMMEDIATE");
  log_.read(generation_, caught_up_, [this](std::string_view record) { replay(record); });
  replies_->write();
  // A start that fails between here and the new log must not write all of this once more.
  set_fact(db_, "commit_log_known", std::to_string(log_.newest()));
  db_.run("COMMIT");
}

void ledger::replay(std::string_view bytes) {
  internal::CommitRecord record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw sqlite::error{SQLITE_MISMATCH, "the commit log contains an unreadable record"};
  for (const auto& entry : record.entries()) {
    try {
      write_alone(entry.batch());
    } catch (const sqlite::io_failure&) {
      throw;
    } catch (const sqlite::error& e) {
      log::error({"an effect of ", entry.request().client(), " ", entry.request().seq(), " cannot be written: ", e.what()});
      // Better without it than not at all. But it was answered: the answer stays, and so does what it has taken from the counters.
      write_alone(counters_of(entry.batch()));
    }
    for (const auto& wait : entry.batch().resolved())
      replies_->resolve(wait);
    if (!entry.remembered())
      continue;
    request_key id{entry.principal(), entry.request().client(), entry.request().seq()};
    replies_->remember(id, entry.digest(), entry.batch().reply(), entry.at_ms());
    replies_->acknowledge(id, entry.request().acked_below(), replies_->watermark(id), entry.at_ms());
  }
}

/// Makes the log void: everything in it is in the database, and that is on the disk, once this transaction is.
void ledger::start_log() {
  auto generation = commit_log::new_generation();
  db_.run("PRAGMA synchronous=FULL");
  db_.run("BEGIN IMMEDIATE");
  set_fact(db_, "commit_log", to_hex(generation));
  set_fact(db_, "commit_log_known", "0");
  db_.run("COMMIT");
  // From now on the log makes commits durable; the database only has to be in one piece.
  db_.run("PRAGMA synchronous=NORMAL");
  caught_up_ = 0;
  generation_ = generation;
  log_.start(std::move(generation));
}

/// The file is a backup: what was handed out after it was made is unknown, so fences and revisions go up an epoch.
void ledger::raise_epochs() {
  db_.run("BEGIN IMMEDIATE");
  for (auto state : rows_.rows<v1::ScopeState>({})) {
    v1::Batch batch;
    state.set_epoch(state.epoch() + 1);
    auto base = state.epoch() << limits::epoch_shift;
    state.set_fence(std::max(state.fence(), base));
    state.set_revision(std::max(state.revision(), base));
    *batch.add_patches()->mutable_scope_state() = std::move(state);
    apply(db_, batch);
  }
  set_fact(db_, "restored", "0");
  db_.run("COMMIT");
}

ledger::~ledger() {
  try {
    close();
  } catch (const std::exception&) {
    // The next one to open the file recovers it from the log.
    db_.abandon();
  }
}

void ledger::close() {
  if (!usable_)
    return;
  catch_up();
  usable_ = false;
  db_.run("PRAGMA synchronous=FULL");
  set_fact(db_, "commit_log", "");
  set_fact(db_, "clean", "1");
  db_.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

// -- executing -----------------------------------------------------------------------------

executed ledger::execute_all(std::span<const execution_ptr> commands) {
  if (!usable_)
    throw store_error{errc::store_failed, "the store has failed or was closed and must be opened again"};
  now_ms_ = options_.clock->unix_ms();
  std::vector<decided> all;
  try {
    try {
      all = decide_together(commands);
    } catch (const sqlite::io_failure&) {
      throw;
    } catch (const sqlite::error&) {
      // One of them breaks a rule of the tables: each for itself, so that only that one is refused.
      begin_again();
      all = decide_apart(commands);
    }
    window_commands_ += commands.size();
    make_durable();
    if (options_.is_in_place && !options_.is_in_place())
      throw std::runtime_error("the store's file is no longer where it was opened: somebody has moved or replaced it");
  } catch (const std::exception& e) {
    fail_for_good(e);
  }
  ++status_.commits;
  status_.commands += commands.size();
  auto done = std::make_shared<commit>();
  for (auto& d : all)
    if (d.batch)
      done->batches.push_back(std::move(*d.batch));
  executed result;
  auto next = done->batches.cbegin();
  for (auto& d : all)
    // Replies live inside the commit they belong to.
    result.outcomes.push_back(d.batch ? outcome{reply_ptr{done, &(next++)->reply()}, std::nullopt} : std::move(d.answer));
  if (!done->batches.empty())
    result.committed = std::move(done);
  return result;
}

void ledger::fail_for_good(const std::exception& e) {
  // Also a failed sync ends here: the kernel may have dropped the very pages a second try would report as written.
  usable_ = false;
  group_ = nullptr;
  db_.abandon();
  throw store_error{errc::store_failed, e.what()};
}

/// Takes back what the commands being executed have written: nothing in the database's transaction, then what was answered in it.
void ledger::begin_again() {
  if (db_.in_transaction())
    db_.repeat("ROLLBACK");
  staged_.forget();
  replies_.emplace(db_);
  db_.repeat("BEGIN IMMEDIATE");
  auto appended = log_.newest();
  log_.read(generation_, caught_up_, [this](std::string_view record) { replay(record); });
  if (log_.newest() != appended)
    throw sqlite::io_failure{SQLITE_CORRUPT, "the commit log cannot be read back"};
}

/// Appends the record of the commands being executed. Only after that may the database show them to others.
void ledger::make_durable() {
  if (record_.empty())
    return;
  options_.barrier->close();
  log_.append(record_);
  if (!log_.full())
    return;
  commit_window();
  start_log();
}

void ledger::write_late_rows() {
  try {
    staged_.write_all(db_);
  } catch (const sqlite::io_failure&) {
    throw;
  } catch (const sqlite::error&) {
    // What was answered is written again command by command, so that only what the tables refuse is missing.
    begin_again();
  }
}

void ledger::commit_window() {
  if (db_.in_transaction()) {
    write_late_rows();
    replies_->write();
    set_fact(db_, "commit_log_known", std::to_string(log_.newest()));
    replies_->sweep(now_ms_);
    db_.repeat("COMMIT");
  }
  caught_up_ = log_.newest();
  window_commands_ = 0;
  options_.barrier->lift();
}

void ledger::catch_up() {
  if (!usable_)
    throw store_error{errc::store_failed, "the store has failed or was closed and must be opened again"};
  try {
    commit_window();
  } catch (const std::exception& e) {
    fail_for_good(e);
  }
}

/// Adds what became of a command to the record.
void ledger::log(const execution& e, const std::string& digest, bool remembers, v1::Batch& batch) {
  entry_.Clear();
  entry_.mutable_batch()->Swap(&batch);
  if (remembers) {
    entry_.set_remembered(true);
    entry_.set_principal(domain::principal_key(e.command.principal()));
    *entry_.mutable_request() = e.id;
    entry_.set_digest(digest);
    entry_.set_at_ms(now_ms_);
  }
  // As serialising a CommitRecord would write it.
  using google::protobuf::io::CodedOutputStream;
  constexpr auto tag = internal::CommitRecord::kEntriesFieldNumber << 3 | 2u;
  auto bytes = static_cast<std::uint32_t>(entry_.ByteSizeLong());
  auto at = record_.size();
  record_.resize(at + CodedOutputStream::VarintSize32(tag) + CodedOutputStream::VarintSize32(bytes) + bytes);
  auto* to = reinterpret_cast<std::uint8_t*>(record_.data() + at);
  to = CodedOutputStream::WriteTagToArray(tag, to);
  to = CodedOutputStream::WriteVarint32ToArray(bytes, to);
  entry_.SerializeWithCachedSizesToArray(to);
  entry_.mutable_batch()->Swap(&batch);
}

/// Decides all commands over staged rows and writes what came of it once: a row that several commands change costs one write.
std::vector<ledger::decided> ledger::decide_together(std::span<const execution_ptr> commands) {
  std::vector<decided> all;
  all.reserve(commands.size());
  group_ = &all;
  events_written_ = 0;
  record_.clear();
  if (!db_.in_transaction())
    db_.repeat("BEGIN IMMEDIATE");
  for (const auto& command : commands)
    all.push_back(execute(*command));
  staged_.write(db_);
  write_events();
  group_ = nullptr;
  return all;
}

std::vector<ledger::decided> ledger::decide_apart(std::span<const execution_ptr> commands) {
  std::vector<decided> all;
  all.reserve(commands.size());
  group_ = nullptr;
  apart_ = true;
  record_.clear();
  for (const auto& command : commands)
    all.push_back(execute(*command));
  apart_ = false;
  staged_.forget();
  return all;
}

void ledger::write_events() {
  if (group_ == nullptr)
    return;
  for (; events_written_ < group_->size(); ++events_written_)
    if (const auto& batch = (*group_)[events_written_].batch)
      apply_events(db_, *batch);
}

ledger::decided ledger::execute(const execution& e) {
  // The node's own commands have no request id: they are safe to repeat by what they say.
  auto remembers = !e.id.client().empty();
  auto digest = e.digest.empty() ? domain::digest_of(e.command) : e.digest;
  request_key id{domain::principal_key(e.command.principal()), e.id.client(), e.id.seq()};
  std::uint64_t watermark = 0;
  if (remembers) {
    if (auto wrong = malformed(e.id))
      return {answer(domain::refuse(v1::Refusal::INVALID, std::move(*wrong))), std::nullopt};
    watermark = replies_->watermark(id);
    if (auto known = recall(id, digest, watermark))
      return {std::move(*known), std::nullopt};
  }
  if (!disk_allows(e.command))
    return {{nullptr, errc::low_disk}, std::nullopt};
  auto batch = decide_and_apply(e, digest);
  for (const auto& wait : batch.resolved())
    replies_->resolve(wait);
  // Looking for mail and finding none took nothing away, so repeating it may look again.
  remembers = remembers && (changes_something(batch) || !e.command.has_consume_messages());
  if (remembers) {
    replies_->remember(id, digest, batch.reply(), now_ms_);
    replies_->acknowledge(id, e.id.acked_below(), watermark, now_ms_);
  }
  if (remembers || changes_something(batch))
    log(e, digest, remembers, batch);
  if (changes_something(batch))
    return {{}, std::move(batch)};
  return {answer(std::move(*batch.mutable_reply())), std::nullopt};
}

std::optional<outcome> ledger::recall(const request_key& id, const std::string& digest, std::uint64_t watermark) {
  if (id.seq < watermark)
    return answer(domain::refuse(v1::Refusal::STALE,
                                 "this request id is too old: its answer is no longer kept, and it is never run twice; look at the "
                                 "current state and send a new request"));
  std::optional<reply_memory::remembered> known;
  try {
    known = replies_->find(id);
  } catch (const sqlite::io_failure&) {
    throw;
  } catch (const sqlite::error& damaged) {
    return answer(domain::refuse(v1::Refusal::UNAVAILABLE, std::string{"the answer to this request cannot be read: "} + damaged.what()));
  }
  if (!known)
    return std::nullopt;
  if (known->digest != digest)
    return answer(domain::refuse(v1::Refusal::INVALID, "request id was already used for another command"));
  known->reply.set_repeated(true);
  return answer(std::move(known->reply));
}

v1::Batch ledger::decide_and_apply(const execution& e, const std::string& digest) {
  try {
    domain::inputs in{now_ms_,         options_.new_uuid,         e.id, options_.node_id, options_.user_identity, digest,
                      grace_until_ms_, options_.identity_boundary};
    auto batch = domain::decide(e.command, apart_ ? static_cast<const domain::rows_view&>(rows_) : staged_, in, e.valid);
    if (batch.ByteSizeLong() > limits::batch_encoded_bytes_max)
      throw sqlite::error{SQLITE_TOOBIG, "the command's effects are larger than " + std::to_string(limits::batch_encoded_bytes_max / limits::kib) +
                                           " KiB; split it into smaller ones"};
    if (apart_)
      write_alone(batch);
    else
      staged_.stage(batch);
    return batch;
  } catch (const sqlite::io_failure&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const sqlite::error& error) {
    v1::Batch refused;
    auto too_big = (error.code() & 0xff) == SQLITE_TOOBIG;
    *refused.mutable_reply() =
      domain::refuse(too_big ? v1::Refusal::LIMIT : v1::Refusal::UNAVAILABLE, std::string{"the store could not do this: "} + error.what());
    return refused;
  } catch (const std::exception& error) {
    v1::Batch refused;
    *refused.mutable_reply() = domain::refuse(v1::Refusal::UNAVAILABLE, std::string{"the command failed: "} + error.what());
    return refused;
  }
}

/// All of the batch or nothing of it, whatever becomes of the other commands of the transaction.
void ledger::write_alone(const v1::Batch& batch) {
  if (!changes_something(batch))
    return;
  db_.repeat("SAVEPOINT command");
  try {
    apply(db_, batch);
  } catch (const sqlite::io_failure&) {
    throw;
  } catch (...) {
    if (!db_.in_transaction())
      throw sqlite::io_failure{SQLITE_ABORT, "SQLite gave up the transaction"};
    db_.repeat("ROLLBACK TO command");
    db_.repeat("RELEASE command");
    throw;
  }
  db_.repeat("RELEASE command");
}

// -- disk ----------------------------------------------------------------------------------

void ledger::probe_disk() {
  auto now = options_.clock->boot_ms();
  if (probed_ms_ && now - *probed_ms_ < 1'000)
    return;
  probed_ms_ = now;
  auto free_bytes = options_.free_disk_bytes();
  status_.low_disk = free_bytes < limits::disk_low_bytes();
  status_.critical_disk = free_bytes < limits::disk_critical_bytes();
}

bool ledger::disk_allows(const v1::Command& command) {
  probe_disk();
  return !status_.critical_disk && !(status_.low_disk && domain::grows_store(command));
}

store_status ledger::status() {
  probe_disk(); // no command may come while the disk fills
  return status_;
}

} // namespace swarm
