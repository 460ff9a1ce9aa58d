#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

/// No room for one key more. An entry whose time is over still has its place, which may be taken again.
bool is_full(const transaction& tx, const std::string& kv_key) {
  return tx.kv_entries() >= limits::scope_kv_keys_max() && !tx.get<v1::KvEntry>(key(tx.scope(), kv_key));
}

/// No room for a value that is so much longer than the one it replaces.
std::optional<v1::Reply> check_kv_bytes(const transaction& tx, const v1::KvEntry& entry, const std::string& value) {
  if (value.size() <= entry.value().size() || tx.kv_bytes() + value.size() - entry.value().size() <= limits::scope_kv_bytes_max())
    return std::nullopt;
  return refuse(v1::Refusal::LIMIT,
                "The values of this scope's keys would be longer than " + std::to_string(limits::scope_kv_bytes_max() / limits::mib) +
                  " MiB together. Delete keys you no longer need, or give them a time to live.",
                entry.key());
}

v1::Reply scope_is_full() {
  return refuse(v1::Refusal::LIMIT,
                "The scope holds " + std::to_string(limits::scope_kv_keys_max()) + " keys. Delete some or give them a time to live.");
}

std::string label_identity(const transaction& tx) {
  auto me = tx.acting_session();
  return me ? identity_token(me->label()) : std::string();
}

/// Un-owned keys are open to all, owned ones to their identity and to the operator.
bool may_touch(const transaction& tx, const v1::KvEntry& entry) {
  if (entry.owner_identity().empty() || may_cross_identity(tx.command()))
    return true;
  return !tx.acting_session() || label_identity(tx) == entry.owner_identity();
}

v1::Reply foreign_key(const std::string& kv_key) { return refuse(v1::Refusal::CROSS_IDENTITY, "KV key is owned by another identity", kv_key); }

/// Why a write under a lock must not happen: the lock is not, or not any longer, held by this session with this fence.
template <class Write>
std::optional<v1::Reply> fenced_off(const transaction& tx, const Write& w) {
  if (!w.has_guard())
    return std::nullopt;
  const auto& path = w.guard().path();
  auto held = live_lock(tx, path);
  if (held && held->session_id() == tx.actor_name() && held->fence() == w.guard().fence())
    return std::nullopt;
  return refuse(v1::Refusal::STALE, "You do not hold the lock of " + path + " with this fence; lock it again before you write", path);
}

v1::KvEntry entry_for(const transaction& tx, const std::optional<v1::KvEntry>& old, const std::string& kv_key) {
  auto entry = old.value_or(v1::KvEntry());
  entry.set_scope(tx.scope());
  entry.set_key(kv_key);
  if (entry.owner_identity().empty())
    entry.set_owner_identity(label_identity(tx));
  entry.set_updated_at_ms(tx.in().now_ms);
  return entry;
}

/// Call after the event of the change, whose revision the entry takes.
v1::Reply store(transaction& tx, v1::KvEntry entry, std::uint64_t items) {
  entry.set_revision(tx.revision());
  tx.kv_changed();
  tx.put(entry);
  v1::Reply reply;
  // The caller has the value; a second copy would only halve what fits a batch.
  entry.clear_value();
  *reply.mutable_kv_written()->mutable_entry() = std::move(entry);
  reply.mutable_kv_written()->set_items(items);
  return reply;
}

/// What `append` appends to: an array as it is, anything else as the only element of one.
json as_array(const std::optional<v1::KvEntry>& old) {
  if (!old)
    return json::array();
  auto value = parse_json(old->value());
  if (value && value->is_array())
    return std::move(*value);
  // What would be nested too deeply inside the array goes in as text, like anything else that cannot be read as JSON.
  if (value && nested_deeper(old->value(), limits::json_depth_max - 1))
    value.reset();
  json array = json::array();
  array.push_back(value ? std::move(*value) : json(old->value()));
  return array;
}

bool holds_array(const v1::KvEntry& entry) {
  const auto value = parse_json(entry.value());
  return value && value->is_array();
}

v1::Reply not_an_array(const v1::KvEntry& entry) {
  constexpr std::size_t shown_bytes = 60;
  const auto value = parse_json(entry.value());
  const auto shown = escape_control(utf8_prefix(entry.value(), shown_bytes), false) + (entry.value().size() > shown_bytes ? "…" : "");
  return refuse(
    v1::Refusal::STATE,
    concat({entry.key(), " holds ", value ? std::string{"JSON of type "} + value->type_name() : "text", " and no JSON array: ", shown,
            "\nTo begin an array, delete it first: swarmctl kv del ", entry.key(), "; to replace it: swarmctl kv set ", entry.key(), " …"}),
    entry.key());
}

} // namespace

bool has_expired(const v1::KvEntry& entry, std::int64_t now_ms) noexcept { return entry.expires_at_ms() != 0 && entry.expires_at_ms() <= now_ms; }

bool kv_visible(const v1::KvEntry& entry, const v1::Session* viewer, bool allow_cross_identity) {
  return !viewer || allow_cross_identity || entry.owner_identity().empty() || entry.owner_identity() == viewer->identity();
}

std::optional<v1::KvEntry> live_kv(const transaction& tx, const std::string& kv_key) {
  auto entry = tx.get<v1::KvEntry>(key(tx.scope(), kv_key));
  return entry && has_expired(*entry, tx.in().now_ms) ? std::nullopt : entry;
}

v1::Reply set_kv(transaction& tx, const v1::SetKv& s) {
  if (auto r = fenced_off(tx, s))
    return *r;
  auto old = live_kv(tx, s.key());
  if (old && !may_touch(tx, *old))
    return foreign_key(s.key());
  if (s.compare() && (old ? old->revision() : 0) != s.expected_revision())
    return refuse(v1::Refusal::CONFLICT, "The key has changed; read it again", s.key());
  if (!old && is_full(tx, s.key()))
    return scope_is_full();
  auto entry = entry_for(tx, old, s.key());
  if (auto r = check_kv_bytes(tx, entry, s.value()))
    return *r;
  entry.set_value(s.value());
  entry.set_expires_at_ms(s.ttl_ms() > 0 ? tx.in().now_ms + s.ttl_ms() : 0);
  tx.event("kv.set", s.key(), {{"value", s.value()}, {"length", utf16_length(s.value())}});
  return store(tx, std::move(entry), 0);
}

v1::Reply append_kv(transaction& tx, const v1::AppendKv& a) {
  if (auto r = fenced_off(tx, a))
    return *r;
  // One level less: the array around it must still be read as an array the next time.
  auto value = parse_json(a.json(), limits::json_depth_max - 1);
  if (!value)
    return refuse(v1::Refusal::INVALID, "Value must be valid JSON", a.key());
  auto old = live_kv(tx, a.key());
  if (old && !may_touch(tx, *old))
    return foreign_key(a.key());
  if (!old && is_full(tx, a.key()))
    return scope_is_full();
  if (a.only_to_array() && old && !holds_array(*old))
    return not_an_array(*old);
  auto array = as_array(old);
  array.push_back(*value);
  auto entry = entry_for(tx, old, a.key());
  const auto value_now = array.dump(-1, ' ', false, json::error_handler_t::replace);
  if (auto r = check_kv_bytes(tx, entry, value_now))
    return *r;
  entry.set_value(value_now);
  if (entry.value().size() > limits::kv_value_bytes_max())
    return refuse(v1::Refusal::LIMIT, "The value would be longer than " + std::to_string(limits::kv_value_bytes_max()) + " bytes. Start another key.",
                  a.key());
  tx.event("kv.appended", a.key(), {{"appended", *value}, {"length", array.size()}});
  return store(tx, std::move(entry), array.size());
}

v1::Reply delete_kv(transaction& tx, const v1::DeleteKv& d) {
  if (auto r = fenced_off(tx, d))
    return *r;
  v1::Reply reply;
  auto old = live_kv(tx, d.key());
  reply.mutable_done()->set_nothing_there(!old);
  if (!old)
    return reply;
  if (!may_touch(tx, *old))
    return foreign_key(d.key());
  tx.erase(*old);
  tx.kv_changed();
  tx.event("kv.deleted", d.key(), {{"prior_value", old->value()}, {"prior_length", utf16_length(old->value())}});
  return reply;
}

} // namespace swarm::domain
