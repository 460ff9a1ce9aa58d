#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>

#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tools/bench.d/suite.hpp"

namespace swarm::bench {

namespace {

using nlohmann::json;

/// An agent registers with a directory that exists.
std::string existing(const char* name) {
  const auto directory = std::filesystem::temp_directory_path() / "swarm-bench" / name;
  std::filesystem::create_directories(directory);
  return std::filesystem::canonical(directory).string();
}

const std::string scope = existing("mcp");
/// Apart from the thousands of tasks that the tools leave behind: all of them come with an answer that says "task_updates".
const std::string quiet_scope = existing("quiet");
const std::string free_file = scope + "/free.cpp";
const std::string locked_file = scope + "/locked.cpp"; // by a peer
constexpr int starts = 20;                             // per round
constexpr int repetitions = 20;                        // of each way to wake, per round
constexpr int checks = 30;                             // per round
constexpr int racers = 64;                             // servers that claim at once
constexpr int contested = 1'000;                       // tasks they claim

/// An agent's MCP server, spoken to as its host does: a line out, a line back.
class agent {
public:
  agent(const node& n, const std::filesystem::path& bin) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket pair");
    mine_ = unique_fd{ends[0]};
    unique_fd theirs{ends[1]};
    process_ = child{{bin / "swarmctl", "mcp"}, {"SWARM_HOME=" + n.dir().string()}, -1, theirs.get()};
  }
  ~agent() {
    mine_ = unique_fd{};
    process_.end(0);
  }
  agent(const agent&) = delete;
  agent& operator=(const agent&) = delete;

  void send(const std::string& method, json params) {
    auto line = json{{"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", std::move(params)}}.dump() + "\n";
    for (std::string_view rest = line; !rest.empty();) {
      auto n = write(mine_.get(), rest.data(), rest.size());
      if (n <= 0)
        throw std::runtime_error("the MCP server went away");
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// The answer to what was sent last; notifications are passed over.
  json answer() {
    for (;;) {
      auto end = heard_.find('\n');
      if (end == heard_.npos) {
        char buffer[16 * 1024];
        auto n = read(mine_.get(), buffer, sizeof buffer);
        if (n <= 0)
          throw std::runtime_error("the MCP server went away");
        heard_.append(buffer, static_cast<std::size_t>(n));
        continue;
      }
      auto message = json::parse(heard_.substr(0, end));
      heard_.erase(0, end + 1);
      if (message.value("id", 0) == id_)
        return message;
    }
  }
  json ask(const std::string& method, json params) {
    send(method, std::move(params));
    return answer();
  }
  /// The first text of a tool's answer; a failure of the call ends the benchmark.
  std::string call(const std::string& tool, json arguments) {
    auto out = ask("tools/call", {{"name", tool}, {"arguments", std::move(arguments)}}).at("result");
    if (out.value("isError", false))
      throw std::runtime_error(tool + ": " + out.at("content")[0].at("text").get<std::string>());
    return out.at("content")[0].at("text");
  }
  /// Its id.
  std::string enroll(const std::string& where = scope) { return json::parse(call("register", {{"directory", where}, {"scope", where}})).at("id"); }
  pid_t pid() const { return process_.pid(); }

private:
  unique_fd mine_;
  child process_;
  std::string heard_;
  int id_ = 0;
};

/// One tool, or two that belong together, as an agent calls it and as a client without MCP does the same. `key` is the caller's own.
struct measured_tool {
  const char* name;
  void (*by_mcp)(agent&, const std::string& key);
  void (*direct)(node_client&, const std::string& session, const std::string& key);
};

std::string path_of(const std::string& key) { return scope + "/" + key; }

constexpr measured_tool measured_tools[] = {
  {"kv_set",
   [](agent& a, const std::string& key) {
     a.call("kv_set", {{"key", key}, {"value", "value"}});
   },
   [](node_client& c, const std::string& session, const std::string& key) {
     auto set = command(scope, session);
     set.mutable_set_kv()->set_key(key);
     set.mutable_set_kv()->set_value("value");
     c.execute(set);
   }},
  {"lock_file + unlock_file",
   [](agent& a, const std::string& key) {
     a.call("lock_file", {{"file", path_of(key)}});
     a.call("unlock_file", {{"file", path_of(key)}});
   },
   [](node_client& c, const std::string& session, const std::string& key) {
     auto take = command(scope, session), give = take;
     take.mutable_acquire_lock()->set_path(path_of(key));
     c.execute(take);
     give.mutable_release_lock()->set_path(path_of(key));
     c.execute(give);
   }},
  {"get_file_lock",
   [](agent& a, const std::string& key) {
     a.call("get_file_lock", {{"file", path_of(key)}});
   },
   [](node_client& c, const std::string& session, const std::string& key) {
     v1::Query q;
     q.set_scope(scope);
     q.set_viewer(session);
     q.mutable_get_lock()->set_path(path_of(key));
     c.ask(q);
   }},
  {"request_task + update_task",
   [](agent& a, const std::string& key) {
     auto made = json::parse(a.call("request_task", {{"type", "implement"}, {"title", key}}));
     a.call("update_task", {{"task_id", made.at("task_id")}, {"status", "cancelled"}});
   },
   [](node_client& c, const std::string& session, const std::string& key) {
     auto make = command(scope, session), end = make;
     auto* t = make.mutable_create_tasks()->add_tasks();
     t->set_type("implement");
     t->set_title(key);
     end.mutable_update_task()->set_task_id(c.execute(make).tasks_created().tasks(0).task().id());
     end.mutable_update_task()->set_status(v1::CANCELLED);
     c.execute(end);
   }},
  {"poll_messages", [](agent& a, const std::string&) { a.call("poll_messages", json::object()); },
   [](node_client& c, const std::string& session, const std::string&) {
     auto poll = command(scope, session);
     poll.mutable_consume_messages();
     c.execute(poll);
   }},
};

class mcp_suite final : public suite {
public:
  explicit mcp_suite(const settings& s) : settings_(s), echo_(s.tools, s.dir), node_(s.bin, s.dir / "node") {
    node_.start();
    operator_ = std::make_unique<node_client>(node_.socket());
    hook("session-start", {{"source", "startup"}});
    auto take = command(scope, register_session(*operator_, scope));
    take.mutable_acquire_lock()->set_path(locked_file);
    operator_->execute(take);
  }

  void round() override {
    first_answers();
    hook_checks();
    for (const auto& tool : measured_tools)
      for (int agents : {1, 8, 32}) {
        auto name = tool.name + (" " + std::to_string(agents));
        take("direct " + name, agents, [&](int i) { return direct_operation(tool, i); });
        take("mcp " + name, agents, [&](int i) { return mcp_operation(tool, i); });
      }
    race();
    wakes();
  }

  std::vector<row> rows() const override {
    auto m = [&](const std::string& name) { return samples_.median_of(name); };
    std::vector<row> out;
    out.push_back(
      {"mcp: from exec to the answer to initialize", m("first answer"), "ms", "bare static gRPC call, process", m("bare"), {goal::ratio_at_most, 2}});
    for (auto what : {"allowed", "denied"})
      out.push_back({std::string{"hook: before a write that is "} + what,
                     m(std::string{"hook "} + what),
                     "ms",
                     "bare static gRPC call, process",
                     m("bare beside hooks"),
                     {goal::ratio_at_most, 1.3}});
    for (const auto& tool : measured_tools)
      for (auto n : {"1", "8", "32"})
        for (auto p : {"p50", "p99"}) {
          auto name = std::string{tool.name} + " " + n + " " + p;
          out.push_back({std::string{"mcp: "} + tool.name + ", " + n + " agents, " + p,
                         m("mcp " + name),
                         "ms",
                         "the same by gRPC, as many clients",
                         m("direct " + name),
                         {}});
        }
    out.push_back({"mcp: 64 agents claim 1 000 tasks, each once", m("race"), "claims/s", "", 0, {}});
    for (auto what : {"message", "task", "lock"})
      out.push_back(
        {std::string{"wake-up, mcp: "} + what + " to a waiting agent", m(std::string{"wake "} + what), "ms", "", 0, {goal::value_at_most, 2}});
    out.push_back({"mcp: private memory of a registered server", m("memory") / (1024 * 1024), "MiB", "", 0, {goal::value_at_most, 4}});
    return out;
  }

private:
  void take(const std::string& name, int clients, const std::function<operation(int)>& make) {
    auto r = closed_loop(clients, settings_.length, make);
    samples_.add(name + " p50", r.p50_ms);
    samples_.add(name + " p99", r.p99_ms);
  }

  void first_answers() {
    std::vector<double> ours, bare;
    for (int i = 0; i < starts; ++i) {
      auto began = steady::now();
      agent a{node_, settings_.bin};
      a.ask("initialize", {{"protocolVersion", "2025-11-25"}});
      ours.push_back(ms_since(began));
      bare.push_back(bare_call());
    }
    samples_.add("first answer", median(ours));
    samples_.add("bare", median(bare));
  }

  double bare_call() {
    auto began = steady::now();
    child process{{settings_.tools / "bare-echo-client", echo_.socket()}};
    if (process.end(0) != 0)
      throw std::runtime_error("bare-echo-client failed");
    return ms_since(began);
  }

  /// One event of an agent's program, as its host tells it; what the hook answered, and how long the process took.
  std::pair<std::string, double> hook(const std::string& event, json input) {
    input.update({{"session_id", "bench"}, {"cwd", scope}});
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket pair");
    unique_fd mine{ends[0]}, theirs{ends[1]};
    auto text = input.dump();
    if (write(mine.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || shutdown(mine.get(), SHUT_WR) != 0)
      throw std::runtime_error("the socket pair takes nothing");
    auto began = steady::now();
    child process{{settings_.bin / "swarmctl", "hook", "claude", event}, {"SWARM_HOME=" + node_.dir().string()}, -1, theirs.get()};
    if (process.end(0) != 0)
      throw std::runtime_error("swarmctl hook failed");
    auto taken = ms_since(began);
    theirs = unique_fd{};
    std::string answer(64 * 1024, '\0');
    answer.resize(static_cast<std::size_t>(std::max<ssize_t>(read(mine.get(), answer.data(), answer.size()), 0)));
    return {answer, taken};
  }

  void hook_checks() {
    std::vector<double> allowed, denied, bare;
    auto ask_about = [&](const std::string& file) {
      return hook("pre-tool-use", {{"tool_name", "Write"}, {"tool_use_id", "t"}, {"tool_input", {{"file_path", file}, {"content", "text"}}}});
    };
    for (int i = 0; i < checks; ++i) {
      auto [silence, free] = ask_about(free_file);
      auto [refusal, taken] = ask_about(locked_file);
      if (!silence.empty() || refusal.find("deny") == refusal.npos)
        throw std::runtime_error("the hook is wrong: it said \"" + silence + "\" and \"" + refusal + "\"");
      allowed.push_back(free);
      denied.push_back(taken);
      bare.push_back(bare_call());
    }
    samples_.add("hook allowed", median(allowed));
    samples_.add("hook denied", median(denied));
    samples_.add("bare beside hooks", median(bare));
  }

  operation direct_operation(const measured_tool& tool, int client) {
    auto c = std::make_shared<node_client>(node_.socket());
    auto session = register_session(*c, scope);
    return [&tool, c, session, key = "direct-" + std::to_string(client)] {
      tool.direct(*c, session, key);
      return true;
    };
  }

  operation mcp_operation(const measured_tool& tool, int client) {
    auto a = std::make_shared<agent>(node_, settings_.bin);
    a->enroll();
    return [&tool, a, key = "mcp-" + std::to_string(client)] {
      tool.by_mcp(*a, key);
      return true;
    };
  }

  /// Every task is claimed, none twice; anything else ends the benchmark.
  void race() {
    auto ids = make_tasks(*operator_, scope, contested);
    std::mutex mutex;
    std::set<std::string> claimed;
    // Until all have ended: what one that leaves had claimed is open again.
    std::vector<std::shared_ptr<agent>> all;
    auto r = closed_loop(racers, std::chrono::minutes{5}, [&](int) -> operation {
      auto a = std::make_shared<agent>(node_, settings_.bin);
      a->enroll();
      {
        std::lock_guard lock{mutex};
        all.push_back(a);
      }
      return [&, a] {
        auto got = json::parse(a->call("claim_next_task", {{"ignore_unread_messages", true}}));
        if (!got.value("ok", false))
          return false;
        std::lock_guard lock{mutex};
        if (!claimed.insert(got.at("task_id")).second)
          throw std::runtime_error("a task was claimed twice");
        return true;
      };
    });
    samples_.add("race", r.per_second);
    all.clear();
    if (claimed.size() != ids.size())
      throw std::runtime_error(std::to_string(claimed.size()) + " of " + std::to_string(ids.size()) + " tasks were claimed");
    // The agents have left and what they had claimed is open again.
    for (const auto& id : ids) {
      auto done = command(scope);
      done.mutable_update_task()->set_task_id(id);
      done.mutable_update_task()->set_status(v1::CANCELLED);
      operator_->execute(done);
    }
  }

  bool somebody_waits() {
    grpc::ClientContext context;
    v1::GraphRequest request;
    request.set_scope(quiet_scope);
    v1::ActorGraph graph;
    check(v1::Node::NewStub(operator_->channel())->Graph(&context, request, &graph), "Graph");
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& n) { return n.kind() == "mailbox" && n.state() == "waited on"; });
  }

  /// From before the change is sent until the agent's call has returned.
  double taken_by(agent& waiting, const v1::Command& change) {
    auto began = steady::now();
    auto got = std::async(std::launch::async, [&] {
      waiting.answer();
      return steady::now();
    });
    operator_->execute(change);
    return std::chrono::duration<double, std::milli>(got.get() - began).count();
  }

  void wait_for_activity(agent& waiting) {
    waiting.call("poll_messages", json::object());
    waiting.send("tools/call", {{"name", "wait_for_activity"}, {"arguments", json::object()}});
    // What comes in before the wait has begun would be found at once.
    if (!eventually(std::chrono::seconds{10}, [&] { return somebody_waits(); }))
      throw std::runtime_error("nobody waits for activity");
  }

  double wake_by_message(agent& waiting, const std::string& id) {
    wait_for_activity(waiting);
    auto tell = command(quiet_scope);
    tell.mutable_send_message()->set_recipient(id);
    tell.mutable_send_message()->set_content("please look");
    return taken_by(waiting, tell);
  }

  double wake_by_task(agent& waiting) {
    wait_for_activity(waiting);
    auto make = command(quiet_scope);
    auto* t = make.mutable_create_tasks()->add_tasks();
    t->set_type("implement");
    t->set_title("wake up");
    return taken_by(waiting, make);
  }

  double wake_by_lock(agent& waiting, const std::string& holder) {
    const auto path = quiet_scope + "/handed-over";
    auto take = command(quiet_scope, holder);
    take.mutable_acquire_lock()->set_path(path);
    operator_->execute(take);
    waiting.send("tools/call", {{"name", "lock_acquire"}, {"arguments", {{"file", path}, {"wait_seconds", 30}}}});
    v1::Query look;
    look.set_scope(quiet_scope);
    look.mutable_get_lock()->set_path(path);
    if (!eventually(std::chrono::seconds{10}, [&] { return operator_->ask(look).lock().active().waiters() == 1; }))
      throw std::runtime_error("nobody waits for the lock");
    auto give = command(quiet_scope, holder);
    give.mutable_release_lock()->set_path(path);
    auto taken = taken_by(waiting, give);
    waiting.call("unlock_file", {{"file", path}});
    return taken;
  }

  void wakes() {
    agent waiting{node_, settings_.bin};
    auto id = waiting.enroll(quiet_scope);
    auto holder = register_session(*operator_, quiet_scope);
    std::vector<double> by_message, by_task, by_lock;
    for (int i = 0; i < repetitions; ++i) {
      by_message.push_back(wake_by_message(waiting, id));
      by_task.push_back(wake_by_task(waiting));
      by_lock.push_back(wake_by_lock(waiting, holder));
    }
    samples_.add("wake message", median(by_message));
    samples_.add("wake task", median(by_task));
    samples_.add("wake lock", median(by_lock));
    samples_.add("memory", static_cast<double>(anonymous_memory(waiting.pid())));
  }

  settings settings_;
  echo_server echo_;
  node node_;
  std::unique_ptr<node_client> operator_;
};

} // namespace

std::unique_ptr<suite> make_mcp_suite(const settings& s) { return std::make_unique<mcp_suite>(s); }

} // namespace swarm::bench
