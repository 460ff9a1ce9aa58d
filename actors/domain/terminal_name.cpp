#include "actors/domain/terminal_name.hpp"

#include <string_view>
#include <utility>

namespace swarm::domain {

namespace {

constexpr std::size_t name_bytes_max = 24;
constexpr std::size_t distinction_bytes = 4; // of the id, which is hexadecimal there

/// Returns the words of the text, letters and digits only, joined by '-'. At the length limit it drops the word that was cut, unless that is the only
/// one.
std::string slug(std::string_view text, std::size_t bytes_max) {
  std::string out;
  bool between = false;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) {
      between = !out.empty();
      continue;
    }
    if (std::exchange(between, false))
      out += '-';
    out += c;
    if (out.size() > bytes_max) {
      auto last = out.rfind('-');
      out.resize(last == out.npos ? bytes_max : last);
      break;
    }
  }
  return out;
}

/// Of a worker: after its task, else after its role.
std::string name_of_worker(const v1::Spawn& row, std::size_t bytes_max) {
  auto name = row.task_id().empty() ? std::string{} : slug(row.intent(), bytes_max);
  if (name.empty())
    name = slug(row.role(), bytes_max);
  return name.empty() ? "worker" : name;
}

} // namespace

bool is_named_by_person(const v1::Spawn& row) { return row.harness() == "shell" && row.task_id().empty() && !row.intent().empty(); }

std::string terminal_name(const v1::Spawn& row) { return is_named_by_person(row) ? row.intent() : name_of_worker(row, name_bytes_max); }

std::string distinct_terminal_name(const v1::Spawn& row) {
  return name_of_worker(row, name_bytes_max - distinction_bytes - 1) + "-" + row.id().substr(0, distinction_bytes);
}

} // namespace swarm::domain
