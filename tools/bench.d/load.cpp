#include <atomic>
#include <mutex>
#include <stdexcept>

#include "tools/bench.d/operations.hpp"
#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

const std::string scope = "/bench/load";
constexpr int window = 256; // commands under way on a pipelined connection

/// What a pair of commands cannot do without, in the order in which it happens: a call, a sync, a call, a sync.
operation echo_and_sync_operation(const echo_server& server, const std::filesystem::path& file) {
  auto synced = std::make_shared<synced_file>(file);
  return [synced, echo = echo_operation(server)] {
    for (int i = 0; i < 2; ++i) {
      echo();
      synced->write_page();
    }
    return true;
  };
}

operation etcd_lock_operation(const etcd_server& server, int client) {
  auto stub = std::shared_ptr{server.connect()};
  return [stub, key = "/bench/lock/" + std::to_string(client)] {
    etcd_execute(*stub, etcd_release(key, etcd_execute(*stub, etcd_acquire(key))));
    return true;
  };
}

/// A task's row, about as long as ours, that goes from open to claimed to done.
operation etcd_task_operation(const etcd_server& server, int client, const std::string& run) {
  auto stub = std::shared_ptr{server.connect()};
  auto key = "/bench/task/" + run + "/" + std::to_string(client);
  std::string body(360, 'x');
  auto seen = std::make_shared<std::int64_t>(etcd_execute(*stub, etcd_step(key, 0, body)));
  return [stub, key, body, seen] {
    *seen = etcd_execute(*stub, etcd_step(key, *seen, body + "claimed"));
    *seen = etcd_execute(*stub, etcd_step(key, *seen, body + "done"));
    return true;
  };
}

class load_suite final : public suite {
public:
  explicit load_suite(const settings& s) : settings_(s), echo_(s.tools, s.dir), etcd_(s.dir / "etcd"), node_(s.bin, s.dir / "load") {
    node_.start();
    node_client operator_client{node_.socket()};
    for (int i = 0; i < 64; ++i)
      sessions_.push_back(register_session(operator_client, scope));
  }

  void round() override {
    auto file = settings_.dir / "fdatasync";
    auto sync = closed_loop(1, settings_.length / 3, [&](int) { return sync_operation(file); });
    samples_.add("fdatasync", sync.p50_ms);
    take("in turn", 1, [&](int) { return echo_and_sync_operation(echo_, file); });
    ++round_;
    for (int clients : {1, 16, 64}) {
      auto name = std::to_string(clients);
      take("echo " + name, clients, [&](int) { return echo_operation(echo_); });
      take("lock " + name, clients, [&](int i) { return lock_of(i); });
      take("etcd lock " + name, clients, [&](int i) { return etcd_lock_operation(etcd_, i); });
      run_tasks("task " + name, clients);
      take("etcd task " + name, clients, [&](int i) { return etcd_task_operation(etcd_, i, name + "/" + std::to_string(round_)); });
    }
    samples_.add("pipelined", pipelined());
    samples_.add("etcd pipelined", etcd_pipelined());
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    auto floor = 2 * m("fdatasync") + 2 * m("echo 1 p50");
    std::vector<row> out;
    out.push_back({"fdatasync of one page, p50", m("fdatasync"), "ms", "", 0, {}, true});
    out.push_back({"echo, 1 client, p50", m("echo 1 p50"), "ms", "", 0, {}, true});
    for (auto clients : {"1", "16", "64"})
      out.push_back({std::string{"echo, "} + clients + " clients", m(std::string{"echo "} + clients + " rate"), "calls/s", "", 0, {}, true});
    out.push_back({"two echoes and two fdatasync in turn, p50", m("in turn p50"), "ms", "2 fdatasync + 2 echo", floor, {}, true});
    for (const auto& [kind, title] : {std::pair{"lock", "lock+unlock"}, std::pair{"task", "claim+complete"}}) {
      auto ours = std::string{kind} + " ", theirs = std::string{"etcd "} + kind + " ", what = std::string{title};
      out.push_back({what + ", 1 client, p50", m(ours + "1 p50"), "ms", "2 fdatasync + 2 echo", floor, {goal::ratio_at_most, 2}});
      out.push_back({what + ", 1 client, p50", m(ours + "1 p50"), "ms", "etcd, two Txns, p50", m(theirs + "1 p50"), {goal::ratio_at_most, 0.85}});
      out.push_back({what + ", 1 client, p99", m(ours + "1 p99"), "ms", "etcd, two Txns, p99", m(theirs + "1 p99"), {goal::ratio_at_most, 0.5}});
      for (auto n : {"16", "64"}) {
        auto rate = 2 * m(ours + n + " rate"); // a pair is two calls
        auto name = what + ", " + n + " clients";
        out.push_back({name, rate, "calls/s", "etcd, Txns/s", 2 * m(theirs + n + " rate"), {goal::ratio_at_least, 2}});
        out.push_back({name, rate, "calls/s", "echo, calls/s", m(std::string{"echo "} + n + " rate"), {goal::ratio_at_least, 0.5}});
      }
    }
    out.push_back({"lock+unlock, pipelined on one stream",
                   m("pipelined"),
                   "commands/s",
                   "etcd, 256 Txns under way, Txns/s",
                   m("etcd pipelined"),
                   {goal::ratio_at_least, 4}});
    return out;
  }

private:
  void take(const std::string& name, int clients, const std::function<operation(int)>& make) {
    auto r = closed_loop(clients, settings_.length, make);
    samples_.add(name + " p50", r.p50_ms);
    samples_.add(name + " p99", r.p99_ms);
    samples_.add(name + " rate", r.per_second);
  }

  operation lock_of(int client) {
    return lock_operation(node_.socket(), scope, sessions_[static_cast<std::size_t>(client)], scope + "/file-" + std::to_string(client));
  }

  /// The tasks are made before; a run ends early when all of them are done.
  void run_tasks(const std::string& name, int clients) {
    node_client maker{node_.socket()};
    auto ids = make_tasks(maker, scope, clients == 1 ? 2'000 : 8'000);
    std::atomic<std::size_t> next{0};
    take(name, clients, [&](int i) -> operation {
      auto c = std::make_shared<node_client>(node_.socket());
      return [&, c, session = sessions_[static_cast<std::size_t>(i)]] {
        auto at = next++;
        if (at >= ids.size())
          return false;
        auto claim = command(scope, session);
        claim.mutable_claim_task()->set_task_id(ids[at]);
        auto fence = c->execute(claim).task().task().fence();
        auto complete = command(scope, session);
        complete.mutable_complete_task()->set_task_id(ids[at]);
        complete.mutable_complete_task()->set_summary("changed what the title says; the tests pass");
        complete.mutable_complete_task()->set_fence(fence);
        c->execute(complete);
        return true;
      };
    });
  }

  double pipelined() {
    node_client c{node_.socket()};
    const auto& session = sessions_.front();
    auto start = steady::now();
    std::size_t sent = 0, answered = 0;
    pipeline(
      c,
      [&](v1::Command& out) {
        if (sent % 2 == 0 && steady::now() - start >= settings_.length)
          return false;
        auto path = scope + "/pipelined-" + std::to_string(sent / 2 % window);
        out = sent % 2 == 0 ? acquire(scope, session, path) : release(scope, session, path, 0);
        ++sent;
        return true;
      },
      [&](const v1::Reply&) { ++answered; });
    return static_cast<double>(answered) / (ms_since(start) / 1000);
  }

  /// etcd has no stream of transactions, so as many calls at once on one connection, driven from one thread.
  double etcd_pipelined() {
    struct slot {
      std::string key;
      std::int64_t created = 0; // 0: the next step is to acquire
      std::unique_ptr<grpc::ClientContext> context;
      std::unique_ptr<grpc::ClientAsyncResponseReader<etcd::TxnResponse>> call;
      etcd::TxnResponse answer;
      grpc::Status status;
    };
    auto stub = etcd_.connect();
    grpc::CompletionQueue queue;
    std::vector<slot> slots(window);
    auto begin = [&](slot& s) {
      s.context = std::make_unique<grpc::ClientContext>();
      s.call = stub->AsyncTxn(s.context.get(), s.created == 0 ? etcd_acquire(s.key) : etcd_release(s.key, s.created), &queue);
      s.call->Finish(&s.answer, &s.status, &s);
    };
    auto start = steady::now();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i].key = "/bench/pipelined/" + std::to_string(i);
      begin(slots[i]);
    }
    std::size_t answered = 0;
    void* tag = nullptr;
    bool ok = false;
    for (auto left = slots.size(); left > 0 && queue.Next(&tag, &ok);) {
      auto& s = *static_cast<slot*>(tag);
      check(s.status, "etcd's Txn");
      if (!s.answer.succeeded())
        throw std::runtime_error("etcd: a comparison failed");
      ++answered;
      s.created = s.created == 0 ? s.answer.header().revision() : 0;
      if (s.created == 0 && steady::now() - start >= settings_.length)
        --left;
      else
        begin(s);
    }
    return static_cast<double>(answered) / (ms_since(start) / 1000);
  }

  settings settings_;
  echo_server echo_;
  etcd_server etcd_;
  node node_;
  std::vector<std::string> sessions_;
  int round_ = 0;
};

} // namespace

std::unique_ptr<suite> make_load_suite(const settings& s) { return std::make_unique<load_suite>(s); }

} // namespace swarm::bench
