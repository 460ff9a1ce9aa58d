#include "tests/fault/fault_world.hpp"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include <poll.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"

namespace swarm::testing {

namespace {

using steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds attempt_longest{4'000};
constexpr milliseconds completion_patience{10'000};
constexpr int pause_ms = 15;

milliseconds left(steady::time_point until) { return std::max(std::chrono::duration_cast<milliseconds>(until - steady::now()), milliseconds{0}); }

/// A call that fails at once while the node is away polls no socket, and gRPC's own poller looks every five seconds only: a client
/// that waits for the connection inside its call is back in milliseconds.
void prepare(grpc::ClientContext& context, const node_client& client, steady::time_point until) {
  client.prepare(context, std::min(left(until), attempt_longest));
  context.set_wait_for_ready(true);
}

/// The call itself did not come through, so what it asked may or may not have happened.
bool worth_repeating(const grpc::Status& s) {
  // Not decided, and not remembered: neither a full disk, nor a home that is away, nor that this node is out; an earlier try may have come through.
  for (const auto* undecided : {"free some space", "has not been reached for", "has revoked this node"})
    if (s.error_message().find(undecided) != std::string::npos)
      return true;
  switch (s.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::DEADLINE_EXCEEDED: return true;
    default: return false;
  }
}

std::string digest(v1::Reply r) {
  r.clear_repeated();
  return to_hex(sha256(r.SerializeAsString())).substr(0, 16);
}

template <class Said>
bool says_gone(const Said& r) {
  return r.has_refusal() && r.refusal().code() == v1::Refusal::NOT_REGISTERED;
}

/// A token that belongs to no session any more is found out before the question is looked at.
template <class Said>
Said gone_by(const grpc::Status& s) {
  Said out;
  out.mutable_refusal()->set_code(v1::Refusal::NOT_REGISTERED);
  out.mutable_refusal()->set_text(s.error_message());
  return out;
}

std::string code_of(const v1::Reply& r) {
  return says_gone(r) ? history::told_gone : v1::Refusal::Code_Name(r.refusal().code()) + ": " + r.refusal().text();
}

std::mutex tokens_mutex;
std::vector<std::string> tokens;

std::string make_known_token() {
  std::lock_guard guard{tokens_mutex};
  return tokens.emplace_back(make_token());
}

std::string make_session(const test_node& node, const std::string& name, const std::string& token, const std::string& scope) {
  node_client operator_client{node, {}, scope};
  // A coordinator may dispatch.
  auto cmd = operator_client.registration_of_process(getpid(), "name:" + name + " mode:gateway");
  cmd.mutable_register_session()->set_token_hash(token_hash(token));
  v1::ExecuteRequest request;
  *request.mutable_id() = operator_client.next_id();
  *request.mutable_command() = cmd;
  v1::Reply reply;
  grpc::ClientContext context;
  prepare(context, operator_client, steady::now() + patience);
  auto status = operator_client.coordination().Execute(&context, request, &reply);
  if (!status.ok() || !reply.has_session())
    throw std::runtime_error("no session: " + status.error_message() + reply.ShortDebugString());
  return reply.session().session().id();
}

} // namespace

bool full_run() {
  const auto* v = std::getenv("SWARM_TEST_FULL");
  return v && std::string{v} == "1";
}

unsigned run_seed() {
  if (const auto* v = std::getenv("SWARM_TEST_SEED"))
    return static_cast<unsigned>(std::strtoul(v, nullptr, 10));
  return std::random_device{}();
}

fault_client::fault_client(const test_node& node, history::recorder& h, const std::string& name, const std::string& scope)
  : node_(node), name_(name), scope_(scope), history_(h), token_(make_known_token()), session_(make_session(node, name, token_, scope)),
    client_(node, token_, scope) {}

std::vector<std::string> session_tokens() {
  std::lock_guard guard{tokens_mutex};
  return tokens;
}

// -- calls ---------------------------------------------------------------------------------

void fault_client::speak_through(const test_node* node) {
  if (!node) {
    speaker_ = &client_;
    return;
  }
  auto& known = operators_[node];
  if (!known)
    known = std::make_unique<node_client>(*node, std::string{}, scope_);
  speaker_ = known.get();
}

std::optional<v1::Reply> fault_client::send(node_client& by, const v1::ExecuteRequest& request, milliseconds deadline, bool fresh) {
  auto until = steady::now() + deadline;
  for (bool first = true;; first = false) {
    if (!first)
      ++repeats;
    v1::Reply reply;
    grpc::ClientContext context;
    prepare(context, by, until);
    auto status = by.coordination().Execute(&context, request, &reply);
    if (status.ok() && !reply.has_lock_waiting()) {
      ++answered;
      if (says_gone(reply))
        told_gone_ = true;
      return reply;
    }
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      told_gone_ = true;
      // What was sent before may have come through.
      return fresh && first ? std::optional{gone_by<v1::Reply>(status)} : std::nullopt;
    }
    if (!status.ok() && !worth_repeating(status))
      throw std::runtime_error("Execute: " + std::to_string(status.error_code()) + " " + status.error_message());
    if (left(until).count() <= pause_ms || no_repeats_)
      return std::nullopt;
    poll(nullptr, 0, pause_ms);
  }
}

std::optional<v1::Reply> fault_client::execute(const v1::Command& command, milliseconds deadline) {
  last_.Clear();
  last_speaker_ = speaker_;
  *last_.mutable_id() = speaker_->next_id();
  last_.mutable_id()->set_acked_below(last_.id().seq());
  *last_.mutable_command() = command;
  return last_reply_ = send(*last_speaker_, last_, deadline, true);
}

std::optional<v1::Reply> fault_client::again(milliseconds deadline) { return send(*last_speaker_, last_, deadline, false); }

std::optional<v1::Answer> fault_client::ask(const v1::Query& query, milliseconds deadline) {
  auto until = steady::now() + deadline;
  for (;;) {
    grpc::ClientContext context;
    prepare(context, client_, until);
    v1::Answer answer;
    auto status = client_.coordination().Ask(&context, query, &answer);
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED)
      answer = gone_by<v1::Answer>(status);
    if (says_gone(answer))
      told_gone_ = true;
    auto is_away = status.ok() && answer.refusal().code() == v1::Refusal::UNAVAILABLE;
    if ((status.ok() && !is_away) || says_gone(answer))
      return answer;
    if (!is_away && !worth_repeating(status))
      throw std::runtime_error("Ask: " + std::to_string(status.error_code()) + " " + status.error_message());
    if (left(until).count() <= pause_ms || no_repeats_)
      return std::nullopt;
    poll(nullptr, 0, pause_ms);
  }
}

std::string fault_client::session_now() const {
  std::lock_guard guard{session_mutex_};
  return session_;
}

bool fault_client::renew(milliseconds deadline) {
  // One that is made without our hearing of it holds nothing and is in nobody's way.
  for (auto until = steady::now() + deadline; !no_repeats_ && steady::now() < until; poll(nullptr, 0, pause_ms))
    try {
      token_ = make_known_token();
      auto session = make_session(node_, name_, token_, scope_);
      client_ = node_client{node_, token_, scope_};
      last_reply_.reset();
      open_completions_.clear();
      doubtful_.clear();
      may_be_late_ = false;
      fence_ = claim_fence_ = 0;
      told_gone_ = false;
      std::lock_guard guard{session_mutex_};
      session_ = std::move(session);
      return true;
    } catch (const std::runtime_error&) {
      continue; // the link to the home comes and goes
    }
  return false;
}

void fault_client::may_end() {
  auto session = session_now();
  end_ = history_.invoke("session", session, {"end", session, "", 0});
}

void fault_client::has_ended() {
  if (end_)
    history_.ok(*std::exchange(end_, std::nullopt));
}

// -- operations ----------------------------------------------------------------------------

namespace {

/// What a granted reply shows the history.
struct sight {
  std::string text;
  std::uint64_t number = 0;
};

} // namespace

template <class Seen>
std::optional<v1::Reply> fault_client::recorded(const char* model, const std::string& object, const char* op, const sent& what,
                                                const v1::Command& cmd, milliseconds deadline, Seen seen) {
  auto id = history_.invoke(model, object, {op, session_, what.text, what.number});
  auto r = execute(cmd, deadline);
  if (!r) {
    history_.unknown(id);
    return std::nullopt;
  }
  std::optional<sight> granted;
  if (!r->has_refusal())
    granted = seen(*r);
  if (!granted) {
    history_.fail(id, r->has_refusal() ? code_of(*r) : "not held");
    return std::nullopt;
  }
  history_.ok(id, granted->text, granted->number);
  return r;
}

// -- locks ---------------------------------------------------------------------------------

void fault_client::settle_completions(const std::string& path) {
  std::erase_if(open_completions_, [&](const auto& c) {
    auto settled = send(client_, c.request, completion_patience, false).has_value();
    for (auto id : c.releases)
      if (settled)
        history_.over(id);
    return settled;
  });
  for (auto& c : open_completions_)
    c.releases.push_back(may_release(path));
}

std::size_t fault_client::may_release(const std::string& path) { return history_.invoke("lock", path, {"release", session_, "", 0}); }

bool fault_client::acquire(const std::string& path, std::int64_t wait_ms, milliseconds deadline) {
  settle_completions(path);
  auto cmd = command();
  auto& a = *cmd.mutable_acquire_lock();
  a.set_path(path);
  a.set_exclusive(true);
  a.set_wait_ms(wait_ms);
  fence_path_ = path;
  fence_ = 0;
  auto r = recorded("lock", path, "acquire", {}, cmd, deadline, [](const v1::Reply& x) { return sight{"", x.lock().lock().fence()}; });
  if (r) {
    fence_ = r->lock().lock().fence();
  } else if (!last_reply_) {
    doubtful_.insert(path);
    may_be_late_ = may_be_late_ || speaker_ != &client_;
  }
  return r.has_value();
}

bool fault_client::release(const std::string& path, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_release_lock()->set_path(path);
  auto fence = fence_path_ == path ? std::exchange(fence_, 0) : 0;
  cmd.mutable_release_lock()->set_fence(fence);
  auto released = [](const v1::Reply& x) { return x.lock().released() ? std::optional{sight{"", x.lock().lock().fence()}} : std::nullopt; };
  auto done = recorded("lock", path, "release", {"", fence}, cmd, deadline, released).has_value();
  // Only on the way that the acquire took does an answer show that the acquire comes no more.
  if (last_reply_ && speaker_ == &client_ && !may_be_late_)
    doubtful_.erase(path);
  return done;
}

bool fault_client::give_up(const std::string& path, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_cancel_lock_wait()->set_path(path);
  if (!execute(cmd, deadline))
    return false;
  fence_ = 0;
  release(path, deadline);
  return last_reply_.has_value();
}

// -- tasks ---------------------------------------------------------------------------------

std::string fault_client::create_task(const std::string& key, milliseconds deadline) {
  auto cmd = command();
  auto& t = *cmd.mutable_create_tasks()->add_tasks();
  t.set_type("test");
  t.set_title("task " + key);
  t.set_idempotency_key(key);
  auto made = [](const v1::Reply& x) { return x.tasks_created().tasks(0); };
  auto r = recorded("key", "task/" + key, "request", {}, cmd, deadline, [&](const v1::Reply& x) {
    return sight{made(x).task().id(), made(x).existing()};
  });
  return r ? made(*r).task().id() : "";
}

bool fault_client::claim(const std::string& task, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_claim_task()->set_task_id(task);
  cmd.mutable_claim_task()->set_ignore_unread_messages(true);
  claimed_ = task;
  claim_fence_ = 0;
  auto r = recorded("task", task, "claim", {}, cmd, deadline, [](const v1::Reply& x) { return sight{"", x.task().task().fence()}; });
  if (r)
    claim_fence_ = r->task().task().fence();
  return r.has_value();
}

bool fault_client::complete(const std::string& task, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_complete_task()->set_task_id(task);
  cmd.mutable_complete_task()->set_summary("done");
  auto fence = claimed_ == task ? claim_fence_ : 0;
  cmd.mutable_complete_task()->set_fence(fence);
  std::vector<std::size_t> releases;
  for (const auto& path : doubtful_)
    releases.push_back(may_release(path));
  auto done = recorded("task", task, "complete", {"", fence}, cmd, deadline, [](const v1::Reply&) { return sight{}; }).has_value();
  if (!last_reply_)
    open_completions_.push_back({last_, std::move(releases)});
  else
    for (auto id : releases)
      history_.over(id);
  return done;
}

void fault_client::read_task(const std::string& task, milliseconds deadline) {
  auto q = client_.query();
  q.mutable_get_task()->set_task_id(task);
  auto id = history_.invoke("task", task, {"get", session_, "", 0});
  auto a = ask(q, deadline);
  if (!a)
    return history_.unknown(id);
  if (says_gone(*a))
    return history_.fail(id, history::told_gone);
  if (!a->has_task())
    return history_.ok(id, "lost");
  switch (a->task().status()) {
    case v1::OPEN: return history_.ok(id, "open");
    case v1::CLAIMED:
    case v1::IN_PROGRESS: return history_.ok(id, "claimed");
    case v1::DONE: return history_.ok(id, "done");
    default: return history_.ok(id, v1::TaskStatus_Name(a->task().status()));
  }
}

// -- keys ----------------------------------------------------------------------------------

void fault_client::set(const std::string& key, const std::string& value, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_set_kv()->set_key(key);
  cmd.mutable_set_kv()->set_value(value);
  recorded("kv", key, "set", {value, 0}, cmd, deadline, [](const v1::Reply& x) { return sight{"", x.kv_written().entry().revision()}; });
}

void fault_client::compare_and_set(const std::string& key, const std::string& value, milliseconds deadline) {
  auto expected = seen_key_ == key ? seen_revision_ : 0;
  auto cmd = command();
  auto& s = *cmd.mutable_set_kv();
  s.set_key(key);
  s.set_value(value);
  s.set_compare(true);
  s.set_expected_revision(expected);
  recorded("kv", key, "cas", {value, expected}, cmd, deadline, [](const v1::Reply& x) { return sight{"", x.kv_written().entry().revision()}; });
}

std::string fault_client::read_key(const std::string& key, milliseconds deadline) {
  auto q = client_.query();
  q.mutable_get_kv()->set_key(key);
  auto id = history_.invoke("kv", key, {"get", session_, "", 0});
  auto a = ask(q, deadline);
  if (!a)
    return history_.unknown(id), "";
  if (says_gone(*a))
    return history_.fail(id, history::told_gone), "";
  seen_key_ = key;
  seen_revision_ = a->kv().revision();
  history_.ok(id, a->kv().value(), seen_revision_);
  return a->kv().value();
}

void fault_client::append(const std::string& key, const std::string& item, milliseconds deadline) {
  auto cmd = command();
  cmd.mutable_append_kv()->set_key(key);
  cmd.mutable_append_kv()->set_json("\"" + item + "\"");
  recorded("append", key, "append", {item, 0}, cmd, deadline, [](const v1::Reply& x) { return sight{"", x.kv_written().items()}; });
}

// -- workers -------------------------------------------------------------------------------

std::string fault_client::dispatch(const std::string& key, const std::string& script, milliseconds deadline, unsigned retries, const std::string& on,
                                   const std::string& directory) {
  auto cmd = command();
  if (!directory.empty())
    cmd.mutable_caller()->set_directory(directory);
  auto& d = *cmd.mutable_dispatch();
  d.set_title("run " + key);
  d.set_idempotency_key(key);
  d.set_harness("exec");
  for (const auto* word : {"sh", "-c"})
    d.add_argv(word);
  d.add_argv(script);
  d.set_retries(retries);
  d.set_on(on);
  auto r = recorded("key", "dispatch/" + key, "request", {}, cmd, deadline, [](const v1::Reply& x) {
    return sight{x.dispatch().task().id(), x.dispatch().existing()};
  });
  return r ? r->dispatch().task().id() : "";
}

std::string fault_client::request_spawn(const std::string& key, const std::string& script, milliseconds deadline, const std::string& on) {
  auto cmd = command();
  auto& s = *cmd.mutable_request_spawn();
  s.set_role("worker");
  s.set_key(key);
  s.set_harness("exec");
  s.set_on(on);
  for (const auto* word : {"sh", "-c"})
    s.add_argv(word);
  s.add_argv(script);
  auto r = recorded("key", "spawn/" + key, "request", {}, cmd, deadline, [](const v1::Reply& x) {
    return sight{x.spawn().spawn().id(), x.spawn().existing()};
  });
  return r ? r->spawn().spawn().id() : "";
}

// -- approvals -----------------------------------------------------------------------------

namespace {

/// What the history calls the end of an approval; "open" without one.
std::string end_of(const v1::Approval& a) {
  if (a.decided_at_ms() == 0)
    return "open";
  return !a.withdrawn().empty() ? "withdrawn" : a.decision().empty() ? "expired" : a.decision();
}

} // namespace

std::string fault_client::request_approval(const std::string& subject, const std::vector<std::string>& options, milliseconds timeout,
                                           milliseconds deadline) {
  constexpr auto margin = milliseconds{50}; // the node counts whole milliseconds of another clock
  auto cmd = command();
  auto& a = *cmd.mutable_request_approval();
  a.set_subject(subject);
  a.set_timeout_ms(timeout.count());
  for (const auto& option : options)
    a.add_options(option);
  const auto before = steady::now();
  const auto r = execute(cmd, deadline);
  if (!r || r->has_refusal())
    return {};
  const auto& id = asked_.emplace_back(r->approval().id());
  if (timeout.count() > 0) {
    auto ns = [&](steady::time_point t) { return std::chrono::duration_cast<std::chrono::nanoseconds>((t + timeout).time_since_epoch()).count(); };
    history_.happens("approval", id, {"expire", "", "", 0}, ns(before - margin), ns(steady::now() + margin));
  }
  return id;
}

bool fault_client::decide(const std::string& approval, const std::string& option, const std::string& digest, milliseconds deadline) {
  auto cmd = command();
  auto& d = *cmd.mutable_decide_approval();
  d.set_approval_id(approval);
  d.set_option(option);
  d.set_action_digest(digest);
  return recorded("approval", approval, "decide", {option, 0}, cmd, deadline,
                  [](const v1::Reply& x) {
                    return sight{x.approval().decision(), 0};
                  })
    .has_value();
}

void fault_client::may_be_withdrawn(const std::string& approval) {
  history_.unknown(history_.invoke("approval", approval, {"withdraw", "its node", "", 0}));
}

void fault_client::withdraw(milliseconds deadline) {
  if (asked_.empty())
    return;
  auto cmd = command();
  cmd.mutable_withdraw_approval()->set_approval_id(asked_.back());
  recorded("approval", asked_.back(), "withdraw", {}, cmd, deadline, [](const v1::Reply&) { return sight{}; });
}

void fault_client::read_approvals(std::size_t newest, milliseconds deadline) {
  for (auto i = asked_.size() - std::min(asked_.size(), newest); i < asked_.size(); ++i) {
    auto q = client_.query();
    q.mutable_list_approvals()->set_id(asked_[i]);
    const auto id = history_.invoke("approval", asked_[i], {"get", session_, "", 0});
    const auto a = ask(q, deadline);
    if (!a)
      history_.unknown(id);
    else if (says_gone(*a))
      history_.fail(id, history::told_gone);
    else
      history_.ok(id, a->approvals().approvals_size() == 1 ? end_of(a->approvals().approvals(0)) : "lost");
  }
}

void fault_client::repeat_last(milliseconds deadline) {
  // Of a token that is no longer valid nothing was remembered.
  if (!last_reply_ || says_gone(*last_reply_))
    return;
  auto object = last_.id().client() + "/" + std::to_string(last_.id().seq());
  auto first = history_.invoke("dedup", object, {"send", session_, "", 0});
  history_.ok(first, digest(*last_reply_));
  auto second = history_.invoke("dedup", object, {"send", session_, "", 0});
  if (auto r = again(deadline))
    history_.ok(second, digest(*r));
  else
    history_.unknown(second);
}

// -- looking -------------------------------------------------------------------------------

v1::Answer ask_patiently(node_client& client, const v1::Query& query) {
  for (auto until = steady::now() + patience;;) {
    grpc::ClientContext context;
    prepare(context, client, until);
    v1::Answer answer;
    auto status = client.coordination().Ask(&context, query, &answer);
    auto is_away = status.ok() && answer.refusal().code() == v1::Refusal::UNAVAILABLE;
    if (status.ok() && !is_away)
      return answer;
    if ((!is_away && !worth_repeating(status)) || steady::now() > until)
      throw std::runtime_error("Ask: " + std::to_string(status.error_code()) + " " + status.error_message() + answer.refusal().text());
    poll(nullptr, 0, pause_ms);
  }
}

std::vector<v1::Spawn> all_spawns(node_client& client, bool live_only) {
  std::vector<v1::Spawn> out;
  std::string page;
  do {
    auto q = client.query();
    q.mutable_list_spawns()->set_live_only(live_only);
    q.mutable_list_spawns()->mutable_page()->set_token(page);
    auto a = ask_patiently(client, q);
    out.insert(out.end(), a.spawns().spawns().begin(), a.spawns().spawns().end());
    page = a.spawns().page().token();
  } while (!page.empty());
  return out;
}

std::set<std::string> all_sessions(node_client& client) {
  std::set<std::string> out;
  std::string page;
  do {
    auto q = client.query();
    q.mutable_list_sessions()->mutable_page()->set_token(page);
    auto a = ask_patiently(client, q);
    for (const auto& s : a.sessions().sessions())
      out.insert(s.id());
    page = a.sessions().page().token();
  } while (!page.empty());
  return out;
}

std::optional<v1::Task> task_of(node_client& client, const std::string& id) {
  auto q = client.query();
  q.mutable_get_task()->set_task_id(id);
  auto a = ask_patiently(client, q);
  return a.has_task() ? std::optional{a.task()} : std::nullopt;
}

std::string events_about(node_client& client, const std::string& object) try {
  // Another host may know the same file by another path.
  auto name = object.substr(object.rfind('/') + 1);
  std::string out, page;
  do {
    auto q = client.query();
    q.mutable_list_events()->mutable_page()->set_token(page);
    auto a = ask_patiently(client, q);
    for (const auto& e : a.events().events())
      if (e.subject().find(name) != std::string::npos || e.payload().find(name) != std::string::npos)
        out +=
          "\n  event " + std::to_string(e.revision()) + " at " + std::to_string(e.at_ms()) + ": " + e.type() + " by " + e.actor() + " " + e.payload();
    page = a.events().page().token();
  } while (!page.empty());
  return out;
} catch (const std::exception& e) {
  return std::string{"\n  its events are not known: "} + e.what(); // what is to be explained by them is not lost
}

bool kill_actor(node_client& client, const std::string& path) {
  grpc::ClientContext context;
  prepare(context, client, steady::now() + patience);
  v1::KillActorRequest request;
  request.set_path(path);
  v1::KillActorReply reply;
  auto status = client.node().KillActor(&context, request, &reply);
  if (!status.ok() && status.error_code() != grpc::StatusCode::NOT_FOUND && status.error_code() != grpc::StatusCode::UNAVAILABLE)
    throw std::runtime_error("KillActor: " + std::to_string(status.error_code()) + " " + status.error_message());
  return status.ok();
}

v1::ActorGraph graph_of(node_client& client) {
  grpc::ClientContext context;
  prepare(context, client, steady::now() + patience);
  v1::ActorGraph graph;
  auto status = client.node().Graph(&context, {}, &graph);
  return status.ok() ? graph : v1::ActorGraph{};
}

} // namespace swarm::testing
