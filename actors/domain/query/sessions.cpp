// Lists sessions, and finds the session that a user means by a few letters.
#include "actors/domain/query/rules.hpp"
#include "actors/domain/workspace.hpp"

namespace swarm::domain {

namespace {

constexpr std::size_t short_id_chars = 8;

std::string candidate(const v1::Session& s) {
  auto text = s.id().substr(0, short_id_chars);
  return s.label().empty() ? text : text + " (" + s.label() + ")";
}

std::string candidates(const std::vector<const v1::Session*>& sessions) {
  if (sessions.empty())
    return "(none)";
  std::string text;
  for (std::size_t i = 0; i < sessions.size() && i < limits::candidates_shown_max; ++i)
    text += (i == 0 ? "" : ", ") + candidate(*sessions[i]);
  return sessions.size() > limits::candidates_shown_max ? text + ", …" : text;
}

std::vector<const v1::Session*> pointers(const std::vector<v1::Session>& sessions) {
  std::vector<const v1::Session*> out;
  out.reserve(sessions.size());
  for (const auto& s : sessions)
    out.push_back(&s);
  return out;
}

v1::Answer found(const question& q, v1::Session s) {
  v1::Answer a;
  *a.mutable_session() = shown(q, std::move(s));
  return a;
}

/// The session that the caller is. A person is none, also beside exactly one agent: what a person does is not the agent's doing.
v1::Answer own_session(const question& q, const std::vector<v1::Session>& all) {
  const auto& who = q.query.principal();
  if (who.kind() == v1::Principal::SESSION)
    if (auto own = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.id() == who.id(); }); own != all.end())
      return found(q, *own);
  auto none = deny(v1::Refusal::NOT_REGISTERED, "Not registered in scope " + q.scope() + ". Pass --as <id-or-label> or set SWARM_MCP_INSTANCE_ID.");
  const auto person = who.kind() == v1::Principal::OPERATOR;
  none.mutable_refusal()->set_explanation(
    "you have no session in " + q.scope() +
    (person ? ", and what a person does is no agent's doing: say with --as for whom, or make one: swarmctl register --label name:me "
              "--lease-seconds 600, then --as me. Who is here: swarmctl instances"
            : " yet: swarmctl register, or the tool register"));
  return none;
}

/// Somebody on another host is not meant by a caller who names nobody.
bool is_of_callers_host(const question& q, const v1::Session& s) {
  const auto& from = q.query.principal().node().empty() ? q.in.node_id : q.query.principal().node();
  return s.node_id().empty() || s.node_id() == from;
}

v1::Answer only_session(const question& q, std::vector<v1::Session> sessions) {
  const auto all = sessions.size();
  std::erase_if(sessions, [&](const auto& s) { return !is_of_callers_host(q, s); });
  if (sessions.size() == 1)
    return found(q, sessions.front());
  if (sessions.empty()) {
    auto none =
      deny(v1::Refusal::NOT_FOUND, "No instances registered in scope " + q.scope() + ". Pass --as <id-or-label> or set SWARM_MCP_INSTANCE_ID.");
    const auto* where = all > 0 ? " on this host; to speak for one of another host, name it with --as. To begin your own: " : " yet: ";
    none.mutable_refusal()->set_explanation("you have no session in " + q.scope() + where + "swarmctl register --label name:me --lease-seconds 600");
    return none;
  }
  return deny(v1::Refusal::CONFLICT,
              "Multiple instances in scope " + q.scope() + "; pass --as <id-or-label>. Candidates: " + candidates(pointers(sessions)));
}

} // namespace

bool is_attended(const v1::Session& s, std::int64_t now_ms) noexcept {
  switch (s.presence()) {
    case v1::Session::PROCESS:
    case v1::Session::CONNECTION: return true;
    case v1::Session::LEASE: return s.lease_until_ms() == 0 || s.lease_until_ms() >= now_ms;
    default: return false;
  }
}

std::int64_t shown_heartbeat_ms(const v1::Session& s, std::int64_t now_ms) { return is_attended(s, now_ms) ? now_ms : s.heartbeat_ms(); }

v1::Session shown(const question& q, v1::Session s) {
  s.set_heartbeat_ms(shown_heartbeat_ms(s, q.in.now_ms));
  return s;
}

v1::Answer list_sessions(const question& q, const v1::ListSessions& c) {
  const auto start = read_page("sessions", c.page());
  if (!start.valid || (!start.position.empty() && !is_position(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_sessions();
  session_filter f;
  f.scope = q.scope();
  if (c.adopted_only())
    f.adopted = true;
  const auto pattern = "%" + c.label_contains() + "%";
  const auto next = fill_page<v1::Session>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_key = after;
      f.limit = limit;
      return q.rows.rows<v1::Session>(f);
    },
    [](const v1::Session& s) { return position(s); },
    [&](v1::Session s) -> std::size_t {
      if (!q.sees(s) || (!c.label_contains().empty() && !like(s.label(), pattern)))
        return 0;
      auto& row = *out.add_sessions() = shown(q, std::move(s));
      if (auto workspace = workspace_of(q.rows, q.scope(), row.id(), q.eyes(), q.cross, q.in.now_ms))
        *row.mutable_workspace() = std::move(*workspace);
      return row.ByteSizeLong() + 1;
    });
  if (next)
    out.mutable_page()->set_token(page_token("sessions", *next));
  return a;
}

namespace {

/// One of the sessions that `fits`, or why it is not one; nothing when none fits.
template <class Predicate>
std::optional<v1::Answer> the_one(const question& q, const std::vector<v1::Session>& all, const char* ambiguous, Predicate fits) {
  std::vector<const v1::Session*> found_here;
  for (const auto& s : all)
    if (fits(s))
      found_here.push_back(&s);
  if (found_here.empty())
    return std::nullopt;
  return found_here.size() == 1 ? found(q, *found_here.front()) : deny(v1::Refusal::CONFLICT, ambiguous + candidates(found_here));
}

/// A name is never part of a word: what `name:ann` asks for must not reach `name:anna` when ann has gone.
v1::Answer find_by_words(const question& q, const std::vector<v1::Session>& all, const std::string& who) {
  const auto label = "Ambiguous label match \"" + who + "\": ", prefix = "Ambiguous id prefix \"" + who + "\": ";
  auto answer = the_one(q, all, label.c_str(), [&](const auto& s) { return s.label() == who; });
  if (!answer)
    answer = the_one(q, all, label.c_str(), [&](const auto& s) { return has_word(s.label(), who); });
  const auto by_id = the_one(q, all, prefix.c_str(), [&](const auto& s) { return begins_id(s.id(), who); });
  // A label may hold what another session's id begins with, by chance or on purpose.
  if (answer && by_id && (by_id->has_refusal() || by_id->session().id() != answer->session().id()))
    return deny(v1::Refusal::CONFLICT, "\"" + who + "\" is a word of one session's label and the beginning of another one's id; give the whole id");
  if (!answer)
    answer = by_id;
  return answer ? std::move(*answer)
                : deny(v1::Refusal::NOT_FOUND, "No instance matches \"" + who +
                                                 "\" in this scope; name it by its id, four characters of it or more, or a word of its label. " +
                                                 "Candidates: " + candidates(pointers(all)));
}

} // namespace

v1::Answer find_session(const question& q, const v1::FindSession& c) {
  session_filter f;
  f.scope = q.scope();
  auto all = q.rows.rows<v1::Session>(f);
  std::erase_if(all, [&](const auto& s) { return !q.sees(s); });
  const auto& who = c.who();
  if (who.empty() && c.own())
    return own_session(q, all);
  if (who.empty()) {
    if (c.not_workers())
      std::erase_if(all, [](const auto& s) { return !s.spawn_id().empty(); });
    return only_session(q, all);
  }
  if (auto same = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.id() == who; }); same != all.end())
    return found(q, *same);
  if (c.whole_words())
    return find_by_words(q, all, who);
  std::vector<const v1::Session*> by_id, by_label;
  for (const auto& s : all) {
    if (s.id().compare(0, who.size(), who) == 0)
      by_id.push_back(&s);
    if (s.label().find(who) != std::string::npos)
      by_label.push_back(&s);
  }
  if (by_id.size() == 1)
    return found(q, *by_id.front());
  if (by_id.size() > 1)
    return deny(v1::Refusal::CONFLICT, "Ambiguous id prefix \"" + who + "\": " + candidates(by_id));
  if (by_label.size() == 1)
    return found(q, *by_label.front());
  if (by_label.size() > 1)
    return deny(v1::Refusal::CONFLICT, "Ambiguous label match \"" + who + "\": " + candidates(by_label));
  return deny(v1::Refusal::NOT_FOUND, "No instance matches \"" + who + "\" in this scope. Candidates: " + candidates(pointers(all)));
}

} // namespace swarm::domain
