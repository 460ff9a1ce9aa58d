// Conversations, what was said to their agents, and what they have cost.
#include <charconv>

#include "actors/domain/query/rules.hpp"

namespace swarm::domain {

namespace {

/// Adds a row's bytes after moving it to where it belongs.
template <class Row>
std::size_t move_to(Row* place, Row row) {
  const auto bytes = row.ByteSizeLong() + 4;
  *place = std::move(row);
  return bytes;
}

std::optional<std::uint64_t> number_at(const std::string& position) {
  std::uint64_t n = 0;
  const auto* end = position.data() + position.size();
  const auto parsed = std::from_chars(position.data(), end, n);
  const bool fits = n <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return parsed.ptr == end && parsed.ec == std::errc{} && fits ? std::optional{n} : std::nullopt;
}

/// With the permissions that hold now, also where no sweep has been yet.
v1::Conversation shown(const question& q, v1::Conversation c) {
  end_bypass(c, q.in.now_ms);
  return c;
}

v1::Answer one_conversation(const question& q, const std::string& id) {
  v1::Answer a;
  auto& out = *a.mutable_conversations();
  auto row = q.rows.row<v1::Conversation>(key(id));
  if (row && row->scope() == q.scope() && q.sees_conversation(id))
    *out.add_conversations() = shown(q, std::move(*row));
  return a;
}

} // namespace

v1::Answer list_conversations(const question& q, const v1::ListConversations& c) {
  if (!c.id().empty())
    return one_conversation(q, c.id());
  const auto start = read_page("conversations", c.page());
  if (!start.valid || (!start.position.empty() && !is_position(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_conversations();
  conversation_filter f{.scope = q.scope()};
  if (c.open_only())
    f.open = true;
  const auto next = fill_page<v1::Conversation>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_key = after;
      f.limit = limit;
      return q.rows.rows<v1::Conversation>(f);
    },
    [](const v1::Conversation& row) { return position(row); },
    [&](v1::Conversation row) -> std::size_t {
      return q.sees_conversation(row.id()) ? move_to(out.add_conversations(), shown(q, std::move(row))) : 0;
    });
  if (next)
    out.mutable_page()->set_token(page_token("conversations", *next));
  return a;
}

v1::Answer list_prompts(const question& q, const v1::ListPrompts& c) {
  const auto start = read_page("prompts", c.page());
  if (!start.valid || (!start.position.empty() && !number_at(start.position)))
    return bad_page();
  const auto row = q.rows.row<v1::Conversation>(key(c.conversation_id()));
  if (!row || row->scope() != q.scope() || !q.sees_conversation(row->id()))
    return deny(v1::Refusal::NOT_FOUND, "There is no conversation " + c.conversation_id() + " in this scope", c.conversation_id());
  v1::Answer a;
  auto& out = *a.mutable_prompts();
  prompt_filter f{.scope = q.scope(), .conversation_id = c.conversation_id()};
  if (c.open_only())
    f.open = true;
  const auto next = fill_page<v1::Prompt>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_number = after.empty() ? 0 : *number_at(after);
      f.limit = limit;
      return q.rows.rows<v1::Prompt>(f);
    },
    [](const v1::Prompt& p) { return std::to_string(p.number()); },
    [&](v1::Prompt p) -> std::size_t { return move_to(out.add_prompts(), std::move(p)); });
  if (next)
    out.mutable_page()->set_token(page_token("prompts", *next));
  return a;
}

v1::Answer list_usage(const question& q, const v1::ListUsage& c) {
  const auto start = read_page("usage", c.page());
  if (!start.valid)
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_usage();
  if (!q.sees_conversations())
    return a;
  usage_day_filter f{.scope = q.scope(), .since_day = c.since_day()};
  const auto next = fill_page<v1::UsageDay>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after_key = after;
      f.limit = limit;
      return q.rows.rows<v1::UsageDay>(f);
    },
    [](const v1::UsageDay& u) { return table<v1::UsageDay>::key(u); },
    [&](v1::UsageDay u) -> std::size_t { return move_to(out.add_days(), std::move(u)); });
  if (next)
    out.mutable_page()->set_token(page_token("usage", *next));
  return a;
}

} // namespace swarm::domain
