#include "tools/simulate.d/figures.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace swarm::simulate {

double figures::value(std::string_view scenario, const std::string& name) const {
  for (auto i = all_.rbegin(); i != all_.rend(); ++i)
    if (i->scenario.starts_with(scenario) && i->name == name)
      return i->value;
  throw std::out_of_range("no figure \"" + name + "\" of " + std::string{scenario});
}

void figures::print(std::ostream& out) const {
  const std::string* last = nullptr;
  for (const auto& f : all_) {
    if (!last || *last != f.scenario)
      out << "\n" << f.scenario << "\n";
    last = &f.scenario;
    auto whole = f.value == static_cast<double>(static_cast<std::int64_t>(f.value));
    out << fmt::format("  {:<66} {:>14} {}{}\n", f.name, whole ? fmt::format("{:.0f}", f.value) : fmt::format("{:.3f}", f.value), f.unit,
                       f.of_this_machine ? " *" : "");
  }
  out << "\n  * as fast as this machine is\n";
}

void figures::print_json(std::ostream& out) const {
  auto list = nlohmann::json::array();
  for (const auto& f : all_)
    list.push_back({{"scenario", f.scenario}, {"name", f.name}, {"value", f.value}, {"unit", f.unit}, {"of_this_machine", f.of_this_machine}});
  out << list.dump(2) << "\n";
}

std::int64_t quantile(std::vector<std::int64_t>& values, double p) {
  if (values.empty())
    return 0;
  auto at = values.begin() + static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

} // namespace swarm::simulate
