// login, logout: the person at a terminal shows that it is one.
#include <string.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "cli/persons.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/passphrase.hpp"

namespace swarm::cli {

namespace {

constexpr std::int64_t minute_ms = 60'000;
constexpr const char* no_terminal = "swarmctl login asks at the terminal, and this process has none; run it at the shell of a terminal";

void overwrite(std::string& text) { explicit_bzero(text.data(), text.size()); }

/// What the terminal has been told goes into the message and is overwritten.
template <class Take>
void ask(const std::string& question, Take take) {
  auto words = typed_passphrase(question, no_terminal);
  take(words);
  overwrite(words);
}

struct login_options {
  bool set = false;
  bool remove = false;
};

int set_passphrase(invocation& cli, bool remove) {
  refuse_who_is_not_operator(cli, [&] { cli.node().admin.set_passphrase({}); });
  v1::SetPassphraseRequest request;
  if (cli.node().admin.status().has_passphrase())
    ask("The passphrase until now: ", [&](const std::string& words) { request.set_former(words); });
  if (!remove) {
    ask("New passphrase for swarmctl login: ", [&](const std::string& words) { request.set_passphrase(words); });
    bool same = false;
    ask("Once more: ", [&](const std::string& words) { same = words == request.passphrase(); });
    if (!same)
      throw usage("the two passphrases differ");
    if (request.passphrase().size() < limits::login_passphrase_bytes_min)
      throw usage(concat({"a passphrase has at least ", limits::login_passphrase_bytes_min, " bytes"}));
  }
  const auto reply = cli.node().admin.set_passphrase(request);
  overwrite(*request.mutable_passphrase());
  overwrite(*request.mutable_former());
  cli.io().line(reply.set() ? "the passphrase is set; at a terminal that the node takes for an agent's: swarmctl login"
                            : "there is no passphrase any more");
  return code::ok;
}

int run_login(invocation& cli, const login_options& o) {
  if (o.set && o.remove)
    throw usage("--set and --remove exclude each other");
  if (o.set || o.remove)
    return set_passphrase(cli, o.remove);
  v1::LoginRequest request;
  ask("Passphrase: ", [&](const std::string& words) { request.set_passphrase(words); });
  const auto reply = cli.node().admin.login(request);
  overwrite(*request.mutable_passphrase());
  // To the minute: the way of the answer is no part of the time.
  const auto left = (reply.until_ms() - cli.now_ms() + minute_ms - 1) / minute_ms * minute_ms;
  cli.io().line("this terminal is yours for " + duration(left) + "; swarmctl logout ends that");
  return code::ok;
}

int run_logout(invocation& cli, bool all) {
  v1::LogoutRequest request;
  request.set_all(all);
  const auto ended = cli.node().admin.logout(request).ended();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"ended", ended}});
  else
    cli.io().line(ended == 0 ? "no terminal was logged in" : ended == 1 ? "logged out" : std::to_string(ended) + " terminals are logged out");
  return code::ok;
}

void build_login(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<login_options>();
  flag(app, "--set", o->set, "set or change the passphrase");
  flag(app, "--remove", o->remove, "remove the passphrase; nobody can log in then");
  on_run(app, cli, [o, &cli] { return run_login(cli, *o); });
}

void build_logout(CLI::App& app, invocation& cli) {
  auto all = std::make_shared<bool>();
  flag(app, "--all", *all, "every terminal, not only this one");
  on_run(app, cli, [all, &cli] { return run_logout(cli, *all); });
}

constexpr const char* terminals_are_here = "a terminal of this host logs in at the node of this host; there: swarmctl login, over ssh";

constexpr verb verbs[] = {
  {"login", subject::node, "show at a terminal that a person sits there, when the node takes it for an agent's",
   "  swarmctl login --set\n  swarmctl login", build_login, nullptr, "", nullptr, node_choice::current, terminals_are_here},
  {"logout", subject::node, "end what login has begun", "  swarmctl logout --all", build_logout, nullptr, "", nullptr, node_choice::current,
   terminals_are_here},
};

} // namespace

std::span<const verb> login_verbs() { return verbs; }

} // namespace swarm::cli
