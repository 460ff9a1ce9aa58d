#include "actors/base/restrictions.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

#include <sys/prctl.h>
#include <unistd.h>

namespace swarm {

namespace {

std::optional<std::string> text_of(const std::string& file) {
  std::ifstream in{file};
  std::ostringstream out;
  out << in.rdbuf();
  return in && !out.str().empty() ? std::optional{out.str()} : std::nullopt;
}

std::optional<std::string> text_of(pid_t pid, const char* name) { return text_of("/proc/" + std::to_string(pid) + "/" + name); }

std::uint32_t number_after(std::string_view text, std::string_view name) {
  std::uint32_t out = 0;
  if (auto at = text.find(name); at != text.npos) {
    text.remove_prefix(at + name.size());
    std::from_chars(text.data(), text.data() + text.size(), out);
  }
  return out;
}

/// The innermost service, but not the user's manager, to which everything of the user belongs, and no program of a desktop.
std::string unit_of(std::string_view path) {
  constexpr std::string_view service = ".service";
  std::string_view found;
  while (!path.empty()) {
    path.remove_prefix(1);
    auto name = path.substr(0, path.find('/'));
    if (name.ends_with(service) && !name.starts_with("user@") && !name.starts_with("app-"))
      found = name;
    path.remove_prefix(name.size());
  }
  return std::string{found};
}

} // namespace

restrictions parse_restrictions(std::string_view status, std::string_view cgroup) {
  restrictions out;
  out.no_new_privileges = number_after(status, "\nNoNewPrivs:\t") != 0;
  out.seccomp = number_after(status, "\nSeccomp:\t");
  // "0::/path" is the one hierarchy of cgroup 2; beside older ones systemd has "1:name=systemd:/path".
  while (!cgroup.empty()) {
    auto line = cgroup.substr(0, cgroup.find('\n'));
    cgroup.remove_prefix(std::min(cgroup.size(), line.size() + 1));
    auto path = line.find(":/");
    if (path != line.npos && (line.starts_with("0::") || line.find(":name=systemd:") != line.npos))
      if (auto unit = unit_of(line.substr(path + 1)); !unit.empty())
        out.unit = std::move(unit);
  }
  return out;
}

std::optional<restrictions> restrictions_of(pid_t pid) {
  auto status = text_of(pid, "status");
  auto cgroup = text_of(pid, "cgroup");
  return status ? std::optional{parse_restrictions(*status, cgroup.value_or(""))} : std::nullopt;
}

std::string difference_of(const restrictions& theirs, const restrictions& ours) {
  std::string out;
  auto add = [&](std::string_view name, const std::string& its, const std::string& here) {
    if (its != here)
      out.append(out.empty() ? "" : "; ").append(name).append(" ").append(its).append(", here ").append(here);
  };
  auto unit = [](const restrictions& r) { return r.unit.empty() ? std::string{"none"} : r.unit; };
  add("NoNewPrivs", theirs.no_new_privileges ? "1" : "0", ours.no_new_privileges ? "1" : "0");
  add("Seccomp", std::to_string(theirs.seccomp), std::to_string(ours.seccomp));
  add("unit", unit(theirs), unit(ours));
  return out;
}

bool is_proc_hiding(std::string_view mounts) {
  bool hiding = false;
  while (!mounts.empty()) {
    auto line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix(std::min(mounts.size(), line.size() + 1));
    // "22 27 0:21 / /proc rw,relatime - proc proc rw,hidepid=invisible": the last one lies on top.
    const auto source = line.find(" - proc ");
    if (source == line.npos || line.substr(0, source).find(" / /proc ") == line.npos)
      continue;
    constexpr std::string_view option = "hidepid=";
    const auto at = line.find(option, source);
    const auto value = at == line.npos ? std::string_view{} : line.substr(at + option.size(), line.find_first_of(",\n", at) - at - option.size());
    hiding = !value.empty() && value != "0" && value != "off";
  }
  return hiding;
}

bool forbid_inspection() {
  if (geteuid() != 0 && is_proc_hiding(text_of("/proc/self/mountinfo").value_or("")))
    return false;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool is_inspection_forbidden() { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1; }

} // namespace swarm
