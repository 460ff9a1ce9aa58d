#include "cli/verbs/program_io.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

bool has_standard_input() {
  struct stat info {};
  if (fstat(STDIN_FILENO, &info) != 0)
    return false;
  const auto null_device = makedev(1, 3);
  if (S_ISCHR(info.st_mode))
    return info.st_rdev != null_device && isatty(STDIN_FILENO) == 0;
  return S_ISFIFO(info.st_mode) || S_ISBLK(info.st_mode) || (S_ISREG(info.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) < info.st_size);
}

bool standard_input_is_waiting() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  int bytes = 0;
  return has_standard_input() && poll(&input, 1, 0) > 0 && ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

program_io::program_io(invocation& cli, std::string pty_id, options o)
  : cli_(cli), id_(std::move(pty_id)), options_(std::move(o)), input_client_(random_uuid()), filter_(options_.target),
    reading_(cli.node().finder.connect({}, false)) {
  output_ = std::thread{[this] { carry_output(); }};
  if (options_.input_of.empty() || pipe2(stop_, O_CLOEXEC) != 0)
    return;
  writing_ = cli.node().finder.connect({}, false);
  input_ = std::thread{[this] { carry_input(); }};
}

program_io::~program_io() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  reading_->cancel();
  if (writing_)
    writing_->cancel();
  if (stop_[1] >= 0)
    close(stop_[1]);
  if (output_.joinable())
    output_.join();
  if (input_.joinable())
    input_.join();
  if (stop_[0] >= 0)
    close(stop_[0]);
}

program_io::input_state program_io::stop_input() {
  if (!input_.joinable())
    return input_state::passed;
  stopping_ = true;
  writing_->cancel();
  close(std::exchange(stop_[1], -1));
  input_.join();
  if (input_is_over_)
    return input_state::passed;
  if (input_begun_)
    return input_state::broken_off;
  v1::SendPtyRequest request;
  request.set_pty_id(id_);
  request.mutable_id()->set_client(input_client_);
  request.mutable_id()->set_seq(1);
  try {
    cli_.node().ptys.send(request);
    return input_state::nothing;
  } catch (const call_failed&) {
    return input_state::broken_off;
  }
}

bool program_io::finish(patience p) {
  {
    std::unique_lock lock{mutex_};
    while (!is_over_) {
      const auto before = chunks_printed_;
      // The worker's node may be gone, and the output with it, so the wait is limited.
      const bool over = changed_.wait_for(lock, limits::worker_output_patience, [this] { return is_over_; });
      const bool goes_on = p == patience::with_reader && (is_printing_ || chunks_printed_ != before);
      if (!over && !goes_on)
        return false;
    }
  }
  print(filter_.finish());
  return complete_;
}

void program_io::print(const std::string& text) {
  if (text.empty())
    return;
  printed_ = true;
  options_.around([&] { cli_.io().raw(text); });
}

void program_io::carry_output() {
  v1::ReadPtyRequest request;
  request.set_id(id_);
  request.set_follow(true);
  std::uint64_t next = 0;
  auto take = [&](const v1::PtyChunk& chunk) {
    lost_ += chunk.gap();
    if (!chunk.data().empty() || chunk.gap() != 0)
      next = chunk.offset() + chunk.data().size();
    {
      std::lock_guard guard{mutex_};
      is_printing_ = true;
    }
    print(filter_.take(chunk.data()));
    {
      std::lock_guard guard{mutex_};
      is_printing_ = false;
      ++chunks_printed_;
    }
    complete_ = complete_ || chunk.ended();
    return !chunk.ended() && !stopping_;
  };
  try {
    // After a broken stream the next one begins at the next offset, so that every byte is printed once.
    auto pause = limits::pty_reopen_pause_min;
    for (auto end = stream_end::lost; !stopping_ && !complete_ && (end == stream_end::lost || end == stream_end::too_slow);) {
      auto before = next;
      // What is passed already is not lost with us.
      reading_->pass_input(options_.input_of.empty() || input_is_over_ ? "" : input_client_, options_.input_of);
      end = reading_->read(request, take);
      request.set_from(next);
      pause = next != before ? limits::pty_reopen_pause_min : std::min(pause * 2, limits::pty_reopen_pause_max);
      std::unique_lock lock{mutex_};
      if (end == stream_end::lost && !complete_)
        changed_.wait_for(lock, pause, [this] { return stopping_.load(); });
    }
  } catch (const call_failed&) {
    // finish() then returns false, and the caller prints the end of the output that the task keeps.
  }
  {
    std::lock_guard guard{mutex_};
    is_over_ = true;
  }
  changed_.notify_all();
  if (complete_)
    say_what_result_waits_for();
}

/// The program has ended. That it did is soon known, unless the node can write nothing.
void program_io::say_what_result_waits_for() {
  {
    std::unique_lock lock{mutex_};
    if (changed_.wait_for(lock, limits::low_disk_retry, [this] { return stopping_.load(); }))
      return;
  }
  try {
    if (reading_->status().low_disk())
      options_.around([this] { cli_.io().note("the node's disk is full; the result waits until there is space, see: swarmctl doctor"); });
  } catch (const call_failed&) {
    // Whoever follows the task hears that the node is away.
  }
}

void program_io::carry_input() {
  std::array<pollfd, 2> fds{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{stop_[0], POLLIN, 0}};
  std::array<char, 32 * 1024> bytes;
  v1::SendPtyRequest request;
  request.set_pty_id(id_);
  request.mutable_id()->set_client(input_client_);
  while (!stopping_) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR)
      continue;
    if (fds[1].revents != 0)
      return;
    auto n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    request.set_data(std::string{bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))}); // no bytes: the input has ended
    // A program may be slow to read its input, so this retries until the program ends; under one id, or it would get the same bytes twice.
    request.mutable_id()->set_seq(request.id().seq() + 1);
    input_begun_ = input_begun_ || n > 0;
    for (bool sent = false; !sent && !stopping_;) {
      try {
        writing_->send(request);
        sent = true;
      } catch (const call_failed& f) {
        if (f.exit_status == code::deadline)
          continue;
        input_is_over_ = !stopping_; // the program has ended, or takes no input
        return;
      }
    }
    if (n <= 0) {
      input_is_over_ = !stopping_;
      return;
    }
  }
}

} // namespace swarm::cli
