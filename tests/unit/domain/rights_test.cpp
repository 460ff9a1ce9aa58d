// The table of rights against a model of it that was written by hand from the design, and what grants are.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include <google/protobuf/descriptor.h>

#include "actors/domain/commands.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/rights.hpp"

using namespace swarm;
using namespace swarm::domain;
namespace pb = google::protobuf;

namespace {

using p = v1::Principal;
using words = std::set<std::string>;

v1::Principal principal(principal_kind kind, const words& grants = {}) {
  v1::Principal out;
  out.set_kind(kind);
  out.set_id("me");
  for (const auto& g : grants)
    out.add_grants(g);
  return out;
}

// -- the model: sets of names, and nothing of the table ----------------------------------------

const words nodes_own_commands{"expire_session", "deliver_messages",    "spawn_starting", "spawn_running",
                               "spawn_ended",    "report_conversation", "report_delivery"};
const words node_sends_too{"release_lock", "cancel_lock_wait", "report_agent", "sweep", "request_approval", "withdraw_approval"};
const words for_itself{"deregister_session", "heartbeat", "report_agent"};
const words needs_leave{"dispatch", "request_spawn", "decide_approval", "start_conversation"};
const words chats{"send_prompt",         "interrupt_conversation", "resume_conversation", "stop_conversation",
                  "rename_conversation", "delete_conversation",    "set_conversation"};
const words private_queries{"list_messages",  "get_kv",        "list_kv",       "get_status",         "list_events",  "list_subscriptions",
                            "list_approvals", "preview_sweep", "resolve_token", "list_conversations", "list_prompts", "list_usage"};

bool may_send(principal_kind kind, const words& grants, const std::string& command) {
  if (chats.count(command) > 0)
    return kind == p::OPERATOR || ((kind == p::SESSION || kind == p::DEVICE || kind == p::GATEWAY) && grants.count("chat") > 0);
  switch (kind) {
    case p::NODE: return nodes_own_commands.count(command) + node_sends_too.count(command) > 0;
    case p::OPERATOR: return nodes_own_commands.count(command) == 0;
    case p::SESSION: return nodes_own_commands.count(command) == 0 && command != "sweep";
    case p::ORPHAN: return nodes_own_commands.count(command) + for_itself.count(command) + needs_leave.count(command) == 0 && command != "sweep";
    case p::AGENT: return command == "register_session";
    case p::DEVICE:
    case p::GATEWAY: return command == "decide_approval" && grants.count("approve") > 0;
    default: return false;
  }
}

bool may_query(principal_kind kind, const words& grants, const std::string& query) {
  const words of_conversations{"list_conversations", "list_prompts", "list_usage", "list_approvals"};
  const auto remote = kind == p::DEVICE || kind == p::GATEWAY;
  if (remote && grants.count("chat") > 0 && of_conversations.count(query) > 0)
    return true;
  if (query == "list_usage")
    return kind == p::OPERATOR || kind == p::NODE || (kind == p::SESSION && grants.count("chat") > 0);
  switch (kind) {
    case p::NODE: return true;
    case p::OPERATOR:
    case p::SESSION: return query != "resolve_token";
    case p::ORPHAN: return query != "resolve_token" && (query == "list_approvals" || of_conversations.count(query) == 0);
    case p::AGENT: return private_queries.count(query) == 0;
    case p::DEVICE:
    case p::GATEWAY: return query == "list_approvals" && grants.count("approve") > 0;
    default: return false;
  }
}

enum class whose { operators, looking, everybodys, here, session_itself, starting, deciding, news };

bool may_do(principal_kind kind, const words& grants, whose w) {
  const auto person = kind == p::OPERATOR;
  switch (w) {
    case whose::operators: return person;
    case whose::looking: return person || kind == p::SESSION || kind == p::NODE || kind == p::AGENT || kind == p::ORPHAN;
    case whose::here: return person || kind == p::SESSION || kind == p::AGENT || kind == p::ORPHAN;
    case whose::everybodys: return kind != p::KIND_UNSPECIFIED;
    case whose::session_itself: return person || kind == p::SESSION;
    case whose::starting: return person || kind == p::SESSION; // a rule decides about the session
    case whose::news: return person || kind == p::SESSION || kind == p::NODE || kind == p::ORPHAN;
    case whose::deciding:
      return kind == p::SESSION || person || kind == p::NODE || kind == p::AGENT || kind == p::ORPHAN ||
             ((kind == p::DEVICE || kind == p::GATEWAY) && grants.count("approve") + grants.count("chat") > 0);
  }
  return false;
}

const std::map<operation, whose> plain_operations{
  {operation::execute, whose::deciding},
  {operation::ask, whose::deciding},
  {operation::watch_events, whose::news},
  {operation::watch_all_scopes, whose::operators},
  {operation::wait_for_activity, whose::session_itself},
  {operation::attach_session, whose::session_itself},
  {operation::pty_create, whose::starting},
  {operation::node_status, whose::looking},
  {operation::node_check, whose::here},
  {operation::explain, whose::everybodys},
  {operation::login, whose::here},
  {operation::logout, whose::here},
  {operation::cluster_list_checkouts, whose::here},
  {operation::node_graph, whose::operators},
  {operation::node_backup, whose::operators},
  {operation::node_shutdown, whose::operators},
  {operation::node_kill_actor, whose::operators},
  {operation::set_passphrase, whose::operators},
  {operation::cluster_found, whose::operators},
  {operation::cluster_create_join_token, whose::operators},
  {operation::cluster_join, whose::operators},
  {operation::cluster_list_nodes, whose::operators},
  {operation::cluster_unlock_authority, whose::operators},
  {operation::cluster_revoke_node, whose::operators},
  {operation::cluster_drain_node, whose::operators},
  {operation::cluster_leave, whose::operators},
  {operation::cluster_share_scope, whose::operators},
  {operation::cluster_unshare_scope, whose::operators},
  {operation::give_grants, whose::operators},
  {operation::make_coordinators, whose::operators},
  {operation::loosen_permissions, whose::operators},
  {operation::choose_identity, whose::operators},
  {operation::act_as_session, whose::operators},
};

const std::set<operation> in_a_terminal{operation::pty_read, operation::pty_peek,   operation::pty_write, operation::pty_resize,
                                        operation::pty_kill, operation::pty_forget, operation::pty_attach};

bool may_at_terminal(principal_kind kind, const words& grants, operation what, terminal of) {
  if (of == terminal::own)
    return kind == p::SESSION && what != operation::pty_write && what != operation::pty_forget;
  if (kind == p::OPERATOR)
    return true;
  if (kind == p::DEVICE)
    return grants.count("terminal") > 0;
  if (kind != p::SESSION)
    return false;
  return what == operation::pty_peek || grants.count(of == terminal::agent ? "pty:agents" : "pty") > 0;
}

/// The few that are like no other.
bool may_otherwise(principal_kind kind, const words& grants, operation what) {
  const auto sees_terminals = kind == p::OPERATOR || kind == p::SESSION || kind == p::ORPHAN || (kind == p::DEVICE && grants.count("terminal") > 0);
  switch (what) {
    case operation::pty_list: return sees_terminals;
    case operation::pty_find: return sees_terminals || kind == p::NODE;
    case operation::link: return kind == p::NODE;
    case operation::cross_identity: return kind == p::OPERATOR || kind == p::NODE || (kind == p::SESSION && grants.count("cross_identity") > 0);
    case operation::outrank_agents: return kind == p::OPERATOR || (kind == p::DEVICE && grants.count("terminal") > 0);
    case operation::decide_for_others: return kind == p::GATEWAY && grants.count("approve") > 0;
    default: return false; // enroll, and what nobody has thought of
  }
}

// -- the walk -------------------------------------------------------------------------------------

template <class Message>
std::vector<const pb::FieldDescriptor*> bodies() {
  std::vector<const pb::FieldDescriptor*> out;
  const auto* body = Message::descriptor()->FindOneofByName("body");
  for (int i = 0; i < body->field_count(); ++i)
    out.push_back(body->field(i));
  return out;
}

template <class Message>
bool passes(const v1::Principal& who, const pb::FieldDescriptor& body) {
  Message m;
  *m.mutable_principal() = who;
  m.GetReflection()->MutableMessage(&m, &body);
  if constexpr (std::is_same_v<Message, v1::Command>)
    if (m.has_sweep())
      m.mutable_sweep()->set_mode(who.kind() == p::NODE ? "periodic" : "manual");
  return !authorize(m);
}

/// What a principal may hold: the grants of its kind, of other kinds, and words that look like some.
words random_grants(std::mt19937& dice) {
  static const std::vector<std::string> all{
    "spawn",   "pty",   "pty:agents", "phone", "cross_identity", "chat", "terminal", "bridge", "tui",     "voice:*",  "voice:en", "dispatch",
    "approve", "files", "admin",      "pty:",  "pty:*",          "*",    "operator", "",       "Approve", "approve ", "ptys"};
  words out;
  for (const auto& g : all)
    if (dice() % 4 == 0)
      out.insert(g);
  return out;
}

} // namespace

TEST_CASE("ten thousand principals may what a model says that knows nothing of the table") {
  std::mt19937 dice{20};
  const auto commands = bodies<v1::Command>(), queries = bodies<v1::Query>();
  std::size_t open = 0, asked = 0;
  const auto agree = [&](bool table, bool model, const v1::Principal& who, const std::string& what) {
    ++asked;
    open += table;
    CHECK_MESSAGE(table == model, who.ShortDebugString() << " " << what << ": the table says " << table);
  };
  for (int n = 0; n < 10'000; ++n) {
    const auto kind = static_cast<principal_kind>(dice() % 8);
    const auto grants = random_grants(dice);
    const auto who = principal(kind, grants);
    const auto& command = *commands[dice() % commands.size()];
    agree(passes<v1::Command>(who, command), may_send(kind, grants, command.name()), who, command.name());
    const auto& query = *queries[dice() % queries.size()];
    agree(passes<v1::Query>(who, query), may_query(kind, grants, query.name()), who, query.name());
    for (const auto& row : operation_rights()) {
      const auto what = row.what;
      const auto plain = plain_operations.find(what);
      const auto model = row.of                            ? may_at_terminal(kind, grants, what, *row.of)
                         : plain != plain_operations.end() ? may_do(kind, grants, plain->second)
                                                           : may_otherwise(kind, grants, what);
      const auto table = row.of ? !may(who, what, *row.of) : !may(who, what);
      agree(table, model, who, std::string{row.meaning});
      if (table)
        CHECK_FALSE(may_ever(kind, what));
    }
  }
  CHECK(open > 1'000);
  CHECK(open < asked / 2);
}

TEST_CASE("the model and the table know the same operations, each once") {
  std::set<std::pair<operation, int>> seen;
  std::set<operation> operations;
  for (const auto& row : operation_rights()) {
    CHECK(seen.emplace(row.what, row.of ? static_cast<int>(*row.of) : -1).second);
    CHECK(row.of.has_value() == (in_a_terminal.count(row.what) > 0));
    CHECK_FALSE(row.meaning.empty());
    operations.insert(row.what);
  }
  for (auto what = 0; what <= static_cast<int>(operation::decide_for_others); ++what)
    CHECK_MESSAGE(operations.count(static_cast<operation>(what)) == 1, "operation " << what << " has no row");
  for (auto what : in_a_terminal)
    for (auto of : {terminal::program, terminal::agent, terminal::own})
      CHECK(right_to(what, of) != nullptr);
}

TEST_CASE("what has no row is nobody's") {
  for (auto kind : {p::OPERATOR, p::SESSION, p::NODE, p::AGENT, p::ORPHAN, p::DEVICE, p::GATEWAY, p::KIND_UNSPECIFIED}) {
    CHECK(may(principal(kind), right_to(v1::Query::BODY_NOT_SET)));
    CHECK(may(principal(kind), static_cast<operation>(255)));
    CHECK(may_ever(kind, static_cast<operation>(255)));
    v1::Query none;
    *none.mutable_principal() = principal(kind);
    CHECK(authorize(none));
  }
  CHECK(operation_of_link(0) == nullptr);
}

TEST_CASE("an orphan may what both a person and a session may without a grant, and nothing else") {
  const auto both = [](const right& r) { return r.all.has(p::OPERATOR) && r.all.has(p::SESSION); };
  for (const auto& row : operation_rights())
    CHECK(!may(principal(p::ORPHAN), &row.who) == both(row.who));
  for (const auto& row : query_rights())
    CHECK(!may(principal(p::ORPHAN), &row.who) == both(row.who));
  for (const auto& spec : commands())
    CHECK(!may(principal(p::ORPHAN), &spec.from.get()) == both(spec.from.get()));
}

TEST_CASE("a grant opens what it names to its own kind only, and a reserved one opens nothing") {
  words asked_for;
  const auto look = [&](const right& r) {
    for (const auto& w : r.with) {
      if (w.grant.empty())
        continue;
      CHECK(is_grant(w.who, w.grant));
      asked_for.insert(std::string{name_of(w.who)} + " " + std::string{w.grant});
    }
    for (const auto& g : known_grants())
      for (auto kind : {p::SESSION, p::DEVICE, p::GATEWAY, p::AGENT, p::ORPHAN})
        if (kind != g.who && holds(principal(kind, {std::string{g.name}}), r))
          CHECK((holds(principal(kind), r) ||
                 std::any_of(r.with.begin(), r.with.end(), [&](const auto& w) { return w.who == kind && w.grant == g.name; })));
  };
  for (const auto& row : operation_rights())
    look(row.who);
  for (const auto& row : query_rights())
    look(row.who);
  for (const auto& spec : commands())
    look(spec.from.get());
  CHECK(asked_for == words{"session spawn", "session pty", "session pty:agents", "session cross_identity", "session chat", "device terminal",
                           "device approve", "device chat", "gateway approve", "gateway chat"});
}

TEST_CASE("the known grants are those of the design, and no other word is one") {
  CHECK(grant_names(p::SESSION) == "spawn, pty, pty:agents, phone, cross_identity, chat");
  CHECK(grant_names(p::DEVICE) == "chat, terminal, bridge, tui, voice:*, dispatch, approve, files, admin");
  CHECK(grant_names(p::GATEWAY) == "dispatch, approve, chat");
  for (auto kind : {p::OPERATOR, p::NODE, p::AGENT, p::ORPHAN, p::KIND_UNSPECIFIED})
    CHECK(grant_names(kind).empty());
  CHECK(is_grant(p::DEVICE, "voice:*"));
  CHECK(is_grant(p::DEVICE, "voice:en"));
  for (const auto* wrong : {"voice:", "voice", "pty", "", "Chat", "chat "})
    CHECK_FALSE(is_grant(p::DEVICE, wrong));
  for (const auto* wrong : {"approve", "pty:", "pty:*", "pty:agents:x"})
    CHECK_FALSE(is_grant(p::SESSION, wrong));
}

TEST_CASE("a refusal says what to do, and to whom it names the verb that explains") {
  const auto text = [](principal_kind kind, operation what) { return may(principal(kind), what)->text(); };
  CHECK(text(p::SESSION, operation::node_shutdown).find("whoami --explain") != std::string::npos);
  CHECK(text(p::AGENT, operation::node_shutdown).find("swarmctl register") != std::string::npos);
  CHECK(text(p::ORPHAN, operation::node_shutdown).find("whoami --explain") != std::string::npos);
  CHECK(text(p::DEVICE, operation::pty_list).find("grant terminal") != std::string::npos);
  CHECK(may(principal(p::SESSION), operation::pty_read, terminal::agent)->text().find("--grant pty:agents") != std::string::npos);
  CHECK(may(principal(p::SESSION), operation::pty_write, terminal::program)->text().find("--grant pty.") != std::string::npos);
  CHECK(may(principal(p::OPERATOR), operation::enroll)->code() == v1::Refusal::FORBIDDEN);
}
