#include "actors/domain/typing.hpp"

#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

constexpr const char* own_terminal =
  "a session may not type into its own terminal: what its program asks is for a person to answer. Ask the operator: swarmctl pty attach";

std::string_view last_part(std::string_view path) {
  auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// Where an Enter may be an answer to what the agent asks its user, or where nobody knows whether it is.
std::optional<std::string> refused_by_state(const v1::PtyInfo& terminal) {
  switch (terminal.agent_status()) {
    case v1::AgentReport::WORKING:
    case v1::AgentReport::IDLE:
    case v1::AgentReport::DONE: return std::nullopt;
    case v1::AgentReport::BLOCKED:
      return "the agent in this terminal waits for a person, and only a person may answer: swarmctl pty attach " + terminal.id();
    default: return "nobody knows what the agent in this terminal does, so only a person may type there; send it a message: swarmctl send";
  }
}

// -- what a terminal says by itself ------------------------------------------------------------------

constexpr char escape = '\x1b';

/// The end of a string that ST or BEL ends.
std::size_t end_of_string(std::string_view s) noexcept {
  for (std::size_t i = 2; i < s.size(); ++i) {
    if (s[i] == '\x07')
      return i + 1;
    if (s[i] == escape && i + 1 < s.size() && s[i + 1] == '\\')
      return i + 2;
  }
  return s.size();
}

/// A move of the mouse or of its wheel without a click: its button has the bit 32 or 64.
bool is_move(std::string_view parameters) noexcept {
  unsigned button = 0;
  for (char c : parameters.substr(1)) {
    if (c < '0' || c > '9')
      break;
    button = (button * 10 + static_cast<unsigned>(c - '0')) % 1024;
  }
  return (button & 96) != 0;
}

bool is_reply(std::string_view parameters, char final) noexcept {
  const char first = parameters.empty() ? '\0' : parameters.front();
  switch (final) {
    case 'I':
    case 'O': return parameters.empty();                             // it has the focus, it has lost it
    case 'R': return parameters.find(';') != std::string_view::npos; // where the cursor is
    case 'c':
    case 'n':
    case 't':
    case 'y':
    case 'u': return final == 'u' || final == 'y' ? first == '?' : true;
    case 'M':
    case 'm': return first == '<' && (final == 'm' || is_move(parameters));
    default: return false;
  }
}

/// How long the sequence at the beginning of `s` is if the terminal sends it by itself; else 0.
std::size_t reply_length(std::string_view s) noexcept {
  if (s.size() < 2 || s[0] != escape)
    return 0;
  if (s[1] == ']' || s[1] == 'P' || s[1] == '_')
    return end_of_string(s);
  if (s[1] != '[')
    return 0;
  auto end = s.find_first_not_of("0123456789;:<=>?$", 2);
  if (end == std::string_view::npos)
    return 0;
  return is_reply(s.substr(2, end - 2), s[end]) ? end + 1 : 0;
}

} // namespace

bool is_person(const v1::Principal& who) noexcept { return !may(who, operation::outrank_agents); }

bool is_agents_terminal(const v1::PtyInfo& terminal) {
  return is_agent(terminal.harness()) || (terminal.argv_size() > 0 && is_agent(last_part(terminal.argv(0))));
}

terminal terminal_of(const v1::Principal& who, const v1::PtyInfo& info) {
  if (who.kind() == v1::Principal::SESSION && !who.id().empty() && who.id() == info.session_id())
    return terminal::own;
  const auto has_agent = is_agents_terminal(info) || info.agent_status() != v1::AgentReport::STATE_UNSPECIFIED;
  return has_agent ? terminal::agent : terminal::program;
}

std::optional<std::string> refused_use(const v1::Principal& who, const v1::PtyInfo& info, operation what) {
  if (who.kind() == v1::Principal::NODE && who.node().empty())
    return std::nullopt;
  const auto whose = terminal_of(who, info);
  if (auto refused = may(who, what, whose))
    return what == operation::pty_write && whose == terminal::own ? std::string{own_terminal} : refused->text();
  const bool by_agent = what == operation::pty_write && whose == terminal::agent && !is_person(who);
  return by_agent ? refused_by_state(info) : std::nullopt;
}

bool holds_keys(std::string_view input) noexcept {
  while (!input.empty()) {
    const auto n = reply_length(input);
    if (n == 0)
      return true;
    input.remove_prefix(n);
  }
  return false;
}

} // namespace swarm::domain
