// Describes runs and routines: the outcome in the summary task, and the JSON that verbs and tools print.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/routine/run.hpp"
#include "gateway/routine/trust.hpp"

namespace swarm::routines {

namespace {

json strings(const std::vector<std::string>& list) {
  auto out = json::array();
  for (const auto& s : list)
    out.push_back(s);
  return out;
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json values_json(const values& v) {
  auto out = json::object();
  for (const auto& [name, value] : v)
    out[name] = value;
  return out;
}

} // namespace

std::string run::outcome() const {
  auto text = [&](std::size_t excerpt) {
    json out = {{"summary", name_ + ": " + counts()}, {"steps", json::array()}};
    for (std::size_t i = 0; i < steps(); ++i) {
      const auto& t = states_[i].task;
      out["steps"].push_back({{"step", step_at(i).id},
                              {"task_id", t.id()},
                              {"status", domain::to_text(t.status())},
                              {"result", text_or_null(std::string{utf8_prefix(said_in(t.result()), excerpt)})}});
    }
    return out.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  auto out = text(limits::routine_excerpt_bytes_max);
  return out.size() <= limits::result_bytes_max() ? out : text(0);
}

std::vector<std::string> run::problems() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].error.empty())
      out.push_back(step_at(i).id + ": " + states_[i].error);
  return out;
}

std::string run::counts() const {
  std::vector<std::pair<v1::TaskStatus, std::size_t>> numbers;
  for (std::size_t i = 0; i < steps() && i < states_.size(); ++i) {
    auto status = states_[i].task.status();
    auto at = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == status; });
    if (at == numbers.end())
      numbers.emplace_back(status, 1);
    else
      ++at->second;
  }
  std::string out;
  for (const auto& [status, number] : numbers)
    out += (out.empty() ? "" : ", ") + std::to_string(number) + " " + domain::to_text(status);
  return out;
}

json run::report(bool results) const {
  json out = {{"routine", full_name_}, {"digest", digest_}, {"run", id_}, {"existing", existing_}, {"parameters", values_json(values_)}};
  out["steps"] = json::array();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto& s = states_[i];
    json row = {{"step", step_at(i).id},
                {"task_id", s.task.id()},
                {"status", domain::to_text(s.task.status())},
                {"title", s.task.title()},
                {"depends_on", strings({s.task.depends_on().begin(), s.task.depends_on().end()})},
                {"routing", s.routing},
                {"recipient", text_or_null(s.recipient)},
                {"assignee", text_or_null(s.task.assignee())}};
    if (!s.error.empty())
      row["error"] = s.error;
    if (results)
      row["result"] = s.task.has_result() ? json(s.task.result()) : json(nullptr);
    if (i < steps())
      out["steps"].push_back(std::move(row));
    else
      out["summary"] = std::move(row);
  }
  if (!mail_.empty()) {
    out["consumed_messages"] = json::array();
    for (const auto& [sender, content] : mail_)
      out["consumed_messages"].push_back({{"sender", sender}, {"content", content}});
  }
  return out;
}

// -- without a node ----------------------------------------------------------------------

std::string said_in(const std::string& result) {
  auto value = domain::parse_json(result);
  if (!value || !value->is_object())
    return result;
  auto i = value->find("summary");
  return i != value->end() && i->is_string() ? i->get<std::string>() : result;
}

namespace {

json step_json(const step& s) {
  return {{"step", s.id},
          {"title", s.title},
          {"description", s.description},
          {"role", text_or_null(s.role)},
          {"type", s.type.empty() ? default_type : s.type},
          {"files", strings(s.files)},
          {"needs", strings(s.needs)},
          {"approval", s.approval},
          {"priority", s.priority},
          {"harness", text_or_null(s.harness)}};
}

json head_of(const routine_file& r) {
  return {{"routine", r.full_name()},         {"name", r.name},
          {"origin", to_text(r.from)},        {"file", r.file.string()},
          {"digest", text_or_null(r.digest)}, {"summary", r.content.value.summary}};
}

json problems_of(const routine_file& r) {
  auto out = json::array();
  for (const auto& p : r.content.problems)
    out.push_back({{"line", p.line > 0 ? json(p.line) : json(nullptr)}, {"problem", p.text}});
  return out;
}

} // namespace

json plan_json(const routine_file& r, const values& with, const std::vector<planned_step>& plan) {
  auto out = head_of(r);
  out["parameters"] = values_json(with);
  out["steps"] = json::array();
  for (const auto& p : plan)
    out["steps"].push_back(step_json(p.what));
  return out;
}

json routine_json(const routine_file& r, bool trusted) {
  auto out = head_of(r);
  out["trusted"] = trusted;
  out["parameters"] = json::array();
  for (const auto& p : r.content.value.parameters)
    out["parameters"].push_back({{"name", p.name},
                                 {"description", p.description},
                                 {"required", p.required},
                                 {"default", p.value ? json(*p.value) : json(nullptr)},
                                 {"choices", strings(p.choices)}});
  out["steps"] = json::array();
  for (const auto& s : r.content.value.steps)
    out["steps"].push_back(step_json(s));
  out["problems"] = problems_of(r);
  return out;
}

json list_row(const places& where, const routine_file& r) {
  auto out = head_of(r);
  out["trust"] = to_text(trust_of(where, r));
  out["problems"] = problems_of(r);
  return out;
}

} // namespace swarm::routines
