// dispatch, as in swarm-mcp: one task, and the worker that will do it.
#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/permissions.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

constexpr std::size_t uuid_bytes = 36;
constexpr std::string_view derived_prefix = "dispatch:";
constexpr std::size_t hash_digits = 16; // as swarm-mcp's

const std::string& or_else(const std::string& value, const std::string& fallback) { return value.empty() ? fallback : value; }

std::string normalized_spawner(std::string s) {
  for (char& c : s)
    c = c == '_' ? '-' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
  return s;
}

std::string spawn_lock_path(std::string role, const std::string& intent_hash) {
  for (char& c : role) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    if (!plain)
      c = '_';
  }
  return "/__swarm/spawn/" + (role.empty() ? "worker" : role) + "/" + intent_hash;
}

class dispatcher {
public:
  dispatcher(transaction& tx, const v1::Dispatch& d)
    : tx_(tx), d_(d), title_(trimmed(d.title())), identity_(actor_identity_token(tx)), type_(or_else(d.type(), "implement")),
      role_(or_else(d.role(), "implementer")), wants_exec_(d.harness() == "exec"), described_(described_worker(d)) {
    described_.set_directory(or_else(d.directory(), tx.command().caller().directory()));
    *described_.mutable_grant_ends() = grant_ends(d.grant_times(), tx.in().now_ms);
    if (d.structured() && d.on().empty() && d.where().empty()) { // whatever node another worker would have
      described_.set_node_id(tx.in().node_id);
      described_.clear_placement();
    }
  }

  v1::Reply run() {
    if (auto r = check())
      return *r;
    find_known();
    intent_hash_ = dispatch_hash({key_});
    label_ = make_worker_label(tx_, role_, or_else(d_.harness(), "none"), intent_hash_, d_.name(), d_.label());
    if (label_.refusal)
      return *label_.refusal;
    if (auto r = find_or_create())
      return *r;
    if (is_terminal(task_.status()))
      return terminal();
    if (worker_)
      return instruct();
    return d_.no_spawn() || d_.harness().empty() ? leave() : spawn();
  }

private:
  std::optional<v1::Reply> check() const {
    if (auto r = check_spawn_authority(tx_, "dispatch"))
      return r;
    if (title_.empty())
      return refuse(v1::Refusal::INVALID, "dispatch requires a title");
    if (!valid_task_type(type_))
      return refuse(v1::Refusal::INVALID, invalid_task_type(type_));
    if (auto r = check_grants(tx_, d_.grants(), d_.grant_times()))
      return r;
    if (const auto spawner = normalized_spawner(d_.spawner()); !spawner.empty() && spawner != "pty")
      return refuse(v1::Refusal::INVALID, "Unknown dispatch spawner \"" + d_.spawner() + "\". Registered spawners: pty.");
    if (d_.structured() && d_.on_terminal())
      return refuse(v1::Refusal::INVALID, "A worker is in a conversation or on a terminal. Leave --structured or --terminal out.");
    if (d_.structured())
      if (auto r = check_structured())
        return r;
    if (!d_.structured() && d_.permissions() != v1::Conversation::PERMISSIONS_UNSPECIFIED)
      return refuse(v1::Refusal::INVALID, "Permissions are for a conversation, and this worker is in none. Add --structured, or leave them out.");
    if (d_.harness().empty())
      return std::nullopt;
    return check_worker(described_, tx_.scope());
  }

  std::optional<v1::Reply> check_structured() const {
    if (!is_agent(d_.harness()))
      return refuse(v1::Refusal::INVALID, "A structured worker is an agent, and \"" + d_.harness() + "\" is none. Known: " + harness_names() + ".");
    if (!tx_.command().principal().node().empty())
      return refuse(v1::Refusal::FORBIDDEN, "Conversations are used on the host that is the home of their scope. Run this there.");
    if (d_.worktree() || d_.passes_input() || d_.pipes())
      return refuse(v1::Refusal::INVALID, "A structured worker has no worktree of its own, no terminal and no input. Leave what asks for one out.");
    if (!v1::Conversation::Permissions_IsValid(d_.permissions()))
      return refuse(v1::Refusal::INVALID, "There are no such permissions. Known: ask, auto-edit, auto, plan, deny.");
    return check_loosening(tx_, d_.permissions());
  }

  /// Of the conversation that works on the task. A retry has those of the task before, if its caller may give them.
  v1::Conversation::Permissions permissions() const {
    auto asked = d_.structured() ? d_.permissions() : v1::Conversation::PERMISSIONS_UNSPECIFIED;
    const auto old = d_.retry_of().empty() ? std::nullopt : find_task(tx_, d_.retry_of());
    if (asked == v1::Conversation::PERMISSIONS_UNSPECIFIED && old && !check_loosening(tx_, old->permissions()))
      asked = old->permissions();
    return asked == v1::Conversation::PERMISSIONS_UNSPECIFIED ? v1::Conversation::ASK : asked;
  }

  std::string derived_key() const {
    std::vector<std::string> parts{tx_.scope(), identity_, type_, title_, role_};
    if (!d_.variables_digest().empty()) {
      parts.emplace_back("env");
      parts.push_back(d_.variables_digest());
    }
    if (wants_exec_) {
      parts.emplace_back("exec");
      parts.push_back(described_.directory());
      parts.insert(parts.end(), d_.argv().begin(), d_.argv().end());
    }
    if (permissions() != v1::Conversation::ASK) { // swarm-mcp has none
      parts.emplace_back("permissions");
      parts.emplace_back(to_text(permissions()));
    }
    // The other callers keep swarm-mcp's key, which holds no more than this.
    if (d_.again_if_unsuccessful())
      add_further_wishes(parts);
    return concat({derived_prefix, dispatch_hash(parts)});
  }

  /// What else makes it other work. A plain line adds nothing, so an agent's dispatch of the same title is the same.
  void add_further_wishes(std::vector<std::string>& parts) const {
    auto add = [&](const char* name, std::vector<std::string> values, bool ordered = true) {
      if (values.empty())
        return;
      if (!ordered)
        std::sort(values.begin(), values.end());
      parts.emplace_back(name);
      parts.push_back(std::to_string(values.size()));
      parts.insert(parts.end(), values.begin(), values.end());
    };
    auto text = [](const std::string& value) { return value.empty() ? std::vector<std::string>{} : std::vector{value}; };
    auto flag = [](bool value) { return value ? std::vector<std::string>{"yes"} : std::vector<std::string>{}; };
    auto list = [](const auto& values) { return std::vector<std::string>(values.begin(), values.end()); };
    add("message", text(d_.message()));
    add("description", text(d_.description()));
    add("files", list(d_.files()), false);
    add("depends-on", list(d_.depends_on()), false);
    add("parent", text(d_.parent_task_id()));
    add("approval-required", flag(d_.approval_required()));
    add("worktree", flag(d_.worktree()));
    add("input", flag(d_.passes_input()));
    add("grants", list(d_.grants()), false);
    if (!wants_exec_)
      return;
    std::vector<std::string> where;
    for (const auto& label : d_.where())
      where.push_back(label.name() + "=" + label.value());
    add("on", text(chosen_host()));
    add("where", std::move(where), false);
  }

  /// A node names itself for what only its host has the directory for, which is no choice of hosts.
  std::string chosen_host() const {
    const auto& from = tx_.command().principal().node();
    const auto& own = from.empty() ? tx_.in().node_id : from;
    return d_.directory().starts_with('/') && d_.on() == own ? std::string{} : d_.on();
  }

  std::string further_key(const std::string& key) const {
    return std::string(utf8_prefix(key, limits::idempotency_key_bytes_max() - uuid_bytes - 1)) + ":" + tx_.in().new_uuid();
  }

  /// The key of the line that made the task first, to which what is made from it is the newest task as well.
  std::string key_before_retry() const {
    const auto old = find_task(tx_, d_.retry_of());
    const bool derived = old && old->idempotency_key().starts_with(derived_prefix);
    return derived ? old->idempotency_key().substr(0, derived_prefix.size() + hash_digits) : key_;
  }

  bool answers(const v1::Task& task) const {
    return !is_terminal(task.status()) || (task.status() == v1::DONE && !d_.passes_input() && !done_by_another_harness(task));
  }

  /// A caller that names another agent wants the work of that one.
  bool done_by_another_harness(const v1::Task& task) const {
    spawn_filter f;
    f.scope = tx_.scope();
    f.task_id = task.id();
    const auto runs = tx_.find<v1::Spawn>(f);
    return !d_.harness().empty() && !runs.empty() && !runs.back().harness().empty() && runs.back().harness() != d_.harness();
  }

  /// Finds the task that answers this dispatch, if there is one, and the key of the one that does or will.
  void find_known() {
    key_ = d_.idempotency_key().empty() ? derived_key() : d_.idempotency_key();
    if (!d_.retry_of().empty()) {
      key_ = key_before_retry() + ":" + d_.retry_of();
      if (auto newest = newest_task_of_key(tx_, key_))
        take_or_replace(std::move(*newest));
      else
        key_ = further_key(key_);
    } else if (d_.fresh()) {
      key_ = further_key(key_);
    } else if (!d_.again_if_unsuccessful() || !d_.idempotency_key().empty()) {
      known_ = find_task_by_key(tx_, key_);
    } else if (auto newest = newest_task_of_key(tx_, key_)) {
      take_or_replace(std::move(*newest));
    }
  }

  void take_or_replace(v1::Task newest) {
    const bool known = answers(newest);
    key_ = known ? newest.idempotency_key() : further_key(key_);
    (known ? known_ : replaced_) = std::move(newest);
  }

  // A live worker works where it is, so a worktree of its own takes a worker of its own.
  void find_worker() {
    if (d_.force_spawn() || wants_exec_ || d_.worktree())
      return;
    worker_wish wish{.role = role_, .identity = identity_, .requester = tx_.actor_name()};
    if (!chosen_host().empty() || !d_.where().empty())
      wish.node_id = d_.node_id();
    if (d_.on_terminal())
      wish.permissions.reset();
    else
      wish.permissions = permissions();
    if (!d_.harness().empty())
      wish.described = &described_;
    worker_ = live_worker(tx_, wish);
    // A conversation begins at once with what it is told.
    const bool can_begin = known_ ? known_->status() == v1::OPEN && known_->assignee().empty() : d_.depends_on().empty() && !d_.approval_required();
    if (worker_ && !can_begin && !conversation_at(tx_, worker_->id()).empty())
      worker_.reset();
  }

  std::optional<v1::Reply> find_or_create() {
    if (known_) {
      task_ = *known_;
      const bool runs_command = task_.harness() == "exec";
      if (wants_exec_ && !runs_command)
        return refuse(v1::Refusal::CONFLICT, "This idempotency key belongs to a task that runs no command. Use another key, or ask for a new task.",
                      task_.id());
      // Who retries at the same time as another has nothing more to say to the worker.
      if (!runs_command && d_.retry_of().empty())
        find_worker();
      return std::nullopt;
    }
    find_worker();
    return create();
  }

  std::optional<v1::Reply> create() {
    v1::TaskSpec spec;
    spec.set_type(type_);
    spec.set_title(title_);
    spec.set_description(or_else(d_.description(), message()));
    *spec.mutable_files() = d_.files();
    spec.set_has_files(d_.has_files());
    spec.set_priority(d_.priority());
    *spec.mutable_depends_on() = d_.depends_on();
    spec.set_idempotency_key(key_);
    spec.set_parent_task_id(d_.parent_task_id());
    spec.set_approval_required(d_.approval_required());
    if (worker_)
      spec.set_assignee(worker_->id());
    auto promotion = decide_promotion(tx_, d_, spec, label_.text);
    if (promotion.promote()) {
      spec.set_tracker_required(true);
      spec.set_tracker_provider(promotion.provider());
    } else {
      detect_tracker(spec, tx_);
    }
    if (auto r = check_relations(tx_, spec))
      return r;
    if (auto r = check_bounds(tx_, spec))
      return r;
    task_ = insert_task_for(tx_, spec, -1, wants_exec_ ? "exec" : "");
    bind_to_ticket(tx_, task_.id(), promotion);
    promotion_ = std::move(promotion);
    return std::nullopt;
  }

  const std::string& message() const { return or_else(d_.message(), or_else(d_.description(), title_)); }

  v1::Reply terminal() {
    auto r = answer(v1::DispatchReply::ALREADY_TERMINAL);
    spawn_filter f;
    f.scope = tx_.scope();
    f.task_id = task_.id();
    if (auto ended = tx_.find<v1::Spawn>(f); !ended.empty())
      *r.mutable_dispatch()->mutable_spawn() = std::move(ended.back());
    return r;
  }

  v1::Reply instruct() {
    if (const auto conversation = conversation_at(tx_, worker_->id()); !conversation.empty())
      return instruct(conversation);
    auto r = answer(v1::DispatchReply::DISPATCHED);
    r.mutable_dispatch()->set_recipient(worker_->id());
    auto how = d_.no_nudge() ? waking::never : d_.force() ? waking::at_once : waking::at_idle;
    *r.mutable_dispatch()->mutable_prompt() = prompt(tx_, tx_.actor_name(), worker_->id(), instruction(task_, message()), task_.id(), how);
    return r;
  }

  v1::Reply instruct(const std::string& conversation) {
    if (task_.assignee().empty()) {
      reserve_task(tx_, task_, worker_->id());
      task_ = find_task(tx_, task_.id()).value_or(task_);
    }
    instruct_conversation(tx_, conversation, task_, message(), permissions());
    auto r = answer(v1::DispatchReply::DISPATCHED);
    r.mutable_dispatch()->set_recipient(worker_->id());
    auto& told = *r.mutable_dispatch()->mutable_prompt();
    told.set_sender(tx_.actor_name());
    told.set_recipient(worker_->id());
    told.set_backend("conversation");
    told.set_handle(conversation);
    return r;
  }

  /// Nobody is told of what cannot be begun: it is given out when it opens, as it would be now.
  v1::Reply leave() {
    const bool waits = task_.status() == v1::BLOCKED || task_.status() == v1::APPROVAL_REQUIRED;
    if (waits && task_.assignee().empty() && live_orders_of(tx_, task_.id()).empty()) {
      order_worker(tx_, named({}), true);
    }
    return answer(v1::DispatchReply::NO_WORKER);
  }

  v1::Reply spawn() {
    for (auto& order : live_orders_of(tx_, task_.id())) {
      if (order.harness().empty()) {
        tx_.erase(order); // a worker of its own takes its place
        continue;
      }
      auto r = answer(v1::DispatchReply::SPAWN_IN_FLIGHT);
      *r.mutable_dispatch()->mutable_spawn() = std::move(order);
      return r;
    }
    if (!task_.assignee().empty()) {
      auto r = answer(v1::DispatchReply::DISPATCHED);
      r.mutable_dispatch()->set_recipient(task_.assignee());
      auto& told = *r.mutable_dispatch()->mutable_prompt(); // without a message id: nothing was sent
      told.set_sender(tx_.actor_name());
      told.set_recipient(task_.assignee());
      told.set_skipped("the task is assigned already");
      return r;
    }
    if (auto c = conversation_for_task(tx_, task_))
      return go_on(*c);
    if (auto r = check_spawn_quota(tx_))
      return *r;
    if (auto r = check_place(described_))
      return *r;
    if (auto r = check_order(tx_, described_))
      return *r;
    if (auto r = d_.structured() ? check_conversation_order(tx_, described_) : std::nullopt)
      return *r;
    auto worker = named(std::move(described_));
    worker.set_intent(title_);
    const bool deferred = task_.status() != v1::OPEN;
    auto ordered = d_.structured() ? order_conversation(tx_, std::move(worker), task_, message(), permissions(), deferred)
                                   : order_worker(tx_, std::move(worker), deferred);
    auto r = answer(v1::DispatchReply::SPAWNING);
    *r.mutable_dispatch()->mutable_spawn() = std::move(ordered);
    return r;
  }

  /// Its conversation has lost the task with its agent, and takes it up again.
  v1::Reply go_on(const v1::Conversation& c) {
    instruct_conversation(tx_, c.id(), task_, message(), std::nullopt);
    auto r = answer(v1::DispatchReply::SPAWN_IN_FLIGHT);
    if (auto driver = tx_.get<v1::Spawn>(key(c.spawn_id())))
      *r.mutable_dispatch()->mutable_spawn() = std::move(*driver);
    return r;
  }

  /// With what this dispatch calls it by, and its task.
  v1::Spawn named(v1::Spawn worker) const {
    worker.set_role(role_);
    worker.set_key(intent_hash_);
    worker.set_label(label_.text);
    worker.set_task_id(task_.id());
    return worker;
  }

  v1::Reply answer(v1::DispatchReply::Status status) const {
    v1::Reply r;
    auto& out = *r.mutable_dispatch();
    out.set_status(status);
    *out.mutable_task() = task_;
    out.set_role(role_);
    out.set_spawn_lock(spawn_lock_path(role_, intent_hash_));
    out.set_intent_hash(intent_hash_);
    out.set_existing(known_.has_value());
    if (replaced_) {
      out.mutable_in_place_of()->set_id(replaced_->id());
      out.mutable_in_place_of()->set_status(replaced_->status());
      out.mutable_in_place_of()->set_changed_at_ms(replaced_->changed_at_ms());
    }
    if (promotion_)
      *out.mutable_promotion() = *promotion_;
    return r;
  }

  transaction& tx_;
  const v1::Dispatch& d_;
  const std::string title_;
  const std::string identity_; // of the requester, as a token
  const std::string type_;
  const std::string role_;
  const bool wants_exec_;
  v1::Spawn described_; // the worker to start; moved out when it is ordered
  std::string key_;
  std::string intent_hash_;
  worker_label label_;
  std::optional<v1::Task> known_;    // answers this dispatch
  std::optional<v1::Task> replaced_; // has ended, and a new one is made after it
  v1::Task task_;
  std::optional<v1::Promotion> promotion_; // of a new task
  std::optional<v1::Session> worker_;
};

} // namespace

std::string dispatch_hash(const std::vector<std::string>& parts) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0)
      joined.push_back('\0');
    joined += parts[i];
  }
  return to_hex(sha256(joined)).substr(0, hash_digits);
}

v1::Reply dispatch(transaction& tx, const v1::Dispatch& d) { return dispatcher(tx, d).run(); }

} // namespace swarm::domain
