// What an agent asks for, how it is decided and judged, and what its driver is told.
#include "actors/base/limits.hpp"
#include "tests/unit/fabric/conversations/told_world.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a request that the node denies is denied until the driver has heard it") {
  told_world w;
  w.begin();
  w.connect();
  w.store = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_refusal()->set_code(v1::Refusal::LIMIT);
    r.mutable_refusal()->set_text("too many wait");
    return r;
  };
  w.says(request("r", "{}"));
  CHECK(w.count("answer deny") == 1);
  w.talk->disconnected();
  w.connect();
  CHECK(w.count("answer deny") == 2);
  internal::FromDriver f;
  f.mutable_answer_state()->set_request_id("r");
  f.mutable_answer_state()->set_delivered(true);
  w.says(f);
  w.talk->disconnected();
  w.connect();
  CHECK(w.count("answer deny") == 2);
}

TEST_CASE("a decision that the driver refuses has its request end in the log, and what is asked again is another approval") {
  told_world w;
  w.begin();
  w.connect();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    if (c.has_request_approval()) {
      *r.mutable_approval() = approval(std::to_string(w.commands.size()), c.request_approval().body());
      r.mutable_approval()->set_native_id(c.request_approval().conversation().native_id());
    } else if (c.has_report_delivery()) {
      *r.mutable_approval() = decided(approval("1", "{}"), "allow");
      r.mutable_approval()->set_delivery(c.report_delivery().delivery());
    }
    return r;
  };
  w.says(request("r", "{}"));
  auto a = decided(approval("1", "{}"), "allow");
  a.set_native_id("r");
  w.talk->approval_is(a, w.revision + 1);
  w.settle();
  w.talk->answer_judged("1", {});
  w.settle();
  internal::FromDriver refused, withdrawn;
  refused.mutable_answer_state()->set_request_id("r");
  refused.mutable_answer_state()->set_text("no such option");
  w.says(refused);
  withdrawn.mutable_withdrawn()->set_request_id("r");
  w.says(withdrawn);
  w.says(request("r/2", "{}"));
  std::vector<std::string> story;
  for (const auto& i : w.items)
    story.push_back(i.kind() == v1::CONVERSATION_NOTICE ? i.title() : i.state() + " " + i.approval_id());
  CHECK(story == std::vector<std::string>{"asked 1", "not-delivered", "withdrawn 1", "asked 3"});
  REQUIRE(w.commands.size() == 3);
  CHECK(w.commands[1].report_delivery().delivery() == v1::Approval::REFUSED);
  CHECK(w.commands[2].request_approval().request_key() != w.commands[0].request_approval().request_key());
}

TEST_CASE("a question whose choices cannot be told apart as they are shown is asked all the same and answered part by part") {
  const auto options_for = [](const std::vector<std::string>& labels) {
    told_world w;
    w.begin();
    w.connect();
    auto f = request("q", "{}");
    f.mutable_request()->set_kind(internal::Request::QUESTION);
    auto& part = *f.mutable_request()->add_choices();
    part.set_question("Which?");
    for (const auto& label : labels)
      part.add_options(label);
    w.says(f);
    REQUIRE(w.commands.size() == 1);
    const auto& asked = w.commands[0].request_approval().options();
    return std::vector<std::string>{asked.begin(), asked.end()};
  };
  const std::vector<std::string> by_parts{"answer", "deny"};
  const std::string same(limits::approval_choice_bytes_max, 'x');
  CHECK(options_for({"red", "blue"}) == std::vector<std::string>{"red", "blue"});
  CHECK(options_for({same + "1", "blue"}) == std::vector<std::string>{same, "blue"});
  CHECK(options_for({same + "1", same + "2"}) == by_parts);
  CHECK(options_for({"red", "red"}) == by_parts);
  CHECK(options_for({"red", ""}) == by_parts);
  CHECK(options_for({}) == by_parts);
  CHECK(options_for(std::vector<std::string>(limits::approval_choices_max, "x")) == by_parts);
  CHECK(options_for({"1", "2", "3", "4", "5", "6", "7", "8", "9"}) == by_parts);
}

TEST_CASE("the body of a large request is a blob that the approval names") {
  told_world w;
  w.begin();
  w.connect();
  const std::string body(20 * limits::kib, 'b');
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    if (c.has_request_approval()) {
      auto a = approval("1", "");
      a.set_native_id("r");
      a.set_body_bytes(c.request_approval().body_bytes());
      a.set_action_digest(c.request_approval().action_digest());
      *r.mutable_approval() = a;
    }
    return r;
  };
  w.says(request("r", body));
  REQUIRE(w.blobs.size() == 1);
  CHECK(w.blobs[0] == body);
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].request_approval().body().empty());
  CHECK(w.commands[0].request_approval().body_bytes() == body.size());
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].attachments(0).digest() == sha256(body));
}

TEST_CASE("a large request whose body has no room is denied") {
  told_world w;
  w.begin();
  w.connect();
  w.full = true;
  w.says(request("r", std::string(20 * limits::kib, 'b')));
  CHECK(w.commands.empty());
  REQUIRE(w.count("answer deny") == 1);
  CHECK(w.told.back().answer().text() == "there is no room");
}

TEST_CASE("an allowed action that a peer has locked meanwhile is denied with the reason") {
  told_world w;
  w.begin(asked_for("1"));
  w.connect();
  w.talk->approval_is(decided(approval("1", "{\"command\":\"make\"}"), "allow"), 1);
  w.settle();
  REQUIRE(w.cases.size() == 1);
  CHECK(w.cases[0].question.tool() == "Bash");
  CHECK(w.count("answer allow") == 0);
  w.talk->answer_judged("1", "a peer holds it");
  w.settle();
  CHECK(w.count("answer deny") == 1);
  CHECK(w.told.back().answer().text() == "a peer holds it");
  internal::FromDriver f;
  f.mutable_answer_state()->set_request_id("r-1");
  f.mutable_answer_state()->set_delivered(true);
  w.says(f);
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].state() == "deny");
  CHECK(w.items[0].rule() == "a peer holds it");
  CHECK(w.commands.at(0).report_delivery().delivery() == v1::Approval::REFUSED);
}

TEST_CASE("an answer is judged by the tool that asked and by what its driver has seen that it writes") {
  told_world w;
  w.begin();
  w.connect();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    if (c.has_request_approval())
      *r.mutable_approval() = approval("1", "");
    return r;
  };
  auto f = request("r-1", std::string(20 * limits::kib, 'b'));
  f.mutable_request()->set_tool("Write");
  f.mutable_request()->add_writes()->set_name("/repo/link");
  f.mutable_request()->mutable_writes(0)->set_real("/repo/file");
  f.mutable_request()->set_more_writes(true);
  w.says(f);
  REQUIRE(w.commands.size() == 1);
  const auto& of = w.commands[0].request_approval().conversation();
  CHECK(of.tool() == "Write");
  CHECK(of.more_writes());
  REQUIRE(of.writes_size() == 1);
  auto a = decided(approval("1", ""), "allow");
  a.set_tool(of.tool());
  *a.mutable_writes() = of.writes();
  w.talk->approval_is(a, 7);
  w.settle();
  REQUIRE(w.cases.size() == 1);
  CHECK(w.cases[0].question.tool() == "Write");
  CHECK(w.cases[0].question.writes(0).real() == "/repo/file");
  CHECK_FALSE(w.cases[0].question.more_writes());
  // Asked by a node of an earlier version, which did not keep it.
  a = decided(approval("2", ""), "allow");
  a.clear_tool();
  w.talk->approval_is(a, 8);
  w.settle();
  REQUIRE(w.cases.size() == 2);
  CHECK(w.cases[1].question.more_writes());
}

TEST_CASE("what writes nothing waits for no judge") {
  told_world w;
  w.begin();
  w.connect();
  auto a = decided(approval("1", "{}"), "allow");
  a.clear_writes();
  w.talk->approval_is(a, 1);
  w.settle();
  CHECK(w.cases.empty());
  CHECK(w.count("answer allow") == 1);
  internal::FromDriver f;
  f.mutable_hook_question()->set_id("h");
  f.mutable_hook_question()->set_tool("Read");
  w.talk->heard(agents::encode_driver_frame(f));
  w.settle();
  REQUIRE(w.told.back().has_hook_answer());
  CHECK_FALSE(w.told.back().hook_answer().denied());
  CHECK(w.hooks.empty());
  f.mutable_hook_question()->set_more_writes(true);
  w.talk->heard(agents::encode_driver_frame(f));
  w.settle();
  CHECK(w.hooks.size() == 1);
}

TEST_CASE("a decision that was judged is not judged again when the driver is connected anew") {
  told_world w;
  w.begin();
  w.connect();
  w.talk->approval_is(decided(approval("1", "{}"), "allow"), 1);
  w.settle();
  w.talk->answer_judged("1", "");
  w.settle();
  CHECK(w.count("answer allow") == 1);
  w.connect();
  CHECK(w.cases.size() == 1);
  CHECK(w.count("answer allow") == 2);
}

TEST_CASE("what an agent has got already stands in the log and the row, whatever was judged later") {
  for (const bool got_it : {true, false}) {
    CAPTURE(got_it);
    told_world w;
    w.begin(asked_for("1"));
    w.connect();
    w.talk->approval_is(decided(approval("1", "{}"), "allow"), 1);
    w.settle();
    w.talk->answer_judged("1", got_it ? "held" : "");
    w.settle();
    w.says(answer_state("r-1", got_it ? "allow" : "deny"));
    REQUIRE(w.items.size() == 1);
    CHECK(w.items[0].state() == (got_it ? "allow" : "deny"));
    CHECK(w.items[0].rule().empty() == got_it);
    CHECK(w.commands.at(0).report_delivery().delivery() == (got_it ? v1::Approval::DELIVERED : v1::Approval::REFUSED));
  }
}

TEST_CASE("an answer that fits in no frame becomes a denial that says so") {
  told_world w;
  w.begin(asked_for("1"));
  auto a = decided(approval("1", "{}"), "answer");
  a.set_kind(v1::Approval::QUESTION);
  for (int i = 0; i < 4; ++i) {
    auto* part = a.add_answers();
    part->set_question(std::to_string(i) + std::string(8 * limits::kib, 'q'));
    part->set_choice(std::string(8 * limits::kib, 'c'));
  }
  w.talk->approval_is(a, 1);
  w.connect();
  CHECK(w.count("answer deny") == 1);
  w.says(answer_state("r-1", "deny"));
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].state() == "deny");
  CHECK(w.items[0].rule().find("too long") != std::string::npos);
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_delivery().delivery() == v1::Approval::REFUSED);
}

TEST_CASE("what a rule has decided is an item with the rule") {
  told_world w;
  w.begin();
  w.connect();
  internal::FromDriver f;
  f.mutable_ruled()->set_id("r");
  f.mutable_ruled()->set_title("make");
  f.mutable_ruled()->set_allowed(true);
  f.mutable_ruled()->set_rule("allowed: Bash(make)");
  w.says(f);
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].kind() == v1::CONVERSATION_PERMISSION);
  CHECK(w.items[0].state() == "allow");
  CHECK(w.items[0].rule() == "allowed: Bash(make)");
}

TEST_CASE("what a question was refused is not asked again before something has changed") {
  told_world w;
  w.begin();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    w.row.set_changed_at_ms(w.row.changed_at_ms() + 1);
    *r.mutable_conversation()->mutable_conversation() = w.row;
    if (const auto& id = c.report_conversation().sending(); !id.empty())
      *r.mutable_conversation()->mutable_prompt() = w.prompts[id];
    return r;
  };
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), 0);
  w.connect();
  CHECK(w.commands.size() == 1);
  w.row_changed();
  CHECK(w.commands.size() == 1);
  w.row.set_state(v1::Conversation::SUSPENDED);
  w.row_changed();
  CHECK(w.commands.size() == 2);
}

TEST_CASE("a request that was decided before under its name is denied") {
  told_world w;
  w.begin();
  w.connect();
  w.store = [](const v1::Command&) {
    v1::Reply r;
    auto a = decided(approval("1", "{}"), "allow");
    a.set_delivery(v1::Approval::DELIVERED);
    *r.mutable_approval() = a;
    return r;
  };
  w.says(request("r-1", "{}"));
  CHECK(w.count("answer deny") == 1);
}

TEST_CASE("a request that the node has denied is denied again after a start and not asked as the end of itself") {
  log_tail tail;
  {
    told_world w;
    w.begin();
    w.connect();
    w.store = [](const v1::Command&) {
      v1::Reply r;
      r.mutable_refusal()->set_code(v1::Refusal::LIMIT);
      return r;
    };
    w.seq = 9;
    log_tail before;
    before.seq = 9;
    w.talk = std::make_unique<dialogue>(w.row, before);
    w.connect();
    w.says(request("r", "{}"));
    REQUIRE(w.items.size() == 1);
    take_frame(tail, 1, {.generation = 1, .driver_seq = 10, .at_ms = 1, .kind = 10, .body = w.items[0].SerializeAsString()});
  }
  told_world w;
  w.begin(tail);
  w.seq = 9;
  w.connect();
  CHECK(w.count("answer deny") == 1);
  w.says(request("r", "the end of it}"));
  CHECK(w.commands.empty());
  CHECK(w.items.empty());
}
