// What Claude Code asks its driver, what its driver asks it, and the answers.
#include <algorithm>
#include <array>

#include "actors/agents/claude_stream.hpp"
#include "actors/agents/question_parts.hpp"
#include "actors/agents/tools.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

constexpr std::size_t title_bytes_max = 1 * limits::kib;
constexpr std::size_t command_bytes_max = 64;
constexpr std::array modes{"default", "acceptEdits", "plan"};
constexpr std::string_view question_tool = "AskUserQuestion";

std::string bounded(std::string text, std::size_t bytes) {
  text.resize(utf8_prefix(text, bytes).size());
  return text;
}

internal::Request::Kind kind_of(std::string_view tool) {
  if (tool == question_tool)
    return internal::Request::QUESTION;
  if (tool_name(tool).size() != tool.size())
    return internal::Request::TOOL; // of a server, whatever that does under this name
  switch (kind_of_tool(tool)) {
    case tool_kind::runs: return internal::Request::COMMAND;
    case tool_kind::writes: return internal::Request::FILE;
    default: return internal::Request::TOOL;
  }
}

/// The file that a tool writes; empty when its input names none.
std::string written_path(std::string_view tool, const json_view::members& input, std::string_view directory) {
  auto path = input[tool == "NotebookEdit" ? "notebook_path" : "file_path"].text();
  if (path.empty() || (path.front() != '/' && directory.empty()))
    return {};
  path = normalize_path(path, directory);
  return path.size() <= claude_stream::path_bytes_max ? path : std::string{};
}

/// Of the input of a tool that is no shell, in place of all of it; empty when it names none.
std::string what_names_files(const json_view& input) {
  const json_view::members all{input};
  std::string out;
  for (auto name : path_parameters())
    if (auto path = all[name]; path.is_text() && path.raw().size() <= claude_stream::path_bytes_max)
      out += concat({out.empty() ? "{" : ",", json_quoted(name), ":", path.raw()});
  return out.empty() ? out : out + "}";
}

std::string title_of(const internal::Request& request, const json_view::members& asked, const json_view::members& input) {
  std::string about;
  if (request.choices_size() > 0)
    about = request.choices(0).question();
  else if (request.kind() == internal::Request::COMMAND)
    about = input["command"].text();
  else
    about = request.writes_size() > 0 ? request.writes(0).name() : asked["description"].text();
  auto title = about.empty() ? request.tool() : concat({request.tool(), ": ", about});
  std::replace_if(
    title.begin(), title.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return bounded(std::move(title), title_bytes_max);
}

void add_choices(internal::Request& request, const json_view& input) {
  for (auto& part : question_parts(input.raw())) {
    auto& choice = *request.add_choices();
    choice.set_question(std::move(part.shown));
    choice.set_many(part.many);
    for (const auto& c : part.choices)
      choice.add_options(std::string{c.shown()});
  }
}

std::string reason_or(const std::string& reason, std::string_view otherwise) {
  return reason.empty() ? std::string{otherwise} : bounded(reason, limits::agent_reason_bytes_max);
}

} // namespace

std::string request_names::name_of(std::string_view native) {
  const auto id = native.empty() ? std::string{"request"} : claude_id(native);
  if (used_.size() >= limits::agent_requests_known_max)
    return claude_id(concat({id, "/+", ++further_}));
  const std::hash<std::string> hash;
  auto& times = used_[hash(id)];
  if (++times == 1)
    return id;
  for (auto n = times;; ++n) {
    auto name = claude_id(concat({id, "/", n}));
    if (used_.emplace(hash(name), 1).second)
      return name;
  }
}

// ---- what the program asks ----

void claude_stream::control_request(const members& frame) {
  const auto native = frame["request_id"].text();
  const members request{frame["request"]};
  const auto what = request["subtype"];
  if (native.size() > limits::agent_request_id_bytes_max)
    out_.to_agent += claude_lines::unsupported(native);
  else if (what.is("can_use_tool"))
    can_use_tool(native, request);
  else if (what.is("hook_callback"))
    hook_callback(native, request);
  else
    out_.to_agent += claude_lines::unsupported(native);
}

void claude_stream::can_use_tool(const std::string& native, const members& asked) {
  const auto body = asked["input"];
  const members input{body};
  internal::Request head;
  withdraw_native(native, "the agent asks something else under the same id");
  if (requests_.size() >= limits::agent_requests_open_max || open_bytes() + native.size() + body.raw().size() > limits::agent_requests_bytes_max) {
    out_.to_agent += claude_lines::deny(native, "Too much waits for an answer; try again later", false);
    return;
  }
  head.set_id(names_.name_of(native));
  head.set_tool(bounded(asked["tool_name"].text(), limits::agent_name_bytes_max));
  head.set_kind(kind_of(head.tool()));
  head.set_call(claude_id(asked["tool_use_id"].text()));
  if (head.kind() == internal::Request::QUESTION)
    add_choices(head, body);
  if (auto path = written_path(head.tool(), input, directory_); head.kind() == internal::Request::FILE && !path.empty())
    head.add_writes()->set_name(path);
  head.set_title(title_of(head, asked, input));
  request open{.native = native, .input = std::string{body.exists() ? body.raw() : "{}"}, .digest = {}, .head = {}};
  open.digest = sha256(open.input);
  // A rule does not keep the program from asking again about a path outside of its allowed directories.
  head.set_can_be_always(!asked["blocked_path"].is_text() &&
                         claude_lines::may_keep_rule(asked["permission_suggestions"], asked["tool_name"].text(), input["command"].text()));
  open.head = std::move(head);
  open_request(std::move(open));
}

void claude_stream::open_request(request open) {
  const auto& head = open.head;
  std::string_view body = open.input;
  do {
    auto piece = utf8_prefix(body, limits::agent_request_part_bytes_max);
    body.remove_prefix(piece.size());
    auto& part = *say().mutable_request();
    part.set_id(head.id());
    if (body.empty())
      part = head;
    part.set_body(std::string{piece});
    part.set_last(body.empty());
  } while (!body.empty());
  const auto id = head.id();
  requests_.insert_or_assign(id, std::move(open));
}

void claude_stream::hook_callback(const std::string& native, const members& request) {
  const members input{request["input"]};
  const bool after = input["hook_event_name"].is("PostToolUse");
  withdraw_hook(native); // it asks something else under the same id
  if (after || !input["hook_event_name"].is("PreToolUse")) {
    out_.to_agent += claude_lines::pass_hook(native);
    if (!after)
      return;
  } else if (hooks_.size() >= limits::agent_hook_questions_max) {
    out_.to_agent += claude_lines::deny_hook(native, "Too many tools wait for a check of locks; try again later");
    return;
  }
  internal::HookQuestion question;
  question.set_id(after ? claude_id(native) : names_.name_of(native));
  question.set_tool(bounded(input["tool_name"].text(), limits::agent_name_bytes_max));
  question.set_directory(bounded(input["cwd"].text(), path_bytes_max));
  question.set_call(claude_id(input["tool_use_id"].text()));
  question.set_after(after);
  auto asked = std::string{input["tool_input"].raw()};
  if (const bool is_long = asked.size() > hook_bytes_max) {
    asked = kind_of_tool(question.tool()) == tool_kind::runs ? std::string{} : what_names_files(input["tool_input"]);
    question.set_too_long(is_long && asked.empty());
  }
  question.set_input(std::move(asked));
  if (!after)
    hooks_.emplace(question.id(), native);
  *say().mutable_hook_question() = std::move(question);
}

void claude_stream::control_cancelled(const std::string& native) {
  withdraw_hook(native);
  withdraw_native(native, "the agent stopped waiting");
}

void claude_stream::withdraw_hook(const std::string& native) {
  std::erase_if(hooks_, [&](const auto& h) { return h.second == native; });
}

void claude_stream::withdraw_native(const std::string& native, std::string_view reason) {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& r) { return r.second.native == native; });
  if (found != requests_.end())
    withdraw(std::string{found->first}, reason);
}

void claude_stream::withdraw(const std::string& id, std::string_view reason) {
  if (requests_.erase(id) == 0)
    return;
  auto& w = *say().mutable_withdrawn();
  w.set_request_id(id);
  w.set_reason(std::string{reason});
}

void claude_stream::withdraw_calls_of(const std::string& call, std::string_view reason) {
  for (const auto& id : open_requests())
    if (!call.empty() && requests_[id].head.call() == call)
      withdraw(id, reason);
}

std::vector<std::string> claude_stream::open_requests() const {
  std::vector<std::string> out;
  for (const auto& [id, r] : requests_)
    out.push_back(id);
  return out;
}

std::size_t claude_stream::open_bytes() const {
  std::size_t out = 0;
  for (const auto& [id, r] : requests_)
    out += r.native.size() + r.input.size();
  return out;
}

// ---- answers ----

namespace {

/// A word that is no choice unless the question has it as one.
bool allows(std::string_view option) { return option == "allow" || option == "always"; }

bool has_label(const question_part& part, const std::string& label) {
  return std::any_of(part.choices.begin(), part.choices.end(), [&](const auto& c) { return c.label == label; });
}

/// Whether it says no. A question may have that word as a choice of its own; a denial has its reason.
bool denies(const internal::Answer& answer, const std::vector<question_part>& parts) {
  if (answer.option() != "deny")
    return false;
  const bool is_plain = answer.text().empty() && !answer.ends_turn() && answer.answers().empty() && parts.size() == 1;
  return !is_plain || !has_label(parts.front(), answer.option());
}

/// What was chosen, as JSON; nothing when something else was asked.
std::optional<std::string> chosen(const internal::Answer& answer, const std::vector<question_part>& parts) {
  std::string out;
  auto add = [&](std::string_view question, std::string_view choice) {
    out += concat({out.empty() ? "" : ",", json_quoted(question), ":", json_quoted(choice)});
  };
  if (const auto& option = answer.option(); answer.answers().empty() && parts.size() == 1 && !option.empty()) {
    if (!allows(option) || has_label(parts.front(), option))
      add(parts.front().text, parts.front().meant_by(option));
  }
  std::size_t known = 0;
  for (auto p = parts.begin(); p != parts.end(); ++p) { // in their order; to the agent, equal texts are one question
    const auto found = answer.answers().find(p->shown);
    if (found == answer.answers().end() || std::any_of(parts.begin(), p, [&](const auto& before) { return before.text == p->text; }))
      continue;
    add(p->text, p->meant_by(found->second));
    ++known;
  }
  return out.empty() || known != answer.answers().size() ? std::nullopt : std::optional{concat({"{", out, "}"})};
}

/// Why an answer that allows is not valid; empty when it is valid.
std::string why_not_allowed(const internal::Answer& answer, bool can_be_always) {
  const bool is_edited = !answer.edited_input().empty();
  if (answer.option() == "always" && !can_be_always)
    return "The agent knows no rule for this; answer allow or deny";
  if (answer.option() == "always" && is_edited) // the rule would allow what the person has changed
    return "An edited input is allowed once; answer allow";
  return is_edited && !json_view::of(answer.edited_input()).is_object() ? "The edited input is no JSON object" : "";
}

} // namespace

claude_line claude_stream::answer(const internal::Answer& answer) {
  auto found = requests_.find(answer.request_id());
  if (found == requests_.end())
    return claude_refusal{"Nobody waits for an answer to this; it was answered, or withdrawn by the agent"};
  const auto& open = found->second;
  if (answer.digest() != open.digest)
    return claude_refusal{"The answer is not to what the agent asks now under this id; look at the request again"};
  std::string line;
  const auto input = json_view::of(open.input);
  const auto parts = open.is_question() ? question_parts(open.input) : std::vector<question_part>{};
  if (denies(answer, parts)) {
    line = claude_lines::deny(open.native, reason_or(answer.text(), "The user said no"), answer.ends_turn());
  } else if (open.is_question()) {
    auto answers = chosen(answer, parts);
    if (!answers)
      return claude_refusal{"The answer belongs to none of the question's parts; answer with their choices, or deny"};
    line = claude_lines::allow(open.native, claude_lines::with_answers(input, *answers));
  } else if (!allows(answer.option())) {
    return claude_refusal{"Answer allow, deny or always"};
  } else {
    auto why = why_not_allowed(answer, open.head.can_be_always());
    if (!why.empty())
      return claude_refusal{std::move(why)};
    line = claude_lines::allow(open.native, answer.edited_input().empty() ? open.input : answer.edited_input(),
                               answer.option() == "always" ? claude_lines::rule_of(input["command"].text()) : std::string{});
  }
  requests_.erase(found);
  return line;
}

std::optional<std::pair<internal::Request, std::string_view>> claude_stream::asked_under(const std::string& request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? std::nullopt : std::optional{std::pair{found->second.head, std::string_view{found->second.input}}};
}

claude_output claude_stream::ask_again(const internal::Answer& answer, std::string_view why) {
  const auto found = requests_.find(answer.request_id());
  if (found == requests_.end() || answer.digest() != found->second.digest)
    return {}; // it asks something else now, and a person knows of it
  auto open = found->second;
  withdraw(answer.request_id(), concat({"it is asked again: ", why}));
  open.head.set_id(names_.name_of(open.native));
  open.head.set_title(bounded(concat({open.head.title(), " (asked again: ", why, ")"}), title_bytes_max));
  open_request(std::move(open));
  return std::exchange(out_, {});
}

claude_line claude_stream::answer_hook(const internal::HookAnswer& answer) {
  auto found = hooks_.find(answer.question_id());
  if (found == hooks_.end())
    return claude_refusal{"No tool waits for this answer"};
  const auto native = std::move(found->second);
  hooks_.erase(found);
  return answer.denied() ? claude_lines::deny_hook(native, reason_or(answer.text(), "The tool may not run")) : claude_lines::pass_hook(native);
}

// ---- what the program is asked ----

std::string claude_stream::next_id() { return concat({"swarm-", ++controls_begun_}); }

std::string claude_stream::next_request(control what, std::string option) {
  auto id = next_id();
  controls_.emplace(id, asked{what, std::move(option)});
  return id;
}

std::string claude_stream::initialize() { return claude_lines::initialize(next_request(control::initialize)); }

claude_output claude_stream::interrupt() {
  // First nobody can answer any more, then the agent hears of it. It withdraws what its own turn waits for; a task beside the turn would wait on.
  std::string denied;
  for (const auto& id : open_requests()) {
    denied += claude_lines::deny(requests_[id].native, "The user interrupted the turn", false);
    withdraw(id, "interrupted");
  }
  if (interrupts_.size() == limits::agent_wishes_waiting_max)
    interrupts_.pop_front();
  out_.to_agent += claude_lines::interrupt(interrupts_.emplace_back(next_id()), !waiting_.empty());
  out_.to_agent += denied;
  return std::exchange(out_, {});
}

claude_output claude_stream::set(const internal::SetOption& wish) {
  if (options_.contains(wish.id()))
    return {};
  option state;
  if (ended_) {
    state.text = closed_;
  } else if (options_.size() >= limits::agent_wishes_waiting_max) {
    state.text = "Too many options wait for the agent";
  } else {
    if (!wish.model().empty()) {
      out_.to_agent += claude_lines::set_model(next_request(control::model, wish.id()), wish.model());
      ++state.unanswered;
    }
    if (!wish.mode().empty()) {
      out_.to_agent += claude_lines::set_mode(next_request(control::mode, wish.id()), wish.mode());
      ++state.unanswered;
    }
    if (state.unanswered > 0)
      options_.emplace(wish.id(), state);
  }
  if (state.unanswered == 0)
    put_option(wish.id(), state.text);
  return std::exchange(out_, {});
}

void claude_stream::control_response(const json_view& response) {
  const members r{response};
  const auto id = r["request_id"].text();
  if (auto i = std::find(interrupts_.begin(), interrupts_.end(), id); i != interrupts_.end()) {
    interrupts_.erase(i);
    interrupted(r["response"]);
    return;
  }
  auto found = controls_.find(id);
  if (found == controls_.end())
    return;
  const auto what = std::move(found->second);
  controls_.erase(found);
  if (what.what == control::initialize)
    initialized(response);
  else
    option_answered(what, r);
}

void claude_stream::interrupted(const json_view& response) {
  for (const auto& prompt : response["cancelled"].elements(limits::agent_interrupted_max))
    if (forget_waiting(prompt.text()))
      dropped(prompt.text(), internal::PromptState::REFUSED, "The turn was interrupted before the agent began the prompt");
}

void claude_stream::initialized(const json_view& response) {
  const members r{response["response"]};
  std::string why;
  if (!response["subtype"].is("success"))
    why = bounded(reason_or(response["error"].text(), "it gives no reason"), title_bytes_max);
  else if (!r["hooks_applied"].is_true() || !r["hook_on_failure_supported"].is_true())
    why = "it does not hold back a tool until the fabric has answered; use a newer version";
  if (!why.empty()) {
    closed_ = concat({"The agent cannot be driven: ", why});
    auto& n = *say().mutable_notice();
    n.set_kind("unusable");
    n.set_text(closed_);
    return;
  }
  closed_.clear();
  about_.set_version(bounded(r["claude_code_version"].text(), limits::agent_name_bytes_max));
  about_.set_mode(bounded(r["current_permission_mode"].text(), limits::agent_name_bytes_max));
  for (const auto& m : r["models"].elements(limits::agent_models_max))
    about_.add_models(bounded(m["value"].text(), limits::agent_name_bytes_max));
  for (const auto* m : modes)
    about_.add_modes(m);
  for (const auto& c : r["commands"].elements(limits::agent_commands_max))
    about_.add_commands(bounded(c["name"].text(), command_bytes_max));
  announce();
}

void claude_stream::option_answered(const asked& what, const members& response) {
  const members now{response["response"]};
  auto& state = options_[what.option];
  if (!response["subtype"].is("success"))
    state.text +=
      (state.text.empty() ? "" : "; ") + bounded(reason_or(response["error"].text(), "The agent refused it"), limits::agent_name_bytes_max);
  else if (auto model = now["model"].text(); what.what == control::model && !model.empty())
    about_.set_model(bounded(std::move(model), limits::agent_name_bytes_max));
  else if (auto mode = now["mode"].text(); what.what == control::mode && !mode.empty())
    about_.set_mode(bounded(std::move(mode), limits::agent_name_bytes_max));
  if (--state.unanswered > 0)
    return;
  put_option(what.option, state.text);
  options_.erase(what.option);
  announced_ = about_.SerializeAsString(); // this has said it
}

void claude_stream::put_option(const std::string& id, std::string_view text) {
  auto& said = *say().mutable_option_state();
  said.set_id(id);
  said.set_text(std::string{text});
  said.set_model(about_.model());
  said.set_mode(about_.mode());
}

void claude_stream::give_up_options(std::string_view why) {
  for (const auto& [id, state] : std::exchange(options_, {}))
    put_option(id, why);
  controls_.clear();
  interrupts_.clear();
}

} // namespace swarm::agents
