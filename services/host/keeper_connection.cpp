#include "services/host/keeper_connection.hpp"

#include <utility>

#include <unistd.h>

#include "actors/base/log.hpp"
#include "actors/base/restrictions.hpp"
#include "actors/base/text.hpp"

namespace swarm {

keeper_link::keeper_link(keeper_client_options options, bool any_restrictions)
  : options_(std::move(options)), any_restrictions_(any_restrictions), connecting_([this] { run(); }) {
  options_.takes_output = true;
  options_.objection = [this](const keeper::pinned_process& who) { return objection(who); };
}

keeper_link::~keeper_link() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  asked_.notify_one();
  connecting_.join();
  std::shared_ptr<keeper_client> last;
  {
    std::lock_guard guard{mutex_};
    last = std::exchange(client_, nullptr);
  }
  last = nullptr; // ends its thread while there is still a listener to tell
}

std::string keeper_link::objection(const keeper::pinned_process& who) {
  const auto theirs = restrictions_of(who.pid), ours = restrictions_of(getpid());
  std::string why;
  if (!any_restrictions_ && theirs && ours)
    why = difference_of(*theirs, *ours);
  if (!why.empty())
    why = concat({"the keeper that runs (pid ", who.pid, ") has other restrictions than this node, and so have its programs: ", why,
                  ". They go on until: swarmctl down. To take it over as it is: swarmctl up --take-keeper"});
  std::lock_guard guard{mutex_};
  seen_ = who;
  refused_ = why;
  return why;
}

void keeper_link::look() {
  auto found = keeper::running_keeper(options_.dir);
  std::lock_guard guard{mutex_};
  if (found)
    seen_ = *found;
}

std::int64_t keeper_link::running_keeper() const {
  keeper::pinned_process who;
  {
    std::lock_guard guard{mutex_};
    who = seen_;
  }
  return keeper::is_alive(who) ? who.pid : 0;
}

std::string keeper_link::refused() const {
  if (running_keeper() == 0)
    return {};
  std::lock_guard guard{mutex_};
  return refused_;
}

std::shared_ptr<keeper_client> keeper_link::client() const {
  std::lock_guard guard{mutex_};
  return client_;
}

void keeper_link::tell(keeper_news news) {
  {
    std::lock_guard guard{mutex_};
    if (connecting_now_)
      return held_.push_back(std::move(news));
  }
  post(std::move(news));
}

void keeper_link::post(keeper_news news) {
  keeper_listener listener;
  {
    std::lock_guard guard{mutex_};
    listener = listener_;
  }
  if (listener)
    listener(std::make_shared<const keeper_news>(std::move(news)));
}

void keeper_link::connect(keeper_listener listener) {
  {
    std::lock_guard guard{mutex_};
    wanted_ = std::move(listener);
  }
  asked_.notify_one();
}

/// Connecting waits for a socket and may start a program: not on an actor's thread.
void keeper_link::run() {
  for (;;) {
    keeper_listener listener;
    {
      std::unique_lock lock{mutex_};
      asked_.wait(lock, [this] { return stopping_ || wanted_; });
      if (stopping_)
        return;
      listener = std::exchange(wanted_, nullptr);
      connecting_now_ = true;
    }
    connect_now(std::move(listener));
  }
}

void keeper_link::connect_now(keeper_listener listener) {
  std::shared_ptr<keeper_client> old;
  {
    std::lock_guard guard{mutex_};
    old = std::exchange(client_, nullptr);
  }
  // Ends the old connection's thread, so that from here on everything told is of the new one.
  old = nullptr;
  {
    std::lock_guard guard{mutex_};
    listener_ = std::move(listener);
    held_.clear();
  }
  std::shared_ptr<keeper_client> fresh;
  try {
    fresh = std::make_shared<keeper_client>(options_, *this);
  } catch (const std::exception& e) {
    log::error({"the keeper cannot be reached: ", e.what()});
  }
  // The listener may use the client at once, so they are held until it is in its place.
  for (;;) {
    std::vector<keeper_news> news;
    {
      std::lock_guard guard{mutex_};
      client_ = fresh;
      news = std::exchange(held_, {});
      if (news.empty() || !fresh) {
        connecting_now_ = false;
        break;
      }
    }
    for (auto& n : news)
      post(std::move(n));
  }
  settled_.notify_all();
  if (!fresh)
    post({});
}

void keeper_link::start(const internal::StartChild& s) {
  auto c = client();
  // Without a connection the news that it is lost are on their way; the caller asks again when it is back.
  if (!c || !c->connected() || c->start(s))
    return;
  if (c->connected()) {
    keeper_news failed;
    failed.kind = keeper_news::start_failed;
    failed.child.id = s.id();
    failed.child.attempt = s.attempt();
    failed.child.error = "the keeper does not take it: too large, or too much is waiting for it";
    tell(std::move(failed));
  }
}

void keeper_link::open_gate(const std::string& id) {
  if (auto c = client())
    c->open_gate(id);
}

void keeper_link::abort(const std::string& id) {
  if (auto c = client())
    c->abort(id);
}

void keeper_link::write(const std::string& id, std::uint64_t ticket, std::string data, const std::string& request) {
  auto c = client();
  if (c && c->write(id, ticket, data, request))
    return;
  keeper_news refused;
  refused.kind = keeper_news::input_accepted;
  refused.child.id = id;
  refused.ticket = ticket;
  tell(std::move(refused));
}

void keeper_link::resize(const std::string& id, std::uint32_t columns, std::uint32_t rows) {
  if (auto c = client())
    c->resize(id, columns, rows);
}

bool keeper_link::kill(const std::string& id, std::int32_t signal, std::uint32_t grace_ms) {
  auto c = client();
  return c && c->kill(id, signal, std::chrono::milliseconds{grace_ms});
}

void keeper_link::output_taken(const std::string& id, std::uint32_t attempt, std::uint64_t end) {
  if (auto c = client())
    c->output_taken(id, attempt, end);
}

void keeper_link::forget(const std::string& id) {
  if (auto c = client())
    c->forget(id);
}

void keeper_link::stop_connecting() {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  asked_.notify_one();
  settled_.wait(lock, [this] { return !connecting_now_; });
}

void keeper_link::quit_keeper() {
  if (auto c = client())
    c->quit();
}

void keeper_link::welcome(std::int64_t keeper_pid, std::vector<keeper_child> children) {
  keeper_pid_ = keeper_pid;
  keeper_news attached;
  attached.kind = keeper_news::attached;
  attached.keeper_pid = keeper_pid;
  tell(std::move(attached));
  for (auto& c : children) {
    keeper_news listed;
    listed.kind = keeper_news::child_listed;
    auto& i = listed.child;
    i.exists = true;
    i.id = c.id;
    i.attempt = c.attempt;
    i.pid = c.pid;
    i.pid_start = c.pid_start;
    i.at_gate = c.at_gate;
    i.exited = c.exited;
    i.exit_status = c.exit_status;
    i.signal = c.signal;
    i.duration_ms = c.duration_ms;
    i.end = c.end;
    i.ended_on_request = c.ended_on_request;
    i.ring = c.ring;
    i.inputs = std::move(c.inputs);
    tell(std::move(listed));
  }
  keeper_news complete;
  complete.kind = keeper_news::list_complete;
  tell(std::move(complete));
}

void keeper_link::at_gate(const std::string& id, std::uint32_t attempt, std::int64_t pid, std::uint64_t pid_start,
                          std::shared_ptr<const ring_reader> ring) {
  keeper_news n;
  n.kind = keeper_news::at_gate;
  n.child.id = id;
  n.child.attempt = attempt;
  n.child.pid = pid;
  n.child.pid_start = pid_start;
  n.child.ring = std::move(ring);
  tell(std::move(n));
}

void keeper_link::start_failed(const std::string& id, std::uint32_t attempt, const std::string& text) {
  keeper_news n;
  n.kind = keeper_news::start_failed;
  n.child.id = id;
  n.child.attempt = attempt;
  n.child.error = text;
  tell(std::move(n));
}

void keeper_link::output_advanced(const std::string& id, std::uint64_t end) {
  keeper_news n;
  n.kind = keeper_news::output;
  n.child.id = id;
  n.child.end = end;
  tell(std::move(n));
}

void keeper_link::exited(const keeper_exit& e) {
  keeper_news n;
  n.kind = keeper_news::exited;
  n.child.id = e.id;
  n.child.attempt = e.attempt;
  n.child.exit_status = e.exit_status;
  n.child.signal = e.signal;
  n.child.duration_ms = e.duration_ms;
  n.child.end = e.end;
  n.child.ended_on_request = e.ended_on_request;
  tell(std::move(n));
}

void keeper_link::input_accepted(const std::string& id, std::uint64_t ticket, std::uint64_t bytes, bool closed) {
  keeper_news n;
  n.kind = keeper_news::input_accepted;
  n.child.id = id;
  n.ticket = ticket;
  n.bytes = bytes;
  n.closed = closed;
  tell(std::move(n));
}

void keeper_link::disconnected(const std::string& reason) {
  log::warn({"the keeper's connection is gone: ", reason});
  keeper_pid_ = 0;
  tell({});
}

} // namespace swarm
