// The home's store in virtual time: the product's ledger with its commit log, behind one writer that collects and commits as
// actors/store/writer does, and readers on a connection of their own.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "actors/store/ledger.hpp"
#include "tools/simulate.d/schedule.hpp"

namespace swarm::simulate {

class home_store {
public:
  struct totals {
    std::uint64_t commands = 0, syncs = 0, overloaded = 0, catch_ups = 0;
    std::uint64_t queries = 0, rows_read = 0;
    std::size_t line = 0; // longest
    micros writer_busy = 0, readers_busy = 0;
    micros longest_read_wait = 0;
  };
  using answered = std::function<void(const outcome&)>;
  using read = std::function<void(const answer_ptr&)>;

  /// `committed` hears of every commit before the callers get their answers.
  home_store(schedule&, const settings&, std::function<void(const commit_ptr&)> committed);
  home_store(const home_store&) = delete;
  home_store& operator=(const home_store&) = delete;

  /// All at once, before the simulated time begins. Throws std::logic_error for one that is refused.
  std::vector<reply_ptr> prepare(const std::vector<execution_ptr>&);
  /// False, and nothing will happen, when limits::writer_line_commands_max() wait.
  bool submit(execution_ptr, answered);
  void ask(query_ptr, read);

  std::size_t waiting_commands() const { return line_.size(); }
  std::size_t waiting_queries() const { return questions_.size() + catching_up_.size(); }
  const totals& so_far() const { return totals_; }
  void forget_totals() { totals_ = {}; }

private:
  struct waiting {
    execution_ptr command;
    answered done;
  };
  struct question {
    query_ptr what;
    read done;
    micros since = 0;
  };
  struct kept_page {
    answer_ptr answer;
    micros took = 0, until = 0;
  };

  void writer_free();
  void flush();
  void write(std::vector<waiting>);
  void catch_up();
  void start_reading();
  kept_page& read_page(const v1::Query&);
  /// What a part of the machine takes for so many of something, of which it has just done so much.
  static micros taken(std::optional<micros> each, std::size_t count, std::int64_t measured_ns) {
    return each ? *each * static_cast<micros>(count) : measured_ns / 1'000;
  }

  schedule& time_;
  settings settings_;
  std::function<void(const commit_ptr&)> committed_;
  std::unique_ptr<ledger> book_;
  std::unique_ptr<sqlite::connection> reading_;
  std::unique_ptr<sqlite_rows> rows_;
  std::deque<waiting> line_;
  std::vector<question> catching_up_; // until the writer has caught up
  std::deque<question> questions_;
  bool writing_ = false, timer_ = false;
  std::size_t reading_now_ = 0;
  std::map<std::string, kept_page> pages_;
  totals totals_;
};

} // namespace swarm::simulate
