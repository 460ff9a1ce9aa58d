#include "actors/fabric/workers/waking.hpp"

#include <algorithm>
#include <cctype>

#include "actors/agents/input_line.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm {

namespace {

constexpr std::string_view line_begins = "A peer sent you a swarm message";
constexpr std::string_view line_names_task = " for task ";
constexpr std::string_view line_ends = ". Read it with the swarm tool bootstrap, act on it, report back.";

bool is_of_id(unsigned char c) noexcept { return std::isalnum(c) != 0 || c == '-' || c == '_'; }

/// The id of a `[task:<id>]` prefix. It is typed into a terminal, so nothing but an id will do, whatever the sender.
std::string task_named_in(const std::string& content) {
  constexpr std::string_view mark = "[task:";
  auto end = content.find(']');
  if (!content.starts_with(mark) || end == std::string::npos || end - mark.size() > limits::id_bytes_max)
    return {};
  auto id = content.substr(mark.size(), end - mark.size());
  return std::all_of(id.begin(), id.end(), is_of_id) ? id : std::string{};
}

} // namespace

void agent_waking::on_state(v1::AgentReport::State state) {
  if (state == v1::AgentReport::WORKING && state != state_)
    turned_ = true;
  if (state == v1::AgentReport::IDLE || state == v1::AgentReport::DONE)
    ready_ = true;
  state_ = state;
}

bool agent_waking::wants(const agent_mail& mail) const {
  const bool rests = domain::takes_typed_text(state_);
  if (mail.newest == 0 || !ready_ || (!rests && state_ != v1::AgentReport::WORKING))
    return false;
  if (mail.newest_forced > woken_up_to_)
    return true;
  // Told already, it reads what has come since as well.
  if (!rests || told())
    return false;
  // The same mail once more only after a turn that did not read it, and not for ever.
  return mail.newest > woken_up_to_ || wakes_ < limits::agent_wakes_max();
}

void agent_waking::on_woken(const agent_mail& mail, bool at_work) {
  wakes_ = mail.newest > woken_up_to_ ? 1 : wakes_ + 1;
  woken_up_to_ = std::max(woken_up_to_, mail.newest);
  // Forced into a turn: that turn reads it, and no other begins.
  turned_ = at_work && state_ == v1::AgentReport::WORKING;
}

void agent_waking::on_mail(const agent_mail& mail) {
  if (mail.newest == 0 || mail.oldest > woken_up_to_)
    turned_ = true;
}

agent_mail mail_of(const v1::Messages& newest) {
  agent_mail out;
  for (const auto& m : newest.messages()) {
    if (m.read() || m.no_wake())
      continue;
    out.newest = std::max(out.newest, m.id());
    out.oldest = out.oldest == 0 ? m.id() : std::min(out.oldest, m.id());
    if (m.force_wake())
      out.newest_forced = std::max(out.newest_forced, m.id());
    out.task = task_named_in(m.content());
  }
  return out;
}

std::string wake_line(const agent_mail& mail) {
  auto named = concat({line_begins, line_names_task, mail.task, line_ends});
  return mail.task.empty() || named.size() > limits::agent_wake_line_bytes_max ? concat({line_begins, line_ends}) : named;
}

bool is_wake_line(std::string_view text) {
  static const auto begins = agents::without_blanks(line_begins), names_task = agents::without_blanks(line_names_task),
                    ends = agents::without_blanks(line_ends);
  if (text.empty())
    return false;
  while (!text.empty()) {
    if (!text.starts_with(begins))
      return false;
    text.remove_prefix(begins.size());
    if (text.starts_with(names_task)) {
      text.remove_prefix(names_task.size());
      text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_of_id) - text.begin())));
    }
    if (!text.starts_with(ends))
      return false;
    text.remove_prefix(ends.size());
  }
  return true;
}

} // namespace swarm
