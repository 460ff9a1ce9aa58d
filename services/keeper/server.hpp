// The keeper itself: its children, its one client, its end.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include <sys/resource.h>

#include "actors/base/clock.hpp"
#include "actors/base/event_loop.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "services/keeper/child.hpp"
#include "services/keeper/frame_stream.hpp"
#include "services/keeper/log.hpp"
#include "services/keeper/subtree.hpp"
#include "swarm/internal/keeper.pb.h"

namespace swarm::keeper {

class server final : public child_owner {
public:
  /// Takes over the listening socket. Throws std::runtime_error when the system refuses what it needs.
  server(state_dir, unique_fd listener, const clock_port&, log_file&, std::chrono::milliseconds idle_exit);
  ~server() override;

  /// Until told to quit, or until there has been nobody to work for.
  void run();

private:
  struct caller {
    frame_stream stream;
    event_loop::token watch = 0;
  };
  using caller_id = std::uint64_t; // 0 is nobody

  // server.cpp: life
  void on_signals();
  void on_home_news();
  void reap();
  void child_ended(child&, int wait_status);
  void tell_end(const std::string& id, std::uint32_t attempt);
  void begin_quit(std::chrono::milliseconds grace);
  void finish_quit();
  void review_idleness();
  void idle_expired();
  bool end_of_turn(bool quiet);
  main_children mains() const;

  // server_callers.cpp: connections
  void accept_all();
  void on_connection(unique_fd socket);
  bool may_connect(int socket) const;
  void on_caller(caller_id, std::uint32_t events);
  bool handle(caller_id, const std::string& message);
  bool greet(caller_id, const internal::Hello&);
  void hold_output(bool);
  void drop(caller_id, std::string_view why);
  void send(const internal::FromKeeper&, int fd = -1);
  void flush_client();

  // server_commands.cpp: what the client asks, what children tell
  void dispatch(const internal::ToKeeper&);
  void start(const internal::StartChild&);
  void start_failed(const internal::StartChild&, const std::string& text);
  void start_after(child& former, const internal::StartChild&);
  void start_next(const std::string& id);
  void kill(const internal::KillChild&);
  void end(child&, std::chrono::milliseconds grace);
  void forget(const std::string& id);
  child* find(const std::string& id);
  void send_state(const child&);
  void send_exit(const child&);
  bool send_advanced(bool quiet);
  void at_gate(child&) override;
  void output_advanced(child&) override;
  void input_accepted(child&, std::uint64_t ticket, std::uint64_t bytes, bool closed) override;
  void output_finished(child&) override;

  state_dir dir_;
  std::string home_; // home_id() of it
  acceptor listener_;
  socket_file socket_;
  const clock_port& clock_;
  log_file& log_;
  std::chrono::milliseconds idle_exit_;
  event_loop loop_;
  unique_fd signals_;
  unique_fd root_;      // the state directory, wherever it is moved
  unique_fd home_news_; // of what is removed there
  rlimit child_files_{};
  reaper reaper_;
  std::map<std::string, std::unique_ptr<child>> children_;
  std::map<pid_t, child*> by_pid_;                   // those not reaped
  std::map<std::string, internal::StartChild> next_; // further attempts, until nothing is left of the one before
  struct advance {
    std::uint64_t since = 0; // output of which swarmd was not told
    std::uint64_t turn = 0;  // in which there was the latest
  };
  std::map<std::string, advance> advanced_;
  std::uint64_t turn_ = 1;
  std::map<caller_id, std::unique_ptr<caller>> callers_;
  caller_id last_caller_ = 0;
  caller_id client_ = 0;
  bool holds_output_ = false;           // programs wait for the swarmd that takes their output
  event_loop::token release_timer_ = 0; // while they do and there is none
  bool quitting_ = false;
  bool leaving_ = false;
  event_loop::token idle_timer_ = 0;
  std::int64_t alone_since_ms_ = 0;
};

} // namespace swarm::keeper
