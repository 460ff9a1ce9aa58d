#include "gateway/mcp/rows.hpp"

#include "gateway/json/pages.hpp"

namespace swarm::mcp {

namespace {

template <class Row>
std::vector<Row> all_rows(connection& node, v1::Query query) {
  return rows_of_pages<Row>(std::move(query), [&](const v1::Query& q) {
    auto answer = node.ask(q);
    if (answer.has_refusal())
      throw call_failed(code::refused, answer.refusal().text());
    return answer;
  });
}

} // namespace

std::vector<v1::Session> all_sessions(connection& node, v1::Query query) { return all_rows<v1::Session>(node, std::move(query)); }
std::vector<v1::Task> all_tasks(connection& node, v1::Query query) { return all_rows<v1::Task>(node, std::move(query)); }
std::vector<v1::KvEntry> all_kv(connection& node, v1::Query query) { return all_rows<v1::KvEntry>(node, std::move(query)); }

} // namespace swarm::mcp
