// usage: what conversations have cost.
#include <charconv>
#include <map>

#include "actors/base/text.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

namespace {

constexpr std::int64_t day_ms = 86'400'000;

struct usage_options {
  std::string since;
  bool all_scopes = false;
};

void add(v1::Usage& to, const v1::Usage& u) {
  to.set_turns(to.turns() + u.turns());
  to.set_input_tokens(to.input_tokens() + u.input_tokens());
  to.set_output_tokens(to.output_tokens() + u.output_tokens());
  to.set_cache_read_tokens(to.cache_read_tokens() + u.cache_read_tokens());
  to.set_cache_write_tokens(to.cache_write_tokens() + u.cache_write_tokens());
  to.set_cost_usd(to.cost_usd() + u.cost_usd());
  to.set_cost_known(to.cost_known() || u.cost_known());
}

std::string date_of(std::uint32_t day) { return utc(static_cast<std::int64_t>(day) * day_ms).substr(0, 10); }

/// A date, or how many days with today: 7d.
std::uint32_t day_of(const invocation& cli, const std::string& text) {
  if (text.empty())
    return 0;
  int number = 0;
  const auto* end = text.data() + text.size();
  const auto today = cli.now_ms() / day_ms;
  if (auto [at, error] = std::from_chars(text.data(), end, number); error == std::errc{} && at + 1 == end && *at == 'd' && number > 0)
    return static_cast<std::uint32_t>(std::max<std::int64_t>(today - number + 1, 0));
  // Few enough to try them all, and each is spelled in one way.
  for (auto day = static_cast<std::uint32_t>(today + 1); day > 0 && text.size() == 10; --day)
    if (date_of(day) == text)
      return day;
  throw usage("--since takes a day, such as 2026-11-01, or a number of days, such as 7d");
}

std::vector<v1::UsageDay> days_of(const invocation& cli, const std::string& scope, std::uint32_t since) {
  auto q = cli.query();
  q.set_scope(scope);
  q.set_viewer(cli.named_actor_id());
  q.mutable_list_usage()->set_since_day(since);
  return all_rows<v1::UsageDay>(cli, std::move(q));
}

struct sums {
  v1::Usage total;
  std::map<std::string, std::pair<std::string, v1::Usage>> conversations; // by id, with the agent
  std::map<std::string, v1::Usage> agents;
  std::map<std::uint32_t, v1::Usage> days;

  void take(const v1::UsageDay& d) {
    add(total, d.usage());
    auto& [harness, used] = conversations[d.conversation_id()];
    harness = d.harness();
    add(used, d.usage());
    add(agents[d.harness()], d.usage());
    add(days[d.day()], d.usage());
  }
};

json with_usage(json row, const v1::Usage& u) {
  row.update(mcp::usage(u));
  return row;
}

json as_json(const sums& s) {
  json out = {{"conversations", json::array()}, {"agents", json::array()}, {"days", json::array()}};
  for (const auto& [id, row] : s.conversations)
    out["conversations"].push_back(with_usage({{"id", id}, {"harness", row.first}}, row.second));
  for (const auto& [harness, used] : s.agents)
    out["agents"].push_back(with_usage({{"harness", harness}}, used));
  for (const auto& [day, used] : s.days)
    out["days"].push_back(with_usage({{"day", date_of(day)}}, used));
  out["total"] = mcp::usage(s.total);
  return out;
}

std::vector<std::string> cells(std::string first, const v1::Usage& u) {
  return {std::move(first), std::to_string(u.turns()), std::to_string(u.input_tokens() + u.cache_read_tokens() + u.cache_write_tokens()),
          std::to_string(u.output_tokens()), u.cost_known() ? "$" + fixed(u.cost_usd(), 4) : "-"};
}

void print_table(console& io, const char* first, const std::vector<std::vector<std::string>>& rows) {
  io.painted_line(table({first, "TURNS", "TOKENS IN", "OUT", "COST"}, rows));
}

void print(console& io, const sums& s) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [id, row] : s.conversations)
    rows.push_back(cells(short_id(id), row.second));
  print_table(io, "CONVERSATION", rows);
  rows.clear();
  for (const auto& [harness, used] : s.agents)
    rows.push_back(cells(harness, used));
  print_table(io, "AGENT", rows);
  rows.clear();
  for (const auto& [day, used] : s.days)
    rows.push_back(cells(date_of(day), used));
  rows.push_back(cells("total", s.total));
  print_table(io, "DAY", rows);
}

int run_usage(invocation& cli, const usage_options& o) {
  const auto since = day_of(cli, o.since);
  sums s;
  for (const auto& scope : o.all_scopes ? all_scopes(cli, "usage") : std::vector{cli.scope()})
    for (const auto& day : days_of(cli, scope, since))
      s.take(day);
  if (cli.json_wanted())
    cli.io().print(as_json(s));
  else if (s.conversations.empty())
    cli.io().line(o.all_scopes ? "(no usage)" : none_in_scope(cli, "usage"));
  else
    print(cli.io(), s);
  return code::ok;
}

void build_usage(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<usage_options>();
  option(app, "--since", o->since, "count from this day (UTC) on: 2026-11-01, or 7d for today and the six days before (default: all that is kept)");
  flag(app, "--all-scopes", o->all_scopes, "count every scope of this node");
  on_run(app, cli, [o, &cli] { return run_usage(cli, *o); });
}

constexpr verb verbs[] = {
  {"usage", subject::workers, "what conversations have used and cost: by conversation, agent and day", "  swarmctl usage --since 7d", build_usage},
};

} // namespace

std::span<const verb> usage_verbs() { return verbs; }

} // namespace swarm::cli
