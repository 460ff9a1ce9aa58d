#include "cli/verbs/chat_question.hpp"

#include <algorithm>

#include "actors/agents/question_parts.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::cli {

namespace {

constexpr std::size_t long_lines = 15;

constexpr const char* answer_option = "answer";

char key_of(const std::string& option, std::size_t number) {
  if (option == "allow" || option == "yes")
    return 'a';
  if (option == "deny" || option == "no")
    return 'd';
  return option == "always" ? 'A' : static_cast<char>('1' + number);
}

} // namespace

std::vector<question_part> question_parts(std::string_view body) {
  std::vector<question_part> out;
  for (auto& part : agents::question_parts(body)) {
    auto& to = out.emplace_back();
    to.question = std::move(part.shown);
    to.many = part.many;
    for (const auto& c : part.choices)
      to.choices.push_back({std::string{c.shown()}, c.description});
  }
  return out;
}

std::vector<question_part> question_parts(const v1::Approval& a, std::string_view body) {
  return a.kind() == v1::Approval::QUESTION && !a.conversation_id().empty() ? question_parts(body) : std::vector<question_part>{};
}

chat_text lines_of_part(const question_part& part) {
  auto out = lines_of_text(part.question, colour::none, "    ");
  for (std::size_t i = 0; i < part.choices.size(); ++i) {
    const auto& c = part.choices[i];
    out.push_back({colour::none, concat({"      ", i + 1, " ", c.label, c.description.empty() ? "" : "  (" + c.description + ")"})});
  }
  return out;
}

void put_answers(v1::DecideApproval& to, const v1::Approval& a, const std::vector<question_part>& parts, const part_answers& answers) {
  const auto is_option = [&](std::string_view text) { return std::find(a.options().begin(), a.options().end(), text) != a.options().end(); };
  to.set_option(answer_option);
  if (!is_option(answer_option) && parts.size() == 1 && !answers.empty() && !a.options().empty()) {
    // The row has its labels as options, each no longer than an option may be.
    const auto& said = answers.front().second;
    const auto chosen = std::find_if(parts.front().choices.begin(), parts.front().choices.end(),
                                     [&](const auto& c) { return said == c.label || said.starts_with(c.label + ", "); });
    const auto label = chosen == parts.front().choices.end() ? std::string_view{} : utf8_prefix(chosen->label, limits::approval_choice_bytes_max);
    to.set_option(is_option(label) ? std::string{label} : a.options(0));
    if (to.option() == said)
      return;
  }
  for (const auto& [question, choice] : answers) {
    auto& answer = *to.add_answers();
    answer.set_question(question);
    answer.set_choice(choice);
  }
}

std::string name_of(const v1::Principal& p) {
  switch (p.kind()) {
    case v1::Principal::OPERATOR: return "a person";
    case v1::Principal::SESSION: return "session " + short_id(p.id());
    case v1::Principal::DEVICE: return "device " + short_id(p.id());
    case v1::Principal::GATEWAY: return "gateway " + short_id(p.id());
    default: return "the node";
  }
}

std::string time_left(const v1::Approval& a, std::int64_t unix_ms) {
  if (a.deadline_ms() == 0 || unix_ms == 0)
    return {};
  const auto s = std::max<std::int64_t>(a.deadline_ms() - unix_ms, 0) / 1'000;
  constexpr std::int64_t minute = 60, hour = 60 * minute, seconds_count = 10 * minute;
  if (s < minute)
    return concat({s, " s"});
  if (s < seconds_count)
    return concat({s / minute, " min ", s % minute, " s"});
  return s < hour ? concat({s / minute, " min"}) : concat({s / hour, " h ", s % hour / minute, " min"});
}

std::string deadline_text(const v1::Approval& a, std::int64_t unix_ms) {
  const auto left = time_left(a, unix_ms);
  if (left.empty() || a.decided_at_ms() != 0)
    return {};
  // A question by ask_person, also when it is shown as a conversation's, denies nothing.
  const bool ends_unanswered = a.conversation_id().empty() || (a.kind() == v1::Approval::QUESTION && a.native_id().empty());
  return ends_unanswered ? concat({"expires in ", left, " without an answer"}) : concat({"denied in ", left, ", unless somebody decides"});
}

chat_question::chat_question(v1::Approval a, std::string body)
  : approval_(std::move(a)), body_(std::move(body)), parts_(question_parts(approval_, body_)) {
  for (int i = 0; i < approval_.options_size(); ++i)
    // A body that is not shown can only be denied here. The choices of parts have keys of their own.
    if (const auto& option = approval_.options(i); option == "deny" || (is_whole() && parts_.empty() && option != answer_option))
      choices_.push_back({key_of(option, static_cast<std::size_t>(i)), option});
}

bool chat_question::has(std::string_view option) const {
  return std::find(approval_.options().begin(), approval_.options().end(), option) != approval_.options().end();
}

chat_text chat_question::lines(std::int64_t unix_ms) const {
  chat_text out;
  if (answers_.empty())
    out.push_back({colour::yellow, concat({"? ", approval_.title(), "  [", short_id(approval_.id()), "]"})});
  auto action = !is_whole()
                  ? chat_text{{colour::none,
                               concat({"    it is ", byte_count(approval_.body_bytes()), " long; to read it: swarmctl approvals ", approval_.id()})}}
                : parts_.empty() ? action_lines(body_)
                                 : part_lines();
  out.insert(out.end(), action.begin(), action.end());
  // The line that says what it is may have left the screen.
  if (action.size() > long_lines)
    out.push_back({colour::yellow, concat({"? ", approval_.title(), "  [", short_id(approval_.id()), "]  (the ", action.size(), " lines above)"})});
  const bool can_be_always = std::any_of(choices_.begin(), choices_.end(), [](const auto& c) { return c.option == "always"; });
  if (can_be_always && !approval_.pattern().empty())
    out.push_back({colour::none, "    always: " + approval_.pattern()});
  if (const auto left = deadline_text(approval_, unix_ms); !left.empty())
    out.push_back({colour::dim, "    " + left});
  std::string keys;
  for (const auto& c : choices_)
    keys += concat({"   ", std::string(1, c.key), " ", c.option});
  if (!parts_.empty() && has(answer_option))
    keys += "   w answer in your own words";
  if (has("deny"))
    keys += "   m deny, with words for the agent";
  if (keys.size() > 1)
    out.push_back({colour::yellow, keys.substr(1)});
  return out;
}

chat_text chat_question::part_lines() const {
  const auto& part = parts_[answers_.size()];
  auto out = lines_of_part(part);
  if (part.many)
    out.push_back({colour::dim, "      several may be chosen; Enter takes them"});
  return out;
}

std::string chat_question::hint() const {
  std::string keys;
  const auto add = [&](const std::string& key) { keys += concat({keys.empty() ? "" : "/", key}); };
  if (is_whole() && !parts_.empty()) {
    const auto& part = parts_[answers_.size()];
    if (part.choices.size() == 1)
      add("1");
    else if (!part.choices.empty())
      add(concat({"1-", part.choices.size()}));
  }
  for (const auto& c : choices_)
    add(std::string(1, c.key));
  if (picked_.empty())
    return keys;
  std::string chosen;
  for (auto i : picked_)
    chosen += concat({chosen.empty() ? "" : ", ", parts_[answers_.size()].choices[i].label});
  return concat({keys, " (", chosen, ")"});
}

std::string chat_question::meaning(char key) const {
  constexpr std::size_t shown_bytes_max = 32;
  for (const auto& c : choices_)
    if (c.key == key)
      return c.option;
  if (parts_.empty() || !is_whole())
    return {};
  const auto& part = parts_[answers_.size()];
  const auto i = static_cast<std::size_t>(key - '1');
  return key < '1' || i >= part.choices.size() || part.many ? std::string{} : std::string{utf8_prefix(part.choices[i].label, shown_bytes_max)};
}

chat_question::outcome chat_question::press(char key) {
  if (const auto choice = std::find_if(choices_.begin(), choices_.end(), [key](const auto& c) { return c.key == key; }); choice != choices_.end()) {
    option_ = choice->option;
    return outcome::decided;
  }
  if (key == 'm' && has("deny"))
    return outcome::denial_words;
  if (parts_.empty() || !is_whole())
    return outcome::ignored;
  const auto& part = parts_[answers_.size()];
  if (key == 'w' && has(answer_option))
    return outcome::own_words;
  if (key == '\r' && !picked_.empty()) {
    std::string chosen;
    for (auto i : picked_)
      chosen += concat({chosen.empty() ? "" : ", ", part.choices[i].label});
    return answer_part(std::move(chosen));
  }
  const auto i = static_cast<std::size_t>(key - '1');
  if (key < '1' || i >= part.choices.size())
    return outcome::ignored;
  if (!part.many)
    return answer_part(part.choices[i].label);
  if (!picked_.erase(i))
    picked_.insert(i);
  return outcome::changed;
}

bool chat_question::are_keys(std::string_view line) const {
  if (line.empty())
    return false;
  const bool has_parts = is_whole() && !parts_.empty();
  if (line.size() == 1 && (!meaning(line.front()).empty() || (line == "m" && has("deny")) || (line == "w" && has_parts && has(answer_option))))
    return true;
  if (!has_parts || !parts_[answers_.size()].many)
    return false;
  const auto& choices = parts_[answers_.size()].choices;
  return std::all_of(line.begin(), line.end(), [&](char c) { return c >= '1' && static_cast<std::size_t>(c - '1') < choices.size(); });
}

chat_question::outcome chat_question::press_all(std::string_view keys) {
  auto out = outcome::ignored;
  for (auto key : keys)
    out = press(key);
  // Choices are taken by Enter; what each key alone has done is over.
  return out == outcome::changed && !picked_.empty() ? press('\r') : out;
}

chat_question::outcome chat_question::answer_part(std::string choice) {
  answers_.emplace_back(parts_[answers_.size()].question, std::move(choice));
  picked_.clear();
  return answers_.size() == parts_.size() ? outcome::decided : outcome::next;
}

chat_question::outcome chat_question::say(const std::string& words, outcome asked) {
  if (asked == outcome::own_words)
    return trimmed(words).empty() ? outcome::changed : answer_part(words);
  option_ = "deny";
  message_ = words;
  return outcome::decided;
}

v1::DecideApproval chat_question::decision() const {
  v1::DecideApproval out;
  out.set_approval_id(approval_.id());
  // Exactly what was shown is what a decision is about.
  out.set_action_digest(is_whole() ? sha256(body_) : approval_.action_digest());
  if (option_.empty())
    put_answers(out, approval_, parts_, answers_);
  else
    out.set_option(option_);
  out.set_message(message_);
  return out;
}

} // namespace swarm::cli
