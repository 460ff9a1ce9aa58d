// What a driver is told, and when.
#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "actors/domain/oldest_prompt.hpp"
#include "actors/fabric/conversations/dialogue.hpp"
#include "tests/support/model_driver.hpp"

using namespace swarm;

namespace {

/// A dialogue whose store and log do what they are asked at once.
struct told_world {
  v1::Conversation row;
  std::unique_ptr<dialogue> talk;
  std::vector<internal::ToDriver> told;
  std::vector<dialogue::file_to_driver> files;
  std::vector<v1::Command> commands;
  std::vector<v1::ConversationItem> items;
  std::vector<std::string> blobs;
  std::vector<dialogue::judge_answer> cases;
  std::vector<internal::HookQuestion> hooks;
  std::vector<std::uint32_t> interrupts;
  std::function<v1::Reply(const v1::Command&)> store;
  bool full = false; // no blob has room
  std::uint64_t seq = 0, revision = 0;

  told_world() {
    row.set_id("c");
    row.set_generation(1);
    row.set_state(v1::Conversation::IDLE);
    row.set_directory("/repo");
    store = [this](const v1::Command&) {
      v1::Reply r;
      *r.mutable_conversation()->mutable_conversation() = row;
      return r;
    };
  }

  void begin(log_tail tail = {}) { talk = std::make_unique<dialogue>(row, std::move(tail)); }
  void connect() {
    const std::string nonce(16, 'n');
    talk->connected(nonce);
    internal::FromDriver ready;
    ready.mutable_ready()->set_last_seq(seq);
    talk->heard(nonce + agents::encode_driver_frame(ready));
    settle();
  }
  void says(internal::FromDriver f) {
    f.set_seq(++seq);
    talk->heard(agents::encode_driver_frame(f));
    settle();
  }
  v1::Prompt& prompt(const std::string& id, v1::Prompt::State state) {
    auto& p = prompts[id];
    p.set_id(id);
    p.set_number(prompts.size());
    p.set_text("words of " + id);
    p.set_state(state);
    p.set_generation(1);
    return p;
  }
  void row_changed() {
    talk->row_is(row, ++revision);
    settle();
  }
  std::map<std::string, v1::Prompt> prompts;

  void settle() {
    for (auto effects = talk->take(); !effects.empty(); effects = talk->take())
      for (auto& e : effects)
        perform(e);
  }
  std::vector<std::string> kinds() const {
    std::vector<std::string> out;
    for (const auto& m : told)
      out.push_back(m.has_prompt()        ? "prompt " + m.prompt().id()
                    : m.has_interrupt()   ? "interrupt"
                    : m.has_answer()      ? "answer " + m.answer().option()
                    : m.has_permissions() ? "permissions"
                    : m.has_locks()       ? "locks"
                    : m.has_set()         ? "set " + m.set().model()
                    : m.has_stop()        ? "stop"
                    : m.has_hello()       ? "hello"
                                          : "stored");
    return out;
  }
  std::size_t count(const std::string& kind) const {
    const auto all = kinds();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), kind));
  }

private:
  void perform(dialogue::effect& e) {
    if (auto* frame = std::get_if<dialogue::to_driver>(&e)) {
      agents::driver_frame_reader r;
      r.push(frame->frame);
      std::string message;
      REQUIRE(r.next(message) == agents::driver_frame_reader::status::frame);
      REQUIRE(told.emplace_back().ParseFromString(message));
      if (frame->interrupt != 0)
        interrupts.push_back(frame->interrupt);
    } else if (auto* file = std::get_if<dialogue::file_to_driver>(&e)) {
      files.push_back(*file);
    } else if (auto* c = std::get_if<dialogue::ask>(&e)) {
      commands.push_back(c->command);
      auto r = store(c->command);
      r.set_revision(++revision);
      talk->answered(r);
    } else if (auto* k = std::get_if<dialogue::keep>(&e)) {
      for (const auto& f : k->frames)
        REQUIRE(items.emplace_back().ParseFromString(f.body));
      talk->kept({1, items.size()});
    } else if (auto* b = std::get_if<dialogue::keep_blob>(&e)) {
      blobs.push_back(b->bytes);
      talk->blob_kept(full ? "there is no room" : "");
    } else if (auto* j = std::get_if<dialogue::judge_answer>(&e)) {
      cases.push_back(*j);
    } else if (auto* h = std::get_if<dialogue::judge>(&e)) {
      hooks.push_back(h->question);
    }
  }
};

internal::FromDriver request(const std::string& id, const std::string& body) {
  internal::FromDriver f;
  f.mutable_request()->set_id(id);
  f.mutable_request()->set_kind(internal::Request::COMMAND);
  f.mutable_request()->set_title("make");
  f.mutable_request()->set_body(body);
  f.mutable_request()->set_last(true);
  return f;
}

v1::Approval approval(const std::string& id, const std::string& body) {
  v1::Approval a;
  a.set_id(id);
  a.set_conversation_id("c");
  a.set_generation(1);
  a.set_native_id("r-" + id);
  a.set_kind(v1::Approval::COMMAND);
  a.set_body(body);
  a.set_action_digest(sha256(body));
  a.set_tool("Bash");
  a.add_writes()->set_name("/repo/out");
  return a;
}

/// The log has that the approval `id` was asked for.
log_tail asked_for(const std::string& id) {
  log_tail tail;
  auto& item = tail.asked[id];
  item.set_kind(v1::CONVERSATION_PERMISSION);
  item.set_id("r-" + id);
  item.set_approval_id(id);
  item.set_state("asked");
  return tail;
}

internal::FromDriver answer_state(const std::string& request, const std::string& option) {
  internal::FromDriver f;
  f.mutable_answer_state()->set_request_id(request);
  f.mutable_answer_state()->set_delivered(true);
  f.mutable_answer_state()->set_option(option);
  return f;
}

v1::Approval decided(v1::Approval a, const std::string& how) {
  a.set_decided_at_ms(1);
  a.set_decision(how);
  a.set_delivery(v1::Approval::PENDING);
  return a;
}

} // namespace

TEST_CASE("an interrupt follows the prompt that it is about") {
  told_world w;
  w.row.set_interrupts(1);
  w.row.set_held(true);
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.connect();
  CHECK(w.kinds() == std::vector<std::string>{"hello", "permissions", "prompt p", "interrupt"});
}

TEST_CASE("an interrupt counts as told when the driver's input has it and not before") {
  told_world w;
  w.begin();
  w.connect();
  w.row.set_interrupts(1);
  w.row_changed();
  CHECK(w.count("interrupt") == 1);
  CHECK(w.commands.empty());
  w.talk->disconnected();
  w.connect();
  CHECK(w.count("interrupt") == 2);
  w.talk->interrupt_taken(1);
  w.settle();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().interrupts_told() == 1);
}

TEST_CASE("nothing is said to a driver that is not connected") {
  told_world w;
  w.begin();
  w.connect();
  w.talk->disconnected();
  w.told.clear();
  w.row.set_interrupts(1);
  w.row_changed();
  CHECK(w.told.empty());
}

TEST_CASE("a driver hears at hello and with each change what needs no person") {
  told_world w;
  w.row.set_permissions(v1::Conversation::AUTO_EDIT);
  w.row.add_allowed("Bash(make)");
  w.begin();
  w.connect();
  REQUIRE(w.count("permissions") == 1);
  CHECK(w.told[1].permissions().kind() == internal::Permissions::AUTO_EDIT);
  CHECK(w.told[1].permissions().allowed(0) == "Bash(make)");
  w.row_changed();
  CHECK(w.count("permissions") == 1);
  w.row.set_permissions(v1::Conversation::AUTO);
  w.row.set_permissions_end_ms(77);
  w.row_changed();
  REQUIRE(w.count("permissions") == 2);
  CHECK(w.told.back().permissions().end_ms() == 77);
}

TEST_CASE("a driver hears what others hold when that changes") {
  told_world w;
  w.begin();
  internal::Locks held;
  held.add_paths("/repo/a");
  w.talk->locks_are(held);
  w.connect();
  CHECK(w.count("locks") == 1);
  w.talk->locks_are(held);
  w.settle();
  CHECK(w.count("locks") == 1);
  w.talk->locks_are({});
  w.settle();
  CHECK(w.count("locks") == 2);
}

TEST_CASE("a wish for a model is told once and counts as told when the agent has answered") {
  told_world w;
  w.row.set_wishes(3);
  w.row.set_wished_model("opus");
  w.begin();
  w.connect();
  REQUIRE(w.count("set opus") == 1);
  internal::FromDriver f;
  f.mutable_option_state()->set_id(w.told.back().set().id());
  f.mutable_option_state()->set_model("opus-5");
  w.says(f);
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().wishes_told() == 3);
  CHECK(w.commands[0].report_conversation().agent().model() == "opus-5");
  w.row.set_wishes_told(3);
  w.row_changed();
  w.connect();
  CHECK(w.count("set opus") == 1);
}

TEST_CASE("a wish that the agent refuses is a notice") {
  told_world w;
  w.row.set_wishes(1);
  w.row.set_wished_mode("fast");
  w.begin();
  w.connect();
  internal::FromDriver f;
  f.mutable_option_state()->set_id(w.told.back().set().id());
  f.mutable_option_state()->set_text("there is no such mode");
  w.says(f);
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "not-set");
  CHECK(w.commands.at(0).report_conversation().wishes_told() == 1);
}

TEST_CASE("what a person has said stands in the log once in parts that a reader takes") {
  told_world w;
  w.begin();
  auto& p = w.prompt("p", v1::Prompt::SENDING);
  p.set_text(std::string(100 * limits::kib, 'x'));
  p.add_attachments()->set_name("a.png");
  w.talk->prompt_is(p, 0);
  w.connect();
  internal::FromDriver f;
  f.mutable_prompt_state()->set_id("p");
  f.mutable_prompt_state()->set_state(internal::PromptState::SUBMITTED);
  w.says(f);
  w.says(f); // once more, as for a prompt that was repeated
  REQUIRE(w.items.size() == 3);
  std::string body;
  for (const auto& i : w.items) {
    CHECK(i.kind() == v1::CONVERSATION_USER);
    CHECK(i.body().size() <= 48 * limits::kib);
    CHECK(i.attachments(0).name() == "a.png");
    body += i.body();
  }
  CHECK(body == p.text());
  CHECK(w.items[2].last());
}

TEST_CASE("files go to the driver behind the words and the last one ends the prompt") {
  told_world w;
  w.begin();
  auto& p = w.prompt("p", v1::Prompt::SENDING);
  p.add_attachments()->set_media_type("image/png");
  p.add_attachments()->set_name("b.txt");
  w.talk->prompt_is(p, 0);
  w.connect();
  REQUIRE(w.files.size() == 2);
  CHECK_FALSE(w.told.back().prompt().last());
  CHECK(w.files[0].head.media_type() == "image/png");
  CHECK_FALSE(w.files[0].last);
  CHECK(w.files[1].head.name() == "b.txt");
  CHECK(w.files[1].last);
}

TEST_CASE("a prompt whose file is gone is told as one that the agent never gets") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.connect();
  w.talk->file_missing("p", "it is not there");
  w.settle();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().prompts(0).state() == v1::Prompt::UNDELIVERABLE);
}

TEST_CASE("a prompt that steers goes into the open turn and others wait for its end") {
  told_world w;
  w.row.set_state(v1::Conversation::RUNNING);
  w.row.set_open_turn("1");
  w.begin();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    *r.mutable_conversation()->mutable_conversation() = w.row;
    if (const auto& id = c.report_conversation().sending(); !id.empty()) {
      w.prompts[id].set_state(v1::Prompt::SENDING);
      *r.mutable_conversation()->mutable_prompt() = w.prompts[id];
    }
    return r;
  };
  w.talk->prompt_is(w.prompt("first", v1::Prompt::QUEUED), 0);
  auto& s = w.prompt("steers", v1::Prompt::QUEUED);
  s.set_steer(true);
  w.talk->prompt_is(s, 0);
  w.connect();
  CHECK(w.count("prompt steers") == 1);
  CHECK(w.count("prompt first") == 0);
  CHECK(w.told.back().prompt().steer());
}

TEST_CASE("a driver hears that something is stored when the log is synced and not before") {
  told_world w;
  w.begin();
  w.connect();
  internal::FromDriver f;
  f.mutable_item()->set_id("t");
  f.mutable_item()->set_kind(internal::ITEM_TEXT);
  f.mutable_item()->set_body("words");
  f.mutable_item()->set_last(true);
  w.says(f);
  w.says(f);
  CHECK(w.items.size() == 2);
  CHECK(w.count("stored") == 0);
  w.says(request("r", "{}"));
  CHECK(w.count("stored") >= 1);
  CHECK(w.told.back().stored().seq() == 3);
}

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

TEST_CASE("rules that fit in no frame are told with fewer patterns, and a list of locks that does not fit is not taken for told") {
  told_world w;
  w.row.set_permissions(v1::Conversation::DENY);
  for (int i = 0; i < 64; ++i)
    w.row.add_allowed("Bash(" + std::string(1'020, 'x') + std::to_string(i) + ")");
  w.begin();
  w.connect();
  REQUIRE(w.count("permissions") == 1);
  CHECK(w.told[1].permissions().kind() == internal::Permissions::DENY);
  CHECK(w.told[1].permissions().allowed_size() > 50);
  internal::Locks held;
  for (int i = 0; i < 1'000; ++i)
    held.add_paths("/repo/" + std::string(100, 'x') + std::to_string(i));
  w.talk->locks_are(held);
  w.settle();
  CHECK(w.count("locks") == 0);
  held.mutable_paths()->DeleteSubrange(100, held.paths_size() - 100);
  w.talk->locks_are(held);
  w.settle();
  CHECK(w.count("locks") == 1);
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

TEST_CASE("a report whose words are too long for this node is told without them") {
  told_world w;
  w.row.set_state(v1::Conversation::RUNNING);
  w.row.set_open_turn("1");
  w.begin();
  w.connect();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    if (!c.report_conversation().turn_ended().last_text().empty())
      r.mutable_refusal()->set_code(v1::Refusal::INVALID);
    return r;
  };
  internal::FromDriver f;
  f.mutable_turn_ended()->set_id("1");
  f.mutable_turn_ended()->set_reason(internal::TurnEnded::FINISHED);
  f.mutable_turn_ended()->set_last_text("words");
  w.says(f);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().turn_ended().turn() == "1");
  CHECK(w.commands[1].report_conversation().turn_ended().finished());
}

TEST_CASE("an agent with tasks beside its turns or with an open request is not idle") {
  told_world w;
  w.begin();
  w.connect();
  CHECK(w.talk->is_idle());
  internal::FromDriver f;
  f.mutable_background()->set_running(1);
  w.says(f);
  CHECK_FALSE(w.talk->is_idle());
  f.mutable_background()->set_running(0);
  w.says(f);
  CHECK(w.talk->is_idle());
  w.talk->approval_is(approval("1", "{}"), 1);
  CHECK_FALSE(w.talk->is_idle());
}

TEST_CASE("the row knows how many tasks go on beside the turns, after a start of the node too") {
  told_world w;
  w.begin();
  w.connect();
  internal::FromDriver f;
  f.mutable_background()->set_running(2);
  w.says(f);
  w.says(f);
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().background() == 2);
  w.row.set_background(2);
  w.begin();
  w.connect();
  CHECK_FALSE(w.talk->is_idle());
  f.mutable_background()->set_running(0);
  w.says(f);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().has_background());
  CHECK(w.commands[1].report_conversation().background() == 0);
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

namespace {

/// A store in which this prompt waits.
void store_with(told_world& w, const std::string& waiting, v1::Prompt::State becomes = v1::Prompt::SENDING) {
  w.store = [&w, waiting, becomes](const v1::Command& c) {
    v1::Reply r;
    *r.mutable_conversation()->mutable_conversation() = w.row;
    auto id = c.report_conversation().sending();
    if (id == domain::oldest_prompt)
      id = waiting;
    if (!id.empty()) {
      *r.mutable_conversation()->mutable_prompt() = w.prompt(id, becomes);
      r.mutable_conversation()->mutable_prompt()->clear_text();
    }
    return r;
  };
}

} // namespace

TEST_CASE("a prompt that comes to an idle agent is asked for before its row is heard of and given once it is") {
  told_world w;
  w.begin();
  w.connect();
  store_with(w, "p");
  w.talk->prompt_comes();
  w.settle();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().sending() == domain::oldest_prompt);
  CHECK(w.count("prompt p") == 0);
  // As it was stored, and as it was before the driver may have it: the words alone are not the intent.
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), w.revision);
  w.settle();
  CHECK(w.count("prompt p") == 0);
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), w.revision);
  w.settle();
  CHECK(w.count("prompt p") == 1);
  CHECK(w.told.back().prompt().text() == "words of p");
  CHECK(w.commands.size() == 1);
  CHECK_FALSE(w.talk->is_idle());
}

TEST_CASE("a prompt whose row is heard of before the answer is given with the answer") {
  told_world w;
  w.begin();
  w.connect();
  store_with(w, "p");
  w.talk->prompt_comes();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), 1);
  w.settle();
  CHECK(w.commands.size() == 1);
  CHECK(w.count("prompt p") == 1);
}

TEST_CASE("a prompt that comes is asked for by itself when it was not given with its row") {
  told_world w;
  w.begin();
  w.connect();
  SUBCASE("since the command was refused") {
    w.talk->prompt_comes();
    w.settle();
    REQUIRE(w.commands.size() == 1);
    store_with(w, "p");
    w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), ++w.revision);
  }
  SUBCASE("since another one was before it") {
    store_with(w, "other");
    w.talk->prompt_comes();
    w.settle();
    REQUIRE(w.commands.size() == 1);
    w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), ++w.revision);
    w.settle();
    CHECK(w.count("prompt p") == 0);
    w.talk->prompt_is(w.prompt("other", v1::Prompt::SENDING), ++w.revision);
    w.settle();
    CHECK(w.count("prompt other") == 1);
    CHECK(w.commands.size() == 1);
    w.talk->prompt_is(w.prompt("other", v1::Prompt::CONSUMED), ++w.revision);
  }
  w.settle();
  CHECK(w.count("prompt p") == 1);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().sending() == "p");
}

TEST_CASE("nothing is asked for when a prompt comes that cannot be given now") {
  told_world w;
  SUBCASE("in a turn") {
    w.row.set_state(v1::Conversation::RUNNING);
    w.row.set_open_turn("1");
    w.begin();
    w.connect();
  }
  SUBCASE("while the queue is held") {
    w.row.set_held(true);
    w.begin();
    w.connect();
  }
  SUBCASE("to a conversation that was stopped") {
    w.row.set_state(v1::Conversation::ENDED);
    w.begin();
    w.connect();
  }
  SUBCASE("before the driver answers") { w.begin(); }
  SUBCASE("behind another one") {
    w.begin();
    w.connect();
    w.talk->prompt_is(w.prompt("other", v1::Prompt::SUBMITTED), 1);
  }
  SUBCASE("after the driver's end") {
    w.begin();
    w.connect();
    w.talk->driver_ended("gone");
  }
  w.settle();
  w.commands.clear();
  w.talk->prompt_comes();
  w.settle();
  CHECK(w.commands.empty());
}

TEST_CASE("an agent that is idle for long ends and its driver stays") {
  told_world w;
  w.begin();
  w.connect();
  w.talk->rest();
  w.settle();
  REQUIRE(w.count("stop") == 1);
  CHECK(w.told.back().stop().agent_only());
  w.row.set_state(v1::Conversation::SUSPENDED);
  w.row_changed();
  CHECK_FALSE(w.talk->is_idle());
  CHECK(w.talk->is_resting());
  w.talk->end();
  w.settle();
  REQUIRE(w.count("stop") == 2);
  CHECK_FALSE(w.told.back().stop().agent_only());
}

TEST_CASE("a turn that the row has ended does not keep the queue waiting when its end is lost with a damaged log") {
  told_world w;
  w.row.set_driver_seq(7);
  log_tail tail;
  tail.seq = 5;
  tail.open_turn = "1";
  tail.open_turn_seq = 3;
  w.begin(tail);
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), 0);
  w.seq = 7;
  w.connect();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().sending() == "p");
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

TEST_CASE("what was begun and asked in an earlier generation is ended once") {
  log_tail tail;
  v1::Conversation row;
  row.set_id("c");
  row.set_generation(2);
  const auto add = [&](v1::ConversationItemKind kind, const std::string& id, const std::string& state, bool last) {
    v1::ConversationItem i;
    i.set_kind(kind);
    i.set_id(id);
    i.set_state(state);
    i.set_last(last);
    if (state == "asked")
      i.set_approval_id("a-" + id);
    take_frame(tail, 1,
               {.generation = 1, .driver_seq = tail.seq + 1, .at_ms = 1, .kind = static_cast<std::uint32_t>(kind), .body = i.SerializeAsString()});
  };
  add(v1::CONVERSATION_TURN, "1", "started", true);
  add(v1::CONVERSATION_PERMISSION, "r", "asked", true);
  add(v1::CONVERSATION_TEXT, "t", "", false);
  std::vector<std::string> out;
  for (const auto& f : unfinished(row, {1, tail, 2}, {}, "gone", 77)) {
    v1::ConversationItem i;
    REQUIRE(i.ParseFromString(f.body));
    CHECK(f.generation == 1);
    CHECK(i.at_ms() == 77);
    CHECK(i.last());
    out.push_back(i.id() + " " + i.state());
    take_frame(tail, 1, f);
  }
  CHECK(out == std::vector<std::string>{"t ", "r withdrawn", "1 failed"});
  CHECK(unfinished(row, {1, tail, 2}, {}, "gone", 78).empty());
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

TEST_CASE("a prompt that the agent never gets is a notice with its words") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.connect();
  internal::FromDriver f;
  f.mutable_prompt_state()->set_id("p");
  f.mutable_prompt_state()->set_state(internal::PromptState::REFUSED);
  f.mutable_prompt_state()->set_text("the agent ended");
  w.says(f);
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "undelivered");
  CHECK(w.items[0].prompts(0) == "p");
  CHECK(w.items[0].body() == "the agent ended: words of p");
}

TEST_CASE("a prompt whose outcome nobody knows is a notice when its driver has ended") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.talk->prompt_is(w.prompt("waits", v1::Prompt::QUEUED), 0);
  w.connect();
  w.talk->driver_ended("it was killed", 5);
  w.settle();
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "outcome-unknown");
  CHECK(w.items[0].prompts(0) == "p");
}
