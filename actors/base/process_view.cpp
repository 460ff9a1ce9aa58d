#include "actors/base/process_view.hpp"

#include <algorithm>
#include <charconv>

#include "actors/base/limits.hpp"
#include "actors/base/proc_file.hpp"

namespace swarm {

namespace {

class proc_files final : public process_view {
public:
  std::optional<named_process> process(pid_t pid) const override {
    auto text = read_proc(pid, "stat", 4096);
    auto stat = text ? parse_process_stat(pid, *text) : std::nullopt;
    return stat ? std::optional{named_process{*stat, std::string{name_in_stat(*text)}}} : std::nullopt;
  }
  std::vector<named_process> group(pid_t id) const override {
    std::vector<named_process> out;
    for (const auto& p : list_processes())
      if (p.group == id)
        if (auto named = process(p.pid))
          out.push_back(std::move(*named));
    return out;
  }
  std::optional<uid_t> user_of(pid_t pid) const override {
    auto text = read_proc(pid, "status", 4096);
    return text ? user_in_status(*text) : std::nullopt;
  }
  std::optional<std::string> executable_of(pid_t pid) const override { return swarm::executable_of(pid); }
  std::vector<std::string> arguments_of(pid_t pid) const override {
    std::vector<std::string> out;
    auto text = read_proc(pid, "cmdline", 4096).value_or("");
    for (std::string_view rest = text; !rest.empty();) {
      auto end = std::min(rest.find('\0'), rest.size());
      out.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return out;
  }
  std::optional<std::string> environment_of(pid_t pid) const override { return read_proc(pid, "environ", 4 * limits::mib); }
};

} // namespace

const process_view& system_processes() {
  static const proc_files files;
  return files;
}

std::string_view name_in_stat(std::string_view text) noexcept {
  const auto begin = text.find('(');
  const auto end = text.rfind(')');
  return begin == text.npos || end == text.npos || end <= begin ? std::string_view{} : text.substr(begin + 1, end - begin - 1);
}

std::optional<uid_t> user_in_status(std::string_view text) noexcept {
  // The name is escaped there: no line but the kernel's own begins so.
  constexpr std::string_view line = "\nUid:\t";
  auto at = text.find(line);
  if (at == text.npos)
    return std::nullopt;
  text.remove_prefix(at + line.size());
  text.remove_prefix(std::min(text.find('\t'), text.size() - 1) + 1); // behind the real one
  uid_t out = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc{} && end != text.data() ? std::optional{out} : std::nullopt;
}

} // namespace swarm
