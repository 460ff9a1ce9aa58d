// scripted-driver HARNESS [--generation N] -- ...    in swarm-driver's place, without an agent: it does what a prompt says
// scripted-driver --burn PERCENT                     uses so much of one core's time, until it is killed
//
// Prompts: "stream PER-SECOND SECONDS" says deltas, each of 64 bytes that begin with the time of CLOCK_MONOTONIC, in ns and 20 digits;
// "items COUNT BYTES" says final texts; anything else is one turn without a word. The last text of a turn is the time when its prompt had come.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/limits.hpp"
#include "swarm/internal/driver.pb.h"

namespace {

using namespace swarm;

std::int64_t ns_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::int64_t now_ns() { return ns_of(CLOCK_MONOTONIC); }

std::string stamp() {
  char text[32];
  std::snprintf(text, sizeof text, "%020lld", static_cast<long long>(now_ns()));
  return text;
}

class driver {
public:
  int run() {
    for (;;) {
      // What was said and is not stored is bounded, as in the real one.
      while (items_left_ > 0 && unstored_ < limits::driver_unstored_bytes_max)
        say_item();
      const auto now = now_ns();
      while (connected_ && deltas_left_ > 0 && now >= next_delta_ns_)
        say_delta();
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {STDOUT_FILENO, static_cast<short>(out_.empty() ? 0 : POLLOUT), 0}};
      if (ppoll_until(fds) < 0 && errno != EINTR)
        return 1;
      if (fds[1].revents != 0 && !flush())
        return 1;
      if (fds[0].revents != 0 && !hear())
        return 0;
    }
  }

private:
  int ppoll_until(pollfd* fds) const {
    if (deltas_left_ == 0)
      return ppoll(fds, 2, nullptr, nullptr);
    const auto wait = std::max<std::int64_t>(next_delta_ns_ - now_ns(), 0);
    const timespec t{wait / 1'000'000'000, wait % 1'000'000'000};
    return ppoll(fds, 2, &t, nullptr);
  }
  bool flush() {
    const auto n = write(STDOUT_FILENO, out_.data(), out_.size());
    if (n < 0)
      return errno == EAGAIN || errno == EINTR;
    out_.erase(0, static_cast<std::size_t>(n));
    return true;
  }
  bool hear() {
    char buffer[65536];
    const auto n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n <= 0)
      return n < 0 && (errno == EAGAIN || errno == EINTR);
    in_.push({buffer, static_cast<std::size_t>(n)});
    std::string message;
    while (in_.next(message) == agents::driver_frame_reader::status::frame) {
      internal::ToDriver m;
      if (!m.ParseFromString(message))
        return false;
      if (m.has_stop())
        return false;
      take(m);
    }
    return true;
  }
  void take(const internal::ToDriver& m) {
    if (m.has_hello()) {
      connected_ = true;
      out_ = m.hello().nonce(); // what stands before it is not read
      internal::FromDriver f;
      auto& r = *f.mutable_ready();
      r.set_protocol(1);
      r.set_first_seq(kept_.empty() ? 0 : kept_.front().first);
      r.set_last_seq(seq_);
      r.set_agent_runs(true);
      out_ += agents::encode_driver_frame(f);
      free_up_to(m.hello().last_seq());
      for (const auto& [seq, frame] : kept_)
        out_ += frame;
      if (!std::exchange(introduced_, true)) {
        internal::FromDriver a;
        a.mutable_agent_started()->set_native_session("bench");
        a.mutable_agent_started()->set_model("scripted");
        a.mutable_agent_started()->set_pid(getpid());
        keep(a);
      }
    } else if (m.has_stored()) {
      free_up_to(m.stored().seq());
    } else if (m.has_prompt()) {
      prompt_ += m.prompt().text();
      if (m.prompt().last())
        begin(m.prompt().id(), stamp(), std::exchange(prompt_, {}));
    }
  }
  void free_up_to(std::uint64_t seq) {
    while (!kept_.empty() && kept_.front().first <= seq) {
      unstored_ -= kept_.front().second.size();
      kept_.pop_front();
    }
  }
  void keep(internal::FromDriver f) {
    f.set_seq(++seq_);
    f.set_at_ms(now_ns() / 1'000'000);
    const auto frame = agents::encode_driver_frame(f);
    kept_.emplace_back(seq_, frame);
    unstored_ += frame.size();
    out_ += frame;
  }
  void begin(const std::string& id, const std::string& came, const std::string& text) {
    came_ = came;
    turn_ = std::to_string(++turns_);
    for (auto state : {internal::PromptState::SUBMITTED, internal::PromptState::CONSUMED}) {
      internal::FromDriver f;
      f.mutable_prompt_state()->set_id(id);
      f.mutable_prompt_state()->set_state(state);
      if (state == internal::PromptState::CONSUMED)
        f.mutable_prompt_state()->set_turn(turn_);
      keep(f);
      if (state == internal::PromptState::SUBMITTED) {
        internal::FromDriver t;
        t.mutable_turn_started()->set_id(turn_);
        t.mutable_turn_started()->add_prompts(id);
        keep(t);
      }
    }
    std::istringstream words{text};
    std::string what;
    std::int64_t a = 0, b = 0;
    words >> what >> a >> b;
    if (what == "stream" && a > 0 && b > 0) {
      deltas_left_ = a * b;
      period_ns_ = 1'000'000'000 / a;
      next_delta_ns_ = now_ns() + period_ns_;
      offset_ = 0;
    } else if (what == "items" && a > 0 && b > 0) {
      items_left_ = a;
      item_bytes_ = static_cast<std::size_t>(b);
    } else {
      end();
    }
  }
  void say_delta() {
    auto text = stamp();
    text.resize(64, '.');
    internal::FromDriver f;
    auto& d = *f.mutable_delta();
    d.set_item_id("text " + turn_);
    d.set_kind(internal::ITEM_TEXT);
    d.set_offset(offset_);
    d.set_text(text);
    offset_ += text.size();
    out_ += agents::encode_driver_frame(f);
    next_delta_ns_ += period_ns_;
    if (--deltas_left_ == 0)
      end();
  }
  void say_item() {
    internal::FromDriver f;
    auto& i = *f.mutable_item();
    i.set_id("item " + std::to_string(seq_));
    i.set_kind(internal::ITEM_TEXT);
    i.set_body(std::string(item_bytes_, 'x'));
    i.set_last(true);
    keep(f);
    if (--items_left_ == 0)
      end();
  }
  void end() {
    internal::FromDriver f;
    auto& t = *f.mutable_turn_ended();
    t.set_id(turn_);
    t.set_reason(internal::TurnEnded::FINISHED);
    t.set_last_text(came_);
    keep(f);
  }

  agents::driver_frame_reader in_;
  std::string out_, prompt_, came_, turn_;
  bool connected_ = false, introduced_ = false;
  std::uint64_t seq_ = 0, turns_ = 0, offset_ = 0;
  std::deque<std::pair<std::uint64_t, std::string>> kept_; // sent again after each hello
  std::size_t unstored_ = 0, item_bytes_ = 0;
  std::int64_t deltas_left_ = 0, period_ns_ = 0, next_delta_ns_ = 0, items_left_ = 0;
};

/// In pieces as short as those of many who say deltas. What was not done in time, since others had the processor, is done later, as theirs is.
[[noreturn]] void burn(double percent) {
  constexpr auto piece = std::chrono::microseconds{100};
  prctl(PR_SET_TIMERSLACK, 1UL);
  const auto begin = ns_of(CLOCK_MONOTONIC), used_before = ns_of(CLOCK_PROCESS_CPUTIME_ID);
  for (;;) {
    const auto due = static_cast<std::int64_t>(static_cast<double>(ns_of(CLOCK_MONOTONIC) - begin) * percent / 100);
    if (ns_of(CLOCK_PROCESS_CPUTIME_ID) - used_before >= due)
      std::this_thread::sleep_for(piece);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--burn") == 0)
    burn(std::atof(argv[2]));
  for (int fd : {STDIN_FILENO, STDOUT_FILENO})
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return driver{}.run();
}
