#include "cli/worktree/git.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "actors/base/child_process.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "actors/base/text.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds end_grace{2};

/// What of the caller's own settings for git is meant for every repository.
bool keeps(std::string_view variable) {
  auto name = variable.substr(0, variable.find('='));
  if (!name.starts_with("GIT_"))
    return true;
  return name.starts_with("GIT_AUTHOR_") || name.starts_with("GIT_COMMITTER_") || name == "GIT_EXEC_PATH" || name == "GIT_CONFIG_GLOBAL" ||
         name == "GIT_CONFIG_SYSTEM" || name == "GIT_CONFIG_NOSYSTEM";
}

std::vector<std::string> git_environment() {
  std::vector<std::string> out;
  for (auto** v = environ; v && *v; ++v)
    if (keeps(*v))
      out.emplace_back(*v);
  out.insert(out.end(), {"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true", "GIT_PAGER=cat"});
  return out;
}

struct stream {
  unique_fd fd;
  std::string* into;
};

/// Everything that is there now; closes at the end.
void drain(stream& s, git_result& result) {
  std::array<char, 64 * 1024> bytes;
  while (s.fd) {
    auto n = read(s.fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN)
      return;
    if (n <= 0)
      return s.fd.reset();
    auto room = limits::git_output_bytes_max - std::min(limits::git_output_bytes_max, s.into->size());
    s.into->append(bytes.data(), std::min(room, static_cast<std::size_t>(n)));
    result.complete = result.complete && static_cast<std::size_t>(n) <= room;
  }
}

/// In a session of its own: without a terminal nothing it starts can stop to ask.
pid_t start(std::vector<std::string> arguments, int out, int err) {
  child_options o;
  o.arguments = std::move(arguments);
  o.environment = git_environment();
  o.on_path = true;
  o.standard = {-1, out, err};
  auto child = start_child(o);
  if (child.error == std::errc::no_such_file_or_directory)
    throw failure(code::refused, "there is no program git on PATH");
  if (child.error)
    throw failure(code::refused, "cannot start git: " + child.error.message());
  return child.pid;
}

enum class ending { itself, deadline, stop };

/// Collects output until the process ends, the deadline comes, or `stop` gets readable.
ending collect(int pidfd, std::array<stream, 2>& streams, git_result& result, clock::time_point until, int stop = -1) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    if (left <= 0)
      return ending::deadline;
    std::array<pollfd, 4> polled{pollfd{pidfd, POLLIN, 0}, pollfd{stop, POLLIN, 0}, pollfd{streams[0].fd.get(), POLLIN, 0},
                                 pollfd{streams[1].fd.get(), POLLIN, 0}};
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR)
      return ending::deadline;
    for (auto& s : streams)
      drain(s, result);
    if (polled[0].revents != 0) {
      // What it wrote last. Not to the end of the stream: something it left running may keep that open.
      for (auto& s : streams)
        drain(s, result);
      return ending::itself;
    }
    if (polled[1].revents != 0)
      return ending::stop;
  }
}

/// Ends git and what it has started, which is in its session: a hook, also one that has made a process group of its own.
void end_session(pid_t session) {
  // Asked nicely, git removes its lock files.
  for (auto signal : {SIGTERM, SIGKILL}) {
    const auto until = clock::now() + end_grace;
    std::vector<unique_fd> ends;
    for (const auto& p : list_processes()) {
      if (p.session != session || p.is_dead())
        continue;
      if (auto fd = open_pidfd(p.pid))
        ends.push_back(std::move(*fd));
      signal_process(p.pid, p.start, signal);
    }
    for (const auto& fd : ends) {
      pollfd end{fd.get(), POLLIN, 0};
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
      while (left > 0 && poll(&end, 1, static_cast<int>(left)) < 0 && errno == EINTR)
        left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    }
  }
}

} // namespace

git_result git::run(const std::vector<std::string>& arguments, int stop) const {
  // Whatever the repository's settings say: every untracked file is listed, no daemon answers for the file system, nothing goes on
  // in the background, nothing is resolved or stashed by itself.
  std::vector<std::string> all{"git", "-C", directory_, "--no-pager"};
  for (const auto* setting : {"status.showUntrackedFiles=all", "core.fsmonitor=false", "core.quotePath=false", "gc.auto=0", "maintenance.auto=false",
                              "rerere.enabled=false", "merge.autoStash=false", "color.ui=false", "advice.detachedHead=false"})
    all.insert(all.end(), {"-c", setting});
  all.insert(all.end(), arguments.begin(), arguments.end());
  git_result result;
  auto out = make_pipe();
  auto err = make_pipe();
  auto pid = start(std::move(all), out.write.get(), err.write.get());
  out.write.reset();
  err.write.reset();
  for (const auto* p : {&out.read, &err.read})
    fcntl(p->get(), F_SETFL, O_NONBLOCK);
  std::array<stream, 2> streams{stream{std::move(out.read), &result.out}, stream{std::move(err.read), &result.err}};
  auto pidfd = open_pidfd(pid);
  if (!pidfd) {
    kill(-pid, SIGKILL);
    wait_for_child(pid);
    throw failure(code::refused, "cannot watch git");
  }
  const auto how = collect(pidfd->get(), streams, result, clock::now() + limits::git_deadline(), stop);
  if (how == ending::itself) {
    result.status = wait_for_child(pid);
    return result;
  }
  end_session(pid);
  kill(-pid, SIGKILL);
  wait_for_child(pid);
  result.stopped = how == ending::stop;
  return result;
}

std::string git_trouble(const std::vector<std::string>& arguments, const git_result& result) {
  auto what = "git " + (arguments.empty() ? std::string{} : arguments.front());
  if (result.stopped)
    return what + " was interrupted";
  if (result.status == -1)
    return what + " did not end in time";
  if (!result.complete)
    return what + " printed too much";
  constexpr std::size_t shown = 2000;
  auto text = std::string{utf8_prefix(trimmed(result.err), shown)};
  if (text.empty())
    text = std::string{utf8_prefix(trimmed(result.out), shown)};
  return text.empty() ? what + " failed with status " + std::to_string(result.status) : text;
}

std::string git::output(const std::vector<std::string>& arguments) const {
  auto result = run(arguments);
  if (!result.ok())
    throw failure(code::refused, escape_control(git_trouble(arguments, result)));
  return std::move(result.out);
}

std::string git::line(const std::vector<std::string>& arguments) const {
  auto out = output(arguments);
  while (!out.empty() && out.back() == '\n')
    out.pop_back();
  return out;
}

std::vector<std::string> nul_separated(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\0', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

} // namespace swarm::cli
