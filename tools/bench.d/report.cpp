#include "tools/bench.d/report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace swarm::bench {

namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.3f", v);
  return text;
}

template <class T>
nlohmann::json or_null(const std::optional<T>& v) {
  return v ? nlohmann::json(*v) : nlohmann::json(nullptr);
}

} // namespace

std::optional<double> row::ratio() const { return reference_name.empty() || reference <= 0 ? std::nullopt : std::optional{value / reference}; }

std::optional<bool> row::met() const {
  if (goal.what == goal::value_at_most)
    return value <= goal.bound;
  if (goal.what == goal::value_below)
    return value < goal.bound;
  auto r = ratio();
  if (goal.what == goal::none || !r)
    return std::nullopt;
  return goal.what == goal::ratio_at_most ? *r <= goal.bound : *r >= goal.bound;
}

std::string row::goal_text() const {
  char bound[32];
  std::snprintf(bound, sizeof bound, "%g", goal.bound);
  switch (goal.what) {
    case goal::none: return "";
    case goal::ratio_at_most: return std::string{"<= "} + bound + "x";
    case goal::ratio_at_least: return std::string{">= "} + bound + "x";
    case goal::value_at_most: return std::string{"<= "} + bound + " " + unit;
    case goal::value_below: return std::string{"< "} + bound + " " + unit;
  }
  return "";
}

void print(const std::vector<row>& rows) {
  std::printf("%-52s %10s %-10s %-34s %10s %8s %-14s %s\n", "what", "value", "unit", "reference", "", "ratio", "goal", "met");
  for (const auto& r : rows) {
    auto ratio = r.ratio();
    auto met = r.met();
    std::printf("%-52s %10s %-10s %-34s %10s %8s %-14s %s\n", r.name.c_str(), number(r.value).c_str(), r.unit.c_str(), r.reference_name.c_str(),
                r.reference_name.empty() ? "" : number(r.reference).c_str(), ratio ? number(*ratio).c_str() : "", r.goal_text().c_str(),
                met ? (*met ? "yes" : "NO") : "");
  }
  auto with_goal = std::count_if(rows.begin(), rows.end(), [](const row& r) { return r.met().has_value(); });
  auto reached = std::count_if(rows.begin(), rows.end(), [](const row& r) { return r.met().value_or(false); });
  std::printf("\n%ld of %ld goals are met\n", static_cast<long>(reached), static_cast<long>(with_goal));
}

void write_json(const std::vector<row>& rows, const std::string& file) {
  auto list = nlohmann::json::array();
  for (const auto& r : rows) {
    nlohmann::json reference = nullptr;
    if (!r.reference_name.empty())
      reference = {{"name", r.reference_name}, {"value", r.reference}};
    auto text = r.goal_text();
    list.push_back({{"name", r.name},
                    {"value", r.value},
                    {"unit", r.unit},
                    {"reference", reference},
                    {"ratio", or_null(r.ratio())},
                    {"goal", text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text)},
                    {"met", or_null(r.met())}});
  }
  std::ofstream out{file};
  out << list.dump(2) << "\n";
  if (!out.flush())
    throw std::runtime_error("cannot write " + file);
}

} // namespace swarm::bench
