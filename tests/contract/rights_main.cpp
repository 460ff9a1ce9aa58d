// Prints the table of rights as docs/security.md shows it. tools/rights-table runs it.
#include <iostream>
#include <vector>

#include "actors/domain/commands.hpp"
#include "actors/domain/rights.hpp"

using namespace swarm::domain;

namespace {

using p = swarm::v1::Principal;

constexpr std::array shown{p::OPERATOR, p::SESSION, p::AGENT, p::ORPHAN, p::NODE};

std::string cell(const right& r, principal_kind k) {
  if (r.without_grant(k))
    return "yes";
  if (r.own.has(k))
    return "its own";
  return r.some.has(k) ? "by rule" : "-";
}

std::string grants_of(const right& r) {
  std::string out;
  for (const auto& w : r.with)
    if (!w.grant.empty())
      out += (out.empty() ? "" : ", ") + std::string{name_of(w.who)} + " `" + std::string{w.grant} + "`";
  if (!r.rule.empty())
    out += (out.empty() ? "" : "; ") + std::string{"rule: "} + std::string{r.rule};
  return out.empty() ? "-" : out;
}

/// What shares a right, in the order in which the first of it stands in the table.
struct group {
  const right* who;
  std::string what;
};

class groups {
public:
  void add(const right& r, const std::string& what) {
    for (auto& g : list_)
      if (*g.who == r) {
        g.what += ", " + what;
        return;
      }
    list_.push_back({&r, what});
  }
  void print(const std::string& title) const {
    for (const auto& g : list_) {
      std::cout << "| " << title << ": " << g.what << " |";
      for (auto k : shown)
        std::cout << ' ' << cell(*g.who, k) << " |";
      std::cout << ' ' << grants_of(*g.who) << " |\n";
    }
  }

private:
  std::vector<group> list_;
};

/// What a grant opens, of the operations; deciding and starting workers are commands.
std::string opened_by(const grant_spec& g) {
  std::string out;
  const auto add = [&](const right& r, std::string_view what) {
    for (const auto& w : r.with)
      if (w.who == g.who && w.grant == g.name)
        out += (out.empty() ? "" : ", ") + std::string{what};
  };
  for (const auto& spec : commands())
    add(spec.from.get(), "`" + swarm::v1::Command::descriptor()->FindFieldByNumber(spec.body)->name() + "`");
  for (const auto& row : query_rights())
    add(row.who, "`" + swarm::v1::Query::descriptor()->FindFieldByNumber(row.body)->name() + "`");
  for (const auto& row : operation_rights())
    if (row.what != operation::execute && row.what != operation::ask)
      add(row.who, row.meaning);
  return out.empty() ? "nothing yet (reserved)" : out;
}

} // namespace

int main() {
  std::cout << "| what |";
  for (auto k : shown)
    std::cout << ' ' << name_of(k) << " |";
  std::cout << " with a grant, or by a rule |\n|---|";
  for (std::size_t i = 0; i <= shown.size(); ++i)
    std::cout << "---|";
  std::cout << '\n';
  groups of_commands, of_queries, of_operations;
  for (const auto& spec : commands())
    of_commands.add(spec.from.get(), "`" + swarm::v1::Command::descriptor()->FindFieldByNumber(spec.body)->name() + "`");
  for (const auto& row : query_rights())
    of_queries.add(row.who, "`" + swarm::v1::Query::descriptor()->FindFieldByNumber(row.body)->name() + "`");
  for (const auto& row : operation_rights())
    of_operations.add(row.who, std::string{row.meaning});
  of_commands.print("commands");
  of_queries.print("queries");
  of_operations.print("operations");
  std::cout << "\n| grant | of a | meant for | opens |\n|---|---|---|---|\n";
  for (const auto& g : known_grants())
    std::cout << "| `" << g.name << "` | " << name_of(g.who) << " | " << g.meaning << " | " << opened_by(g) << " |\n";
}
