// The part of JSON Schema (draft 2020-12) that docs/schemas uses: type, enum, required, properties, additionalProperties, items, anyOf, and
// $ref to another file. Stricter than the standard in one point: a key that an object's schema does not name is an objection, unless
// additionalProperties speaks of it. So what the program prints is documented, while readers of the schemas stay open for what is added. x-swarm-mcp
// and x-runs are ours and say nothing of the shape.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

class json_schemas {
public:
  explicit json_schemas(fs::path directory) : directory_(std::move(directory)) {}

  bool has(const std::string& file) const { return fs::exists(directory_ / file); }
  /// What does not fit, with the place in the value; empty when all fits. Throws for a schema that is not there or says something unknown.
  std::vector<std::string> objections(const json& value, const std::string& file) {
    std::vector<std::string> out;
    look(value, schema(directory_ / file), directory_ / file, "", out);
    return out;
  }

private:
  const json& schema(const fs::path& file) {
    auto path = file.lexically_normal();
    auto [i, is_new] = read_.try_emplace(path);
    if (is_new)
      i->second = json::parse(file_text(path));
    return i->second;
  }

  static bool is_of(const json& value, const std::string& type) {
    return type == "integer" ? value.is_number_integer() : type == "number" ? value.is_number() : type == value.type_name();
  }

  void look(const json& value, const json& s, const fs::path& file, const std::string& at, std::vector<std::string>& out) {
    for (const auto& [word, unused] : s.items())
      if (!known.contains(word))
        throw std::runtime_error(file.string() + " says " + word + ", which this reader does not know");
    if (s.contains("$ref")) {
      auto other = file.parent_path() / s["$ref"].get<std::string>();
      look(value, schema(other), other, at, out);
    }
    if (s.contains("anyOf")) {
      std::vector<std::string> all;
      for (const auto& one : s["anyOf"]) {
        std::vector<std::string> here;
        look(value, one, file, at, here);
        if (here.empty())
          return;
        all.insert(all.end(), here.begin(), here.end());
      }
      out.insert(out.end(), all.begin(), all.end());
    }
    if (s.contains("type")) {
      const auto types = s["type"].is_array() ? s["type"] : json::array({s["type"]});
      if (std::none_of(types.begin(), types.end(), [&](const json& t) { return is_of(value, t); })) {
        out.push_back(at + " is not of type " + types.dump() + ": " + value.dump().substr(0, shown));
        return;
      }
    }
    if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), value) == s["enum"].end())
      out.push_back(at + " is none of " + s["enum"].dump() + ": " + value.dump().substr(0, shown));
    if (value.is_object())
      look_at_keys(value, s, file, at, out);
    if (value.is_array() && s.contains("items"))
      for (std::size_t i = 0; i < value.size(); ++i)
        look(value[i], s["items"], file, at + "/" + std::to_string(i), out);
  }

  void look_at_keys(const json& value, const json& s, const fs::path& file, const std::string& at, std::vector<std::string>& out) {
    for (const auto& name : s.value("required", json::array()))
      if (!value.contains(name.get<std::string>()))
        out.push_back(at + " lacks " + name.get<std::string>());
    for (const auto& [name, inner] : value.items()) {
      if (s.contains("properties") && s["properties"].contains(name))
        look(inner, s["properties"][name], file, at + "/" + name, out);
      else if (s.contains("additionalProperties") && s["additionalProperties"].is_object())
        look(inner, s["additionalProperties"], file, at + "/" + name, out);
      else if (s.contains("properties"))
        out.push_back(at + " has a key that is not documented: " + name);
    }
  }

  static constexpr std::size_t shown = 80;
  inline static const std::set<std::string> known{"$schema", "$ref",        "title",      "description",          "type",
                                                  "enum",    "required",    "properties", "additionalProperties", "items",
                                                  "anyOf",   "x-swarm-mcp", "x-runs"};
  fs::path directory_;
  std::map<fs::path, json> read_;
};

} // namespace swarm::testing
