#include "gateway/mcp/workspace.hpp"

#include <algorithm>
#include <chrono>

#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/mcp/screen.hpp"
#include "gateway/mcp/shapes.hpp"

namespace swarm::mcp {

namespace {

std::vector<std::string> pty_keys(const std::string& session) { return {"identity/workspace/pty/" + session}; }
std::vector<std::string> herdr_keys(const std::string& session) { return {"identity/workspace/herdr/" + session, "identity/herdr/" + session}; }

std::string read_pty(const workspace_access& node, const v1::Session& session, const std::string& handle, std::size_t lines, bool visible) {
  auto query = node.query();
  query.mutable_list_spawns()->set_live_only(true);
  std::uint32_t columns = 0, rows = 0;
  const auto answer = node.ask(query);
  for (const auto& s : answer.spawns().spawns())
    if (s.session_id() == session.id()) {
      columns = s.columns();
      rows = s.rows();
    }
  return screen_text(node.read(handle), columns, rows, lines, visible);
}

std::optional<json> published(const workspace_access& node, const std::string& kv_key) {
  auto query = node.query();
  query.mutable_get_kv()->set_key(kv_key);
  auto answer = node.ask(query);
  if (answer.has_refusal() || !answer.has_kv())
    return std::nullopt;
  return json::parse(answer.kv().value(), nullptr, false);
}

void add_text(std::vector<std::string>& out, const json& row, const char* member) {
  if (!row.is_object() || !row.contains(member))
    return;
  auto add = [&](const json& x) {
    if (!x.is_string())
      return;
    auto text = std::string{trimmed(x.get_ref<const std::string&>())};
    if (!text.empty() && std::find(out.begin(), out.end(), text) == out.end())
      out.push_back(text);
  };
  const auto& value = row.at(member);
  if (value.is_array())
    std::for_each(value.begin(), value.end(), add);
  else
    add(value);
}

/// Contract 4.1, in order.
std::vector<std::string> handles_of(const json& row) {
  std::vector<std::string> out;
  for (const auto* member : {"handle", "handle_aliases", "pane_id", "pane_aliases"})
    add_text(out, row, member);
  if (row.is_object() && row.contains("details"))
    for (const auto* member : {"pane_id", "pane_aliases"})
      add_text(out, row.at("details"), member);
  return out;
}

std::int64_t now_ms() { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string kind_in(const workspace_backend& backend, const json& row) {
  auto kind = domain::text_in(row, "handle_kind");
  return kind.empty() ? backend.handle_kind : kind;
}

json match(const workspace_backend& backend, const v1::Session& s, const json& row) {
  auto handles = handles_of(row);
  return {{"instance_id", s.id()},
          {"label", text_or_null(s.label())},
          {"backend", backend.name},
          {"handle_kind", kind_in(backend, row)},
          {"handle", handles.front()},
          {"agent_status", domain::to_text(domain::agent_state(s, now_ms()))},
          {"source", "kv"},
          {"identity", row}};
}

json matches_of(const workspace_access& node, const workspace_backend& backend, const std::string& handle) {
  auto out = json::array();
  std::string page;
  do {
    auto query = node.query();
    query.mutable_list_sessions()->set_adopted_only(true);
    query.mutable_list_sessions()->mutable_page()->set_token(page);
    auto answer = node.ask(query);
    for (const auto& s : answer.sessions().sessions())
      for (const auto& kv_key : backend.identity_keys(s.id())) {
        auto row = published(node, kv_key);
        if (!row)
          continue;
        auto handles = handles_of(*row);
        if (std::find(handles.begin(), handles.end(), handle) != handles.end())
          out.push_back(match(backend, s, *row));
        break;
      }
    page = answer.sessions().page().token();
  } while (!page.empty());
  return out;
}

} // namespace

const std::vector<workspace_backend>& workspace_backends() {
  static const std::vector<workspace_backend> all{{"pty", "pty", pty_keys, read_pty}, {"herdr", "pane", herdr_keys, nullptr}};
  return all;
}

const workspace_backend* find_workspace_backend(const std::string& name) {
  for (const auto& b : workspace_backends())
    if (name == b.name)
      return &b;
  return nullptr;
}

std::string workspace_backend_names() {
  std::string out;
  for (const auto& b : workspace_backends())
    out += (out.empty() ? "" : ", ") + std::string{b.name};
  return out;
}

workspace_lookup find_workspace(const workspace_access& node, const std::string& session) {
  workspace_lookup out{std::nullopt, "no workspace identity is published for that instance"};
  for (const auto& backend : workspace_backends())
    for (const auto& kv_key : backend.identity_keys(session)) {
      auto row = published(node, kv_key);
      if (!row)
        continue;
      if (row->is_discarded())
        return {std::nullopt, "published workspace identity is not valid JSON"};
      if (!row->is_object())
        return {std::nullopt, "published workspace identity is not an object"};
      auto handles = handles_of(*row);
      if (handles.empty())
        return {std::nullopt, "published workspace identity has no handle"};
      auto kind = kind_in(backend, *row);
      return {workspace_place{backend.name, kind, handles.front()}, {}};
    }
  return out;
}

json resolve_handle(const workspace_access& node, const std::string& handle, const std::optional<std::string>& backend,
                    const std::string& handle_kind) {
  const auto* chosen = backend ? find_workspace_backend(*backend) : nullptr;
  auto matches = json::array();
  for (const auto& b : workspace_backends()) {
    if (chosen && chosen != &b)
      continue;
    matches = matches_of(node, b, handle);
    if (!matches.empty()) {
      chosen = &b;
      break;
    }
  }
  if (!chosen)
    chosen = find_workspace_backend("herdr");
  const auto one = matches.size() == 1;
  return {{"backend", chosen->name},
          {"handle_kind", matches.empty() ? json(handle_kind) : matches[0]["handle_kind"]},
          {"handle", handle},
          {"canonical_handle", one ? matches[0]["handle"] : json(handle)},
          {"instance_id", one ? matches[0]["instance_id"] : json(nullptr)},
          {"ambiguous", matches.size() > 1},
          {"matches", matches}};
}

} // namespace swarm::mcp
