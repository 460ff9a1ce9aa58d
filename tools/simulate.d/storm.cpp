#include <fmt/format.h>
#include <numeric>
#include <random>
#include <stdexcept>

#include "tools/simulate.d/host_loss.hpp"
#include "tools/simulate.d/reloading.hpp"
#include "tools/simulate.d/scenarios.hpp"

namespace swarm::simulate {

namespace {

constexpr micros patience = 300 * one_second;

/// Agents that go on with their work meanwhile: how long they wait for a key to be set.
class others {
public:
  others(cluster& c, std::uint64_t seed, std::vector<bool> spared) : c_(c), dice_(seed) {
    for (std::size_t i = 0; i < c_.agents.size(); ++i)
      if (spared[c_.agents[i].node])
        agents_.push_back(i);
    if (!agents_.empty())
      go_on();
  }
  std::vector<std::int64_t> took;
  std::uint64_t failed = 0;
  bool stop = false;

private:
  void go_on() {
    if (stop)
      return;
    auto& a = c_.agents[agents_[dice_() % agents_.size()]];
    c_.command(
      a,
      [](v1::Command& cmd) {
        cmd.mutable_set_kv()->set_key("note");
        cmd.mutable_set_kv()->set_value("still here");
      },
      [this, since = c_.time.now()](const v1::LinkResponse* r) {
        if (!r || !r->has_reply())
          ++failed;
        else
          took.push_back(c_.time.now() - since);
      });
    c_.time.in(static_cast<micros>(one_second / c_.setup.commands_per_second), [this] { go_on(); });
  }

  cluster& c_;
  std::mt19937_64 dice_;
  std::vector<std::size_t> agents_;
};

void add_waits(figures& out, const char* when, others& o) {
  out.measured(fmt::format("others wait {}, half of them at most", when), millis(quantile(o.took, 0.5)), "ms");
  out.measured(fmt::format("others wait {}, 99 of 100 at most", when), millis(quantile(o.took, 0.99)), "ms");
  out.measured(fmt::format("others wait {}, the longest", when), millis(quantile(o.took, 1)), "ms");
  out.measured(fmt::format("others {} without an answer in 30 s, or refused", when), static_cast<double>(o.failed), "");
  o.took.clear();
  o.failed = 0;
}

void add_reading(figures& out, const cluster& c, const reloading& r, std::size_t nodes, micros since, bool broken_off) {
  auto net = c.links->totals();
  auto store = c.store->so_far();
  out.add("dials", static_cast<double>(net.dials), "");
  out.measured("nodes that have read what they hold", static_cast<double>(r.done()), fmt::format("of {}", nodes));
  out.measured(broken_off ? "after (broken off)" : "after", seconds(c.time.now() - since), "s");
  out.measured("rows that were brought to members", static_cast<double>(r.rows), "");
  out.measured("bytes from the home", static_cast<double>(net.bytes[home]), "");
  out.measured("lists begun again for want of an answer within 30 s", static_cast<double>(r.begun_again), "");
  out.measured("readers' time that it took", seconds(store.readers_busy), "s");
  out.measured("longest wait of a question for a reader", seconds(store.longest_read_wait), "s");
  out.measured("links at the home (protocol and encoding)", static_cast<double>(c.links->home_ns) / 1e9, "s of a core");
  out.measured("most bytes that waited on all links", static_cast<double>(net.waiting_bytes_together), "");
  out.measured("links that started over at the home", static_cast<double>(net.begun_anew), "");
}

} // namespace

void host_loss(const settings& s, double share, figures& out) {
  scratch folder{s};
  cluster c{folder.made};
  c.register_sessions(v1::Session::PROCESS);
  c.give_locks_and_tasks();
  c.start_workers();
  c.connect();

  std::vector<std::size_t> order(s.nodes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 dice{s.seed};
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[dice() % i]);
  order.resize(std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(s.nodes))));
  std::vector<bool> spared(s.nodes, true);
  for (auto node : order)
    spared[node] = false;

  effort budget{s};
  others probes{c, s.seed, spared};
  c.time.run_until(c.time.now() + s.length);
  out.begin(fmt::format("host loss: {} of {} nodes with {} sessions, {} % with claims", order.size(), s.nodes, s.sessions, s.claims_percent));
  add_waits(out, "before", probes);

  host_loss_watch watch{c};
  c.forget_totals();
  auto vanished = c.time.now();
  for (auto node : order) {
    watch.lose(node);
    c.links->vanish(node);
  }
  auto enough = [&] { return budget.spent() || watch.quiet(); };
  c.time.run_until(vanished + patience, enough);
  auto broken_off = !watch.quiet();
  if (watch.first_gone == 0)
    throw std::logic_error("nobody has noticed that nodes are gone");
  auto net = c.links->totals();
  auto store = c.store->so_far();
  auto lasted = c.time.now() - watch.first_gone;
  out.add("sessions lost, with a lock each", static_cast<double>(watch.sessions_lost()), "");
  out.add("workers lost", static_cast<double>(watch.workers_lost), "");
  out.add("from the loss until it counts as one (silence and host_lease)", seconds(watch.first_gone - vanished), "s");
  out.measured("rows read to find them", static_cast<double>(store.rows_read), "");
  out.measured("readers' time that it took", seconds(store.readers_busy), "s");
  out.measured("commands to end them", static_cast<double>(watch.commands), "");
  out.measured("of those, refused because the writer's line was full", static_cast<double>(watch.not_taken), "");
  out.measured("longest line before the writer", static_cast<double>(store.line), "commands");
  out.measured("commits", static_cast<double>(store.syncs), "");
  out.measured("the writer's time that it took", seconds(store.writer_busy), "s");
  out.measured("from the first that counts as gone to the last end", seconds(watch.last_end - watch.first_gone), "s");
  if (broken_off)
    out.measured("broken off after", seconds(lasted), "s");
  out.measured("sessions ended", static_cast<double>(watch.sessions_ended), "");
  out.measured("workers ended", static_cast<double>(watch.workers_ended), "");
  out.add("ended twice", static_cast<double>(watch.ended_twice), "");
  out.add("ended although their node is there", static_cast<double>(watch.ended_by_mistake), "sessions");
  out.measured("messages to other sessions about it", static_cast<double>(watch.mail), "");
  out.measured("batches to other nodes", static_cast<double>(c.so_far().told), "");
  out.measured("bytes from the home", static_cast<double>(net.bytes[home]), "");
  out.measured("links at the home, with choosing and copying", static_cast<double>(c.links->home_ns + c.choosing_ns) / 1e9, "s of a core");
  out.measured("most messages that waited on a link", static_cast<double>(net.waiting_messages), "");
  out.measured("most bytes that waited on all links", static_cast<double>(net.waiting_bytes_together), "");
  out.measured("links that started over", static_cast<double>(net.begun_anew), "");
  c.time.run_until(c.time.now() + 5 * one_second, [&] { return budget.spent(); }); // until those who waited behind the last have their answers
  add_waits(out, "meanwhile", probes);
  if (broken_off)
    return;

  // -- they come back -----------------------------------------------------------------------
  reloading reads{c};
  c.forget_totals();
  c.on_member_up = [&](std::size_t node, bool resumed) {
    if (!resumed)
      reads.start(node);
  };
  auto back = c.time.now();
  for (auto node : order)
    c.time.in(static_cast<micros>(dice() % (5 * one_second)), [&c, node] { c.links->come_back(node); });
  c.time.run_until(back + patience, [&] { return budget.spent() || reads.done() == order.size(); });
  out.begin(fmt::format("they come back: {} of {} nodes with {} sessions", order.size(), s.nodes, s.sessions));
  add_reading(out, c, reads, order.size(), back, reads.done() != order.size());
  add_waits(out, "meanwhile", probes);
}

void claims_lost(const settings& base, figures& out) {
  auto s = base;
  s.nodes = std::min<std::size_t>(20, base.nodes);
  s.workers_per_node = 0;
  s.claims_percent = 100;
  s.scope_sessions = limits::scope_sessions_max();
  for (s.sessions = 100; s.sessions <= base.sessions; s.sessions *= 2) {
    host_loss(s, 0.1, out);
    if (out.value("host loss", "from the first that counts as gone to the last end") > 2)
      break;
  }
}

void rejoin(const settings& s, figures& out) {
  scratch folder{s};
  cluster c{folder.made};
  c.register_sessions(v1::Session::PROCESS);
  c.start_workers();
  c.connect();
  reloading reads{c};
  micros last_up = 0;
  c.on_member_up = [&](std::size_t node, bool resumed) {
    last_up = c.time.now();
    if (!resumed)
      reads.start(node);
  };
  constexpr auto away = 5 * one_second;
  c.links->restart_home(away);
  auto back = c.time.now() + away;
  effort budget{s};
  c.time.run_until(back + patience, [&] { return budget.spent() || reads.done() == s.nodes; });
  out.begin(fmt::format("rejoin: the home was away for 5 s, {} nodes with {} sessions", s.nodes, s.sessions));
  out.measured("until the last link is up again", seconds(last_up - back), "s");
  add_reading(out, c, reads, s.nodes, back, reads.done() != s.nodes);
}

} // namespace swarm::simulate
