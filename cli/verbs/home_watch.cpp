#include "cli/verbs/home_watch.hpp"

#include <utility>

#include "actors/base/paths.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "gateway/client/failure.hpp"

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
  const auto absence = absence_of_home(*line_, query_);
  if (!absence || std::exchange(away_, !absence->empty()) == !absence->empty())
    return;
  say_(away_ ? "waiting: " + *absence : "the home is back");
}

std::optional<std::string> absence_of_home(coordination_port& node, const v1::Query& query) {
  try {
    const auto answer = node.ask(query);
    return answer.refusal().code() == v1::Refusal::UNAVAILABLE ? answer.refusal().text() : std::string{};
  } catch (const call_failed& f) {
    // Of a session, the home alone knows who it is: the call itself is refused. That the own node is away is for the stream to find out.
    return f.is_refusal() ? std::optional<std::string>{f.what()} : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

} // namespace swarm::cli
