#include "gateway/routine/run.hpp"

#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::routines {

namespace {

constexpr std::size_t run_id_bytes = 8;
constexpr std::size_t hash_digits = 16;
constexpr std::uint32_t messages_page = 1'000;
constexpr std::uint32_t mail_page = 200;
constexpr const char* summary_role = "planner";
/// The refusal that a dispatch without a title gets from the node when the caller may dispatch.
constexpr std::string_view nothing_to_dispatch = "dispatch requires a title";

step summary_of(const routine& r) {
  step out;
  out.id = "summary";
  out.title = std::string{utf8_prefix(r.name, limits::id_bytes_max)} + ": summary of the run";
  out.type = "other";
  out.role = summary_role;
  out.description = "All steps of the routine " + r.name +
                    " are done; they are the tasks this one depends on. Read what they gave (get_task) and complete this task with one summary: what "
                    "was done in each step, what was found, and what is left to do.";
  return out;
}

std::string event_task(const v1::Event& e) {
  auto payload = domain::parse_json(e.payload());
  return payload ? domain::text_in(*payload, "task_id") : std::string{};
}

const char* routing_text(v1::DispatchReply::Status status) {
  switch (status) {
    case v1::DispatchReply::DISPATCHED: return "dispatched";
    case v1::DispatchReply::SPAWNING: return "spawning";
    case v1::DispatchReply::SPAWN_IN_FLIGHT: return "spawn_in_flight";
    case v1::DispatchReply::ALREADY_TERMINAL: return "ended";
    default: return "no_worker";
  }
}

std::string refusal_text(const v1::Refusal& r) {
  auto out = r.text();
  for (const auto& d : r.details())
    out += "; task " + std::to_string(d.task_index() + 1) + ": " + d.message();
  return out;
}

} // namespace

run::run(const routine_file& from, values with, std::vector<planned_step> plan, std::string root, wishes w)
  : name_(from.name), full_name_(from.full_name()), digest_(from.digest), values_(std::move(with)), plan_(std::move(plan)),
    summary_(summary_of(from.content.value)), root_(std::move(root)), wishes_(std::move(w)) {}

std::string run::store_key() const {
  std::string parts = full_name_;
  auto add = [&](const std::string& part) { parts.append(1, '\0').append(part); };
  for (const auto& part : {digest_, wishes_.identity, root_, wishes_.parent_task_id})
    add(part);
  for (const auto& [name, value] : values_)
    add(name), add(value);
  return "routine/" + name_ + "/" + to_hex(sha256(parts)).substr(0, hash_digits);
}

std::string harness_for(const step& s, const wishes& w) {
  if (!w.spawn)
    return {};
  for (const auto* named : {&w.harness, &s.harness})
    if (!named->empty())
      return *named;
  return w.harness_else;
}

void require_agent(const std::string& harness) {
  if (!harness.empty() && !domain::is_agent(harness))
    throw refused_run("the harness " + harness + " is no agent: the steps of a routine are work for agents, not commands");
}

std::vector<planned_step> with_harnesses(std::vector<planned_step> plan, const wishes& w,
                                         const std::function<std::string(const std::string&)>& agent_of) {
  auto resolved = [&](const step& s) {
    auto harness = harness_for(s, w);
    if (!harness.empty())
      harness = agent_of(harness);
    require_agent(harness);
    return harness;
  };
  for (auto& p : plan)
    p.what.harness = resolved(p.what);
  resolved(step{}); // the summary's
  return plan;
}

std::string run::harness_of(std::size_t i) const { return harness_for(step_at(i), wishes_); }

// -- making the tasks ------------------------------------------------------------------

v1::TaskSpec run::spec_of(const ports& p, const step& s, const std::string& id) const {
  v1::TaskSpec out;
  out.set_type(s.type.empty() ? default_type : s.type);
  out.set_title(s.title);
  out.set_description(s.description);
  for (const auto& file : s.files)
    out.add_files(p.file ? p.file(file) : file);
  out.set_has_files(!s.files.empty());
  out.set_priority(s.priority);
  out.set_approval_required(s.approval);
  out.set_idempotency_key("routine:" + name_ + ":" + id + ":" + s.id);
  out.set_parent_task_id(wishes_.parent_task_id);
  return out;
}

v1::Command run::batch(const ports& p, const std::string& id) const {
  auto command = p.command;
  auto& body = *command.mutable_create_tasks();
  body.set_batch(true);
  body.set_detect_tracker(true);
  auto reference = [](std::size_t place) { return "$" + std::to_string(place + 1); };
  for (const auto& planned : plan_) {
    auto& spec = *body.add_tasks() = spec_of(p, planned.what, id);
    for (auto need : planned.needs)
      spec.add_depends_on(reference(need));
  }
  // No step can have this key, because the ids of steps are plain names.
  auto& last = *body.add_tasks() = spec_of(p, summary_, id);
  last.set_idempotency_key("routine:" + name_ + ":" + id + ":*");
  last.set_assignee(command.actor());
  for (std::size_t i = 0; i < steps(); ++i)
    last.add_depends_on(reference(i));
  if (body.ByteSizeLong() + limits::routine_envelope_bytes_max > limits::command_encoded_bytes_max)
    throw refused_run("the steps of " + name_ + " are too large to be made together; shorten their descriptions");
  return command;
}

/// Makes the tasks of the run, or finds them. False when all of them existed before and every step has ended: that run is over.
bool run::make(const ports& p, const std::string& id) {
  auto reply = p.execute(batch(p, id), {});
  if (reply.has_refusal())
    throw refused_run(refusal_text(reply.refusal()));
  const auto& created = reply.tasks_created();
  if (created.tasks_size() != static_cast<int>(steps() + 1))
    throw refused_run("the node made another number of tasks than was asked for");
  id_ = id;
  revision_ = reply.revision();
  states_.clear();
  for (const auto& c : created.tasks()) {
    state s;
    s.task = c.task();
    s.existing = c.existing();
    states_.push_back(std::move(s));
  }
  existing_ = std::all_of(states_.begin(), states_.end(), [](const auto& s) { return s.existing; });
  return !existing_ || !over();
}

void run::find_or_begin(const ports& p) {
  for (int attempt = 0; attempt < limits::routine_begin_attempts_max; ++attempt) {
    auto query = p.query;
    query.mutable_get_kv()->set_key(store_key());
    auto answer = p.ask(query);
    if (answer.has_refusal() && answer.refusal().code() != v1::Refusal::NOT_FOUND)
      throw refused_run(refusal_text(answer.refusal()));
    // Any session of the scope can write this key, so its value is checked.
    const auto& last = answer.kv().value();
    if (!wishes_.fresh && last.size() == run_id_bytes * 2 && is_plain_name(last)) {
      if (make(p, last))
        return;
      drop_summary(p);
    }
    auto id = to_hex(random_bytes(run_id_bytes));
    auto command = p.command;
    auto& set = *command.mutable_set_kv();
    set.set_key(store_key());
    set.set_value(id);
    set.set_ttl_ms(limits::kv_ttl_max().count());
    set.set_compare(true);
    set.set_expected_revision(answer.kv().revision());
    auto reply = p.execute(command, {});
    if (!reply.has_refusal()) {
      make(p, id);
      return;
    }
    // In a conflict another caller has begun a run meanwhile; the next attempt finds that run.
    if (reply.refusal().code() != v1::Refusal::CONFLICT)
      throw refused_run(refusal_text(reply.refusal()));
  }
  throw refused_run("others keep beginning runs of " + name_ + "; try again");
}

/// Cancels the summary task of a run that is over, if nobody has taken it.
void run::drop_summary(const ports& p) {
  const auto& task = states_.back().task;
  if (domain::is_terminal(task.status()) || task.status() == v1::IN_PROGRESS)
    return;
  auto command = p.command;
  auto& body = *command.mutable_update_task();
  body.set_task_id(task.id());
  body.set_status(v1::CANCELLED);
  body.set_result("the routine was run again");
  body.set_has_result(true);
  body.set_quiet(true);
  // A refusal is ignored: somebody else has just taken the task.
  if (!p.execute(command, {}).has_refusal())
    dropped_summary_ = task.id();
}

/// Finds out before any task is made whether the caller may start workers: it sends a dispatch without a title, which the node always refuses,
/// and looks at the reason.
void run::check_rights(const ports& p) const {
  std::set<std::string> asked;
  for (std::size_t i = 0; i <= steps(); ++i) {
    auto harness = harness_of(i);
    if (!asked.insert(harness).second)
      continue;
    auto command = p.command;
    auto& body = *command.mutable_dispatch();
    body.set_title(" ");
    body.set_directory(root_);
    environment_list environment;
    if (!harness.empty()) {
      auto worker = p.worker_of(harness);
      require_agent(worker.harness);
      body.set_harness(worker.harness);
      environment = std::move(worker.environment);
    }
    auto reply = p.execute(command, environment);
    if (reply.has_refusal() && reply.refusal().text() != nothing_to_dispatch)
      throw refused_run(refusal_text(reply.refusal()));
  }
}

void run::start(const ports& p) {
  check_rights(p);
  find_or_begin(p);
  for (std::size_t i = 0; i < states_.size(); ++i)
    route(p, i);
}

// -- routing ---------------------------------------------------------------------------

v1::Command run::dispatch_of(const ports& p, std::size_t i, const std::string& harness) const {
  const auto& s = step_at(i);
  const auto& t = states_[i].task;
  auto command = p.command;
  auto& body = *command.mutable_dispatch();
  body.set_title(t.title());
  body.set_message(s.description);
  body.set_description(s.description);
  body.set_type(t.type());
  body.set_role(s.role);
  *body.mutable_files() = t.files();
  body.set_has_files(t.has_files());
  body.set_priority(t.priority());
  // The key makes dispatch find the task of this step, instead of making another one.
  body.set_idempotency_key(t.idempotency_key());
  body.set_directory(root_);
  body.set_harness(harness);
  body.set_no_spawn(!wishes_.spawn);
  // A task that waits must not be given to a live worker now: that one would be told that it is ready, and may be gone when it is. With
  // force_spawn the node finds or starts a worker when the task opens.
  body.set_force_spawn(wishes_.force_spawn || states_[i].waits());
  return command;
}

/// Whether this caller has already sent a message about the task to a worker, so that a second dispatch would only repeat it. Only messages to
/// live sessions are found, because those to a session that has left are gone.
bool run::was_told(const ports& p, const std::string& task_id) {
  if (!told_) {
    told_.emplace();
    auto query = p.query;
    auto& list = *query.mutable_list_messages();
    list.set_from(p.command.actor().empty() ? "operator" : p.command.actor());
    list.set_limit(messages_page);
    constexpr std::string_view mark = "[task:";
    const auto answer = p.ask(query);
    for (const auto& m : answer.messages().messages())
      if (auto end = m.content().find(']'); m.content().starts_with(mark) && end != std::string::npos)
        told_->insert(m.content().substr(mark.size(), end - mark.size()));
  }
  return told_->count(task_id) > 0;
}

void run::route(const ports& p, std::size_t i) {
  auto& s = states_[i];
  s.routed = true;
  s.error.clear();
  if (domain::is_terminal(s.task.status())) {
    s.routing = "ended";
    return;
  }
  if (!s.task.assignee().empty()) {
    s.routing = "assigned";
    s.recipient = s.task.assignee();
    return;
  }
  auto harness = harness_of(i);
  if (i == steps() && wishes_.follows) {
    s.routing = "waiting";
    return;
  }
  environment_list environment;
  if (!harness.empty()) {
    auto worker = p.worker_of(harness);
    harness = worker.harness;
    environment = std::move(worker.environment);
  }
  if (!wishes_.force_spawn && s.existing && s.open() && was_told(p, s.task.id())) {
    s.routing = "told";
    return;
  }
  auto reply = p.execute(dispatch_of(p, i, harness), environment);
  if (reply.has_refusal()) {
    s.routing = "failed";
    s.error = refusal_text(reply.refusal());
    s.routed = false;
    return;
  }
  s.task = reply.dispatch().task();
  s.routing = s.waits() && harness.empty() ? "waiting" : routing_text(reply.dispatch().status());
  s.recipient = reply.dispatch().recipient();
}

// -- following -------------------------------------------------------------------------

std::uint64_t run::look_at(const ports& p, state& s) const {
  auto query = p.query;
  query.mutable_get_task()->set_task_id(s.task.id());
  auto answer = p.ask(query);
  if (!answer.has_refusal()) {
    s.task = answer.task();
  } else if (answer.refusal().code() == v1::Refusal::NOT_FOUND) {
    // The node removes only tasks that ended long ago.
    s.task.set_status(v1::CANCELLED);
    s.task.set_result("the task is not kept any more");
    s.task.set_has_result(true);
  }
  return answer.revision();
}

std::string run::step_of(const v1::Event& e) const {
  auto place = [&](const std::string& id) {
    return static_cast<std::size_t>(std::find_if(states_.begin(), states_.end(), [&](const auto& s) { return s.task.id() == id; }) - states_.begin());
  };
  auto i = place(e.subject());
  if (i >= states_.size())
    i = place(event_task(e));
  return i < states_.size() ? step_at(i).id : std::string{};
}

void run::note(const ports& p, const v1::Event& e) {
  const auto& subject = e.subject();
  auto task = event_task(e);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    auto& s = states_[i];
    if ((s.task.id() != subject && s.task.id() != task) || domain::is_terminal(s.task.status()))
      continue;
    // The task itself is read, because the event may be about an earlier attempt.
    look_at(p, s);
    if (wishes_.follows && !s.routed && s.open())
      route(p, i);
  }
}

void run::refresh(const ports& p) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    auto& s = states_[i];
    if (domain::is_terminal(s.task.status()))
      continue;
    auto at = look_at(p, s);
    // Changes made while the other steps are read have higher revisions than the first answer, so that one is kept.
    seen = seen == 0 ? at : seen;
    if (wishes_.follows && !s.routed && s.open())
      route(p, i);
  }
  revision_ = std::max(revision_, seen);
}

bool run::over() const {
  return states_.size() == steps() + 1 &&
         std::all_of(states_.begin(), states_.end() - 1, [](const auto& s) { return domain::is_terminal(s.task.status()); });
}

bool run::succeeded() const {
  return states_.size() == steps() + 1 && std::all_of(states_.begin(), states_.end() - 1, [](const auto& s) { return s.task.status() == v1::DONE; });
}

// -- the summary -----------------------------------------------------------------------

void run::conclude(const ports& p) {
  if (!wishes_.follows || !over())
    return;
  end_summary(p);
  if (!p.command.actor().empty())
    take_mail(p);
}

/// Takes the messages about the steps out of the caller's mailbox: the report holds them.
void run::take_mail(const ports& p) {
  for (const auto& s : states_) {
    auto command = p.command;
    command.mutable_consume_messages()->set_task_prefix(s.task.id());
    command.mutable_consume_messages()->set_limit(mail_page);
    for (bool more = true; more;) {
      auto reply = p.execute(command, {});
      for (const auto& m : reply.messages().messages())
        mail_.emplace_back(m.sender(), m.content());
      more = reply.messages().messages_size() == static_cast<int>(mail_page);
    }
  }
}

void run::end_summary(const ports& p) {
  auto& last = states_.back();
  look_at(p, last);
  if (!succeeded() || domain::is_terminal(last.task.status()) || last.task.status() == v1::IN_PROGRESS)
    return;
  auto claim = p.command;
  claim.mutable_claim_task()->set_task_id(last.task.id());
  claim.mutable_claim_task()->set_ignore_unread_messages(true);
  auto claimed = p.execute(claim, {});
  if (!claimed.has_refusal()) {
    write_summary(p, p.command.actor());
  } else if (claimed.refusal().code() == v1::Refusal::NOT_REGISTERED) {
    // Only a session can end a task, and a person has none: one is registered for this.
    auto command = p.command;
    auto& body = *command.mutable_register_session();
    body.set_directory(root_);
    body.set_root(root_);
    body.set_label((wishes_.identity.empty() ? "" : wishes_.identity + " ") + "role:" + std::string{summary_role} + " name:routine");
    body.set_lease_ms(limits::routine_session_lease().count());
    auto registered = p.execute(command, {});
    if (registered.has_refusal())
      return;
    const auto session = registered.session().session().id();
    claim.set_actor(session);
    if (!p.execute(claim, {}).has_refusal())
      write_summary(p, session);
    auto leave = p.command;
    leave.set_actor(session);
    leave.mutable_deregister_session();
    p.execute(leave, {});
  }
  look_at(p, last);
}

void run::write_summary(const ports& p, const std::string& session) const {
  auto command = p.command;
  command.set_actor(session);
  auto& body = *command.mutable_update_task();
  body.set_task_id(states_.back().task.id());
  body.set_status(v1::DONE);
  body.set_result(outcome());
  body.set_has_result(true);
  body.set_quiet(true);
  // A refusal is ignored: the task stays, and anybody can take it.
  p.execute(command, {});
}

} // namespace swarm::routines
