#include "gateway/mcp/schema.hpp"
#include "gateway/mcp/tool_schemas.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

using namespace swarm;
using swarm::mcp::json;
namespace schemas = swarm::mcp::schemas;

namespace {

const json not_sent(json::value_t::discarded);

/// The issues in compact form, so that the order of their keys is compared, too.
std::string issues_of(const json& schema, const std::string& arguments) { return mcp::issues_with(schema, json::parse(arguments)).dump(); }
std::string issues(std::string_view tool, const std::string& arguments) { return issues_of(mcp::input_schema(tool), arguments); }

std::string taken(std::string_view tool, const std::string& arguments) {
  auto schema = mcp::input_schema(tool);
  auto value = json::parse(arguments);
  REQUIRE(mcp::issues_with(schema, value) == json::array());
  return mcp::accepted(schema, value).dump();
}

/// A schema of one property x.
json of_x(json schema) { return schemas::arguments({schemas::optional("x", std::move(schema))}); }

/// A property may be called description; a description is a text.
void drop_descriptions(nlohmann::json& value) {
  if (value.is_object())
    if (auto about = value.find("description"); about != value.end() && about->is_string())
      value.erase(about);
  if (value.is_structured())
    for (auto& member : value)
      drop_descriptions(member);
}

/// With sorted keys.
nlohmann::json undescribed(std::string_view tool) {
  auto schema = nlohmann::json::parse(mcp::input_schema(tool).dump());
  drop_descriptions(schema);
  return schema;
}

nlohmann::json published() {
  auto sources = std::getenv("SWARM_SOURCE_DIR");
  REQUIRE(sources);
  std::ifstream file{std::string{sources} + "/tests/contract/mcp_tools.json"};
  return nlohmann::json::parse(file);
}

} // namespace

TEST_CASE("the tools are the published ones, in their order, with their schemas") {
  auto tools = published();
  REQUIRE(tools.size() == 33);
  REQUIRE(mcp::tool_names().size() == tools.size());
  for (std::size_t i = 0; i < tools.size(); ++i) {
    auto name = tools[i].at("name").get<std::string>();
    CAPTURE(name);
    CHECK(mcp::tool_names()[i] == name);
    CHECK(undescribed(name) == tools[i].at("inputSchema"));
  }
  CHECK(mcp::input_schema("no_such_tool").is_null());
}

TEST_CASE("a missing argument is required, and issues come in the order of the properties") {
  CHECK(issues("send_message", R"({})") ==
        R"([{"code":"invalid_type","expected":"string","received":"undefined","path":["recipient"],"message":"Required"},)"
        R"({"code":"invalid_type","expected":"string","received":"undefined","path":["content"],"message":"Required"}])");
  CHECK(issues("request_task_batch", R"({})") ==
        R"([{"code":"invalid_type","expected":"array","received":"undefined","path":["tasks"],"message":"Required"}])");
  CHECK(issues("update_task", R"({"task_id":"T"})") ==
        R"([{"expected":"'done' | 'failed' | 'cancelled'","received":"undefined","code":"invalid_type","path":["status"],"message":"Required"}])");
}

TEST_CASE("arguments that were not sent are refused, also by a tool without any") {
  for (auto tool : {"whoami", "register"})
    CHECK(mcp::issues_with(mcp::input_schema(tool), not_sent).dump() ==
          R"([{"code":"invalid_type","expected":"object","received":"undefined","path":[],"message":"Required"}])");
  CHECK(issues("whoami", "null") ==
        R"([{"code":"invalid_type","expected":"object","received":"null","path":[],"message":"Expected object, received null"}])");
  CHECK(issues("whoami", "[]") ==
        R"([{"code":"invalid_type","expected":"object","received":"array","path":[],"message":"Expected object, received array"}])");
  CHECK(issues("whoami", "{}") == "[]");
}

TEST_CASE("a value of another type is refused, without conversion, and null is a value") {
  auto expected = [](std::string type, std::string received) {
    return R"([{"code":"invalid_type","expected":")" + type + R"(","received":")" + received + R"(","path":["x"],"message":"Expected )" + type +
           ", received " + received + R"("}])";
  };
  CHECK(issues_of(of_x(schemas::text()), R"({"x":1})") == expected("string", "number"));
  CHECK(issues_of(of_x(schemas::text()), R"({"x":null})") == expected("string", "null"));
  CHECK(issues_of(of_x(schemas::flag()), R"({"x":"true"})") == expected("boolean", "string"));
  CHECK(issues_of(of_x(schemas::integer()), R"({"x":"5"})") == expected("number", "string"));
  CHECK(issues_of(of_x(schemas::integer()), R"({"x":true})") == expected("number", "boolean"));
  CHECK(issues_of(of_x(schemas::number()), R"({"x":[]})") == expected("number", "array"));
  CHECK(issues_of(of_x(schemas::list(schemas::text())), R"({"x":"a"})") == expected("array", "string"));
  CHECK(issues_of(of_x(schemas::object({})), R"({"x":false})") == expected("object", "boolean"));
  CHECK(issues_of(of_x(schemas::free_form()), R"({"x":[]})") == expected("object", "array"));
}

TEST_CASE("an enumeration tells what it knows") {
  CHECK(issues("update_task", R"({"task_id":"T","status":"open"})") ==
        R"([{"received":"open","code":"invalid_enum_value","options":["done","failed","cancelled"],"path":["status"],)"
        R"("message":"Invalid enum value. Expected 'done' | 'failed' | 'cancelled', received 'open'"}])");
  CHECK(
    issues("list_tasks", R"({"status":5})").find(R"("received":"number","code":"invalid_type","path":["status"],"message":"Expected 'open' | )") !=
    std::string::npos);
}

TEST_CASE("an integer may be written as 1.0, but not as 1.5") {
  auto schema = of_x(schemas::integer());
  CHECK(issues_of(schema, R"({"x":1.5})") ==
        R"([{"code":"invalid_type","expected":"integer","received":"float","message":"Expected integer, received float","path":["x"]}])");
  CHECK(issues_of(schema, R"({"x":1.0})") == "[]");
  CHECK(taken("poll_messages", R"({"limit":7.0})") == R"({"limit":7})");
  CHECK(taken("poll_messages", R"({"limit":2e2})") == R"({"limit":200})");
  CHECK(taken("request_task", R"({"type":"fix","title":"t","priority":-0.0})").find(R"("priority":0,)") != std::string::npos);
  CHECK(taken("dispatch", R"({"title":"t","wait_seconds":0.5})").find(R"("wait_seconds":0.5)") != std::string::npos);
}

TEST_CASE("a number keeps its limits") {
  auto wanted = [](std::string code, std::string bound, std::string inclusive, std::string message) {
    return R"([{"code":")" + code + R"(",)" + bound + R"(,"type":"number","inclusive":)" + inclusive + R"(,"exact":false,"message":")" + message +
           R"(","path":["x"]}])";
  };
  auto lines = of_x(schemas::integer({}, {.above = 0, .maximum = 200}));
  CHECK(issues_of(lines, R"({"x":0})") == wanted("too_small", R"("minimum":0)", "false", "Number must be greater than 0"));
  CHECK(issues_of(lines, R"({"x":201})") == wanted("too_big", R"("maximum":200)", "true", "Number must be less than or equal to 200"));
  CHECK(issues_of(lines, R"({"x":1})") == "[]");
  CHECK(issues_of(lines, R"({"x":200})") == "[]");
  auto seconds = of_x(schemas::number({}, {.minimum = 0}));
  CHECK(issues_of(seconds, R"({"x":-0.5})") == wanted("too_small", R"("minimum":0)", "true", "Number must be greater than or equal to 0"));
  CHECK(issues_of(seconds, R"({"x":0})") == "[]");
  CHECK(issues_of(seconds, R"({"x":1e300})") == "[]");
  // every check has its say
  CHECK(json::parse(issues_of(lines, R"({"x":-1.5})")).size() == 2);
}

TEST_CASE("an integer is exact") {
  auto schema = of_x(schemas::integer());
  CHECK(issues_of(schema, R"({"x":9007199254740991})") == "[]");
  CHECK(issues_of(schema, R"({"x":-9007199254740991})") == "[]");
  for (auto beyond : {"9007199254740992", "9223372036854775807", "18446744073709551615", "123456789012345678901234567890", "1e300"}) {
    CAPTURE(beyond);
    CHECK(issues_of(schema, std::string{R"({"x":)"} + beyond + "}") ==
          R"([{"code":"too_big","maximum":9007199254740991,"type":"number","inclusive":true,"exact":false,)"
          R"("message":"Number must be less than or equal to 9007199254740991","path":["x"]}])");
  }
  CHECK(issues_of(schema, R"({"x":-9007199254740992})").find(R"("code":"too_small","minimum":-9007199254740991,)") != std::string::npos);
  CHECK(issues("poll_messages", R"({"limit":1e300})").find(R"("maximum":200,)") != std::string::npos);
}

TEST_CASE("a list keeps its limits, and its elements are judged all the same") {
  CHECK(issues("request_task_batch", R"({"tasks":[]})") == R"=([{"code":"too_small","minimum":1,"type":"array","inclusive":true,"exact":false,)="
                                                           R"=("message":"Array must contain at least 1 element(s)","path":["tasks"]}])=");
  json many = {{"tasks", json(51, {{"type", "fix"}, {"title", "t"}})}};
  many["tasks"][50]["title"] = 1;
  CHECK(
    issues("request_task_batch", many.dump()) ==
    R"=([{"code":"too_big","maximum":50,"type":"array","inclusive":true,"exact":false,)="
    R"=("message":"Array must contain at most 50 element(s)","path":["tasks"]},)="
    R"({"code":"invalid_type","expected":"string","received":"number","path":["tasks",50,"title"],"message":"Expected string, received number"}])");
}

TEST_CASE("the path leads through lists and objects") {
  CHECK(
    issues("request_task_batch", R"({"tasks":[{"type":"fix","title":"a"},{"type":"fix","files":["x",7]}]})") ==
    R"([{"code":"invalid_type","expected":"string","received":"undefined","path":["tasks",1,"title"],"message":"Required"},)"
    R"({"code":"invalid_type","expected":"string","received":"number","path":["tasks",1,"files",1],"message":"Expected string, received number"}])");
  CHECK(issues("complete_task", R"({"task_id":"T","summary":"s","tests":[{"status":"failed"},{}]})").find(R"("path":["tests",1,"status"])") !=
        std::string::npos);
}

TEST_CASE("null is taken where the schema has it, and another type is held against the other one") {
  CHECK(taken("report_progress", R"({"task_id":"T","summary":"s","blocked_reason":null,"expected_next_update_at":null})") ==
        R"({"task_id":"T","summary":"s","blocked_reason":null,"expected_next_update_at":null})");
  CHECK(taken("report_progress", R"({"task_id":"T","summary":"s","expected_next_update_at":5.0})") ==
        R"({"task_id":"T","summary":"s","expected_next_update_at":5})");
  CHECK(issues("report_progress", R"({"task_id":"T","summary":"s","blocked_reason":1,"expected_next_update_at":1.5})") ==
        R"([{"code":"invalid_type","expected":"string","received":"number","path":["blocked_reason"],"message":"Expected string, received number"},)"
        R"({"code":"invalid_type","expected":"integer","received":"float","message":"Expected integer, received float",)"
        R"("path":["expected_next_update_at"]}])");
}

TEST_CASE("a value that fits no alternative is told about each") {
  CHECK(issues("complete_task", R"({"task_id":"T","summary":"s","tracker_update":5})") ==
        R"([{"code":"invalid_union","unionErrors":[{"issues":[{"code":"invalid_type","expected":"object","received":"number",)"
        R"("path":["tracker_update"],"message":"Expected object, received number"}],"name":"ZodError"},{"issues":[{"code":"invalid_type",)"
        R"("expected":"string","received":"number","path":["tracker_update"],"message":"Expected string, received number"}],"name":"ZodError"}],)"
        R"("path":["tracker_update"],"message":"Invalid input"}])");
  CHECK(issues("dispatch", R"({"title":"t","placement":{"layout":{"kind":"heap"}}})") ==
        R"([{"code":"invalid_union","unionErrors":[{"issues":[{"received":"heap","code":"invalid_literal","expected":"grid",)"
        R"("path":["placement","layout","kind"],"message":"Invalid literal value, expected \"grid\""},)"
        R"({"code":"invalid_type","expected":"number","received":"undefined","path":["placement","layout","rows"],"message":"Required"},)"
        R"({"code":"invalid_type","expected":"number","received":"undefined","path":["placement","layout","cols"],"message":"Required"}],)"
        R"("name":"ZodError"},{"issues":[{"received":"heap","code":"invalid_literal","expected":"balance",)"
        R"("path":["placement","layout","kind"],"message":"Invalid literal value, expected \"balance\""}],"name":"ZodError"}],)"
        R"("path":["placement","layout"],"message":"Invalid input"}])");
  // a literal that is not there has nothing received
  CHECK(issues("dispatch", R"({"title":"t","placement":{"layout":{}}})")
          .find(R"({"issues":[{"code":"invalid_literal","expected":"balance","path":["placement","layout","kind"],)") != std::string::npos);
}

TEST_CASE("an alternative of the right shape is told alone when only its limits are broken") {
  CHECK(issues("dispatch", R"({"title":"t","placement":{"layout":{"kind":"grid","rows":5,"cols":1}}})") ==
        R"([{"code":"too_big","maximum":4,"type":"number","inclusive":true,"exact":false,"message":"Number must be less than or equal to 4",)"
        R"("path":["placement","layout","rows"]}])");
}

TEST_CASE("each alternative is accepted by its own schema") {
  CHECK(taken("dispatch", R"({"title":"t","placement":{"layout":{"cols":2.0,"rows":1,"kind":"grid","z":1}}})")
          .find(R"("layout":{"kind":"grid","rows":1,"cols":2}})") != std::string::npos);
  CHECK(taken("dispatch", R"({"title":"t","placement":{"layout":{"rows":1,"kind":"balance"}}})").find(R"("layout":{"kind":"balance"})") !=
        std::string::npos);
  // a free-form object is kept, its numbers too
  CHECK(taken("complete_task", R"({"task_id":"T","summary":"s","tracker_update":{"b":1.0,"a":[{}]},"tracker_update_skipped":"no"})") ==
        R"({"task_id":"T","status":"done","summary":"s","tracker_update":{"b":1.0,"a":[{}]},"tracker_update_skipped":"no"})");
}

TEST_CASE("defaults are filled in, what is absent without one stays absent") {
  CHECK(taken("bootstrap", "{}") == R"({"mark_read":true,"include_terminal":false,"terminal_limit":0})");
  CHECK(taken("poll_messages", "{}") == R"({"limit":50})");
  CHECK(taken("poll_messages", R"({"limit":3})") == R"({"limit":3})");
  CHECK(taken("list_tasks", "{}") == "{}");
  CHECK(taken("request_task_batch", R"({"tasks":[{"title":"t","type":"fix"}]})") ==
        R"({"tasks":[{"type":"fix","title":"t","priority":0,"approval_required":false,"tracker_required":false}]})");
}

TEST_CASE("what the schema does not name is dropped, at any level and however deep") {
  CHECK(taken("whoami", R"({"x":1})") == "{}");
  CHECK(taken("kv_get", R"({"$schema":1,"key":"k","default":[]})") == R"({"key":"k"})");
  CHECK(taken("complete_task", R"({"task_id":"T","summary":"s","tests":[{"status":"passed","x":1}],"description":"d"})") ==
        R"({"task_id":"T","status":"done","summary":"s","tests":[{"status":"passed"}]})");
  // as the last member: an ordered object copies those before it while it grows, which takes recursion
  constexpr std::size_t depth = 1'000'000;
  auto deep = std::string(depth, '[') + std::string(depth, ']');
  CHECK(taken("kv_get", R"({"key":"k","x":)" + deep + "}") == R"({"key":"k"})");
  CHECK(issues("kv_get", R"({"key":)" + deep + "}") ==
        R"([{"code":"invalid_type","expected":"string","received":"array","path":["key"],"message":"Expected string, received array"}])");
}

TEST_CASE("very many issues are not all told") {
  json wrong = {{"file", "f"}, {"types", json(100'000, "x")}};
  auto told = mcp::issues_with(mcp::input_schema("claim_next_task"), wrong);
  CHECK(told.size() == 100);
  CHECK(told.back()["path"] == json({"types", 99}));
}

TEST_CASE("the error names the tool and shows the issues on lines of their own") {
  CHECK(mcp::validation_error("kv_get", mcp::issues_with(mcp::input_schema("kv_get"), json::object())) ==
        R"(MCP error -32602: Input validation error: Invalid arguments for tool kv_get: [
  {
    "code": "invalid_type",
    "expected": "string",
    "received": "undefined",
    "path": [
      "key"
    ],
    "message": "Required"
  }
])");
  CHECK(mcp::validation_error("whoami", mcp::issues_with(mcp::input_schema("whoami"), not_sent)).find(R"("path": [],)") != std::string::npos);
}

TEST_CASE("a text may hold any bytes") {
  std::string bytes{"\0\"\\\n\xff\xe2\x82 \xf0\x9f\x90\x9d", 12};
  json arguments{{"key", bytes}};
  CHECK(mcp::issues_with(mcp::input_schema("kv_get"), arguments).empty());
  CHECK(mcp::accepted(mcp::input_schema("kv_get"), arguments)["key"] == bytes);
  auto wrong = mcp::issues_with(mcp::input_schema("list_tasks"), json{{"status", bytes}});
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0]["received"] == bytes);
  CHECK(mcp::validation_error("list_tasks", wrong).find("\xef\xbf\xbd") != std::string::npos);
}
