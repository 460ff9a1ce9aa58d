#include <fmt/format.h>
#include <random>

#include "tools/simulate.d/scenarios.hpp"

namespace swarm::simulate {

namespace {

/// What a load came to, and over how long.
struct outcome_of_load {
  std::int64_t p99 = 0;
  std::uint64_t not_done = 0;
};

class beating {
public:
  beating(cluster& c, std::uint64_t seed, micros until) : c_(c), until_(until) {
    std::mt19937_64 dice{seed};
    for (std::size_t i = 0; i < c_.agents.size(); ++i)
      c_.time.in(static_cast<micros>(dice() % static_cast<std::uint64_t>(pause())), [this, i] { beat(i); });
  }
  std::vector<std::int64_t> took;
  std::uint64_t not_done = 0, ended = 0;

private:
  static micros pause() { return limits::session_heartbeat().count() * one_ms; }
  void beat(std::size_t i) {
    if (c_.time.now() >= until_)
      return;
    c_.command(
      c_.agents[i], [](v1::Command& cmd) { cmd.mutable_heartbeat(); },
      [this, since = c_.time.now()](const v1::LinkResponse* r) {
        if (!r || !r->has_reply() || r->reply().has_refusal())
          ++not_done;
        else
          took.push_back(c_.time.now() - since);
        ended += r && r->reply().session().already_ended() ? 1 : 0;
      });
    c_.time.in(pause(), [this, i] { beat(i); });
  }

  cluster& c_;
  micros until_;
};

/// Sessions of programs are looked after by their node: then only the links have heartbeats.
outcome_of_load play(const settings& s, bool by_heartbeat, figures& out) {
  scratch folder{s};
  cluster c{folder.made};
  if (by_heartbeat)
    c.register_sessions(v1::Session::HEARTBEAT);
  c.connect();
  auto from = c.time.now();
  std::optional<beating> all;
  if (by_heartbeat)
    all.emplace(c, s.seed, from + s.length);
  effort budget{s};
  c.time.run_until(from + s.length, [&] { return budget.spent(); });
  auto lasted = seconds(c.time.now() - from);
  auto net = c.links->totals();
  auto store = c.store->so_far();
  auto per_second = [&](double v) { return v / lasted; };
  auto core = [&](std::int64_t ns) { return static_cast<double>(ns) / 1e9 / lasted; };
  out.begin(
    fmt::format("heartbeats: {} nodes, {} sessions {}", s.nodes, s.sessions, by_heartbeat ? "that live by them" : "of programs on their nodes"));
  out.add("frames to the home", per_second(static_cast<double>(net.frames[member])), "per second");
  out.add("frames from the home", per_second(static_cast<double>(net.frames[home])), "per second");
  out.add("bytes to the home", per_second(static_cast<double>(net.bytes[member])), "per second");
  out.add("bytes from the home", per_second(static_cast<double>(net.bytes[home])), "per second");
  out.measured("links at the home (protocol and encoding)", core(c.links->home_ns), "of a core");
  outcome_of_load result;
  if (by_heartbeat) {
    out.measured("choosing who is told of each commit, and copying", core(c.choosing_ns), "of a core");
    out.measured("the writer's time that is taken, syncs included", seconds(store.writer_busy) / lasted, "of it");
    out.measured("the writer, per command", static_cast<double>(store.writer_busy) / static_cast<double>(std::max<std::uint64_t>(store.commands, 1)),
                 "us");
    out.measured("commands in one commit", static_cast<double>(store.commands) / static_cast<double>(std::max<std::uint64_t>(store.syncs, 1)), "");
    c.time.run_until(c.time.now() + 35 * one_second, [&] { return budget.spent() || c.open_questions() == 0; });
    result.p99 = quantile(all->took, 0.99);
    result.not_done = all->not_done + c.open_questions();
    out.measured("answered, half of them within", millis(quantile(all->took, 0.5)), "ms");
    out.measured("answered, 99 of 100 within", millis(result.p99), "ms");
    out.measured("longest line before the writer", static_cast<double>(c.store->so_far().line), "commands");
    out.add("asked", static_cast<double>(c.so_far().asked), "");
    out.measured("answered", static_cast<double>(all->took.size()), "");
    out.measured("not done (refused as overloaded, or no answer within 30 s)", static_cast<double>(result.not_done), "");
    out.measured("ended although they asked", static_cast<double>(all->ended), "sessions");
  }
  out.add("links that started over", static_cast<double>(c.links->totals().begun_anew), "");
  return result;
}

} // namespace

void heartbeats(const settings& s, figures& out) {
  auto size = s;
  size.length = std::max(s.length, 4 * limits::link_heartbeat().count() * one_ms);
  play(size, false, out);
  size = s;
  for (int doubled = 0; doubled < 5; ++doubled, size.sessions *= 2) {
    auto said = play(size, true, out);
    // Seconds say that the line grows all the time; it may not be full yet.
    if (said.not_done > 0 || said.p99 > one_second)
      break;
  }
}

} // namespace swarm::simulate
