// swarmd: the node. Actors, store and gRPC in one process; see docs/architecture.md.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <absl/synchronization/mutex.h>
#include <caf/scoped_actor.hpp>

#include "actors/agents/ancestry.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/environment.hpp"
#include "actors/base/log.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/process.hpp"
#include "actors/base/restrictions.hpp"
#include "actors/base/standard_streams.hpp"
#include "actors/base/stopped_mark.hpp"
#include "actors/base/text.hpp"
#include "actors/runtime/shutdown.hpp"
#include "actors/runtime/system.hpp"
#include "services/federation/listen_address.hpp"
#include "services/federation/node_labels.hpp"
#include "services/host/keeper_connection.hpp"
#include "services/host/process_watch.hpp"
#include "services/server.hpp"
#include "services/swarmd/kept_programs.hpp"
#include "services/swarmd/node_identity.hpp"
#include "services/swarmd/start_check.hpp"
#include "services/swarmd/store_file.hpp"

namespace {

using namespace std::chrono_literals;
using namespace swarm;

constexpr int exit_already_running = 75; // EX_TEMPFAIL: connect to the one that runs
constexpr int exit_tree_failed = 70;     // EX_SOFTWARE
constexpr int exit_store_moved = 74;     // EX_IOERR
constexpr int exit_stopped = 69;         // EX_UNAVAILABLE: the operator does not want it

struct arguments {
  std::string state_dir;
  std::string node_name;
  int ready_fd = -1;
  bool detach = false;
  bool if_wanted = false;
  std::string restore;
  bool check = false;
  bool programs = false;
  bool end_programs = false;
  bool verbose = false;
  bool take_keeper = false;
};

/// A process of its own session, without the terminal, the directory and the environment of the process that started it. What it writes goes
/// behind what is in swarmd.out: that may be the file of another swarmd, which owns the directory (begin_output).
void detach_from_caller(const state_dir& dir) {
  if (fork() > 0)
    _exit(0);
  setsid();
  if (fork() > 0)
    _exit(0);
  (void)!chdir("/");
  auto null = open("/dev/null", O_RDWR | O_CLOEXEC);
  auto log = open((dir.log_dir() / "swarmd.out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(null, STDIN_FILENO);
  dup2(log >= 0 ? log : null, STDOUT_FILENO);
  dup2(log >= 0 ? log : null, STDERR_FILENO);
}

/// Only the owner of the state directory starts the file again.
void begin_output() { (void)!ftruncate(STDERR_FILENO, 0); }

void use_clean_environment() {
  auto clean = clean_environment();
  clearenv();
  for (const auto& v : clean) {
    auto at = v.find('=');
    setenv(v.substr(0, at).c_str(), v.substr(at + 1).c_str(), 1);
  }
}

/// Descriptors of the process that started us are not ours to keep: a held pipe end would make a caller wait for ever.
void close_inherited(int keep) {
  if (keep > STDERR_FILENO + 1)
    close_range(STDERR_FILENO + 1, static_cast<unsigned>(keep) - 1, 0);
  close_range(static_cast<unsigned>(std::max(keep, STDERR_FILENO)) + 1, ~0u, 0);
}

void raise_descriptor_limit() {
  rlimit r{};
  if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
  }
}

void open_log(const state_dir& dir, const arguments& args) {
  umask(077);
  log::open({.file = (dir.log_dir() / "swarmd.log").string(), .to_stderr = !args.detach, .verbose = args.verbose});
}

std::string user_name() {
  if (auto* p = getpwuid(geteuid()))
    return p->pw_name;
  return std::to_string(geteuid());
}

std::string program_directory() {
  auto exe = executable_of(getpid()).value_or("/usr/bin/swarmd");
  return std::filesystem::path{exe}.parent_path().string();
}

/// Ready to be waited for: SIGINT and SIGTERM become readable, in every thread made after this.
unique_fd block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return unique_fd{signalfd(-1, &set, SFD_CLOEXEC)};
}

/// Schema first, by one connection: readers and writer then find a file of the right shape.
void prepare_store(const state_dir& dir) try {
  sqlite::connection db{dir.database().string(), sqlite::open_options{}};
  migrate(db);
} catch (const sqlite::disk_full& e) {
  throw std::runtime_error("the store " + dir.database().string() + " cannot be opened: " + e.what() + "; free some space");
} catch (const sqlite::error& e) {
  throw std::runtime_error(store_failure(dir.database(), e));
}

class stop_signal {
public:
  stop_signal() : event_(eventfd(0, EFD_CLOEXEC)) {}
  void raise(bool keep_keeper) {
    keep_keeper_ = keep_keeper;
    std::uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof one);
  }
  bool keep_keeper() const noexcept { return keep_keeper_; }
  /// Until somebody asks us to stop. `news`: a further descriptor, and what is called when it is readable.
  template <class Take>
  void wait(int signal_fd, int news_fd, Take take) const {
    pollfd fds[] = {{event_.get(), POLLIN, 0}, {signal_fd, POLLIN, 0}, {news_fd, POLLIN, 0}};
    for (;;) {
      auto n = poll(fds, std::size(fds), -1);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 || fds[0].revents != 0 || fds[1].revents != 0)
        return;
      take();
    }
  }

private:
  unique_fd event_;
  std::atomic<bool> keep_keeper_{true};
};

bool wait_until_booted(caf::actor_system& sys, const entry_actors& board) {
  caf::scoped_actor me{sys};
  auto deadline = std::chrono::steady_clock::now() + 60s;
  // One whose front dies while it boots is started again, with another front.
  for (front_actor front; (front = board.wait_for_front(front, deadline));) {
    auto up = false;
    me->request(front, 30s, boot_atom_v).receive([&](bool) { up = true; }, [](caf::error&) {});
    if (up)
      return true;
  }
  return false;
}

void check_integrity_in_background(caf::actor_system& sys, const entry_actors& board, const std::shared_ptr<integrity_report>& report) {
  auto reader = board.get().maintenance;
  if (!reader)
    return;
  report->set("checking");
  sys.spawn([reader, report](caf::event_based_actor* self) {
    self->request(reader, 30min, check_atom_v, false)
      .then(
        [report](const std::string& text) {
          if (text != "ok")
            log::error({"the store is damaged: ", text, "; restore a backup (docs/operations.md)"});
          report->set(text);
        },
        [report](caf::error&) { report->set("unchecked"); });
  });
}

/// The top supervisor gives up when parts keep failing: then a fresh process is better than a node that only refuses. Watches as long as
/// somebody holds the actor: a monitor alone does not keep it.
caf::actor end_when_the_tree_ends(caf::actor_system& sys, const runtime::supervisor_actor& root, const std::atomic<bool>& stopping) {
  return sys.spawn([root, &stopping](caf::event_based_actor* self) -> caf::behavior {
    self->set_down_handler([self, &stopping](caf::down_msg& dm) {
      if (!stopping) {
        log::critical({"the supervisor of the node gave up: ", caf::to_string(dm.reason), "; the process ends and can be started again"});
        log::close();
        std::_Exit(exit_tree_failed);
      }
      self->quit();
    });
    self->monitor(root);
    return {[](tick_atom) {}};
  });
}

/// Nothing more is answered, and nothing is written: what came in since would be in no store.
[[noreturn]] void end_without_store(const state_dir& dir) {
  log::critical({"the store ", dir.database().string(), " was moved or replaced beneath this node, which ends; to restore a backup: swarmctl down, ",
                 "swarmctl restore FILE, swarmctl up"});
  log::close();
  std::_Exit(exit_store_moved);
}

/// Its programs go on, and the next command starts a node for them.
[[noreturn]] void end_unreachable(const state_dir& dir) {
  log::critical({"the socket ", dir.socket().string(), " was removed or replaced beneath this node, which nobody can reach any more and which ends"});
  log::close();
  std::_Exit(exit_store_moved);
}

/// One that was not taken over.
void end_keeper_of_others(const state_dir& dir, std::int64_t pid) {
  auto gone = open_pidfd(static_cast<pid_t>(pid));
  try {
    quit_running_keeper(dir);
  } catch (const std::exception& e) {
    log::error({"the keeper that runs cannot be told to end: ", e.what()});
    return;
  }
  pollfd p{gone ? gone->get() : -1, POLLIN, 0};
  poll(&p, 1, static_cast<int>(2 * limits::kill_grace().count()));
}

void end_keeper(keeper_link& link, const state_dir& dir) {
  link.stop_connecting();
  auto pid = link.keeper_pid();
  if (pid == 0 && link.running_keeper() != 0)
    return end_keeper_of_others(dir, link.running_keeper());
  auto gone = pid != 0 ? open_pidfd(static_cast<pid_t>(pid)) : std::nullopt;
  link.quit_keeper();
  if (!gone)
    return;
  pollfd p{gone->get(), POLLIN, 0};
  poll(&p, 1, static_cast<int>(2 * limits::kill_grace().count()));
}

/// The programs have ended with their keeper: what is known of that is committed and kept before the actors go.
void note_ends(caf::actor_system& sys, const entry_actors& board) {
  auto processes = board.get().processes;
  if (!processes)
    return;
  caf::scoped_actor me{sys};
  me->request(processes, limits::kill_grace(), gone_atom_v)
    .receive([](bool) {},
             [](caf::error& e) {
               log::warn({"not every end of a program is noted, the next start does that: ", caf::to_string(e)});
             });
}

/// Debian builds abseil with its search for deadlocks switched on: gRPC's mutexes keep a graph of who waits for whom.
void trust_grpcs_mutexes() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

/// Tells who waits for a detached node how its start went, as `text` or with the one byte that a ready node writes. The process that started it in
/// the foreground sees what it prints.
void tell_starter(int& ready_fd, std::string_view text) {
  if (ready_fd < 0)
    return;
  (void)!write(ready_fd, text.data(), text.size());
  close(std::exchange(ready_fd, -1));
}

/// The store is in order, and nobody has been served: it ends where it stands.
[[noreturn]] void end_unserved(arguments& args, const std::string& why) {
  log::critical({"the node does not start: ", why});
  log::close();
  std::cerr << "swarmd: " << why << std::endl;
  if (args.detach)
    tell_starter(args.ready_fd, start_report::failed + why);
  _exit(1);
}

/// Tells this run of the node from all others.
std::uint64_t random_incarnation() {
  std::uint64_t out = 0;
  auto bytes = random_bytes(sizeof out);
  std::memcpy(&out, bytes.data(), sizeof out);
  return out | 1;
}

int serve(const state_dir& dir, arguments& args, unique_fd signals) {
  auto identity = load_identity(dir, args.node_name);
  prepare_store(dir);
  store_file store{dir.database()};
  auto board = std::make_shared<entry_actors>();
  worker_registry workers{[] { return system_clock_port().unix_ms(); }};
  token_cache tokens{[] { return system_clock_port().boot_ms(); }};
  process_watch watch;
  agent_roots roots{dir.agents_file(), watch, system_processes(), current_boot_id()};
  tokens.on_session_gone([&roots](const std::string& id) { roots.session_gone(id); });
  stop_signal stop;

  keeper_client_options keeper_options;
  keeper_options.dir = dir;
  keeper_options.program = std::filesystem::path{program_directory()} / "swarm-keeper";
  keeper_link keeper{keeper_options, args.take_keeper};
  keeper.look(); // before anybody can call: its workers are known as such, whether or not it is taken over

  auto environment = std::make_shared<node_environment>();
  environment->facts.node_id = identity.id;
  environment->facts.node_name = identity.name;
  environment->facts.user_identity = "user:" + user_name();
  environment->facts.version = SWARM_VERSION;
  environment->facts.dir = dir;
  environment->facts.program_dir = program_directory();
  environment->facts.token_key = identity.key;
  environment->facts.base_environment = clean_environment();
  environment->clock = &system_clock_port();
  environment->processes = &keeper;
  environment->watch = &watch;
  environment->workers = &workers;
  environment->tokens = &tokens;

  environment->facts.incarnation = random_incarnation();
  auto clustered = cluster::open(dir, environment->facts, *environment->clock);
  environment->facts.agent_environment = clustered->config().agent_environment;
  environment->facts.structured_workers = clustered->config().structured_workers;
  // Before anything is served, and before a program of the other node is taken for one that was lost.
  if (auto twin = twin_of_home(clustered->authority(), environment->clock->unix_ms()))
    throw std::runtime_error(*twin);
  clustered->describe(describe_host(environment->facts.base_environment));
  links transport{clustered->authority(), *environment->clock};
  environment->cluster = clustered.get();
  environment->links = &transport;

  node_options options;
  options.environment = environment;
  options.ledger.new_uuid = random_uuid;
  options.ledger.node_id = identity.id;
  options.ledger.user_identity = environment->facts.user_identity;
  options.ledger.identity_boundary = clustered->config().identity_boundary;
  options.ledger.is_in_place = [&store, &dir] { return store.is_same() || (end_without_store(dir), false); };

  runtime::shutdown stopping;
  auto cfg =
    runtime::make_config<caf::id_block::swarm_store, caf::id_block::swarm_fabric>(runtime::default_threads(std::thread::hardware_concurrency()));
  std::atomic<bool> is_stopping{false}; // outlives the actors
  caf::actor_system sys{cfg};
  auto root = start_node(sys, options, board);
  auto watcher = end_when_the_tree_ends(sys, root, is_stopping);
  if (!wait_until_booted(sys, *board))
    end_unserved(args, "its parts do not come up; look into " + dir.log_dir().string());
  std::unique_ptr<node_server> server;
  try {
    node_service::hooks hooks{[&keeper] { return keeper.keeper_pid(); }, [&stop](bool keep) { stop.raise(keep); },
                              [&keeper] { return keeper.running_keeper(); }, [&keeper] { return keeper.refused(); }};
    hooks.agents = agents_found(environment->facts.base_environment);
    hooks.objection_to_logs = objection_to_logs;
    hooks.copy_logs = [dir](const std::string& backup, v1::BackupReply& reply) { return copy_logs(dir, backup, reply); };
    server = std::make_unique<node_server>(sys, environment, board, workers, tokens, roots, *clustered, transport, root, std::move(hooks));
  } catch (const std::exception& e) {
    end_unserved(args, e.what()); // unwinding would wait for the actors
  }
  check_integrity_in_background(sys, *board, server->integrity());
  log::info({"swarmd ", SWARM_VERSION, " serves ", dir.root.string(), " as ", identity.name, " (", identity.id, ")"});
  tell_starter(args.ready_fd, start_report::ready);
  stop.wait(signals.get(), store.news_fd(), [&] {
    store.take_news();
    if (!store.is_same())
      end_without_store(dir);
    if (!server->can_be_found())
      end_unreachable(dir);
  });
  is_stopping = true;
  log::info({"stopping", stop.keep_keeper() ? "; programs in terminals go on" : ""});

  stopping.add("listeners", 2s, [&](auto grace) { return server->stop(grace); });
  if (!stop.keep_keeper())
    stopping.add("programs", 3 * limits::kill_grace(), [&](auto) {
      end_keeper(keeper, dir);
      note_ends(sys, *board);
      return true;
    });
  stopping.add("actors", 10s, [&](auto grace) { return runtime::stop_actor(sys, caf::actor_cast<caf::actor>(root), grace); });
  auto late = stopping.run();
  server = nullptr;
  root = nullptr;
  board->clear();
  return late.empty() ? 0 : 1;
}

/// For swarmctl, which shows them: a v1::PtyInfo a line, in hex.
int print_programs(const std::vector<v1::PtyInfo>& programs) {
  for (const auto& p : programs)
    std::cout << to_hex(p.SerializeAsString()) << "\n";
  return 0;
}

int end_programs(const state_dir& dir) {
  auto ended = end_kept_programs(dir);
  // Under the lock, so that no node runs that the mark would be about.
  if (auto error = write_stopped_mark(dir, {}))
    throw std::runtime_error("the mark that keeps the node down cannot be written: " + error.message());
  return print_programs(ended);
}

/// As swarmctl does (cli/verbs/persons.cpp), for who starts this program by hand. `why`: no person has started it.
void refuse_who_is_no_person(const arguments& args, const state_dir& dir, const std::string& why) {
  const bool ends_down = !args.programs && !args.if_wanted && std::filesystem::exists(dir.stopped_mark());
  const char* what = !args.restore.empty() ? "replacing the store of a node"
                     : args.end_programs   ? "keeping a node down"
                     : ends_down           ? "starting a node that was stopped with swarmctl down"
                                           : nullptr;
  if (what != nullptr && !why.empty())
    throw std::runtime_error(what + std::string{" is for a person to do, and "} + why);
}

} // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  forbid_inspection();
  CLI::App app{"swarmd: the node of Swarm Fabric. Usually started by swarmctl."};
  arguments args;
  app.add_option("--state-dir", args.state_dir, "directory of the node's state (default: $SWARM_HOME, else $XDG_STATE_HOME/swarm)");
  app.add_option("--node-name", args.node_name, "name of this node (default: the stored one, else the host's name)");
  app.add_option("--ready-fd", args.ready_fd, "descriptor that gets one byte when the node serves");
  app.add_flag("--detach", args.detach, "run in the background, in a session of its own");
  app.add_flag("--check", args.check, "print what would keep the node from starting, one a line, and end: status 1 when there is something");
  app.add_option("--restore", args.restore, "put this backup in the place of the store, print where the old files went, and end");
  app.add_flag("--programs", args.programs, "print the programs that go on without a node, for swarmctl, and end");
  app.add_flag("--end-programs", args.end_programs, "end them, print them in the same way, and end; the node stays down until `swarmctl up`");
  app.add_flag("--if-wanted", args.if_wanted, "do not start after `swarmctl down`, until `swarmctl up`: for programs that only need a node");
  app.add_flag("--take-keeper", args.take_keeper, "take over a keeper that runs with other restrictions than this process");
  app.add_flag("--verbose", args.verbose, "log more");
  app.set_version_flag("--version", SWARM_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    auto dir = args.state_dir.empty() ? default_state_dir() : state_dir{absolute_path(args.state_dir)};
    prepare(dir);
    if (args.check) {
      auto obstacles = obstacles_to_start(dir);
      for (const auto& o : obstacles)
        std::cout << escape_control(o, false) << "\n";
      return obstacles.empty() ? 0 : 1;
    }
    close_inherited(args.ready_fd);
    const auto why = agents::reason_for_suspicion(system_processes(), getpid(), geteuid()); // detached, it has no ancestors
    if (args.detach)
      detach_from_caller(dir);
    use_clean_environment();
    raise_descriptor_limit();
    auto owned = take_ownership(dir.lock_file());
    if (!owned) {
      std::cerr << "swarmd: another swarmd serves " << dir.root.string() << "\n";
      if (args.detach)
        tell_starter(args.ready_fd, start_report::owned);
      return exit_already_running;
    }
    refuse_who_is_no_person(args, dir, why);
    if (!args.restore.empty()) {
      std::cout << restore_store(dir, absolute_path(args.restore)).string() << std::endl;
      return 0;
    }
    if (args.programs || args.end_programs) {
      (void)configure(dir); // a damaged file must not keep programs from being ended: the usual limits do
      return args.programs ? print_programs(kept_programs(dir)) : end_programs(dir);
    }
    // Under the lock, so that it does not matter who was faster.
    if (args.if_wanted && std::filesystem::exists(dir.stopped_mark())) {
      std::cerr << "swarmd: this node was stopped with `swarmctl down`; start it with: swarmctl up\n";
      if (args.detach)
        tell_starter(args.ready_fd, start_report::stopped);
      return exit_stopped;
    }
    std::filesystem::remove(dir.stopped_mark());
    finish_restore(dir);
    sign_ownership(owned.get());
    if (args.detach)
      begin_output();
    open_log(dir, args);
    trust_grpcs_mutexes();
    if (auto wrong = configure(dir))
      throw std::runtime_error(*wrong);
    if (auto wrong = obstacle_at_sockets(dir))
      throw std::runtime_error(*wrong);
    if (auto wrong = missing_store(dir))
      throw std::runtime_error(*wrong);
    return serve(dir, args, block_signals());
  } catch (const std::exception& e) {
    log::critical({e.what()});
    std::cerr << "swarmd: " << e.what() << "\n";
    if (args.detach)
      tell_starter(args.ready_fd, start_report::failed + std::string{e.what()});
    return 1;
  }
}
