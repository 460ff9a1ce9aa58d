#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

constexpr std::size_t sessions = 1'000;
constexpr std::size_t tasks = 20'000;
constexpr std::size_t locks_per_session = 20;
const std::string scope = "/bench/memory";

/// A new node each round: what it has once allocated it would use again.
class memory_suite final : public suite {
public:
  explicit memory_suite(const settings& s) : settings_(s) {}

  void round() override {
    node n{settings_.bin, settings_.dir / ("memory-" + std::to_string(++round_))};
    n.start();
    node_client c{n.socket()};
    // The first of each kind pay for pools and caches that all others share.
    auto first = register_session(c, scope);
    make_tasks(c, scope, 1'000);
    take_locks(c, first, "warm", 500);
    auto per = [&](const std::string& name, std::size_t count, const std::function<void()>& what) {
      auto before = anonymous_memory(n.pid());
      what();
      auto after = anonymous_memory(n.pid());
      samples_.add(name, (static_cast<double>(after) - static_cast<double>(before)) / static_cast<double>(count));
    };
    std::vector<std::string> ids;
    per("session", sessions, [&] {
      for (std::size_t i = 0; i < sessions; ++i)
        ids.push_back(register_session(c, scope));
    });
    per("task", tasks, [&] { make_tasks(c, scope, tasks); });
    per("lock", sessions * locks_per_session, [&] {
      for (const auto& id : ids)
        take_locks(c, id, id, locks_per_session);
    });
    samples_.add("node", static_cast<double>(anonymous_memory(n.pid())) / (1024 * 1024));
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    return {{"memory per idle session of a process", m("session"), "bytes", "", 0, {}},
            {"memory per live task", m("task"), "bytes", "", 0, {}},
            {"memory per dormant lock", m("lock"), "bytes", "", 0, {}},
            {"memory of the node with all of these", m("node"), "MiB", "", 0, {}}};
  }

private:
  void take_locks(node_client& c, const std::string& session, const std::string& folder, std::size_t count) {
    std::size_t i = 0;
    pipeline(
      c,
      [&](v1::Command& out) {
        out = command(scope, session);
        out.mutable_acquire_lock()->set_path(scope + "/" + folder + "/" + std::to_string(i));
        return i++ < count;
      },
      [](const v1::Reply&) {});
  }

  settings settings_;
  int round_ = 0;
};

} // namespace

std::unique_ptr<suite> make_memory_suite(const settings& s) { return std::make_unique<memory_suite>(s); }

} // namespace swarm::bench
