#include "actors/base/process.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "actors/base/limits.hpp"
#include "actors/base/proc_file.hpp"

namespace swarm {

namespace {

constexpr int walk_attempts = 5;

std::string proc_path(pid_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

/// With hidepid it cannot be seen, but the kernel says whether it may be signalled: also a setuid program that our user has started may be.
bool is_of_another_user(pid_t pid) { return kill(pid, 0) != 0 && errno == EPERM; }

/// pid and its ancestors, nearest first. Empty when the chain changed while it was walked. It ends below a process of another user that is hidden.
std::optional<std::vector<pid_t>> chain_of(pid_t pid) {
  auto at = read_process(pid);
  if (!at)
    return std::nullopt;
  std::vector<pid_t> chain{pid};
  while (at->parent > 0) {
    if (chain.size() > limits::process_ancestors_max)
      return std::nullopt;
    auto parent = read_process(at->parent);
    if (!parent && is_of_another_user(at->parent) && parent_of(at->pid) == at->parent)
      return chain;
    // A parent younger than its child is another process with a recycled number.
    if (!parent || parent->start > at->start)
      return std::nullopt;
    auto again = parent_of(at->pid);
    if (!again || *again != parent->pid)
      return std::nullopt;
    chain.push_back(parent->pid);
    at = parent;
  }
  return chain;
}

std::optional<std::vector<pid_t>> settled_chain_of(pid_t pid) {
  for (int i = 0; i < walk_attempts; ++i)
    if (auto chain = chain_of(pid))
      return chain;
  return std::nullopt;
}

} // namespace

std::optional<std::string> read_proc(pid_t pid, const char* name, std::size_t bytes_max) {
  unique_fd fd{open(proc_path(pid, name).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd)
    return std::nullopt;
  std::string out;
  char buffer[4096];
  while (out.size() < bytes_max) {
    auto n = read(fd.get(), buffer, std::min(sizeof buffer, bytes_max - out.size()));
    if (n < 0)
      return std::nullopt;
    if (n == 0)
      break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

std::optional<process_stat> read_process(pid_t pid) {
  auto text = read_proc(pid, "stat", 4096);
  return text ? parse_process_stat(pid, *text) : std::nullopt;
}

std::optional<process_stat> parse_process_stat(pid_t pid, std::string_view text) {
  // The name may hold anything, also parentheses and newlines: what follows the last one is machine-made.
  auto close = text.rfind(')');
  if (close == text.npos)
    return std::nullopt;
  text.remove_prefix(close + 1);
  auto word = [&text] {
    constexpr auto blanks = " \n";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    auto out = text.substr(0, text.find_first_of(blanks));
    text.remove_prefix(out.size());
    return out;
  };
  auto number = [&word](auto& into) {
    auto digits = word();
    auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return ec == std::errc{} && end == digits.data() + digits.size();
  };
  process_stat p;
  p.pid = pid;
  auto state = word();
  if (state.size() != 1 || !number(p.parent) || !number(p.group) || !number(p.session) || !number(p.terminal))
    return std::nullopt;
  p.state = state.front();
  constexpr int between = 14; // the terminal and the start time
  for (int i = 0; i < between; ++i)
    word();
  return number(p.start) ? std::optional{p} : std::nullopt;
}

std::vector<process_stat> list_processes() {
  std::vector<process_stat> out;
  auto dir = opendir("/proc");
  if (!dir)
    return out;
  while (auto entry = readdir(dir)) {
    std::string_view name = entry->d_name;
    pid_t pid = 0;
    auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (ec != std::errc{} || end != name.data() + name.size())
      continue;
    if (auto p = read_process(pid))
      out.push_back(*p);
  }
  closedir(dir);
  return out;
}

std::optional<std::uint64_t> pid_start_time(pid_t pid) {
  auto p = read_process(pid);
  return p ? std::optional{p->start} : std::nullopt;
}

std::optional<pid_t> parent_of(pid_t pid) {
  auto p = read_process(pid);
  return p ? std::optional{p->parent} : std::nullopt;
}

std::optional<bool> is_descendant(pid_t pid, pid_t ancestor) {
  auto chain = settled_chain_of(pid);
  if (!chain)
    return std::nullopt;
  for (auto p : *chain)
    if (p == ancestor)
      return true;
  return false;
}

std::optional<pid_t> ancestor_in(pid_t pid, const std::set<pid_t>& set) {
  if (auto chain = settled_chain_of(pid))
    for (auto p : *chain)
      if (set.count(p) != 0)
        return p;
  return std::nullopt;
}

std::optional<std::string> executable_of(pid_t pid) {
  std::string out(limits::path_bytes_max(), '\0');
  auto n = readlink(proc_path(pid, "exe").c_str(), out.data(), out.size());
  if (n <= 0)
    return std::nullopt;
  out.resize(static_cast<std::size_t>(n));
  return out;
}

std::optional<std::string> command_name_of(pid_t pid) {
  auto name = read_proc(pid, "comm", 64);
  while (name && name->ends_with('\n'))
    name->pop_back();
  return name;
}

std::optional<std::string> environment_of(pid_t pid, std::string_view name) {
  auto text = read_proc(pid, "environ", 4 * limits::mib);
  return text ? variable_in(*text, name) : std::nullopt;
}

std::optional<std::string> variable_in(std::string_view block, std::string_view name) {
  while (!block.empty()) {
    auto entry = block.substr(0, block.find('\0'));
    if (entry.size() > name.size() && entry.substr(0, name.size()) == name && entry[name.size()] == '=')
      return std::string{entry.substr(name.size() + 1)};
    block.remove_prefix(std::min(block.size(), entry.size() + 1));
  }
  return std::nullopt;
}

std::optional<signal_actions> signal_actions_of(pid_t pid) {
  auto text = read_proc(pid, "status", 64 * limits::kib);
  if (!text)
    return std::nullopt;
  auto mask = [&](std::string_view name) {
    std::uint64_t out = 0;
    if (auto at = text->find(name); at != std::string::npos)
      std::from_chars(text->data() + at + name.size(), text->data() + text->size(), out, 16);
    return out;
  };
  return signal_actions{mask("\nSigIgn:\t"), mask("\nSigCgt:\t")};
}

std::optional<unique_fd> open_pidfd(pid_t pid) {
  auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    return std::nullopt;
  return unique_fd{fd};
}

bool signal_process(pid_t pid, std::uint64_t start, int signal) {
  auto fd = open_pidfd(pid);
  if (!fd || pid_start_time(pid) != start)
    return false;
  return syscall(SYS_pidfd_send_signal, fd->get(), signal, nullptr, 0) == 0;
}

} // namespace swarm
