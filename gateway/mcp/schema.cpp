#include "gateway/mcp/schema.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

#include "actors/base/limits.hpp"

namespace swarm::mcp {

namespace {

/// Beyond it a double no longer tells neighbours apart, and clients count in doubles.
constexpr std::int64_t safe_integer_max = (std::int64_t{1} << 53) - 1;

std::string_view type_of(const json& value) {
  switch (value.type()) {
    case json::value_t::discarded: return "undefined";
    case json::value_t::null: return "null";
    case json::value_t::boolean: return "boolean";
    case json::value_t::string: return "string";
    case json::value_t::array: return "array";
    case json::value_t::object: return "object";
    default: return "number";
  }
}

const json& null_schema() {
  static const json schema{{"type", "null"}};
  return schema;
}

/// The type beside "null"; empty when the schema names none.
std::string_view wanted_type(const json& schema) {
  auto type = schema.find("type");
  if (type == schema.end())
    return {};
  if (type->is_string())
    return type->get_ref<const std::string&>();
  for (const auto& one : *type)
    if (one != "null")
      return one.get_ref<const std::string&>();
  return "null";
}

bool takes_null(const json& schema) {
  auto type = schema.find("type");
  if (type == schema.end())
    return false;
  if (!type->is_array())
    return *type == "null";
  for (const auto& one : *type)
    if (one == "null")
      return true;
  return false;
}

/// A record in zod's words: an object of any members.
bool is_free_form(const json& schema) {
  auto additional = schema.find("additionalProperties");
  return additional != schema.end() && additional->is_object();
}

bool is_required(const json& schema, const std::string& name) {
  auto required = schema.find("required");
  if (required == schema.end())
    return false;
  for (const auto& one : *required)
    if (one == name)
      return true;
  return false;
}

bool is_whole(const json& value) {
  if (!value.is_number_float())
    return true;
  auto number = value.get<double>();
  return std::trunc(number) == number;
}

/// 'a' | 'b'
std::string quoted(const json& values) {
  std::string out;
  for (const auto& value : values)
    out += (out.empty() ? "'" : " | '") + value.get<std::string>() + "'";
  return out;
}

/// Its functions answer whether the value has the right shape, broken limits or not: zod tells the two apart in a union.
class judge {
public:
  explicit judge(json path) : path_(std::move(path)) {}

  bool look(const json& schema, const json& value) {
    if (issues_.size() >= limits::mcp_issues_max)
      return false;
    if (auto options = schema.find("anyOf"); options != schema.end())
      return look_at_union(*options, value);
    if (value.is_null() && takes_null(schema))
      return true;
    if (auto wanted = schema.find("const"); wanted != schema.end())
      return look_at_literal(*wanted, value);
    if (auto options = schema.find("enum"); options != schema.end())
      return look_at_enum(*options, value);
    auto wanted = wanted_type(schema);
    auto basic = wanted == "integer" ? "number" : wanted;
    if (!basic.empty() && type_of(value) != basic) {
      auto received = type_of(value);
      add({{"code", "invalid_type"}, {"expected", basic}, {"received", received}, {"path", path_}, {"message", mismatch(basic, value)}});
      return false;
    }
    if (basic == "number")
      look_at_number(schema, value, wanted == "integer");
    if (basic == "array")
      return look_at_list(schema, value);
    return basic != "object" || look_at_object(schema, value);
  }

  json take_issues() { return std::move(issues_); }

private:
  void add(json issue) { issues_.push_back(std::move(issue)); }

  static std::string mismatch(std::string_view expected, const json& value) {
    if (value.is_discarded())
      return "Required";
    return "Expected " + std::string{expected} + ", received " + std::string{type_of(value)};
  }

  // Here and in the limits the order of the keys is zod's, which puts them where its own call site happens to have them.

  bool look_at_enum(const json& options, const json& value) {
    auto choice = quoted(options);
    if (!value.is_string()) {
      add({{"expected", choice}, {"received", type_of(value)}, {"code", "invalid_type"}, {"path", path_}, {"message", mismatch(choice, value)}});
      return false;
    }
    for (const auto& option : options)
      if (option == value)
        return true;
    auto message = "Invalid enum value. Expected " + choice + ", received '" + value.get<std::string>() + "'";
    add({{"received", value}, {"code", "invalid_enum_value"}, {"options", options}, {"path", path_}, {"message", std::move(message)}});
    return false;
  }

  bool look_at_literal(const json& wanted, const json& value) {
    if (value == wanted)
      return true;
    json issue = json::object();
    if (!value.is_discarded())
      issue["received"] = value;
    issue["code"] = "invalid_literal";
    issue["expected"] = wanted;
    issue["path"] = path_;
    issue["message"] = "Invalid literal value, expected " + wanted.dump();
    add(std::move(issue));
    return false;
  }

  void limit_broken(const char* code, const char* bound, std::int64_t at, const char* type, bool inclusive, std::string message) {
    add({{"code", code}, {bound, at}, {"type", type}, {"inclusive", inclusive}, {"exact", false}, {"message", std::move(message)}, {"path", path_}});
  }

  void look_at_number(const json& schema, const json& value, bool integer) {
    if (integer && !is_whole(value))
      add(
        {{"code", "invalid_type"}, {"expected", "integer"}, {"received", "float"}, {"message", "Expected integer, received float"}, {"path", path_}});
    auto number = value.get<double>();
    if (auto above = schema.find("exclusiveMinimum"); above != schema.end()) {
      if (number <= above->get<double>())
        limit_broken("too_small", "minimum", above->get<std::int64_t>(), "number", false, "Number must be greater than " + above->dump());
    } else if (auto least = schema.find("minimum"); least != schema.end() || integer) {
      auto at = least != schema.end() ? least->get<std::int64_t>() : -safe_integer_max;
      if (number < static_cast<double>(at))
        limit_broken("too_small", "minimum", at, "number", true, "Number must be greater than or equal to " + std::to_string(at));
    }
    if (auto most = schema.find("maximum"); most != schema.end() || integer) {
      auto at = most != schema.end() ? most->get<std::int64_t>() : safe_integer_max;
      if (number > static_cast<double>(at))
        limit_broken("too_big", "maximum", at, "number", true, "Number must be less than or equal to " + std::to_string(at));
    }
  }

  bool look_at_list(const json& schema, const json& value) {
    if (auto least = schema.find("minItems"); least != schema.end() && value.size() < least->get<std::size_t>())
      limit_broken("too_small", "minimum", least->get<std::int64_t>(), "array", true, "Array must contain at least " + least->dump() + " element(s)");
    if (auto most = schema.find("maxItems"); most != schema.end() && value.size() > most->get<std::size_t>())
      limit_broken("too_big", "maximum", most->get<std::int64_t>(), "array", true, "Array must contain at most " + most->dump() + " element(s)");
    bool shaped = true;
    for (std::size_t i = 0; i < value.size(); ++i)
      shaped = look_below(i, schema.at("items"), value[i]) && shaped;
    return shaped;
  }

  bool look_at_object(const json& schema, const json& value) {
    if (is_free_form(schema))
      return true;
    bool shaped = true;
    for (const auto& [name, property] : schema.at("properties").items()) {
      if (auto member = value.find(name); member != value.end())
        shaped = look_below(name, property, *member) && shaped;
      else if (is_required(schema, name))
        shaped = look_below(name, property, json(json::value_t::discarded)) && shaped;
    }
    return shaped;
  }

  bool look_below(json step, const json& schema, const json& value) {
    path_.push_back(std::move(step));
    auto shaped = look(schema, value);
    path_.erase(path_.size() - 1);
    return shaped;
  }

  bool look_at_union(const json& options, const json& value) {
    // One shape or null is no union to zod: what is wrong is told of that shape alone.
    if (options.size() == 2 && options.back() == null_schema())
      return value.is_null() || look(options.front(), value);
    auto errors = json::array();
    json nearest;
    for (const auto& option : options) {
      judge of_option{path_};
      auto shaped = of_option.look(option, value);
      auto issues = of_option.take_issues();
      if (issues.empty())
        return true;
      if (shaped && nearest.is_null())
        nearest = issues;
      errors.push_back({{"issues", std::move(issues)}, {"name", "ZodError"}});
    }
    if (nearest.is_null()) {
      add({{"code", "invalid_union"}, {"unionErrors", std::move(errors)}, {"path", path_}, {"message", "Invalid input"}});
      return false;
    }
    for (auto& issue : nearest)
      add(std::move(issue));
    return true;
  }

  json path_;
  json issues_ = json::array();
};

json accepted_object(const json& schema, const json& value) {
  auto out = json::object();
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (auto member = value.find(name); member != value.end())
      out[name] = accepted(property, *member);
    else if (auto fallback = property.find("default"); fallback != property.end())
      out[name] = *fallback;
  }
  return out;
}

} // namespace

json issues_with(const json& schema, const json& arguments) {
  judge of_arguments{json::array()};
  of_arguments.look(schema, arguments);
  return of_arguments.take_issues();
}

json accepted(const json& schema, const json& arguments) {
  if (auto options = schema.find("anyOf"); options != schema.end()) {
    for (const auto& option : *options)
      if (issues_with(option, arguments).empty())
        return accepted(option, arguments);
  }
  if (arguments.is_object() && schema.contains("properties"))
    return accepted_object(schema, arguments);
  if (arguments.is_array() && schema.contains("items")) {
    auto out = json::array();
    for (const auto& element : arguments)
      out.push_back(accepted(schema.at("items"), element));
    return out;
  }
  if (arguments.is_number_float() && wanted_type(schema) == "integer")
    return static_cast<std::int64_t>(arguments.get<double>());
  return arguments;
}

std::string validation_error(std::string_view tool, const json& issues) {
  auto text = "MCP error -32602: Input validation error: Invalid arguments for tool " + std::string{tool} + ": ";
  return text + issues.dump(2, ' ', false, json::error_handler_t::replace);
}

} // namespace swarm::mcp
