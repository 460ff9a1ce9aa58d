// Stand-ins for the world outside a node: a keeper whose children are rows of a table, processes that end when told to, and the
// table of workers. They outlive the node under test, as the real ones do.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/send.hpp>
#include <fcntl.h>

#include "actors/base/ring.hpp"
#include "actors/fabric/node.hpp"

namespace swarm::test {

/// Behaves like swarm-keeper behind a keeper_link: one child per id, held at a gate, remembered until forgotten or followed. News go to
/// the listener of the last connect(), like the link's.
class fake_keeper final : public process_port {
public:
  struct child {
    internal::StartChild request;
    child_info info;
    std::unique_ptr<ring_writer> ring;
  };

  /// For nodes with threads; every function takes it, and so does who looks at the members.
  mutable std::recursive_mutex mutex;
  keeper_listener listener; // empty: nobody hears
  bool reachable = true;
  std::string refuse_start;                       // not empty: every start fails with this text
  bool hold_starts = false;                       // starts are taken and not answered
  std::uint64_t take_at_most = ~std::uint64_t{0}; // input bytes accepted per write
  bool hold_input = false;
  std::function<void(const std::string& id, const std::string& data)> on_typed; // what the program does with its input

  // What was asked of it.
  std::map<std::pair<std::string, std::uint32_t>, int> gates_opened; // by id and attempt: 2 would be two runs of one attempt
  std::vector<std::string> aborted, forgotten, killed;
  std::vector<std::string> typed;
  std::vector<std::uint64_t> tickets_held;
  std::map<std::string, std::uint64_t> taken; // output, by id
  std::vector<std::pair<std::uint32_t, std::uint32_t>> resized;
  std::size_t connects = 0, starts = 0;

  std::map<std::string, child> children;

  const child* find(const std::string& id) const {
    std::lock_guard guard{mutex};
    auto i = children.find(id);
    return i == children.end() ? nullptr : &i->second;
  }
  bool runs(const std::string& id) const {
    std::lock_guard guard{mutex};
    auto c = find(id);
    return c && !c->info.exited && !c->info.at_gate;
  }
  std::size_t running() const {
    return static_cast<std::size_t>(std::count_if(children.begin(), children.end(), [&](const auto& c) { return runs(c.first); }));
  }

  // -- what happens to it ------------------------------------------------------------------

  /// The program ends by itself, or because somebody asked for its end.
  void exit(const std::string& id, std::int32_t status, std::int32_t signal = 0, bool on_request = false) {
    std::lock_guard guard{mutex};
    auto& c = children.at(id);
    if (c.info.exited)
      return;
    c.info.at_gate = false;
    c.info.exited = true;
    c.info.exit_status = status;
    c.info.signal = signal;
    c.info.duration_ms = 5;
    c.info.ended_on_request = on_request;
    c.info.end = c.ring->end();
    // As the link reports it: process and ring are known from the start.
    auto told = c.info;
    told.ring = nullptr;
    told.pid = 0;
    told.pid_start = 0;
    post(keeper_news::exited, told);
  }
  void print(const std::string& id, std::string_view bytes) {
    std::lock_guard guard{mutex};
    auto& c = children.at(id);
    c.ring->append(bytes);
    c.info.end = c.ring->end();
    auto told = c.info;
    told.ring = nullptr;
    post(keeper_news::output, told);
  }
  /// The connection breaks; the children go on.
  void lose() {
    std::lock_guard guard{mutex};
    connected_ = false;
    post(keeper_news::lost, {});
  }
  /// The keeper is killed, and its children with it.
  void die() {
    std::lock_guard guard{mutex};
    children.clear();
    lose();
  }
  void accept_input() {
    std::lock_guard guard{mutex};
    hold_input = false;
    for (auto t : std::exchange(tickets_held, {}))
      accept({}, t, 1, false);
  }

  // -- process_port --------------------------------------------------------------------------

  void connect(keeper_listener hears) override {
    std::lock_guard guard{mutex};
    listener = std::move(hears);
    ++connects;
    connected_ = reachable;
    if (!reachable)
      return post(keeper_news::lost, {});
    post(keeper_news::attached, {});
    for (const auto& [id, c] : children)
      post(keeper_news::child_listed, c.info);
    post(keeper_news::list_complete, {});
  }
  void start(const internal::StartChild& s) override {
    std::lock_guard guard{mutex};
    ++starts;
    if (!connected_)
      return failed(s, "the keeper cannot be reached");
    if (!refuse_start.empty())
      return failed(s, refuse_start);
    if (auto i = children.find(s.id()); i != children.end()) {
      if (i->second.info.attempt > s.attempt())
        return failed(s, "a later attempt of this spawn has begun already");
      if (i->second.info.attempt < s.attempt()) {
        exit(s.id(), 0, 15);
        children.erase(i);
        return start(s);
      }
      post(keeper_news::at_gate, i->second.info);
      if (i->second.info.exited)
        post(keeper_news::exited, i->second.info);
      return;
    }
    auto& c = children[s.id()];
    c.request = s;
    c.ring = std::make_unique<ring_writer>(limits::ring_bytes_min);
    c.info.exists = true;
    c.info.id = s.id();
    c.info.attempt = s.attempt();
    c.info.pid = next_pid_++;
    c.info.pid_start = static_cast<std::uint64_t>(c.info.pid) * 7;
    c.info.at_gate = true;
    c.info.ring = std::make_shared<const ring_reader>(unique_fd{fcntl(c.ring->fd(), F_DUPFD_CLOEXEC, 0)});
    if (!hold_starts)
      post(keeper_news::at_gate, c.info);
  }
  void output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end) override {
    std::lock_guard guard{mutex};
    if (auto i = children.find(id); i != children.end() && i->second.info.attempt == attempt)
      taken[id] = end;
  }
  void open_gate(const std::string& id) override {
    std::lock_guard guard{mutex};
    auto i = connected_ ? children.find(id) : children.end();
    if (i == children.end() || !i->second.info.at_gate || i->second.info.exited)
      return;
    i->second.info.at_gate = false;
    ++gates_opened[{id, i->second.info.attempt}];
  }
  void abort(const std::string& id) override {
    std::lock_guard guard{mutex};
    aborted.push_back(id);
    if (auto i = children.find(id); connected_ && i != children.end() && i->second.info.at_gate)
      exit(id, 0, 9);
  }
  void write(const std::string& id, std::uint64_t ticket, std::string data, const std::string& request) override {
    std::lock_guard guard{mutex};
    auto bytes = std::min<std::uint64_t>(data.size(), take_at_most);
    if (bytes > 0)
      typed.push_back(data.substr(0, bytes));
    if (auto c = children.find(id); c != children.end() && bytes > 0 && !request.empty())
      c->second.info.inputs.emplace_back(request, bytes);
    if (hold_input)
      tickets_held.push_back(ticket);
    else
      accept(id, ticket, bytes, !runs(id));
    last_typed_in_ = id;
    if (bytes > 0 && on_typed && runs(id))
      on_typed(id, data.substr(0, bytes));
  }
  void resize(const std::string&, std::uint32_t columns, std::uint32_t rows) override {
    std::lock_guard guard{mutex};
    resized.emplace_back(columns, rows);
  }
  bool kill(const std::string& id, std::int32_t signal, std::uint32_t) override {
    std::lock_guard guard{mutex};
    killed.push_back(id);
    if (connected_ && children.contains(id))
      exit(id, 0, signal == 0 ? 15 : signal, signal == 0 || signal == 9);
    return connected_;
  }
  void forget(const std::string& id) override {
    std::lock_guard guard{mutex};
    forgotten.push_back(id);
    if (auto i = children.find(id); connected_ && i != children.end() && i->second.info.exited)
      children.erase(i);
  }

private:
  void post(keeper_news::kind_t kind, const child_info& about) {
    auto n = std::make_shared<keeper_news>();
    n->kind = kind;
    n->child = about;
    send(n);
  }
  void failed(const internal::StartChild& s, const std::string& why) {
    child_info c;
    c.id = s.id();
    c.attempt = s.attempt();
    c.error = why;
    post(keeper_news::start_failed, c);
  }
  void accept(const std::string& id, std::uint64_t ticket, std::uint64_t bytes, bool closed) {
    auto n = std::make_shared<keeper_news>();
    n->kind = keeper_news::input_accepted;
    n->child.id = id.empty() ? last_typed_in_ : id;
    n->ticket = ticket;
    n->bytes = bytes;
    n->closed = closed;
    send(n);
  }
  void send(const std::shared_ptr<keeper_news>& n) {
    if (listener)
      listener(n);
  }

  bool connected_ = false;
  std::int64_t next_pid_ = 50'000;
  std::string last_typed_in_;
};

/// Processes that are not children: alive until end() says otherwise.
class fake_process_watch final : public process_watch_port {
public:
  std::uint64_t watch(std::int64_t pid, std::uint64_t, std::function<void()> gone) override {
    std::lock_guard guard{mutex_};
    if (dead_.contains(pid)) {
      gone();
      return 0;
    }
    watched_.emplace(next_, std::pair{pid, std::move(gone)});
    return next_++;
  }
  void forget(std::uint64_t id) override {
    std::lock_guard guard{mutex_};
    watched_.erase(id);
  }

  void end(std::int64_t pid) {
    std::lock_guard guard{mutex_};
    dead_[pid] = true;
    auto all = std::exchange(watched_, {});
    for (auto& [id, w] : all)
      if (w.first == pid)
        w.second();
      else
        watched_.emplace(id, std::move(w));
  }
  std::size_t watched() const { return watched_.size(); }

private:
  std::recursive_mutex mutex_;
  std::map<std::uint64_t, std::pair<std::int64_t, std::function<void()>>> watched_;
  std::map<std::int64_t, bool> dead_;
  std::uint64_t next_ = 1;
};

inline v1::Principal session_named(std::string id, std::initializer_list<const char*> grants = {}) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(std::move(id));
  for (const auto* g : grants)
    p.add_grants(g);
  return p;
}

class fake_worker_table final : public worker_table {
public:
  std::map<std::int64_t, std::string> sessions;
  void put(std::int64_t pid, v1::Principal who, std::string, domain::grant_end_list) override { sessions[pid] = who.id(); }
  void erase(std::int64_t pid) override { sessions.erase(pid); }
};

} // namespace swarm::test
