#include "gateway/json/pages.hpp"

#include <doctest/doctest.h>

#include "swarm/v1/pty.pb.h"

using namespace swarm;

namespace {

/// Three pages of sessions; remembers the tokens it was asked with.
struct three_pages {
  std::vector<std::string> tokens;
  v1::Answer operator()(const v1::Query& q) {
    tokens.push_back(q.list_sessions().page().token());
    v1::Answer a;
    a.mutable_sessions()->add_sessions()->set_id("s" + std::to_string(tokens.size()));
    if (tokens.size() < 3)
      a.mutable_sessions()->mutable_page()->set_token("t" + std::to_string(tokens.size()));
    return a;
  }
};

} // namespace

TEST_CASE("all pages of a list are asked for, each with the token of the one before") {
  v1::Query q;
  q.mutable_list_sessions()->set_adopted_only(true);
  three_pages node;
  auto rows = mcp::rows_of_pages<v1::Session>(q, [&](const v1::Query& x) {
    CHECK(x.list_sessions().adopted_only());
    return node(x);
  });
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].id() == "s3");
  CHECK(node.tokens == std::vector<std::string>{"", "t1", "t2"});
}

TEST_CASE("an answer without a page is the last") {
  v1::Query q;
  q.mutable_list_sessions();
  int answers = 0;
  mcp::each_page(
    q,
    [](const v1::Query&) {
      v1::Answer a;
      a.mutable_refusal()->set_text("no");
      return a;
    },
    [&](const v1::Answer& a) {
      ++answers;
      CHECK(a.has_refusal());
    });
  CHECK(answers == 1);
}

TEST_CASE("a request that is a list's own, such as that for terminals, is followed the same way") {
  int asked = 0;
  auto ptys = mcp::rows_of_pages<v1::PtyInfo>(v1::ListPtysRequest{}, [&](const v1::ListPtysRequest& r) {
    CHECK(r.page().token() == (asked == 0 ? "" : "next"));
    v1::PtyList out;
    out.add_ptys()->set_id(std::to_string(asked));
    if (asked++ == 0)
      out.mutable_page()->set_token("next");
    return out;
  });
  CHECK(ptys.size() == 2);
}
