#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "services/call/requests.hpp"

using namespace swarm;

namespace {

template <class Request>
Request in_scope() {
  Request r;
  r.set_scope("s");
  return r;
}

} // namespace

TEST_CASE("requests within their bounds have nothing wrong with them") {
  auto watch = in_scope<v1::WatchRequest>();
  watch.set_subject(std::string(limits::path_bytes_max(), 's'));
  for (int i = 0; i < 32; ++i)
    watch.add_types("task.");
  CHECK_FALSE(wrong_with(watch));
  auto wait = in_scope<v1::WaitRequest>();
  wait.set_session_id("a");
  CHECK_FALSE(wrong_with(wait));
  auto attach = in_scope<v1::AttachRequest>();
  attach.set_session_id("a");
  CHECK_FALSE(wrong_with(attach));
  auto create = in_scope<v1::CreatePtyRequest>();
  create.set_name(std::string(limits::id_bytes_max, 'n'));
  CHECK_FALSE(wrong_with(create));
  v1::SendPtyRequest send;
  send.set_data(std::string(limits::pty_input_bytes_max, '\0'));
  CHECK_FALSE(wrong_with(send));
  v1::AttachFrame frame;
  frame.set_input(std::string(limits::pty_input_bytes_max, 'x'));
  CHECK_FALSE(wrong_with(frame));
  CHECK_FALSE(wrong_with(v1::ListPtysRequest{}));
}

TEST_CASE("requests without a scope or a session are refused with a text") {
  v1::WatchRequest watch;
  watch.set_subscription("of a scope");
  CHECK(wrong_with(watch));
  CHECK(wrong_with(v1::CreatePtyRequest{}));
  CHECK(wrong_with(in_scope<v1::WaitRequest>()));
  CHECK(wrong_with(in_scope<v1::AttachRequest>()));
  v1::WaitRequest wait;
  wait.set_session_id("a");
  CHECK(wrong_with(wait)->find("scope") != std::string::npos);
  v1::AttachRequest attach;
  attach.set_session_id("a");
  CHECK(wrong_with(attach)->find("scope") != std::string::npos);
}

TEST_CASE("a scope that is missing or too long is refused before anybody is asked") {
  CHECK_FALSE(wrong_scope("s", scope_is::required));
  CHECK_FALSE(wrong_scope("", scope_is::optional));
  CHECK(wrong_scope("", scope_is::required));
  CHECK_FALSE(wrong_scope(std::string(limits::path_bytes_max(), 'x'), scope_is::required));
  for (auto rule : {scope_is::required, scope_is::optional})
    CHECK(wrong_scope(std::string(limits::path_bytes_max() + 1, 'x'), rule)->find("4 KiB") != std::string::npos);
}

TEST_CASE("requests beyond a bound are refused with a text that names it") {
  const std::string id(limits::id_bytes_max + 1, 'i'), path(limits::path_bytes_max() + 1, 'p'), input(limits::pty_input_bytes_max + 1, 'x');
  const std::string with_nul("a\0b", 3);
  auto watch = in_scope<v1::WatchRequest>();
  watch.set_subject(path);
  CHECK(*wrong_with(watch) == "subject is longer than 4096 bytes");
  watch = in_scope<v1::WatchRequest>();
  watch.set_scope(path);
  CHECK(wrong_with(watch));
  watch = in_scope<v1::WatchRequest>();
  watch.add_types(id);
  CHECK(wrong_with(watch));
  auto wait = in_scope<v1::WaitRequest>();
  wait.set_session_id(id);
  CHECK(wrong_with(wait));
  auto create = in_scope<v1::CreatePtyRequest>();
  create.set_name(id);
  CHECK(wrong_with(create));
  v1::ListPtysRequest list;
  list.set_scope(path);
  CHECK(wrong_with(list));
  v1::ReadPtyRequest read;
  read.set_id(id);
  CHECK(wrong_with(read));
  v1::SendPtyRequest send;
  send.set_data(input);
  CHECK(*wrong_with(send) == "data is longer than 65536 bytes");
  send.clear_data();
  send.set_pty_id(with_nul);
  CHECK(wrong_with(send));
  v1::ResizePtyRequest resize;
  resize.set_pty_id(id);
  CHECK(wrong_with(resize));
  v1::KillPtyRequest kill;
  kill.set_pty_id(id);
  CHECK(wrong_with(kill));
  v1::ForgetPtyRequest forget;
  forget.set_pty_id(id);
  CHECK(wrong_with(forget));
  v1::AttachFrame frame;
  frame.set_input(input);
  CHECK(wrong_with(frame));
}

TEST_CASE("a worker gets what may be inherited, whole variables only, and nothing when it is too much") {
  google::protobuf::RepeatedPtrField<v1::EnvironmentVariable> given;
  auto add = [&](const std::string& name, const std::string& value) {
    auto& v = *given.Add();
    v.set_name(name);
    v.set_value(value);
  };
  add("PATH", "/bin");
  add("SECRET", "no");
  add("SWARM_TOKEN", "no");
  add("LC_ALL", "");
  add("LC_=x", "no");
  add(std::string("LC_\0X", 5), "no");
  add("LC_X", std::string("n\0o", 3));
  CHECK(worker_environment(given, "exec") == std::vector<std::string>{"PATH=/bin", "LC_ALL="});
  for (const auto* name : {"CC", "SWARM_TOKEN", "SWARM_SPAWN_ID", "", "A=B"}) {
    auto* asked = given.Add();
    asked->set_name(name);
    asked->set_value("v");
    asked->set_asked_for(true);
  }
  // SWARM_SPAWN_ID is inherited anyway.
  CHECK(worker_environment(given, "exec") == std::vector<std::string>{"PATH=/bin", "LC_ALL=", "CC=v", "SWARM_SPAWN_ID=v"});
  add("NOT_INHERITED", std::string(limits::environment_bytes_max(), 'x'));
  CHECK_FALSE(worker_environment(given, "exec"));
}

TEST_CASE("what an agent is set up with goes to that agent's program, and to another one only when its caller names it") {
  google::protobuf::RepeatedPtrField<v1::EnvironmentVariable> given;
  auto add = [&](const std::string& name, bool asked_for) {
    auto& v = *given.Add();
    v.set_name(name);
    v.set_value("v");
    v.set_asked_for(asked_for);
  };
  add("ANTHROPIC_API_KEY", false);
  CHECK(worker_environment(given, "claude") == std::vector<std::string>{"ANTHROPIC_API_KEY=v"});
  for (const auto* harness : {"exec", "shell", "codex", ""})
    CHECK(worker_environment(given, harness)->empty());
  add("ANTHROPIC_API_KEY", true);
  CHECK(worker_environment(given, "exec") == std::vector<std::string>{"ANTHROPIC_API_KEY=v"});
}
