#include "cli/verbs/home_watch.hpp"

#include <utility>

#include "actors/base/paths.hpp"
#include "cli/verbs/hosts_asked.hpp"

namespace swarm::cli {

namespace {

/// Anything that its home alone can answer.
v1::Query small_query(const invocation& cli, const std::string& scope) {
  auto query = cli.query();
  query.set_scope(scope);
  query.mutable_list_tasks()->mutable_page()->set_size(1);
  return query;
}

} // namespace

home_watch::home_watch(const invocation& cli, const std::string& scope, std::function<void(const std::string&)> say)
  : query_(small_query(cli, scope)), say_(std::move(say)),
    line_(is_named_scope(scope) || is_member(cli) ? cli.node().finder.connect({}, false) : nullptr),
    timer_(line_ ? period_ms : 0, [this] { look(); }, 0, {}) {}

home_watch::~home_watch() {
  if (line_)
    line_->cancel();
}

void home_watch::look() {
  v1::Answer answer;
  try {
    answer = line_->ask(query_);
  } catch (const std::exception&) {
    return; // that the own node is away is for the stream to find out
  }
  const bool away = answer.refusal().code() == v1::Refusal::UNAVAILABLE;
  if (std::exchange(away_, away) == away)
    return;
  say_(away ? "waiting: " + answer.refusal().text() : "the home is back");
}

} // namespace swarm::cli
