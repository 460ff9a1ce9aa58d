#include "gateway/mcp/rows.hpp"

namespace swarm::mcp {

namespace {

/// `list` gives the list of an answer, `rows` its rows, `page` the query's page.
template <class Row, class List, class Rows, class Page>
std::vector<Row> all_pages(connection& node, v1::Query query, List list, Rows rows, Page page) {
  std::vector<Row> out;
  for (;;) {
    auto answer = node.ask(query);
    if (answer.has_refusal())
      throw call_failed(call_failed::why::refused, answer.refusal().text());
    const auto& found = list(answer);
    out.insert(out.end(), rows(found).begin(), rows(found).end());
    if (found.page().token().empty())
      return out;
    page(query).set_token(found.page().token());
  }
}

} // namespace

std::vector<v1::Session> all_sessions(connection& node, v1::Query query) {
  return all_pages<v1::Session>(
    node, std::move(query), [](const v1::Answer& a) -> const auto& { return a.sessions(); },
    [](const v1::SessionList& l) -> const auto& { return l.sessions(); },
    [](v1::Query& q) -> v1::Page& { return *q.mutable_list_sessions()->mutable_page(); });
}

std::vector<v1::Task> all_tasks(connection& node, v1::Query query) {
  return all_pages<v1::Task>(
    node, std::move(query), [](const v1::Answer& a) -> const auto& { return a.tasks(); },
    [](const v1::TaskList& l) -> const auto& { return l.tasks(); },
    [](v1::Query& q) -> v1::Page& { return *q.mutable_list_tasks()->mutable_page(); });
}

std::vector<v1::KvEntry> all_kv(connection& node, v1::Query query) {
  return all_pages<v1::KvEntry>(
    node, std::move(query), [](const v1::Answer& a) -> const auto& { return a.kv_list(); },
    [](const v1::KvList& l) -> const auto& { return l.entries(); }, [](v1::Query& q) -> v1::Page& { return *q.mutable_list_kv()->mutable_page(); });
}

} // namespace swarm::mcp
