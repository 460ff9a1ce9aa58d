// A real swarm-keeper in a temporary state directory, and a client that remembers what it was told.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "actors/base/process.hpp"
#include "services/keeper/client.hpp"

namespace swarm::testing {

namespace fs = std::filesystem;

inline constexpr std::chrono::seconds patience{20};

class temp_dir {
public:
  temp_dir() {
    std::string name = "/tmp/swarm-keeper-test-XXXXXX";
    if (!mkdtemp(name.data()))
      throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~temp_dir() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  temp_dir(const temp_dir&) = delete;
  temp_dir& operator=(const temp_dir&) = delete;
  const fs::path& path() const { return path_; }

private:
  fs::path path_;
};

inline fs::path keeper_program() {
  auto dir = std::getenv("SWARM_TEST_BIN_DIR");
  REQUIRE_MESSAGE(dir != nullptr, "SWARM_TEST_BIN_DIR names the directory of the programs");
  return fs::path{dir} / "swarm-keeper";
}

/// For conditions that nobody announces, such as a process being gone.
inline bool eventually(const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

inline bool is_running(pid_t pid) {
  auto p = read_process(pid);
  return p && !p->is_dead();
}

inline std::string file_text(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  // A process that ends meanwhile makes reading its files fail, which the stream itself takes for the end.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A child as the events told it.
struct seen_child {
  int at_gate = 0;
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;
  std::shared_ptr<const ring_reader> ring;
  std::string failure;
  std::vector<keeper_exit> exits;
  std::map<std::uint64_t, std::pair<std::uint64_t, bool>> input;
};

class recorder final : public keeper_events {
public:
  void welcome(std::int64_t keeper_pid, std::vector<keeper_child> children) override {
    change([&] {
      keeper = keeper_pid;
      for (auto& c : children)
        seen[c.id].ring = c.ring;
      listed = std::move(children);
      welcomed = true;
    });
  }
  void at_gate(const std::string& id, std::uint32_t, std::int64_t pid, std::uint64_t start, std::shared_ptr<const ring_reader> ring) override {
    change([&] {
      auto& c = seen[id];
      ++c.at_gate;
      c.pid = pid;
      c.pid_start = start;
      c.ring = std::move(ring);
    });
  }
  void start_failed(const std::string& id, std::uint32_t, const std::string& text) override {
    change([&] { seen[id].failure = text; });
  }
  void output_advanced(const std::string&, std::uint64_t) override {
    change([] {});
  }
  void exited(const keeper_exit& e) override {
    change([&] { seen[e.id].exits.push_back(e); });
  }
  void input_accepted(const std::string& id, std::uint64_t ticket, std::uint64_t bytes, bool closed) override {
    change([&] { seen[id].input[ticket] = {bytes, closed}; });
  }
  void disconnected(const std::string& text) override {
    change([&] {
      gone = true;
      reason = text;
    });
  }

  /// With the lock held while the condition looks.
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, condition);
  }
  seen_child child(const std::string& id) {
    std::lock_guard lock{mutex_};
    return seen[id];
  }

  bool welcomed = false, gone = false;
  std::string reason;
  std::int64_t keeper = 0;
  std::vector<keeper_child> listed;
  std::map<std::string, seen_child> seen;

private:
  template <class F>
  void change(F f) {
    std::lock_guard lock{mutex_};
    f();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

/// An attached client.
struct attached {
  explicit attached(const fs::path& dir, bool may_start = true, bool takes_output = false)
    : client({state_dir{dir}, may_start, patience, keeper_program(), takes_output}, events) {}

  bool ready() {
    return events.wait([this] { return events.welcomed || events.gone; }) && events.welcomed;
  }
  bool reach_gate(const std::string& id) {
    return events.wait([&] { return events.seen[id].at_gate > 0 || !events.seen[id].failure.empty(); }) && events.child(id).at_gate > 0;
  }
  keeper_exit wait_exit(const std::string& id) {
    REQUIRE_MESSAGE(events.wait([&] { return !events.seen[id].exits.empty(); }), "no exit of " << id);
    return events.child(id).exits.front();
  }
  std::string output(const std::string& id) {
    auto ring = events.child(id).ring;
    return ring ? ring->read(0, ring->capacity()).bytes : "";
  }
  bool wait_output(const std::string& id, const std::string& text) {
    return events.wait([&] {
      auto& ring = events.seen[id].ring;
      return ring && ring->read(0, ring->capacity()).bytes.find(text) != std::string::npos;
    });
  }
  /// Starts and opens the gate.
  void run(const internal::StartChild& s) {
    REQUIRE(client.start(s));
    REQUIRE_MESSAGE(reach_gate(s.id()), events.child(s.id()).failure);
    REQUIRE(client.open_gate(s.id()));
  }

  recorder events;
  keeper_client client;
};

inline void give(google::protobuf::RepeatedPtrField<std::string>& field, std::initializer_list<std::string> values) {
  field.Assign(values.begin(), values.end());
}

inline internal::StartChild shell(const std::string& id, const std::string& script, bool pipes = false) {
  internal::StartChild s;
  s.set_attempt(1);
  s.set_columns(80);
  s.set_rows(24);
  s.set_ring_bytes(static_cast<std::uint32_t>(limits::pty_ring_bytes()));
  s.set_id(id);
  give(*s.mutable_argv(), {"sh", "-c", script});
  give(*s.mutable_environment(), {"PATH=/usr/local/bin:/usr/bin:/bin", "SWARM_SPAWN_ID=" + id});
  s.set_directory("/");
  s.set_pipes(pipes);
  return s;
}

/// A state directory whose keeper ends with the test, whatever the test left running.
struct node {
  explicit node(fs::path inside = {}) : program(keeper_program()), dir(inside.empty() ? temp.path() / "s" : temp.path() / inside) {}
  ~node() {
    std::int64_t pid = 0;
    try {
      attached last{dir, false};
      if (last.ready())
        pid = last.events.keeper;
      last.client.quit(std::chrono::milliseconds{0});
      last.events.wait([&] { return last.events.gone; });
    } catch (const std::runtime_error&) {
      return; // it ended within the test
    }
    eventually([pid] { return !is_running(static_cast<pid_t>(pid)); });
  }
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  fs::path program; // asked for first: without it no test makes sense
  temp_dir temp;
  fs::path dir;
};

} // namespace swarm::testing
