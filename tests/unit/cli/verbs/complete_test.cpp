#include "cli/verb.hpp"
#include "tests/unit/cli/fake_node.hpp"

#include <sstream>

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;
using test::session;

namespace {

/// What is offered for the last word, without the remarks.
std::vector<std::string> offered(test::cli& ctl, std::vector<std::string> words) {
  words.insert(words.begin(), {"__complete", "--"});
  REQUIRE(ctl(words) == code::ok);
  REQUIRE(ctl.screen.err.empty());
  std::vector<std::string> out;
  std::istringstream lines{ctl.screen.out};
  for (std::string line; std::getline(lines, line);)
    out.push_back(line.substr(0, line.find('\t')));
  return out;
}

using list = std::vector<std::string>;

bool has(const list& all, const std::string& word) { return std::find(all.begin(), all.end(), word) != all.end(); }

v1::Task task(const std::string& id, v1::TaskStatus status, const std::string& title) {
  v1::Task t;
  t.set_id(id);
  t.set_status(status);
  t.set_title(title);
  return t;
}

} // namespace

TEST_CASE("the verbs, those below them and their flags are offered where they can stand") {
  test::cli ctl;
  CHECK(offered(ctl, {"disp"}) == list{"dispatch"});
  CHECK(offered(ctl, {"--json", "pty", "at"}) == list{"attach"});
  CHECK(offered(ctl, {"list-inst"}) == list{"list-instances"});
  CHECK(offered(ctl, {"kv", "set", "--if"}) == list{"--if-revision"});
  CHECK(offered(ctl, {"lock", "--no-auto"}) == list{"--no-autostart"});
  CHECK(offered(ctl, {"help", "disp"}) == list{"dispatch"});
  CHECK(offered(ctl, {"scope", "share", "--he"}) == list{"--help"});
  CHECK(has(offered(ctl, {"tasks", ""}), "--status"));
  CHECK(!has(offered(ctl, {""}), "__complete"));
  CHECK(offered(ctl, {"dispatch", ""}).empty());
  CHECK(offered(ctl, {"no-such-verb", "x"}).empty());
  for (const auto& v : all_verbs()) {
    CAPTURE(v.name);
    CHECK(has(offered(ctl, {v.name}), v.name) == !v.internal);
  }
}

TEST_CASE("words with a fixed choice are offered, also after = and after a comma") {
  test::cli ctl;
  CHECK(offered(ctl, {"tasks", "--status", ""}).size() == 8);
  CHECK(offered(ctl, {"tasks", "--status", "cl"}) == list{"claimed"});
  CHECK(offered(ctl, {"tasks", "--status=op"}) == list{"--status=open"});
  CHECK(offered(ctl, {"tasks", "--status", "open,fa"}) == list{"open,failed"});
  CHECK(offered(ctl, {"update-task", "x", "--status", ""}) == list{"done", "failed", "cancelled"});
  CHECK(offered(ctl, {"dispatch", "t", "--harness", "cl"}) == list{"claude"});
  CHECK(offered(ctl, {"completion", ""}) == list{"bash", "zsh", "fish"});
  CHECK(ctl.node.queries.empty());
}

TEST_CASE("what can be answered forgotten and driven is offered where a conversation is named") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_approvals()) {
      auto& one = *a.mutable_approvals()->add_approvals();
      one.set_id("abcd1234-0000-4000-8000-000000000001");
      one.set_title("Bash: make");
      one.set_subject("conversation/c0ffee00");
      for (const auto* o : {"allow", "deny"})
        one.add_options(o);
    }
    if (q.has_list_conversations())
      a.mutable_conversations()->add_conversations()->add_allowed("Read");
    return a;
  };
  CHECK(offered(ctl, {"decide", "abcd"}) == list{"abcd1234"});
  CHECK(ctl.screen.out.find("Bash: make") != std::string::npos);
  CHECK(offered(ctl, {"decide", "abcd1234", ""}) == list{"allow", "deny"});
  CHECK(offered(ctl, {"chat", "set", "c0ffee", "--forget", ""}) == list{"Read"});
  CHECK(offered(ctl, {"chat", "set", "c0ffee", "--mode", "pl"}) == list{"plan"});
  CHECK(offered(ctl, {"chat", "new", "--harness", ""}) == list{"claude"});
}

TEST_CASE("tasks are offered by the beginning of their id, open ones first, with their title") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    REQUIRE(q.has_task_snapshot());
    CHECK(q.scope() == "web");
    auto& out = *a.mutable_snapshot();
    *out.add_tasks() = task("aaaa0000-0000-4000-8000-000000000001", v1::DONE, "over");
    *out.add_tasks() = task("aaaa1111-0000-4000-8000-000000000001", v1::OPEN, "to\tdo\x1b[2J");
    return a;
  };
  CHECK(offered(ctl, {"--scope", "web", "logs", ""}) == list{"aaaa1111", "aaaa0000", "@last"});
  CHECK(ctl.screen.out.starts_with("aaaa1111\topen: to do\\x1b[2J\n"));
  CHECK(offered(ctl, {"--scope=web", "logs", "aaaa1111-"}) == list{"aaaa1111-0000-4000-8000-000000000001"});
  CHECK(offered(ctl, {"--scope", "web", "dispatch", "x", "--depends-on", "aaaa1111,aaaa0"}) == list{"aaaa1111,aaaa0000"});
  CHECK(!ctl.node.may_start);
}

TEST_CASE("sessions are offered by what only their label has and by id, and words that a shell would read otherwise by none") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) {
    v1::Answer a;
    auto one = session("11111111-0000-4000-8000-000000000001"), two = session("22222222-0000-4000-8000-000000000001");
    one.set_label("identity:work name:ann");
    two.set_label("identity:work $(reboot) -x");
    *a.mutable_sessions()->add_sessions() = one;
    *a.mutable_sessions()->add_sessions() = two;
    return a;
  };
  CHECK(offered(ctl, {"--as", ""}) == list{"name:ann", "11111111", "22222222"});
  CHECK(offered(ctl, {"send", "--to", "name"}) == list{"name:ann"});
}

TEST_CASE("nodes and contexts are offered by name") {
  test::cli ctl;
  ctl.node.view.add_nodes()->mutable_info()->set_node_name("gpu-box");
  auto& left = *ctl.node.view.add_nodes();
  left.mutable_info()->set_node_name("gone");
  left.set_link(v1::ClusterNode::REVOKED);
  CHECK(offered(ctl, {"dispatch", "x", "--on", ""}) == list{"gpu-box"});
  CHECK(offered(ctl, {"drain", "g"}) == list{"gpu-box"});
  CHECK(offered(ctl, {"context", "use", ""}) == list{"default"});
}

TEST_CASE("files are the shell's matter, and so is the program after --, which no verb of swarmctl is offered for") {
  test::cli ctl;
  CHECK(offered(ctl, {"lock", ""}) == list{":files"});
  CHECK(offered(ctl, {"unlock", "s"}) == list{":files"});
  CHECK(offered(ctl, {"backup", ""}) == list{":files"});
  CHECK(offered(ctl, {"restore", ""}) == list{":files"});
  CHECK(offered(ctl, {"pty", "new", "--directory", ""}) == list{":directories"});
  CHECK(offered(ctl, {"dispatch", "t", "--harness", "exec", "--", "lo"}) == list{":program"});
  CHECK(offered(ctl, {"pty", "new", "--", "make", "te"}) == list{":program"});
  CHECK(offered(ctl, {"kv", "set", "k", "--", "--t"}).empty());
  CHECK(offered(ctl, {"lock", "--", "-"}) == list{":files"});
}

TEST_CASE("completion says nothing when there is no node to ask, and asks the one that the words name") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query&) -> v1::Answer { throw failure(code::no_node, "no node runs"); };
  CHECK(offered(ctl, {"logs", ""}).empty());
  CHECK(offered(ctl, {"--timeout", "nonsense", "logs", ""}).empty());
  CHECK(offered(ctl, {"--context", "nowhere", "tasks", "--status", ""}).empty());
}

TEST_CASE("conversations are offered by the beginning of their id, those that have ended last") {
  test::cli ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    REQUIRE(q.has_list_conversations());
    auto& ended = *a.mutable_conversations()->add_conversations();
    ended.set_id("aaaa0000-0000-4000-8000-000000000001");
    ended.set_state(v1::Conversation::ENDED);
    auto& idle = *a.mutable_conversations()->add_conversations();
    idle.set_id("bbbb0000-0000-4000-8000-000000000001");
    idle.set_state(v1::Conversation::IDLE);
    return a;
  };
  CHECK(offered(ctl, {"--scope", "web", "chat", "send", ""}) == list{"bbbb0000", "aaaa0000", "@last"});
}
