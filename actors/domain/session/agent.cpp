// What agents do, as their hooks, their plugin and the node's look at the terminal report it.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/typing.hpp"
#include "actors/domain/workspace.hpp"

namespace swarm::domain {

namespace {

using report_list = google::protobuf::RepeatedPtrField<v1::AgentReport>;

bool is_valid(const v1::AgentReport& r, std::int64_t now_ms) { return r.until_ms() == 0 || r.until_ms() > now_ms; }

v1::AgentReport* find_source(report_list& reports, const std::string& source) {
  auto i = std::find_if(reports.begin(), reports.end(), [&](const auto& r) { return r.source() == source; });
  return i == reports.end() ? nullptr : &*i;
}

/// The source's report, else the oldest. While a question is open only reports that the agent is blocked are added, so nothing but a newer question
/// makes an older one forgotten.
report_list::iterator replaced_by(report_list& reports, const std::string& source) {
  auto known = std::find_if(reports.begin(), reports.end(), [&](const auto& r) { return r.source() == source; });
  if (known != reports.end() || reports.size() < static_cast<int>(limits::agent_sources_max))
    return known;
  return std::min_element(reports.begin(), reports.end(), [](const auto& a, const auto& b) { return a.reported_at_ms() < b.reported_at_ms(); });
}

/// Newest last: of two in one millisecond the later one counts.
v1::AgentReport& place_for(report_list& reports, const std::string& source) {
  if (auto old = replaced_by(reports, source); old != reports.end())
    reports.erase(old);
  return *reports.Add();
}

v1::Reply reply_with(v1::Session s) {
  v1::Reply r;
  *r.mutable_session()->mutable_session() = std::move(s);
  return r;
}

/// A person at the terminal answers where the fabric can see it. What an agent asks elsewhere is over with whatever is reported next.
bool shows_answers(const transaction& tx, const v1::Session& s) {
  const auto terminal = terminal_of(tx, s);
  return terminal && is_agent(terminal->harness());
}

/// Whether the report ends what the agent asks its user, though nobody has answered at its terminal.
bool ends_question(const transaction& tx, const v1::ReportAgent& c) {
  const auto& who = tx.command().principal();
  const auto rests = c.state() == v1::AgentReport::IDLE || c.state() == v1::AgentReport::DONE;
  return is_person(who) || (c.turn_ended() && rests) || (who.kind() == v1::Principal::NODE && c.source() == program_source);
}

/// The report that came last says the same, and neither runs out.
bool is_repeat(const report_list& reports, const v1::ReportAgent& c) {
  if (reports.empty() || c.ttl_ms() != 0)
    return false;
  const auto& last = *reports.rbegin();
  return last.source() == c.source() && last.state() == c.state() && last.until_ms() == 0;
}

std::optional<v1::Reply> check_report(const transaction& tx, const v1::ReportAgent& c) {
  const bool of_node = tx.command().principal().kind() == v1::Principal::NODE;
  if (c.answered() && !of_node)
    return refuse(v1::Refusal::FORBIDDEN, "Only the node sees whether a person has answered at the agent's terminal");
  if (c.answered())
    return std::nullopt;
  if (c.source().empty())
    return refuse(v1::Refusal::INVALID, "A report needs a source: who says so");
  if (!of_node && (c.source() == output_source || c.source() == program_source))
    return refuse(v1::Refusal::FORBIDDEN, "Only the node reports as " + c.source() + ". Name another source.", c.source());
  if (c.state() == v1::AgentReport::STATE_UNSPECIFIED || !v1::AgentReport::State_IsValid(c.state()))
    return refuse(v1::Refusal::INVALID, "A report needs a state: working, idle, blocked, done or unknown");
  if (c.ttl_ms() < 0 || c.ttl_ms() > limits::agent_report_ttl_max().count())
    return refuse(v1::Refusal::INVALID, "A report is valid for at most " + std::to_string(limits::agent_report_ttl_max().count() / 1000) + " s");
  return std::nullopt;
}

void answer_questions(v1::Session& s) {
  for (auto& r : *s.mutable_reports())
    r.set_answered(true);
}

/// A person has typed there: the next report counts. Until it comes the agent is as it was.
v1::Reply note_answer(transaction& tx, v1::Session s) {
  if (!asks_person(s))
    return reply_with(std::move(s));
  answer_questions(s);
  tx.put(s);
  tx.event("agent.answered", s.id(), {{"state", to_text(agent_state(s, tx.in().now_ms))}}, s.id());
  return reply_with(std::move(s));
}

} // namespace

bool is_question(const v1::AgentReport& r) noexcept { return r.state() == v1::AgentReport::BLOCKED && !r.answered() && r.source() != output_source; }

bool asks_person(const v1::Session& s) noexcept { return std::any_of(s.reports().begin(), s.reports().end(), is_question); }

v1::AgentReport::State agent_state(const v1::Session& s, std::int64_t now_ms) {
  if (asks_person(s)) {
    auto stands = [&](const auto& r) { return is_question(r) && is_valid(r, now_ms); };
    return std::any_of(s.reports().begin(), s.reports().end(), stands) ? v1::AgentReport::BLOCKED : v1::AgentReport::UNKNOWN;
  }
  const v1::AgentReport* best = nullptr;
  auto rank = [](const v1::AgentReport& r) { return std::pair{r.source() != output_source, r.reported_at_ms()}; };
  for (const auto& r : s.reports())
    if (is_valid(r, now_ms) && (!best || rank(r) >= rank(*best)))
      best = &r;
  return best ? best->state() : v1::AgentReport::UNKNOWN;
}

const char* to_text(v1::AgentReport::State state) noexcept {
  switch (state) {
    case v1::AgentReport::WORKING: return "working";
    case v1::AgentReport::IDLE: return "idle";
    case v1::AgentReport::BLOCKED: return "blocked";
    case v1::AgentReport::DONE: return "done";
    default: return "unknown";
  }
}

v1::AgentReport::State agent_state_from(std::string_view text) {
  for (auto s : {v1::AgentReport::WORKING, v1::AgentReport::IDLE, v1::AgentReport::BLOCKED, v1::AgentReport::DONE, v1::AgentReport::UNKNOWN})
    if (text == to_text(s))
      return s;
  return v1::AgentReport::STATE_UNSPECIFIED;
}

bool takes_typed_text(v1::AgentReport::State state) noexcept { return state == v1::AgentReport::IDLE || state == v1::AgentReport::DONE; }

v1::Reply report_agent(transaction& tx, const v1::ReportAgent& c) {
  const auto& id = c.session_id().empty() ? tx.actor_name() : c.session_id();
  auto session = tx.get<v1::Session>(key(id));
  if (!session || session->scope() != tx.scope())
    return refuse(v1::Refusal::NOT_FOUND, "Instance " + id + " is not active in this scope", id);
  if (auto wrong = check_report(tx, c))
    return *wrong;
  if (c.answered())
    return note_answer(tx, std::move(*session));
  const auto now = tx.in().now_ms;
  const auto before = agent_state(*session, now);
  const auto* known = find_source(*session->mutable_reports(), c.source());
  if (known && c.seq() != 0 && c.seq() <= known->seq())
    return reply_with(std::move(*session));
  const auto seq = c.seq() != 0 ? c.seq() : known ? known->seq() + 1 : 1;
  const bool asked = asks_person(*session);
  const bool asks = c.state() == v1::AgentReport::BLOCKED;
  const bool ends = asked && ends_question(tx, c);
  // Of what goes on beside an open question: another tool has ended, or the agent's own shell says so.
  if (asked && !asks && !ends)
    return reply_with(std::move(*session));
  if (ends)
    answer_questions(*session);
  const bool repeats = is_repeat(session->reports(), c);
  auto& r = place_for(*session->mutable_reports(), c.source());
  r.set_source(c.source());
  r.set_seq(seq);
  r.set_state(c.state());
  r.set_reported_at_ms(now);
  r.set_until_ms(c.ttl_ms() == 0 ? 0 : now + c.ttl_ms());
  r.set_note(c.note());
  r.set_answered(asks && !shows_answers(tx, *session));
  const auto after = agent_state(*session, now);
  tx.put(*session);
  json payload{{"state", to_text(after)}, {"source", c.source()}, {"reported", to_text(c.state())}, {"until", r.until_ms()}};
  if (!c.note().empty())
    payload["note"] = c.note();
  if (is_question(r))
    payload["asks"] = true;
  // Repeats only move the report's clock; followers need to hear of them as little as of heartbeats. Of any other report they need to hear also when
  // the state stays: once another source's has run out, this one counts.
  if (!repeats || after != before || asked != asks_person(*session))
    tx.event("agent.state", session->id(), payload, session->id());
  return reply_with(std::move(*session));
}

void publish_terminal(transaction& tx, const v1::Session& s, const std::string& handle) {
  v1::KvEntry entry;
  entry.set_scope(tx.scope());
  entry.set_key(workspace_keys(pty_workspace, s.id()).front());
  entry.set_owner_identity(identity_token(s.label()));
  entry.set_updated_at_ms(tx.in().now_ms);
  json value{{"schema_version", 1},
             {"backend", pty_workspace.name},
             {"handle_kind", pty_workspace.handle_kind},
             {"handle", handle},
             {"handle_aliases", json::array()}};
  entry.set_value(value.dump());
  entry.set_revision(tx.revision());
  tx.kv_changed();
  tx.put(entry);
}

std::optional<v1::Spawn> terminal_of(const transaction& tx, const v1::Session& s) {
  if (s.spawn_id().empty())
    return std::nullopt;
  auto spawn = tx.get<v1::Spawn>(key(s.spawn_id()));
  if (!spawn || spawn->session_id() != s.id() || spawn->pty_id().empty() || !is_live(*spawn))
    return std::nullopt;
  return spawn;
}

} // namespace swarm::domain
