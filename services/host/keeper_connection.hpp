// The process port over a keeper client: connects in the background and passes the keeper's news on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "actors/fabric/node_environment.hpp"
#include "services/keeper/client.hpp"

namespace swarm {

class keeper_link final : public process_port, public keeper_events {
public:
  /// `any_restrictions`: takes over a keeper that has other restrictions than this process.
  explicit keeper_link(keeper_client_options options, bool any_restrictions = false);
  ~keeper_link() override;

  void connect(keeper_listener) override;
  void start(const internal::StartChild&) override;
  void open_gate(const std::string& id) override;
  void abort(const std::string& id) override;
  void write(const std::string& id, std::uint64_t ticket, std::string data, const std::string& request) override;
  void resize(const std::string& id, std::uint32_t columns, std::uint32_t rows) override;
  bool kill(const std::string& id, std::int32_t signal, std::uint32_t grace_ms) override;
  void output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end) override;
  void forget(const std::string& id) override;

  /// From here on no keeper is looked for or started: one that is missed while the node stops would be started again, and stay. Returns
  /// when a connection that is under way has come to its end, which takes at most the deadline of the options.
  void stop_connecting();
  /// Ends every program and the keeper.
  void quit_keeper();
  /// 0 while not attached.
  std::int64_t keeper_pid() const noexcept { return keeper_pid_; }
  /// The keeper that runs, attached or not; 0 when none was seen or that one has ended. By its number and start: neither an upgrade that replaces its
  /// file nor another process with its number changes who it is.
  std::int64_t running_keeper() const;
  /// Looks for one that runs already, without attaching.
  void look();
  /// Why it is not taken over, and what to do; empty = it is, or none runs.
  std::string refused() const;

private:
  void welcome(std::int64_t keeper_pid, std::vector<keeper_child> children) override;
  void at_gate(const std::string& id, std::uint32_t attempt, std::int64_t pid, std::uint64_t pid_start,
               std::shared_ptr<const ring_reader> ring) override;
  void start_failed(const std::string& id, std::uint32_t attempt, const std::string& text) override;
  void output_advanced(const std::string& id, std::uint64_t end) override;
  void exited(const keeper_exit&) override;
  void input_accepted(const std::string& id, std::uint64_t ticket, std::uint64_t bytes, bool closed) override;
  void disconnected(const std::string& reason) override;

  std::string objection(const keeper::pinned_process&);
  void tell(keeper_news news);
  void post(keeper_news news);
  void run();
  void connect_now(keeper_listener);
  std::shared_ptr<keeper_client> client() const;

  keeper_client_options options_;
  bool any_restrictions_;
  mutable std::mutex mutex_;
  std::shared_ptr<keeper_client> client_;
  keeper::pinned_process seen_; // the newest keeper
  std::string refused_;
  keeper_listener listener_;
  bool connecting_now_ = false;
  std::vector<keeper_news> held_;
  keeper_listener wanted_; // of a connect() that the thread has not begun
  bool stopping_ = false;
  std::condition_variable asked_;
  std::condition_variable settled_;
  std::atomic<std::int64_t> keeper_pid_{0};
  std::thread connecting_; // last: it uses the rest
};

} // namespace swarm
