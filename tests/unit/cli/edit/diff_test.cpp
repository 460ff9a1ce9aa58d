#include <doctest/doctest.h>

#include "cli/edit/diff.hpp"

using swarm::cli::unified_diff;

TEST_CASE("a diff shows what changes with three lines around it") {
  CHECK(unified_diff("a\n", "a\n").empty());
  CHECK(unified_diff("", "a\nb\n") == "@@ -0,0 +1,2 @@\n+a\n+b\n");
  CHECK(unified_diff("a\n", "") == "@@ -1,1 +0,0 @@\n-a\n");
  CHECK(unified_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n") == "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
  std::string before, after;
  for (int i = 0; i < 40; ++i) {
    before += std::to_string(i) + "\n";
    after += std::to_string(i) + (i == 5 || i == 30 ? " changed\n" : "\n");
  }
  auto diff = unified_diff(before, after);
  CHECK(diff.find("@@ -3,7 +3,7 @@\n") == 0);
  CHECK(diff.find("\n@@ -28,7 +28,7 @@\n") != diff.npos);
  CHECK(diff.find("\n 20\n") == diff.npos);
  CHECK(unified_diff("a", "a\n") == "\\ only the end of the last line differs\n");
}

TEST_CASE("a long change is still a diff") {
  std::string before, after;
  for (int i = 0; i < 3'000; ++i) {
    before += "old " + std::to_string(i) + "\n";
    after += "new " + std::to_string(i) + "\n";
  }
  auto diff = unified_diff("same\n" + before, "same\n" + after);
  CHECK(diff.find("-old 2999\n") != diff.npos);
  CHECK(diff.find("+new 0\n") != diff.npos);
}

TEST_CASE("a diff does not show what sounds like a secret") {
  const std::string before = "{\n  \"GITHUB_TOKEN\": \"ghp_1\",\n  \"apiKey\": \"sk-2\",\n  \"env\": {\n  }\n}\npassword = 'p3'\n";
  auto diff = unified_diff(before, before + "swarm\n");
  CHECK(diff.find("ghp_1") == diff.npos);
  CHECK(diff.find("sk-2") == diff.npos);
  CHECK(diff.find("p3") == diff.npos);
  auto one_line = unified_diff(R"({"env":{"GH_TOKEN":"ghp_1"},"a":1})", R"({"env":{"GH_TOKEN":"ghp_1"},"a":2})");
  CHECK(one_line.find("ghp_1") == one_line.npos);
  auto bare = unified_diff("- sk-ant-abc123def456ghi789\na\n", "- sk-ant-abc123def456ghi789\nb\n");
  CHECK(bare == "@@ -1,2 +1,2 @@\n - ***\n-a\n+b\n");
  auto hash = std::string(64, 'a') + "12";
  CHECK(unified_diff("", "trusted_hash = \"sha256:" + hash + "\"\n").find(hash) != std::string::npos);
  CHECK(unified_diff("a: 1\nauth_token: t\n", "a: 2\nauth_token: t\n") == "@@ -1,2 +1,2 @@\n-a: 1\n+a: 2\n auth_token: ***\n");
}
