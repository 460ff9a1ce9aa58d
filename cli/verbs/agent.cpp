// agents, report-agent: what agents do.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "gateway/json/conversation.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

using mcp::json;

std::vector<v1::Spawn> live_spawns(invocation& cli) {
  auto query = cli.query();
  query.mutable_list_spawns()->set_live_only(true);
  return all_rows<v1::Spawn>(cli, std::move(query));
}

std::vector<v1::Conversation> open_conversations(invocation& cli) {
  auto query = cli.query();
  query.mutable_list_conversations()->set_open_only(true);
  try {
    return all_rows<v1::Conversation>(cli, std::move(query));
  } catch (const failure& f) {
    if (f.exit_status != code::refused)
      throw;
    return {}; // who may not see them sees their sessions
  }
}

/// In the words of agents on terminals.
const char* agent_state(v1::Conversation::State s) {
  switch (s) {
    case v1::Conversation::STARTING:
    case v1::Conversation::RUNNING: return "working";
    case v1::Conversation::IDLE: return "idle";
    case v1::Conversation::BLOCKED: return "blocked";
    default: return "unknown";
  }
}

/// What is known of it beside: a conversation's agent says itself what it does.
void add_conversation(json& row, const v1::Session& s, const std::vector<v1::Conversation>& all) {
  const auto c = std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.session_id() == s.id(); });
  const bool is_one = c != all.end();
  if (is_one) {
    row["state"] = agent_state(c->state());
    row["harness"] = c->harness();
    row["task_id"] = mcp::text_or_null(c->task_id());
  }
  row["conversation"] = is_one ? json(c->id()) : json(nullptr);
  row["turn"] = is_one ? mcp::text_or_null(c->open_turn()) : json(nullptr);
  row["turns"] = is_one ? json(c->usage().turns()) : json(nullptr);
  row["model"] = is_one ? mcp::text_or_null(c->model()) : json(nullptr);
  row["cost_usd"] = is_one && c->usage().cost_known() ? json(c->usage().cost_usd()) : json(nullptr);
}

/// "pty=1234abcd", or of a conversation its id, model, turns and cost.
std::string place_of(const json& row) {
  if (!row.at("conversation").is_string())
    return "pty=" + (row.at("pty").is_string() ? short_id(row["pty"].get<std::string>()) : std::string{"-"});
  return concat({"chat=", short_id(row["conversation"].get<std::string>()), row["model"].is_string() ? "  " + row["model"].get<std::string>() : "",
                 "  ", row["turns"].get<std::uint64_t>(), row["turns"] == 1 ? " turn" : " turns",
                 row["cost_usd"].is_number() ? "  $" + fixed(row["cost_usd"].get<double>(), 4) : ""});
}

json shown(const v1::Session& s, const std::vector<v1::Spawn>& spawns) {
  auto spawn = std::find_if(spawns.begin(), spawns.end(), [&](const auto& x) { return x.session_id() == s.id(); });
  auto has = spawn != spawns.end();
  json reports = json::array();
  for (const auto& r : s.reports())
    reports.push_back({{"source", r.source()},
                       {"seq", r.seq()},
                       {"state", domain::to_text(r.state())},
                       {"reported_at_ms", r.reported_at_ms()},
                       {"until_ms", r.until_ms() == 0 ? json(nullptr) : json(r.until_ms())},
                       {"note", mcp::text_or_null(r.note())}});
  return {{"instance_id", s.id()},
          {"label", mcp::text_or_null(s.label())},
          {"state", mcp::agent_status(s)},
          {"harness", has ? json(spawn->harness()) : json(nullptr)},
          {"pty", has ? mcp::text_or_null(spawn->pty_id()) : json(nullptr)},
          {"task_id", has ? mcp::text_or_null(spawn->task_id()) : json(nullptr)},
          {"reports", reports}};
}

int run_agents(invocation& cli) {
  auto spawns = live_spawns(cli);
  const auto conversations = open_conversations(cli);
  json rows = json::array();
  std::set<std::string> hosts;
  for (const auto& s : all_sessions(cli, cli.scope())) {
    auto worker = std::any_of(spawns.begin(), spawns.end(), [&](const auto& x) { return x.session_id() == s.id() && domain::is_agent(x.harness()); });
    if (!worker && s.reports().empty())
      continue;
    rows.push_back(shown(s, spawns));
    add_conversation(rows.back(), s, conversations);
    hosts.insert(s.node_id());
  }
  tell_stale(cli, "agents", hosts);
  if (cli.json_wanted()) {
    cli.io().print(rows);
    return code::ok;
  }
  if (rows.empty())
    cli.io().line(none_in_scope(cli, "agents"));
  for (const auto& r : rows) {
    auto text = [&](const char* member) { return r.at(member).is_string() ? r.at(member).get<std::string>() : std::string{"-"}; };
    cli.io().line("  " + short_id(text("instance_id")) + "  " + text("state") + "  " + text("harness") + "  " + place_of(r) +
                  "  task=" + short_id(text("task_id")) + "  " + text("label"));
  }
  return code::ok;
}

void build_agents(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_agents(cli); });
}

struct report_options {
  std::string state;
  std::string source = "cli";
  std::int64_t seq = 0;
  double ttl = 0;
  std::string note;
};

int run_report(invocation& cli, const report_options& o) {
  auto state = domain::agent_state_from(o.state);
  if (state == v1::AgentReport::STATE_UNSPECIFIED)
    throw usage("--state is one of working, idle, blocked, done, unknown");
  if (o.seq < 0)
    throw usage("--seq counts up from 1");
  auto command = cli.command();
  auto who = cli.actor().id();
  command.set_actor(who);
  auto* body = command.mutable_report_agent();
  body->set_session_id(who);
  body->set_source(o.source);
  body->set_seq(static_cast<std::uint64_t>(o.seq));
  body->set_ttl_ms(milliseconds_of(o.ttl, "--ttl", limits::agent_report_ttl_max()));
  body->set_state(state);
  body->set_note(o.note);
  auto session = cli.execute(command).session().session();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"instance_id", session.id()}, {"state", mcp::agent_status(session)}});
  else
    cli.io().line(short_id(session.id()) + " is " + mcp::agent_status(session));
  return code::ok;
}

void build_report(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<report_options>();
  option(app, "--state,state", o->state, "working, idle, blocked, done or unknown")->required();
  option(app, "--source", o->source, "who says so; the newest report of any source applies");
  option(app, "--seq", o->seq, "number of the report; one that is not above the source's last changes nothing");
  option(app, "--ttl", o->ttl, "seconds for which it is valid; 0 = until the next");
  option(app, "--note", o->note, "a text for people");
  on_run(app, cli, [o, &cli] { return run_report(cli, *o); });
}

constexpr verb verbs[] = {
  {"agents", subject::start, "list agents with what they do: working, idle, blocked, done, unknown", "  swarmctl agents --json", build_agents},
  {"report-agent", subject::agents, "report what an agent does; hooks and plugins call it",
   "  swarmctl report-agent --state idle --source my-hook --seq 7 --ttl 600", build_report},
};

} // namespace

std::span<const verb> agent_verbs() { return verbs; }

} // namespace swarm::cli
