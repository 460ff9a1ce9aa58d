// What a driver is told of interrupts, rules, locks and options, and when.
#include "tests/unit/fabric/conversations/told_world.hpp"

using namespace swarm;
using namespace swarm::test;

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
