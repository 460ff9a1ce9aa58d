// One command being decided: the rows it reads, its own changes laid over them, and the batch that results.
#pragma once

#include <functional>
#include <tuple>

#include <nlohmann/json.hpp>

#include "actors/domain/overlay.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/domain/rows.hpp"

namespace swarm::domain {

using json = nlohmann::ordered_json;

/// What a rule may not find out by itself: time, randomness, and facts about the node.
struct inputs {
  std::int64_t now_ms = 0;
  /// Makes a random UUIDv4; seeded in tests.
  std::function<std::string()> new_uuid;
  v1::RequestId request;
  std::string node_id;
  /// Identity of sessions whose label has none, for instance "user:ada".
  std::string user_identity;
  /// SHA-256 of the command as received.
  std::string digest;
  /// Until this time nothing expires: a node that has just started gives every lease a grace. 0 = no grace.
  std::int64_t grace_until_ms = 0;
  /// `[identity] boundary` of the configuration: a session without an identity token is apart from those that have one.
  bool identity_boundary = false;
};

/// Reads see the command's own writes. Nothing here touches a disk; `take()` yields the batch to apply.
class transaction final {
public:
  transaction(const rows_view& base, const v1::Command& cmd, const inputs& in);

  const inputs& in() const noexcept { return in_; }
  const v1::Command& command() const noexcept { return cmd_; }
  const std::string& scope() const noexcept { return cmd_.scope(); }
  const rows_view& base() const noexcept { return base_; }

  template <class Row>
  std::optional<Row> get(const std::string& k) const {
    const auto& mine = std::get<overlay<Row>>(overlays_);
    if (auto i = mine.find(k); i != mine.end())
      return i->second;
    return base_.row<Row>(k);
  }

  template <class Row>
  std::vector<Row> find(const typename table<Row>::filter& f) const {
    return find_with<Row>(base_, f, std::get<overlay<Row>>(overlays_));
  }

  template <class Row>
  std::uint64_t count(const typename table<Row>::filter& f) const {
    return count_with<Row>(base_, f, std::get<overlay<Row>>(overlays_));
  }

  template <class Row>
  void put(Row row) {
    auto k = table<Row>::key(row);
    bytes_ += k.size() + row.ByteSizeLong();
    recount(k, &row);
    std::get<overlay<Row>>(overlays_)[std::move(k)] = std::move(row);
  }

  template <class Row>
  void erase(const Row& row) {
    auto k = table<Row>::key(row);
    bytes_ += k.size() + 16;
    recount(k, static_cast<const Row*>(nullptr));
    std::get<overlay<Row>>(overlays_)[std::move(k)] = std::nullopt;
  }

  /// True if `bytes` more of rows still fit a batch (limits::batch_encoded_bytes_max, less a reserve for the reply). Work of
  /// unbounded size (sweeps, the end of a session) stops here and goes on with the next command.
  bool has_room(std::size_t bytes) const noexcept;

  /// Appends an event. `actor` empty = the acting session or principal.
  void event(std::string_view type, std::string_view subject, const json& payload, std::string_view actor = {});

  /// In whose name the command comes: the acting session's id, else "operator"/"system" by principal.
  const std::string& actor_name() const noexcept { return actor_name_; }
  /// The acting session's row, if it acts as one and the row exists in this scope.
  std::optional<v1::Session> acting_session() const;

  /// For grants and places in line: above every fence of the scope before, also after a new epoch.
  std::uint64_t next_fence();
  /// Counts up from 1 within the scope.
  std::uint64_t next_message_id();
  /// Milliseconds, strictly increasing within the scope: for Task.changed_at_ms.
  std::int64_t next_changed_at();
  /// Call it with every change of a key: it moves the version that waiters compare.
  void kv_changed();
  /// The scope's row, to be changed; it goes into the batch even if it is not.
  v1::ScopeState& scope_state();
  /// The session that owns the planner role, empty = none.
  const std::string& planner() const noexcept { return state_.planner_session_id(); }
  std::uint64_t revision() const noexcept { return state_.revision(); }
  /// Tasks of the scope that have not ended, of all requesters.
  std::uint64_t open_tasks() const;
  /// Keys of the scope, those included whose time is over and that no sweep has taken yet.
  std::uint64_t kv_entries() const;
  /// Bytes of their values together.
  std::uint64_t kv_bytes() const noexcept { return state_.kv_bytes(); }
  /// Ended tasks whose dependants have not all been told.
  std::size_t pending_cascades() const { return static_cast<std::size_t>(state_.cascades_size()); }
  /// A hand-over found no room in its batch.
  bool lines_pending() const { return state_.lines_pending(); }

  /// Completes a request that had been told to wait.
  void resolve(v1::ResolvedWait);
  /// Events below this revision go with the batch; of several calls the highest revision applies.
  void delete_events_below(std::uint64_t revision);

  /// Refuses the command, whatever its rule replies: for a bound that is reached deep inside the rule.
  void veto(v1::Reply refusal) { veto_ = std::move(refusal); }

  /// Changes, events and reply as one batch. With a refusal in `reply` or a veto all changes are dropped.
  v1::Batch take(v1::Reply reply);

private:
  /// Keeps the scope's totals right. Here, because every change of a row passes here, whatever rule or cascade makes it. `after`
  /// null = erased.
  template <class Row>
  void recount(const std::string&, const Row*) {}
  void recount(const std::string& k, const v1::Task* after);
  void recount(const std::string& k, const v1::KvEntry* after);
  /// A row older than the totals gets them from a count, once.
  void count_once();

  const rows_view& base_;
  const v1::Command& cmd_;
  const inputs& in_;
  std::string actor_name_;
  v1::ScopeState state_;
  bool state_changed_ = false;
  std::size_t bytes_ = 0; // upper estimate of what the batch has grown to
  std::vector<v1::Event> events_;
  std::vector<v1::ResolvedWait> resolved_;
  std::uint64_t delete_events_below_ = 0;
  std::optional<v1::Reply> veto_;
  template <class... Rows>
  using all_overlays = std::tuple<overlay<Rows>...>;
  all_rows::in<all_overlays> overlays_;
};

/// The text, or null when it is empty: for the payloads of events.
inline json nullable(const std::string& text) { return text.empty() ? json() : json(text); }

// -- replies -------------------------------------------------------------------------------

inline bool refused(const v1::Reply& r) { return r.has_refusal(); }

} // namespace swarm::domain
