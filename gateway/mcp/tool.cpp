#include "gateway/mcp/tool.hpp"

#include <algorithm>
#include <stdexcept>

#include "actors/base/paths.hpp"
#include "actors/base/worktree.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/session/lock_target.hpp"

namespace swarm::mcp {

tool_result said(std::string text) { return {{std::move(text)}, false}; }

tool_result said(const json& value) { return said(dump(value)); }

tool_result said_error(const std::string& text) { return said(json{{"error", text}}); }

// -- a call --------------------------------------------------------------------------------

v1::Command tool_call::command() const {
  v1::Command out;
  out.set_scope(session.scope());
  out.set_actor(session.id());
  *out.mutable_caller() = process.caller();
  return out;
}

v1::Query tool_call::query() const {
  v1::Query out;
  out.set_scope(session.scope());
  out.set_viewer(session.id());
  *out.mutable_caller() = process.caller();
  return out;
}

std::string tool_call::file(const std::string& input) const {
  const auto& root = session.root().empty() ? session.directory() : session.root();
  return repository_path(resolve_file(file_word(input, session.directory()), session.directory(), session.file_root(), root), session.scope());
}

std::string tool_call::real_file(const std::string& input) const {
  const auto& root = session.scope().starts_with('/') ? session.scope() : session.root();
  return follow_links(normalize_path(file_word(input, session.directory()), session.directory()), root);
}

std::string tool_call::optional_text(const char* name) const { return given(name) ? text(name) : std::string{}; }

bool tool_call::flag(const char* name) const { return given(name) && arguments.at(name).get<bool>(); }

// -- the table -----------------------------------------------------------------------------

void tool_table::add(tool t) {
  auto row = std::make_shared<const tool>(std::move(t));
  std::function<void()> changed;
  {
    std::lock_guard guard{mutex_};
    auto same = std::find_if(tools_.begin(), tools_.end(), [&](const tool_ptr& x) { return x->name == row->name; });
    if (same == tools_.end())
      tools_.push_back(std::move(row));
    else
      *same = std::move(row);
    changed = changed_;
  }
  if (changed)
    changed();
}

bool tool_table::remove(std::string_view name) {
  std::function<void()> changed;
  {
    std::lock_guard guard{mutex_};
    if (std::erase_if(tools_, [&](const tool_ptr& x) { return x->name == name; }) == 0)
      return false;
    changed = changed_;
  }
  if (changed)
    changed();
  return true;
}

tool_table::tool_ptr tool_table::find(std::string_view name) const {
  std::lock_guard guard{mutex_};
  auto i = std::find_if(tools_.begin(), tools_.end(), [&](const tool_ptr& x) { return x->name == name; });
  return i == tools_.end() ? nullptr : *i;
}

std::vector<tool_table::tool_ptr> tool_table::list() const {
  std::lock_guard guard{mutex_};
  return tools_;
}

void tool_table::on_change(std::function<void()> f) {
  std::lock_guard guard{mutex_};
  changed_ = std::move(f);
}

void add_tools(tool_table& table) {
  std::vector<tool> all;
  for (auto family : {session_tools(), message_tools(), task_tools(), lock_tools(), kv_tools(), status_tools(), dispatch_tools(), pty_tools(),
                      routine_tools(), person_tools(), chat_tools()})
    std::move(family.begin(), family.end(), std::back_inserter(all));
  // The order is swarm-mcp's; the families are not in it.
  for (auto name : tool_names()) {
    auto i = std::find_if(all.begin(), all.end(), [&](const tool& t) { return t.name == name; });
    if (i == all.end())
      throw std::logic_error("no tool " + std::string{name});
    table.add(std::move(*i));
    all.erase(i);
  }
  for (auto& ours : all)
    table.add(std::move(ours));
}

} // namespace swarm::mcp
