// An agent whose hooks run against a real node.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

/// A session of an agent, and the events that the agent sends to its hooks.
struct hooked_agent {
  const test_node& node;
  std::string session;
  std::string program = "claude";
  std::vector<std::string> flags = {};
  environment env = {};

  run_result send(const std::string& event, json input = json::object()) const {
    if (!session.empty())
      input["session_id"] = session;
    if (!input.contains("cwd"))
      input["cwd"] = node.work();
    return raw(event, input.dump());
  }
  run_result raw(const std::string& event, const std::string& input) const {
    std::vector<std::string> arguments{"hook", program, event};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    auto result = node.ctl(arguments, {.input = input, .env = env});
    CHECK(result.status == 0);
    return result;
  }
  /// Starts the session; its id.
  std::string start(const std::string& source = "startup") const {
    auto started = send("session-start", {{"source", source}});
    INFO(started.out << started.err);
    auto text = started.out;
    auto at = text.find("Instance `");
    REQUIRE(at != text.npos);
    return text.substr(at + 10, 36);
  }
  run_result before(const std::string& tool, json input, const std::string& call = "t1") const {
    return send("pre-tool-use", {{"tool_name", tool}, {"tool_input", std::move(input)}, {"tool_use_id", call}});
  }
  run_result after(const std::string& tool, json input, const std::string& call = "t1") const {
    return send("post-tool-use", {{"tool_name", tool}, {"tool_input", std::move(input)}, {"tool_use_id", call}});
  }
  /// What an agent does: the file is written only when no hook denies it. Why it was not, else empty.
  std::string write(const std::string& file, const std::string& text) const {
    auto said = before("Write", {{"file_path", file}, {"content", text}});
    if (said.out.empty()) {
      std::ofstream{file} << text;
      after("Write", {{"file_path", file}, {"content", text}});
      return {};
    }
    return said.parsed().at("hookSpecificOutput").at("permissionDecisionReason");
  }
};

inline std::string denial(const run_result& r) {
  auto said = r.parsed();
  if (!said.is_object() || !said.contains("hookSpecificOutput"))
    return {};
  CHECK(said.at("hookSpecificOutput").at("hookEventName") == "PreToolUse");
  CHECK(said.at("hookSpecificOutput").at("permissionDecision") == "deny");
  return said.at("hookSpecificOutput").at("permissionDecisionReason");
}

inline std::string context_of(const run_result& r) { return r.parsed().at("hookSpecificOutput").at("additionalContext"); }

inline void hold(const test_node& node, const std::string& who, const std::string& file, const std::string& note = {}) {
  REQUIRE(node.ctl({"lock", file, "--as", who, "--note", note}).status == 0);
}

inline std::size_t locks_of(const test_node& node) { return node.ctl_json({"locks"}).size(); }

inline mode_t mode_of(const fs::path& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 ? st.st_mode & 0777 : 0;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace swarm::testing
