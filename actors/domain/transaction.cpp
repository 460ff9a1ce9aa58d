#include "actors/domain/transaction.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rights.hpp"

namespace swarm::domain {

namespace {

constexpr std::size_t reply_reserve_bytes = 64 * limits::kib;

std::string name_of_actor(const v1::Command& cmd) {
  if (!cmd.actor().empty())
    return cmd.actor();
  const auto& p = cmd.principal();
  if (p.kind() == v1::Principal::SESSION)
    return p.id();
  if (p.kind() == v1::Principal::NODE)
    return "system";
  // Nobody but the operator speaks in the operator's name: others are called by what they are.
  return std::string{name_of(p.kind())};
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Cuts texts and lists inside `value` to `size` bytes or elements.
void shorten(json& value, std::size_t size) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    if (text.size() > size)
      text = std::string(utf8_prefix(text, size));
  } else if (value.is_structured()) {
    if (value.is_array() && value.size() > size)
      value.erase(value.begin() + static_cast<std::ptrdiff_t>(size), value.end());
    for (auto& member : value)
      shorten(member, size);
  }
}

/// The payload as JSON object text of at most limits::event_payload_bytes_max(), marked when something was cut.
std::string bounded_payload(const json& payload) {
  auto object = payload.is_object() ? payload : json::object();
  auto text = dump(object);
  for (std::size_t size = 2048; text.size() > limits::event_payload_bytes_max() && size > 0; size /= 2) {
    shorten(object, size);
    object["truncated"] = true;
    text = dump(object);
  }
  return text.size() > limits::event_payload_bytes_max() ? R"({"truncated":true})" : text;
}

/// Counters carry the epoch in their upper bits, so that a new epoch only raises them.
std::uint64_t following(std::uint64_t value, std::uint64_t epoch) { return std::max(value, epoch << limits::epoch_shift) + 1; }

task_filter open_tasks_of(const std::string& scope) {
  return {.scope = scope, .statuses = {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED}};
}

bool is_open(const v1::Task& t) { return t.status() != v1::TASK_STATUS_UNSPECIFIED && !is_terminal(t.status()); }

/// A total that is too low (a row put there by hand) must not wrap around to a full scope.
std::uint64_t moved(std::uint64_t total, bool before, bool after) {
  if (before == after)
    return total;
  return after ? total + 1 : total - std::min<std::uint64_t>(total, 1);
}

template <class Row>
void append_patches(v1::Batch& batch, const overlay<Row>& changed) {
  for (const auto& [key, row] : changed) {
    auto* patch = batch.add_patches();
    if (row) {
      *table<Row>::mutable_in(*patch) = *row;
    } else {
      patch->mutable_erased()->set_table(table<Row>::erased);
      patch->mutable_erased()->set_key(key);
    }
  }
}

} // namespace

transaction::transaction(const rows_view& base, const v1::Command& cmd, const inputs& in)
  : base_(base), cmd_(cmd), in_(in), actor_name_(name_of_actor(cmd)) {
  if (auto state = base.row<v1::ScopeState>(key(cmd.scope()))) {
    state_ = std::move(*state);
  } else {
    state_.set_scope(cmd.scope());
    state_.set_epoch(1);
  }
}

bool transaction::has_room(std::size_t bytes) const noexcept { return bytes_ + bytes + reply_reserve_bytes <= limits::batch_encoded_bytes_max; }

void transaction::event(std::string_view type, std::string_view subject, const json& payload, std::string_view actor) {
  v1::Event e;
  e.set_scope(scope());
  auto& state = scope_state();
  state.set_revision(following(state.revision(), state.epoch()));
  e.set_revision(state.revision());
  e.set_at_ms(in_.now_ms);
  e.set_type(std::string(type));
  e.set_actor(actor.empty() ? actor_name_ : std::string(actor));
  e.set_subject(std::string(subject));
  e.set_payload(bounded_payload(payload));
  *e.mutable_principal() = cmd_.principal();
  bytes_ += e.ByteSizeLong() + 8;
  events_.push_back(std::move(e));
}

std::optional<v1::Session> transaction::acting_session() const {
  if (cmd_.actor().empty() && cmd_.principal().kind() != v1::Principal::SESSION)
    return std::nullopt;
  auto session = get<v1::Session>(key(actor_name_));
  return session && session->scope() == scope() ? session : std::nullopt;
}

std::uint64_t transaction::next_fence() {
  auto& state = scope_state();
  state.set_fence(following(state.fence(), state.epoch()));
  return state.fence();
}

std::uint64_t transaction::next_message_id() {
  auto& state = scope_state();
  auto id = std::max<std::uint64_t>(state.next_message_id(), 1);
  state.set_next_message_id(id + 1);
  return id;
}

std::int64_t transaction::next_changed_at() {
  auto& state = scope_state();
  state.set_changed_at_ms(std::max(in_.now_ms, state.changed_at_ms() + 1));
  return state.changed_at_ms();
}

void transaction::kv_changed() { scope_state().set_kv_version(state_.kv_version() + 1); }

std::uint64_t transaction::open_tasks() const {
  // Not counted yet = nothing changed yet, so the base alone says it.
  return state_.counted() ? state_.open_tasks() : base_.total<v1::Task>(open_tasks_of(scope()));
}

std::uint64_t transaction::kv_entries() const { return state_.counted() ? state_.kv_entries() : base_.total<v1::KvEntry>({.scope = scope()}); }

void transaction::count_once() {
  if (state_.counted())
    return;
  auto tasks = open_tasks(), entries = kv_entries();
  auto& state = scope_state();
  state.set_open_tasks(tasks);
  state.set_kv_entries(entries);
  state.set_counted(true);
}

void transaction::recount(const std::string& k, const v1::Task* after) {
  count_once();
  auto before = get<v1::Task>(k);
  auto total = moved(state_.open_tasks(), before && is_open(*before), after && is_open(*after));
  if (total != state_.open_tasks())
    scope_state().set_open_tasks(total);
}

void transaction::recount(const std::string& k, const v1::KvEntry* after) {
  count_once();
  auto before = get<v1::KvEntry>(k);
  auto total = moved(state_.kv_entries(), before.has_value(), after != nullptr);
  if (total != state_.kv_entries())
    scope_state().set_kv_entries(total);
  const std::uint64_t gone = before ? before->value().size() : 0, come = after ? after->value().size() : 0;
  // Values from before bytes were counted may go without having come.
  if (gone != come)
    scope_state().set_kv_bytes(state_.kv_bytes() - std::min(gone, state_.kv_bytes()) + come);
}

v1::ScopeState& transaction::scope_state() {
  state_changed_ = true;
  return state_;
}

void transaction::resolve(v1::ResolvedWait wait) {
  bytes_ += wait.ByteSizeLong() + 16;
  resolved_.push_back(std::move(wait));
}

void transaction::delete_events_below(std::uint64_t revision) { delete_events_below_ = std::max(delete_events_below_, revision); }

v1::Batch transaction::take(v1::Reply reply) {
  v1::Batch batch;
  batch.set_scope(scope());
  auto refusal_batch = [&](v1::Reply refusal) {
    auto before = base_.row<v1::ScopeState>(key(scope()));
    refusal.set_revision(before ? before->revision() : 0);
    batch.Clear();
    batch.set_scope(scope());
    *batch.mutable_reply() = std::move(refusal);
    return batch;
  };
  if (veto_)
    return refusal_batch(std::move(*veto_));
  if (refused(reply))
    return refusal_batch(std::move(reply));
  std::apply([&](const auto&... changes) { (append_patches(batch, changes), ...); }, overlays_);
  if (state_changed_)
    *batch.add_patches()->mutable_scope_state() = state_;
  for (auto& e : events_)
    *batch.add_events() = std::move(e);
  for (auto& wait : resolved_) {
    wait.mutable_reply()->set_revision(state_.revision());
    *batch.add_resolved() = std::move(wait);
  }
  batch.set_delete_events_below(delete_events_below_);
  if (!in_.request.client().empty())
    *batch.mutable_request() = in_.request;
  reply.set_revision(state_.revision());
  *batch.mutable_reply() = std::move(reply);
  if (batch.ByteSizeLong() > limits::batch_encoded_bytes_max)
    return refusal_batch(refuse(v1::Refusal::LIMIT, "The command changes more than " + std::to_string(limits::batch_encoded_bytes_max / limits::kib) +
                                                      " KiB at once. Split it into smaller ones."));
  return batch;
}

} // namespace swarm::domain
