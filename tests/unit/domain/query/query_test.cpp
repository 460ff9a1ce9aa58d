#include <limits>
#include <set>

#include "actors/domain/query/rules.hpp"
#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

v1::Query find(const std::string& who) {
  v1::Query q;
  q.mutable_find_session()->set_who(who);
  return q;
}

/// As a session's token or place in the process tree makes it: without a viewer.
v1::Answer ask_as(const task_world& w, const std::string& session, v1::Query q, const std::string& in_scope = scope) {
  q.set_scope(in_scope);
  q.mutable_principal()->set_kind(v1::Principal::SESSION);
  q.mutable_principal()->set_id(session);
  return domain::answer(q, w.rows, w.in);
}

} // namespace

TEST_CASE("pages of tasks follow each other without gap or repetition, in list order") {
  task_world w;
  const auto a = w.join("identity:x");
  for (int i = 0; i < 25; ++i) {
    auto s = spec("t" + std::to_string(i));
    s.set_priority(i % 3);
    w.as(a, create(s));
  }
  for (const bool by_creation : {false, true}) {
    v1::Query q;
    q.mutable_list_tasks()->set_by_creation(by_creation);
    q.mutable_list_tasks()->mutable_page()->set_size(7);
    std::set<std::string> seen;
    std::int64_t priority = 9;
    int pages = 0;
    do {
      const auto list = w.ask(q).tasks();
      CHECK(list.tasks_size() <= 7);
      for (const auto& t : list.tasks()) {
        CHECK(seen.insert(t.id()).second);
        if (!by_creation)
          CHECK(t.priority() <= priority);
        priority = t.priority();
      }
      q.mutable_list_tasks()->mutable_page()->set_token(list.page().token());
      ++pages;
    } while (!q.list_tasks().page().token().empty());
    CHECK(seen.size() == 25);
    CHECK(pages == 4);
  }
}

TEST_CASE("a page ends when it has grown large") {
  task_world w;
  const auto a = w.join("identity:x");
  auto s = spec("big");
  s.set_description(std::string(limits::description_bytes_max(), 'x'));
  for (int i = 0; i < 20; ++i)
    REQUIRE_FALSE(w.as(a, create(s)).has_refusal());
  v1::Query q;
  q.mutable_list_tasks();
  const auto list = w.ask(q).tasks();
  CHECK(list.tasks_size() < 20);
  CHECK_FALSE(list.page().token().empty());
  CHECK(list.ByteSizeLong() < limits::grpc_message_bytes_max);
}

TEST_CASE("a page token of another list, or no token at all, is refused") {
  task_world w;
  for (const std::string token : {"zz", "00ff", ""}) {
    v1::Query q;
    q.mutable_list_tasks()->mutable_page()->set_token(token.empty() ? to_hex(std::string("kv\0a", 4)) : token);
    CHECK(w.ask(q).refusal().code() == v1::Refusal::INVALID);
  }
}

TEST_CASE("a page token with a position that its list does not have is refused") {
  task_world w;
  w.join("identity:x");
  auto number = std::string(20, '9');
  for (const auto& position : {std::string{"x"}, number, number + '\0' + "id", std::string(19, '0') + "-", std::string(20, '0') + "id",
                               '-' + std::string(19, '0') + '\0' + "id"}) {
    CAPTURE(to_hex(position));
    v1::Query sessions, spawns;
    sessions.mutable_list_sessions()->mutable_page()->set_token(domain::page_token("sessions", position));
    spawns.mutable_list_spawns()->mutable_page()->set_token(domain::page_token("spawns", position));
    CHECK(w.ask(sessions).refusal().code() == v1::Refusal::INVALID);
    CHECK(w.ask(spawns).refusal().code() == v1::Refusal::INVALID);
  }
  for (const char* position : {"x", "-1", "1x", " 1", "-99999999999999999999"}) {
    CAPTURE(position);
    v1::Query events;
    events.mutable_list_events()->mutable_page()->set_token(domain::page_token("events", position));
    CHECK(w.ask(events).refusal().code() == v1::Refusal::INVALID);
  }
}

TEST_CASE("after a revision that no event can have there are no events") {
  task_world w;
  w.join("identity:x");
  for (auto after : {std::uint64_t{1} << 60, std::numeric_limits<std::uint64_t>::max()}) {
    v1::Query q;
    q.mutable_list_events()->set_after(after);
    CHECK(w.ask(q).events().events_size() == 0);
    CHECK_FALSE(w.ask(q).has_refusal());
  }
}

TEST_CASE("a session that something vouches for shows a fresh heartbeat everywhere, others their last one") {
  task_world w;
  const auto viewer = w.join("identity:x");
  const auto was = w.in.now_ms;
  w.in.now_ms += 120'000;
  auto shown = [&](v1::Session::Presence presence, std::int64_t lease_until_ms) {
    v1::Session s;
    s.set_id("held");
    s.set_scope(scope);
    s.set_label("identity:x name:held");
    s.set_identity("identity:x");
    s.set_registered_at_ms(was);
    s.set_heartbeat_ms(was);
    s.set_adopted(true);
    s.set_presence(presence);
    s.set_lease_until_ms(lease_until_ms);
    w.rows.put(s);
    v1::Lock l;
    l.set_id("L");
    l.set_scope(scope);
    l.set_path("/repo/f");
    l.set_session_id("held");
    w.rows.put(l);
    v1::Query lists, status, locks, lock;
    lists.mutable_list_sessions()->set_label_contains("name:held");
    status.mutable_get_status();
    locks.mutable_list_locks();
    lock.mutable_get_lock()->set_path("/repo/f");
    const auto beat = w.ask(find("held")).session().heartbeat_ms();
    CHECK(w.ask(lists).sessions().sessions(0).heartbeat_ms() == beat);
    CHECK(w.ask(status, viewer).status().peers(0).heartbeat_ms() == beat);
    CHECK(w.ask(locks).locks().locks(0).owner().heartbeat_ms() == beat);
    CHECK(w.ask(lock).lock().active().owner().heartbeat_ms() == beat);
    return beat;
  };
  CHECK(shown(v1::Session::HEARTBEAT, 0) == was);
  CHECK(shown(v1::Session::PROCESS, 0) == w.in.now_ms);
  CHECK(shown(v1::Session::CONNECTION, 0) == w.in.now_ms);
  CHECK(shown(v1::Session::LEASE, w.in.now_ms + 1) == w.in.now_ms);
  CHECK(shown(v1::Session::LEASE, w.in.now_ms - 1) == was);
  CHECK(w.rows.row<v1::Session>(domain::key("held"))->heartbeat_ms() == was);
}

TEST_CASE("sessions are seen by their own identity, listed by label like SQL does") {
  task_world w;
  const auto a = w.join("identity:x Role:Planner"), b = w.join("identity:x role:implementer");
  w.join("identity:y role:planner");
  w.join("identity:x role:planner", false);
  v1::Query q;
  q.mutable_list_sessions()->set_adopted_only(true);
  CHECK(w.ask(q, a).sessions().sessions_size() == 2);
  CHECK(w.ask(q).sessions().sessions_size() == 3);
  q.mutable_list_sessions()->set_label_contains("ROLE:%planner");
  REQUIRE(w.ask(q, b).sessions().sessions_size() == 1);
  CHECK(w.ask(q, b).sessions().sessions(0).id() == a);
}

TEST_CASE("who is found by id, id prefix or part of a label, with swarm-mcp's errors") {
  task_world w;
  CHECK(w.ask(find("")).refusal().text() == "No instances registered in scope /repo. Pass --as <id-or-label> or set SWARM_MCP_INSTANCE_ID.");
  const auto a = w.join("identity:x alpha");
  CHECK(w.ask(find("")).session().id() == a);
  const auto b = w.join("identity:x beta");
  const auto a8 = a.substr(0, 8) + " (identity:x alpha)", b8 = b.substr(0, 8) + " (identity:x beta)";
  CHECK(w.ask(find("")).refusal().text() == "Multiple instances in scope /repo; pass --as <id-or-label>. Candidates: " + a8 + ", " + b8);
  CHECK(w.ask(find(a)).session().id() == a);
  CHECK(w.ask(find("s2")).session().id() == b);
  CHECK(w.ask(find("beta")).session().id() == b);
  CHECK(w.ask(find("s")).refusal().text() == "Ambiguous id prefix \"s\": " + a8 + ", " + b8);
  CHECK(w.ask(find("identity")).refusal().text() == "Ambiguous label match \"identity\": " + a8 + ", " + b8);
  CHECK(w.ask(find("BETA")).refusal().text() == "No instance matches \"BETA\" in this scope. Candidates: " + a8 + ", " + b8);
}

TEST_CASE("asked for by whole words, a session is found by its label, a word of it or the beginning of its id, and never by a part of a word") {
  task_world w;
  const auto ann = w.join("name:ann role:x"), anna = w.join("name:anna"), odd = w.join("a b");
  auto words = [](const std::string& who) {
    auto q = find(who);
    q.mutable_find_session()->set_whole_words(true);
    return q;
  };
  CHECK(w.ask(words(ann)).session().id() == ann);
  for (const auto* who : {"name:ann", "ann", "name:ann role:x", "role:x"})
    CHECK(w.ask(words(who)).session().id() == ann);
  CHECK(w.ask(words("anna")).session().id() == anna);
  CHECK(w.ask(words("a b")).session().id() == odd);
  CHECK(w.ask(words(anna.substr(0, anna.size() - 1))).session().id() == anna);
  const auto mallory = w.join("name:mallory " + anna.substr(0, 4));
  CHECK(domain::begins_id(anna, anna.substr(0, 4)));
  CHECK(w.ask(words(anna.substr(0, 4))).refusal().code() == v1::Refusal::CONFLICT);
  w.rows.erase(*w.rows.row<v1::Session>(domain::key(mallory)));
  w.rows.erase(*w.rows.row<v1::Session>(domain::key(ann)));
  for (const auto* who : {"name:ann", "ann", "nam", " ", ":", "s", "s2"})
    CHECK_MESSAGE(w.ask(words(who)).refusal().code() == v1::Refusal::NOT_FOUND, who);
}

TEST_CASE("nobody is taken for a worker without naming it") {
  task_world w;
  const auto worker = w.join("role:implementer");
  auto row = *w.rows.row<v1::Session>(domain::key(worker));
  row.set_spawn_id("spawn");
  w.rows.put(row);
  auto q = find("");
  CHECK(w.ask(q).session().id() == worker);
  q.mutable_find_session()->set_not_workers(true);
  CHECK(w.ask(q).refusal().code() == v1::Refusal::NOT_FOUND);
  const auto mine = w.join("name:me");
  CHECK(w.ask(q).session().id() == mine);
}

TEST_CASE("a person is no session, also beside exactly one, and a session is itself, whoever else is there") {
  task_world w;
  const auto one = w.join("role:implementer");
  auto q = find("");
  q.mutable_find_session()->set_own(true);
  const auto refused = w.ask(q).refusal();
  CHECK(refused.code() == v1::Refusal::NOT_REGISTERED);
  CHECK(refused.explanation().find("--as") != std::string::npos);
  const auto two = w.join("role:implementer");
  for (const auto& id : {one, two})
    CHECK(ask_as(w, id, q).session().id() == id);
  CHECK(ask_as(w, "gone", q).has_refusal());
  // Under the name swarm-mcp, and from older programs, the question is the one of before.
  CHECK(w.ask(find("")).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("a task is found by its id, by the beginning of one, or as the newest") {
  task_world w;
  auto q = [](const std::string& who) {
    v1::Query out;
    out.mutable_find_task()->set_who(who);
    return out;
  };
  CHECK(w.ask(q("")).refusal().text() == "There is no task in scope /repo yet");
  const auto mine = w.join("identity:x"), other = w.join("identity:y");
  std::vector<v1::Task> made;
  for (const auto* id : {"abcd1111", "abcd2222", "abce3333", "ff000000"}) {
    v1::Task t;
    t.set_id(id);
    t.set_scope(id[0] == 'f' ? "/elsewhere" : "/repo");
    t.set_title(std::string{"title of "} + id);
    t.set_requester(id[3] == 'e' ? other : mine);
    t.set_identity(id[3] == 'e' ? "identity:y" : "identity:x");
    t.set_created_at_ms(w.in.now_ms + static_cast<std::int64_t>(made.size()));
    t.set_priority(-static_cast<std::int64_t>(made.size()));
    w.rows.put(t);
    made.push_back(t);
  }
  CHECK(w.ask(q("abcd1111")).task().title() == "title of abcd1111");
  CHECK(w.ask(q("abcd1")).task().id() == "abcd1111");
  CHECK(w.ask(q("abce")).task().id() == "abce3333");
  CHECK(w.ask(q("")).task().id() == "abce3333");
  CHECK(w.ask(q("abcd")).refusal().code() == v1::Refusal::CONFLICT);
  CHECK(w.ask(q("abcd")).refusal().text() == "Several tasks begin with abcd: abcd1111 (title of abcd1111), abcd2222 (title of abcd2222)");
  CHECK(w.ask(q("abc")).refusal().text() == "No task of scope /repo has the id abc; a beginning of an id has at least 4 characters");
  for (const auto* of_others : {"ff00", "ff000000", "1234"})
    CHECK(w.ask(q(of_others)).refusal().code() == v1::Refusal::NOT_FOUND);
  // What a session does not see does not make its beginnings ambiguous, and is not the newest.
  CHECK(w.ask(q(""), mine).task().id() == "abcd2222");
  CHECK(w.ask(q("abce"), mine).refusal().code() == v1::Refusal::NOT_FOUND);
}

TEST_CASE("expired and foreign keys are absent") {
  task_world w;
  const auto x = w.join("identity:x"), y = w.join("identity:y");
  v1::Command set;
  set.mutable_set_kv()->set_key("k");
  set.mutable_set_kv()->set_value("v");
  set.mutable_set_kv()->set_ttl_ms(1'000);
  REQUIRE_FALSE(w.as(x, set).has_refusal());
  v1::Query get, list;
  get.mutable_get_kv()->set_key("k");
  list.mutable_list_kv();
  CHECK(w.ask(get, x).kv().value() == "v");
  CHECK(w.ask(get, y).refusal().text() == "Key \"k\" not found");
  CHECK(w.ask(list, y).kv_list().entries_size() == 0);
  REQUIRE(w.ask(list, x).kv_list().entries_size() == 1);
  CHECK(w.ask(list, x).kv_list().entries(0).value().empty());
  w.in.now_ms += 1'000;
  CHECK(w.ask(get, x).has_refusal());
  CHECK(w.ask(list).kv_list().entries_size() == 0);
}

TEST_CASE("a session sees with its own eyes whether it names itself or not") {
  task_world w;
  const auto x = w.join("identity:x"), y = w.join("identity:y mode:gateway");
  v1::Command set;
  set.mutable_set_kv()->set_key("secret");
  set.mutable_set_kv()->set_value("v");
  REQUIRE_FALSE(w.as(y, set).has_refusal());
  const auto task = made(w.as(y, create(spec("foreign"))));
  v1::Command lock;
  lock.mutable_acquire_lock()->set_path("/elsewhere/f");
  lock.mutable_acquire_lock()->set_note("why");
  REQUIRE_FALSE(w.as(y, lock).has_refusal());
  v1::Command worker;
  worker.mutable_request_spawn()->set_role("implementer");
  worker.mutable_request_spawn()->set_key("k");
  worker.mutable_request_spawn()->set_harness("exec");
  worker.mutable_request_spawn()->add_argv("true");
  worker.mutable_request_spawn()->set_directory("/repo");
  REQUIRE_FALSE(w.as(y, worker).has_refusal());
  v1::Query get, keys, tasks, one, sessions, held, mine, spawns, sweep;
  get.mutable_get_kv()->set_key("secret");
  keys.mutable_list_kv();
  tasks.mutable_list_tasks();
  one.mutable_get_task()->set_task_id(task.id());
  sessions.mutable_list_sessions()->set_adopted_only(true);
  held.mutable_get_lock()->set_path("/elsewhere/f");
  mine.mutable_get_status();
  spawns.mutable_list_spawns();
  for (const bool override_wanted : {false, true}) {
    for (auto* q : {&get, &keys, &tasks, &one, &sessions, &held, &mine, &spawns})
      q->mutable_caller()->set_allow_cross_identity(override_wanted);
    CHECK(ask_as(w, x, get).refusal().code() == v1::Refusal::NOT_FOUND);
    CHECK(ask_as(w, x, keys).kv_list().entries_size() == 0);
    CHECK(ask_as(w, x, tasks).tasks().tasks_size() == 0);
    CHECK(ask_as(w, x, one).refusal().code() == v1::Refusal::NOT_FOUND);
    CHECK(ask_as(w, x, sessions).sessions().sessions_size() == 1);
    CHECK(ask_as(w, x, held).lock().active().hidden());
    CHECK(ask_as(w, x, held).lock().active().lock().note().empty());
    CHECK(ask_as(w, x, spawns).spawns().spawns_size() == 0);
    CHECK(ask_as(w, x, find(y)).refusal().code() == v1::Refusal::NOT_FOUND);
    CHECK(ask_as(w, x, find("")).session().id() == x);
    CHECK(ask_as(w, x, mine).status().session().id() == x);
  }
  CHECK(ask_as(w, y, get).kv().value() == "v");
  CHECK(ask_as(w, y, tasks).tasks().tasks_size() == 1);
  CHECK(ask_as(w, y, spawns).spawns().spawns_size() == 1);
  CHECK(w.ask(tasks).tasks().tasks_size() == 1); // the operator without a viewer sees everything
}

TEST_CASE("the shared scopes are those with a name") {
  task_world w;
  for (const auto* name : {"/repo", "game", "git:host.example/me/game"}) {
    v1::ScopeState s;
    s.set_scope(name);
    w.rows.put(s);
  }
  v1::Query all;
  all.mutable_list_scopes();
  auto shared = all;
  shared.mutable_list_scopes()->set_shared(true);
  auto names = [&](const v1::Query& q) {
    std::vector<std::string> out;
    const auto answer = w.ask(q);
    for (const auto& s : answer.scopes().scopes())
      out.push_back(s.scope());
    return out;
  };
  CHECK(names(all).size() == 3);
  CHECK(names(shared) == std::vector<std::string>{"game", "git:host.example/me/game"});
}

TEST_CASE("a session without a row in a scope learns nothing of it but its name") {
  task_world w;
  const auto x = w.join("identity:x");
  made(w.as(x, create(spec("T"))));
  v1::Query tasks, events, scopes;
  tasks.mutable_list_tasks();
  events.mutable_list_events();
  scopes.mutable_list_scopes();
  CHECK(ask_as(w, x, events).events().events_size() == 1);
  for (const auto& [who, where] : {std::pair{x, std::string("/elsewhere")}, std::pair{std::string("gone"), scope}}) {
    CHECK(ask_as(w, who, tasks, where).refusal().code() == v1::Refusal::NOT_REGISTERED);
    CHECK(ask_as(w, who, events, where).refusal().code() == v1::Refusal::NOT_REGISTERED);
    CHECK(ask_as(w, who, scopes, where).scopes().scopes_size() == 1);
  }
  CHECK(ask_as(w, x, scopes, "").scopes().scopes_size() == 1);
  CHECK(ask_as(w, "", tasks).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("the limit of a list of messages counts what the viewer may see") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), c = w.join("identity:x");
  const auto send = [&](const std::string& from, const std::string& to, const std::string& text) {
    v1::Command cmd;
    cmd.mutable_send_message()->set_recipient(to);
    cmd.mutable_send_message()->set_content(text);
    REQUIRE_FALSE(w.as(from, cmd).has_refusal());
  };
  send(b, c, "before");
  send(a, b, "one");
  send(b, a, "two");
  send(a, c, "three");
  for (int i = 0; i < 60; ++i)
    send(b, c, "between others");
  const auto seen = [&](const std::string& from, const std::string& to, std::uint32_t limit, bool unread) {
    v1::Query q;
    q.mutable_list_messages()->set_from(from);
    q.mutable_list_messages()->set_to(to);
    q.mutable_list_messages()->set_limit(limit);
    q.mutable_list_messages()->set_unread_only(unread);
    std::string out;
    const auto answer = ask_as(w, a, q);
    for (const auto& m : answer.messages().messages())
      out += m.content() + " ";
    return out;
  };
  CHECK(seen("", "", 0, false) == "one two three ");
  CHECK(seen("", "", 2, false) == "two three ");
  CHECK(seen("", "", 2, true) == "one two ");
  CHECK(seen(a, "", 0, false) == "one three ");
  CHECK(seen("", a, 0, false) == "two ");
  CHECK(seen(b, a, 0, false) == "two ");
  CHECK(seen("", c, 0, false) == "three ");
  CHECK(seen(b, c, 0, false).empty());
}

TEST_CASE("a snapshot counts terminal tasks and shows them only as asked") {
  task_world w;
  const auto a = w.join("identity:x"), y = w.join("identity:y");
  for (int i = 0; i < 3; ++i) {
    const auto t = made(w.as(a, create(spec("t"))));
    w.as(a, claim(t.id()));
    w.as(a, update(t.id(), v1::DONE));
  }
  made(w.as(a, create(spec("open"))));
  v1::Query q;
  q.mutable_task_snapshot();
  CHECK(w.ask(q, a).snapshot().tasks_size() == 1);
  CHECK(w.ask(q, a).snapshot().done() == 3);
  CHECK(w.ask(q, y).snapshot().tasks_size() == 0);
  CHECK(w.ask(q, y).snapshot().done() == 0);
  q.mutable_task_snapshot()->set_terminal_limit(2);
  CHECK(w.ask(q, a).snapshot().tasks_size() == 3);
  q.mutable_task_snapshot()->set_include_terminal(true);
  CHECK(w.ask(q, a).snapshot().tasks_size() == 4);
}

TEST_CASE("a snapshot says when more was asked for than fits") {
  task_world w;
  v1::Query q;
  q.mutable_task_snapshot()->set_terminal_limit(1);
  auto put = [&](const std::string& id, v1::TaskStatus status) {
    v1::Task t;
    t.set_id(id);
    t.set_scope(scope);
    t.set_type("implement");
    t.set_title(std::string(limits::title_bytes_max(), 't'));
    t.set_description(std::string(64 * limits::kib, 'd'));
    t.set_status(status);
    w.rows.put(t);
  };
  const auto fits = limits::page_encoded_bytes_max / (64 * limits::kib);
  for (std::size_t i = 0; i + 4 < fits; ++i)
    put("open-" + std::to_string(i), v1::OPEN);
  for (int i = 0; i < 2; ++i)
    put("done-" + std::to_string(i), v1::DONE);
  CHECK(w.ask(q).snapshot().tasks_size() == static_cast<int>(fits) - 3);
  CHECK_FALSE(w.ask(q).snapshot().truncated()); // one of two is what was asked for
  for (std::size_t i = 0; i < 8; ++i)
    put("late-" + std::to_string(i), v1::OPEN);
  CHECK(w.ask(q).snapshot().truncated());
  CHECK(w.ask(q).snapshot().tasks_size() < static_cast<int>(fits) + 1);
}

TEST_CASE("events are listed after a revision, by type and subject, or as the newest") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("t"))));
  w.as(a, claim(t.id()));
  w.as(a, update(t.id(), v1::DONE));
  v1::Query q;
  auto& l = *q.mutable_list_events();
  l.add_types("task.");
  const auto all = w.ask(q).events();
  REQUIRE(all.events_size() == 3);
  CHECK(all.oldest() == all.events(0).revision());
  l.mutable_page()->set_size(2);
  const auto first = w.ask(q).events();
  CHECK(first.events_size() == 2);
  l.mutable_page()->set_token(first.page().token());
  REQUIRE(w.ask(q).events().events_size() == 1);
  CHECK(w.ask(q).events().events(0).type() == "task.updated");
  l.clear_page();
  l.set_after(all.events(0).revision());
  CHECK(w.ask(q).events().events_size() == 2);
  l.set_newest(true);
  l.mutable_page()->set_size(1);
  REQUIRE(w.ask(q).events().events_size() == 1);
  CHECK(w.ask(q).events().events(0).type() == "task.updated");
  l.set_subject("other");
  CHECK(w.ask(q).events().events_size() == 0);
}

TEST_CASE("only the current fence verifies a lock") {
  task_world w;
  const auto a = w.join("identity:x");
  v1::Command lock;
  lock.mutable_acquire_lock()->set_path("/repo/f");
  const auto fence = w.as(a, lock).lock().lock().fence();
  v1::Query q;
  q.mutable_verify_lock()->set_path("/repo/f");
  q.mutable_verify_lock()->set_fence(fence);
  CHECK(w.ask(q).lock_verified().valid());
  q.mutable_verify_lock()->set_fence(fence + 1);
  CHECK_FALSE(w.ask(q).lock_verified().valid());
  CHECK(w.ask(q).lock_verified().lock().session_id() == a);
}

TEST_CASE("only the node resolves tokens") {
  task_world w;
  v1::Query q;
  q.mutable_resolve_token()->set_token_hash(std::string(32, 'x'));
  CHECK(w.ask(q).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("questions about the whole node need no scope, all others do") {
  task_world w;
  w.join("identity:x");
  v1::Query q;
  q.mutable_principal()->set_kind(v1::Principal::NODE);
  q.mutable_get_totals();
  CHECK(domain::answer(q, w.rows, {}).totals().sessions() == 1);
  q.mutable_resolve_token()->set_token_hash(std::string(32, 'x'));
  CHECK(domain::answer(q, w.rows, {}).refusal().code() == v1::Refusal::NOT_FOUND);
  q.mutable_list_scopes();
  CHECK_FALSE(domain::answer(q, w.rows, {}).has_refusal());
  q.mutable_list_tasks();
  CHECK(domain::answer(q, w.rows, {}).refusal().code() == v1::Refusal::INVALID);
}
