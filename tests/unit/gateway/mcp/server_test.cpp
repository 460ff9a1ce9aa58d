#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "gateway/mcp/server.hpp"
#include "tests/support/fake_mcp_host.hpp"

using namespace swarm;
using namespace swarm::mcp;

namespace {

struct fixture {
  test::fake_mcp_host process;
  tool_table tools;
  test::heard_lines heard;
  std::unique_ptr<server> mcp;

  fixture() { add_tools(tools); }
  void start() {
    mcp = std::make_unique<server>(process, tools, [this](const std::string& line) { heard.add(line); });
  }
  void send(const json& message) { mcp->receive(message.dump()); }
  void request(int id, const std::string& method, json params = json::object()) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}});
  }
  void call(int id, const std::string& tool, json arguments = json::object()) {
    request(id, "tools/call", {{"name", tool}, {"arguments", std::move(arguments)}});
  }
  json answer(int id) {
    auto line = heard.take([&](const std::string& text) {
      auto m = json::parse(text);
      return m.contains("id") && m["id"] == id;
    });
    REQUIRE_MESSAGE(!line.empty(), "no answer to " << id);
    return json::parse(line);
  }
  std::string text(int id) { return answer(id).at("result").at("content").at(0).at("text"); }
  json notification(const std::string& method) {
    auto line = heard.take([&](const std::string& text) { return json::parse(text).value("method", "") == method; });
    REQUIRE_MESSAGE(!line.empty(), "no " << method);
    return json::parse(line);
  }
  void registered() {
    start();
    request(1, "initialize", {{"protocolVersion", "2025-06-18"}});
    answer(1);
    call(2, "register", {{"directory", "/repo"}});
    REQUIRE(text(2).starts_with("{\"id\":\"session-1\""));
  }
  std::vector<std::string> listed(int id) {
    request(id, "tools/list");
    std::vector<std::string> out;
    const auto said = answer(id);
    for (const auto& t : said.at("result").at("tools"))
      out.push_back(t.at("name"));
    return out;
  }
};

tool echo(const char* name) {
  tool t;
  t.name = name;
  t.description = "Says its name.";
  t.input_schema = {{"type", "object"}, {"properties", json::object()}};
  t.run = [](const tool_call&) { return said("echo"); };
  return t;
}

/// Somebody with a terminal is woken by this message.
v1::PromptResult told(const std::string& peer, std::uint64_t message) {
  v1::PromptResult out;
  out.set_sender("session-1");
  out.set_recipient(peer);
  out.set_message_id(message);
  out.set_backend("pty");
  out.set_handle("pty-1");
  out.set_agent_status(v1::AgentReport::IDLE);
  return out;
}

v1::Answer not_known() {
  v1::Answer out;
  out.mutable_refusal()->set_code(v1::Refusal::NOT_REGISTERED);
  out.mutable_refusal()->set_text("Not registered. Call register first.");
  return out;
}

} // namespace

TEST_CASE("a tool that is added or removed while the server runs is told, listed and called") {
  fixture f;
  f.registered();
  auto before = f.listed(3);
  f.tools.add(echo("extra"));
  f.notification("notifications/tools/list_changed");
  auto with = f.listed(4);
  CHECK(with.size() == before.size() + 1);
  CHECK(with.back() == "extra");
  f.call(5, "extra");
  CHECK(f.text(5) == "echo");
  CHECK(f.tools.remove("extra"));
  f.notification("notifications/tools/list_changed");
  CHECK(f.listed(6) == before);
  f.call(7, "extra");
  CHECK(f.text(7) == "MCP error -32602: Tool extra not found");
}

TEST_CASE("a tool that needs a right is there for who has it, and not for others") {
  fixture f;
  auto t = echo("terminal");
  t.right = "pty";
  f.tools.add(std::move(t));
  SUBCASE("without the right") {
    f.registered();
    auto names = f.listed(3);
    CHECK(std::find(names.begin(), names.end(), "terminal") == names.end());
    f.call(4, "terminal");
    CHECK(f.text(4) == "MCP error -32602: Tool terminal not found");
  }
  SUBCASE("with it, told when the session is made") {
    f.process.session.add_grants("pty");
    f.registered();
    f.notification("notifications/tools/list_changed");
    CHECK(f.listed(3).back() == "terminal");
    f.call(4, "terminal");
    CHECK(f.text(4) == "echo");
  }
}

TEST_CASE("a reply whose text is JSON but no object goes to Gemini CLI as an object as well, which would take it for a failure otherwise") {
  for (const std::string client : {"gemini-cli-mcp-client", "claude-code"}) {
    CAPTURE(client);
    fixture f;
    for (const auto& [name, text] :
         std::map<std::string, std::string>{{"list", "[1]"}, {"nothing", "null"}, {"object", "{}"}, {"words", "1 instance"}}) {
      auto t = echo(name.c_str());
      t.run = [answer = text](const tool_call&) { return said(answer); };
      f.tools.add(t);
    }
    f.start();
    f.request(1, "initialize", {{"protocolVersion", "2025-11-25"}, {"clientInfo", {{"name", client}, {"version", "1"}}}});
    f.answer(1);
    f.call(2, "register", {{"directory", "/repo"}});
    f.answer(2);
    auto structured = [&, id = 2](const std::string& name) mutable {
      f.call(++id, name);
      return f.answer(id).at("result").value("structuredContent", json("none"));
    };
    const auto gemini = client != "claude-code";
    CHECK(structured("list") == (gemini ? json{{"result", {1}}} : json("none")));
    CHECK(structured("nothing") == (gemini ? json{{"result", nullptr}} : json("none")));
    CHECK(structured("object") == json("none"));
    CHECK(structured("words") == json("none"));
  }
}

TEST_CASE("calls are worked off in the order in which they come") {
  std::vector<std::string> seen; // the session's end is a command too
  fixture f;
  f.registered();
  f.process.decide = [&](const v1::Command& c) {
    seen.push_back(c.set_kv().key());
    return v1::Reply{};
  };
  for (int i = 0; i < 50; ++i)
    f.call(100 + i, "kv_set", {{"key", std::to_string(i)}, {"value", ""}});
  for (int i = 0; i < 50; ++i)
    CHECK(f.text(100 + i) == "Set \"" + std::to_string(i) + "\"");
  f.mcp->stop();
  REQUIRE(seen.size() == 51);
  for (int i = 0; i < 50; ++i)
    CHECK(seen[static_cast<std::size_t>(i)] == std::to_string(i));
}

TEST_CASE("a call that waits holds nothing up, and ends unanswered when it is cancelled") {
  fixture f;
  f.registered();
  f.call(10, "wait_for_activity");
  f.call(11, "kv_set", {{"key", "k"}, {"value", "v"}});
  CHECK(f.text(11) == "Set \"k\"");
  f.send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 10}}}});
  f.send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", "never asked"}}}});
  f.mcp->stop();
  for (const auto& line : f.heard.all())
    CHECK(json::parse(line).value("id", json(nullptr)) != 10);
}

TEST_CASE("no more than so many calls wait at once") {
  fixture f;
  f.registered();
  auto most = static_cast<int>(limits::mcp_waits_max);
  for (int i = 0; i < most; ++i)
    f.call(100 + i, "wait_for_activity");
  f.call(99, "wait_for_activity");
  auto refused = f.answer(99).at("result");
  CHECK(refused.at("isError") == true);
  CHECK(refused.at("content").at(0).at("text").get<std::string>().find("waits " + std::to_string(most) + " times") != std::string::npos);
  f.call(98, "kv_set", {{"key", "k"}, {"value", "v"}});
  CHECK(f.text(98) == "Set \"k\"");
}

TEST_CASE("what a call has done is told although no more calls may wait, and a failure says nothing was done") {
  fixture f;
  f.process.decide = [](const v1::Command& c) {
    v1::Reply out;
    if (c.has_send_message())
      *out.mutable_message_sent()->mutable_prompt() = told("peer", 7);
    if (c.has_dispatch()) {
      out.mutable_dispatch()->set_status(v1::DispatchReply::SPAWNING);
      out.mutable_dispatch()->mutable_task()->set_id("task-1");
    }
    return out;
  };
  f.registered();
  const auto most = static_cast<int>(limits::mcp_waits_max);
  for (int i = 0; i < most; ++i)
    f.call(100 + i, "wait_for_activity");
  const std::string why = "This session waits " + std::to_string(most) + " times already; let some of these calls end first";
  f.call(10, "prompt_peer", {{"recipient", "peer"}, {"message", "look"}});
  auto prompted = f.answer(10).at("result");
  CHECK_FALSE(prompted.contains("isError"));
  auto prompt = json::parse(prompted.at("content").at(0).at("text").get<std::string>());
  CHECK(prompt.at("message_sent") == true);
  CHECK(prompt.at("nudged") == false);
  CHECK(prompt.at("nudge_error") == "it is not known whether it was told: " + why);
  f.call(11, "dispatch", {{"title", "it"}, {"completion_wait_seconds", 60}});
  auto dispatched = f.answer(11).at("result");
  CHECK_FALSE(dispatched.contains("isError"));
  auto work = json::parse(dispatched.at("content").at(0).at("text").get<std::string>());
  CHECK(work.at("task_id") == "task-1");
  CHECK(work.at("wait_error") == why);
  f.call(12, "wait_for_activity");
  CHECK(f.answer(12).at("result").at("isError") == true);
}

TEST_CASE("whether a peer was told is what the events say of this message, not how many others it has got") {
  fixture f;
  f.process.decide = [](const v1::Command& c) {
    v1::Reply out;
    if (c.has_send_message())
      *out.mutable_message_sent()->mutable_prompt() = told("peer", 7);
    return out;
  };
  std::vector<v1::Query> asked;
  v1::Answer messages;
  f.process.answer = [&](const v1::Query& q) {
    asked.push_back(q);
    return messages;
  };
  f.registered();
  auto event_of = [](const std::vector<int>& ids) {
    auto named = json::array();
    for (auto id : ids)
      named.push_back({{"id", id}, {"sender", "session-1"}});
    v1::WatchReply out;
    out.add_events()->set_type("message.delivered");
    out.mutable_events(0)->set_payload(json{{"messages", named}}.dump());
    return out;
  };
  auto prompt = [&, id = 10]() mutable {
    asked.clear();
    f.call(++id, "prompt_peer", {{"recipient", "peer"}, {"message", "look"}});
    return json::parse(f.text(id));
  };
  f.process.news = event_of({3, 7});
  CHECK(prompt().at("nudged") == true);
  CHECK(asked.empty());
  // Of others only. What is not in the list either was perhaps told, and perhaps not.
  f.process.news = event_of({3, 4});
  CHECK(prompt().at("nudged") == false);
  // It names no more than so many: then the message itself is looked for.
  std::vector<int> many(limits::announced_tasks_max, 1);
  f.process.news = event_of(many);
  auto& found = *messages.mutable_messages()->add_messages();
  found.set_id(7);
  found.set_delivered_at_ms(1);
  CHECK(prompt().at("nudged") == true);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].list_messages().to() == "peer");
  CHECK(asked[0].list_messages().limit() == limits::messages_listed_max);
  found.set_id(8);
  f.process.news = {};
  CHECK(prompt().at("nudge_error").get<std::string>().find("it could not be told within") == 0);
}

TEST_CASE("every call that waits says how long it has been, more each time, until it is cancelled, to who asked for it") {
  fixture f;
  f.process.session.add_grants("pty");
  f.process.patient = true;
  f.process.decide = [](const v1::Command& c) {
    v1::Reply out;
    if (c.has_acquire_lock())
      out.mutable_refusal()->set_code(v1::Refusal::CONFLICT);
    if (c.has_dispatch())
      out.mutable_dispatch()->set_status(v1::DispatchReply::SPAWNING);
    return out;
  };
  f.registered();
  const std::pair<const char*, json> waits[] = {{"wait_for_activity", json::object()},
                                                {"lock_acquire", {{"file", "a.c"}, {"wait_seconds", 600}}},
                                                {"pty_wait", {{"pty", "pty-1"}, {"timeout_seconds", 600}}},
                                                {"dispatch", {{"title", "it"}, {"wait_seconds", 600}}}};
  CHECK_FALSE(f.mcp->tell_progress());
  int id = 10;
  for (const auto& [tool, arguments] : waits) {
    CAPTURE(tool);
    ++id;
    f.request(id, "tools/call", {{"name", tool}, {"arguments", arguments}, {"_meta", {{"progressToken", id}}}});
    REQUIRE(f.process.waits(1));
    auto period = f.mcp->tell_progress();
    REQUIRE(period);
    // Well before clients lose their patience.
    CHECK(*period <= std::chrono::seconds{30});
    double last = 0;
    for (int i = 0; i < 3; ++i) {
      f.process.advance(*period);
      CHECK(f.mcp->tell_progress() == period);
      auto told = f.notification("notifications/progress").at("params");
      CHECK(told.at("progressToken") == id);
      CHECK(told.at("message").is_string());
      CHECK(told.at("progress").get<double>() > last);
      last = told.at("progress");
    }
    f.send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", id}}}});
    CHECK_FALSE(f.mcp->tell_progress());
    CHECK(f.process.waits(0));
  }
  // Not asked for.
  f.call(++id, "wait_for_activity");
  REQUIRE(f.process.waits(1));
  CHECK_FALSE(f.mcp->tell_progress());
  f.mcp->stop();
  for (const auto& line : f.heard.all()) {
    auto said = json::parse(line);
    CHECK(said.value("method", "") != "notifications/progress");
    CHECK(said.value("id", 0) <= 10);
  }
}

TEST_CASE("what a tool says of its progress is told at once and in order, and nothing after the answer") {
  fixture f;
  auto t = echo("steps");
  t.run = [](const tool_call&) {
    return tool_waiting{[](const tool_call& call) {
      call.progress("one");
      call.progress("two");
      return said("done");
    }};
  };
  f.tools.add(std::move(t));
  f.registered();
  f.request(10, "tools/call", {{"name", "steps"}, {"arguments", json::object()}, {"_meta", {{"progressToken", "p"}}}});
  auto first = f.notification("notifications/progress").at("params"), second = f.notification("notifications/progress").at("params");
  CHECK(first.at("message") == "one");
  CHECK(second.at("message") == "two");
  CHECK(second.at("progress").get<double>() > first.at("progress").get<double>());
  CHECK(f.text(10) == "done");
  f.process.advance(std::chrono::hours{1});
  CHECK_FALSE(f.mcp->tell_progress());
  f.mcp->stop();
  for (const auto& line : f.heard.all())
    CHECK(json::parse(line).value("method", "") != "notifications/progress");
}

TEST_CASE("an id that a call or a subscription has in use is refused to any other request, until that one is over") {
  fixture f;
  f.registered();
  const json modern = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"}, {"io.modelcontextprotocol/clientCapabilities", json::object()}};
  auto listen = [&](int id) { f.request(id, "subscriptions/listen", {{"_meta", modern}, {"notifications", {{"toolsListChanged", true}}}}); };
  auto is_refused = [&](int id) { return f.answer(id).value("error", json::object()).value("code", 0) == rpc::invalid_request; };
  f.call(10, "wait_for_activity");
  listen(20);
  f.notification("notifications/subscriptions/acknowledged");
  for (int id : {10, 20}) {
    CAPTURE(id);
    listen(id);
    CHECK(is_refused(id));
    f.call(id, "kv_set", {{"key", "k"}, {"value", "v"}});
    CHECK(is_refused(id));
    f.request(id, "ping");
    CHECK(is_refused(id));
  }
  // The first ones go on.
  f.tools.add(echo("extra"));
  auto told = f.notification("notifications/tools/list_changed");
  if (!told.contains("params"))
    told = f.notification("notifications/tools/list_changed");
  CHECK(told.at("params").at("_meta").at("io.modelcontextprotocol/subscriptionId") == 20);
  f.send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 20}}}});
  f.request(20, "ping");
  CHECK(f.answer(20).contains("result"));
  f.mcp->stop();
}

TEST_CASE("a session that was ended by somebody else has to register again") {
  fixture f;
  f.registered();
  f.process.answer = [](const v1::Query&) { return not_known(); };
  f.call(10, "whoami");
  CHECK(f.text(10) == "Not registered. Call register first.");
  f.process.answer = [&](const v1::Query&) {
    v1::Answer out;
    *out.mutable_session() = f.process.session;
    return out;
  };
  f.call(11, "register", {{"directory", "/repo"}});
  CHECK(f.text(11).starts_with("{\"id\":\"session-1\""));
  f.call(12, "whoami");
  CHECK(json::parse(f.text(12)).at("id") == "session-1");
}

TEST_CASE("a failure of the call is told as one, and the server goes on") {
  fixture f;
  f.registered();
  f.process.decide = [](const v1::Command&) -> v1::Reply { throw call_failed{code::deadline, "no answer by the deadline"}; };
  f.call(10, "kv_set", {{"key", "k"}, {"value", "v"}});
  auto failed = f.answer(10).at("result");
  CHECK(failed.at("isError") == true);
  CHECK(failed.at("content").at(0).at("text") == "no answer by the deadline");
  f.process.decide = [](const v1::Command&) { return v1::Reply{}; };
  f.call(11, "kv_set", {{"key", "k"}, {"value", "v"}});
  CHECK(f.text(11) == "Set \"k\"");
}
