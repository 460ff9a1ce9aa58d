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

void write(const nlohmann::json& list, const std::string& file) {
  std::ofstream out{file};
  out << list.dump(2) << "\n";
  if (!out.flush())
    throw std::runtime_error("cannot write " + file);
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

bool compared::more_is_better() const { return ours.unit.ends_with("/s") && ours.unit != "wake-ups/s"; }

bool compared::is_regression() const {
  if (ours.of_the_machine)
    return false;
  if (more_is_better())
    return ours.value < theirs.value * 0.95 && ours.value < least;
  return ours.value > theirs.value * 1.05 && ours.value > most;
}

void print(const std::vector<compared>& rows) {
  std::printf("%-52s %10s %10s %-10s %12s  %-19s %s\n", "what", "ours", "theirs", "unit", "ours/theirs", "theirs, all rounds", "");
  for (const auto& c : rows) {
    auto spread = number(c.least) + " to " + number(c.most);
    std::printf("%-52s %10s %10s %-10s %12s  %-19s %s\n", c.ours.name.c_str(), number(c.ours.value).c_str(), number(c.theirs.value).c_str(),
                c.ours.unit.c_str(), c.theirs.value > 0 ? number(c.ours.value / c.theirs.value).c_str() : "", spread.c_str(),
                c.is_regression() ? "REGRESSION" : "");
  }
  auto found = std::count_if(rows.begin(), rows.end(), [](const compared& c) { return c.is_regression(); });
  std::printf("\n%ld of %ld rows are worse by more than 5 %% and outside of what theirs had\n", static_cast<long>(found),
              static_cast<long>(rows.size()));
}

void write_json(const std::vector<compared>& rows, const std::string& file) {
  auto list = nlohmann::json::array();
  for (const auto& c : rows)
    list.push_back({{"name", c.ours.name},
                    {"unit", c.ours.unit},
                    {"ours", c.ours.value},
                    {"theirs", c.theirs.value},
                    {"theirs_least", c.least},
                    {"theirs_most", c.most},
                    {"regression", c.is_regression()}});
  write(list, file);
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
  write(list, file);
}

} // namespace swarm::bench
