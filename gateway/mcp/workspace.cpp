#include "gateway/mcp/workspace.hpp"

#include <algorithm>
#include <chrono>

#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/pages.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/screen.hpp"

namespace swarm::mcp {

namespace {

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

std::int64_t now_ms() { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string kind_in(const workspace_backend& backend, const json& row) {
  auto kind = domain::text_in(row, "handle_kind");
  return kind.empty() ? backend.names.handle_kind : kind;
}

json match(const workspace_backend& backend, const v1::Session& s, const json& row) {
  auto handles = domain::workspace_handles(row);
  return {{"instance_id", s.id()},
          {"label", text_or_null(s.label())},
          {"backend", backend.names.name},
          {"handle_kind", kind_in(backend, row)},
          {"handle", handles.front()},
          {"agent_status", domain::to_text(domain::agent_state(s, now_ms()))},
          {"source", "kv"},
          {"identity", row}};
}

json matches_of(const workspace_access& node, const workspace_backend& backend, const std::string& handle) {
  auto out = json::array();
  auto query = node.query();
  query.mutable_list_sessions()->set_adopted_only(true);
  for (const auto& s : rows_of_pages<v1::Session>(std::move(query), node.ask))
    for (const auto& kv_key : domain::workspace_keys(backend.names, s.id())) {
      auto row = published(node, kv_key);
      if (!row)
        continue;
      auto handles = domain::workspace_handles(*row);
      if (std::find(handles.begin(), handles.end(), handle) != handles.end())
        out.push_back(match(backend, s, *row));
      break;
    }
  return out;
}

} // namespace

const std::vector<workspace_backend>& workspace_backends() {
  static const std::vector<workspace_backend> all{{domain::pty_workspace, read_pty}, {domain::herdr_workspace, nullptr}};
  return all;
}

const workspace_backend* find_workspace_backend(const std::string& name) {
  for (const auto& b : workspace_backends())
    if (name == b.names.name)
      return &b;
  return nullptr;
}

std::string workspace_backend_names() {
  std::string out;
  for (const auto& b : workspace_backends())
    out += (out.empty() ? "" : ", ") + std::string{b.names.name};
  return out;
}

workspace_lookup find_workspace(const workspace_access& node, const std::string& session) {
  workspace_lookup out{std::nullopt, domain::no_workspace};
  for (const auto& backend : workspace_backends())
    for (const auto& kv_key : domain::workspace_keys(backend.names, session)) {
      auto row = published(node, kv_key);
      if (!row)
        continue;
      if (row->is_discarded())
        return {std::nullopt, "published workspace identity is not valid JSON"};
      if (!row->is_object())
        return {std::nullopt, "published workspace identity is not an object"};
      auto handles = domain::workspace_handles(*row);
      if (handles.empty())
        return {std::nullopt, "published workspace identity has no handle"};
      auto kind = kind_in(backend, *row);
      return {workspace_place{backend.names.name, kind, handles.front()}, {}};
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
  return {{"backend", chosen->names.name},
          {"handle_kind", matches.empty() ? json(handle_kind) : matches[0]["handle_kind"]},
          {"handle", handle},
          {"canonical_handle", one ? matches[0]["handle"] : json(handle)},
          {"instance_id", one ? matches[0]["instance_id"] : json(nullptr)},
          {"ambiguous", matches.size() > 1},
          {"matches", matches}};
}

} // namespace swarm::mcp
