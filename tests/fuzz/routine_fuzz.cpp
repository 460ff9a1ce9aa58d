// A routine's file, and values for its parameters: refused with problems that can be shown, or steps within bounds that come in an order;
// written out plainly it reads the same. Input: a byte for the place it is from, pieces for the parameters, the file.
#include <algorithm>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/routine/routine.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;
using namespace swarm::routines;

namespace {

constexpr const char* root = "/repo/x";

bool is_one_line(const std::string& text) { return escape_control(text, false) == text && text.find('\t') == text.npos; }

void check_problems(const std::vector<problem>& problems, std::size_t lines) {
  for (const auto& p : problems) {
    SWARM_HOLDS(!p.text.empty() && escape_control(p.text, false) == p.text);
    SWARM_HOLDS(p.line <= lines);
  }
}

void check_step(const step& s) {
  SWARM_HOLDS(is_plain_name(s.id));
  SWARM_HOLDS(!trimmed(s.title).empty() && s.title.size() <= limits::title_bytes_max() && is_utf8(s.title));
  SWARM_HOLDS(s.description.size() <= limits::description_bytes_max() && is_utf8(s.description));
  SWARM_HOLDS(s.role.empty() || is_plain_name(s.role));
  SWARM_HOLDS(s.type.empty() || domain::valid_task_type(s.type));
  SWARM_HOLDS(s.harness.empty() || domain::is_agent(s.harness)); // never a program of the file's choice
  SWARM_HOLDS(s.files.size() <= limits::task_files_max() && s.needs.size() <= limits::task_dependencies_max());
}

void check_routine(const routine& r) {
  SWARM_HOLDS(!r.steps.empty() && r.steps.size() < limits::batch_tasks_max());
  SWARM_HOLDS(r.parameters.size() <= limits::routine_parameters_max);
  SWARM_HOLDS(!trimmed(r.summary).empty());
  std::set<std::string> ids, names;
  for (const auto& s : r.steps) {
    check_step(s);
    SWARM_HOLDS(ids.insert(s.id).second);
  }
  for (const auto& s : r.steps)
    for (const auto& need : s.needs)
      SWARM_HOLDS(ids.count(need) == 1);
  SWARM_HOLDS(in_order(r.steps).size() == r.steps.size());
  for (const auto& p : r.parameters) {
    SWARM_HOLDS(is_plain_name(p.name) && names.insert(p.name).second);
    SWARM_HOLDS(!(p.required && p.value));
    SWARM_HOLDS(p.value.value_or("").size() <= limits::note_bytes_max());
  }
}

// -- written out plainly ---------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (auto c : text)
    out += c == '\n' ? std::string{"\\n"} : c == '\t' ? std::string{"\\t"} : c == '"' || c == '\\' ? std::string{"\\"} + c : std::string(1, c);
  return out + "\"";
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const auto& t : texts)
    out += quoted(t) + ", ";
  return out + "]";
}

std::string written(const routine& r) {
  auto out = "name = " + quoted(r.name) + "\nsummary = " + quoted(r.summary) + "\n";
  for (const auto& p : r.parameters) {
    out += "[parameters." + p.name + "]\ndescription = " + quoted(p.description) + "\nchoices = " + list_of(p.choices) + "\n";
    out += p.required ? "required = true\n" : p.value ? "default = " + quoted(*p.value) + "\n" : "";
  }
  for (const auto& s : r.steps) {
    out += "[[step]]\nid = " + quoted(s.id) + "\ntitle = " + quoted(s.title) + "\ndescription = " + quoted(s.description) + "\n";
    out += "role = " + quoted(s.role) + "\ntype = " + quoted(s.type) + "\nharness = " + quoted(s.harness) + "\n";
    out += "files = " + list_of(s.files) + "\nneeds = " + list_of(s.needs) + "\n";
    out += std::string{"approval = "} + (s.approval ? "true" : "false") + "\npriority = " + std::to_string(s.priority) + "\n";
  }
  return out;
}

bool same(const parameter& a, const parameter& b) {
  return a.name == b.name && a.description == b.description && a.value == b.value && a.required == b.required && a.choices == b.choices;
}
bool same(const step& a, const step& b) {
  return a.id == b.id && a.title == b.title && a.description == b.description && a.role == b.role && a.type == b.type && a.files == b.files &&
         a.needs == b.needs && a.approval == b.approval && a.priority == b.priority && a.harness == b.harness;
}
bool same(const routine& a, const routine& b) {
  auto each = [](const auto& x, const auto& y) { return same(x, y); };
  return a.name == b.name && a.summary == b.summary &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), each) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), each);
}

void check_written(const routine& r) {
  auto text = written(r);
  if (text.size() > limits::routine_bytes_max)
    return;
  auto again = parse(text, r.name);
  SWARM_HOLDS(again.problems.empty());
  SWARM_HOLDS(same(again.value, r));
}

// -- expanded --------------------------------------------------------------------------

void check_plan(const routine& r, origin from, const values& with) {
  std::vector<problem> problems;
  auto steps = plan(r, from, with, root, problems);
  check_problems(problems, limits::routine_bytes_max);
  SWARM_HOLDS(steps.size() == r.steps.size());
  std::set<std::string> before;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& s = steps[i];
    for (const auto& need : s.what.needs)
      SWARM_HOLDS(before.count(need) == 1);
    for (auto at : s.needs)
      SWARM_HOLDS(at < i);
    SWARM_HOLDS(before.insert(s.what.id).second);
    SWARM_HOLDS(s.what.files.size() <= limits::task_files_max());
    for (const auto& file : s.what.files) {
      SWARM_HOLDS(normalize_path(file, "/elsewhere") == file && file.size() <= limits::path_bytes_max() && is_one_line(file));
      SWARM_HOLDS(from != origin::repository || is_inside(root, file));
    }
    if (!problems.empty())
      continue;
    SWARM_HOLDS(!s.what.title.empty() && s.what.title.size() <= limits::title_bytes_max() && is_one_line(s.what.title));
    SWARM_HOLDS(s.what.description.size() <= limits::description_bytes_max() && is_utf8(s.what.description));
  }
}

void check_values(const routine& r, origin from, const values& given) {
  std::vector<problem> problems;
  auto with = settle(r, given, problems);
  check_problems(problems, 0);
  for (const auto& p : r.parameters) {
    auto i = given.find(p.name);
    bool missing = p.required && i == given.end();
    SWARM_HOLDS(!missing || !problems.empty());
    if (!problems.empty())
      continue;
    SWARM_HOLDS(with.at(p.name) == (i != given.end() ? i->second : p.value.value_or("")));
    SWARM_HOLDS(p.choices.empty() || i == given.end() || std::find(p.choices.begin(), p.choices.end(), i->second) != p.choices.end());
  }
  if (problems.empty())
    check_plan(r, from, with);
  auto more = given;
  more["no parameter"] = "";
  std::vector<problem> unknown;
  settle(r, more, unknown);
  SWARM_HOLDS(unknown.size() == problems.size() + 1);
}

/// What is written for the characters themselves gives the characters, and what a value holds is not looked at again.
void check_filling(std::string text) {
  const auto plain = text;
  for (auto at = text.find("${"); at != text.npos; at = text.find("${", at + 3))
    text.insert(at, 1, '$');
  SWARM_HOLDS(filled_in(text, {{"x", "y"}}) == plain);
  SWARM_HOLDS(filled_in("<${x}>", {{"x", plain}}) == "<" + plain + ">");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  auto which = in.byte();
  auto from = std::array{origin::repository, origin::user, origin::shipped}[which % 3];
  std::vector<std::string> pieces;
  for (auto n = which / 3 % 4; n > 0; --n)
    pieces.push_back(in.piece());
  auto text = in.rest();
  auto r = parse(text, "r");
  SWARM_HOLDS(r.value.name == "r" && r.problems.size() <= limits::routine_problems_max);
  check_problems(r.problems, 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  check_filling(text.substr(0, 1'000));
  if (!r.problems.empty())
    return 0;
  check_routine(r.value);
  check_written(r.value);
  values given;
  for (std::size_t i = 0; i < pieces.size() && i < r.value.parameters.size(); ++i)
    given[r.value.parameters[i].name] = pieces[i];
  check_values(r.value, from, given);
  return 0;
}
