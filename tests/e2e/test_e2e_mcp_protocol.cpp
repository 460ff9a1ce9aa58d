// `swarmctl mcp` as a server: the protocol in both eras, what a client may do wrong, order and waiting, and how its session begins and ends.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

namespace {

constexpr const char* version_key = "io.modelcontextprotocol/protocolVersion";
constexpr const char* capabilities_key = "io.modelcontextprotocol/clientCapabilities";
constexpr const char* subscription_key = "io.modelcontextprotocol/subscriptionId";
constexpr const char* modern_version = "2026-07-28";
constexpr const char* not_registered = "Not registered. Call register first.";
constexpr const char* updated = "notifications/resources/updated";

using texts = std::vector<std::string>;

/// A session with its server, initialized and registered.
struct member : mcp_client {
  explicit member(const test_node& node, const std::string& label = "identity:work") : mcp_client(node) {
    initialize();
    enroll(label);
  }
};

/// Parameters of a request of the stateless era.
json modern(json params = json::object(), const std::string& version = modern_version) {
  params["_meta"] = {{version_key, version}, {capabilities_key, json::object()}};
  return params;
}

json recorded_tools() {
  auto* source = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(source != nullptr);
  return json::parse(file_text(fs::path{source} / "tests/contract/mcp_tools.json"));
}

/// The tools of swarm-mcp as the server lists them, and the names of those that come after them.
std::pair<json, texts> listed(const json& result, std::size_t count) {
  auto first = json::array();
  texts further;
  for (auto tool : result.at("tools")) {
    if (first.size() == count) {
      further.push_back(tool.at("name"));
      continue;
    }
    CHECK_MESSAGE(tool.at("description").is_string(), tool.at("name"));
    tool.erase("description");
    std::function<void(json&)> undescribe = [&](json& schema) {
      if (schema.is_object()) {
        if (schema.contains("description") && schema["description"].is_string())
          schema.erase("description");
        for (auto& [name, part] : schema.items())
          undescribe(part);
      } else if (schema.is_array()) {
        for (auto& part : schema)
          undescribe(part);
      }
    };
    // "description" is a property of some tools: there it is an object and stays.
    undescribe(tool["inputSchema"]);
    first.push_back(std::move(tool));
  }
  return {first, further};
}

/// A value that fits the schema, with everything that may be given.
json example_of(const json& schema) {
  if (schema.contains("const"))
    return schema["const"];
  if (schema.contains("enum"))
    return schema["enum"][0];
  if (schema.contains("anyOf"))
    return example_of(schema["anyOf"][0]);
  auto type = schema.at("type").is_array() ? schema["type"][0] : schema["type"];
  if (type == "string")
    return "x";
  if (type == "boolean")
    return true;
  if (type == "integer" || type == "number")
    return schema.value("minimum", schema.value("exclusiveMinimum", 0) + 1);
  if (type == "array")
    return json::array({example_of(schema.at("items"))});
  auto out = json::object();
  const auto properties = schema.value("properties", json::object());
  for (const auto& [name, part] : properties.items())
    out[name] = example_of(part);
  return out;
}

std::size_t count_of(const mcp_client& client, const std::string& method, const std::string& uri, std::size_t from = 0) {
  std::size_t out = 0;
  for (auto i = from; i < client.received().size(); ++i) {
    const auto& m = client.received()[i];
    out += m.value("method", "") == method && m.at("params").value("uri", "") == uri ? 1u : 0u;
  }
  return out;
}

bool is_listed(const test_node& node, const std::string& id) {
  for (const auto& row : node.ctl_json({"instances"}))
    if (row.at("id") == id)
      return true;
  return false;
}

std::string read_text(mcp_client& client, const std::string& uri) {
  auto contents = client.result("resources/read", {{"uri", uri}}).at("contents");
  REQUIRE(contents.size() == 1);
  CHECK(contents[0].at("uri") == uri);
  CHECK(contents[0].at("mimeType") == "application/json");
  return contents[0].at("text");
}

} // namespace

// -- the era of initialize -------------------------------------------------------------------

TEST_CASE("initialize echoes the versions that are spoken and answers any other with the newest one") {
  test_node node;
  for (const auto* version : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    mcp_client client{node};
    CHECK(client.initialize(version).at("protocolVersion") == version);
  }
  for (const auto* version : {"2023-01-01", "2026-07-28", "", "latest"}) {
    mcp_client client{node};
    auto hello = client.initialize(version);
    CHECK(hello.at("protocolVersion") == "2025-11-25");
    CHECK(hello.at("serverInfo").at("name") == "swarm");
    CHECK(hello.at("serverInfo").at("version").is_string());
    CHECK_FALSE(hello.contains("instructions"));
    json changes{{"listChanged", true}};
    CHECK(hello.at("capabilities") == json{{"tools", changes}, {"resources", changes}, {"prompts", changes}});
  }
}

TEST_CASE("the tools are those of swarm-mcp, in its order, with its schemas, annotations and executions") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  auto wanted = recorded_tools();
  auto [tools, ours] = listed(client.result("tools/list"), wanted.size());
  REQUIRE(tools.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK_MESSAGE(tools[i] == wanted[i], tools[i].dump(), " instead of ", wanted[i].dump());
  // What we add stands after them, under names of its own.
  std::set<std::string> names;
  for (const auto& tool : wanted)
    names.insert(tool.at("name"));
  for (const auto& name : ours)
    CHECK_MESSAGE(names.insert(name).second, name);
}

TEST_CASE("ping is answered with an empty object, and an unknown method with an error") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  CHECK(client.result("ping") == json::object());
  for (const auto* method : {"resources/subscribe", "logging/setLevel", "completion/complete", "tools/nonsense", ""}) {
    auto error = client.error(method);
    CHECK_MESSAGE(error.at("code") == -32601, method);
    CHECK(error.at("message").get<std::string>().find("Method not found") != std::string::npos);
  }
}

TEST_CASE("every tool but register says that it is not registered, as plain text") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  auto wanted = recorded_tools();
  const auto tools = client.result("tools/list").at("tools");
  REQUIRE(tools.size() > wanted.size()); // ours are further ones, and no different
  std::size_t asked = 0;
  for (const auto& tool : tools) {
    auto name = tool.at("name").get<std::string>();
    auto known = std::find_if(wanted.begin(), wanted.end(), [&](const json& t) { return t.at("name") == name; });
    if (name == "register")
      continue;
    auto reply = client.call(name, example_of((known == wanted.end() ? tool : *known).at("inputSchema")));
    CHECK_MESSAGE(reply.text() == not_registered, name, " says ", reply.text());
    CHECK_MESSAGE(!reply.is_error, name);
    asked += known == wanted.end() ? 0u : 1u;
  }
  CHECK(asked == wanted.size() - 1);
}

TEST_CASE("an unknown tool is an error of the call, an unknown resource or prompt one of the request") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  auto reply = client.call("no_such_tool");
  CHECK(reply.is_error);
  CHECK(reply.text() == "MCP error -32602: Tool no_such_tool not found");
  auto resource = client.error("resources/read", {{"uri", "swarm://nothing"}});
  CHECK(resource.at("code") == -32602);
  CHECK(resource.at("message") == "MCP error -32602: Resource swarm://nothing not found");
  auto prompt = client.error("prompts/get", {{"name", "nothing"}});
  CHECK(prompt.at("code") == -32602);
  CHECK(prompt.at("message") == "MCP error -32602: Prompt nothing not found");
}

TEST_CASE("arguments that do not fit are refused with the issues as zod tells them") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  auto issues = [&](const std::string& tool, const json& arguments) {
    auto reply = client.call(tool, arguments);
    CHECK_MESSAGE(reply.is_error, tool);
    auto head = "MCP error -32602: Input validation error: Invalid arguments for tool " + tool + ": ";
    REQUIRE_MESSAGE(reply.text().rfind(head, 0) == 0, reply.text());
    auto text = reply.text().substr(head.size());
    CHECK(nlohmann::ordered_json::parse(text).dump(2) == text);
    return json::parse(text);
  };
  auto first = [&](const std::string& tool, const json& arguments) { return issues(tool, arguments).at(0); };
  auto wrong_type = [](const char* expected, const char* received, const json& path, const std::string& message) {
    return json{{"code", "invalid_type"}, {"expected", expected}, {"received", received}, {"path", path}, {"message", message}};
  };
  CHECK(first("register", json::object()) == wrong_type("string", "undefined", {"directory"}, "Required"));
  CHECK(first("register", {{"directory", "/"}, {"label", nullptr}}) == wrong_type("string", "null", {"label"}, "Expected string, received null"));
  CHECK(first("poll_messages", {{"limit", "5"}}) == wrong_type("number", "string", {"limit"}, "Expected number, received string"));
  CHECK(first("poll_messages", {{"limit", 1.5}}) == wrong_type("integer", "float", {"limit"}, "Expected integer, received float"));
  CHECK(first("request_task", {{"type", "fix"}, {"title", "t"}, {"files", {"a", 1}}}) ==
        wrong_type("string", "number", {"files", 1}, "Expected string, received number"));
  auto kind = first("request_task", {{"type", "zzz"}, {"title", "t"}});
  CHECK(kind.at("code") == "invalid_enum_value");
  CHECK(kind.at("received") == "zzz");
  CHECK(kind.at("options") == json{"review", "implement", "fix", "test", "research", "other"});
  CHECK(kind.at("message") == "Invalid enum value. Expected 'review' | 'implement' | 'fix' | 'test' | 'research' | 'other', received 'zzz'");
  auto large = first("poll_messages", {{"limit", 201}});
  CHECK(large.at("code") == "too_big");
  CHECK(large.at("maximum") == 200);
  CHECK(large.at("inclusive") == true);
  auto small = first("wait_for_activity", {{"timeout_seconds", -1}});
  CHECK(small.at("code") == "too_small");
  CHECK(small.at("minimum") == 0);
  CHECK(small.at("exact") == false);
  CHECK(issues("update_task", json::object()).size() == 2);
  CHECK(issues("request_task_batch", {{"tasks", json::array()}}).at(0).at("code") == "too_small");
}

TEST_CASE("missing arguments are refused also by a tool without any, and further ones are dropped") {
  test_node node;
  member me{node};
  auto reply = me.reply_to(me.request("tools/call", {{"name", "whoami"}}));
  CHECK(reply.is_error);
  CHECK(reply.text().rfind("MCP error -32602: Input validation error: Invalid arguments for tool whoami: [", 0) == 0);
  CHECK(me.ask("whoami", {{"further", 1}}).at("id") == me.id());
  CHECK(me.text("kv_set", {{"key", "k"}, {"value", "v"}, {"owner_identity", "identity:home"}, {"more", json::array()}}) == "Set \"k\"");
  CHECK(me.ask("kv_get", {{"key", "k"}}).at("owner_identity") == "identity:work");
}

// -- resources, prompts, news ----------------------------------------------------------------

TEST_CASE("the resources show the inbox, the board and the sessions, and are empty before the session is registered") {
  test_node node;
  mcp_client me{node};
  me.initialize();
  texts uris;
  auto resources = me.result("resources/list").at("resources");
  for (const auto& entry : resources) {
    uris.push_back(entry.at("uri"));
    CHECK(entry.at("name").is_string());
    CHECK(entry.at("description").is_string());
  }
  CHECK(uris == texts{"swarm://inbox", "swarm://tasks", "swarm://instances", "swarm://context"});
  auto templates = me.result("resources/templates/list").at("resourceTemplates");
  REQUIRE(templates.size() == 1);
  CHECK(templates[0].at("uriTemplate") == "swarm://lock{?file}");
  CHECK(templates[0].at("name") == "lock-for-file");
  CHECK(read_text(me, "swarm://inbox") == "[]");
  CHECK(read_text(me, "swarm://instances") == "[]");
  CHECK(nlohmann::ordered_json::parse(read_text(me, "swarm://tasks")).dump() ==
        R"({"open":[],"claimed":[],"in_progress":[],"blocked":[],"approval_required":[],"done":[],"failed":[],"cancelled":[]})");
  me.enroll("identity:work");
  member peer{node};
  peer.text("send_message", {{"recipient", me.id()}, {"content", "hi"}});
  auto task = peer.ask("request_task", {{"type", "fix"}, {"title", "it"}}).at("task_id");
  for (int i = 0; i < 2; ++i) { // reading takes nothing away
    auto inbox = json::parse(read_text(me, "swarm://inbox"));
    REQUIRE(inbox.size() == 1);
    CHECK(inbox[0].at("content") == "hi");
  }
  auto board = read_text(me, "swarm://tasks");
  CHECK(nlohmann::ordered_json::parse(board).dump(2) == board);
  CHECK(json::parse(board).at("open")[0].at("id") == task);
  CHECK(json::parse(board).at("done") == json::array());
  CHECK(json::parse(read_text(me, "swarm://instances")).size() == 2);
}

TEST_CASE("the lock resource takes its value as it stands and hides another identity's lock as the tool does") {
  test_node node;
  member me{node};
  REQUIRE(me.ask("lock_file", {{"file", "src/a b.ts"}}).contains("ok"));
  // The two looks may stand on both sides of a second's end.
  auto without_heartbeat = [](json lock) {
    lock.at("active").at("owner").erase("heartbeat");
    return lock;
  };
  CHECK(without_heartbeat(json::parse(read_text(me, "swarm://lock?file=src/a b.ts"))) ==
        without_heartbeat(me.ask("get_file_lock", {{"file", "src/a b.ts"}})));
  auto literal = json::parse(read_text(me, "swarm://lock?file=src%2Fa%20b.ts"));
  CHECK(literal == json{{"file", node.work() + "/src%2Fa%20b.ts"}, {"active", nullptr}});
  member stranger{node, "identity:home"};
  auto hidden = json::parse(read_text(stranger, "swarm://lock?file=src/a b.ts")).at("active");
  CHECK(hidden.at("hidden") == true);
  CHECK_FALSE(hidden.contains("instance_id"));
}

TEST_CASE("the prompts are there with what they must mention") {
  test_node node;
  mcp_client client{node};
  client.initialize();
  auto prompts = client.result("prompts/list").at("prompts");
  REQUIRE(prompts.size() == 2);
  CHECK(prompts[0].at("name") == "setup");
  CHECK(prompts[0].at("title") == "Swarm Setup");
  CHECK(prompts[1].at("name") == "protocol");
  CHECK(prompts[1].at("title") == "Swarm Protocol");
  auto text_of = [&](const char* name) {
    auto messages = client.result("prompts/get", {{"name", name}}).at("messages");
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].at("role") == "user");
    return messages[0].at("content").at("text").get<std::string>();
  };
  auto setup = text_of("setup"), protocol = text_of("protocol");
  for (const auto* word : {"register", "bootstrap", "swarm-mcp", "skill"})
    CHECK_MESSAGE(setup.find(word) != std::string::npos, word);
  for (const auto* word : {"lock_file", "update_task", "review", "approval_required", "wait_for_activity", "swarm-mcp", "skill"})
    CHECK_MESSAGE(protocol.find(word) != std::string::npos, word);
  CHECK(protocol.find("check_file") == std::string::npos);
}

TEST_CASE("a registered client hears of mail, tasks and sessions unasked, and of nothing else") {
  test_node node;
  member other{node};
  mcp_client me{node};
  me.initialize();
  REQUIRE(me.text("whoami") == not_registered);
  other.ask("request_task", {{"type", "fix"}, {"title", "before"}});
  me.enroll("identity:work");
  me.ask("whoami");
  CHECK(count_of(me, updated, "swarm://tasks") == 0);
  auto from = me.received().size();
  other.text("kv_set", {{"key", "k"}, {"value", "v"}});
  other.ask("lock_file", {{"file", "a"}});
  other.text("send_message", {{"recipient", me.id()}, {"content", "x"}});
  me.await_notification(updated, {{"uri", "swarm://inbox"}}, from);
  CHECK(count_of(me, updated, "swarm://tasks", from) == 0);
  other.ask("request_task", {{"type", "fix"}, {"title", "it"}});
  me.await_notification(updated, {{"uri", "swarm://tasks"}}, from);
  from = me.received().size();
  member third{node};
  me.await_notification(updated, {{"uri", "swarm://instances"}}, from);
  third.text("send_message", {{"recipient", other.id()}, {"content", "not for me"}});
  third.text("deregister");
  auto known = me.received().size();
  me.await_notification(updated, {{"uri", "swarm://instances"}}, known);
  CHECK(count_of(me, updated, "swarm://inbox", from) == 0);
  for (const auto& m : me.received())
    CHECK_MESSAGE((m.contains("id") || m.at("method") == updated), m.dump());
}

// -- the stateless era -----------------------------------------------------------------------

TEST_CASE("a stateless client discovers the server, lists and calls, each result with its type and its life") {
  test_node node;
  mcp_client client{node};
  auto found = client.result("server/discover", modern());
  CHECK(found.at("resultType") == "complete");
  CHECK(found.at("supportedVersions") == json{modern_version});
  CHECK(found.at("capabilities").at("tools") == json{{"listChanged", true}});
  CHECK(found.at("ttlMs").is_number_integer());
  CHECK(found.at("cacheScope") == "private");
  CHECK(found.at("_meta").at("io.modelcontextprotocol/serverInfo").at("name") == "swarm");
  auto tools = client.result("tools/list", modern());
  CHECK(tools.at("resultType") == "complete");
  CHECK(tools.at("ttlMs").is_number_integer());
  CHECK(tools.at("cacheScope") == "private");
  auto wanted = recorded_tools();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(tools.at("tools").at(i).at("name") == wanted[i].at("name"));
  for (const auto* method : {"resources/list", "resources/templates/list", "prompts/list"}) {
    auto list = client.result(method, modern());
    CHECK(list.at("resultType") == "complete");
    CHECK(list.at("cacheScope") == "private");
  }
  auto called = client.result("tools/call", modern({{"name", "register"}, {"arguments", {{"directory", node.work()}}}}));
  CHECK(called.at("resultType") == "complete");
  CHECK_FALSE(called.contains("ttlMs"));
  auto me = json::parse(called.at("content")[0].at("text").get<std::string>()).at("id");
  auto again = client.result("tools/call", modern({{"name", "whoami"}, {"arguments", json::object()}}));
  CHECK(json::parse(again.at("content")[0].at("text").get<std::string>()).at("id") == me);
  auto read = client.result("resources/read", modern({{"uri", "swarm://inbox"}}));
  CHECK(read.at("resultType") == "complete");
  CHECK(read.at("cacheScope") == "private");
}

TEST_CASE("a stateless request with another version, without capabilities or with a method of the other era is refused") {
  test_node node;
  mcp_client client{node};
  auto version = client.error("server/discover", modern(json::object(), "2027-01-01"));
  CHECK(version.at("code") == -32022);
  CHECK(version.at("data") == json{{"supported", {modern_version}}, {"requested", "2027-01-01"}});
  for (const auto* method : {"server/discover", "tools/list", "tools/call", "subscriptions/listen"})
    CHECK_MESSAGE(client.error(method, {{"_meta", {{version_key, modern_version}}}}).at("code") == -32602, method);
  CHECK(client.error("server/discover").at("code") == -32602);
  for (const auto* method : {"initialize", "ping", "logging/setLevel", "resources/subscribe"})
    CHECK_MESSAGE(client.error(method, modern()).at("code") == -32601, method);
}

TEST_CASE("subscriptions/listen brings what was asked for, tagged with its id, and nothing else") {
  test_node node;
  member other{node};
  mcp_client me{node};
  auto listen = [&](const json& id, const json& wanted) {
    me.send({{"jsonrpc", "2.0"}, {"id", id}, {"method", "subscriptions/listen"}, {"params", modern({{"notifications", wanted}})}});
  };
  json only_mail{{"resourceSubscriptions", {"swarm://inbox"}}}, two{{"resourceSubscriptions", {"swarm://tasks", "swarm://inbox"}}};
  listen("listen:0", only_mail);
  auto first = me.await([](const json& m) { return m.contains("method"); });
  CHECK(first.at("method") == "notifications/subscriptions/acknowledged");
  CHECK(first.at("params").at("_meta").at(subscription_key) == "listen:0");
  CHECK(first.at("params").at("notifications") == only_mail);
  listen(7, two);
  me.await(
    [](const json& m) { return m.value("method", "") == "notifications/subscriptions/acknowledged" && m["params"]["_meta"][subscription_key] == 7; });
  auto call = [&](const char* tool, const json& arguments) {
    auto id = me.request("tools/call", modern({{"name", tool}, {"arguments", arguments}}));
    return me.reply_to(id);
  };
  auto id = call("register", {{"directory", node.work()}, {"label", "identity:work"}}).value().at("id").get<std::string>();
  call("whoami", json::object());
  auto tagged = [&](const char* uri, const json& subscription, std::size_t from) {
    return me.await_notification(updated, {{"uri", uri}, {"_meta", {{subscription_key, subscription}}}}, from);
  };
  auto from = me.received().size();
  other.text("send_message", {{"recipient", id}, {"content", "x"}});
  tagged("swarm://inbox", "listen:0", from);
  tagged("swarm://inbox", 7, from);
  other.ask("request_task", {{"type", "fix"}, {"title", "it"}});
  tagged("swarm://tasks", 7, from);
  // Its id is in use, as that of a call is.
  for (const auto* method : {"subscriptions/listen", "tools/list", "tools/call"}) {
    from = me.received().size();
    me.send({{"jsonrpc", "2.0"}, {"id", "listen:0"}, {"method", method}, {"params", modern({{"name", "whoami"}, {"notifications", two}})}});
    auto refused = me.await([](const json& m) { return m.value("id", json{}) == "listen:0"; }, from);
    CHECK(refused.at("error").at("code") == -32600);
  }
  // Taken back: silent from then on.
  me.notify("notifications/cancelled", modern({{"requestId", 7}}));
  me.result("tools/list", modern());
  from = me.received().size();
  other.ask("request_task", {{"type", "fix"}, {"title", "again"}});
  other.text("send_message", {{"recipient", id}, {"content", "y"}});
  tagged("swarm://inbox", "listen:0", from);
  me.close_input();
  CHECK(me.finish() == 0);
  CHECK(count_of(me, updated, "swarm://tasks", from) == 0);
  CHECK(count_of(me, updated, "swarm://inbox", from) == 1);
  CHECK(count_of(me, updated, "swarm://instances") == 0);
}

// -- bad input -------------------------------------------------------------------------------

TEST_CASE("a line that is no JSON is answered with a parse error, and the server goes on") {
  test_node node;
  member me{node};
  auto before = me.received().size();
  const std::vector<std::string> lines{
    "{", "nonsense", "{\"jsonrpc\":\"2.0\",\"id\":1,", "\xff\xfe\x80", "\"\\ud800\"x", "{}}", std::string(200'000, '[')};
  for (const auto& line : lines) {
    auto from = me.received().size();
    me.send_line(line);
    auto answer = me.await([](const json& m) { return m.contains("error"); }, from);
    CHECK_MESSAGE(answer.at("error").at("code") == -32700, line.substr(0, 40));
    CHECK(answer.at("id").is_null());
  }
  CHECK(me.received().size() == before + lines.size());
  CHECK(me.ask("whoami").at("id") == me.id());
}

TEST_CASE("empty lines and answers to requests nobody made are passed over") {
  test_node node;
  member me{node};
  auto before = me.received().size();
  for (const auto* line : {"", "   "})
    me.send_line(line);
  me.send({{"jsonrpc", "2.0"}, {"id", 4711}, {"result", json::object()}});
  me.send({{"jsonrpc", "2.0"}, {"id", 1}, {"error", {{"code", -1}, {"message", "no"}}}});
  me.notify("notifications/nonsense", {{"a", 1}});
  CHECK(me.ask("whoami").at("id") == me.id());
  CHECK(me.received().size() == before + 1);
}

TEST_CASE("JSON that is no request is answered with an error, and the server goes on") {
  test_node node;
  member me{node};
  auto before = me.received().size();
  auto refused = [&](const std::string& line, int code) {
    auto from = me.received().size();
    me.send_line(line);
    auto answer = me.await([](const json& m) { return m.contains("error"); }, from);
    CHECK_MESSAGE(answer.at("error").at("code") == code, line);
    return answer.at("id");
  };
  CHECK(refused(R"({"jsonrpc":"2.0","id":5})", -32600) == 5);
  CHECK(refused(R"({"jsonrpc":"2.0","id":"a","method":7})", -32600) == "a");
  CHECK(refused(R"({"jsonrpc":"2.0","id":{},"method":"ping"})", -32600).is_null());
  CHECK(refused(R"({"jsonrpc":"2.0","id":6,"method":"tools/call","params":[]})", -32602) == 6);
  CHECK(refused(R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}})", -32602) == 7);
  CHECK(refused(R"({"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":7}})", -32602) == 8);
  CHECK(refused(R"([{"jsonrpc":"2.0","id":9,"method":"ping"}])", -32600).is_null()); // a batch
  CHECK(refused("7", -32600).is_null());
  CHECK(me.received().size() == before + 8);
  CHECK(me.ask("whoami").at("id") == me.id());
}

TEST_CASE("a line of ten megabytes is answered with an error, and the server goes on") {
  test_node node;
  member me{node};
  auto from = me.received().size();
  me.send({{"jsonrpc", "2.0"},
           {"id", 9},
           {"method", "tools/call"},
           {"params", {{"name", "kv_set"}, {"arguments", {{"key", "k"}, {"value", std::string(10 << 20, 'x')}}}}}});
  auto answer = me.await([](const json& m) { return m.contains("error"); }, from);
  CHECK(answer.at("id").is_null());
  CHECK(answer.at("error").at("code") == -32600);
  CHECK(me.text("kv_get", {{"key", "k"}}) == "Key \"k\" not found");
  // One that is not too long, but its value is.
  CHECK(me.ask("kv_set", {{"key", "k"}, {"value", std::string(150'000, 'x')}}) == json{{"error", "value is longer than 131072 bytes"}});
  CHECK(me.call("kv_set", {{"key", "k"}, {"value", std::string(1 << 20, 'x')}}).is_error);
  CHECK(me.ask("whoami").at("id") == me.id());
}

TEST_CASE("a second request of an id that is under way is refused, and the first one is answered") {
  test_node node;
  member me{node};
  auto wait = me.call_later("wait_for_activity");
  me.send({{"jsonrpc", "2.0"}, {"id", wait}, {"method", "tools/call"}, {"params", {{"name", "whoami"}, {"arguments", json::object()}}}});
  auto from = me.received().size();
  CHECK(me.answer_to(wait).at("error").at("code") == -32600);
  me.text("kv_set", {{"key", "k"}, {"value", "v"}});
  auto answer = me.await([&](const json& m) { return m.value("id", json{}) == wait && m.contains("result"); }, from);
  CHECK(answer.at("result").at("content")[0].at("text").get<std::string>().find("kv_updates") != std::string::npos);
  // Once it is answered the id is free, and ids may be texts.
  for (const auto& id : {json(wait), json("text"), json("")}) {
    from = me.received().size();
    me.send({{"jsonrpc", "2.0"}, {"id", id}, {"method", "ping"}});
    CHECK(me.await([&](const json& m) { return m.contains("id") && m["id"] == id; }, from).contains("result"));
  }
}

// -- order and waiting -----------------------------------------------------------------------

TEST_CASE("requests that are sent without waiting take effect in their order") {
  test_node node;
  mcp_client me{node};
  me.initialize();
  auto registered = me.call_later("register", {{"directory", node.work()}, {"label", "identity:work"}});
  auto locked = me.call_later("lock_file", {{"file", "a"}});
  auto shown = me.request("resources/read", {{"uri", "swarm://lock?file=a"}});
  texts wanted;
  std::vector<int> ids;
  for (int i = 1; i <= 30; ++i) {
    ids.push_back(me.call_later("kv_append", {{"key", "list"}, {"value", std::to_string(i)}}));
    wanted.push_back("Appended to \"list\" (" + std::to_string(i) + " items)");
  }
  auto id = me.reply_to(registered).value().at("id");
  CHECK(me.reply_to(locked).value().at("ok") == true);
  CHECK(json::parse(me.answer_to(shown)["result"]["contents"][0]["text"].get<std::string>()).at("active").at("instance_id") == id);
  texts got;
  for (auto one : ids)
    got.push_back(me.reply_to(one).text());
  CHECK(got == wanted);
}

TEST_CASE("a wait holds nothing back, and ends without an answer when it is cancelled") {
  test_node node;
  member me{node};
  auto calls = [&] { return node.ctl_json({"status"}).at("calls_in_flight").get<int>(); };
  auto idle = calls();
  auto wait = me.call_later("wait_for_activity");
  CHECK(me.ask("whoami").at("id") == me.id());
  CHECK(me.result("ping") == json::object());
  REQUIRE(eventually([&] { return calls() > idle; }));
  CHECK_FALSE(me.is_answered(wait));
  me.notify("notifications/cancelled", {{"requestId", wait}, {"reason", "enough"}});
  REQUIRE(eventually([&] { return calls() <= idle; }));
  me.text("kv_set", {{"key", "k"}, {"value", "v"}}); // would have woken it
  CHECK(me.ask("whoami").at("id") == me.id());
  // What is unknown, answered or no id at all is none of the server's business.
  for (const auto& params :
       {json{{"requestId", 4711}}, json{{"requestId", wait}}, json{{"requestId", "x"}}, json{{"requestId", nullptr}}, json::object()})
    me.notify("notifications/cancelled", params);
  CHECK(me.ask("whoami").at("id") == me.id());
  me.close_input();
  CHECK(me.finish() == 0);
  CHECK_FALSE(me.is_answered(wait));
}

TEST_CASE("a call that is cancelled while it waits for its turn is not answered, and those around it are") {
  test_node node;
  member me{node};
  auto pid = node.node_pid();
  REQUIRE(pid != 0);
  kill(pid, SIGSTOP); // nothing gets done for a while
  auto first = me.call_later("kv_set", {{"key", "a"}, {"value", "1"}});
  auto second = me.call_later("kv_get", {{"key", "a"}});
  auto third = me.call_later("whoami");
  me.notify("notifications/cancelled", {{"requestId", second}});
  CHECK(me.result("ping") == json::object()); // what was sent before it is known to the server
  kill(pid, SIGCONT);
  CHECK(me.reply_to(first).text() == "Set \"a\"");
  CHECK(me.reply_to(third).value().at("id") == me.id());
  CHECK_FALSE(me.is_answered(second));
}

TEST_CASE("nobody hears of progress who has not asked for it") {
  test_node node;
  member me{node};
  CHECK(me.ask("wait_for_activity", {{"timeout_seconds", 1}}).at("timeout") == true);
  for (const auto& m : me.received())
    CHECK(m.value("method", "") != "notifications/progress");
}

TEST_CASE("wait_for_activity is woken by a message, a task, a peer and a key, and brings what has changed") {
  test_node node;
  member me{node};
  member other{node};
  struct wake {
    std::function<void()> cause;
    std::string change;
    std::string keys;
  };
  std::unique_ptr<member> third;
  const wake wakes[] = {
    {[&] {
       other.text("send_message", {{"recipient", me.id()}, {"content", "x"}});
     },
     "new_messages", "changes messages"},
    {[&] {
       other.ask("request_task", {{"type", "fix"}, {"title", "it"}});
     },
     "task_updates", "changes tasks"},
    {[&] { third = std::make_unique<member>(node); }, "instance_changes", "changes instances"},
    {[&] {
       other.text("kv_set", {{"key", "k"}, {"value", "v"}});
     },
     "kv_updates", "changes"},
    {[&] { third->text("deregister"); }, "instance_changes", "changes instances"},
  };
  for (const auto& w : wakes) {
    CAPTURE(w.change);
    auto wait = me.call_later("wait_for_activity", {{"timeout_seconds", 60}});
    me.ask("whoami"); // so the wait has begun
    auto began = std::chrono::steady_clock::now();
    w.cause();
    auto reply = me.reply_to(wait);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{5});
    CHECK(reply.value().at("changes") == json{w.change});
    CHECK(reply.keys() == w.keys);
  }
  CHECK(me.text("poll_messages") == "[]"); // the wait has taken it
  // A lock is no activity here, another identity's message is not ours.
  member stranger{node, "identity:home"};
  auto wait = me.call_later("wait_for_activity", {{"timeout_seconds", 1}});
  me.ask("whoami");
  other.ask("lock_file", {{"file", "a"}});
  CHECK(me.reply_to(wait).value().at("timeout") == true);
}

TEST_CASE("what the same session does while it waits wakes it too") {
  test_node node;
  member me{node};
  auto wait = me.call_later("wait_for_activity");
  me.text("kv_set", {{"key", "k"}, {"value", "v"}});
  CHECK(me.reply_to(wait).value() == json{{"changes", {"kv_updates"}}});
}

// -- ends and restarts -----------------------------------------------------------------------

TEST_CASE("end of input and the signals that ask for it end the session at once, and that is success") {
  test_node node;
  member witness{node};
  for (auto signal : {0, SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    member me{node};
    REQUIRE(me.ask("lock_file", {{"file", "a"}}).contains("ok"));
    auto task = witness.ask("request_task", {{"type", "fix"}, {"title", "it"}}).at("task_id");
    REQUIRE(me.ask("claim_task", {{"task_id", task}}).contains("ok"));
    me.call_later("wait_for_activity");
    me.ask("whoami");
    if (signal == 0)
      me.close_input();
    else
      me.signal(signal);
    CHECK(me.finish() == 0);
    CHECK(me.notes() == "");
    // It has left before it ended: nobody has to find out.
    CHECK_FALSE(is_listed(node, me.id()));
    CHECK(witness.ask("get_file_lock", {{"file", "a"}}).at("active").is_null());
    CHECK(witness.ask("get_task", {{"task_id", task}}).at("status") == "open");
  }
  mcp_client stranger{node};
  stranger.close_input();
  CHECK(stranger.finish() == 0);
}

TEST_CASE("a client that does not hear any more ends its server as well") {
  test_node node;
  member me{node};
  me.call_later("wait_for_activity");
  me.close_output();
  CHECK(me.finish() == 0);
  CHECK_FALSE(is_listed(node, me.id()));
}

TEST_CASE("a client that asks much and reads nothing does not keep its server from ending") {
  test_node node;
  member me{node};
  REQUIRE(me.text("kv_set", {{"key", "k"}, {"value", std::string(100'000, 'x')}}) == "Set \"k\"");
  std::string lines;
  for (int i = 1000; i < 1100; ++i)
    lines +=
      json{{"jsonrpc", "2.0"}, {"id", i}, {"method", "tools/call"}, {"params", {{"name", "kv_get"}, {"arguments", {{"key", "k"}}}}}}.dump() + "\n";
  REQUIRE(me.send_unheard(lines)); // ten megabytes of answers, far more than a pipe holds
  me.close_input();
  CHECK(eventually([&] { return !is_running(me.pid()); }));
  CHECK(me.finish() == 0);
  CHECK_FALSE(is_listed(node, me.id()));
}

TEST_CASE("a server that is killed in the middle of a call leaves no lock and no claim behind") {
  test_node node;
  member witness{node};
  member me{node};
  REQUIRE(me.ask("lock_file", {{"file", "a"}}).contains("ok"));
  auto task = witness.ask("request_task", {{"type", "fix"}, {"title", "it"}}).at("task_id");
  REQUIRE(me.ask("claim_task", {{"task_id", task}}).contains("ok"));
  me.call_later("wait_for_activity");
  me.call_later("kv_append", {{"key", "list"}, {"value", "1"}});
  me.signal(SIGKILL);
  CHECK(me.finish() == 128 + SIGKILL);
  CHECK(eventually([&] { return witness.ask("get_file_lock", {{"file", "a"}}).at("active").is_null(); }));
  CHECK(eventually([&] { return witness.ask("get_task", {{"task_id", task}}).at("status") == "open"; }));
  CHECK(eventually([&] { return !is_listed(node, me.id()); }));
}

TEST_CASE("a dispatch that waits for its task ends with the server, and when it is cancelled") {
  test_node node;
  member worker{node, "identity:work role:implementer"};
  member gateway{node, "identity:work mode:gateway"};
  auto calls = [&] { return node.ctl_json({"status"}).at("calls_in_flight").get<int>(); };
  auto idle = calls();
  auto wait = gateway.call_later("dispatch", {{"title", "it"}, {"completion_wait_seconds", 600}});
  REQUIRE(eventually([&] { return worker.text("poll_messages") != "[]"; }));
  auto task = worker.ask("list_tasks")[0].at("id");
  REQUIRE(worker.ask("claim_task", {{"task_id", task}}).contains("ok")); // an event it looks at
  REQUIRE(eventually([&] { return calls() > idle; }));
  SUBCASE("cancelled") {
    gateway.notify("notifications/cancelled", {{"requestId", wait}});
    CHECK(eventually([&] { return calls() <= idle; }, std::chrono::seconds{5}));
  }
  gateway.close_input();
  CHECK(gateway.finish(std::chrono::seconds{5}) == 0);
  CHECK_FALSE(gateway.is_answered(wait));
}

TEST_CASE("a node that is killed and started again is not noticed: session, lock, claim and a standing wait are kept") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  member me{node};
  member other{node};
  auto lock = me.ask("lock_file", {{"file", "a"}}).at("id");
  auto task = other.ask("request_task", {{"type", "fix"}, {"title", "it"}}).at("task_id");
  REQUIRE(me.ask("claim_task", {{"task_id", task}}).contains("ok"));
  auto wait = me.call_later("wait_for_activity");
  CHECK(me.ask("whoami").at("id") == me.id());
  node.kill_node();
  auto asked = me.call_later("whoami"); // while there is none
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(me.reply_to(asked).value().at("id") == me.id());
  CHECK(other.ask("get_file_lock", {{"file", "a"}}).at("active").at("id") == lock);
  CHECK(me.ask("report_progress", {{"task_id", task}, {"summary", "half"}}).at("ok") == true);
  CHECK(me.reply_to(wait).value().at("changes") == json{"task_updates"});
  // News come again, too.
  auto from = me.received().size();
  other.text("send_message", {{"recipient", me.id()}, {"content", "still there?"}});
  me.await_notification(updated, {{"uri", "swarm://inbox"}}, from);
  CHECK(me.ask("complete_task", {{"task_id", task}, {"summary", "done"}}).at("ok") == true);
}

TEST_CASE("a node that was taken down stays down: calls that wait and calls that come say so, and go on after up") {
  test_node node;
  member me{node};
  auto wait = me.call_later("wait_for_activity", {{"timeout_seconds", 60}});
  REQUIRE(node.ctl({"down"}).status == 0);
  auto refused = me.reply_to(wait);
  CHECK(refused.is_error);
  CHECK(refused.text().find("swarmctl up") != std::string::npos);
  auto asked = me.call("whoami");
  CHECK(asked.is_error);
  CHECK(asked.text().find("swarmctl up") != std::string::npos);
  CHECK(node.node_pid() == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return !me.call("whoami").is_error; }));
}

TEST_CASE("without a node a call fails as one, and the server goes on") {
  test_node node;
  mcp_client me{node, {}, {"--no-autostart", "--timeout", "0.3"}};
  me.initialize();
  CHECK(me.result("ping") == json::object());
  auto reply = me.call("register", {{"directory", node.work()}});
  CHECK(reply.is_error);
  CHECK(reply.text().find("swarmctl up") != std::string::npos);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(me.ask("register", {{"directory", node.work()}}).at("adopted") == true);
}

// -- who a process is ------------------------------------------------------------------------

TEST_CASE("a leased session of the directory is a stranger's, also when it is the only one, until its id is given") {
  test_node node;
  auto peer = node.session("session:peer");
  REQUIRE(node.ctl({"lock", "a.c", "--as", peer}).status == 0);
  mcp_client me{node};
  me.initialize();
  CHECK(me.text("whoami") == not_registered);
  // Nor by registering.
  auto own = me.ask("register", {{"directory", node.work()}, {"label", "session:peer-of-mine"}});
  CHECK(own.at("id") != peer);
  CHECK(me.ask("lock_file", {{"file", "a.c"}}).at("active").at("instance_id") == peer);
  REQUIRE(is_listed(node, peer));
  CHECK(node.ctl_json({"locks"})[0].at("instance_id") == peer);
  mcp_client other{node};
  other.initialize();
  auto instance = other.ask("register", {{"directory", node.work()}, {"adopt_instance_id", peer}});
  CHECK(instance.at("id") == peer);
  CHECK(instance.at("adopted") == true);
  CHECK(instance.at("lease_until").is_null());
  CHECK(instance.at("pid") == other.pid());
  CHECK(instance.at("label") == "session:peer");
  mcp_client third{node};
  third.initialize();
  auto leased = node.session("identity:work session:cccc3333");
  CHECK(third.ask("bootstrap", {{"adopt_instance_id", leased}}).at("instance").at("id") == leased);
}

TEST_CASE("a hook's session is found again by its full label, and an unknown id is given to who asks for it") {
  test_node node;
  auto first = node.session("identity:work session:aaaa1111");
  node.session("identity:work session:bbbb2222");
  mcp_client me{node};
  CHECK(me.ask("register", {{"directory", node.work()}, {"label", "identity:work session:aaaa1111"}}).at("id") == first);
  mcp_client other{node};
  CHECK(other.ask("register", {{"directory", node.work()}, {"label", "identity:work session:aaaa"}}).at("id") != first);
  mcp_client third{node};
  CHECK(third.ask("register", {{"directory", node.work()}, {"adopt_instance_id", "00000000-0000-4000-8000-000000000001"}}).at("id") ==
        "00000000-0000-4000-8000-000000000001");
}

TEST_CASE("a live session of another process cannot be taken over") {
  test_node node;
  member victim{node, "identity:work session:aaaa1111"};
  mcp_client bound{node};
  auto instance = bound.ask("register", {{"directory", node.work()}, {"label", "identity:work"}});
  auto refused = bound.call("register", {{"directory", node.work()}, {"label", "identity:work"}, {"adopt_instance_id", victim.id()}});
  CHECK(refused.texts.size() == 1);
  CHECK(refused.keys() == "error instance");
  CHECK(refused.value().at("error") == "Could not adopt instance " + victim.id() + "; keeping current registration");
  CHECK(refused.value().at("instance") == instance);
  CHECK(bound.ask("bootstrap", {{"adopt_instance_id", victim.id()}}).at("instance").at("id") == instance.at("id"));
  mcp_client fresh{node};
  auto reply = fresh.call("register", {{"directory", node.work()}, {"label", "identity:work session:aaaa1111"}, {"adopt_instance_id", victim.id()}});
  CHECK(reply.text().find("\"id\":\"" + victim.id()) == std::string::npos);
  mcp_client thief{node, {.env = {{"SWARM_MCP_INSTANCE_ID", victim.id()}}}};
  thief.initialize();
  CHECK(thief.text("whoami").find("\"id\": \"" + victim.id()) == std::string::npos);
  CHECK(victim.ask("whoami").at("pid") == victim.pid());
  CHECK(victim.text("send_message", {{"recipient", victim.id()}, {"content", "x"}}) == "Cannot send a message to yourself");
}

TEST_CASE("a process with an id of its own is registered before it says a word, and again when its row was removed") {
  test_node node;
  const std::string id = "11111111-2222-4333-8444-555555555555";
  fs::create_directories(node.work() + "/files");
  mcp_client me{node,
                {.env = {{"SWARM_MCP_INSTANCE_ID", id},
                         {"SWARM_MCP_DIRECTORY", node.work()},
                         {"SWARM_MCP_LABEL", "identity:work role:tester"},
                         {"SWARM_MCP_FILE_ROOT", node.work() + "/files"}},
                 .directory = "/"}};
  REQUIRE(eventually([&] { return is_listed(node, id); }));
  me.initialize();
  auto instance = me.ask("whoami");
  CHECK(instance.at("id") == id);
  CHECK(instance.at("label") == "identity:work role:tester");
  CHECK(instance.at("directory") == node.work());
  CHECK(instance.at("file_root") == node.work() + "/files");
  member peer{node};
  CHECK(peer.text("remove_instance", {{"instance_id", id}}).rfind("Removed instance", 0) == 0);
  CHECK(me.ask("whoami").at("id") == id);
  CHECK(is_listed(node, id));
  // It must be tried again after a deregistration, too.
  CHECK(me.text("deregister") == "Deregistered instance " + id + ". Tasks released, locks cleared.");
  CHECK(me.ask("whoami").at("id") == id);
}

TEST_CASE("inside a worker the server speaks for the worker's session, which stays when the server ends") {
  test_node node;
  auto ctl = program("swarmctl").string();
  auto script = "mkfifo in; " + ctl +
                " mcp < in > out & exec 3> in; "
                R"(echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{}}}' >&3; )"
                "while [ ! -s out ]; do sleep 0.02; done; exec 3>&-; wait $! && " +
                ctl + " whoami --json > who";
  auto ran = node.ctl({"dispatch", "look", "--harness", "exec", "--", "sh", "-c", script});
  CAPTURE(ran.out);
  REQUIRE(ran.status == 0);
  auto told = json::parse(lines_of(file_text(node.work() + "/out")).at(0)).at("result").at("content")[0].at("text").get<std::string>();
  CHECK(json::parse(told).at("id") == json::parse(file_text(node.work() + "/who")).at("id"));
  CHECK(node.ctl_json({"instances"}).empty());
}
