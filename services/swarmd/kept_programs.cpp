#include "services/swarmd/kept_programs.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "actors/base/limits.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/text.hpp"
#include "actors/fabric/terminals/pty_log_files.hpp"
#include "services/keeper/client.hpp"

namespace swarm {

namespace {

/// What the keeper runs, as far as it has told.
class running_children final : public keeper_events {
public:
  void welcome(std::int64_t, std::vector<keeper_child> children) override {
    change([&] {
      for (const auto& c : children)
        if (!c.exited)
          running_.emplace(c.id, c.pid);
      welcomed_ = true;
    });
  }
  void at_gate(const std::string&, std::uint32_t, std::int64_t, std::uint64_t, std::shared_ptr<const ring_reader>) override {}
  void start_failed(const std::string& id, std::uint32_t, const std::string&) override {
    change([&] { running_.erase(id); });
  }
  void output_advanced(const std::string&, std::uint64_t) override {}
  void exited(const keeper_exit& e) override {
    change([&] { running_.erase(e.id); });
  }
  void input_accepted(const std::string&, std::uint64_t, std::uint64_t, bool) override {}
  void disconnected(const std::string& reason) override {
    change([&] { lost_ = reason.empty() ? "it hung up" : reason; });
  }

  /// Their processes by their ids.
  std::map<std::string, std::int64_t> list() {
    wait(limits::keeper_start_deadline(), [this] { return welcomed_; });
    std::lock_guard guard{mutex_};
    if (!welcomed_)
      throw std::runtime_error("the keeper does not say what it runs" + (lost_ ? ": " + *lost_ : std::string{}));
    return running_;
  }
  /// False when some are left after the time.
  bool wait_until_none(std::chrono::milliseconds time) {
    wait(time, [this] { return running_.empty(); });
    std::lock_guard guard{mutex_};
    return running_.empty() || lost_; // they die with their keeper
  }

private:
  void change(const std::function<void()>& f) {
    std::lock_guard guard{mutex_};
    f();
    changed_.notify_all();
  }
  void wait(std::chrono::milliseconds time, const std::function<bool()>& done) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, time, [&] { return lost_ || done(); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::int64_t> running_; // guarded by mutex_, like the rest
  bool welcomed_ = false;
  std::optional<std::string> lost_;
};

keeper_client_options running_keeper(const state_dir& dir) {
  keeper_client_options o;
  o.dir = dir;
  o.may_start = false;
  return o;
}

bool has_keeper(const state_dir& dir) { return static_cast<bool>(connect_at(dir.keeper_socket())); }

std::vector<v1::PtyInfo> described(const state_dir& dir, const std::map<std::string, std::int64_t>& running) {
  std::vector<v1::PtyInfo> out;
  for (const auto& [id, pid] : running) {
    auto info = read_terminal_record(dir.pty_dir() / id, terminal_started_name).value_or(v1::PtyInfo{});
    info.set_id(id);
    info.set_pid(pid);
    info.set_running(true);
    out.push_back(std::move(info));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair{a.created_at_ms(), a.id()} < std::pair{b.created_at_ms(), b.id()};
  });
  return out;
}

} // namespace

std::vector<v1::PtyInfo> kept_programs(const state_dir& dir) {
  if (!has_keeper(dir))
    return {};
  running_children children;
  keeper_client keeper{running_keeper(dir), children};
  return described(dir, children.list());
}

std::vector<v1::PtyInfo> end_kept_programs(const state_dir& dir) {
  if (!has_keeper(dir))
    return {};
  running_children children;
  keeper_client keeper{running_keeper(dir), children};
  const auto running = children.list();
  for (const auto& [id, pid] : running)
    keeper.kill(id, 0);
  // As long as a node that stops gives its keeper.
  if (!children.wait_until_none(2 * limits::kill_grace()))
    throw std::runtime_error("programs still run after they were killed; see log/keeper.log in " + dir.root.string());
  return described(dir, running);
}

void quit_running_keeper(const state_dir& dir) {
  if (!has_keeper(dir))
    return;
  running_children children;
  keeper_client keeper{running_keeper(dir), children};
  (void)children.list(); // it has heard us
  keeper.quit();
}

} // namespace swarm
