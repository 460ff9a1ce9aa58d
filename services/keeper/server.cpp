#include "services/keeper/server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "services/keeper/daemon.hpp"

namespace swarm::keeper {

namespace {

constexpr std::chrono::milliseconds farewell{1'000};

unique_fd make_signalfd() {
  sigset_t set;
  sigemptyset(&set);
  for (auto s : {SIGCHLD, SIGTERM, SIGINT})
    sigaddset(&set, s);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return unique_fd{signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
}

unique_fd watch_removals_in(const std::filesystem::path& directory) {
  unique_fd out{inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  if (out && inotify_add_watch(out.get(), directory.c_str(), IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR) < 0)
    out.reset();
  return out;
}

/// A thousand terminals need more descriptors than the usual soft limit; children get the usual one back.
rlimit raise_file_limit() {
  rlimit given{};
  getrlimit(RLIMIT_NOFILE, &given);
  auto raised = given;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return given;
}

} // namespace

server::server(state_dir dir, unique_fd listener, const clock_port& clock, log_file& log, std::chrono::milliseconds idle_exit)
  : dir_(std::move(dir)), home_(home_id(dir_.root)), listener_(std::move(listener)), socket_(dir_.keeper_socket()), clock_(clock), log_(log),
    idle_exit_(idle_exit), loop_(clock), signals_(make_signalfd()), root_(open(dir_.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
    home_news_(watch_removals_in(dir_.root)), child_files_(raise_file_limit()), reaper_(loop_, clock, [this] { return mains(); }) {
  if (!signals_ || loop_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); }) == 0 ||
      loop_.watch(listener_.fd(), EPOLLIN | EPOLLET, [this](std::uint32_t) { accept_all(); }) == 0)
    throw std::runtime_error("cannot watch the keeper's own descriptors");
  // Without it, it goes on until it has no programs.
  if (root_ && home_news_)
    loop_.watch(home_news_.get(), EPOLLIN, [this](std::uint32_t) { on_home_news(); });
  review_idleness();
}

server::~server() = default;

void server::run() {
  log_.line("ready");
  loop_.run([this](bool quiet) { return end_of_turn(quiet); });
  socket_.remove();
  log_.line("ended");
}

main_children server::mains() const {
  main_children out;
  for (const auto& [pid, c] : by_pid_)
    out.emplace(pid, c->pid_start());
  return out;
}

void server::on_signals() {
  signalfd_siginfo info;
  bool asked_to_end = false;
  while (read(signals_.get(), &info, sizeof info) == sizeof info)
    asked_to_end = asked_to_end || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
  reap();
  if (asked_to_end)
    begin_quit(limits::kill_grace());
}

/// When nothing of the state directory is left, no node will ever find the programs. One that was moved has them still. The directory itself does not
/// tell: the files that are open in it keep it.
void server::on_home_news() {
  alignas(inotify_event) std::array<char, 4096> events;
  while (read(home_news_.get(), events.data(), events.size()) > 0) {
  }
  const auto files = {dir_.database(), lock_file(dir_), dir_.keeper_socket()};
  const auto is_there = [this](const auto& file) {
    return faccessat(root_.get(), file.filename().c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
  };
  if (quitting_ || std::any_of(files.begin(), files.end(), is_there))
    return;
  log_.line("the state directory was removed");
  begin_quit(limits::kill_grace());
}

void server::reap() {
  bool orphans = false;
  for (;;) {
    int status = 0;
    auto pid = waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR)
      continue;
    if (pid <= 0 && orphans)
      reaper_.review();
    if (pid < 0 && quitting_)
      finish_quit();
    if (pid <= 0)
      return;
    auto i = by_pid_.find(pid);
    if (i == by_pid_.end()) {
      orphans = true;
      continue;
    }
    auto& c = *i->second;
    by_pid_.erase(i);
    child_ended(c, status);
  }
}

void server::child_ended(child& c, int wait_status) {
  c.reaped(wait_status);
  const auto id = c.id();
  const auto rest = c.processes();
  const auto attempt = c.attempt();
  if (!c.setup_error().empty()) {
    internal::FromKeeper m;
    m.mutable_start_failed()->set_id(c.id());
    m.mutable_start_failed()->set_attempt(c.attempt());
    m.mutable_start_failed()->set_text(c.setup_error());
    send(m);
    advanced_.erase(id);
    children_.erase(id);
  }
  // Who is told of the end hands on what the program had locked: nothing of it may write any more.
  if (next_.contains(id))
    reaper_.end(rest, {}, [this, id, attempt] {
      tell_end(id, attempt);
      start_next(id);
    });
  else
    reaper_.end(rest, limits::kill_grace(), [this, id, attempt] { tell_end(id, attempt); });
  review_idleness();
}

void server::tell_end(const std::string& id, std::uint32_t attempt) {
  auto c = find(id);
  if (!c || c->attempt() != attempt || !c->has_exited() || c->is_over() || !c->finish_output())
    return;
  c->everything_ended();
  send_exit(*c);
}

// -- the end -----------------------------------------------------------------------------

void server::begin_quit(std::chrono::milliseconds grace) {
  log_.line("quitting with " + std::to_string(by_pid_.size()) + " programs");
  quitting_ = true;
  if (release_timer_ != 0)
    hold_output(false);
  for (const auto& [id, next] : std::exchange(next_, {}))
    start_failed(next, "the keeper is ending");
  for (const auto& [pid, c] : by_pid_)
    c->end_requested();
  subtree all;
  all.everything = true;
  reaper_.end(all, grace);
  reap();
}

/// Every process is gone; the client gets what it has not read yet, within reason.
void server::finish_quit() {
  if (std::exchange(leaving_, true))
    return;
  hold_output(false);
  for (const auto& [id, c] : children_)
    tell_end(id, c->attempt());
  send_advanced(true);
  loop_.after(farewell, [this] { loop_.stop(); });
}

void server::review_idleness() {
  auto busy = client_ != 0 || !by_pid_.empty() || quitting_;
  if (busy && idle_timer_ != 0)
    loop_.cancel(std::exchange(idle_timer_, 0));
  if (busy || idle_timer_ != 0)
    return;
  alone_since_ms_ = clock_.boot_ms();
  idle_timer_ = loop_.after(idle_exit_, [this] { idle_expired(); });
}

/// Exit statuses are kept for the swarmd that will come for them, unless its state directory is gone.
void server::idle_expired() {
  struct stat st {};
  auto forgotten = lstat(dir_.keeper_socket().c_str(), &st) != 0;
  auto kept_long = clock_.boot_ms() - alone_since_ms_ >= limits::keeper_status_retention().count();
  if (children_.empty() || forgotten || kept_long) {
    idle_timer_ = 0;
    begin_quit(limits::kill_grace());
    return;
  }
  idle_timer_ = loop_.after(idle_exit_, [this] { idle_expired(); });
}

bool server::end_of_turn(bool quiet) {
  auto left = send_advanced(quiet);
  ++turn_;
  flush_client();
  auto client = callers_.find(client_);
  if (leaving_ && (client == callers_.end() || client->second->stream.queued_bytes() == 0))
    loop_.stop();
  return left;
}

} // namespace swarm::keeper
