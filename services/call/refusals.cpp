#include "services/call/refusals.hpp"

#include <algorithm>
#include <cctype>

namespace swarm {

namespace {

/// "Shutdown", "CreateJoinToken" as "shutdown", "create_join_token".
std::string in_words(std::string_view name) {
  std::string out;
  for (auto c : name) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower != c && !out.empty())
      out += '_';
    out += lower;
  }
  return out;
}

/// Of what is done inside of calls, commands and questions of links.
std::string_view name_without_call(domain::operation what) {
  using enum domain::operation;
  switch (what) {
    case watch_all_scopes: return "watch_all_scopes";
    case pty_find: return "pty_find";
    case pty_peek: return "pty_peek";
    case give_grants: return "give_grants";
    case make_coordinators: return "make_coordinators";
    case loosen_permissions: return "loosen_permissions";
    case choose_identity: return "choose_identity";
    case cross_identity: return "cross_identity";
    case act_as_session: return "act_as_session";
    case outrank_agents: return "outrank_agents";
    case decide_for_others: return "decide_for_others";
    default: return {}; // a call
  }
}

} // namespace

std::string name_of(domain::operation what) {
  const auto calls = domain::call_rights();
  const auto row = std::find_if(calls.begin(), calls.end(), [&](const auto& r) { return r.what == what; });
  if (row == calls.end())
    return std::string{name_without_call(what)};
  const auto method = row->method.substr(row->method.rfind('.') + 1);
  auto service = row->method.substr(0, row->method.rfind('.'));
  service.remove_prefix(service.rfind('.') + 1);
  if (service == "Coordination")
    return in_words(method);
  return (service == "Ptys" ? "pty" : in_words(service)) + "_" + in_words(method);
}

std::string refusals::body_of(const google::protobuf::Message& m, int number) {
  const auto* field = m.GetDescriptor()->FindFieldByNumber(number);
  return field ? field->name() : "nothing";
}

void refusals::add(const v1::Principal& who, std::string_view operation, std::string_view reason) {
  auto kind = std::string{domain::name_of(who.kind())};
  if (kind.empty())
    kind = "stranger";
  std::lock_guard guard{mutex_};
  auto& e = entries_[{kind, std::string{operation}}];
  ++e.count;
  e.last_at_ms = now_.unix_ms();
  // The same caller that tries again and again is said once, and counted each time.
  if (said_.add(kind + " " + who.id() + " " + std::string{operation}, now_.steady_ms()))
    log_("refused: " + kind + (who.id().empty() ? "" : " " + who.id()) + ", " + std::string{operation} + ": " + std::string{reason});
}

std::vector<v1::RefusalCount> refusals::counts() const {
  std::lock_guard guard{mutex_};
  std::vector<v1::RefusalCount> out;
  for (const auto& [what, e] : entries_) {
    auto& c = out.emplace_back();
    c.set_who(what.first);
    c.set_operation(what.second);
    c.set_count(e.count);
    c.set_last_at_ms(e.last_at_ms);
  }
  return out;
}

} // namespace swarm
