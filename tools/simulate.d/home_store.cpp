#include "tools/simulate.d/home_store.hpp"

#include <limits>
#include <stdexcept>

#include "actors/base/crypto.hpp"
#include "actors/domain/decide.hpp"

namespace swarm::simulate {

namespace {

/// Hundreds of nodes ask for the same page within seconds: it is answered once and charged to each. What has changed meanwhile shows as late.
constexpr micros page_kept = 10 * one_second;

std::size_t rows_of(const v1::Answer& a) {
  return static_cast<std::size_t>(a.sessions().sessions_size() + a.spawns().spawns_size() + a.scopes().scopes_size());
}

} // namespace

home_store::home_store(schedule& time, const settings& s, std::function<void(const commit_ptr&)> committed)
  : time_(time), settings_(s), committed_(std::move(committed)) {
  ledger_options o;
  o.clock = &time_;
  o.new_uuid = seeded_uuids(s.seed);
  o.node_id = "home";
  o.user_identity = "user:simulated";
  o.free_disk_bytes = [] { return std::numeric_limits<std::uint64_t>::max(); };
  auto path = (s.dir / "home.db").string();
  book_ = std::make_unique<ledger>(path, std::move(o));
  reading_ = std::make_unique<sqlite::connection>(
    path, sqlite::open_options{.query_only = true, .create = false, .vfs = {}, .cache_kib = limits::reader_cache_bytes / limits::kib});
  rows_ = std::make_unique<sqlite_rows>(*reading_);
}

std::vector<reply_ptr> home_store::prepare(const std::vector<execution_ptr>& commands) {
  std::vector<reply_ptr> replies;
  for (std::size_t from = 0; from < commands.size(); from += limits::writer_batch_commands_max()) {
    auto count = std::min(limits::writer_batch_commands_max(), commands.size() - from);
    for (auto& o : book_->execute_all(std::span{commands}.subspan(from, count)).outcomes) {
      if (!o.reply || o.reply->has_refusal())
        throw std::logic_error("the simulated cluster cannot be set up: " + (o.reply ? o.reply->refusal().text() : "the store is short of disk"));
      // On its own: the commit it lives in is larger.
      replies.push_back(std::make_shared<const v1::Reply>(*o.reply));
    }
    if (book_->far_behind())
      book_->catch_up();
  }
  book_->catch_up();
  return replies;
}

// -- the writer ----------------------------------------------------------------------------

bool home_store::submit(execution_ptr command, answered done) {
  if (line_.size() >= limits::writer_line_commands_max()) {
    ++totals_.overloaded;
    return false;
  }
  line_.push_back({std::move(command), std::move(done)});
  totals_.line = std::max(totals_.line, line_.size());
  if (!writing_) {
    writing_ = true;
    time_.in(0, [this] { flush(); }); // what comes at the same moment joins
  }
  return true;
}

void home_store::writer_free() {
  if (!catching_up_.empty())
    return catch_up();
  if (!line_.empty())
    return flush();
  writing_ = false;
}

void home_store::flush() {
  std::vector<waiting> batch;
  while (!line_.empty() && batch.size() < limits::writer_batch_commands_max()) {
    batch.push_back(std::move(line_.front()));
    line_.pop_front();
  }
  if (batch.empty())
    return writer_free();
  write(std::move(batch));
}

void home_store::write(std::vector<waiting> batch) {
  std::vector<execution_ptr> commands;
  for (const auto& w : batch)
    commands.push_back(w.command);
  std::int64_t ns = 0;
  executed done;
  {
    charged cost{ns};
    done = book_->execute_all(commands);
  }
  auto took = taken(settings_.per_command, commands.size(), ns) + settings_.sync;
  totals_.commands += commands.size();
  ++totals_.syncs;
  totals_.writer_busy += took;
  time_.in(took, [this, all = std::make_shared<std::vector<waiting>>(std::move(batch)), result = std::make_shared<executed>(std::move(done))] {
    if (result->committed)
      committed_(result->committed);
    for (std::size_t i = 0; i < all->size(); ++i)
      (*all)[i].done(result->outcomes[i]);
    if (book_->far_behind())
      return catch_up();
    if (book_->behind() && !std::exchange(timer_, true))
      time_.in(limits::writer_window.count() * one_ms, [this] {
        timer_ = false;
        if (!std::exchange(writing_, true))
          catch_up();
      });
    writer_free();
  });
}

/// The writer is free for it.
void home_store::catch_up() {
  std::int64_t ns = 0;
  {
    charged cost{ns};
    book_->catch_up();
  }
  // A commit of rows already written: its time goes with their number, which the commands' time stands for when that is given.
  auto took = settings_.per_command ? *settings_.per_command : ns / 1'000;
  ++totals_.catch_ups;
  totals_.writer_busy += took;
  time_.in(took, [this] {
    for (auto& q : std::exchange(catching_up_, {}))
      questions_.push_back(std::move(q));
    start_reading();
    writer_free();
  });
}

// -- the readers ---------------------------------------------------------------------------

void home_store::ask(query_ptr what, read done) {
  question q{std::move(what), std::move(done), time_.now()};
  if (!book_->behind()) {
    questions_.push_back(std::move(q));
    return start_reading();
  }
  catching_up_.push_back(std::move(q));
  if (!std::exchange(writing_, true))
    time_.in(0, [this] { catch_up(); });
}

home_store::kept_page& home_store::read_page(const v1::Query& q) {
  auto& page = pages_[q.SerializeAsString()];
  if (page.answer && page.until > time_.now())
    return page;
  std::int64_t ns = 0;
  {
    charged cost{ns};
    domain::inputs in;
    in.now_ms = time_.unix_ms();
    in.node_id = "home";
    reading_->repeat("BEGIN");
    page.answer = std::make_shared<const v1::Answer>(domain::answer(q, *rows_, in));
    reading_->repeat("ROLLBACK");
  }
  page.took = taken(settings_.per_row, rows_of(*page.answer), ns);
  page.until = time_.now() + page_kept;
  return page;
}

void home_store::start_reading() {
  while (reading_now_ < settings_.readers && !questions_.empty()) {
    auto q = std::move(questions_.front());
    questions_.pop_front();
    const auto& page = read_page(*q.what);
    ++reading_now_;
    ++totals_.queries;
    totals_.rows_read += rows_of(*page.answer);
    totals_.readers_busy += page.took;
    totals_.longest_read_wait = std::max(totals_.longest_read_wait, time_.now() - q.since);
    time_.in(page.took, [this, done = std::move(q.done), answer = page.answer] {
      --reading_now_;
      done(answer);
      start_reading();
    });
  }
}

} // namespace swarm::simulate
