#include <fmt/format.h>
#include <random>

#include "tools/simulate.d/scenarios.hpp"

namespace swarm::simulate {

namespace {

/// What a commit brings that concerns so many nodes: their sessions' rows, or the end of one, which every node hears of.
v1::Batch batch_for(const cluster& c, std::size_t nodes, std::mt19937_64& dice) {
  v1::Batch b;
  b.set_scope(c.scope(0));
  auto& e = *b.add_events();
  e.set_scope(b.scope());
  e.set_type("instance.registered");
  e.set_subject(star::node_id(dice() % 1'000'000));
  e.set_payload(std::string(200, 'x'));
  if (nodes == c.links->nodes()) {
    b.add_patches()->mutable_erased()->set_table(v1::Erased::SESSIONS);
    b.mutable_patches(0)->mutable_erased()->set_key(e.subject());
    return b;
  }
  auto first = dice() % c.links->nodes();
  for (std::size_t i = 0; i < nodes; ++i) {
    auto& row = *b.add_patches()->mutable_session();
    row.set_id(star::node_id(1'000'000 + i));
    row.set_scope(b.scope());
    row.set_directory("/srv/work");
    row.set_label("role:implementer name:agent-" + std::to_string(i));
    row.set_node_id(star::node_id((first + i) % c.links->nodes()));
  }
  return b;
}

void commit_at(cluster& c, double per_second, micros until, std::function<v1::Batch()> make) {
  auto next = std::make_shared<std::function<void(std::uint64_t)>>();
  auto from = c.time.now();
  *next = [&c, per_second, until, make = std::move(make), from, again = std::weak_ptr{next}](std::uint64_t n) {
    auto commit_now = std::make_shared<commit>();
    commit_now->batches.push_back(make());
    c.tell_members(commit_now);
    auto at = from + static_cast<micros>(static_cast<double>(n + 1) * one_second / per_second);
    if (auto self = again.lock(); self && at < until)
      c.time.at(at, [self, n] { (*self)(n + 1); });
  };
  c.time.in(0, [next] { (*next)(0); });
}

double core(std::int64_t ns, micros lasted) { return static_cast<double>(ns) / 1e3 / static_cast<double>(lasted); }

/// True while the home could do that on a core and nobody's link was reset.
bool play(const settings& base, std::size_t concerned, double rate, figures& out) {
  auto s = base;
  s.sessions = 1;
  scratch folder{s};
  cluster c{folder.made};
  c.connect();
  std::mt19937_64 dice{s.seed};
  auto from = c.time.now();
  effort budget{s};
  commit_at(c, rate, from + s.length, [&] { return batch_for(c, concerned, dice); });
  c.time.run_until(from + s.length, [&] { return budget.spent(); });
  auto lasted = c.time.now() - from;
  auto net = c.links->totals();
  out.begin(fmt::format("fan-out: {} commits a second that concern {} of {} nodes", rate, concerned, s.nodes));
  out.add("batches to members", static_cast<double>(c.so_far().told) / seconds(lasted), "per second");
  out.add("bytes from the home", static_cast<double>(net.bytes[home]) / seconds(lasted), "per second");
  out.measured("links at the home (protocol and encoding)", core(c.links->home_ns, lasted), "of a core");
  out.measured("choosing who is told, and copying", core(c.choosing_ns, lasted), "of a core");
  out.add("most messages that waited on a link", static_cast<double>(net.waiting_messages), "");
  out.add("most bytes that waited on a link", static_cast<double>(net.waiting_bytes), "");
  out.add("most bytes that waited on all links", static_cast<double>(net.waiting_bytes_together), "");
  out.add("times that one waited for credit", static_cast<double>(net.stalled), "");
  out.add("links that started over", static_cast<double>(net.begun_anew), "");
  return net.begun_anew == 0 && core(c.links->home_ns + c.choosing_ns, lasted) < 1;
}

} // namespace

void slow_node(const settings& base, double rate, figures& out) {
  auto s = base;
  s.sessions = 1;
  s.nodes = std::min<std::size_t>(base.nodes, 50);
  s.length = 2 * base.length;
  scratch folder{s};
  cluster c{folder.made};
  c.connect();
  c.links->slow_down(0, 12'500); // 100 kbit/s
  std::mt19937_64 dice{s.seed};
  std::vector<std::size_t> times(s.nodes);
  c.on_member_up = [&](std::size_t node, bool resumed) { times[node] += resumed ? 0 : 1; };
  auto from = c.time.now();
  effort budget{s};
  commit_at(c, rate, from + s.length, [&] { return batch_for(c, s.nodes, dice); });
  c.time.run_until(from + s.length, [&] { return budget.spent(); });
  auto net = c.links->totals();
  out.begin(fmt::format("fan-out: a node of 100 kbit/s among {} fast ones, {} commits a second that concern all", s.nodes - 1, rate));
  out.add("most messages that waited on a link", static_cast<double>(net.waiting_messages), "");
  out.add("most messages that may wait", static_cast<double>(c.links->options(0).outbox_messages_max), "");
  out.add("most bytes that waited on a link", static_cast<double>(net.waiting_bytes), "");
  out.add("messages that found no room", static_cast<double>(net.refused), "");
  out.add("messages given up when a link started over", static_cast<double>(net.lost), "");
  out.add("times the slow node's link started over", static_cast<double>(times[0]), "");
  out.add("times that another link started over", static_cast<double>(std::count_if(times.begin() + 1, times.end(), [](auto n) { return n > 0; })),
          "");
}

void fan_out(const settings& s, figures& out) {
  for (auto concerned : {std::size_t{1}, std::max<std::size_t>(s.nodes / 10, 1), s.nodes})
    for (auto rate : {10., 100., 1'000., 10'000.})
      if (!play(s, concerned, rate, out))
        break;
  slow_node(s, 500, out);
}

} // namespace swarm::simulate
