#include "gateway/session/file_uri.hpp"

#include <doctest/doctest.h>

using namespace swarm;

TEST_CASE("the URI of a file is known with one slash and with three and whatever the case of scheme and host") {
  for (const auto* uri : {"file:///a/b", "file:/a/b", "FILE:///a/b", "File:/a/b", "file://localhost/a/b", "fILE://LocalHost/a/b"})
    CHECK_MESSAGE(mcp::path_of_file_uri(uri) == "/a/b", uri);
  CHECK(mcp::path_of_file_uri("file:/a%20b") == "/a%20b");
  CHECK(mcp::path_of_file_uri("file://~/a") == "~/a");
  CHECK(mcp::path_of_file_uri("file://elsewhere/a") == "elsewhere/a");
  CHECK(mcp::path_of_file_uri("file://localhosts/a") == "localhosts/a");
  CHECK(mcp::path_of_file_uri("file://") == "");
  for (const auto* text : {"", "file", "file:", "file:a", "files:/a", "/file:/a", "./file:/a", "~/a"})
    CHECK_MESSAGE(!mcp::path_of_file_uri(text), text);
}
