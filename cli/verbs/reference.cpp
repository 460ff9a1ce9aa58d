#include "cli/verbs/reference.hpp"

#include <algorithm>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/terminal_name.hpp"
#include "cli/verbs/hosts_asked.hpp"

namespace swarm::cli {

namespace {

/// The length of a UUID. A full id means exactly that thing, even if the thing is not listed.
constexpr std::size_t full_id_bytes = 36;

std::string made_here(const invocation& cli, kind_of_thing kind) { return cli.recent.newest(kind, cli.node_name(), one_name_of(cli, cli.scope())); }

/// Never an older one in its place: it could be ended or done over by mistake.
failure last_is_gone(const std::string& what, const std::string& id, const std::string& how = " is not there any more; name one, see: ") {
  const auto* list = what == "task"           ? "swarmctl tasks"
                     : what == "approval"     ? "swarmctl approvals"
                     : what == "conversation" ? "swarmctl chat list"
                                              : "swarmctl pty list --all";
  return {code::refused, "the newest " + what + " that you made here (" + short_id(id) + ")" + how + list};
}

std::string candidates(const std::vector<const v1::PtyInfo*>& found) {
  std::string out;
  for (std::size_t i = 0; i < found.size() && i < limits::candidates_shown_max; ++i)
    out += (i == 0 ? "" : ", ") + short_id(found[i]->id()) + (found[i]->name().empty() ? "" : " (" + found[i]->name() + ")");
  return found.size() > limits::candidates_shown_max ? out + ", …" : out;
}

failure several(const std::string& what, const std::string& who, const std::string& which) {
  return {code::refused, "more than one " + what + " is meant by \"" + who + "\": " + which + "; give more of the id"};
}

/// A name may hold what another terminal's id begins with, by chance or on purpose.
failure name_and_id(const std::string& who, const v1::PtyInfo& named, const v1::PtyInfo& begins_so) {
  return {code::refused, concat({"\"", who, "\" is the name of one terminal and the beginning of another one's id; give the whole id: ", named.id(),
                                 " (that name) or ", begins_so.id()})};
}

std::string find_task(const invocation& cli, const std::string& who) {
  auto q = cli.query();
  q.mutable_find_task()->set_who(who);
  return cli.ask(q).task().id();
}

/// The task that this terminal made last. A backup that was restored may not know it.
std::string kept_task(const invocation& cli, const std::string& id) {
  cli.require_named_actor();
  auto q = cli.query();
  q.mutable_find_task()->set_who(id);
  const auto answer = cli.node().coordination.ask(q);
  if (answer.has_refusal() && answer.refusal().code() == v1::Refusal::NOT_FOUND)
    throw last_is_gone("task", id);
  if (answer.has_refusal())
    throw refused(answer.refusal());
  return id;
}

/// The node names the terminals of `scope` as the caller does, by the directory of a shared checkout for instance.
std::vector<v1::PtyInfo> terminals(const invocation& cli, const std::string& scope, bool all_scopes) {
  v1::ListPtysRequest request;
  request.set_scope(scope);
  request.set_all_scopes(all_scopes);
  return mcp::rows_of_pages<v1::PtyInfo>(std::move(request), [&](const v1::ListPtysRequest& r) { return cli.node().ptys.list(r); });
}

std::vector<v1::Spawn> live_workers(const invocation& cli) {
  auto q = cli.query();
  q.mutable_list_spawns()->set_live_only(true);
  try {
    return all_rows<v1::Spawn>(cli, std::move(q));
  } catch (const failure&) {
    return {}; // The home is away. What runs on this host is used all the same.
  }
}

/// Adds the terminals of this scope that run on a host which is not reached just now: a name may mean one of them. Its home knows its workers.
void add_unreached(std::vector<v1::PtyInfo>& all, const std::vector<v1::Spawn>& workers) {
  for (const auto& w : workers) {
    const bool listed = std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.id() == w.id(); });
    if (listed || w.status() != v1::Spawn::RUNNING)
      continue;
    auto& p = all.emplace_back();
    p.set_id(w.id());
    p.set_scope(w.scope());
    p.set_name(domain::terminal_name(w));
    p.set_running(true);
    p.set_pipes(w.pipes());
    p.set_node_id(w.node_id());
    p.set_created_at_ms(w.requested_at_ms());
  }
}

/// Where a terminal may be that is not listed.
std::string not_asked(const invocation& cli) {
  auto names = names_not_asked(cli);
  return names.empty() ? names : "; not linked, and so not asked: " + names;
}

const v1::PtyInfo* newest_of(const std::vector<v1::PtyInfo>& all, const std::string& scope) {
  const v1::PtyInfo* out = nullptr;
  for (const auto& p : all)
    if (p.scope() == scope && (out == nullptr || out->created_at_ms() <= p.created_at_ms()))
      out = &p;
  return out;
}

/// Null when there is none. `unasked` tells of hosts that may have the one.
const v1::PtyInfo* last_terminal(const invocation& cli, const std::vector<v1::PtyInfo>& all, const std::vector<v1::Spawn>& workers,
                                 const std::string& scope, const std::function<std::string()>& unasked) {
  const auto mine = made_here(cli, kind_of_thing::terminal);
  if (mine.empty())
    return newest_of(all, scope);
  if (auto found = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.id() == mine; }); found != all.end())
    return &*found;
  if (std::any_of(workers.begin(), workers.end(), [&](const auto& w) { return w.id() == mine; }))
    throw last_is_gone("terminal", mine, " has not begun yet; name another, see: ");
  auto hint = unasked();
  throw last_is_gone("terminal", mine, hint.empty() ? " is not there any more; name one, see: " : " is not found" + hint + "; name one, see: ");
}

} // namespace

std::string task_named(const invocation& cli, const std::string& who) {
  // Under the name swarm-mcp only full ids are taken; the node refuses anything else.
  if (who.size() == full_id_bytes || cli.is_swarm_mcp())
    return who;
  // An unset variable of a script must not mean the newest task, which is what the node takes no word for.
  if (who.empty())
    throw failure(code::usage, "the task is an empty word; give its id, the first characters of it, or @last");
  auto mine = who == last_word ? made_here(cli, kind_of_thing::task) : std::string{};
  return !mine.empty() ? kept_task(cli, mine) : find_task(cli, who == last_word ? std::string{} : who);
}

std::vector<std::string> tasks_named(const invocation& cli, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const auto& word : comma_separated(words))
    out.push_back(task_named(cli, word));
  return out;
}

std::string optional_task(const invocation& cli, const std::string& who) { return who.empty() ? std::string{} : task_named(cli, who); }

std::vector<v1::Approval> open_approvals(const invocation& cli, const std::string& scope, const std::string& viewer) {
  auto q = cli.query();
  q.set_scope(scope);
  q.set_viewer(viewer);
  q.mutable_list_approvals()->set_open_only(true);
  q.mutable_list_approvals()->mutable_page();
  return all_rows<v1::Approval>(cli, std::move(q));
}

std::string approval_named(const invocation& cli, const std::string& who, const std::vector<std::string>& scopes) {
  if (who.size() == full_id_bytes)
    return who;
  if (who == last_word) {
    const auto open = open_approvals(cli, cli.scope());
    auto mine = made_here(cli, kind_of_thing::approval);
    for (const auto& a : open)
      if (a.id() == mine)
        return mine;
    if (!mine.empty())
      throw last_is_gone("approval", mine);
    if (open.empty())
      throw failure(code::refused, "nothing waits for a decision in scope " + cli.scope());
    return open.back().id();
  }
  std::set<std::string> found;
  const auto look_at = [&](const auto& approvals) {
    for (const auto& a : approvals)
      if (a.id() == who || (who.size() >= limits::id_prefix_min && a.id().starts_with(who)))
        found.insert(a.id());
  };
  for (const auto& scope : scopes) {
    try {
      look_at(open_approvals(cli, scope));
      auto newest = cli.query();
      newest.set_scope(scope);
      newest.mutable_list_approvals();
      const auto answer = cli.ask(newest);
      look_at(answer.approvals().approvals());
    } catch (const failure& f) {
      if (scopes.size() == 1 || f.exit_status != code::refused)
        throw;
    }
  }
  if (found.size() > 1)
    throw several("approval", who, joined({found.begin(), found.end()}));
  // For a word that names no approval, the node's refusal explains why.
  return found.empty() ? who : *found.begin();
}

namespace {

std::vector<v1::Conversation> conversations_in(const invocation& cli, const std::string& scope, const std::string& id) {
  auto q = cli.query();
  q.set_scope(scope);
  q.mutable_list_conversations()->set_id(id);
  return all_rows<v1::Conversation>(cli, std::move(q));
}

/// Of the other scopes; a scope that cannot be asked does not hide the others.
std::vector<v1::Conversation> conversations_elsewhere(const invocation& cli, const std::string& id) {
  if (!cli.flags.scope.empty())
    return {};
  for (const auto& scope : all_scopes(cli, "chat")) {
    try {
      if (auto found = conversations_in(cli, scope, id); !found.empty())
        return found;
    } catch (const failure& f) {
      if (f.exit_status != code::refused)
        throw;
    }
  }
  return {};
}

} // namespace

v1::Conversation conversation_named(const invocation& cli, const std::string& who) {
  if (who.empty())
    throw failure(code::usage, "which conversation? Give its id, the first characters of it, or @last; see: swarmctl chat list");
  if (who.size() == full_id_bytes) {
    auto found = conversations_in(cli, cli.scope(), who);
    if (found.empty())
      found = conversations_elsewhere(cli, who);
    if (found.empty())
      throw failure(code::refused, "there is no conversation " + who + "; see: swarmctl chat list --all");
    return found.front();
  }
  const auto all = conversations_in(cli, cli.scope(), {});
  if (who == last_word) {
    const auto mine = made_here(cli, kind_of_thing::conversation);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.id() == mine; });
    if (!mine.empty() && found == all.end())
      throw last_is_gone("conversation", mine);
    if (all.empty())
      throw failure(code::refused, "there is no conversation in scope " + cli.scope() + " yet; start one: swarmctl chat new");
    return mine.empty() ? all.back() : *found;
  }
  std::vector<const v1::Conversation*> found;
  std::string ids;
  for (const auto& c : all)
    if (c.id() == who || (who.size() >= limits::id_prefix_min && c.id().starts_with(who))) {
      found.push_back(&c);
      ids += (ids.empty() ? "" : ", ") + c.id();
    }
  if (found.size() > 1)
    throw several("conversation", who, ids);
  if (found.empty())
    throw failure(code::refused, concat({"no conversation of scope ", cli.scope(), " begins with \"", who, "\"; see: swarmctl chat list --all"}));
  return *found.front();
}

std::map<std::string, v1::Conversation> conversations_by_session(const invocation& cli, const std::string& scope) {
  std::map<std::string, v1::Conversation> out;
  try {
    for (auto& c : conversations_in(cli, scope, {}))
      if (!c.session_id().empty())
        out[c.session_id()] = std::move(c);
  } catch (const failure& f) {
    if (f.exit_status != code::refused)
      throw;
  }
  return out;
}

std::string how_to_read(const invocation& cli, const std::string& scope, const std::string& conversation_id) {
  return "swarmctl chat read " + (scope == cli.scope() ? short_id(conversation_id) : conversation_id);
}

std::vector<v1::PtyInfo> all_terminals(const invocation& cli, bool all_scopes) {
  cli.require_named_actor();
  return terminals(cli, all_scopes ? std::string{} : cli.scope(), all_scopes);
}

void require_linked(const invocation& cli, const std::string& node_id, const std::string& what) {
  for (const auto& n : away_nodes(cli)) {
    if (n.id != node_id)
      continue;
    if (n.is_out)
      throw failure(code::refused, what + " is on the host " + n.name + ", which is out of the cluster (" + n.state + ")");
    // A node that has not been heard of since this one started is likely to come up, and is waited for.
    if (n.was_heard)
      throw failure(code::refused, what + " is on the host " + n.name + ", which is not linked (" + n.state +
                                     "); try again when `swarmctl nodes` shows its link as up");
  }
}

const v1::PtyInfo* choose_terminal(const std::vector<v1::PtyInfo>& all, const std::string& who, const std::string& scope, reach far,
                                   const std::function<std::string()>& not_asked) {
  std::vector<const v1::PtyInfo*> running, begin_so, elsewhere;
  const v1::PtyInfo* ended = nullptr;
  for (const auto& p : all) {
    if (p.id() == who)
      return &p;
    const bool here = p.scope() == scope;
    if (p.name() == who && here && p.running())
      running.push_back(&p);
    else if (p.name() == who && here && (ended == nullptr || ended->created_at_ms() <= p.created_at_ms()))
      ended = &p;
    if (who.size() < limits::id_prefix_min || !p.id().starts_with(who))
      continue;
    auto& list = here || far == reach::all_scopes ? begin_so : elsewhere;
    // After a further attempt on another host, two hosts list a terminal of this id.
    const auto twin = std::find_if(list.begin(), list.end(), [&](const auto* other) { return other->id() == p.id(); });
    if (twin == list.end())
      list.push_back(&p);
    else if (p.running())
      *twin = &p;
  }
  if (running.size() > 1)
    throw several("terminal", who, candidates(running));
  if (const auto* named = running.empty() ? ended : running.front()) {
    // Also of another scope: `pty list --all` shows its id first.
    begin_so.insert(begin_so.end(), elsewhere.begin(), elsewhere.end());
    std::erase(begin_so, named);
    if (!begin_so.empty())
      throw name_and_id(who, *named, *begin_so.front());
    return named;
  }
  if (begin_so.size() > 1)
    throw several("terminal", who, candidates(begin_so));
  if (!begin_so.empty())
    return begin_so.front();
  std::string hint;
  if (!elsewhere.empty())
    hint = "; one of another scope begins so: give its whole id, " + elsewhere.front()->id() + ", if you mean it";
  else if (not_asked)
    hint = not_asked();
  if (hint.empty())
    hint = "; see: swarmctl pty list --all";
  throw failure(code::refused, "no terminal of scope " + scope + " is called \"" + who + "\"" + hint);
}

v1::PtyInfo terminal_named(const invocation& cli, const std::string& who, reach far) {
  auto scope = cli.scope();
  auto all = terminals(cli, scope, true);
  // The list may lack a terminal that ended before the node started, although its output is still kept.
  if (who.size() == full_id_bytes && std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.id() == who; })) {
    v1::PtyInfo unlisted;
    unlisted.set_id(who);
    return unlisted;
  }
  const auto listed = all.size();
  const auto workers = who.size() != full_id_bytes ? live_workers(cli) : std::vector<v1::Spawn>{};
  add_unreached(all, workers);
  const auto unasked = [&] { return not_asked(cli); };
  const auto* found = who == last_word ? last_terminal(cli, all, workers, scope, unasked) : choose_terminal(all, who, scope, far, unasked);
  if (found == nullptr) {
    auto hint = unasked();
    throw failure(code::refused, "there is no terminal in scope " + scope + " yet" + (hint.empty() ? "; see: swarmctl pty list --all" : hint));
  }
  if (static_cast<std::size_t>(found - all.data()) >= listed)
    require_linked(cli, found->node_id(), "the terminal " + (found->name().empty() ? "" : found->name() + " ") + "(" + short_id(found->id()) + ")");
  return *found;
}

void remember_made(const invocation& cli, kind_of_thing kind, const std::string& scope, const std::string& id) {
  cli.recent.made(kind, cli.node_name(), one_name_of(cli, scope), id);
}

} // namespace swarm::cli
