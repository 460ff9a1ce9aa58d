#include "services/driver/shell.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <stdexcept>

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/text.hpp"

namespace swarm::driver {

shell::shell(settings s, std::vector<std::string> argv, int signals, const clock_port& clock)
  : clock_(clock), loop_(clock), core_(std::move(s)), argv_(std::move(argv)) {
  input_ = loop_.watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { read_swarmd(); });
  const auto ends = loop_.watch(signals, EPOLLIN, [this, signals](std::uint32_t) { read_signals(signals); });
  if (input_ == 0 || ends == 0)
    throw std::runtime_error("standard input has to be a pipe: swarmd starts this program");
}

int shell::run() {
  settle();
  loop_.run([this](bool) {
    settle();
    return false;
  });
  return status_;
}

void shell::read_signals(int signals) {
  std::array<signalfd_siginfo, 16> which;
  bool ends = false;
  for (ssize_t n = 0; (n = read(signals, which.data(), sizeof which)) > 0;)
    for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof which[0]; ++i)
      ends = ends || which[i].ssi_signo != SIGCHLD;
  reap_strangers(agent_ ? agent_->pid() : 0);
  if (ends)
    core_.asked_to_end(now());
}

/// After each batch of events: what the core wants now is what is watched.
void shell::settle() {
  core_.tick(now());
  act();
  write_swarmd();
  if (agent_) {
    write_agent();
    if (end_reported_)
      read_agent();
  }
  act();
  if (agent_ && !core_.has_agent())
    drop_agent(); // it would stay a zombie until the next one starts
  want(output_, STDOUT_FILENO, !output_broken_ && !core_.to_swarmd().empty() ? EPOLLOUT : 0U, &shell::swarmd_ready);
  if (agent_)
    want(socket_, agent_->socket(), (core_.reads_agent() ? EPOLLIN : 0U) | (core_.to_agent().empty() ? 0U : EPOLLOUT), &shell::agent_ready);
  loop_.cancel(std::exchange(timer_, 0));
  if (auto due = core_.next_deadline())
    timer_ = loop_.after(std::chrono::milliseconds{*due - clock_.boot_ms()}, [this] { timer_ = 0; });
}

void shell::want(event_loop::token& token, int fd, std::uint32_t events, void (shell::*call)(std::uint32_t)) {
  if (events == 0)
    loop_.remove(std::exchange(token, 0));
  else if (token == 0)
    token = loop_.watch(fd, events, [this, call](std::uint32_t e) { (this->*call)(e); });
  else
    loop_.change(token, events);
}

// ---- swarmd ----

void shell::read_swarmd() {
  std::array<char, limits::driver_read_bytes> buffer;
  const auto n = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (n > 0) {
    core_.from_swarmd({buffer.data(), static_cast<std::size_t>(n)}, now());
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    loop_.remove(std::exchange(input_, 0));
    core_.input_ended(now());
  }
}

void shell::write_swarmd() {
  for (auto bytes = core_.to_swarmd(); !output_broken_ && !bytes.empty(); bytes = core_.to_swarmd()) {
    const auto n = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN)
      return;
    output_broken_ = n < 0; // nobody reads any more; the end of the input will tell
    if (n > 0)
      core_.swarmd_took(static_cast<std::size_t>(n), now());
  }
}

// ---- the agent ----

void shell::act() {
  for (auto actions = core_.take_actions(); !actions.empty(); actions = core_.take_actions())
    for (const auto& a : actions)
      switch (a.what) {
        case action::kind::start: start(a.arguments); break;
        case action::kind::close_input: agent_ ? agent_->close_input() : void(); break;
        case action::kind::terminate: agent_ ? agent_->signal(SIGTERM) : void(); break;
        case action::kind::kill: agent_ ? agent_->signal(SIGKILL) : void(); break;
        case action::kind::exit:
          status_ = a.status;
          loop_.stop();
          break;
      }
}

void shell::start(const std::vector<std::string>& further) {
  drop_agent();
  auto argv = argv_;
  argv.insert(argv.end(), further.begin(), further.end());
  try {
    agent_ = std::make_unique<agent_process>(argv);
  } catch (const std::exception& e) {
    core_.agent_complained(e.what(), now());
    core_.agent_exited({.status = 127, .has_run = false}, now());
    core_.agent_output_ended(now());
    return;
  }
  core_.agent_runs(agent_->pid());
  complaints_ = loop_.watch(agent_->complaints(), EPOLLIN, [this](std::uint32_t) { read_complaints(); });
  ended_ = loop_.watch(agent_->ended(), EPOLLIN, [this](std::uint32_t) { agent_ended(); });
}

void shell::drop_agent() {
  for (auto* t : {&socket_, &complaints_, &ended_})
    loop_.remove(std::exchange(*t, 0));
  for (auto& [token, fd] : others_)
    loop_.remove(token);
  others_.clear();
  loop_.cancel(std::exchange(patience_, 0));
  agent_.reset();
  reap_strangers(0);
  end_reported_ = false;
  left_behind_ = 0;
}

void shell::agent_ready(std::uint32_t events) {
  if (agent_ && (events & EPOLLOUT) != 0)
    write_agent();
  if (agent_ && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
    read_agent();
}

void shell::read_agent() {
  if (!core_.reads_agent())
    return;
  std::array<char, limits::driver_read_bytes> buffer;
  const auto n = recv(agent_->socket(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n > 0)
    core_.agent_wrote({buffer.data(), static_cast<std::size_t>(n)}, now());
  else if (n == 0 || end_reported_ || (errno != EAGAIN && errno != EINTR)) // after its end there comes nothing more
    core_.agent_output_ended(now());
}

void shell::write_agent() {
  for (auto bytes = core_.to_agent(); !bytes.empty(); bytes = core_.to_agent()) {
    const auto n = send(agent_->socket(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return; // full, or its end will tell
    core_.agent_took(static_cast<std::size_t>(n), now());
  }
}

void shell::read_complaints() {
  std::array<char, limits::driver_read_bytes> buffer;
  const auto n = read(agent_->complaints(), buffer.data(), buffer.size());
  if (n > 0)
    core_.agent_complained({buffer.data(), static_cast<std::size_t>(n)}, now());
  else if (n == 0 || (errno != EAGAIN && errno != EINTR))
    loop_.remove(std::exchange(complaints_, 0));
}

/// Whatever it has left behind ends before the next agent begins.
void shell::agent_ended() {
  loop_.remove(std::exchange(ended_, 0));
  const auto others = agent_->others();
  left_behind_ = others.size();
  if (others.empty()) {
    report_end();
    return;
  }
  agent_->signal_others(SIGTERM);
  watch_others(others);
  patience_ = loop_.after(limits::driver_others_grace, [this] {
    patience_ = 0;
    agent_->signal_others(SIGKILL);
    report_end();
  });
  others_ended();
}

void shell::watch_others(const std::vector<process_stat>& others) {
  for (const auto& p : others)
    if (others_.size() < limits::driver_others_max)
      if (auto fd = open_pidfd(p.pid)) {
        const auto token = loop_.watch(fd->get(), EPOLLIN, [this](std::uint32_t) { others_ended(); });
        others_.emplace_back(token, std::move(*fd));
      }
}

void shell::others_ended() {
  if (!agent_ || end_reported_)
    return;
  if (const auto left = agent_->others(); !left.empty()) {
    // Those that were watched have ended, and more than that were there.
    for (auto& [token, fd] : std::exchange(others_, {}))
      loop_.remove(token);
    return watch_others(left);
  }
  loop_.cancel(std::exchange(patience_, 0));
  report_end();
}

void shell::report_end() {
  if (std::exchange(end_reported_, true))
    return;
  for (auto& [token, fd] : others_)
    loop_.remove(std::exchange(token, 0));
  // What is in the pipe. Somebody may still fill it.
  for (std::size_t reads = 0; complaints_ != 0 && reads < limits::driver_complaint_reads_max; ++reads) {
    std::array<char, limits::driver_read_bytes> buffer;
    const auto n = read(agent_->complaints(), buffer.data(), buffer.size());
    if (n <= 0)
      break;
    core_.agent_complained({buffer.data(), static_cast<std::size_t>(n)}, now());
  }
  const auto how = agent_->ending();
  core_.agent_exited({how.status, how.signal, left_behind_}, now());
}

} // namespace swarm::driver
