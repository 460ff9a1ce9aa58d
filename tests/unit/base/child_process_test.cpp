#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "actors/base/child_process.hpp"
#include "actors/base/text.hpp"

using namespace swarm;

namespace {

std::string all_of(int fd) {
  std::string out;
  char part[4096];
  for (ssize_t n = 0; (n = read(fd, part, sizeof part)) > 0;)
    out.append(part, static_cast<std::size_t>(n));
  return out;
}

struct outcome {
  std::string out;
  int status = 0;
};

/// What `sh -c script` writes.
outcome shell(const std::string& script, child_options o = {}) {
  auto out = make_pipe();
  o.arguments = {"/bin/sh", "-c", script};
  o.standard[STDOUT_FILENO] = out.write.get();
  auto child = start_child(o);
  REQUIRE_FALSE(child.error);
  out.write.reset();
  auto text = all_of(out.read.get());
  return {text, wait_for_child(child.pid)};
}

} // namespace

TEST_CASE("a child begins in the directory that it is given") {
  child_options o;
  o.directory = "/";
  CHECK(shell("pwd", o).out == "/\n");
}

TEST_CASE("a child has the environment that it is given, and no descriptor besides") {
  child_options o;
  o.environment = {"A=1", "PATH=/usr/bin:/bin"};
  unique_fd forgotten{dup(STDOUT_FILENO)}; // not close-on-exec
  auto ran = shell("echo $A $HOME; ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0 /proc/self/fd/2; exit 7", o);
  CHECK(ran.out == "1\n0 1 2 3 /dev/null\n/dev/null\n"); // 3: the directory that ls reads
  CHECK(ran.status == 7);
}

TEST_CASE("a further descriptor gets its number, whatever numbers there are here") {
  for (int as : {3, 5, 200}) {
    auto extra = make_pipe();
    child_options o;
    o.further = extra.write.get();
    o.further_as = as;
    CHECK(shell("echo hello >&" + std::string{as == 200 ? "1; [ -e /proc/self/fd/200 ]" : std::to_string(as)}, o).status == 0);
    extra.write.reset();
    CHECK(all_of(extra.read.get()) == (as == 200 ? "" : "hello\n"));
  }
  // Its own number: it is passed on.
  auto extra = make_pipe();
  child_options o;
  o.further = o.further_as = extra.write.get();
  CHECK(shell("[ -e /proc/self/fd/" + std::to_string(o.further) + " ]", o).status == 0);
}

TEST_CASE("what this process ignores or blocks, a child does not") {
  auto before = signal(SIGTERM, SIG_IGN);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  auto ran = shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d ' \\t\\n'");
  child_options o;
  o.without_interrupts = true;
  auto patient = shell("grep SigBlk /proc/self/status | tr -d ' \\t\\n'", o);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  signal(SIGTERM, before);
  // glibc ignores two signals of its own in every child.
  CHECK(ran.out == "SigBlk:0000000000000000SigIgn:0000000180000000");
  CHECK(patient.out == "SigBlk:0000000000000002");
}

TEST_CASE("a child is in a session of its own unless it is to share ours") {
  child_options o;
  CHECK(shell("cut -d' ' -f6 /proc/$$/stat", o).out != std::to_string(getsid(0)) + "\n");
  o.own_session = false;
  CHECK(shell("cut -d' ' -f6 /proc/$$/stat", o).out == std::to_string(getsid(0)) + "\n");
}

TEST_CASE("errors go where they are to go") {
  std::string name = "/tmp/swarm-child-XXXXXX";
  unique_fd file{mkstemp(name.data())};
  child_options o;
  o.errors_into = name;
  CHECK(shell("echo wrong >&2", o).out.empty());
  std::ifstream in(name);
  CHECK(std::string{std::istreambuf_iterator<char>{in}, {}} == "wrong\n");
  unlink(name.c_str());
  o.errors_into.clear();
  o.errors_as_ours = true;
  CHECK(shell("readlink /proc/self/fd/2", o).out == shell("readlink /proc/" + std::to_string(getpid()) + "/fd/2").out);
}

TEST_CASE("a program that cannot be started is an error with its reason, and a signal is told as shells do") {
  child_options o;
  o.arguments = {"/nonexistent/program"};
  CHECK(start_child(o).error == std::errc::no_such_file_or_directory);
  o.on_path = true;
  o.arguments = {"no-program-of-this-name"};
  CHECK(start_child(o).error == std::errc::no_such_file_or_directory);
  CHECK(shell("kill -9 $$").status == 128 + SIGKILL);
  CHECK(wait_for_child(1) == -1);
}

TEST_CASE("a word is quoted for a shell when it needs it") {
  for (const std::string word : {"plain/word-1.2", "", "two words", "it's", "$HOME", "*", "a\nb", "~", "a;b"})
    CHECK(shell("printf %s " + shell_quoted(word)).out == word);
  CHECK(shell_quoted("plain/word-1.2") == "plain/word-1.2");
}
