// Queries as they come from outside: refused or answered, the same question twice gives the same answer, and every page token that is
// handed out is taken back and leads to the end.
#include "actors/base/limits.hpp"
#include "actors/domain/query/rules.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

/// How the tokens of that list begin.
std::string list_of(const v1::Query& q) {
  switch (q.body_case()) {
    case v1::Query::kListSessions: return "sessions";
    case v1::Query::kListTasks: return q.list_tasks().by_creation() ? "tasks-by-creation" : "tasks";
    case v1::Query::kListLocks: return "locks";
    case v1::Query::kListKv: return "kv";
    case v1::Query::kListEvents: return "events";
    case v1::Query::kListSpawns: return "spawns";
    case v1::Query::kListScopes: return "scopes";
    default: return {};
  }
}

/// The page of the list asked for, null for questions without one.
v1::Page* page_of(v1::Query& q) {
  switch (q.body_case()) {
    case v1::Query::kListSessions: return q.mutable_list_sessions()->mutable_page();
    case v1::Query::kListTasks: return q.mutable_list_tasks()->mutable_page();
    case v1::Query::kListLocks: return q.mutable_list_locks()->mutable_page();
    case v1::Query::kListKv: return q.mutable_list_kv()->mutable_page();
    case v1::Query::kListEvents: return q.mutable_list_events()->mutable_page();
    case v1::Query::kListSpawns: return q.mutable_list_spawns()->mutable_page();
    case v1::Query::kListScopes: return q.mutable_list_scopes()->mutable_page();
    default: return nullptr;
  }
}

std::string next_token(const v1::Answer& a) {
  switch (a.body_case()) {
    case v1::Answer::kSessions: return a.sessions().page().token();
    case v1::Answer::kTasks: return a.tasks().page().token();
    case v1::Answer::kLocks: return a.locks().page().token();
    case v1::Answer::kKvList: return a.kv_list().page().token();
    case v1::Answer::kEvents: return a.events().page().token();
    case v1::Answer::kSpawns: return a.spawns().page().token();
    case v1::Answer::kScopes: return a.scopes().page().token();
    default: return {};
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::populated world;
  fuzz::input in{data, size};
  auto kind = in.byte();
  v1::Query q;
  if (!q.ParseFromString(in.rest()))
    return 0;
  world.name_all(q);
  q.mutable_principal()->set_kind(static_cast<v1::Principal::Kind>(kind % 6));
  if (kind & 0x80)
    q.set_scope("s");
  // A token somebody made by hand: the right beginning, any position.
  if (auto* page = kind & 0x40 ? page_of(q) : nullptr)
    page->set_token(domain::page_token(list_of(q), page->token()));
  auto forbidden = domain::validate(q) || domain::authorize(q);
  auto first = domain::answer(q, world.rows, world.in);
  SWARM_HOLDS(!forbidden || first.has_refusal());
  SWARM_HOLDS(first.has_refusal() != (first.body_case() != v1::Answer::BODY_NOT_SET));
  SWARM_HOLDS(domain::answer(q, world.rows, world.in).SerializeAsString() == first.SerializeAsString());
  SWARM_HOLDS(first.ByteSizeLong() <= limits::grpc_message_bytes_max);
  auto token = next_token(first);
  for (int pages = 0; !token.empty(); ++pages) {
    SWARM_HOLDS(pages < 200);
    auto* page = page_of(q);
    SWARM_HOLDS(page != nullptr);
    SWARM_HOLDS(page->token() != token);
    page->set_token(token);
    auto next = domain::answer(q, world.rows, world.in);
    SWARM_HOLDS(!next.has_refusal());
    token = next_token(next);
  }
  return 0;
}
