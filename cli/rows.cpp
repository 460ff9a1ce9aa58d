#include "cli/rows.hpp"

#include "gateway/json/shapes.hpp"

namespace swarm::cli {

json message_row(const v1::Message& m) {
  json out = {{"id", m.id()},
              {"sender", m.sender()},
              {"recipient", m.recipient()},
              {"content", m.content()},
              {"created_at", mcp::seconds(m.created_at_ms())},
              {"read", m.read() ? 1 : 0}};
  if (m.delivered_at_ms() != 0)
    out["delivered_at"] = mcp::seconds(m.delivered_at_ms());
  return out;
}

json lock_row(const v1::LockView& view) {
  const auto& l = view.lock();
  if (view.hidden())
    return {{"id", nullptr},
            {"instance_id", "hidden"},
            {"file", l.path()},
            {"type", "lock"},
            {"content", ""},
            {"created_at", nullptr},
            {"owner_label", hidden_holder},
            {"hidden", true},
            {"reason", "cross_identity"}};
  json out = {{"id", l.id()},
              {"instance_id", l.session_id()},
              {"file", l.path()},
              {"type", "lock"},
              {"content", l.note()},
              {"created_at", mcp::seconds(l.created_at_ms())},
              {"owner_label", mcp::text_or_null(view.owner().label())}};
  if (view.owner().has_workspace()) {
    out["workspace"] = mcp::workspace(view.owner().workspace());
    mcp::add_place(out, view.owner().workspace());
  }
  // Last, and only with a line, which swarm-mcp does not have: without one the row is the hooks' to the byte.
  if (view.waiters() > 0)
    out["waiters"] = view.waiters();
  return out;
}

} // namespace swarm::cli
