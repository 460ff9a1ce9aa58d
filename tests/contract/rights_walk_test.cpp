// Everything that the contract lets somebody ask for has a row in the table of rights: each command, query, call and question of a link.
#include "tests/contract/descriptor_text.hpp"

#include <cstdlib>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "actors/domain/commands.hpp"
#include "actors/domain/rights.hpp"

namespace contract = swarm::contract;
using namespace swarm::domain;

namespace {

/// Of the lines that begin so, the name, and for fields of that oneof the number.
std::set<std::string> rpcs(const contract::lines& all) {
  std::set<std::string> out;
  for (const auto& line : all) {
    std::istringstream in{line};
    std::string kind, name;
    in >> kind >> name;
    if (kind == "rpc")
      out.insert(name);
  }
  return out;
}

std::set<int> numbers(const contract::lines& all, const std::string& message, const std::string& oneof) {
  std::set<int> out;
  for (const auto& line : all) {
    std::istringstream in{line};
    std::string kind, name, word;
    int number = 0;
    in >> kind >> name >> number;
    if (kind == "field" && name.rfind("swarm.v1." + message + ".", 0) == 0 && line.find(" oneof=" + oneof) != std::string::npos)
      out.insert(number);
  }
  return out;
}

template <class Rows, class Of>
auto rows_of(const Rows& rows, Of of) {
  std::set<std::decay_t<decltype(of(rows[0]))>> out;
  for (const auto& row : rows)
    CHECK_MESSAGE(out.insert(of(row)).second, "two rows for one thing");
  return out;
}

} // namespace

TEST_CASE("whatever can be asked for has one row in the table of rights, and no row is about nothing") {
  const char* set = std::getenv("SWARM_DESCRIPTOR_SET");
  REQUIRE_MESSAGE(set != nullptr, "SWARM_DESCRIPTOR_SET is not set; run through ctest");
  const auto all = contract::describe_set(set);
  const auto calls = rows_of(call_rights(), [](const call_row& r) { return std::string{r.method}; });
  REQUIRE(calls.size() > 30);
  CHECK(calls == rpcs(all));
  CHECK(rows_of(commands(), [](const command_spec& s) { return static_cast<int>(s.body); }) == numbers(all, "Command", "body"));
  CHECK(rows_of(query_rights(), [](const query_row& r) { return static_cast<int>(r.body); }) == numbers(all, "Query", "body"));
  CHECK(rows_of(link_rights(), [](const link_row& r) { return r.ask; }) == numbers(all, "LinkRequest", "ask"));
  for (const auto& row : call_rights())
    CHECK_MESSAGE(right_to(row.what) != nullptr, row.method << " comes down to an operation without a row");
}
