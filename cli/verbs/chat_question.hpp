// What an agent asks a person: its parts, the keys that answer it at a terminal, and what a decision says then.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/verbs/chat_lines.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm::cli {

struct question_part {
  struct choice {
    std::string label, description;
  };
  std::string question; // as a decision names it
  bool many = false;    // several choices may be taken
  std::vector<choice> choices;
};

/// Of what a conversation's agent asks, as it says it; empty for what has no parts.
std::vector<question_part> question_parts(std::string_view body);
/// The same of an approval; empty for anything but such a question.
std::vector<question_part> question_parts(const v1::Approval&, std::string_view body);
/// The part with its choices, by their numbers.
chat_text lines_of_part(const question_part&);

/// What was answered to each part, in their order.
using part_answers = std::vector<std::pair<std::string, std::string>>;
/// The option and the answers that say this to the agent. With words that are none of the choices, or several of them, the option of a question
/// with one part is the first one.
void put_answers(v1::DecideApproval&, const v1::Approval&, const std::vector<question_part>&, const part_answers&);

/// "a person", "session 3fa1b2c4".
std::string name_of(const v1::Principal&);
/// "29 min", until nobody waits for a decision any more; empty: that has no end, or the time is not known (0).
std::string time_left(const v1::Approval&, std::int64_t unix_ms);
/// The same in a sentence, with what happens then; empty also when it has been decided.
std::string deadline_text(const v1::Approval&, std::int64_t unix_ms);

/// One request at a terminal, until it is decided.
class chat_question {
public:
  enum class outcome : std::uint8_t {
    ignored,
    changed, // the hint is another one
    next,    // the next part is asked
    decided,
    denial_words, // what to say to the agent is typed now
    own_words,    // what to answer is
  };

  chat_question(v1::Approval, std::string body);

  const v1::Approval& approval() const noexcept { return approval_; }
  /// It has choices with numbers.
  bool takes_numbers() const noexcept { return !parts_.empty() || (!choices_.empty() && choices_.front().key == '1'); }
  /// What is asked now. With 0 as the time nothing is said of a deadline.
  chat_text lines(std::int64_t unix_ms) const;
  /// The keys that count, before what is typed.
  std::string hint() const;
  outcome press(char key);
  /// The line is one key that counts, or several choices that may be taken together.
  bool are_keys(std::string_view line) const;
  /// Those keys, the choices with the Enter that takes them.
  outcome press_all(std::string_view keys);
  /// What the key answers by itself; empty for one after which words or Enter follow, and for all others.
  std::string meaning(char key) const;
  /// The words for which press() has asked.
  outcome say(const std::string& words, outcome asked);
  /// Once it is decided.
  v1::DecideApproval decision() const;

  /// By a clock that only goes on; 0 = not yet.
  std::int64_t shown_at_ms = 0;

private:
  bool is_whole() const noexcept { return approval_.body_bytes() == 0 || !body_.empty(); }
  bool has(std::string_view option) const;
  chat_text part_lines() const;
  outcome answer_part(std::string choice);

  struct key_choice {
    char key;
    std::string option;
  };
  v1::Approval approval_;
  std::string body_; // as it is shown
  std::vector<key_choice> choices_;
  std::vector<question_part> parts_;
  std::set<std::size_t> picked_; // of the part that is asked
  part_answers answers_;
  std::string option_, message_; // of a decision that is no answer to parts
};

} // namespace swarm::cli
