// What a decision says to the agent of a conversation, beside the option.
#include <algorithm>

#include "actors/domain/conversation/rules.hpp"
#include "actors/domain/json_text.hpp"

namespace swarm::domain {

namespace {

using approval = v1::Approval; // for the names of its kinds

/// The option of a question that is answered part by part.
constexpr std::string_view by_parts = "answer";

/// The parts of the question, as its body has them; empty when they cannot be told.
std::vector<std::string> questions_in(const v1::Approval& a) {
  const auto body = parse_json(a.body());
  std::vector<std::string> out;
  if (!body || !body->is_object() || !body->contains("questions") || !(*body)["questions"].is_array())
    return out;
  for (const auto& q : (*body)["questions"]) {
    if (!q.is_object() || !q.contains("question") || !q["question"].is_string())
      return {};
    out.push_back(q["question"].get<std::string>());
    if (out.back().size() > limits::question_part_bytes_max) // shortened where it is shown, and answered by what is shown
      return {};
  }
  return out;
}

std::optional<v1::Reply> check_answers(const v1::Approval& a, const v1::DecideApproval& d) {
  if (!d.answers().empty() && a.kind() != approval::QUESTION)
    return refuse(v1::Refusal::INVALID, "Answers go with a question. Leave them out.", a.id());
  if (d.answers_size() > limits::question_parts_max)
    return refuse(v1::Refusal::INVALID, "A question has at most " + std::to_string(limits::question_parts_max) + " parts", a.id());
  if (a.kind() != approval::QUESTION || d.option() != by_parts)
    return std::nullopt;
  const auto parts = questions_in(a);
  if (d.answers().empty())
    return refuse(
      v1::Refusal::INVALID,
      "This question has parts: answer each, for instance --answer \"" + (parts.empty() ? std::string{"TEXT"} : parts.front()) + "=ANSWER\"", a.id());
  for (const auto& answer : d.answers())
    if (!parts.empty() && std::find(parts.begin(), parts.end(), answer.question()) == parts.end())
      return refuse(v1::Refusal::INVALID, "\"" + answer.question() + "\" is no part of the question. Its first part is \"" + parts.front() + "\".",
                    a.id());
  return std::nullopt;
}

bool is_object(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed && parsed->is_object();
}

} // namespace

std::optional<v1::Reply> check_words_for_agent(const transaction& tx, const v1::Approval& a, const v1::DecideApproval& d) {
  const bool has_words = !d.message().empty() || !d.edited_input().empty() || !d.answers().empty();
  if (a.conversation_id().empty() && has_words)
    return refuse(v1::Refusal::INVALID, "Only the agent of a conversation reads a message, an edited input or answers. Leave them out.", a.id());
  if (a.conversation_id().empty())
    return std::nullopt;
  if (!d.edited_input().empty() && (!is_permission(a.kind()) || d.option() != "allow"))
    return refuse(v1::Refusal::INVALID, "An edited input goes with allow, and with a tool. Leave it out.", a.id());
  // Another input is a new order; a decision only allows what is shown.
  if (!d.edited_input().empty() && tx.command().principal().kind() != v1::Principal::OPERATOR)
    return refuse(v1::Refusal::FORBIDDEN, "Only the operator gives a tool another input. Leave it out, or deny with a message.", a.id());
  if (!d.edited_input().empty() && !is_object(d.edited_input()))
    return refuse(v1::Refusal::INVALID, "The edited input is no JSON object", a.id());
  return check_answers(a, d);
}

} // namespace swarm::domain
