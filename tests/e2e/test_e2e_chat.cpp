// swarmctl chat and what belongs to it, as scripts and people at terminals use it. A script takes the agent's part: it does what its prompts say.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

#include "tests/support/json_schema.hpp"
#include "tests/support/node_client.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;

namespace {

using words = std::vector<std::string>;

/// Speaks as Claude Code does. Prompts: `ask` wants to run a command, `big` to write a file of 40 000 bytes, `questions` asks two, `hold` works until
/// it is interrupted, `exit` ends it.
constexpr const char* scripted_agent = R"sh(#!/bin/bash
session=5e551044-0000-4000-8000-$(printf %012d $$)
of='"parent_tool_use_id":null,"session_id":"'$session'"'
n=$$ cents=0
say() { printf '%s\n' "$1"; }
hear() { IFS= read -r line || exit 0; printf '%s\n' "$line" >> "$HEARD"; }
text() { n=$((n+1)); say '{"type":"assistant","message":{"id":"m'$n'","role":"assistant","content":[{"type":"text","text":"'"$1"'"}]},'$of'}'; }
done_with() { say '{"type":"control_response","response":{"subtype":"success","request_id":"'"$1"'","response":'"$2"'}}'; }
lifecycle() { say '{"type":"command_lifecycle","command_uuid":"'$prompt'","state":"'$1'","session_id":"'$session'"}'; }
request_of() { [[ $1 =~ \"request_id\":\"([^\"]*)\" ]]; request=${BASH_REMATCH[1]}; }
# Waits for the answer to $1; fails when somebody interrupts.
wait_for() {
  while hear; do
    case $line in
      *'"subtype":"interrupt"'*) request_of "$line"; done_with "$request" '{"still_queued":[]}'
        [[ $1 ]] && say '{"type":"control_cancel_request","request_id":"'$1'"}'
        return 1;;
      *control_response*) request_of "$line"; [[ $request == "$1" ]] && return 0;;
    esac
  done
}
tool() { # NAME INPUT
  n=$((n+1)); call=toolu_$n
  say '{"type":"assistant","message":{"id":"m'$n'","role":"assistant","content":[{"type":"tool_use","id":"'$call'","name":"'$1'","input":'"$2"'}]},'$of'}'
  say '{"type":"control_request","request_id":"ask-'$n'","request":{"subtype":"can_use_tool","tool_name":"'$1'","input":'"$2"',"tool_use_id":"'$call'"}}'
  wait_for ask-$n || return 1
  [[ $line == *'"behavior":"allow"'* ]] && verdict=allowed || verdict=denied
  say '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"'$call'","content":"'$verdict'","is_error":false}]},'$of'}'
}
turn() {
  lifecycle queued; lifecycle started
  say '{"type":"system","subtype":"init","session_id":"'$session'","model":"scripted","permissionMode":"default","cwd":"/"}'
  ended=''
  case $said in
    ask*) tool Bash '{"command":"make test"}' && text "the command was $verdict" || ended=',"terminal_reason":"aborted_tools"';;
    big) tool Write '{"file_path":"/tmp/x","content":"'"$(printf 'x%.0s' {1..40000})"'"}' && text "the file was $verdict";;
    questions) tool AskUserQuestion "$(cat "$QUESTIONS")" && text 'thank you' || ended=',"terminal_reason":"aborted_tools"';;
    hold) text 'working on it'; wait_for '' || ended=',"terminal_reason":"aborted_streaming"';;
    exit) exit 3;;
    *) text "heard: $said";;
  esac
  cents=$((cents+1))
  [[ $ended ]] && error=true || error=false
  say '{"type":"result","subtype":"success","is_error":'$error',"session_id":"'$session'","total_cost_usd":0.0'$cents',"usage":{"input_tokens":10,"output_tokens":5},"duration_ms":5'$ended'}'
  [[ $ended ]] && lifecycle cancelled || lifecycle completed
}
while hear; do
  case $line in
    *'"subtype":"initialize"'*) request_of "$line"
      done_with "$request" '{"hooks_applied":true,"hook_on_failure_supported":true,"claude_code_version":"9.9","current_permission_mode":"default","models":[],"commands":[]}';;
    *control_request*) request_of "$line"; done_with "$request" '{"still_queued":[]}';;
    *'"type":"user"'*)
      [[ $line =~ \"uuid\":\"([^\"]*)\" ]]; prompt=${BASH_REMATCH[1]}
      [[ $line =~ (\"content\"|\"text\"):\"(([^\"\\]|\\.)*)\" ]]; said=${BASH_REMATCH[2]}
      turn;;
  esac
done
)sh";

constexpr const char* two_questions =
  R"({"questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"Red","description":"warm"},)"
  R"({"label":"Blue, as the sky above the sea on a clear day in the middle of a long summer","description":"cold"}],"multiSelect":false},)"
  R"({"question":"Which sizes?","header":"Sizes","options":[{"label":"S","description":"small"},{"label":"L","description":"large"}],"multiSelect":true}]})";

/// docs/schemas says so.
void fits(const json& value, const std::string& schema) {
  const auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  static json_schemas schemas{fs::path{source} / "docs" / "schemas"};
  const auto objections = schemas.objections(value, schema);
  CHECK_MESSAGE(objections.empty(), json(objections).dump() << value.dump());
}

struct chat_node {
  test_node node;
  fs::path heard = fs::path{node.work()} / "heard";
  fs::path agent = fs::path{node.work()} / "agent";

  chat_node() {
    std::ofstream{fs::path{node.work()} / "questions"} << two_questions;
    std::string script{scripted_agent};
    script.insert(script.find('\n') + 1, "HEARD=" + heard.string() + " QUESTIONS=" + (fs::path{node.work()} / "questions").string() + "\n");
    std::ofstream{agent} << script;
    fs::permissions(agent, fs::perms::owner_all);
    node.start();
  }
  /// Its id.
  std::string conversation(const std::string& prompt = {}, words more = {}) {
    words line{"chat", "new", "--harness", "claude", "--detach"};
    line.insert(line.end(), more.begin(), more.end());
    if (!prompt.empty())
      line.push_back(prompt);
    line.insert(line.end(), {"--", agent.string()});
    return node.ctl_json(line).at("id");
  }
  json row(const std::string& id) {
    for (const auto& c : node.ctl_json({"chat", "list", "--all"}))
      if (c.at("id") == id)
        return c;
    return {};
  }
  bool reaches(const std::string& id, const std::string& state) {
    return eventually([&] { return row(id).at("state") == state && row(id).at("queued") == 0; });
  }
  std::vector<json> read(words more) {
    words line{"chat", "read", "--json"};
    line.insert(line.end(), more.begin(), more.end());
    const auto r = node.ctl(line);
    CHECK_MESSAGE(r.status == 0, r.err);
    std::vector<json> out;
    for (const auto& text : lines_of(r.out)) {
      out.push_back(json::parse(text));
      fits(out.back(), "chat-read.json");
    }
    return out;
  }
  json open_approval() {
    json found;
    REQUIRE(eventually([&] {
      const auto all = node.ctl_json({"approvals"});
      if (all.size() == 1)
        found = all[0];
      return all.size() == 1;
    }));
    return found;
  }
};

/// "kind state", or the kind alone.
std::string kind_of(const json& line) {
  const auto kind = line.at("kind").get<std::string>();
  return line.contains("state") ? kind + " " + line["state"].get<std::string>() : kind;
}

std::size_t count(const std::vector<json>& lines, const std::string& kind) {
  return static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return kind_of(l) == kind; }));
}

json only(const std::vector<json>& lines, const std::string& kind) {
  CHECK(count(lines, kind) == 1);
  for (const auto& l : lines)
    if (kind_of(l) == kind)
      return l;
  return {};
}

std::unique_ptr<terminal_process> attach(const chat_node& c, const std::string& id, const words& flags = {}) {
  words line{program("swarmctl").string()};
  line.insert(line.end(), flags.begin(), flags.end());
  line.insert(line.end(), {"chat", id});
  auto out = std::make_unique<terminal_process>(line, c.node.env(), c.node.work());
  REQUIRE(out->read_until("^D leaves"));
  return out;
}

} // namespace

TEST_CASE("what the agent of a conversation asks by ask_person is asked in its terminal and names the conversation") {
  chat_node c;
  const auto id = c.conversation("hello");
  REQUIRE(c.reaches(id, "idle"));
  const auto screen = attach(c, id);
  REQUIRE(screen->read_until("idle> "));
  node_client client{c.node};
  auto q = client.query();
  q.mutable_list_conversations()->set_id(id);
  const auto row = client.ask(q).conversations().conversations(0);
  auto asks = client.command(row.session_id());
  auto& r = *asks.mutable_request_approval();
  r.set_subject("session/" + row.session_id());
  r.set_kind(v1::Approval::QUESTION);
  r.set_title("Deploy now?");
  r.add_options("now");
  r.add_options("later");
  const auto made = client.execute(asks);
  REQUIRE_MESSAGE(made.has_approval(), made.refusal().text());
  REQUIRE(screen->read_until("? Deploy now?"));
  CHECK(c.open_approval().at("conversation") == id);
  CHECK(c.node.ctl({"approvals"}).out.find("conversation " + id.substr(0, 8) + " asks: Deploy now?") != std::string::npos);
  REQUIRE(screen->read_until("2 later"));
  REQUIRE(eventually([&] {
    screen->type("2");
    if (screen->read_until("later? ", std::chrono::seconds{2}))
      return true;
    screen->type("\x15");
    return false;
  }));
  CHECK(screen->read_until("later by a person"));
  CHECK(c.node.ctl_json({"approvals"}).empty());
}

TEST_CASE("a conversation starts the program that SWARM_HARNESS_CLAUDE names in place of the agent") {
  chat_node c;
  run_options wrapped;
  wrapped.env = {{"SWARM_HARNESS_CLAUDE", c.agent.string()}};
  const std::string id = c.node.ctl_json({"chat", "new", "--harness", "claude", "--detach", "hello"}, wrapped).at("id");
  REQUIRE(c.reaches(id, "idle"));
  CHECK(only(c.read({id}), "text").at("text") == "heard: hello");
  wrapped.env = {{"SWARM_HARNESS_CLAUDE", "/nope/claude"}};
  CHECK(c.node.ctl({"chat", "new", "--harness", "claude", "--detach", "hello"}, wrapped).status == 1);
}

TEST_CASE("a node that takes agents into conversations by itself takes the permissions of a dispatch that does not say so") {
  chat_node c;
  const words line{"dispatch", "hello", "--harness", "claude", "--permissions", "plan", "--detach", "--json"};
  run_options wrapped;
  wrapped.env = {{"SWARM_HARNESS_CLAUDE", c.agent.string()}};
  const auto refused = c.node.ctl(line, wrapped);
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("Add --structured") != std::string::npos, refused.err);
  REQUIRE(c.node.ctl({"down", "--yes"}).status == 0);
  std::ofstream{c.node.dir().config_file()} << "[workers]\nstructured = true\n";
  REQUIRE(c.node.ctl({"up"}).status == 0);
  REQUIRE(c.node.ctl(line, wrapped).status == 0);
  const auto all = c.node.ctl_json({"chat", "list", "--all"});
  REQUIRE(all.size() == 1);
  CHECK(all[0].at("permissions") == "plan"); // which holds also after the task
}

TEST_CASE("chat set without an option shows what is set and says when nothing was to be taken back") {
  chat_node c;
  const auto id = c.conversation();
  REQUIRE(c.node.ctl({"chat", "set", id, "--allow", "Read"}).status == 0);
  const auto shown = c.node.ctl({"chat", "set", id});
  CHECK(shown.status == 0);
  CHECK(shown.out.find("permissions ask\n  allowed unasked: Read\n") != std::string::npos);
  CHECK(c.node.ctl_json({"chat", "set", id}).at("allowed") == json::array({"Read"}));
  const auto nothing = c.node.ctl({"chat", "set", id, "--forget", "Readx"});
  CHECK_MESSAGE(nothing.err.find("nothing was taken back by --forget Readx") != std::string::npos, nothing.err);
  CHECK(c.node.ctl({"chat", "set", id, "--forget", "Read"}).err.empty());
}

TEST_CASE("down names the conversations that are at work, asks a person at a terminal, and says whose turn it has ended") {
  chat_node c;
  const auto id = c.conversation("ask me"), idle = c.conversation();
  REQUIRE(c.reaches(id, "blocked"));
  const auto named = id.substr(0, 8) + "  claude (asks somebody)  ask me";
  terminal_process no{{program("swarmctl").string(), "down"}, c.node.env(), c.node.work()};
  REQUIRE(no.read_until("End them? [y/N]"));
  CHECK(no.screen().find("1 conversation is at work, and its turn fails:") != std::string::npos);
  CHECK(no.screen().find(named) != std::string::npos);
  CHECK(no.screen().find(idle.substr(0, 8)) == std::string::npos);
  no.type("n\r");
  CHECK(no.finish() == 1);
  CHECK(c.row(id).at("state") == "blocked");
  const auto down = c.node.ctl({"down"});
  CHECK(down.status == 0);
  CHECK_MESSAGE(down.err.find("ended the turn of 1 conversation:\n  " + named) != std::string::npos, down.err);
}

TEST_CASE("a script starts a conversation sends to it reads on from a cursor renames exports and deletes it") {
  chat_node c;
  const auto id = c.conversation("hello");
  REQUIRE(c.reaches(id, "idle"));
  const auto before = c.read({id});
  CHECK(only(before, "text").at("text") == "heard: hello");
  CHECK(kind_of(before.back()) == "turn ended");
  CHECK(before[before.size() - 2].at("kind") == "usage");

  const auto sent = c.node.ctl_json({"chat", "send", id, "and", "again"});
  CHECK(sent.at("prompt").get<std::string>().size() == 36);
  CHECK(std::set<std::string>{"queued", "sending", "submitted"}.contains(sent.at("state")));
  REQUIRE(eventually([&] { return c.row(id).at("usage").at("turns") == 2; }));
  for (const auto& line : before) {
    // Whatever line a reader stops at, it goes on behind that one.
    const auto rest = c.read({id, "--from", line.at("cursor")});
    const auto after = static_cast<std::size_t>(&line - before.data()) + 1;
    CHECK(count(rest, "turn ended") == (after < before.size() ? 2 : 1));
    CHECK(count(rest, "usage") == (after + 1 < before.size() ? 2 : 1));
  }
  const auto later = c.read({id, "--from", before.back().at("cursor")});
  CHECK(only(later, "text").at("text") == "heard: and again");
  CHECK(only(later, "turn started").at("prompts") == json::array({sent.at("prompt")}));

  const auto prompts = c.node.ctl_json({"chat", "prompts", id});
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[1].at("id") == sent.at("prompt"));
  CHECK(prompts[1].at("state") == "consumed");
  CHECK(c.node.ctl_json({"chat", "set", id, "--permissions", "plan", "--allow", "Read"}).at("permissions") == "plan");
  CHECK(c.row(id).at("allowed") == json::array({"Read"}));
  CHECK(c.node.ctl_json({"chat", "rename", id, "another", "title"}).at("title") == "another title");
  const auto list = c.node.ctl({"chat", "list"}).out;
  CHECK(list.find("another title") != std::string::npos);
  CHECK(list.find("$0.0200") != std::string::npos);
  const auto exported = c.node.ctl_json({"chat", "export", id});
  CHECK(exported.at("conversation").at("id") == id);
  CHECK(exported.at("items").size() == before.size() + later.size());
  CHECK(c.node.ctl({"chat", "export", id}).out.find("heard: and again") != std::string::npos);
  const auto used = c.node.ctl_json({"usage"});
  CHECK(used.at("total").at("turns") == 2);
  CHECK(used.at("total").at("cost_usd").get<double>() == doctest::Approx(0.02));
  CHECK(used.at("conversations")[0].at("id") == id);

  CHECK(c.node.ctl({"chat", "delete", id, "--yes"}).status == 1); // it has not ended
  CHECK(c.node.ctl_json({"chat", "stop", id}).at("state") == "ended");
  REQUIRE(eventually([&] { return c.node.ctl({"chat", "delete", id, "--yes"}).status == 0; }));
  CHECK(c.node.ctl_json({"chat", "list", "--all"}).empty());
  CHECK(c.node.ctl({"chat", "read", id}).status == 1);
  CHECK(c.node.ctl_json({"usage"}).at("total").at("turns") == 2);
}

TEST_CASE("without a terminal chat new follows the first turn and ends as it does") {
  chat_node c;
  const words line{"chat", "new", "--harness", "claude"};
  auto with = [&](const std::string& prompt) {
    auto out = line;
    out.insert(out.end(), {prompt, "--", c.agent.string()});
    return out;
  };
  auto r = c.node.ctl(with("hello"));
  CHECK(r.status == 0);
  CHECK(r.out == "heard: hello\n");
  auto json_line = with("hello");
  json_line.insert(json_line.begin() + 2, "--json");
  const auto followed = json::parse(c.node.ctl(json_line).out);
  fits(followed, "chat-new.json");
  CHECK(followed.at("failed") == false);
  r = c.node.ctl(with("exit"));
  CHECK(r.status == 1);
  CHECK(r.out.empty());
}

TEST_CASE("a permission is decided with the digest of what was seen and never with another one") {
  chat_node c;
  const auto id = c.conversation("ask");
  const auto open = c.open_approval();
  CHECK(open.at("kind") == "command");
  CHECK(open.at("conversation") == id);
  CHECK(open.at("state") == "open");
  CHECK(json::parse(open.at("body").get<std::string>()).at("command") == "make test");
  CHECK(open.at("options") == json::array({"allow", "deny", "always"}));
  CHECK(c.row(id).at("state") == "blocked");
  const auto approval = open.at("id").get<std::string>(), digest = open.at("digest").get<std::string>();
  // A script that has not seen it is told what to repeat.
  auto r = c.node.ctl({"decide", approval, "allow"});
  CHECK(r.status == 2);
  CHECK(r.err.find("--digest " + digest) != std::string::npos);
  CHECK(c.node.ctl({"decide", approval, "allow", "--digest", std::string(64, '0')}).status == 1);
  CHECK(c.node.ctl({"decide", approval, "allow", "--digest", digest, "--input", "[1]"}).status == 2);
  CHECK(c.open_approval().at("id") == approval);
  CHECK(c.node.ctl_json({"decide", approval, "deny", "--digest", digest, "--message", "use the other one"}).at("decision") == "deny");
  CHECK(c.node.ctl({"decide", approval, "allow", "--digest", digest}).status == 1); // the first one counts
  REQUIRE(c.reaches(id, "idle"));
  const auto lines = c.read({id});
  CHECK(only(lines, "permission asked").at("approval") == approval);
  CHECK(only(lines, "permission deny").at("id") == only(lines, "permission asked").at("id"));
  CHECK(only(lines, "text").at("text") == "the command was denied");
  CHECK(c.node.ctl_json({"approvals"}).empty());
  const auto decided = c.node.ctl_json({"approvals", "--all"})[0];
  CHECK(decided.at("delivery") == "delivered");
  CHECK(decided.at("decided_by") == json{{"kind", "person"}, {"id", nullptr}});
  fits(decided, "rows/approval.json");
  CHECK(c.node.ctl({"approvals", "--all"}).out.find("deny by a person\n") != std::string::npos);
  CHECK(file_text(c.heard).find("use the other one") != std::string::npos);
}

TEST_CASE("a question of several parts takes an answer to each of them and nothing less") {
  chat_node c;
  const auto id = c.conversation("questions");
  const auto open = c.open_approval();
  CHECK(open.at("kind") == "question");
  const auto approval = open.at("id").get<std::string>(), digest = open.at("digest").get<std::string>();
  auto decide = [&](words answers) {
    words line{"decide", approval, "answer", "--digest", digest};
    for (const auto& a : answers)
      line.insert(line.end(), {"--answer", a});
    return c.node.ctl(line);
  };
  CHECK(decide({}).status != 0);
  CHECK(decide({"Colour=Red"}).status != 0);
  CHECK(decide({"Which colour?=Red"}).status != 0);
  CHECK(c.open_approval().at("id") == approval);
  const auto r = decide({"Which colour?=Red", "Which sizes?=S, L"});
  CHECK_MESSAGE(r.status == 0, r.err);
  REQUIRE(c.reaches(id, "idle"));
  CHECK(file_text(c.heard).find(R"("answers":{"Which colour?":"Red","Which sizes?":"S, L"})") != std::string::npos);
  CHECK(only(c.read({id}), "text").at("text") == "thank you");
}

TEST_CASE("an interrupt ends the turn and holds what waits until somebody says more or resumes") {
  chat_node c;
  const auto id = c.conversation("hold");
  REQUIRE(eventually([&] { return count(c.read({id}), "text") == 1; }));
  c.node.ctl_json({"chat", "send", id, "later"});
  CHECK(c.node.ctl_json({"chat", "interrupt", id}).at("held") == true);
  REQUIRE(eventually([&] { return c.row(id).at("state") == "idle"; }));
  CHECK(c.row(id).at("queued") == 1);
  auto lines = c.read({id});
  CHECK(only(lines, "turn ended").at("interrupted") == true);
  CHECK(c.node.ctl_json({"chat", "resume", id}).at("held") == false);
  REQUIRE(eventually([&] { return count(c.read({id}), "turn ended") == 2; }));
  CHECK(c.read({id, "--from", lines.back().at("cursor")}).back().at("kind") == "turn");
  // Nothing runs: that is no mistake.
  CHECK(c.node.ctl({"chat", "interrupt", id}).status == 0);
}

TEST_CASE("who follows a conversation hears the end of its turn when somebody stops it and can go on when it is resumed") {
  chat_node c;
  const auto id = c.conversation("hold");
  auto follower = c.node.ctl_start({"chat", "read", id, "--follow", "--json"});
  REQUIRE(follower.read_until("working on it"));
  CHECK(c.node.ctl_json({"chat", "stop", id}).at("state") == "ended");
  const auto r = follower.finish();
  CHECK(r.status == 0);
  const auto last = json::parse(lines_of(r.out).back());
  CHECK(last.at("kind") == "turn");
  CHECK(last.at("state") != "started");
  CHECK(c.node.ctl({"chat", "send", id, "x"}).status == 1);
  REQUIRE(eventually([&] { return c.node.ctl({"chat", "resume", id}).status == 0; }));
  c.node.ctl_json({"chat", "send", id, "once more"});
  REQUIRE(eventually([&] { return c.read({id}).back().at("kind") == "turn" && c.row(id).at("state") == "idle"; }));
  CHECK(c.row(id).at("generation") == 2);
}

TEST_CASE("two people attached to a conversation see the same and what one decides the other sees decided") {
  chat_node c;
  const auto id = c.conversation("hello");
  REQUIRE(c.reaches(id, "idle"));
  auto ada = attach(c, id), bob = attach(c, id);
  for (auto* person : {ada.get(), bob.get()}) {
    REQUIRE(person->read_until("heard: hello"));
    REQUIRE(person->read_until("idle> "));
  }
  ada->type("ask me\r");
  for (auto* person : {ada.get(), bob.get()}) {
    REQUIRE(person->read_until("command: make test"));
    REQUIRE(person->read_until("a allow"));
  }
  // A key counts only after the question could have been read, so it is typed until it does; it has to come alone.
  REQUIRE(eventually([&] {
    bob->type("a");
    if (bob->read_until("allow? ", std::chrono::seconds{2}))
      return true;
    bob->type("\x15");
    return false;
  }));
  CHECK(eventually([&] { return c.node.ctl_json({"approvals"}).empty(); })); // without another key
  REQUIRE(ada->read_until("(decided elsewhere)"));
  for (auto* person : {ada.get(), bob.get()})
    REQUIRE(person->read_until("the command was allowed"));
  bob->type("\x15");
  bob->type("\x04");
  CHECK(bob->finish() == 0);
  CHECK(bob->screen().find("which goes on; come back: swarmctl chat") != std::string::npos);
  REQUIRE(c.reaches(id, "idle"));
  ada->type("hold\r");
  REQUIRE(ada->read_until("working on it"));
  ada->type("\x03");
  REQUIRE(ada->read_until("turn interrupted"));
  REQUIRE(c.reaches(id, "idle"));
  ada->type("\x04");
  CHECK(ada->finish() == 0);
  CHECK(ada->screen().find("sending what you typed") == std::string::npos); // all of it was sent long before
  CHECK((ada->modes().c_lflag & ECHO) != 0);
  CHECK(count(c.read({id}), "permission allow") == 1);
}

TEST_CASE("an attached terminal goes on when the node comes back") {
  chat_node c;
  const auto id = c.conversation("hello");
  REQUIRE(c.reaches(id, "idle"));
  auto person = attach(c, id);
  REQUIRE(person->read_until("idle> "));
  c.node.kill_node();
  REQUIRE(person->read_until("the node is away"));
  c.node.start();
  REQUIRE(person->read_until("the node is back"));
  person->type("are you there\r");
  REQUIRE(person->read_until("heard: are you there"));
  person->type("\x04");
  CHECK(person->finish() == 0);
}

TEST_CASE("what a person types and leaves with is not lost in silence when the node does not answer") {
  chat_node c;
  const auto id = c.conversation("hello");
  REQUIRE(c.reaches(id, "idle"));
  auto person = attach(c, id, {"--timeout", "5"});
  REQUIRE(person->read_until("idle> "));
  const auto node = c.node.node_pid();
  REQUIRE(kill(node, SIGSTOP) == 0);
  person->type("third\r");
  person->type("\x04");
  CHECK(person->read_until("sending what you typed; ^C gives up"));
  CHECK(person->read_until("nobody knows whether this was sent: third"));
  CHECK(person->finish() == 1);
  REQUIRE(kill(node, SIGCONT) == 0);
}

TEST_CASE("what is allowed unasked asks nobody and stands in the conversation with its rule") {
  chat_node c;
  const auto id = c.conversation({}, {"--allow", "Bash(make test)"});
  c.node.ctl_json({"chat", "send", id, "ask"});
  REQUIRE(eventually([&] { return count(c.read({id}), "turn ended") == 1; }));
  const auto ruled = only(c.read({id}), "permission allow");
  CHECK(ruled.at("rule").get<std::string>().find("Bash(make test)") != std::string::npos);
  CHECK(c.node.ctl_json({"approvals", "--all"}).empty());
  CHECK(c.node.ctl_json({"chat", "set", id, "--permissions", "deny"}).at("permissions") == "deny");
  CHECK(c.node.ctl_json({"chat", "set", id, "--forget", "Bash(make test)"}).at("allowed").empty());
  c.node.ctl_json({"chat", "send", id, "ask"});
  REQUIRE(eventually([&] { return count(c.read({id}), "turn ended") == 2; }));
  CHECK(count(c.read({id}), "permission deny") == 1);
}

TEST_CASE("images and files go with a prompt and reach the agent") {
  chat_node c;
  const auto id = c.conversation();
  std::ofstream{fs::path{c.node.work()} / "a.png"} << "\x89PNG\r\n\x1a\nrest";
  std::ofstream{fs::path{c.node.work()} / "notes.md"} << "words";
  const auto r = c.node.ctl({"chat", "send", id, "--stdin", "--image", "a.png", "--file", "notes.md"}, {.input = "look at these\n"});
  CHECK_MESSAGE(r.status == 0, r.err);
  const auto latin = c.node.ctl({"chat", "send", id, "--stdin"}, {.input = "caf\xe9\n"});
  CHECK(latin.status == 1);
  CHECK_MESSAGE(latin.err.find("is not UTF-8; pass the text with --file") != std::string::npos, latin.err);
  CHECK(latin.err.find("swarmctl down") == std::string::npos);
  REQUIRE(eventually([&] { return count(c.read({id}), "turn ended") == 1; }));
  const auto said = only(c.read({id}), "user");
  REQUIRE(said.at("attachments").size() == 2);
  CHECK(said["attachments"][0].at("media_type") == "image/png");
  CHECK(said["attachments"][1].at("name") == "notes.md");
  CHECK(file_text(c.heard).find(R"("media_type":"image/png")") != std::string::npos);
}

TEST_CASE("a permission that is too long for a list is shown whole and decided all the same") {
  chat_node c;
  const auto id = c.conversation("big");
  const auto open = c.open_approval();
  CHECK(open.at("body").is_null());
  CHECK(open.at("body_bytes").get<std::size_t>() > 40'000);
  const auto whole = c.node.ctl_json({"approvals", open.at("id")}).at(0);
  CHECK(json::parse(whole.at("body").get<std::string>()).at("content") == std::string(40'000, 'x'));
  CHECK(c.node.ctl({"approvals", open.at("id")}).out.find(std::string(40'000, 'x')) != std::string::npos);
  c.node.ctl_json({"decide", open.at("id"), "allow", "--digest", open.at("digest")});
  REQUIRE(c.reaches(id, "idle"));
  CHECK(only(c.read({id}), "text").at("text") == "the file was allowed");
}

TEST_CASE("a task that is dispatched structured is a conversation and ends with its turn") {
  chat_node c;
  const auto r =
    c.node.ctl({"dispatch", "hello task", "--harness", "claude", "--structured", "--permissions", "auto-edit", "--follow", "--", c.agent.string()});
  CHECK_MESSAGE(r.status == 0, r.err);
  CHECK(r.out.find("heard: Task ") != std::string::npos);
  const auto agent = c.node.ctl_json({"agents"}).at(0);
  CHECK(agent.at("conversation").is_string());
  CHECK(agent.at("turns") == 1);
  CHECK(c.row(agent.at("conversation")).at("permissions") == "ask"); // what was given for the task has ended with it
  const auto graph = c.node.ctl({"graph", "--here"}).out;
  CHECK(graph.find("scripted, 1 turn, $0.01") != std::string::npos);
}
