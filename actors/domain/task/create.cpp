// Making tasks: request_task and request_task_batch.
#include <algorithm>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/domain/task/rules.hpp"

namespace swarm::domain {

namespace {

std::string inactive(const std::string& session) { return "Instance " + session + " is not active in this scope"; }

json list_or_null(const google::protobuf::RepeatedPtrField<std::string>& list, bool given) {
  if (!given && list.empty())
    return nullptr;
  json out = json::array();
  for (const auto& s : list)
    out.push_back(s);
  return out;
}

json created_payload(const v1::Task& t, int batch_index) {
  json p{{"task_type", t.type()},
         {"title", t.title()},
         {"description", nullable(t.description())},
         {"status", to_text(t.status())},
         {"assignee", nullable(t.assignee())},
         {"parent_task_id", nullable(t.parent_task_id())},
         {"review_of_task_id", nullable(t.review_of_task_id())},
         {"fixes_task_id", nullable(t.fixes_task_id())},
         {"depends_on", list_or_null(t.depends_on(), false)},
         {"files", list_or_null(t.files(), t.has_files())},
         {"priority", t.priority()},
         {"result", t.has_result() ? json(t.result()) : json()},
         {"tracker_required", t.tracker_required()},
         {"tracker_provider", nullable(t.tracker_provider())}};
  if (!t.harness().empty())
    p["harness"] = t.harness();
  if (batch_index >= 0)
    p["batch_index"] = batch_index;
  return p;
}

v1::Task task_from(const v1::TaskSpec& spec, const transaction& tx) {
  v1::Task t;
  t.set_scope(tx.scope());
  t.set_type(spec.type());
  t.set_title(spec.title());
  t.set_description(spec.description());
  t.set_assignee(spec.assignee());
  *t.mutable_files() = spec.files();
  t.set_has_files(spec.has_files());
  t.set_priority(spec.priority());
  std::set<std::string> seen;
  for (const auto& id : spec.depends_on())
    if (seen.insert(id).second)
      t.add_depends_on(id);
  t.set_idempotency_key(spec.idempotency_key());
  t.set_parent_task_id(spec.parent_task_id());
  t.set_review_of_task_id(spec.review_of_task_id());
  t.set_fixes_task_id(spec.fixes_task_id());
  t.set_tracker_required(spec.tracker_required());
  t.set_tracker_provider(spec.tracker_provider());
  t.set_approval_required(spec.approval_required());
  t.set_requester(tx.actor_name());
  const auto me = tx.acting_session();
  t.set_identity(me ? me->identity() : caller_identity_token(tx));
  return t;
}

std::optional<v1::Reply> check_assignee(const transaction& tx, const v1::TaskSpec& spec, bool relaxed) {
  if (spec.assignee().empty())
    return std::nullopt;
  const auto target = tx.get<v1::Session>(key(spec.assignee()));
  if (!target || target->scope() != tx.scope())
    return refuse(v1::Refusal::NOT_FOUND, inactive(spec.assignee()), spec.assignee());
  const auto me = tx.acting_session();
  if (relaxed || !me)
    return std::nullopt;
  return identity_boundary(tx, *me, *target);
}

std::optional<v1::Reply> check_type(const v1::TaskSpec& spec) {
  if (valid_task_type(spec.type()))
    return std::nullopt;
  return refuse(v1::Refusal::INVALID, invalid_task_type(spec.type()));
}

std::string announcement(const v1::Task& t) {
  auto text = "[auto] New " + t.type() + " task assigned to you: \"" + t.title() + "\" (task_id: " + t.id() + ")";
  if (t.status() != v1::CLAIMED)
    text += std::string(" (currently ") + to_text(t.status()) + " — will be claimable when ready)";
  return text + ". Claim it with claim_task if not auto-claimed.";
}

void add_created(v1::TasksCreated& out, v1::Task task, bool existing) {
  auto* c = out.add_tasks();
  *c->mutable_task() = std::move(task);
  c->set_existing(existing);
}

std::optional<v1::Reply> create_one(transaction& tx, v1::TaskSpec spec, const v1::CreateTasks& c, v1::TasksCreated& out) {
  if (auto r = check_type(spec))
    return r;
  if (auto r = check_assignee(tx, spec, c.relaxed()))
    return r;
  if (auto existing = find_task_by_key(tx, spec.idempotency_key())) {
    add_created(out, std::move(*existing), true);
    return std::nullopt;
  }
  if (auto r = check_relations(tx, spec))
    return r;
  if (auto r = check_bounds(tx, spec))
    return r;
  if (c.detect_tracker())
    detect_tracker(spec, tx);
  auto task = insert_task(tx, spec);
  if (!task.assignee().empty() && task.assignee() != tx.actor_name())
    *out.add_prompts() = prompt(tx, tx.actor_name(), task.assignee(), announcement(task), task.id());
  add_created(out, std::move(task), false);
  return std::nullopt;
}

// -- batches ---------------------------------------------------------------------------------------

/// N of "$N", or nullopt for any other text. A number too large to be an index is out of range all the same.
std::optional<std::uint64_t> batch_reference(std::string_view text) {
  if (text.size() < 2 || text.front() != '$')
    return std::nullopt;
  std::uint64_t n = 0;
  for (char c : text.substr(1)) {
    if (c < '0' || c > '9')
      return std::nullopt;
    n = std::min<std::uint64_t>(n * 10 + static_cast<std::uint64_t>(c - '0'), limits::kib * limits::kib);
  }
  return n;
}

struct link {
  const char* field;
  const char* what;
  const std::string& (v1::TaskSpec::*get)() const;
  std::string* (v1::TaskSpec::*change)();
};

const link links[] = {{"parent_task_id", "Parent", &v1::TaskSpec::parent_task_id, &v1::TaskSpec::mutable_parent_task_id},
                      {"review_of_task_id", "Review target", &v1::TaskSpec::review_of_task_id, &v1::TaskSpec::mutable_review_of_task_id},
                      {"fixes_task_id", "Fix target", &v1::TaskSpec::fixes_task_id, &v1::TaskSpec::mutable_fixes_task_id}};

class batch {
public:
  batch(transaction& tx, const v1::CreateTasks& c) : tx_(tx), c_(c), existing_(static_cast<std::size_t>(c.tasks_size())) {}

  v1::Reply create() {
    for (const auto& spec : c_.tasks())
      if (auto r = check_type(spec))
        return *r;
    check_keys();
    if (refusal_.details_size() == 0) {
      find_existing();
      check_specs();
    }
    if (refusal_.details_size() == 0)
      check_external();
    if (refusal_.details_size() > 0)
      return refused_batch();
    return insert();
  }

private:
  void error(int index, const char* field, std::string message) {
    auto* d = refusal_.add_details();
    d->set_task_index(static_cast<std::uint32_t>(index));
    d->set_field(field);
    d->set_message(std::move(message));
  }

  v1::Reply refused_batch() {
    auto r = refuse(v1::Refusal::INVALID, "Validation failed");
    *r.mutable_refusal()->mutable_details() = std::move(*refusal_.mutable_details());
    return r;
  }

  bool is_new(int i) const { return !existing_[static_cast<std::size_t>(i)]; }

  void check_keys() {
    std::map<std::string, int> first;
    for (int i = 0; i < c_.tasks_size(); ++i) {
      const auto& k = c_.tasks(i).idempotency_key();
      if (k.empty())
        continue;
      if (auto [at, added] = first.emplace(k, i); !added)
        error(i, "idempotency_key", "Duplicate idempotency_key " + k + " also used by task " + std::to_string(at->second + 1));
    }
  }

  void find_existing() {
    for (int i = 0; i < c_.tasks_size(); ++i)
      existing_[static_cast<std::size_t>(i)] = find_task_by_key(tx_, c_.tasks(i).idempotency_key());
  }

  void check_specs() {
    for (int i = 0; i < c_.tasks_size(); ++i) {
      if (!is_new(i))
        continue;
      const auto& spec = c_.tasks(i);
      for (const auto& ref : spec.depends_on())
        check_reference(i, "depends_on", ref, true);
      for (const auto& l : links)
        check_reference(i, l.field, (spec.*l.get)(), false);
      if (check_assignee(tx_, spec, c_.relaxed()))
        error(i, "assignee", inactive(spec.assignee()));
    }
  }

  void check_reference(int i, const char* field, const std::string& ref, bool dependency) {
    const auto n = batch_reference(ref);
    if (!n)
      return;
    const auto self = static_cast<std::uint64_t>(i) + 1;
    if (*n == 0 || *n > static_cast<std::uint64_t>(c_.tasks_size()))
      error(i, field, ref + " is out of range" + (dependency ? " (batch has " + std::to_string(c_.tasks_size()) + " tasks)" : std::string{}));
    else if (*n == self)
      error(i, field, ref + " is a self-reference");
    else if (*n > self)
      error(i, field,
            ref + " is a forward reference" +
              (dependency ? " (not allowed — task " + std::to_string(self) + " cannot depend on task " + std::to_string(*n) + ")" : std::string{}));
  }

  // The first miss ends the search: the others may follow from it.
  void check_external() {
    for (int i = 0; i < c_.tasks_size(); ++i) {
      if (!is_new(i))
        continue;
      const auto& spec = c_.tasks(i);
      for (const auto& id : spec.depends_on())
        if (!batch_reference(id) && !find_task(tx_, id))
          return error(i, "depends_on", "External task " + id + " not found in scope");
      for (const auto& l : links)
        if (const auto& id = (spec.*l.get)(); !id.empty() && !batch_reference(id) && !find_task(tx_, id))
          return error(i, l.field, std::string(l.what) + " task " + id + " not found in scope");
    }
  }

  v1::Reply insert() {
    v1::Reply r;
    auto& out = *r.mutable_tasks_created();
    for (int i = 0; i < c_.tasks_size(); ++i) {
      if (!is_new(i)) {
        ids_.push_back(existing_[static_cast<std::size_t>(i)]->id());
        add_created(out, *existing_[static_cast<std::size_t>(i)], true);
        continue;
      }
      auto spec = resolved(c_.tasks(i));
      if (auto refusal = check_bounds(tx_, spec))
        return *refusal;
      if (c_.detect_tracker())
        detect_tracker(spec, tx_);
      auto task = insert_task(tx_, spec, i);
      ids_.push_back(task.id());
      add_created(out, std::move(task), false);
    }
    announce(out);
    return r;
  }

  void resolve(std::string& ref) const {
    if (auto n = batch_reference(ref))
      ref = ids_[*n - 1];
  }

  v1::TaskSpec resolved(v1::TaskSpec spec) const {
    for (auto& ref : *spec.mutable_depends_on())
      resolve(ref);
    for (const auto& l : links)
      if (!(spec.*l.get)().empty())
        resolve(*(spec.*l.change)());
    return spec;
  }

  void announce(v1::TasksCreated& out) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<const v1::Task*>> by_assignee;
    for (const auto& c : out.tasks()) {
      const auto& who = c.task().assignee();
      if (c.existing() || who.empty() || who == tx_.actor_name())
        continue;
      if (by_assignee[who].empty())
        order.push_back(who);
      by_assignee[who].push_back(&c.task());
    }
    for (const auto& who : order)
      *out.add_prompts() = prompt(tx_, tx_.actor_name(), who, assigned_text(by_assignee[who]), {});
  }

  static std::string assigned_text(const std::vector<const v1::Task*>& tasks) {
    auto text = "[auto] " + std::to_string(tasks.size()) + " task(s) assigned to you: ";
    const char* separator = "";
    for (const auto* t : tasks) {
      text += std::string(separator) + "\"" + t->title() + "\" (" + t->type() + ", task_id: " + t->id() + ")";
      if (t->status() != v1::CLAIMED)
        text += std::string(" (") + to_text(t->status()) + ")";
      separator = ", ";
    }
    return text + ". Claim open tasks with claim_task.";
  }

  transaction& tx_;
  const v1::CreateTasks& c_;
  std::vector<std::optional<v1::Task>> existing_;
  std::vector<std::string> ids_;
  v1::Refusal refusal_;
};

} // namespace

std::optional<v1::Reply> check_relations(const transaction& tx, const v1::TaskSpec& spec) {
  const auto missing = [&](std::string what, const std::string& id) {
    return refuse(v1::Refusal::NOT_FOUND, std::move(what) + " task " + id + " not found in scope", id);
  };
  for (const auto& id : spec.depends_on())
    if (!find_task(tx, id))
      return missing("Dependency", id);
  for (const auto& l : links)
    if (const auto& id = (spec.*l.get)(); !id.empty() && !find_task(tx, id))
      return missing(l.what, id);
  return std::nullopt;
}

std::optional<v1::Reply> check_bounds(const transaction& tx, const v1::TaskSpec& spec) {
  for (const auto& id : spec.depends_on()) {
    task_filter dependants;
    dependants.scope = tx.scope();
    dependants.depends_on = id;
    if (tx.count<v1::Task>(dependants) >= limits::task_dependants_max())
      return refuse(v1::Refusal::LIMIT,
                    "Task " + id + " already has " + std::to_string(limits::task_dependants_max()) +
                      " dependants. Let an intermediate task depend on it and the others on that one.",
                    id);
  }
  // Counting one requester's tasks costs as much as it has. Nobody has more than all together, whose number is known.
  if (tx.open_tasks() < limits::principal_open_tasks_max())
    return std::nullopt;
  task_filter open;
  open.scope = tx.scope();
  open.requester = tx.actor_name();
  open.statuses = unfinished_statuses();
  if (tx.count<v1::Task>(open) < limits::principal_open_tasks_max())
    return std::nullopt;
  return refuse(v1::Refusal::LIMIT,
                "You have " + std::to_string(limits::principal_open_tasks_max()) + " unfinished tasks here. Finish or cancel some first.");
}

v1::Task insert_task_for(transaction& tx, const v1::TaskSpec& spec, int batch_index, std::string_view harness) {
  auto t = task_from(spec, tx);
  t.set_id(tx.in().new_uuid());
  t.set_harness(std::string(harness));
  t.set_created_at_ms(tx.in().now_ms);
  t.set_updated_at_ms(tx.in().now_ms);
  t.set_changed_at_ms(tx.next_changed_at());
  const auto ready = evaluate(tx, t);
  t.set_status(ready.status);
  if (ready.status == v1::CANCELLED) {
    t.set_result("auto-cancelled: dependency " + ready.failed_dependency + " is already " + ready.failed_how);
    t.set_has_result(true);
  } else if (spec.approval_required()) {
    t.set_status(v1::APPROVAL_REQUIRED);
  }
  tx.event("task.created", t.id(), created_payload(t, batch_index));
  t.set_created_revision(tx.revision());
  tx.put(t);
  return t;
}

v1::Task insert_task(transaction& tx, const v1::TaskSpec& spec, int batch_index) { return insert_task_for(tx, spec, batch_index, {}); }

v1::Reply create_tasks(transaction& tx, const v1::CreateTasks& c) {
  if (c.batch())
    return batch(tx, c).create();
  v1::Reply r;
  for (const auto& spec : c.tasks())
    if (auto refusal = create_one(tx, spec, c, *r.mutable_tasks_created()))
      return *refusal;
  return r;
}

} // namespace swarm::domain
