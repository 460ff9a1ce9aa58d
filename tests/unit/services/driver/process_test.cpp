// The real program with a shell script as its agent.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/process.hpp"
#include "swarm/internal/driver.pb.h"
#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds patience{30};

/// Introduces itself; each prompt is one turn. Then come the lines of the test.
const std::string agent = R"SH(
turn() { printf '{"type":"command_lifecycle","command_uuid":"%s","state":"started"}\n{"type":"system","subtype":"init","session_id":"native","cwd":"/"}\n' "$1"; }
ends() { printf '{"type":"result","is_error":false}\n'; }
hello() { read -r line; printf '{"type":"control_response","response":{"subtype":"success","request_id":"swarm-1","response":{"hooks_applied":true,"hook_on_failure_supported":true}}}\n'; }
)SH";

std::string program() { return std::string{std::getenv("SWARM_TEST_BIN_DIR")} + "/swarm-driver"; }

class running {
public:
  explicit running(const std::string& script, std::vector<std::string> arguments = {"claude", "--generation", "1", "--", "/bin/sh", "-c"}) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    arguments.push_back(agent + script);
    std::vector<char*> argv{const_cast<char*>("swarm-driver")};
    for (auto& a : arguments)
      argv.push_back(a.data());
    argv.push_back(nullptr);
    const auto path = program();
    pid = fork();
    if (pid == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      dup2(out[1], 2); // as the keeper does
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    input.reset(in[1]);
    output.reset(out[0]);
    close(in[0]);
    close(out[1]);
  }
  ~running() {
    kill(pid, SIGKILL);
    if (!waited_)
      waitpid(pid, nullptr, 0);
  }
  void tell(const internal::ToDriver& f) {
    const auto bytes = agents::encode_driver_frame(f);
    REQUIRE(write(input.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void hello() {
    internal::ToDriver f;
    f.mutable_hello()->set_protocol(1);
    f.mutable_hello()->set_nonce("0123456789abcdef");
    f.mutable_hello()->set_generation(1);
    reader.skip_to("0123456789abcdef");
    tell(f);
  }
  void prompt(const std::string& id) {
    internal::ToDriver f;
    f.mutable_prompt()->set_id(id);
    f.mutable_prompt()->set_generation(1);
    f.mutable_prompt()->set_text("go");
    f.mutable_prompt()->set_last(true);
    tell(f);
  }
  void stop(std::uint32_t grace_ms) {
    internal::ToDriver f;
    f.mutable_stop()->set_grace_ms(grace_ms);
    tell(f);
  }
  /// The next frame that is wanted.
  template <class Wanted>
  internal::FromDriver next(Wanted wanted) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (std::string message;;) {
      while (reader.next(message) == agents::driver_frame_reader::status::frame) {
        internal::FromDriver f;
        REQUIRE(f.ParseFromString(message));
        if (wanted(f))
          return f;
      }
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() < deadline, "the frame has not come");
      pollfd p{output.get(), POLLIN, 0};
      poll(&p, 1, 1'000);
      char buffer[4096];
      const auto n = p.revents != 0 ? read(output.get(), buffer, sizeof buffer) : -1;
      REQUIRE(n != 0);
      if (n > 0)
        reader.push({buffer, static_cast<std::size_t>(n)});
    }
  }
  int status() {
    int how = 0;
    REQUIRE(waitpid(pid, &how, 0) == pid);
    waited_ = true;
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
  }

  pid_t pid = 0;
  unique_fd input, output;
  agents::driver_frame_reader reader;

private:
  bool waited_ = false;
};

auto turn_ended = [](const auto& f) { return f.has_turn_ended(); };
auto exited = [](const auto& f) { return f.has_agent_exited(); };
auto started = [](const auto& f) { return f.has_agent_started(); };

bool becomes(const std::function<bool()>& condition) {
  for (const auto deadline = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < deadline; poll(nullptr, 0, 5))
    if (condition())
      return true;
  return false;
}

bool gone(pid_t pid) {
  return becomes([&] {
    const auto p = read_process(pid);
    return !p || p->is_dead();
  });
}

const std::string one_turn = "hello; read -r line; turn 11111111-1111-4111-8111-111111111111; ends; read -r line";

/// The end of an agent that leaves behind what this starts, and that a notice tells of.
auto end_that_leaves(const std::string& started_behind) {
  running d{started_behind + " </dev/null >/dev/null 2>&1 & echo $! >&2\n" + one_turn + "; exit 0"};
  d.hello();
  d.prompt(test::prompt_1);
  d.next(turn_ended);
  d.prompt(test::prompt_2);
  d.next([](const auto& f) { return f.has_notice() && f.notice().kind() == "left-behind"; });
  auto end = d.next(exited).agent_exited();
  CHECK(gone(static_cast<pid_t>(std::stol(end.text()))));
  return end;
}

} // namespace

TEST_CASE("a driver runs its agent on a socket that nobody opens through proc") {
  running d{"hello; read -r line; turn 11111111-1111-4111-8111-111111111111\n"
            "(echo x >/proc/$$/fd/0) 2>/dev/null && echo opened >&2\n"
            "test \"$(id -u)\" = 0 || { (echo x >/proc/$PPID/fd/0) 2>/dev/null && echo opened >&2; }\n"
            "ends; read -r line; exit 3"};
  d.hello();
  d.prompt(test::prompt_1);
  d.next(turn_ended);
  d.stop(10'000);
  const auto end = d.next(exited).agent_exited();
  CHECK(end.exit_status() == 3);
  CHECK(end.on_request());
  CHECK(end.text() == "");
  CHECK(d.status() == 0);
}

TEST_CASE("an agent that ignores EOF and SIGTERM ends with what it has started") {
  running d{"trap '' TERM\n(while :; do read -r x <>/dev/tty || sleep 1; done) </dev/null >/dev/null 2>&1 &\n" + one_turn +
            "\nwhile :; do sleep 1; done"};
  d.hello();
  d.prompt(test::prompt_1);
  const auto pid = static_cast<pid_t>(d.next(started).agent_started().pid());
  d.next(turn_ended);
  d.stop(10);
  CHECK(d.next(exited).agent_exited().signal() == SIGKILL);
  CHECK(d.status() == 0);
  CHECK(gone(pid));
}

TEST_CASE("what an agent leaves behind ends with it, and a notice says so") { CHECK_FALSE(end_that_leaves("sleep 1000").on_request()); }

TEST_CASE("what an agent leaves behind in a session of its own ends with it, and a notice says so") { end_that_leaves("setsid sleep 1000"); }

TEST_CASE("what has lost its parent and ends while the agent works leaves no dead process") {
  running d{"(setsid true </dev/null >/dev/null 2>&1 &)\n" + one_turn,
            {"claude", "--generation", "1", "--limits", "conversation_silence=60000", "--", "/bin/sh", "-c"}};
  d.hello();
  d.prompt(test::prompt_1);
  const auto its_pid = static_cast<pid_t>(d.next(started).agent_started().pid());
  d.next(turn_ended);
  CHECK(becomes([&] {
    const auto all = list_processes();
    return std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.parent == d.pid && p.pid != its_pid; });
  }));
  CHECK(read_process(its_pid));
}

TEST_CASE("the agent is told which process its driver has started") {
  running d{"echo $SWARM_DRIVEN >&2\n" + one_turn + "; exit 0"};
  d.hello();
  d.prompt(test::prompt_1);
  const auto pid = d.next(started).agent_started().pid();
  d.next(turn_ended);
  d.prompt(test::prompt_2);
  CHECK(d.next(exited).agent_exited().text() == std::to_string(pid) + "\n");
}

TEST_CASE("an agent that has ended leaves no dead process below a driver that goes on") {
  running d{one_turn + "; exit 0", {"claude", "--generation", "1", "--limits", "conversation_silence=60000", "--", "/bin/sh", "-c"}};
  d.hello();
  d.prompt(test::prompt_1);
  d.next(turn_ended);
  d.prompt(test::prompt_2);
  d.next(exited);
  CHECK(becomes([&] {
    const auto all = list_processes();
    return std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.parent == d.pid; });
  }));
  CHECK(read_process(d.pid));
}

TEST_CASE("a driver whose input ends goes away with its agent, and a driver that is killed takes its agent along") {
  for (const bool is_killed : {false, true}) {
    running d{one_turn};
    d.hello();
    d.prompt(test::prompt_1);
    const auto pid = static_cast<pid_t>(d.next(started).agent_started().pid());
    d.next(turn_ended);
    if (is_killed)
      kill(d.pid, SIGKILL);
    else
      d.input.reset();
    CHECK(d.status() == (is_killed ? -SIGKILL : 0));
    CHECK(gone(pid));
  }
}

TEST_CASE("a program that is not there is told in the prompt's state") {
  running d{"", {"claude", "--", "/nonexistent/claude"}};
  d.hello();
  d.prompt(test::prompt_1);
  const auto state = d.next([](const auto& f) { return f.has_prompt_state(); }).prompt_state();
  CHECK(state.state() == internal::PromptState::REFUSED);
  CHECK(state.text().find("cannot run /nonexistent/claude") != std::string::npos);
}

TEST_CASE("a line without an end and garbage do not end the driver") {
  running d{"hello; read -r line; head -c 300000 /dev/zero | tr '\\0' x; echo; turn 11111111-1111-4111-8111-111111111111; ends; read -r line"};
  d.hello();
  d.prompt(test::prompt_1);
  d.next([](const auto& f) { return f.has_notice() && f.notice().kind() == "unreadable"; });
  d.next(turn_ended);
}

TEST_CASE("a driver refuses a harness that it does not know, and a program that is missing") {
  for (const auto& arguments : {std::vector<std::string>{"codex", "--", "codex"},
                                {"claude"},
                                {"claude", "--generation", "x", "--", "p"},
                                {"claude", "extra", "--", "p"},
                                {"claude", "--limits", "actor_idle=1", "--", "p"}}) {
    running d{"", [&] {
                auto a = arguments;
                if (a.size() == 1)
                  a.push_back("--version-of-nothing");
                return a;
              }()};
    CHECK(d.status() == 2);
  }
}
