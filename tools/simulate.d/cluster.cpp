#include "tools/simulate.d/cluster.hpp"

#include "actors/domain/decide.hpp"
#include "actors/fabric/cluster/link.hpp"

namespace swarm::simulate {

namespace {

std::shared_ptr<execution> by(v1::Principal::Kind kind, const std::string& id, const std::string& node, const std::string& scope) {
  auto e = std::make_shared<execution>();
  e->command.set_scope(scope);
  e->command.mutable_principal()->set_kind(kind);
  e->command.mutable_principal()->set_id(id);
  e->command.mutable_principal()->set_node(node);
  return e;
}

constexpr std::uint64_t key_of(std::size_t node, std::uint64_t id) { return std::uint64_t{node} << 40 | id; }

} // namespace

cluster::cluster(const settings& s) : setup(s), nodes_(s.nodes) {
  store = std::make_unique<home_store>(time, setup, [this](const commit_ptr& c) { tell_members(c); });
  links = std::make_unique<star>(time, setup,
                                 star::events{
                                   .message =
                                     [this](side to, std::size_t node, const v1::LinkMessage& m) {
                                       if (to == home)
                                         at_home(node, m);
                                       else
                                         at_member(node, m);
                                     },
                                   .up =
                                     [this](side s_up, std::size_t node, bool resumed) {
                                       if (s_up == home)
                                         return;
                                       for (auto& [id, q] : nodes_[node].asked)
                                         if (!q.put)
                                           q.put = !links->send(member, node, q.message);
                                       if (on_member_up)
                                         on_member_up(node, resumed);
                                     },
                                   .begun_anew =
                                     [this](side at, std::size_t node) {
                                       if (at == home) {
                                         ++nodes_[node].epoch;
                                         return nodes_[node].jobs.clear();
                                       }
                                       // What was not answered is asked again, under the same ids, when the link is up.
                                       for (auto& [id, q] : nodes_[node].asked)
                                         q.put = false;
                                     },
                                   .gone =
                                     [this](std::size_t node) {
                                       if (on_gone)
                                         on_gone(node);
                                     },
                                 });
  for (std::size_t n = 0; n < s.nodes; ++n)
    ids_.push_back(star::node_id(n));
  end_overdue();
}

void cluster::forget_totals() {
  totals_ = {};
  choosing_ns = links->home_ns = 0;
  links->forget_totals();
  store->forget_totals();
}

std::size_t cluster::open_questions() const {
  std::size_t n = 0;
  for (const auto& node : nodes_)
    n += node.asked.size();
  return n;
}

// -- before the time begins ------------------------------------------------------------------

void cluster::prepare(const std::function<void(std::vector<execution_ptr>&)>& make, const std::function<void(std::size_t, const v1::Reply&)>& made) {
  std::vector<execution_ptr> all;
  make(all);
  auto replies = store->prepare(all);
  for (std::size_t i = 0; i < replies.size(); ++i)
    made(i, *replies[i]);
}

void cluster::register_sessions(v1::Session::Presence presence) {
  agents.resize(setup.sessions);
  prepare(
    [&](auto& all) {
      for (std::size_t i = 0; i < agents.size(); ++i) {
        auto& a = agents[i];
        a.node = i % setup.nodes;
        a.scope = scope(i / setup.scope_sessions);
        a.client = "agent-" + std::to_string(i);
        auto e = by(v1::Principal::OPERATOR, "", star::node_id(a.node), a.scope);
        auto& r = *e->command.mutable_register_session();
        r.set_directory("/srv/work");
        r.set_label("role:implementer name:agent-" + std::to_string(i));
        r.set_node_id(star::node_id(a.node));
        if (presence == v1::Session::PROCESS) {
          r.set_pid(static_cast<std::int64_t>(1'000 + i));
          r.set_pid_start(i + 1);
        }
        all.push_back(e);
      }
    },
    [&](std::size_t i, const v1::Reply& r) { agents[i].id = r.session().session().id(); });
}

void cluster::give_locks_and_tasks() {
  auto as = [&](const agent& a) { return by(v1::Principal::SESSION, a.id, star::node_id(a.node), a.scope); };
  prepare(
    [&](auto& all) {
      for (std::size_t i = 0; i < agents.size(); ++i) {
        auto lock = as(agents[i]);
        lock->command.mutable_acquire_lock()->set_path("/srv/work/file-" + std::to_string(i));
        all.push_back(lock);
      }
    },
    [](std::size_t, const v1::Reply&) {});
  std::vector<std::string> tasks(agents.size() * setup.claims_percent / 100);
  auto of = [&](std::size_t i) -> const agent& { return agents[i * agents.size() / tasks.size()]; };
  prepare(
    [&](auto& all) {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        auto task = as(of(i));
        auto& spec = *task->command.mutable_create_tasks()->add_tasks();
        spec.set_type("implement");
        spec.set_title("Change file " + std::to_string(i));
        all.push_back(task);
      }
    },
    [&](std::size_t i, const v1::Reply& r) { tasks[i] = r.tasks_created().tasks(0).task().id(); });
  prepare(
    [&](auto& all) {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        auto claim = as(of(i));
        claim->command.mutable_claim_task()->set_task_id(tasks[i]);
        all.push_back(claim);
      }
    },
    [](std::size_t, const v1::Reply&) {});
}

void cluster::start_workers() {
  auto count = setup.workers_per_node * setup.nodes;
  workers.resize(count);
  auto scope_of = [&](std::size_t i) { return scope(i / setup.nodes % scopes()); };
  // Each node has an operator of its own, so that quotas of one are none of another.
  prepare(
    [&](auto& all) {
      for (std::size_t i = 0; i < count; ++i) {
        workers[i].second = i % setup.nodes;
        auto e = by(v1::Principal::OPERATOR, "of-" + std::to_string(workers[i].second), star::node_id(workers[i].second), scope_of(i));
        auto& r = *e->command.mutable_request_spawn();
        r.set_role("implementer");
        r.set_key("worker-" + std::to_string(i));
        r.set_harness("exec");
        r.add_argv("make");
        r.set_directory("/srv/work");
        r.set_node_id(star::node_id(workers[i].second));
        all.push_back(e);
      }
    },
    [&](std::size_t i, const v1::Reply& r) { workers[i].first = r.spawn().spawn().id(); });
  for (auto running : {false, true})
    prepare(
      [&](auto& all) {
        for (std::size_t i = 0; i < count; ++i) {
          const auto& id = star::node_id(workers[i].second);
          auto e = by(v1::Principal::NODE, id, id, scope_of(i));
          if (running) {
            e->command.mutable_spawn_running()->set_spawn_id(workers[i].first);
            e->command.mutable_spawn_running()->set_attempt(1);
          } else {
            auto& s = *e->command.mutable_spawn_starting();
            s.set_spawn_id(workers[i].first);
            s.set_attempt(1);
            s.set_pid(static_cast<std::int64_t>(1'000'000 + i));
            s.set_pid_start(i + 1);
          }
          all.push_back(e);
        }
      },
      [](std::size_t, const v1::Reply&) {});
}

void cluster::connect() {
  for (std::size_t n = 0; n < setup.nodes; ++n)
    time.in(static_cast<micros>(n) * 100, [this, n] { links->dial(n); });
  time.run_until(time.now() + 2 * one_second);
  forget_totals();
}

// -- at a member -----------------------------------------------------------------------------

void cluster::ask(std::size_t node, v1::LinkRequest request, answered done, micros patience) {
  auto& n = nodes_[node];
  auto id = n.next_id++;
  request.set_id(id);
  request.set_timeout_ms(patience / one_ms);
  auto m = std::make_shared<v1::LinkMessage>();
  *m->mutable_request() = std::move(request);
  ++totals_.asked;
  auto& q = n.asked.emplace(id, question{m, std::move(done)}).first->second;
  overdue_.set(key_of(node, id), time.boot_ms() + patience / one_ms);
  if (!links->up(member, node))
    return; // it is put when the link is back
  q.put = !links->send(member, node, m);
  if (q.put)
    return;
  ++totals_.refused;
  overdue_.cancel(key_of(node, id));
  n.asked.extract(id).mapped().done(nullptr);
}

void cluster::command(agent& a, const std::function<void(v1::Command&)>& fill, answered done) {
  v1::LinkRequest r;
  r.mutable_principal()->set_kind(v1::Principal::SESSION);
  r.mutable_principal()->set_id(a.id);
  auto& e = *r.mutable_execute();
  e.mutable_id()->set_client(a.client);
  e.mutable_id()->set_seq(++a.seq);
  e.mutable_id()->set_acked_below(a.seq);
  e.mutable_command()->set_scope(a.scope);
  *e.mutable_command()->mutable_principal() = r.principal();
  fill(*e.mutable_command());
  ask(a.node, std::move(r), std::move(done));
}

void cluster::at_member(std::size_t node, const v1::LinkMessage& m) {
  if (!m.has_response())
    return; // a batch: what the node does with it is its own
  auto q = nodes_[node].asked.extract(m.response().id());
  if (q.empty())
    return;
  overdue_.cancel(key_of(node, m.response().id()));
  ++totals_.answered;
  totals_.errors += m.response().has_error() ? 1 : 0;
  q.mapped().done(&m.response());
}

void cluster::end_overdue() {
  while (auto key = overdue_.take_due(time.boot_ms())) {
    auto q = nodes_[*key >> 40].asked.extract(*key & ((std::uint64_t{1} << 40) - 1));
    if (q.empty())
      continue;
    ++totals_.overdue;
    q.mapped().done(nullptr);
  }
  time.in(50 * one_ms, [this] { end_overdue(); });
}

// -- at the home -----------------------------------------------------------------------------

void cluster::answer(std::size_t node, std::uint64_t epoch, std::uint64_t id, const std::function<void(v1::LinkResponse&)>& fill) {
  auto& n = nodes_[node];
  if (epoch != n.epoch || n.jobs.erase(id) == 0)
    return;
  auto m = std::make_shared<v1::LinkMessage>();
  {
    charged cost{links->home_ns};
    m->mutable_response()->set_id(id);
    fill(*m->mutable_response());
  }
  if (links->send(home, node, m))
    links->begin_anew(node);
}

void cluster::at_home(std::size_t node, const v1::LinkMessage& m) {
  const auto& r = m.request();
  auto& n = nodes_[node];
  auto full = n.jobs.size() >= limits::link_requests_max();
  if (!n.jobs.insert(r.id()).second)
    return;
  if (full)
    return answer(node, n.epoch, r.id(), [](auto& out) { out.mutable_error()->set_code(static_cast<std::uint32_t>(errc::overloaded)); });
  if (r.has_execute())
    execute(node, r);
  else
    query(node, r);
}

void cluster::execute(std::size_t node, const v1::LinkRequest& r) {
  auto what = std::make_shared<execution>();
  {
    charged cost{links->home_ns};
    what->id = r.execute().id();
    what->command = r.execute().command();
    what->command.mutable_principal()->set_node(star::node_id(node));
    what->digest = domain::digest_of(what->command);
    what->valid = !domain::validate(what->command);
  }
  auto epoch = nodes_[node].epoch;
  auto taken = store->submit(what, [this, node, epoch, id = r.id()](const outcome& o) {
    answer(node, epoch, id, [&](v1::LinkResponse& out) { *out.mutable_reply() = *o.reply; });
  });
  if (!taken)
    answer(node, epoch, r.id(), [](auto& out) { out.mutable_error()->set_code(static_cast<std::uint32_t>(errc::overloaded)); });
}

void cluster::query(std::size_t node, const v1::LinkRequest& r) {
  // Whose question it is makes no difference to what is asked here.
  store->ask(std::make_shared<const v1::Query>(r.query()), [this, node, epoch = nodes_[node].epoch, id = r.id()](const answer_ptr& a) {
    answer(node, epoch, id, [&](v1::LinkResponse& out) { *out.mutable_answer_to_query() = *a; });
  });
}

void cluster::tell_members(const commit_ptr& c) {
  for (const auto& b : c->batches) {
    if (on_batch)
      on_batch(b);
    link_message shared;
    std::vector<std::size_t> told;
    {
      charged cost{choosing_ns};
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (!concerns(b, ids_[n]))
          continue;
        told.push_back(n);
        // Each link makes a copy of its own; here they share one, for this machine's memory's sake.
        auto m = std::make_shared<v1::LinkMessage>();
        *m->mutable_batch() = b;
        if (!shared)
          shared = std::move(m);
      }
    }
    totals_.told += told.size();
    for (auto n : told)
      if (links->send(home, n, shared))
        links->begin_anew(n);
  }
}

} // namespace swarm::simulate
