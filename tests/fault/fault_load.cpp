#include "tests/fault/fault_load.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

namespace swarm::testing {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t locks_per_round = 3;
constexpr std::size_t keys_per_round = 3;
constexpr std::size_t approvals_read = 100; // of each client in the end; the store forgets the oldest that have ended
constexpr auto settle_deadline = 30s;

std::string numbered(const char* what, std::size_t round, std::size_t i) {
  return std::string{what} + std::to_string(round) + "-" + std::to_string(i);
}

/// Whether the text names a loss of the program by its node or host.
bool names_loss(const std::string& text) { return text.find("node_restarted") != text.npos || text.find("host_lost") != text.npos; }

} // namespace

struct load::objects {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::vector<std::string> tasks;     // of this round
  std::set<std::string> all_tasks;    // acknowledged
  std::set<std::string> dispatched;   // acknowledged tasks of workers
  std::vector<std::string> approvals; // of this round

  void add_task(const std::string& id) {
    std::lock_guard guard{mutex};
    tasks.push_back(id);
    all_tasks.insert(id);
  }
  std::string some_task(std::mt19937& rng) { return one_of_the_last(tasks, rng); }
  std::string some_approval(std::mt19937& rng) { return one_of_the_last(approvals, rng); }

private:
  std::string one_of_the_last(const std::vector<std::string>& all, std::mt19937& rng) {
    std::lock_guard guard{mutex};
    if (all.empty())
      return {};
    auto from = all.size() > 6 ? all.size() - 6 : 0;
    return all[from + rng() % (all.size() - from)];
  }
};

load::load(const test_node& node, std::size_t clients, unsigned seed) : load(load_setting{{&node}, clients}, seed) {}

load::load(load_setting where, unsigned seed)
  : where_(std::move(where)), dir_(where_.nodes.front()->work()), history_(dir_ + "/history.jsonl"), seed_(seed), worker_log_(dir_ + "/workers"),
    shared_(std::make_unique<objects>()) {
  for (std::size_t i = 0; i < where_.clients; ++i)
    clients_.push_back(std::make_unique<fault_client>(*where_.nodes[i % where_.nodes.size()], history_, "c" + std::to_string(i), where_.scope));
}

load::~load() = default;

std::string load::lock_path(const std::string& name) const { return where_.scope.empty() ? dir_ + "/" + name : name; }

/// One call in three comes from the operator of another host, or of the session's own, who acts as the session.
void load::speak(fault_client& me, std::mt19937& rng) const {
  const auto speaks = !where_.scope.empty() && rng() % 3 == 0;
  const auto node = rng() % where_.nodes.size();
  me.speak_through(!speaks || (silent_ >> node & 1U) != 0 ? nullptr : where_.nodes[node]);
}

/// Some are asked for, and all decide on them, each by an answer of its own.
void load::approvals(fault_client& me, std::mt19937& rng, const std::string& subject, std::chrono::milliseconds deadline) {
  const auto id = shared_->some_approval(rng);
  const auto own = "c" + std::to_string(rng() % 8);
  if (id.empty() || rng() % 3 == 0) {
    std::vector<std::string> options;
    for (int i = 0; i < 8; ++i)
      options.push_back("c" + std::to_string(i));
    const auto timeout = rng() % 2 == 0 ? 0ms : std::chrono::milliseconds{200 + rng() % 1'500};
    if (auto made = me.request_approval(subject, options, timeout, deadline); !made.empty()) {
      std::lock_guard guard{shared_->mutex};
      shared_->approvals.push_back(made);
    }
    return;
  }
  if (rng() % 6 == 0)
    return me.withdraw(deadline);
  // The node lets the operator decide, whatever it is about.
  me.speak_through(where_.nodes.front());
  me.decide(id, own, {}, deadline);
  me.speak_through(nullptr);
  me.read_approvals(1, deadline);
}

void load::work(std::size_t index) {
  auto& me = *clients_[index];
  std::mt19937 rng(seed_ + static_cast<unsigned>(1'000 * rounds_ + index));
  auto round = rounds_;
  auto script = [this](const std::string& key) { return "echo \"$SWARM_SPAWN_ID $$ " + key + " $SWARM_MCP_INSTANCE_ID\" >>" + worker_log_; };
  // Of one key the same, or it would be another request.
  auto retries = [this](const std::string& key) {
    return where_.retries_most == 0 ? 0 : static_cast<unsigned>(std::hash<std::string>{}(key) % (where_.retries_most + 1));
  };
  for (std::size_t n = 0; !shared_->stop; ++n) {
    if (where_.comes_back && me.is_told_gone() && !me.renew(settle_deadline))
      throw std::runtime_error("a client whose session has ended gets no other one");
    // Some callers have no patience: theirs are the unknown outcomes.
    auto deadline = rng() % 4 == 0 ? std::chrono::milliseconds{20 + rng() % 300} : std::chrono::milliseconds{10s};
    auto unique = std::to_string(round) + "-" + std::to_string(index) + "-" + std::to_string(n);
    // Where a scope is shared, people of other hosts may not decide.
    switch (rng() % (where_.scope.empty() ? 14 : 12)) {
      case 12:
      case 13: approvals(me, rng, "approval-" + unique, deadline); break;
      case 0:
      case 1:
      case 2:
      case 3: {
        auto path = lock_path(numbered("lock", round, rng() % locks_per_round));
        auto wait_ms = rng() % 2 == 0 ? 0 : 1'500;
        speak(me, rng);
        auto taken = me.acquire(path, wait_ms, deadline);
        speak(me, rng);
        if (taken)
          me.release(path, 10s);
        else
          me.give_up(path, 10s);
        me.speak_through(nullptr);
        break;
      }
      case 4:
      case 5:
        if (auto id = me.create_task("t" + unique, deadline); !id.empty())
          shared_->add_task(id);
        break;
      case 6:
      case 7:
        if (auto id = shared_->some_task(rng); !id.empty() && me.claim(id, deadline))
          me.complete(id, deadline);
        else if (!id.empty())
          me.complete(id, deadline); // refused, unless the claim was ours without our knowing
        break;
      case 8: me.set(numbered("key", round, rng() % keys_per_round), unique, deadline); break;
      case 9: {
        auto key = numbered("key", round, rng() % keys_per_round);
        me.read_key(key, deadline);
        me.compare_and_set(key, unique, deadline);
        break;
      }
      case 10: me.append(numbered("list", round, 0), unique, deadline); break;
      case 11: {
        auto key = numbered("job", round, rng() % 2);
        auto on = where_.workers_on.empty() ? std::string{} : where_.workers_on[rng() % where_.workers_on.size()];
        if (rng() % 4 == 0) {
          me.request_spawn(key, script("spawn/" + key), deadline, on);
        } else if (auto id = me.dispatch(key, script("dispatch/" + key), deadline, retries(key), on); !id.empty()) {
          std::lock_guard guard{shared_->mutex};
          shared_->dispatched.insert(id);
        }
        break;
      }
    }
    if (rng() % 8 == 0)
      me.repeat_last(10s);
  }
}

void load::round(const std::function<void()>& harm) {
  ++rounds_;
  shared_->stop = false;
  {
    std::lock_guard guard{shared_->mutex};
    shared_->tasks.clear();
    shared_->approvals.clear();
  }
  std::mutex mutex;
  std::exception_ptr failed;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients_.size(); ++i)
    if (!is_out(i))
      threads.emplace_back([&, i] {
        try {
          work(i);
        } catch (...) {
          std::lock_guard guard{mutex};
          failed = std::current_exception();
        }
      });
  try {
    harm();
  } catch (...) {
    std::lock_guard guard{mutex};
    failed = std::current_exception();
  }
  shared_->stop = true;
  for (std::size_t i = 0; i < clients_.size(); ++i)
    if (is_out(i))
      clients_[i]->stop_repeating();
  for (auto& t : threads)
    t.join();
  if (failed)
    std::rethrow_exception(failed);
}

void load::may_lose(std::size_t node) {
  // A node that leaves the cluster has a scope of that name for itself.
  if (!where_.comes_back) {
    out_.insert(node);
    silent_ |= 1U << node;
  }
  for (std::size_t i = node; i < clients_.size(); i += where_.nodes.size())
    clients_[i]->may_end();
}

void load::has_lost(std::size_t node) {
  for (std::size_t i = node; i < clients_.size(); i += where_.nodes.size())
    clients_[i]->has_ended();
}

std::vector<std::string> load::sessions(std::size_t node) const {
  std::vector<std::string> out;
  for (std::size_t i = node; i < clients_.size(); i += where_.nodes.size())
    out.push_back(clients_[i]->session_now());
  return out;
}

std::string load::progress(fault_client& me, std::size_t index) {
  auto name = std::to_string(rounds_) + "-" + std::to_string(index);
  for (std::size_t r = 1; r <= rounds_; ++r)
    for (std::size_t i = 0; i < locks_per_round; ++i)
      if (!me.give_up(lock_path(numbered("lock", r, i)), settle_deadline))
        return "nobody answers about the locks of round " + std::to_string(r);
  auto path = lock_path("everybody");
  if (!me.acquire(path, 20'000, settle_deadline) || !me.release(path, settle_deadline))
    return "client " + name + " does not get a lock";
  auto task = me.create_task("after-" + name, settle_deadline);
  if (task.empty() || !me.claim(task, settle_deadline) || !me.complete(task, settle_deadline))
    return "client " + name + " cannot do a task";
  me.read_approvals(approvals_read, settle_deadline);
  me.set("after-" + name, "x", settle_deadline);
  if (me.read_key("after-" + name, settle_deadline) != "x")
    return "client " + name + " cannot write a key";
  return {};
}

std::string load::settle() {
  std::vector<std::string> results(clients_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients_.size(); ++i)
    if (!is_out(i))
      threads.emplace_back([&, i] {
        try {
          results[i] = progress(*clients_[i], i);
        } catch (const std::exception& e) {
          results[i] = e.what();
        }
      });
  for (auto& t : threads)
    t.join();
  for (const auto& r : results)
    if (!r.empty())
      return r;
  auto& me = *clients_.front();
  // Every lock ever used must be free for the taking now.
  for (std::size_t r = 1; r <= rounds_; ++r) {
    for (std::size_t i = 0; i < locks_per_round; ++i) {
      auto path = lock_path(numbered("lock", r, i));
      if (!me.acquire(path, 0, settle_deadline) || !me.release(path, settle_deadline))
        return path + " is held by nobody who knows";
    }
    for (std::size_t i = 0; i < keys_per_round; ++i)
      me.read_key(numbered("key", r, i), settle_deadline);
  }
  for (const auto& id : shared_->all_tasks)
    me.read_task(id, settle_deadline);
  for (std::size_t r = 1; r <= rounds_; ++r) {
    auto key = numbered("list", r, 0);
    auto q = me.raw().query();
    q.mutable_get_kv()->set_key(key);
    auto a = me.ask(q, settle_deadline);
    if (!a)
      return "no answer about " + key;
    auto list = a->kv().value().empty() ? nlohmann::json::array() : nlohmann::json::parse(a->kv().value());
    std::vector<history::operation> sent;
    for (const auto& o : history_.operations())
      if (o.model == "append" && o.object == key)
        sent.push_back(o);
    if (auto wrong = history::check_appends(sent, list.get<std::vector<std::string>>()); !wrong.empty())
      return key + ": " + wrong;
  }
  for (const auto& id : shared_->dispatched) {
    std::optional<v1::Task> task;
    if (!eventually([&] { return (task = task_of(me.raw(), id)) && task->status() >= v1::DONE && task->status() <= v1::CANCELLED; }))
      return "the worker's task " + id + (task ? " stays " + v1::TaskStatus_Name(task->status()) : " is lost");
    if (task->status() != v1::DONE && !(where_.workers_get_lost && names_loss(task->result())))
      return "the worker's task " + id + " ended " + task->result() + events_about(me.raw(), id);
  }
  return {};
}

load_figures load::check() const {
  load_figures f;
  auto all = history_.operations();
  f.operations = all.size();
  f.unknown = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& o) { return !o.out; }));
  for (const auto& c : clients_) {
    f.answered += c->answered;
    f.repeats += c->repeats;
  }
  for (const auto& o : all)
    if (o.model == "approval" && o.out && o.out->ok) {
      f.decided += o.in.op == "decide";
      f.expired += o.in.op == "get" && o.out->text == "expired";
    }
  f.checked = history::check_all(all);
  if (!f.checked.accepted)
    f.checked.why += events_about(clients_.front()->raw(), f.checked.object);
  return f;
}

std::string check_workers(const std::string& log, const std::vector<v1::Spawn>& rows) {
  std::map<std::string, const v1::Spawn*> by_id;
  for (const auto& s : rows)
    by_id[s.id()] = &s;
  std::set<std::string> ran;
  std::set<std::string> keys;
  for (const auto& line : lines_of(file_text(log))) {
    std::istringstream words{line};
    std::string id, pid, key;
    words >> id >> pid >> key;
    if (!ran.insert(id).second)
      return "spawn " + id + " ran twice";
    if (!key.empty() && !keys.insert(key).second)
      return "two workers ran for " + key;
    auto row = by_id.find(id);
    if (row == by_id.end())
      return "a worker ran without a row: " + line;
    if (std::to_string(row->second->pid()) != pid)
      return "spawn " + id + " ran as " + pid + ", its row says " + std::to_string(row->second->pid());
  }
  for (const auto& s : rows)
    // One whose keeper was killed may have been about to run: its end is not known, which its reason says.
    if (s.status() == v1::Spawn::ENDED && s.exit_status() == 0 && s.signal() == 0 && !names_loss(s.reason()) && !ran.contains(s.id()))
      return "spawn " + s.id() + " is said to have run and did not";
  return {};
}

std::string check_attempts(const std::string& log, node_client& home) {
  struct attempt {
    std::string spawn, pid;
  };
  std::map<std::string, attempt> committed; // by session
  std::string page;
  do {
    auto q = home.query();
    q.mutable_list_events()->add_types("spawn.starting");
    q.mutable_list_events()->mutable_page()->set_token(page);
    auto a = ask_patiently(home, q);
    for (const auto& e : a.events().events()) {
      auto said = nlohmann::json::parse(e.payload());
      if (!committed.emplace(said.at("session_id"), attempt{e.subject(), std::to_string(said.at("pid").get<std::int64_t>())}).second)
        return "two processes were committed for one attempt: " + e.payload();
    }
    page = a.events().page().token();
  } while (!page.empty());
  std::set<std::string> ran;
  std::map<std::string, std::string> spawn_of_key;
  for (const auto& line : lines_of(file_text(log))) {
    std::istringstream words{line};
    std::string id, pid, key, session;
    words >> id >> pid >> key >> session;
    if (!ran.insert(session).second)
      return "an attempt ran twice: " + line;
    if (spawn_of_key.emplace(key, id).first->second != id)
      return "two workers ran for " + key;
    auto was = committed.find(session);
    if (was == committed.end() || was->second.spawn != id || was->second.pid != pid)
      return "a process ran that was not committed: " + line;
  }
  for (const auto& s : all_spawns(home))
    if (s.status() == v1::Spawn::ENDED && s.exit_status() == 0 && s.signal() == 0 && !names_loss(s.reason()) && !ran.contains(s.session_id()))
      return "spawn " + s.id() + " is said to have run and did not";
  return {};
}

} // namespace swarm::testing
