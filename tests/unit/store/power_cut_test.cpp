// The power cut at any operation of a longer life of the store: its log starts over several times, workers are asked for, start and end,
// a restored file begins a new epoch, and a sweep removes what is old.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "tests/support/fault_vfs.hpp"
#include "tests/unit/store/store_fixture.hpp"

using namespace swarm;
using namespace swarm::test;
using namespace std::chrono_literals;

namespace {

const std::string path = "/store.db";

/// A limit with another value for the life of a test.
template <class T>
class with_limit {
public:
  with_limit(limits::bound<T>& which, T value) : which_(which), before_(which()) { REQUIRE(which.set(value)); }
  ~with_limit() { which_.set(before_); }
  with_limit(const with_limit&) = delete;
  with_limit& operator=(const with_limit&) = delete;

private:
  limits::bound<T>& which_;
  T before_;
};

/// A log of a few commands, and rows that are old within the time for which replies are kept.
struct small_limits {
  with_limit<std::size_t> log{limits::commit_log_bytes_max, limits::commit_log_bytes_max.lowest()};
  with_limit<limits::milliseconds> rows{limits::row_retention, limits::row_retention.lowest()};
  with_limit<limits::milliseconds> spawns{limits::spawn_key_retention, limits::spawn_key_retention.lowest()};
};

v1::Command node_command() {
  auto cmd = operator_command();
  cmd.mutable_principal()->set_kind(v1::Principal::NODE);
  return cmd;
}

v1::Command dispatch_true() {
  auto cmd = operator_command();
  auto& d = *cmd.mutable_dispatch();
  d.set_title("build it");
  d.set_harness("exec");
  d.add_argv("/bin/true");
  d.set_directory("/src");
  d.set_label("identity:test");
  return cmd;
}

v1::Command request_shell() {
  auto cmd = operator_command();
  auto& s = *cmd.mutable_request_spawn();
  s.set_role("terminal");
  s.set_key("one");
  s.set_harness("shell");
  s.set_directory("/src");
  s.set_label("identity:test");
  return cmd;
}

v1::Command starting(const std::string& spawn, std::int64_t pid) {
  auto cmd = node_command();
  auto& s = *cmd.mutable_spawn_starting();
  s.set_spawn_id(spawn);
  s.set_attempt(1);
  s.set_pid(pid);
  s.set_pid_start(static_cast<std::uint64_t>(pid));
  s.set_token_hash(std::string(32, static_cast<char>(pid)));
  return cmd;
}

v1::Command running(const std::string& spawn) {
  auto cmd = node_command();
  cmd.mutable_spawn_running()->set_spawn_id(spawn);
  cmd.mutable_spawn_running()->set_attempt(1);
  return cmd;
}

v1::Command ended(const std::string& spawn, const std::string& output) {
  auto cmd = node_command();
  auto& s = *cmd.mutable_spawn_ended();
  s.set_spawn_id(spawn);
  s.set_attempt(1);
  s.set_output_tail(output);
  return cmd;
}

v1::Command claim(const std::string& session, const std::string& task) {
  auto cmd = session_command(session);
  cmd.mutable_claim_task()->set_task_id(task);
  return cmd;
}

v1::Command sweep() {
  auto cmd = node_command();
  cmd.mutable_sweep()->set_mode("periodic");
  return cmd;
}

/// The fence that the reply to a claim, a lock or the start of a spawn hands out.
std::uint64_t fence_in(const v1::Reply& reply) {
  switch (reply.body_case()) {
    case v1::Reply::kLock: return reply.lock().lock().fence();
    case v1::Reply::kTask: return reply.task().task().fence();
    default: return reply.spawn().spawn().fence();
  }
}

struct promise_made {
  execution_ptr command;
  std::string reply;
};

/// One disk with everything that was promised from it, over all openings.
class life {
public:
  life(fault_vfs& disk, manual_clock& clock) : disk_(disk), clock_(clock) {}

  /// Tells the whole story, or as much as the disk allows. What was told before is told again: it must change nothing.
  bool tell() {
    try {
      open();
      story();
      close();
      return true;
    } catch (const store_error&) {
    } catch (const sqlite::error&) {
    }
    book_.reset();
    return false;
  }

  void check_promises() {
    open();
    for (const auto& [id, p] : promised_) {
      CAPTURE(id);
      auto again = reply_to(*book_, p.command);
      CHECK(again.repeated());
      CHECK(first_form(again) == p.reply);
    }
    book_.reset();
  }

  std::size_t log_generations() const { return generations_.size(); }
  std::size_t promises() const { return promised_.size(); }

private:
  void open() {
    auto options = options_for(clock_, ++openings_);
    options.vfs = disk_.name();
    options.grace = 0ms; // the sweep ends sessions also after a restart
    book_ = std::make_unique<ledger>(path, std::move(options));
  }
  void close() {
    book_->close();
    book_.reset();
  }

  /// The same number is the same request, whenever it is sent.
  v1::Reply send(std::uint64_t id, v1::Command cmd) {
    auto command = numbered(id, std::move(cmd));
    auto reply = reply_to(*book_, command);
    promised_.try_emplace(id, promise_made{command, first_form(reply)});
    look_at_log();
    return reply;
  }
  void refuse(std::uint64_t id, v1::Command cmd) {
    auto reply = send(id, std::move(cmd));
    CHECK(reply.has_refusal());
  }
  void grant(std::uint64_t id, v1::Command cmd) {
    auto reply = send(id, std::move(cmd));
    REQUIRE_MESSAGE(!reply.has_refusal(), id, ": ", reply.refusal().text());
    note_fence(fence_in(reply), "request " + std::to_string(id));
  }
  /// The node's own commands are not remembered: what they say makes a repetition harmless.
  v1::Reply report(v1::Command cmd) {
    auto reply = reply_to(*book_, from_node(std::move(cmd)));
    look_at_log();
    return reply;
  }
  void start(const std::string& spawn, std::int64_t pid) {
    if (auto reply = report(starting(spawn, pid)); !reply.has_refusal())
      note_fence(fence_in(reply), "spawn " + spawn);
  }

  /// No fence is handed out twice, and a later one is greater.
  void note_fence(std::uint64_t fence, const std::string& who) {
    REQUIRE(fence != 0);
    auto known = fences_.find(fence);
    CHECK_MESSAGE((known == fences_.end() || known->second == who), "fence ", fence, " of ", who);
    CHECK((known != fences_.end() || fences_.empty() || fence > fences_.rbegin()->first));
    fences_.emplace(fence, who);
  }

  void look_at_log() { generations_.insert(disk_.files.at(path + ".commits")->now.substr(0, 16)); }

  void fill(std::uint64_t first_id) {
    for (std::uint64_t i = 0; i < 5; ++i)
      send(first_id + i, set_kv("large-" + std::to_string(first_id + i), std::string(15'000, static_cast<char>('a' + i))));
  }

  /// What restoring a backup leaves behind; once.
  void begin_new_epoch() {
    close();
    {
      sqlite::connection db{path, {.query_only = false, .create = false, .vfs = disk_.name(), .cache_kib = 1024}};
      if (fact(db, "epoch_of_test").empty()) {
        db.run("PRAGMA synchronous=FULL");
        db.run("BEGIN IMMEDIATE");
        set_fact(db, "epoch_of_test", "begun");
        set_fact(db, "restored", "1");
        db.run("COMMIT");
      }
    }
    open();
  }

  void story() {
    send(1, register_session("session-a"));
    send(2, register_session("session-b"));
    auto command = send(3, dispatch_true()).dispatch().spawn().id();
    auto terminal = send(4, request_shell()).spawn().spawn().id();
    fill(10);
    grant(20, acquire("session-a", "/src/f"));
    refuse(21, acquire("session-b", "/src/f"));
    auto task = send(22, create_task("by hand", "key-1")).tasks_created().tasks(0).task().id();
    grant(23, claim("session-b", task));
    start(command, 100);
    report(running(command));
    book_->catch_up();
    fill(30);
    start(terminal, 101);
    report(ended(command, std::string(8'000, 'o')));
    send(40, send_message("session-a", "session-b", std::string(9'000, 'm')));
    refuse(41, create_kv("large-10", "refused"));
    auto again = send(42, dispatch_true());
    CHECK(again.dispatch().status() == v1::DispatchReply::ALREADY_TERMINAL);
    report(running(terminal));
    begin_new_epoch();
    grant(50, acquire("session-a", "/src/g"));
    send(51, release("session-a", "/src/f"));
    report(ended(terminal, "bye"));
    if (clock_.unix_ms() < later_)
      clock_.advance(std::chrono::milliseconds{later_ - clock_.unix_ms()});
    while (report(sweep()).sweep().more()) {
    }
    fill(60);
    send(70, register_session("session-c"));
    grant(71, acquire("session-c", "/src/f"));
    send(72, delete_kv("large-11"));
  }

  fault_vfs& disk_;
  manual_clock& clock_;
  const std::int64_t later_ = clock_.unix_ms() + (limits::row_retention() + 1h).count();
  std::unique_ptr<ledger> book_;
  std::uint64_t openings_ = 0;
  std::map<std::uint64_t, promise_made> promised_;
  std::map<std::uint64_t, std::string> fences_;
  std::set<std::string> generations_;
};

/// What the store holds, without what depends on time and chance.
std::string summary(const fault_vfs& disk) {
  sqlite::connection db{path, {.query_only = false, .create = true, .vfs = disk.name(), .cache_kib = 1024}};
  auto ok = db.prepared("PRAGMA integrity_check").use();
  REQUIRE(ok.step());
  CHECK(ok.view_at(0) == "ok");
  sqlite_rows rows{db};
  std::string out;
  auto line = [&out](const std::string& what, const auto&... parts) {
    out += what;
    ((out += " ", out += parts), ...);
    out += "\n";
  };
  for (const auto& s : rows.rows<v1::Session>({}))
    line("session", s.id().rfind("session-", 0) == 0 ? s.id() : s.label());
  for (const auto& l : rows.rows<v1::Lock>({}))
    line("lock", l.path(), l.session_id(), std::to_string(l.fence()));
  for (const auto& e : rows.rows<v1::KvEntry>({}))
    line("kv", e.key(), std::to_string(e.value().size()));
  for (const auto& t : rows.rows<v1::Task>({}))
    line("task", t.title(), v1::TaskStatus_Name(t.status()));
  line("spawns", std::to_string(rows.total<v1::Spawn>({})));
  line("messages", std::to_string(rows.total<v1::Message>({})));
  line("credentials", std::to_string(rows.rows<v1::Credential>({}).size()));
  auto state = rows.row<v1::ScopeState>("build");
  line("revision", std::to_string(state->revision()), "fence", std::to_string(state->fence()), "epoch", std::to_string(state->epoch()));
  // Revisions have no gaps within an epoch.
  auto events = rows.events("build", 0, 0);
  REQUIRE_FALSE(events.empty());
  CHECK(events.back().revision() == state->revision());
  for (std::size_t i = 1; i < events.size(); ++i) {
    auto same_epoch = events[i].revision() >> limits::epoch_shift == events[i - 1].revision() >> limits::epoch_shift;
    CHECK((events[i].revision() == events[i - 1].revision() + 1 || (!same_epoch && events[i].revision() > events[i - 1].revision())));
  }
  line("events from", std::to_string(events.front().revision()));
  return out;
}

} // namespace

TEST_CASE("a power cut anywhere in a long life of the store loses nothing that was answered, and telling it again ends the same") {
  small_limits small;
  std::uint64_t operations = 0;
  std::size_t promises = 0;
  std::string whole;
  {
    fault_vfs disk;
    manual_clock clock;
    life undisturbed{disk, clock};
    REQUIRE(undisturbed.tell());
    operations = disk.operations();
    promises = undisturbed.promises();
    whole = summary(disk);
    CAPTURE(whole);
    REQUIRE(undisturbed.log_generations() > 4);
    CHECK(whole.find("epoch 2") != std::string::npos);
    CHECK(whole.find("spawns 0") != std::string::npos);
    CHECK(whole.find("lock /src/f session-c") != std::string::npos);
    CHECK(whole.find("kv large-10 15000") != std::string::npos);
  }
  auto full = std::getenv("SWARM_TEST_FULL") != nullptr;
  const std::uint64_t step = full ? 1 : operations / 8;
  for (std::uint64_t torn = 0; torn <= (full ? 2u : 1u); ++torn)
    for (std::uint64_t k = 1 + torn * step / 2; k <= operations; k += step) {
      CAPTURE(torn);
      CAPTURE(k);
      fault_vfs disk;
      manual_clock clock;
      if (torn != 0)
        disk.tear(torn * 10'000 + k);
      disk.cut_power_at(k);
      life cut{disk, clock};
      REQUIRE_FALSE(cut.tell());
      REQUIRE_FALSE(disk.powered());
      disk.reboot();
      cut.check_promises();
      REQUIRE(cut.tell());
      CHECK(cut.promises() == promises);
      CHECK(summary(disk) == whole);
      cut.check_promises();
    }
}
