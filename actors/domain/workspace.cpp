#include "actors/domain/workspace.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

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

/// Somebody else wrote it, and it goes into every list.
std::string name_in(const json& row, const char* member) {
  auto text = text_in(row, member);
  return text.size() <= limits::id_bytes_max ? text : std::string();
}

std::optional<v1::Workspace> read(const workspace_backend_names& backend, const v1::KvEntry& entry) {
  const auto row = entry.value().size() <= limits::note_bytes_max() ? parse_json(entry.value()) : std::nullopt;
  if (!row || !row->is_object())
    return std::nullopt;
  const auto handles = workspace_handles(*row);
  if (handles.empty() || handles.front().size() > limits::id_bytes_max)
    return std::nullopt;
  v1::Workspace w;
  w.set_key(entry.key());
  w.set_backend(backend.name);
  w.set_handle_kind(name_in(*row, "handle_kind"));
  if (w.handle_kind().empty())
    w.set_handle_kind(backend.handle_kind);
  w.set_handle(handles.front());
  w.set_pane_id(name_in(*row, "pane_id"));
  if (w.pane_id().empty() && std::string_view{backend.name} == herdr_workspace.name)
    w.set_pane_id(w.handle());
  w.set_workspace_id(name_in(*row, "workspace_id"));
  w.set_tab_id(name_in(*row, "tab_id"));
  return w;
}

} // namespace

std::vector<std::string> workspace_keys(const workspace_backend_names& backend, const std::string& session) {
  std::vector<std::string> out;
  for (const auto* prefix : backend.key_prefixes)
    out.push_back(prefix + session);
  return out;
}

std::vector<std::string> workspace_handles(const json& row) {
  std::vector<std::string> out;
  for (const auto* member : {"handle", "handle_aliases", "pane_id", "pane_aliases"})
    add_text(out, row, member);
  if (row.is_object() && row.contains("details"))
    for (const auto* member : {"pane_id", "pane_aliases"})
      add_text(out, row.at("details"), member);
  return out;
}

std::optional<v1::Workspace> workspace_of(const rows_view& rows, const std::string& scope, const std::string& session, const v1::Session* viewer,
                                          bool allow_cross_identity, std::int64_t now_ms) {
  for (const auto& backend : workspace_backends)
    for (const auto& kv_key : workspace_keys(backend, session)) {
      const auto entry = rows.row<v1::KvEntry>(key(scope, kv_key));
      if (!entry || has_expired(*entry, now_ms) || !kv_visible(*entry, viewer, allow_cross_identity))
        continue;
      if (auto workspace = read(backend, *entry))
        return workspace;
    }
  return std::nullopt;
}

} // namespace swarm::domain
