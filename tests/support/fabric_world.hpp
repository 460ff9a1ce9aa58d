// A whole node's actors on the deterministic scheduler: the real store in a scratch directory, a fake keeper, virtual time.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "actors/base/crypto.hpp"
#include "actors/fabric/node.hpp"
#include "actors/runtime/ending.hpp"
#include "tests/support/fake_processes.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

namespace swarm::test {

/// A directory in memory where the system has one, so that COMMIT costs no disk; gone with the test.
class scratch_state {
public:
  scratch_state() {
    auto base = std::filesystem::is_directory("/dev/shm") ? std::filesystem::path{"/dev/shm"} : std::filesystem::temp_directory_path();
    dir.root = base / ("swarm-sim-" + random_uuid());
    prepare(dir);
  }
  ~scratch_state() {
    std::error_code ignored;
    std::filesystem::remove_all(dir.root, ignored);
  }
  scratch_state(const scratch_state&) = delete;
  scratch_state& operator=(const scratch_state&) = delete;

  /// Every byte of every file below it.
  std::string contents() const {
    std::ostringstream all;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir.root))
      if (e.is_regular_file())
        all << std::ifstream(e.path(), std::ios::binary).rdbuf();
    return all.str();
  }

  state_dir dir;
};

/// A question on its way: what came back, and who asked (to be killed like a client that vanishes).
template <class Reply>
struct asked {
  std::shared_ptr<std::optional<outcome<Reply>>> result;
  caf::actor who;

  bool answered() const { return result->has_value(); }
  bool failed() const { return answered() && std::holds_alternative<caf::error>(**result); }
  const Reply& get() const {
    REQUIRE(answered());
    REQUIRE_FALSE(failed());
    return std::get<Reply>(**result);
  }
  errc error() const {
    REQUIRE(failed());
    return static_cast<errc>(std::get<caf::error>(**result).code());
  }
};

class fabric_world {
public:
  using sim = world<caf::id_block::swarm_store, caf::id_block::swarm_fabric>;

  explicit fabric_world(std::uint64_t seed = 0) : uuids_(seeded_uuids(seed + 1)), w(seed) {
    start();
    w.settle();
  }
  ~fabric_world() {
    stop();
    board->clear();
  }

  // -- the node ------------------------------------------------------------------------------

  void start() {
    auto environment = std::make_shared<node_environment>();
    environment->facts.node_id = "node-1";
    environment->facts.node_name = "test";
    environment->facts.user_identity = "user:ada";
    environment->facts.dir = state.dir;
    environment->facts.program_dir = "/opt/swarm/bin";
    environment->facts.token_key = std::string(32, 'k');
    environment->facts.base_environment = {"PATH=/usr/bin:/bin", "ORIGIN=node"};
    environment->clock = &w.clock;
    environment->processes = &keeper;
    environment->watch = &watch;
    environment->workers = &workers;
    environment->restarts = restarts;
    node_options options;
    options.environment = environment;
    options.ledger.clock = &w.clock;
    options.ledger.new_uuid = uuids_;
    options.ledger.node_id = "node-1";
    options.ledger.user_identity = "user:ada";
    options.ledger.free_disk_bytes = [this] { return free_disk_bytes; };
    options.detached = false;
    options.make_lock_looker = make_lock_looker;
    options.supervision.max_restarts = 1'000'000;
    // As swarmd does: readers refuse a file the writer has not migrated yet. A new store has nothing to be lenient about.
    if (!std::filesystem::exists(environment->facts.dir.database()))
      options.ledger.grace = std::chrono::milliseconds{0};
    {
      sqlite::connection file{environment->facts.dir.database().string(), sqlite::open_options{}};
      migrate(file);
    }
    root = start_node(w.sys, std::move(options), board);
  }
  /// kill -9 for actors: nobody gets to clean up in order. What is half-way stays as the store has it.
  void stop() {
    if (!root)
      return;
    runtime::kill(root);
    root = nullptr;
    w.settle();
  }
  void restart() {
    stop();
    start();
    w.settle();
  }
  /// Kills a part ("writer", "scopes/s/lock/p") as `swarmctl` drills do; does not settle.
  void drill(const std::string& path) { caf::anon_send(root, kill_atom_v, path); }

  // -- callers -------------------------------------------------------------------------------

  template <class Reply, class Handle, class... Ts>
  asked<Reply> request(Handle target, Ts... xs) {
    asked<Reply> out{std::make_shared<std::optional<outcome<Reply>>>(), {}};
    out.who = w.sys.spawn([target, result = out.result, xs...](caf::event_based_actor* self) {
      auto failed = [result](caf::error& e) { result->emplace(std::move(e)); };
      if constexpr (std::is_same_v<Reply, done>)
        self->request(target, caf::infinite, xs...).then([result] { result->emplace(done{}); }, failed);
      else
        self->request(target, caf::infinite, xs...).then([result](const Reply& r) { result->emplace(r); }, failed);
    });
    return out;
  }
  asked<reply_ptr> send(v1::Command cmd, v1::RequestId id = {}, std::vector<std::string> environment = {}) {
    auto e = std::make_shared<execution>();
    if (id.client().empty()) {
      id.set_client("test-client");
      id.set_seq(++seq_);
    }
    e->id = id;
    e->command = std::move(cmd);
    auto c = std::make_shared<call>();
    c->what = e;
    c->environment = std::move(environment);
    auto front = board->get().front;
    if (!front) {
      asked<reply_ptr> out{std::make_shared<std::optional<outcome<reply_ptr>>>(), {}};
      out.result->emplace(fail(errc::unavailable));
      return out;
    }
    return request<reply_ptr>(front, call_ptr{c});
  }
  v1::RequestId next_id() {
    v1::RequestId id;
    id.set_client("test-client");
    id.set_seq(++seq_);
    return id;
  }
  /// Send, settle, and the reply there must be.
  v1::Reply run(v1::Command cmd, std::vector<std::string> environment = {}) {
    auto a = send(std::move(cmd), {}, std::move(environment));
    w.settle();
    return *a.get();
  }
  v1::Answer ask(const v1::Query& q) {
    auto a = request<answer_ptr>(board->get().front, query_ptr{std::make_shared<const v1::Query>(q)});
    w.settle();
    return *a.get();
  }
  asked<activity_ptr> wait(const std::string& session, std::int64_t timeout_ms = 0, std::uint64_t since = 0, bool locks = false,
                           const v1::RequestId& id = {}) {
    auto r = std::make_shared<v1::WaitRequest>();
    r->set_scope("s");
    r->set_session_id(session);
    r->set_timeout_ms(timeout_ms);
    r->set_since(since);
    r->set_include_locks(locks);
    *r->mutable_id() = id;
    return request<activity_ptr>(board->get().front, wait_request_ptr{r});
  }
  void attach(const std::string& session, std::uint64_t stream, bool on) {
    w.tell(board->get().front, attach_atom_v, std::string{"s"}, session, stream, on);
  }

  // -- commands ------------------------------------------------------------------------------

  static v1::Command command(const std::string& actor = {}, const std::string& scope = "s") {
    v1::Command c;
    c.set_scope(scope);
    c.set_actor(actor);
    c.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    c.mutable_caller()->set_directory("/repo");
    return c;
  }
  static v1::Query query(const std::string& scope = "s") {
    v1::Query q;
    q.set_scope(scope);
    q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    return q;
  }
  /// A session that lives with a process.
  std::string session(std::int64_t pid = 100, const std::string& scope = "s") {
    auto c = command({}, scope);
    auto& r = *c.mutable_register_session();
    r.set_directory("/repo");
    r.set_root("/repo");
    r.set_pid(pid);
    r.set_pid_start(static_cast<std::uint64_t>(pid));
    return run(c).session().session().id();
  }
  static v1::Command acquire(const std::string& session, const std::string& path, std::int64_t wait_ms = 0, std::int64_t ttl_ms = 0) {
    auto c = command(session);
    c.mutable_acquire_lock()->set_path(path);
    c.mutable_acquire_lock()->set_exclusive(true);
    c.mutable_acquire_lock()->set_wait_ms(wait_ms);
    c.mutable_acquire_lock()->set_ttl_ms(ttl_ms);
    return c;
  }
  static v1::Command release(const std::string& session, const std::string& path, std::uint64_t fence = 0) {
    auto c = command(session);
    c.mutable_release_lock()->set_path(path);
    c.mutable_release_lock()->set_fence(fence);
    return c;
  }
  static v1::Command set_kv(const std::string& key, const std::string& value, std::int64_t ttl_ms = 0) {
    auto c = command();
    c.mutable_set_kv()->set_key(key);
    c.mutable_set_kv()->set_value(value);
    c.mutable_set_kv()->set_ttl_ms(ttl_ms);
    return c;
  }
  static v1::Command spawn_command(const std::string& key, std::uint32_t retries = 0) {
    auto c = command();
    auto& r = *c.mutable_request_spawn();
    r.set_role("worker");
    r.set_key(key);
    r.set_harness("exec");
    r.add_argv("/bin/true");
    r.set_directory("/repo");
    r.set_retries(retries);
    return c;
  }
  static v1::Command dispatch(const std::string& title, std::uint32_t retries = 0) {
    auto c = command();
    auto& d = *c.mutable_dispatch();
    d.set_title(title);
    d.set_harness("exec");
    d.add_argv("/bin/true");
    d.set_directory("/repo");
    d.set_retries(retries);
    return c;
  }

  // -- looking -------------------------------------------------------------------------------

  std::optional<v1::LockView> lock(const std::string& path) {
    auto q = query();
    q.mutable_get_lock()->set_path(path);
    auto a = ask(q);
    return a.lock().has_active() ? std::optional{a.lock().active()} : std::nullopt;
  }
  std::vector<v1::Session> sessions() {
    auto q = query();
    q.mutable_list_sessions();
    auto a = ask(q);
    return {a.sessions().sessions().begin(), a.sessions().sessions().end()};
  }
  bool has_session(const std::string& id) {
    for (const auto& s : sessions())
      if (s.id() == id)
        return true;
    return false;
  }
  std::vector<v1::Spawn> spawns() {
    auto q = query();
    q.mutable_list_spawns();
    auto a = ask(q);
    return {a.spawns().spawns().begin(), a.spawns().spawns().end()};
  }
  v1::Spawn spawn_row(const std::string& id) {
    for (auto& s : spawns())
      if (s.id() == id)
        return s;
    FAIL("no spawn ", id);
    return {};
  }
  v1::Task task(const std::string& id) {
    auto q = query();
    q.mutable_get_task()->set_task_id(id);
    return ask(q).task();
  }
  /// The graph.
  std::vector<runtime::tree_entry> rows() {
    auto a = request<std::vector<runtime::tree_entry>>(root, tree_atom_v);
    w.settle();
    return a.get();
  }
  /// Paths of the awake actors.
  std::vector<std::string> tree() {
    std::vector<std::string> out;
    for (const auto& e : rows())
      if (e.state != "waiting")
        out.push_back(e.path);
    return out;
  }
  bool awake(const std::string& path) {
    auto all = tree();
    return std::find(all.begin(), all.end(), path) != all.end();
  }

private:
  /// For tests that kill more than a node in use sees.
  static runtime::restart_options patient() {
    runtime::restart_options o;
    o.max_restarts = 1'000'000;
    return o;
  }

  std::function<std::string()> uuids_;
  std::uint64_t seq_ = 0;

public:
  scratch_state state;
  std::shared_ptr<entry_actors> board = std::make_shared<entry_actors>();
  fake_keeper keeper;
  fake_process_watch watch;
  fake_worker_table workers;
  std::uint64_t free_disk_bytes = std::uint64_t{1} << 40;
  std::function<lock_looker_actor()> make_lock_looker; // from the next start on
  runtime::restart_options restarts = patient();
  quiet log;
  sim w;
  runtime::supervisor_actor root;
};

} // namespace swarm::test
