#include "cli/profile.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view identity_prefix = "identity:";

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.front() == text.back())
    return text.substr(1, text.size() - 2);
  return text;
}

/// One file being read: the environment, and the lines so far.
class reader {
public:
  explicit reader(const environment& env) : env_(env) {}

  void line(std::string_view text) {
    text = trimmed(text);
    constexpr std::string_view word = "export";
    if (text.size() > word.size() && text.substr(0, word.size()) == word && std::isspace(static_cast<unsigned char>(text[word.size()])))
      text = trimmed(text.substr(word.size()));
    auto equals = text.find('=');
    if (text.empty() || text.front() == '#' || equals == text.npos)
      return;
    auto name = trimmed(text.substr(0, equals));
    if (name.empty() || !is_name_start(name.front()) || !std::all_of(name.begin(), name.end(), is_name))
      return;
    values_.insert_or_assign(std::string{name}, expanded(unquoted(trimmed(text.substr(equals + 1))), name));
  }
  variables take() { return std::move(values_); }

private:
  std::string value_of(std::string_view name) const {
    auto i = values_.find(name);
    return i == values_.end() ? env_.get(name) : i->second;
  }

  /// `name`: of the variable it is for, to be named in a refusal. A default is expanded as well; it holds no brace, so that ends.
  std::string expanded(std::string_view text, std::string_view name) const {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] != '$') {
        out += text[at++];
      } else if (auto end = text.find('}', at); at + 1 < text.size() && text[at + 1] == '{' && end != text.npos) {
        out += braced(text.substr(at + 2, end - at - 2), name);
        at = end + 1;
      } else {
        auto stop = at + 1;
        if (stop < text.size() && is_name_start(text[stop]))
          while (stop < text.size() && is_name(text[stop]))
            ++stop;
        out += stop == at + 1 ? "$" : value_of(text.substr(at + 1, stop - at - 1));
        at = stop;
      }
      if (out.size() > limits::profile_value_bytes_max)
        throw failure(code::refused, "the value of " + std::string{name} + " in the profile is longer than " +
                                       std::to_string(limits::profile_value_bytes_max) + " bytes; shorten it");
    }
    return out;
  }

  std::string braced(std::string_view inside, std::string_view name) const {
    auto colon = inside.find(":-");
    auto value = value_of(inside.substr(0, colon));
    return value.empty() && colon != inside.npos ? expanded(inside.substr(colon + 2), name) : value;
  }

  const environment& env_;
  variables values_;
};

/// Nothing for a file that is missing or no plain file.
variables read_profile(const fs::path& file, const environment& env) {
  std::error_code ec;
  if (!fs::is_regular_file(file, ec))
    return {};
  std::ifstream in(file, std::ios::binary);
  std::string text(limits::profile_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > limits::profile_bytes_max)
    throw failure(code::refused,
                  "the profile " + file.string() + " is longer than " + std::to_string(limits::profile_bytes_max / limits::kib) + " KiB");
  return parse_profile(text, env);
}

std::string agent_with_launcher(const std::string& launcher, const std::function<std::string(const std::string&)>& get) {
  for (auto agent : domain::agents)
    if (get(domain::launcher_variable(agent)) == launcher)
      return std::string{agent};
  return {};
}

/// In order of their names. One that cannot be read says nothing about the others.
std::string agent_in_profiles(const std::string& launcher, const environment& process) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (fs::directory_iterator i{profile_directory(process), ec}, end; !ec && i != end && files.size() < limits::profiles_max; i.increment(ec))
    if (i->path().extension() == ".env")
      files.push_back(i->path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    variables profile;
    try {
      profile = read_profile(file, process);
    } catch (const failure&) {
      continue;
    }
    auto found = agent_with_launcher(launcher, [&](const std::string& name) {
      auto i = profile.find(name);
      return i == profile.end() ? std::string{} : i->second;
    });
    if (!found.empty())
      return found;
  }
  return {};
}

/// ~ and ~/x, as swarm-mcp's lists of roots may have them.
std::string expand_home(const invocation& cli, const std::string& path) {
  auto home = cli.env().get("HOME");
  return !home.empty() && (path == "~" || path.rfind("~/", 0) == 0) ? home + path.substr(1) : path;
}

std::string roots_variable(std::string_view identity_token) {
  std::string name;
  for (auto c : identity_token.substr(identity_prefix.size()))
    name += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
  return "SWARM_MCP_" + name + "_ROOTS";
}

void set(environment_list& list, const std::string& name, const std::string& value) {
  if (value.empty() || !is_utf8(value))
    return;
  std::erase_if(list, [&](const auto& v) { return v.first == name; });
  list.emplace_back(name, value);
}

} // namespace

variables parse_profile(std::string_view text, const environment& env) {
  reader out{env};
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    out.line(text.substr(at, end - at));
    at = end + 1;
  }
  return out.take();
}

std::string profile_directory(const environment& env) {
  if (auto given = env.get("SWARM_MCP_PROFILE_DIR"); !given.empty())
    return given;
  if (auto config = env.get("XDG_CONFIG_HOME"); !config.empty())
    return config + "/swarm-mcp";
  for (auto name : {"HERMES_HOST_HOME", "SWARM_HOST_HOME", "HOME"})
    if (auto home = env.get(name); !home.empty())
      return home + "/.config/swarm-mcp";
  return {};
}

environment settings_of(const environment& env, std::string_view identity) {
  auto name = domain::identity_name(identity);
  auto directory = profile_directory(env);
  if (name.empty() || directory.empty())
    return env;
  auto profile = read_profile(fs::path{directory} / (name + ".env"), env);
  return name == domain::identity_name(env.identity()) ? env.over(profile) : env.under(profile);
}

std::string agent_of(const std::string& harness, const environment& settings, const environment& process) {
  if (harness.empty() || domain::is_harness(harness))
    return harness;
  auto found = agent_with_launcher(harness, [&](const std::string& name) { return settings.get(name); });
  if (found.empty())
    found = agent_in_profiles(harness, process);
  return found.empty() ? harness : found;
}

void check_identity_roots(const invocation& cli, const environment& settings, const std::string& label, const std::string& directory,
                          const std::string& file_root) {
  auto token = domain::identity_token(label);
  if (token.size() <= identity_prefix.size())
    return;
  auto variable = roots_variable(token);
  std::istringstream list{settings.get(variable)};
  std::string listed;
  bool any = false;
  for (std::string each; std::getline(list, each, ':');) {
    if (each.empty())
      continue;
    auto root = normalize_path(expand_home(cli, each), cli.directory());
    if (is_inside(root, directory) && is_inside(root, file_root))
      return;
    listed += (any ? ", " : "") + root;
    any = true;
  }
  if (any)
    throw failure(code::refused,
                  "Registration blocked: " + token + " directory must be under one of " + listed + ". Set " + variable + " to override.");
}

void check_directory(const invocation& cli, const std::string& directory) {
  std::error_code ec;
  if (!cli.elsewhere() && !fs::is_directory(directory, ec))
    throw failure(code::refused, "there is no directory " + escape_control(directory, false) +
                                   " on this host; give the absolute path of the directory that the session works in");
}

worker_settings settings_of_worker(const invocation& cli, const std::optional<v1::Session>& requester, const std::string& label,
                                   const std::string& harness, const std::string& directory) {
  auto identity = requester ? domain::identity_token(requester->label()) : cli.env().identity();
  if (identity.empty())
    identity = domain::identity_token(label);
  worker_settings out{harness, cli.inheritable(agent_of(harness, cli.env(), cli.env()))};
  auto name = identity.rfind(identity_prefix, 0) == 0 ? identity.substr(identity_prefix.size()) : identity;
  if (name.empty())
    return out;
  auto settings = settings_of(cli.env(), name);
  auto token = std::string{identity_prefix} + name;
  if (!directory.empty())
    check_identity_roots(cli, settings, token, directory, directory);
  out.harness = agent_of(harness, settings, cli.env());
  out.environment = cli.inheritable(out.harness);
  set(out.environment, roots_variable(token), settings.get(roots_variable(token)));
  if (domain::is_agent(out.harness))
    set(out.environment, domain::launcher_variable(out.harness), settings.get(domain::launcher_variable(out.harness)));
  return out;
}

} // namespace swarm::cli
