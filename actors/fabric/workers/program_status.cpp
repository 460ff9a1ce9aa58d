#include "actors/fabric/workers/program_status.hpp"

#include <algorithm>

#include "actors/agents/agent.hpp"

namespace swarm {

namespace {

// The protocol's own bound for one sequence.
constexpr std::size_t sequence_bytes_max = 4096;
// It asks for a place for 64 parts at least. One that does not fit counts as the program itself.
constexpr std::size_t parts_max = 64;

constexpr char bell = '\x07';
constexpr char escape = '\x1b';

/// UNKNOWN for what a later version of the protocol may say.
v1::AgentReport::State state_from(std::string_view word) {
  if (word == "working")
    return v1::AgentReport::WORKING;
  if (word == "blocked")
    return v1::AgentReport::BLOCKED;
  // After an error, too, it waits for what its user says next.
  return word == "idle" || word == "done" || word == "error" ? v1::AgentReport::IDLE : v1::AgentReport::UNKNOWN;
}

v1::AgentReport::State state_from(agents::state s) {
  switch (s) {
    case agents::state::idle: return v1::AgentReport::IDLE;
    case agents::state::working: return v1::AgentReport::WORKING;
    case agents::state::blocked: return v1::AgentReport::BLOCKED;
  }
  return v1::AgentReport::UNKNOWN;
}

/// What stands before the separator, which is taken off with it.
std::string_view next_of(std::string_view& rest, char separator) {
  auto end = std::min(rest.find(separator), rest.size());
  auto out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

} // namespace

void program_status::read(std::string_view output) {
  while (!output.empty()) {
    if (place_ == place::text) {
      auto begin = output.find(escape);
      if (begin == std::string_view::npos)
        return;
      output.remove_prefix(begin);
    }
    take(output.front());
    output.remove_prefix(1);
  }
}

void program_status::forget() {
  own_ = v1::AgentReport::UNKNOWN;
  blocked_.clear();
}

void program_status::take(char c) {
  const auto before = place_;
  if (before == place::sequence_escape && c == '\\')
    return finish();
  if (before == place::sequence && c == bell)
    return finish();
  if (c == escape) {
    place_ = before == place::sequence ? place::sequence_escape : place::escape;
    return;
  }
  if (before == place::sequence) {
    too_long_ = too_long_ || sequence_.size() == sequence_bytes_max;
    if (!too_long_)
      sequence_ += c;
    return;
  }
  // An escape that ends no sequence breaks it off and begins the next.
  place_ = c == ']' && before != place::text ? place::sequence : place::text;
  sequence_.clear();
  too_long_ = false;
}

void program_status::finish() {
  place_ = place::text;
  std::string_view rest{sequence_};
  auto number = next_of(rest, ';');
  if (too_long_)
    return;
  if (number == "7501")
    take_status(rest);
  else if (number == "0" || number == "2")
    take_title(rest);
}

void program_status::take_status(std::string_view pairs) {
  if (pairs.starts_with('?')) {
    asked_ = true;
    return;
  }
  std::string_view word, part;
  while (!pairs.empty()) {
    auto value = next_of(pairs, ':');
    auto key = next_of(value, '=');
    if (key == "state")
      word = value;
    else if (key == "id")
      part = value;
  }
  const auto state = state_from(word);
  if (word != "clear" && state == v1::AgentReport::UNKNOWN)
    return;
  if (part.empty() && word == "clear")
    return forget();
  if (part.empty()) {
    own_ = state;
    return;
  }
  auto within = [&](std::string_view id) { return id == part || (word == "clear" && id.starts_with(part) && id[part.size()] == '/'); };
  std::erase_if(blocked_, [&](const auto& id) { return within(id); });
  if (state != v1::AgentReport::BLOCKED)
    return;
  if (blocked_.size() < parts_max)
    blocked_.emplace(part);
  else
    own_ = state;
}

void program_status::take_title(std::string_view title) {
  for (const auto& agent : agents::all())
    for (const auto& mark : agent.titles)
      if (title.starts_with(mark.begins))
        own_ = state_from(mark.means);
}

} // namespace swarm
