#include "gateway/client/ssh_line.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/child_process.hpp"
#include "actors/base/process.hpp"
#include "actors/base/text.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A login shell that says more than this before the greeting is not meant for programs.
constexpr std::size_t noise_bytes_max = 64 * 1024;
constexpr std::size_t copy_bytes = 64 * 1024;
constexpr int status_not_found = 127;
constexpr int status_of_ssh = 255;

/// Without what is meant for swarmctl on this host: ssh may be set up to send variables on, and a token is of one node.
std::vector<std::string> environment_of_ssh() {
  std::vector<std::string> out;
  for (char** entry = environ; entry && *entry; ++entry)
    if (!std::string_view{*entry}.starts_with("SWARM_"))
      out.emplace_back(*entry);
  return out;
}

std::unique_ptr<ssh_line> start_ssh(std::vector<std::string> args) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw call_failed(code::no_node, std::string{"cannot make a socket: "} + std::strerror(errno));
  unique_fd ours{ends[0]};
  unique_fd theirs{ends[1]};
  child_options o;
  o.arguments = std::move(args);
  o.environment = environment_of_ssh();
  o.on_path = true;
  // It may ask for a passphrase. Ctrl-C is for swarmctl, which may have something to say over this line yet; ssh ends with it.
  o.own_session = false;
  o.without_interrupts = true;
  o.standard = {theirs.get(), theirs.get(), -1};
  o.errors_as_ours = true;
  auto child = start_child(o);
  if (child.error)
    throw call_failed(code::no_node, "cannot start ssh: " + child.error.message() + "; is an OpenSSH client installed and on PATH?");
  auto process = open_pidfd(child.pid);
  if (!process)
    throw call_failed(code::no_node, std::string{"cannot watch ssh: "} + std::strerror(errno));
  return std::make_unique<ssh_line>(std::move(ours), child.pid, std::move(*process));
}

call_failed ended_early(const target& c, int status) {
  auto host = parse_ssh_host(c.ssh)->destination;
  auto text = status == status_of_ssh      ? "ssh could not connect to " + host
              : status == status_not_found ? host + " has no swarmctl on the PATH of commands over ssh"
                                           : "swarmctl on " + host + " ended before a node answered";
  return {code::no_node, text + " (exit status " + std::to_string(status) + "); try: " + ssh_by_hand(c) + " swarmctl status"};
}

enum class heard { greeting, nothing_yet, end };

/// Reads no byte behind the greeting, which are the node's.
heard hear(int socket, std::string& line, std::size_t& noise) {
  for (char c = 0;;) {
    auto n = recv(socket, &c, 1, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return heard::nothing_yet;
    if (n <= 0)
      return heard::end;
    line += c;
    if (line == dial_greeting)
      return heard::greeting;
    if (++noise > noise_bytes_max)
      throw call_failed(code::no_node, "the other host's shell prints too much before it runs swarmctl; it should be quiet for commands over ssh");
    if (c == '\n')
      line.clear();
  }
}

/// For as long as it lives: a terminal would stay so for its shell.
class nonblocking {
public:
  explicit nonblocking(int fd) : fd_(fd), before_(fcntl(fd, F_GETFL)) { fcntl(fd_, F_SETFL, before_ | O_NONBLOCK); }
  ~nonblocking() { fcntl(fd_, F_SETFL, before_); }
  nonblocking(const nonblocking&) = delete;
  nonblocking& operator=(const nonblocking&) = delete;

private:
  int fd_;
  int before_;
};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// One direction: reads only what it can hold, and holds it until it is written.
struct direction {
  int from;
  int to;
  std::array<char, copy_bytes> bytes;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool over = false; // nothing more comes, or nobody takes it

  bool holds() const { return begin < end; }
  void read_some() {
    auto n = ::read(from, bytes.data(), bytes.size());
    if (n > 0) {
      begin = 0;
      end = static_cast<std::size_t>(n);
    } else if (n == 0 || !would_block()) {
      over = true;
    }
  }
  void write_some() {
    auto n = ::write(to, bytes.data() + begin, end - begin);
    if (n > 0) {
      begin += static_cast<std::size_t>(n);
    } else if (n < 0 && !would_block()) {
      over = true;
      begin = end;
    }
  }
};

} // namespace

ssh_line::ssh_line(unique_fd socket, pid_t pid, unique_fd process) : socket_(std::move(socket)), pid_(pid), process_(std::move(process)) {}

ssh_line::~ssh_line() {
  if (pid_ <= 0)
    return;
  ::kill(pid_, SIGKILL); // it has not been waited for, so the number is still its own
  exit_status();
}

int ssh_line::exit_status() { return wait_for_child(std::exchange(pid_, 0)); }

std::vector<std::string> ssh_arguments(const target& c, const dial_options& o, std::chrono::seconds connect_within) {
  auto host = *parse_ssh_host(c.ssh);
  std::vector<std::string> out{"ssh", "-T"};
  if (!host.port.empty())
    out.insert(out.end(), {"-p", host.port});
  // Of the user's own settings those stay that say how to get there. A line that is dead is noticed; nothing but it is carried; and it does
  // not become the master of other connections, which would end with it.
  for (auto option : {"RemoteCommand=none", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no",
                      "ControlMaster=no", "ServerAliveInterval=15", "ServerAliveCountMax=3"})
    out.insert(out.end(), {"-o", option});
  out.insert(out.end(), {"-o", "ConnectTimeout=" + std::to_string(std::max<std::int64_t>(connect_within.count(), 1))});
  std::string command = "swarmctl dial-stdio";
  if (!c.remote_state_dir.empty())
    command = "env " + shell_quoted("SWARM_HOME=" + c.remote_state_dir) + " " + command;
  if (!o.may_start)
    command += " --no-autostart";
  if (o.wait.count() > 0)
    command += " --wait " + std::to_string(std::chrono::ceil<std::chrono::seconds>(o.wait).count());
  out.insert(out.end(), {"--", host.destination, command});
  return out;
}

std::string ssh_by_hand(const target& c) {
  auto host = *parse_ssh_host(c.ssh);
  return "ssh " + (host.port.empty() ? "" : "-p " + host.port + " ") + host.destination;
}

std::unique_ptr<ssh_line> open_ssh_line(const target& c, const dial_options& o, milliseconds time, int cancel) {
  const auto until = steady_clock::now() + time;
  auto line = start_ssh(ssh_arguments(c, o, std::chrono::ceil<std::chrono::seconds>(time)));
  std::string words;
  std::size_t noise = 0;
  bool closed = false;
  for (;;) {
    auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    if (left <= 0)
      throw call_failed(code::deadline, "ssh to " + parse_ssh_host(c.ssh)->destination +
                                          " gave no connection to a node by the deadline; try: " + ssh_by_hand(c) + " swarmctl status");
    pollfd what[] = {{cancel, POLLIN, 0}, {line->process().get(), POLLIN, 0}, {closed ? -1 : line->socket(), POLLIN, 0}};
    if (poll(what, std::size(what), static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()))) <= 0)
      continue;
    if (what[0].revents != 0)
      return nullptr;
    if (what[2].revents != 0) {
      auto news = hear(line->socket(), words, noise);
      if (news == heard::greeting)
        return line;
      closed = news == heard::end;
    }
    if (what[1].revents == 0)
      continue;
    auto status = line->exit_status();
    if (status == code::no_node)
      return nullptr;
    throw ended_early(c, status);
  }
}

void copy_both_ways(int in, int out, int node) {
  nonblocking of_in{in}, of_out{out}, of_node{node};
  auto there = std::make_unique<direction>();
  auto back = std::make_unique<direction>();
  there->from = in;
  there->to = node;
  back->from = node;
  back->to = out;
  std::copy(dial_greeting.begin(), dial_greeting.end(), back->bytes.begin());
  back->end = dial_greeting.size();
  auto done = [](const direction& d) { return d.over && !d.holds(); };
  while (!done(*there) && !done(*back)) {
    // A descriptor of which nothing is wanted is left out: its end would be told over and over. But for `out`, of which only that can be
    // told when it is not written to.
    auto input = [](const direction& d) { return pollfd{d.holds() || d.over ? -1 : d.from, POLLIN, 0}; };
    pollfd what[] = {
      input(*there), {there->holds() ? there->to : -1, POLLOUT, 0}, input(*back), {back->to, static_cast<short>(back->holds() ? POLLOUT : 0), 0}};
    if (poll(what, std::size(what), -1) < 0)
      continue;
    if (what[0].revents != 0)
      there->read_some();
    if (what[1].revents != 0)
      there->write_some();
    if (what[2].revents != 0)
      back->read_some();
    if (back->holds() && what[3].revents != 0)
      back->write_some();
    else if ((what[3].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
      back->over = true;
  }
}

} // namespace swarm::cli
