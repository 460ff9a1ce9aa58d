// The driver of one conversation: what swarmd says and what its agent says become frames for swarmd, lines for the agent, and what is to be done with
// the agent's process. Without I/O and clock: bytes and times come in; bytes and actions go out. main.cpp has the sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/agents/claude_stream.hpp"
#include "actors/agents/driver_frames.hpp"
#include "services/driver/outbox.hpp"
#include "services/driver/permissions.hpp"
#include "services/driver/prompts.hpp"

namespace swarm::driver {

struct settings {
  std::string resume;           // native session; empty = a new one
  std::uint64_t generation = 0; // 0 = that of the first hello
  std::string version;          // of swarm-driver
  workplace at;
};

/// What is to be done with processes. Signals go to the agent's group.
struct action {
  enum class kind { start, close_input, terminate, kill, exit };
  kind what;
  std::vector<std::string> arguments = {}; // start: behind the program's own
  int status = 0;                          // exit
};

/// How the agent's process ended.
struct agent_end {
  int status = 0;
  int signal = 0;
  std::size_t left_behind = 0; // processes of its group that had to be ended
  bool has_run = true;         // its program could be run
};

class core {
public:
  static constexpr std::size_t asked_bytes_max = limits::driver_ring_bytes / 2; // of a request: nothing of it is stored before it is whole

  explicit core(settings s) : settings_(std::move(s)), rules_(settings_.at), native_session_(settings_.resume) {}

  void from_swarmd(std::string_view bytes, moment now);
  /// Nobody can say anything any more: the agent is ended, then the driver.
  void input_ended(moment now) { stop(limits::kill_grace(), 0, now); }
  void asked_to_end(moment now) { stop(limits::kill_grace(), 0, now); }
  void agent_runs(std::int64_t pid) {
    if (agent_)
      agent_->pid = pid;
  }
  void agent_wrote(std::string_view bytes, moment now);
  void agent_took(std::size_t bytes, moment now);
  void agent_complained(std::string_view bytes, moment now);
  /// Its output may still have something.
  void agent_exited(const agent_end& end, moment now);
  void agent_output_ended(moment now);
  /// Deadlines are looked at.
  void tick(moment now);
  std::optional<std::int64_t> next_deadline() const; // boot_ms

  std::string_view to_swarmd() const { return out_.pending(); }
  void swarmd_took(std::size_t bytes, moment now);
  std::string_view to_agent() const;
  bool reads_agent() const;
  /// False when the last one and its output have ended.
  bool has_agent() const noexcept { return agent_ != nullptr; }
  std::vector<action> take_actions() { return std::exchange(actions_, {}); }

private:
  /// What the agent's input has to take before it is told.
  struct mark {
    std::uint64_t begin, end; // bytes of the agent's life
    std::string prompt = {};  // id; empty = an answer
    internal::AnswerState answer = {};
    std::optional<internal::Ruled> ruled = {}; // an answer by a rule
  };
  struct hook {
    internal::HookQuestion question;
    std::int64_t until;
  };
  /// One process of the agent.
  struct life {
    life(std::uint64_t turns, agents::request_names names) : stream(turns, limits::agent_line_bytes_max, std::move(names)) {}
    agents::claude_stream stream;
    std::int64_t pid = 0;
    bool introduced = false;
    bool output_ended = false;
    bool on_request = false;
    std::string unusable; // why
    std::optional<agent_end> end;
    std::string input;           // for it
    std::size_t taken = 0;       // of `input`
    std::uint64_t taken_all = 0; // of its life
    std::deque<mark> marks;
    std::string complaints; // the end
    bool complains_much = false;
    std::set<std::string> calls; // tools that run
    std::map<std::string, hook> hooks;
    std::vector<internal::FromDriver> asking; // parts of a request that is not whole
    std::string asked;                        // their bodies
    std::set<std::string> with_pattern;       // requests that are open
    std::int64_t introduced_by = 0;
    std::int64_t heard_at = 0;
    bool silence_told = false;
    std::optional<std::int64_t> terminate_at, kill_at;
    std::int64_t ended_at = 0;
  };
  struct answered {
    std::string what; // digest of the answer
    internal::AnswerState state;
    std::uint64_t seq = 0; // 0 = not told yet
  };

  // core.cpp
  void heard(const internal::ToDriver& frame, moment now);
  void hello(const internal::DriverHello& h, moment now);
  void wished(const internal::ToDriver& frame, moment now);
  void stored(std::uint64_t seq, moment now);
  void stop(const internal::StopDriver& s, moment now);
  void stop(std::chrono::milliseconds grace, int status, moment now);
  void end_agent(std::chrono::milliseconds grace, moment now);
  void finish_when_over(moment now);
  void refuse_held(std::string_view why, moment now);
  std::uint64_t keep(internal::FromDriver body, moment now) { return out_.keep(std::move(body), now); }
  void notice(std::string_view kind, std::string_view text, moment now);

  // core_swarmd.cpp: what swarmd asks for
  void prompt(const internal::PromptPart& part, moment now);
  void prompt_state(const std::string& id, internal::PromptState::State state, std::string_view text, moment now);
  void answer(const internal::Answer& a, moment now);
  std::string why_not_allowed(const internal::Answer& a) const;
  void answer_state(internal::AnswerState state, moment now);
  void interrupt(const internal::InterruptTurn& i, moment now);
  void set(const internal::SetOption& wish, moment now);
  void option_refused(const internal::SetOption& wish, std::string_view why, moment now);
  void hook_answer(const internal::HookAnswer& a);
  bool is_other_generation(std::uint64_t generation) const { return generation != generation_now(); }
  std::uint64_t generation_now() const { return settings_.generation; }

  // core_agent.cpp: the agent
  void start_if_wanted(moment now);
  bool takes_prompts() const;
  /// The directory that the agent is in.
  const std::string& here() const { return agent_->stream.directory().empty() ? settings_.at.directory : agent_->stream.directory(); }
  bool is_busy() const { return !agent_->stream.open_turn().empty() || !agent_->stream.waiting_prompts().empty(); }
  bool is_held_back() const;
  bool may_be_silent() const;
  void tell_silence(moment now);
  std::size_t unasked_bytes() const;
  void give_held(moment now);
  void take(agents::claude_output output, moment now);
  void take_frame(internal::FromDriver frame, moment now);
  void take_request(internal::FromDriver part, moment now);
  bool rule(const internal::Request& request, const std::string& body, moment now);
  void take_hook(internal::FromDriver question, moment now);
  void give(std::string line) { agent_->input += line; }
  void give_marked(std::string line, mark m);
  void unanswered_hooks(moment now);
  void over_when_ended(moment now);
  void end_of_prompts(moment now);
  bool has_forgotten(const std::string& complaints) const;
  bool is_tried_again(const std::string& complaints, moment now);
  void forget_agent();

  settings settings_;
  agents::driver_frame_reader reader_;
  bool is_broken_ = false; // what swarmd says is no protocol
  outbox out_;
  std::vector<action> actions_;
  internal::Locks locks_;
  permission_rules rules_;

  std::unique_ptr<life> agent_;
  std::string native_session_;
  std::string model_, mode_; // that the agent has taken
  std::uint64_t turns_ = 0;
  std::size_t early_ends_ = 0; // in a row, of agents that had not introduced themselves
  agents::request_names names_;

  prompt_table prompts_;
  std::deque<internal::ToDriver> later_;
  std::size_t later_bytes_ = 0; // at most: what an interrupt has dropped counts until they are taken
  std::deque<driver::prompt> held_;
  std::size_t held_bytes_ = 0;
  std::deque<internal::SetOption> held_options_;
  std::map<std::string, internal::SetOption> wishes_; // that the agent has
  std::map<std::string, answered> answered_;          // by id of the request
  std::deque<std::string> answered_order_;
  std::deque<std::string> interrupts_;

  std::optional<int> stopping_; // with this status
  std::optional<std::int64_t> linger_until_;
  bool exited_ = false;
};

} // namespace swarm::driver
