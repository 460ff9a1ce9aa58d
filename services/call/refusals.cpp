#include "services/call/refusals.hpp"

#include "actors/domain/rights.hpp"

namespace swarm {

void refusals::add(const v1::Principal& who, std::string_view operation, std::string_view reason) {
  auto kind = std::string{domain::name_of(who.kind())};
  if (kind.empty())
    kind = "stranger";
  std::lock_guard guard{mutex_};
  auto& e = entries_[{kind, std::string{operation}}];
  ++e.count;
  e.last_at_ms = now_.unix_ms();
  // The same caller that tries again and again is said once, and counted each time.
  if (said_.add(kind + " " + who.id() + " " + std::string{operation}, now_.steady_ms()))
    log_("refused: " + kind + (who.id().empty() ? "" : " " + who.id()) + ", " + std::string{operation} + ": " + std::string{reason});
}

std::vector<v1::RefusalCount> refusals::counts() const {
  std::lock_guard guard{mutex_};
  std::vector<v1::RefusalCount> out;
  for (const auto& [what, e] : entries_) {
    auto& c = out.emplace_back();
    c.set_who(what.first);
    c.set_operation(what.second);
    c.set_count(e.count);
    c.set_last_at_ms(e.last_at_ms);
  }
  return out;
}

} // namespace swarm
