// An agent that speaks Claude Code's protocol and does what its prompts say, always the same:
//
//   scripted_agent JOURNAL [ARGUMENTS OF THE FABRIC]
//
// The prompt "NAME TEXTS ASKS PAUSE" makes it say TEXTS times something, PAUSE ms each after the other; before each of the first ASKS of them it asks
// for a permission. Texts are `said_by(NAME, n)`. A fifth word makes it bad: `mute` says nothing of the prompt but when it is interrupted, `garbage`
// writes what is no protocol first, `exits` ends when it has asked, `repeats` asks everything under one id, `stranger` says that its session is
// another one. While there is a file JOURNAL.forgotten it knows no session any more that it is to go on with. With N bytes in JOURNAL.stillborn its
// first N lives end before they have answered anything. JOURNAL gets a line for what it hears and has said:
//   life DRIVER SESSION            it has begun; DRIVER names the process that has started it
//   prompt DRIVER ID NAME          it has read a prompt
//   answer DRIVER REQUEST CHOICE   it has read an answer to what it asked
//   said NAME n                    its n-th text is in the hands of the driver's socket
//   done NAME
#include <cerrno>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/support/scripted_agent.hpp"

namespace {

using nlohmann::json;

/// The driver, by its process and when that began.
std::string name_of_parent() {
  const auto pid = std::to_string(getppid());
  std::string stat;
  std::getline(std::ifstream{"/proc/" + pid + "/stat"}, stat);
  std::istringstream fields{stat.substr(std::min(stat.rfind(')') + 2, stat.size()))};
  std::string field;
  for (int i = 0; i < 20; ++i)
    fields >> field;
  return pid + "-" + field;
}

class agent {
public:
  agent(const char* journal, std::string session)
    : is_resumed_(!session.empty()), path_(journal), journal_(open(journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)),
      driver_(name_of_parent()), session_(std::move(session)) {
    if (session_.empty()) {
      auto digits = std::to_string(getpid());
      session_ = "00000000-0000-4000-8000-" + std::string(12 - std::min<std::size_t>(digits.size(), 12), '0') + digits;
    }
    note("life " + driver_ + " " + session_);
  }

  int run() {
    if (is_stillborn())
      return 4;
    if (is_resumed_ && access((path_ + ".forgotten").c_str(), F_OK) == 0)
      return refuse_session();
    while (is_open_ || !prompts_.empty()) {
      if (!prompts_.empty()) {
        auto next = prompts_.front();
        prompts_.pop_front();
        work(next);
      } else {
        hear(-1);
      }
    }
    return 0;
  }

private:
  bool is_stillborn() const {
    struct stat file {};
    if (stat((path_ + ".stillborn").c_str(), &file) != 0)
      return false;
    std::ifstream journal{path_};
    off_t lives = 0;
    for (std::string line; std::getline(journal, line);)
      lives += line.starts_with("life ") ? 1 : 0;
    return lives <= file.st_size;
  }
  /// As the program does: it says that there is no such session, and answers nothing.
  int refuse_session() {
    say({{"type", "result"},
         {"subtype", "error_during_execution"},
         {"is_error", true},
         {"total_cost_usd", 0},
         {"errors", {"No conversation found with session ID: " + session_}}});
    return 1;
  }

  struct prompt {
    std::string id, text;
  };

  void note(const std::string& what) const {
    const auto line = what + "\n";
    if (write(journal_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      _exit(3);
  }
  void say(json frame) {
    frame["session_id"] = session_;
    const auto line = frame.dump() + "\n";
    for (std::size_t at = 0; at < line.size();) {
      const auto n = write(STDOUT_FILENO, line.data() + at, line.size() - at);
      if (n < 0 && errno != EINTR)
        _exit(2); // nobody listens any more
      if (n > 0)
        at += static_cast<std::size_t>(n);
    }
  }
  void lifecycle(const prompt& p, const char* state) { say({{"type", "command_lifecycle"}, {"command_uuid", p.id}, {"state", state}}); }

  /// What comes within so many milliseconds; without end if negative.
  void hear(int ms) {
    if (!is_open_)
      return;
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (poll(&p, 1, ms) <= 0)
      return;
    char buffer[16 * 1024];
    const auto n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n <= 0) {
      is_open_ = false;
      return;
    }
    input_.append(buffer, static_cast<std::size_t>(n));
    for (auto end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      take(json::parse(input_.substr(0, end)));
      input_.erase(0, end + 1);
    }
  }
  void take(const json& frame) {
    const auto type = frame.at("type").get<std::string>();
    if (type == "user") {
      const auto& content = frame.at("message").at("content");
      prompt p{frame.at("uuid"), content.is_string() ? content.get<std::string>() : content.at(0).at("text").get<std::string>()};
      note("prompt " + driver_ + " " + p.id + " " + p.text.substr(0, p.text.find(' ')));
      lifecycle(p, "queued");
      prompts_.push_back(std::move(p));
    } else if (type == "control_request") {
      is_interrupted_ = is_interrupted_ || frame.at("request").at("subtype") == "interrupt";
      json able{{"commands", json::array()}, {"hooks_applied", true}, {"hook_on_failure_supported", true}};
      if (frame.at("request").at("subtype") == "interrupt")
        able["cancelled"] = std::exchange(muted_, json::array());
      say({{"type", "control_response"}, {"response", {{"subtype", "success"}, {"request_id", frame.at("request_id")}, {"response", able}}}});
    } else if (type == "control_response") {
      const auto& response = frame.at("response");
      const auto choice = response.at("response").value("behavior", "");
      note("answer " + driver_ + " " + response.at("request_id").get<std::string>() + " " + choice);
      answers_[response.at("request_id")] = choice;
    }
  }

  void ask(const std::string& name, int n) {
    const auto call = name + "-" + std::to_string(n);
    const auto request = manner_ == "repeats" ? "the-same" : call + "-" + std::to_string(getpid());
    answers_.erase(request);
    const json input{{"command", "true " + (manner_ == "repeats" ? name : call)}};
    message(call, {{"type", "tool_use"}, {"id", "toolu_" + request}, {"name", "Bash"}, {"input", input}});
    say({{"type", "control_request"},
         {"request_id", request},
         {"request", {{"subtype", "can_use_tool"}, {"tool_name", "Bash"}, {"input", input}, {"tool_use_id", "toolu_" + request}}}});
    if (manner_ == "exits")
      _exit(3);
    while (is_open_ && !is_interrupted_ && !answers_.contains(request))
      hear(-1);
    if (!answers_.contains(request)) {
      say({{"type", "control_cancel_request"}, {"request_id", request}});
      return;
    }
    const json result{{"type", "tool_result"}, {"tool_use_id", "toolu_" + request}, {"content", answers_[request]}};
    say({{"type", "user"}, {"message", {{"role", "user"}, {"content", json::array({result})}}}, {"parent_tool_use_id", nullptr}});
  }
  void message(const std::string& id, const json& block) {
    say({{"type", "assistant"},
         {"message", {{"id", "msg_" + id}, {"role", "assistant"}, {"model", "scripted"}, {"content", json::array({block})}}},
         {"parent_tool_use_id", nullptr}});
  }
  void event(json what) { say({{"type", "stream_event"}, {"event", std::move(what)}, {"parent_tool_use_id", nullptr}}); }
  /// Streamed in two pieces first, as the program does.
  void speak(const std::string& id, const std::string& text) {
    event({{"type", "message_start"}, {"message", {{"id", "msg_" + id}, {"usage", {{"input_tokens", 10}}}}}});
    event({{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
    const auto half = text.size() / 2;
    for (const auto& piece : {text.substr(0, half), text.substr(half)})
      event({{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", piece}}}});
    message(id, {{"type", "text"}, {"text", text}});
    event({{"type", "content_block_stop"}, {"index", 0}});
    event({{"type", "message_stop"}});
  }

  void write_garbage() const {
    constexpr std::size_t endless = 70 * 1024 * 1024; // longer than any line may be
    auto text = std::string{"\xff\xfe no JSON\n[1,2\n{\"type\":\"no such thing\"}\n"} + std::string(endless, 'x') + "\n";
    for (std::size_t at = 0; at < text.size();)
      if (const auto n = write(STDOUT_FILENO, text.data() + at, text.size() - at); n > 0)
        at += static_cast<std::size_t>(n);
  }

  void work(const prompt& p) {
    std::istringstream words{p.text};
    std::string name;
    int texts = 0, asks = 0, ms = 0;
    manner_.clear();
    words >> name >> texts >> asks >> ms >> manner_;
    is_interrupted_ = false;
    if (manner_ == "mute")
      return muted_.push_back(p.id);
    if (manner_ == "stranger")
      session_ = "99999999-0000-4000-8000-000000000000";
    if (manner_ == "garbage")
      write_garbage();
    lifecycle(p, "started");
    say({{"type", "system"}, {"subtype", "init"}, {"model", "scripted"}, {"permissionMode", "default"}, {"claude_code_version", "0"}, {"cwd", "/"}});
    for (int n = 1; n <= texts && !is_interrupted_; ++n) {
      hear(ms);
      if (n <= asks && !is_interrupted_)
        ask(name, n);
      if (is_interrupted_)
        break;
      speak(name + "." + std::to_string(n), swarm::testing::said_by(name, n));
      note("said " + name + " " + std::to_string(n));
    }
    cost_ += 0.001;
    json result{{"type", "result"}, {"subtype", "success"}, {"is_error", is_interrupted_}, {"total_cost_usd", cost_}, {"duration_ms", 1}};
    result["usage"] = {{"input_tokens", 10}, {"output_tokens", texts}};
    if (is_interrupted_)
      result["terminal_reason"] = "aborted_streaming";
    say(std::move(result));
    lifecycle(p, "completed");
    note("done " + name);
  }

  const bool is_resumed_;
  const std::string path_;
  int journal_;
  std::string driver_, session_, input_, manner_;
  bool is_open_ = true, is_interrupted_ = false;
  double cost_ = 0;
  std::deque<prompt> prompts_;
  json muted_ = json::array();                 // ids of prompts
  std::map<std::string, std::string> answers_; // by request
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 2)
    return 2;
  std::string session;
  for (int i = 2; i + 1 < argc; ++i)
    if (std::string{argv[i]} == "--resume")
      session = argv[i + 1];
  return agent{argv[1], session}.run();
}
