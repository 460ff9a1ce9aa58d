// A git repository in a node's working directory, and workers that have worktrees of it.
#pragma once

#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

/// A repository in a node's working directory, with a first commit.
struct repository {
  explicit repository(const std::string& below = "repo") : root(node.work() + "/" + below) {
    fs::create_directories(root + "/sub");
    git({"init", "-q", "-b", "main"});
    git({"config", "user.name", "Tester"});
    git({"config", "user.email", "tester@example.org"});
    write("a.txt", "one\n");
    write("sub/b.txt", "one\n");
    write(".gitignore", "*.o\n");
    commit("first");
  }

  void write(const std::string& name, const std::string& text) const { std::ofstream{root + "/" + name} << text; }
  std::string read(const std::string& name) const { return file_text(root + "/" + name); }
  run_result git(std::vector<std::string> arguments, const std::string& directory = {}) const {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "git"});
    auto result = child_process(arguments, node.env({{"GIT_CONFIG_GLOBAL", "/dev/null"}}), directory.empty() ? root : directory).finish();
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result;
  }
  void commit(const std::string& message, const std::string& directory = {}) const {
    git({"add", "-A"}, directory);
    git({"commit", "-q", "-m", message}, directory);
  }
  std::string head() const { return git({"rev-parse", "HEAD"}).out; }
  std::string status() const { return git({"status", "--porcelain", "--branch"}).out; }
  bool has_branch(const std::string& name) const { return !git({"branch", "--list", name}).out.empty(); }

  run_result ctl(const std::vector<std::string>& arguments, run_options o = {}) const {
    if (o.directory.empty())
      o.directory = root;
    return node.ctl(arguments, o);
  }
  json ctl_json(std::vector<std::string> arguments) const { return node.ctl_json(std::move(arguments), {.directory = root}); }
  std::vector<std::string> line(const std::string& title, const std::string& script, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> out{"dispatch", title, "--worktree", "--harness", "exec"};
    out.insert(out.end(), flags.begin(), flags.end());
    out.insert(out.end(), {"--", "sh", "-c", script});
    return out;
  }
  /// Runs a worker to its end; its worktree, or null when there is none any more.
  json worker(const std::string& title, const std::string& script) const {
    auto ran = ctl(line(title, script));
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    REQUIRE(ran.status >= 0);
    return tree(title);
  }
  json trees() const { return ctl_json({"worktree", "list"}); }
  json tree(const std::string& title) const {
    for (auto& row : trees())
      if (row.at("title") == title)
        return row;
    return nullptr;
  }
  /// A session that lives longer than the test.
  std::string session(const std::string& label) const {
    return ctl_json({"register", root, "--label", label, "--lease-seconds", "600"}).at("id").get<std::string>();
  }
  json prune() const { return ctl_json({"worktree", "prune"}); }

  test_node node;
  std::string root;
};

inline std::string text(const json& row, const char* name) { return row.at(name).get<std::string>(); }

} // namespace swarm::testing
