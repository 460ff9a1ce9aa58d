#include "cli/environment.hpp"

#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/client/failure.hpp"

#include <unistd.h>

namespace swarm::cli {

namespace {

/// Empty when the text is not JSON or names something that is no text.
std::string provider_in(std::string_view object) {
  auto settings = domain::parse_json(object);
  if (!settings)
    return {};
  if (!settings->contains("provider"))
    return std::string{domain::default_tracker_provider};
  const auto& provider = (*settings)["provider"];
  return provider.is_string() ? std::string{trimmed(provider.get_ref<const std::string&>())} : std::string{};
}

} // namespace

environment environment::of_process() {
  variables values;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view text{*entry};
    if (auto equals = text.find('='); equals != text.npos)
      values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment{std::move(values)};
}

std::string environment::get(std::string_view name) const {
  auto i = values_.find(name);
  return i == values_.end() ? std::string{} : i->second;
}

bool environment::truthy(std::string_view name) const {
  std::string word;
  for (auto c : get(name))
    if (!std::isspace(static_cast<unsigned char>(c)))
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word == "1" || word == "true" || word == "yes" || word == "on";
}

environment_list environment::inheritable(std::string_view harness) const {
  environment_list out;
  for (const auto& [name, value] : values_)
    // A variable that is not UTF-8 cannot travel; the worker does without it.
    if (swarm::inheritable(name, harness) && is_utf8(value))
      out.emplace_back(name, value);
  return out;
}

environment environment::over(const variables& others) const {
  auto all = values_;
  // An empty variable is an unset one.
  for (const auto& [name, value] : others)
    if (auto& mine = all[name]; mine.empty())
      mine = value;
  return environment{std::move(all)};
}

environment environment::under(const variables& others) const {
  auto all = values_;
  for (const auto& [name, value] : others)
    if (!value.empty())
      all[name] = value;
  return environment{std::move(all)};
}

std::string environment::identity() const {
  for (auto name : {"AGENT_IDENTITY", "SWARM_IDENTITY", "SWARM_CC_IDENTITY", "SWARM_CODEX_IDENTITY", "SWARM_HERMES_IDENTITY"})
    if (auto value = get(name); !value.empty())
      return value;
  return {};
}

std::string environment::work_tracker() const {
  const auto given = get("SWARM_WORK_TRACKER");
  const auto text = trimmed(given);
  if (text.empty())
    return {};
  std::string provider;
  for (auto c : text.front() == '{' ? provider_in(text) : std::string{trimmed(text.substr(0, text.find(':')))})
    provider += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!domain::is_name(provider) || provider.size() > limits::id_bytes_max)
    throw failure(code::usage,
                  R"(SWARM_WORK_TRACKER names no tracker: write PROVIDER:MCP, such as linear:linear, or {"provider":"linear","mcp":"linear"})");
  return provider;
}

variables add_variables(environment_list& list, const environment& here, const std::vector<std::string>& given) {
  variables added;
  for (const auto& word : given) {
    auto equals = word.find('=');
    auto name = word.substr(0, equals);
    if (name.empty() || name.starts_with("SWARM_") || std::any_of(name.begin(), name.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
      throw failure(code::usage, "--env takes NAME=VALUE, or NAME, and no SWARM_ variable; not \"" + escape_control(word, false) + "\"");
    if (equals == word.npos && !here.has(name))
      throw failure(code::usage, "--env " + escape_control(name, false) + " passes a variable on, but it is not set here; give its value: --env " +
                                   escape_control(name, false) + "=VALUE");
    auto value = equals == word.npos ? here.get(name) : word.substr(equals + 1);
    std::erase_if(list, [&](const auto& v) { return v.first == name; });
    list.emplace_back(name, value);
    added.insert_or_assign(name, value);
  }
  return added;
}

} // namespace swarm::cli
