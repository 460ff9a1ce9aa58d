#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <google/protobuf/text_format.h>

#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

v1::DispatchReply run_command(task_world& w, std::uint32_t retries = 0, const std::string& harness = "exec") {
  v1::Command c;
  auto& d = *c.mutable_dispatch();
  d.set_title("count");
  d.set_harness(harness);
  d.add_argv("true");
  d.set_retries(retries);
  const auto r = w.op(c);
  REQUIRE_MESSAGE(r.dispatch().status() == v1::DispatchReply::SPAWNING, r.refusal().text());
  return r.dispatch();
}

v1::Command starting(const std::string& id, std::uint32_t attempt) {
  v1::Command c;
  auto& s = *c.mutable_spawn_starting();
  s.set_spawn_id(id);
  s.set_attempt(attempt);
  s.set_pid(100 + attempt);
  s.set_pid_start(7);
  s.set_token_hash(std::string(32, static_cast<char>('a' + attempt)));
  return c;
}
v1::Command running(const std::string& id, std::uint32_t attempt) {
  v1::Command c;
  c.mutable_spawn_running()->set_spawn_id(id);
  c.mutable_spawn_running()->set_attempt(attempt);
  return c;
}
v1::Command ended(const std::string& id, std::uint32_t attempt, int status, const std::string& reason = {}) {
  v1::Command c;
  auto& e = *c.mutable_spawn_ended();
  e.set_spawn_id(id);
  e.set_attempt(attempt);
  e.set_exit_status(status);
  e.set_duration_ms(12);
  e.set_output_tail("42\r\n");
  e.set_reason(reason);
  return c;
}
v1::Command request(const std::string& key, bool restart = false) {
  v1::Command c;
  auto& r = *c.mutable_request_spawn();
  r.set_role("helper");
  r.set_key(key);
  r.set_harness("exec");
  r.add_argv("true");
  r.set_restart(restart);
  return c;
}

/// A row in which no field is empty.
v1::Spawn full_row() {
  v1::Spawn s;
  const auto& r = *s.GetReflection();
  using field = google::protobuf::FieldDescriptor;
  for (int i = 0; i < s.GetDescriptor()->field_count(); ++i) {
    const auto* f = s.GetDescriptor()->field(i);
    switch (f->cpp_type()) {
      case field::CPPTYPE_STRING: f->is_repeated() ? r.AddString(&s, f, f->name()) : r.SetString(&s, f, f->name()); break;
      case field::CPPTYPE_MESSAGE: f->is_repeated() ? r.AddMessage(&s, f) : r.MutableMessage(&s, f); break;
      case field::CPPTYPE_BOOL: r.SetBool(&s, f, true); break;
      case field::CPPTYPE_UINT32: r.SetUInt32(&s, f, static_cast<std::uint32_t>(f->number())); break;
      case field::CPPTYPE_UINT64: r.SetUInt64(&s, f, static_cast<std::uint64_t>(f->number())); break;
      case field::CPPTYPE_INT32: r.SetInt32(&s, f, f->number()); break;
      case field::CPPTYPE_INT64: r.SetInt64(&s, f, f->number()); break;
      case field::CPPTYPE_ENUM: r.SetEnumValue(&s, f, v1::Spawn::ENDED); break;
      default: FAIL("no value for " << f->name());
    }
  }
  return s;
}

/// The values of one field, as text.
std::vector<std::string> values_of(const google::protobuf::Message& m, const google::protobuf::FieldDescriptor& f) {
  std::vector<std::string> out;
  const auto n = f.is_repeated() ? m.GetReflection()->FieldSize(m, &f) : 1;
  for (int i = 0; i < n; ++i)
    google::protobuf::TextFormat::PrintFieldValueToString(m, &f, f.is_repeated() ? i : -1, &out.emplace_back());
  return out;
}

} // namespace

TEST_CASE("another worker like this one is asked for with all that both have, but the node") {
  auto row = full_row();
  row.clear_conversation_id();
  const auto again = domain::dispatch_like(row, 0);
  std::map<std::string, std::string> not_copied{{"node_id", "the server chooses a node for the new worker"},
                                                {"placement", "the server says why it chose that node"}};
  int copied = 0;
  for (int i = 0; i < again.GetDescriptor()->field_count(); ++i) {
    const auto& f = *again.GetDescriptor()->field(i);
    const auto* same = row.GetDescriptor()->FindFieldByName(f.name());
    CAPTURE(f.name());
    if (same && not_copied.erase(f.name()) == 0) {
      CHECK(values_of(again, f) == values_of(row, *same));
      ++copied;
    } else if (f.name() != "retries" && f.name() != "on_terminal") {
      CHECK(values_of(again, f) == values_of(v1::Dispatch{}, f));
    }
  }
  CHECK(copied >= 12);
  CHECK(not_copied.empty());
  CHECK(again.retries() == row.retries_left());
  CHECK(again.on_terminal());
}

TEST_CASE("another worker like a conversation is a conversation") {
  const auto again = domain::dispatch_like(full_row(), 0);
  CHECK(again.structured());
  CHECK_FALSE(again.on_terminal());
  CHECK_FALSE(again.pipes()); // which is how its driver runs, and no wish
}

TEST_CASE("another worker has the label of the first, with a launch token of its own") {
  task_world w;
  v1::Command c;
  c.mutable_dispatch()->set_title("count");
  c.mutable_dispatch()->set_harness("exec");
  c.mutable_dispatch()->add_argv("true");
  c.mutable_dispatch()->set_name("Tess");
  c.mutable_dispatch()->set_label("identity:work team:red");
  const auto first = w.op(c).dispatch().spawn();
  *c.mutable_dispatch() = domain::dispatch_like(first, 0);
  c.mutable_dispatch()->set_title("count");
  c.mutable_dispatch()->set_fresh(true);
  const auto second = w.op(c).dispatch().spawn();
  auto label = first.label();
  REQUIRE(label.find("launch:" + first.key()) != std::string::npos);
  label.replace(label.find(first.key()), first.key().size(), second.key());
  CHECK(first.key() != second.key());
  auto sorted = [](const std::string& text) {
    std::istringstream in{text};
    return std::set<std::string>{std::istream_iterator<std::string>{in}, {}};
  };
  CHECK(sorted(second.label()) == sorted(label));
  CHECK(second.label().size() == label.size());
}

TEST_CASE("a worker on pipes has no terminal, and an agent is refused one without") {
  task_world w;
  auto cmd = request("piped");
  cmd.mutable_request_spawn()->set_pipes(true);
  const auto id = w.op(cmd).spawn().spawn().id();
  w.op(starting(id, 1));
  CHECK(w.spawn(id).pipes());
  CHECK(w.spawn(id).pty_id().empty());
  cmd.mutable_request_spawn()->set_key("agent");
  cmd.mutable_request_spawn()->set_harness("codex");
  CHECK(w.op(cmd).refusal().text() == "The harness codex needs a terminal. Leave --pipes out, or give a command to the harness exec.");
  v1::Command dispatch;
  dispatch.mutable_dispatch()->set_title("count");
  dispatch.mutable_dispatch()->set_harness("claude");
  dispatch.mutable_dispatch()->set_pipes(true);
  CHECK(w.op(dispatch).refusal().code() == v1::Refusal::INVALID);
}

TEST_CASE("a command task runs from request to result") {
  task_world w;
  const auto d = run_command(w);
  const auto id = d.spawn().id();
  REQUIRE_FALSE(w.node(starting(id, 1)).has_refusal());
  const auto session = w.rows.row<v1::Session>(d.spawn().session_id()).value();
  CHECK(session.adopted());
  CHECK(session.presence() == v1::Session::PROCESS);
  CHECK(session.pid() == 101);
  CHECK(session.lease_until_ms() == 0);
  CHECK(w.rows.all<v1::Credential>().size() == 1);
  REQUIRE_FALSE(w.node(running(id, 1)).has_refusal());
  CHECK(w.task(d.task().id()).status() == v1::IN_PROGRESS);
  CHECK(w.task(d.task().id()).assignee() == session.id());
  REQUIRE_FALSE(w.node(ended(id, 1, 0)).has_refusal());
  CHECK(w.task(d.task().id()).status() == v1::DONE);
  CHECK(w.task(d.task().id()).result() == R"({"exit_status":0,"duration_ms":12,"output_tail":"42\n"})");
  CHECK(w.spawn(id).status() == v1::Spawn::ENDED);
  CHECK_FALSE(w.rows.row<v1::Session>(session.id()));
  CHECK(w.rows.all<v1::Credential>().empty());
}

TEST_CASE("a command that exits non-zero or never runs has failed") {
  task_world w;
  const auto d = run_command(w);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  w.node(ended(d.spawn().id(), 1, 3));
  CHECK(w.task(d.task().id()).status() == v1::FAILED);
  task_world other;
  const auto never = run_command(other);
  auto c = ended(never.spawn().id(), 1, 0, "spawn_failed: no such file");
  c.mutable_spawn_ended()->set_never_ran(true);
  other.node(c);
  CHECK(other.spawn(never.spawn().id()).status() == v1::Spawn::FAILED);
  CHECK(other.task(never.task().id()).status() == v1::FAILED);
  CHECK(other.task(never.task().id()).result().find("no such file") != std::string::npos);
}

TEST_CASE("a command that was ended has failed, whatever its exit status is, and does not run again") {
  task_world w;
  const auto d = run_command(w, 1);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  w.node(ended(d.spawn().id(), 1, 0, "killed"));
  CHECK(w.task(d.task().id()).status() == v1::FAILED);
  CHECK(w.spawn(d.spawn().id()).status() == v1::Spawn::ENDED);
  CHECK(w.spawn(d.spawn().id()).reason() == "killed");
  CHECK(w.task(d.task().id()).result().find(R"("exit_status":0)") != std::string::npos);
}

TEST_CASE("a second process can never be committed for one attempt") {
  task_world w;
  const auto id = run_command(w, 1).spawn().id();
  REQUIRE_FALSE(w.node(starting(id, 1)).has_refusal());
  CHECK(w.node(starting(id, 1)).refusal().code() == v1::Refusal::STALE);
  CHECK(w.node(starting(id, 3)).refusal().code() == v1::Refusal::STALE);
  w.node(running(id, 1));
  CHECK(w.node(starting(id, 1)).refusal().code() == v1::Refusal::STALE);
  CHECK(w.node(running(id, 2)).refusal().code() == v1::Refusal::STALE);
  w.node(ended(id, 1, 0));
  CHECK(w.node(starting(id, 2)).refusal().code() == v1::Refusal::STALE);
  CHECK(w.op(starting(id, 2)).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("a command lost with its host runs again while retries are left, as a new session and attempt") {
  task_world w;
  const auto d = run_command(w, 1);
  const auto id = d.spawn().id();
  w.node(starting(id, 1));
  w.node(running(id, 1));
  const auto fence = w.task(d.task().id()).fence();
  w.node(ended(id, 1, 0, "node_restarted"));
  CHECK(w.events("spawn.requested") == 1);
  auto s = w.spawn(id);
  CHECK(s.status() == v1::Spawn::REQUESTED);
  CHECK(s.attempt() == 2);
  CHECK(s.retries_left() == 0);
  CHECK(s.session_id() != d.spawn().session_id());
  CHECK(w.task(d.task().id()).status() == v1::OPEN);
  CHECK(w.node(ended(id, 1, 0)).refusal().code() == v1::Refusal::STALE);
  w.node(starting(id, 2));
  w.node(running(id, 2));
  CHECK(w.task(d.task().id()).fence() > fence);
  CHECK(w.task(d.task().id()).attempt() == 2);
  w.node(ended(id, 2, 0, "node_restarted"));
  CHECK(w.task(d.task().id()).status() == v1::FAILED);
  CHECK(w.task(d.task().id()).result().find(R"("duration_ms":12)") != std::string::npos);
  CHECK(w.task(d.task().id()).result().find("node_restarted") != std::string::npos);
}

TEST_CASE("how long a command ran is left out when nobody knows it") {
  task_world w;
  const auto d = run_command(w);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  auto lost = ended(d.spawn().id(), 1, 0, "node_restarted");
  lost.mutable_spawn_ended()->set_duration_ms(0);
  w.node(lost);
  CHECK(w.task(d.task().id()).status() == v1::FAILED);
  CHECK(w.task(d.task().id()).result().find("duration_ms") == std::string::npos);
}

TEST_CASE("a command whose host was lost says so, and runs again while retries are left") {
  task_world w;
  const auto d = run_command(w, 1);
  const auto id = d.spawn().id();
  for (std::uint32_t attempt : {1u, 2u}) {
    w.node(starting(id, attempt));
    w.node(running(id, attempt));
    w.node(ended(id, attempt, 0, "host_lost"));
    CHECK(w.spawn(id).status() == (attempt == 1 ? v1::Spawn::REQUESTED : v1::Spawn::ENDED));
    CHECK(w.spawn(id).reason() == "host_lost");
  }
  CHECK(w.task(d.task().id()).status() == v1::FAILED);
  CHECK(w.task(d.task().id()).result().find("exit_status") == std::string::npos);
}

TEST_CASE("a command that ended with its host says how that went, and programs read the same word") {
  task_world w;
  const auto d = run_command(w);
  const auto id = d.spawn().id();
  w.node(starting(id, 1));
  w.node(running(id, 1));
  w.node(ended(id, 1, 0, "host_lost: host b was revoked"));
  CHECK(w.spawn(id).reason() == "host_lost");
  const auto result = w.task(d.task().id()).result();
  CHECK_MESSAGE(result.find(R"("reason":"host_lost","detail":"host b was revoked")") != std::string::npos, result);
  CHECK(result.find("exit_status") == std::string::npos);
}

TEST_CASE("a worker that never began is given to another node, without a retry, by the home alone") {
  for (bool by_home : {true, false}) {
    task_world w;
    const auto d = run_command(w);
    const auto id = d.spawn().id();
    auto c = ended(id, 1, 0, "node_restarted");
    c.mutable_spawn_ended()->set_never_ran(true);
    c.mutable_spawn_ended()->set_next_node_id("node-2");
    c.mutable_spawn_ended()->set_next_placement("node-2: the only node that fits");
    if (!by_home)
      c.mutable_principal()->set_node("node-1"); // where it was to begin
    w.node(c);
    const auto s = w.spawn(id);
    CHECK(s.status() == (by_home ? v1::Spawn::REQUESTED : v1::Spawn::FAILED));
    CHECK(s.attempt() == (by_home ? 2 : 1));
    CHECK(s.retries_left() == 0);
    CHECK((s.node_id() == "node-2") == by_home);
    CHECK(w.task(d.task().id()).status() == (by_home ? v1::OPEN : v1::FAILED));
  }
}

TEST_CASE("what became of a program whose host has left is not known") {
  task_world w;
  const auto d = run_command(w, 1);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  w.node(ended(d.spawn().id(), 1, 0, "spawn_failed: its host has left the cluster; none fits"));
  const auto task = w.task(d.task().id());
  CHECK(task.status() == v1::FAILED);
  CHECK(task.result().find("exit_status") == std::string::npos);
  CHECK(task.result().find("has left the cluster") != std::string::npos);
}

TEST_CASE("a node that starts the next attempt at once gets it without reporting the loss first") {
  task_world w;
  const auto d = run_command(w, 1);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  REQUIRE_FALSE(w.node(starting(d.spawn().id(), 2)).has_refusal());
  CHECK(w.spawn(d.spawn().id()).pid() == 102);
  CHECK(w.rows.all<v1::Credential>().size() == 1);
  CHECK(w.task(d.task().id()).status() == v1::OPEN);
}

TEST_CASE("the end of an attempt is reported once") {
  task_world w;
  const auto d = run_command(w);
  w.node(starting(d.spawn().id(), 1));
  w.node(running(d.spawn().id(), 1));
  w.node(ended(d.spawn().id(), 1, 0));
  const auto again = w.node(ended(d.spawn().id(), 1, 9));
  CHECK(again.spawn().existing());
  CHECK(w.last.events_size() == 0);
  CHECK(w.spawn(d.spawn().id()).exit_status() == 0);
}

TEST_CASE("a process whose task was cancelled is not released from the gate") {
  task_world w;
  const auto d = run_command(w);
  w.node(starting(d.spawn().id(), 1));
  w.op(update(d.task().id(), v1::CANCELLED));
  CHECK(w.node(running(d.spawn().id(), 1)).refusal().code() == v1::Refusal::STALE);
}

TEST_CASE("an agent's process gets the task reserved and its end returns it to open") {
  task_world w;
  const auto d = run_command(w, 0, "claude");
  CHECK(d.task().harness().empty());
  const auto id = d.spawn().id();
  w.node(starting(id, 1));
  w.node(running(id, 1));
  CHECK(w.task(d.task().id()).status() == v1::CLAIMED);
  CHECK(w.task(d.task().id()).assignee() == d.spawn().session_id());
  CHECK(w.mail(d.spawn().session_id()).size() == 1);
  REQUIRE_FALSE(w.as(d.spawn().session_id(), claim(d.task().id(), true)).has_refusal());
  w.node(ended(id, 1, 1));
  CHECK(w.task(d.task().id()).status() == v1::OPEN);
  CHECK(w.task(d.task().id()).assignee().empty());
}

TEST_CASE("request_spawn returns the same spawn while it lives and for a day after, unless a restart is asked for") {
  task_world w;
  const auto first = w.op(request("k")).spawn();
  CHECK_FALSE(first.existing());
  const auto id = first.spawn().id();
  CHECK(w.op(request("k", true)).spawn().spawn().id() == id);
  CHECK(w.op(request("other")).spawn().spawn().id() != id);
  w.node(starting(id, 1));
  w.node(running(id, 1));
  w.node(ended(id, 1, 0));
  w.in.now_ms += limits::spawn_key_retention().count() - 1;
  CHECK(w.op(request("k")).spawn().existing());
  w.in.now_ms += 1;
  CHECK_FALSE(w.op(request("k")).spawn().existing());
}

TEST_CASE("an ended spawn restarts when asked to") {
  task_world w;
  const auto id = w.op(request("k")).spawn().spawn().id();
  w.node(starting(id, 1));
  w.node(ended(id, 1, 0));
  CHECK(w.op(request("k")).spawn().spawn().id() == id);
  CHECK(w.op(request("k", true)).spawn().spawn().id() != id);
  const auto plain = w.join("identity:x");
  CHECK(w.as(plain, request("z")).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("a worker has the id and the seal of a member's order in all its attempts, also when its task waits for another one") {
  task_world w;
  v1::Command first;
  first.mutable_create_tasks()->add_tasks()->set_title("first");
  first.mutable_create_tasks()->mutable_tasks(0)->set_type("implement");
  const auto before = w.op(first).tasks_created().tasks(0).task().id();
  const std::string id = "00000000-0000-4000-8000-00000000000a", seal(32, 's');
  v1::Command c;
  auto& d = *c.mutable_dispatch();
  d.set_title("count");
  d.set_harness("exec");
  d.add_argv("true");
  d.set_retries(1);
  d.mutable_order()->set_spawn_id(id);
  d.mutable_order()->set_seal(seal);
  SUBCASE("at once") {}
  SUBCASE("later") { d.add_depends_on(before); }
  const auto waits = d.depends_on_size() > 0;
  CHECK(w.op(c).dispatch().spawn().id() == id);
  if (waits) {
    const auto other = w.join("other");
    REQUIRE_FALSE(w.as(other, claim(before)).has_refusal());
    REQUIRE_FALSE(w.as(other, update(before, v1::DONE)).has_refusal());
  }
  w.node(starting(id, 1));
  w.node(ended(id, 1, 0, "node_restarted"));
  const auto row = w.rows.row<v1::Spawn>(domain::key(id));
  CHECK(row->attempt() == 2);
  CHECK(row->seal() == seal);
}

TEST_CASE("an order makes one worker, and names it by a UUID") {
  task_world w;
  auto asked = request("k");
  auto& order = *asked.mutable_request_spawn()->mutable_order();
  order.set_spawn_id("../k");
  CHECK(w.op(asked).refusal().code() == v1::Refusal::INVALID);
  order.set_spawn_id("00000000-0000-4000-8000-00000000000b");
  CHECK(w.op(asked).spawn().spawn().id() == order.spawn_id());
  asked.mutable_request_spawn()->set_key("other");
  CHECK(w.op(asked).refusal().code() == v1::Refusal::CONFLICT);
  asked.mutable_request_spawn()->clear_order();
  CHECK(w.op(asked).spawn().spawn().id() != "00000000-0000-4000-8000-00000000000b");
}
