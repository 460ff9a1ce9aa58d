#include "tests/support/claude_recording.hpp"

#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"

namespace swarm::test {

using json = nlohmann::json;
using agents::claude_stream;

std::vector<json> claude_recording(const std::string& scenario) {
  std::ifstream file{std::string{std::getenv("SWARM_SOURCE_DIR")} + "/tests/agents/fixtures/claude/streams/" + scenario + ".jsonl"};
  if (!file)
    throw std::runtime_error("no recording " + scenario);
  std::vector<json> out;
  for (std::string line; std::getline(file, line);)
    out.push_back(json::parse(line));
  return out;
}

std::vector<std::string> whole(const std::string& text) { return {text}; }

std::vector<std::string> byte_by_byte(const std::string& text) {
  std::vector<std::string> out;
  for (auto c : text)
    out.emplace_back(1, c);
  return out;
}

slicing random_slices(std::uint64_t seed, std::size_t most) {
  return [random = std::mt19937_64{seed}, most](const std::string& text) mutable {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      out.push_back(text.substr(at, random() % (most + 1)));
      at += out.back().size();
    }
    return out;
  };
}

namespace {

class player {
public:
  explicit player(const slicing& cut) : cut_(cut) {}

  void hear(json frame) {
    if (frame.value("type", "") == "control_response") // by our names
      if (auto i = ours_.find(frame["response"]["request_id"]); i != ours_.end())
        frame["response"]["request_id"] = i->second;
    if (frame.value("type", "") == "control_request")
      asked_[frame["request_id"]] = frame["request"];
    heard_ += frame.dump() + "\n";
  }
  void tell(const json& recorded) {
    flush();
    if (!beside_.empty() && recorded == beside_.front())
      beside_.pop_front();
    else if (recorded["type"] == "user")
      prompt(recorded);
    else if (recorded["type"] == "control_response")
      answer(recorded);
    else
      control(recorded);
  }
  void end() {
    flush();
    out_.differing.insert(out_.differing.end(), beside_.begin(), beside_.end());
    take(stream_.end());
    stream_ = claude_stream{stream_.turns()};
  }
  claude_replay done() {
    if (!heard_.empty())
      flush();
    return std::move(out_);
  }

private:
  void flush() {
    for (const auto& piece : cut_(std::exchange(heard_, {})))
      take(stream_.read(piece));
  }
  void take(agents::claude_output output) {
    for (auto& body : output.said)
      out_.said.push_back(std::move(body));
    out_.to_agent += output.to_agent;
  }
  void compare(json recorded, const std::string& line) {
    out_.lines.push_back(line);
    if (recorded != json::parse(line.substr(0, line.find('\n'))))
      out_.differing.push_back(std::move(recorded));
  }
  void compare(const json& recorded, const agents::claude_line& line) {
    if (line)
      compare(recorded, *line);
    else
      out_.refusals.push_back(line.failure().why);
  }
  void prompt(const json& recorded) {
    std::vector<agents::claude_lines::prompt_part> parts;
    const auto& content = recorded["message"]["content"];
    if (content.is_string())
      parts.push_back({content});
    else
      for (const auto& block : content)
        if (block["type"] == "text")
          parts.push_back({block["text"]});
        else
          parts.push_back({pixel, block["source"]["media_type"]});
    compare(recorded, stream_.prompt(recorded["uuid"], parts));
  }
  void answer(const json& recorded) {
    const std::string id = recorded["response"]["request_id"];
    const auto& said = recorded["response"]["response"];
    const auto& asked = asked_[id];
    if (asked["subtype"] == "hook_callback") {
      if (asked["input"]["hook_event_name"] == "PostToolUse")
        return; // the stream does not wait for us
      internal::HookAnswer answer;
      answer.set_question_id(id);
      if (said.contains("hookSpecificOutput")) {
        answer.set_denied(true);
        answer.set_text(said["hookSpecificOutput"]["permissionDecisionReason"]);
      }
      compare(recorded, stream_.answer_hook(answer));
      return;
    }
    internal::Answer answer;
    answer.set_request_id(id);
    answer.set_digest(digest_of(out_.said, id));
    answer.set_option(said["behavior"] == "deny" ? "deny" : said.contains("updatedPermissions") ? "always" : "allow");
    answer.set_text(said.value("message", ""));
    answer.set_ends_turn(said.value("interrupt", false));
    if (said.contains("updatedInput") && said["updatedInput"].contains("answers"))
      for (const auto& [question, choice] : said["updatedInput"]["answers"].items())
        (*answer.mutable_answers())[question] = choice;
    compare(recorded, stream_.answer(answer));
  }
  void control(const json& recorded) {
    const std::string what = recorded["request"]["subtype"];
    agents::claude_output output;
    if (what == "initialize") {
      output.to_agent = stream_.initialize();
    } else if (what == "interrupt") {
      output = stream_.interrupt();
    } else if (what.starts_with("set_")) {
      internal::SetOption wish;
      wish.set_id(recorded["request_id"]);
      wish.set_model(recorded["request"].value("model", ""));
      wish.set_mode(recorded["request"].value("mode", ""));
      output = stream_.set(wish);
    } else {
      return;
    }
    auto line = json::parse(output.to_agent.substr(0, output.to_agent.find('\n')));
    ours_[recorded["request_id"]] = line["request_id"];
    line["request_id"] = recorded["request_id"];
    if (what == "initialize") // recorded when the driver was asked before fewer tools
      for (auto& [event, hooks] : line["request"]["hooks"].items())
        hooks[0]["matcher"] = recorded["request"]["hooks"][event][0]["matcher"];
    compare(recorded, line.dump() + "\n");
    output.to_agent.erase(0, output.to_agent.find('\n') + 1);
    for (std::size_t at = 0; at < output.to_agent.size();) {
      auto end = output.to_agent.find('\n', at);
      beside_.push_back(json::parse(output.to_agent.substr(at, end - at)));
      at = end + 1;
    }
    output.to_agent.clear();
    take(std::move(output));
  }

  // What the recorded image is in base64.
  static inline const std::string pixel = from_hex("89504e470d0a1a0a0000000d4948445200000001000000010800000000"
                                                   "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082");

  const slicing& cut_;
  claude_stream stream_;
  std::string heard_;
  std::map<std::string, std::string> ours_; // recorded id of a request to ours
  std::map<std::string, json> asked_;
  std::deque<json> beside_; // lines that went out with one that was asked for
  claude_replay out_;
};

std::string shown(const std::string& text) { return text.size() <= 40 ? text : text.substr(0, 37) + "..."; }

std::string line_of(const internal::ItemPart& i) {
  const auto kind = i.kind() == internal::ITEM_TOOL_CALL     ? "calls " + i.title()
                    : i.kind() == internal::ITEM_TOOL_RESULT ? "result of " + i.of()
                    : i.kind() == internal::ITEM_TEXT        ? "says"
                    : i.kind() == internal::ITEM_THOUGHT     ? "thinks"
                                                             : "hears";
  const auto body = i.media_type().starts_with("image/") ? i.media_type() : i.kind() == internal::ITEM_TOOL_CALL ? "" : shown(i.body());
  return concat({i.nested() ? "  subagent " : "", kind, i.failed() ? " failed" : "", i.aborted() ? " cut off" : "", body.empty() ? "" : ": ", body,
                 i.last() ? "" : " and more"});
}

std::string line_of(const internal::FromDriver& f) {
  if (f.has_item())
    return line_of(f.item());
  if (f.has_request())
    return concat(
      {"asks (", internal::Request::Kind_Name(f.request().kind()), ") ", shown(f.request().title()), f.request().can_be_always() ? " [always]" : ""});
  if (f.has_withdrawn())
    return "asks no more: " + shown(f.withdrawn().reason());
  if (f.has_turn_started())
    return concat({"turn ", f.turn_started().id(), f.turn_started().prompts().empty() ? " begins by itself" : " begins"});
  if (f.has_turn_ended())
    return concat({"turn ", f.turn_ended().id(), " ", internal::TurnEnded::Reason_Name(f.turn_ended().reason()),
                   f.turn_ended().text().empty() ? "" : ": ", shown(f.turn_ended().text())});
  if (f.has_prompt_state())
    return concat({"prompt ", internal::PromptState::State_Name(f.prompt_state().state()), " ", f.prompt_state().turn()});
  if (f.has_option_state())
    return concat({"option ", f.option_state().id(), ": ", f.option_state().text().empty() ? "set" : shown(f.option_state().text())});
  if (f.has_background())
    return concat({"tasks beside: ", f.background().running()});
  if (f.has_notice())
    return "notice " + f.notice().kind();
  return {};
}

} // namespace

claude_replay replay_claude(const std::vector<json>& recording, const slicing& cut) {
  player p{cut};
  for (const auto& entry : recording)
    if (entry.contains("from"))
      p.hear(entry["from"]);
    else if (entry.contains("to"))
      p.tell(entry["to"]);
    else if (entry.contains("exit"))
      p.end();
  return p.done();
}

std::string digest_of(const std::vector<internal::FromDriver>& said, const std::string& id) {
  std::string body;
  bool is_whole = true;
  for (const auto& f : said)
    if (f.has_request() && f.request().id() == id) {
      body = (is_whole ? std::string{} : body) + f.request().body();
      is_whole = f.request().last();
    }
  return sha256(body);
}

std::vector<std::string> story_of(const std::vector<internal::FromDriver>& said) {
  std::vector<std::string> out;
  for (const auto& f : said)
    if (auto line = line_of(f); !line.empty())
      out.push_back(std::move(line));
  return out;
}

} // namespace swarm::test
