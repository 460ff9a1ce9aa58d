// A driver's core between a node and an agent that say anything. Input: steps, each a byte that chooses and a piece: bytes of the node's or of the
// agent's, a frame of the node's made of the piece, time that passes, an end. Then everything ends.
#include <algorithm>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/text.hpp"
#include "services/driver/core.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace swarm;

namespace {

constexpr std::string_view nonce = "0123456789abcdef";
constexpr const char* prompt_id = "11111111-1111-4111-8111-111111111111";

/// Plays both sides, and looks at what the driver says.
class world {
public:
  world() : core_({.resume = {}, .generation = 1, .version = "1", .at = {.directory = "/repo", .home = "/home/u", .kept_out = {"/home/u/.swarm"}}}) {}

  void step(std::uint8_t what, const std::string& piece) {
    switch (what % 10) {
      case 0:
        is_garbled_ = true; // nobody knows any more where the next frame of ours begins, and with which nonce an answer does
        core_.from_swarmd(piece, now());
        break;
      case 1: said_by_agent(piece); break;
      case 2: tell([&](auto& f) { return f.ParseFromString(piece) && !f.has_hello(); }); break;
      case 3: hello(); break;
      case 4: prompt(piece); break;
      case 5: answer_all(piece, what); break;
      case 6: tell([&](auto& f) { return f.mutable_permissions()->ParseFromString(piece); }); break;
      case 7:
        tell([&](auto& f) {
          f.mutable_stored()->set_seq(last_);
          return true;
        });
        break;
      case 8:
        time_ += static_cast<std::int64_t>(piece.size()) * 1'000;
        core_.tick(now());
        break;
      case 9: said_by_agent(introduction + piece); break;
    }
    settle();
  }
  bool has_exited() const { return exited_; }
  /// However it came to this, it ends and is within its bounds.
  void finish() {
    hello();
    core_.asked_to_end(now());
    settle();
    for (int i = 0; i < 10 && !exited_; ++i) {
      time_ += 20'000;
      core_.tick(now());
      if (runs_) {
        runs_ = false;
        core_.agent_exited({}, now());
      }
      settle();
    }
    SWARM_HOLDS(exited_ && !core_.has_agent());
  }

private:
  static inline const std::string introduction = R"({"type":"control_response","response":{"subtype":"success","request_id":"swarm-1",)"
                                                 R"("response":{"hooks_applied":true,"hook_on_failure_supported":true}}})"
                                                 "\n";

  driver::moment now() const { return {1'700'000'000'000 + time_, time_}; }
  template <class Fill>
  void tell(Fill fill) {
    internal::ToDriver f;
    if (fill(f))
      core_.from_swarmd(agents::encode_driver_frame(f), now());
  }
  void hello() {
    reader_ = {};
    reader_.skip_to(std::string{nonce});
    tell([&](auto& f) {
      f.mutable_hello()->set_protocol(1);
      f.mutable_hello()->set_nonce(std::string{nonce});
      f.mutable_hello()->set_generation(1);
      f.mutable_hello()->set_last_seq(last_);
      return true;
    });
  }
  void prompt(const std::string& text) {
    tell([&](auto& f) {
      auto& p = *f.mutable_prompt();
      p.set_id(prompt_id);
      p.set_generation(1);
      if (text.size() % 2 == 0)
        p.set_text(to_utf8(text));
      else
        p.set_media(text);
      p.set_last(true);
      p.set_steer(text.size() % 3 == 0);
      return true;
    });
  }
  void answer_all(const std::string& text, std::uint8_t way) {
    const char* const options[] = {"allow", "deny", "always", ""};
    for (const auto& [id, body] : asked_)
      tell([&, request = id, asked = body](auto& f) {
        auto& a = *f.mutable_answer();
        a.set_request_id(request);
        a.set_generation(1);
        a.set_option(options[way / 10 % 4]);
        a.set_digest(sha256(asked));
        a.set_edited_input(way < 128 ? std::string{} : to_utf8(text));
        return true;
      });
  }
  void said_by_agent(const std::string& bytes) {
    if (runs_ && core_.reads_agent())
      core_.agent_wrote(bytes, now());
  }

  void settle() {
    for (auto actions = core_.take_actions(); !actions.empty(); actions = core_.take_actions())
      for (const auto& a : actions) {
        SWARM_HOLDS(!exited_);
        if (a.what == driver::action::kind::start) {
          SWARM_HOLDS(!std::exchange(runs_, true)); // one agent at a time
          core_.agent_runs(1);
        }
        exited_ = exited_ || a.what == driver::action::kind::exit;
      }
    for (auto bytes = core_.to_agent(); !bytes.empty(); bytes = core_.to_agent())
      core_.agent_took(bytes.size(), now());
    for (auto bytes = core_.to_swarmd(); !bytes.empty(); bytes = core_.to_swarmd()) {
      if (!is_garbled_)
        reader_.push(bytes);
      core_.swarmd_took(bytes.size(), now());
    }
    for (std::string message;;) {
      const auto status = reader_.next(message);
      SWARM_HOLDS(status != agents::driver_frame_reader::status::malformed);
      if (status != agents::driver_frame_reader::status::frame)
        break;
      internal::FromDriver f;
      SWARM_HOLDS(f.ParseFromString(message) && message.size() <= limits::driver_frame_bytes_max);
      hear(f);
    }
    for (const auto& a : core_.take_actions())
      exited_ = exited_ || a.what == driver::action::kind::exit;
  }
  void hear(const internal::FromDriver& f) {
    if (f.seq() > 0 && f.seq() <= last_)
      return; // once more
    SWARM_HOLDS(f.seq() == 0 || f.seq() == last_ + 1);
    last_ = std::max(last_, f.seq());
    if (f.has_request()) {
      body_ += f.request().body();
      if (f.request().last()) {
        SWARM_HOLDS(names_.insert(f.request().id()).second); // no id twice in a generation
        asked_[f.request().id()] = std::exchange(body_, {});
      }
    }
    if (f.has_ruled())
      SWARM_HOLDS(names_.insert(f.ruled().id()).second && !f.ruled().rule().empty());
    if (f.has_withdrawn())
      SWARM_HOLDS(asked_.erase(f.withdrawn().request_id()) == 1);
    if (f.has_answer_state() && f.answer_state().delivered())
      SWARM_HOLDS(asked_.erase(f.answer_state().request_id()) == 1); // once
    if (f.has_turn_started())
      SWARM_HOLDS(!std::exchange(in_turn_, true));
    if (f.has_turn_ended())
      SWARM_HOLDS(std::exchange(in_turn_, false));
    if (f.has_agent_exited())
      SWARM_HOLDS(!in_turn_);
  }

  driver::core core_;
  agents::driver_frame_reader reader_;
  std::int64_t time_ = 1'000;
  std::uint64_t last_ = 0;
  std::map<std::string, std::string> asked_; // and its body
  std::set<std::string> names_;
  std::string body_;
  bool in_turn_ = false, runs_ = false, exited_ = false, is_garbled_ = false;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  world w;
  while (!in.empty() && !w.has_exited()) {
    const auto what = in.byte();
    w.step(what, in.piece());
  }
  w.finish();
  return 0;
}
