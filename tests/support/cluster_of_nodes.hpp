// Several nodes on one machine, each in a state directory of its own: a home, and members as a test needs them.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/free_ports.hpp"
#include "tests/support/node_process.hpp"

namespace swarm::testing {

inline std::string last_line(const std::string& text) {
  auto lines = lines_of(text);
  return lines.empty() ? "" : lines.back();
}

/// Writes config.toml: these limits, and further tables.
inline void configure(const test_node& node, const std::string& limits, const std::string& tables = {}) {
  fs::create_directories(node.dir().root);
  fs::permissions(node.dir().root, fs::perms::owner_all);
  if (!limits.empty() || !tables.empty())
    std::ofstream{node.dir().config_file()} << "[limits]\n" << limits << tables;
}

struct cluster_of_nodes {
  test_node home;
  std::string address = "127.0.0.1:" + std::to_string(free_ports());

  explicit cluster_of_nodes(const std::string& limits = {}, const std::vector<std::string>& authority = {"--insecure-ca"}) {
    configure(home, limits);
    std::vector<std::string> arguments{"up", "--node-name", "a", "--listen", address};
    arguments.insert(arguments.end(), authority.begin(), authority.end());
    auto up = home.ctl(arguments);
    CAPTURE(up.err);
    REQUIRE(up.status == 0);
  }
  std::string token() const {
    auto made = home.ctl({"join-token", "create"});
    CAPTURE(made.err);
    REQUIRE(made.status == 0);
    return last_line(made.out);
  }
  void join(test_node& member, const std::string& name) const {
    auto joined = member.ctl({"join", token(), "--node-name", name});
    CAPTURE(joined.out);
    CAPTURE(joined.err);
    REQUIRE(joined.status == 0);
    REQUIRE(eventually([&] { return link_seen_by(home, name) == "up" && link_seen_by(member, "a") == "up"; }));
  }
  /// Its row in what the node says of the cluster; null if it has none.
  static json row_seen_by(const test_node& node, const std::string& name) {
    const auto nodes = node.ctl_json({"nodes"})["nodes"];
    for (const auto& n : nodes)
      if (n["name"] == name)
        return n;
    return {};
  }
  static std::string link_seen_by(const test_node& node, const std::string& name) {
    auto row = row_seen_by(node, name);
    return row.is_null() ? "unknown" : row["link"].get<std::string>();
  }
  /// For how long the node has not heard of the other one.
  static std::int64_t unheard_ms(const test_node& node, const std::string& name) {
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    return now.count() - row_seen_by(node, name)["last_heard_ms"].get<std::int64_t>();
  }
};

/// In the scope that the tests share.
inline std::vector<std::string> in_shared(std::vector<std::string> args) {
  args.insert(args.begin(), {"--scope", "shared"});
  return args;
}

inline std::string register_shared(const test_node& node, const std::string& label) {
  return node.ctl_json(in_shared({"register", "--label", label, "--lease-seconds", "600"}))["id"];
}

} // namespace swarm::testing
