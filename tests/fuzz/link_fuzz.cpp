// The link between two nodes with bytes as a schedule. Two ends over a bad network: what must hold of a link holds, and it heals. Or one end
// and a node that sends anything: it is heard within what it was allowed, or sent away, and the end never holds more than its bounds.
#include <algorithm>

#include "actors/fabric/cluster/link_frames.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/link_world.hpp"

using namespace swarm;

namespace {

void two_ends(fuzz::input& in) {
  auto below = [&in](unsigned n) { return static_cast<unsigned>(in.byte()) % n; };
  auto window = std::size_t{16} * in.byte();
  test::link_world w{[window](std::size_t side, runtime::link_options& o) { o.window_bytes = (side + 1) * window; }};
  try {
    while (!in.empty())
      w.step(below);
    w.heal();
  } catch (const std::logic_error& e) {
    fuzz::broken(e.what(), __FILE__, __LINE__);
  }
}

class bad_node {
public:
  bad_node() : end_(options()) {}

  void step(fuzz::input& in) {
    switch (in.byte() % 10) {
      case 0: connection_ = end_.connected(now_, 1), over_ = closed_ = false; break;
      case 1: hear(hello(in)); break;
      case 2: hear_bytes(in.piece()); break;
      case 3:
      case 4: hear(likely(in)); break;
      case 5:
        end_.send(message(in.byte()));
        SWARM_HOLDS(end_.waiting_messages() <= end_.options().outbox_messages_max);
        SWARM_HOLDS(end_.waiting_bytes() <= end_.options().outbox_bytes_max);
        break;
      case 6: end_.consumed(std::size_t{8} * in.byte()); break;
      case 7:
        now_ += std::chrono::milliseconds{in.byte()} * in.byte();
        end_.tick(now_);
        if (auto at = end_.next_deadline())
          SWARM_HOLDS(*at > now_);
        break;
      case 8:
        if (in.byte() % 8 == 0)
          end_.forget();
        else if (in.byte() % 8 == 0)
          end_.disconnected(connection_), over_ = true;
        break;
      default: write();
    }
    look();
  }

private:
  static runtime::link_options options() {
    auto o = test::link_options_of(0, 11);
    o.protocol = 2;
    return o;
  }

  static link_message message(std::size_t bytes) {
    v1::LinkMessage m;
    m.mutable_response()->mutable_error()->set_text(std::string(bytes, 'x'));
    return std::make_shared<const v1::LinkMessage>(std::move(m));
  }

  static federation_link::frame hello(fuzz::input& in) {
    runtime::link_hello h;
    auto odd = in.byte();
    h.protocol_min = odd % 16 == 1 ? 3 : 1;
    h.protocol = std::max<std::uint32_t>(h.protocol_min, odd % 4);
    h.cluster_id = odd % 16 == 2 ? "other" : "cluster";
    h.node_id = h.node_name = odd % 16 == 3 ? "a" : "b";
    h.version = "0.1.0";
    h.incarnation = 22 + odd / 128;
    h.other_incarnation = odd & 64 ? 0 : 11;
    h.received = in.byte();
    h.kept_from = in.byte();
    return {0, 0, 0, std::move(h)};
  }

  /// Close to what is right, or a little beside it.
  federation_link::frame likely(fuzz::input& in) {
    auto nudge = [&in] {
      auto b = in.byte();
      return b < 240 ? 0ull : b < 248 ? 1ull : ~0ull;
    };
    federation_link::frame f{0, written_ + nudge(), credit_ += 64ull * in.byte(), {}};
    switch (in.byte() % 4) {
      case 0: break;
      case 1: f.body = runtime::link_heartbeat{}; break;
      default: f.seq = heard_ + 1 + nudge(); f.body = message(std::size_t{5} * in.byte());
    }
    return f;
  }

  void hear_bytes(const std::string& bytes) {
    v1::LinkFrame wire;
    if (!wire.ParseFromString(bytes))
      return;
    auto f = from_wire(wire);
    // What is understood of it says the same when it is written again.
    auto again = to_wire(from_wire(to_wire(f)));
    SWARM_HOLDS(again.SerializeAsString() == to_wire(f).SerializeAsString());
    hear(std::move(f));
  }

  void hear(federation_link::frame f) {
    auto seq = std::holds_alternative<link_message>(f.body) ? f.seq : 0;
    auto before = end_.counters().messages_received;
    end_.received(connection_, std::move(f), now_);
    if (end_.counters().messages_received != before) {
      SWARM_HOLDS(!over_ && seq == heard_ + 1);
      heard_ = seq;
    }
  }

  void write() {
    auto f = end_.next_frame(connection_, now_);
    if (!f)
      return;
    SWARM_HOLDS(!closed_);
    auto hello = std::holds_alternative<runtime::link_hello>(f->body);
    closed_ = std::holds_alternative<runtime::link_close>(f->body);
    SWARM_HOLDS(!over_ || hello || closed_);
    if (std::holds_alternative<link_message>(f->body))
      written_ = f->seq;
    SWARM_HOLDS(hello || closed_ || f->ack == heard_);
  }

  void look() {
    for (auto& e : end_.take_events()) {
      if (std::get_if<runtime::link_begun_anew<link_message>>(&e))
        continue; // an owner can forget at any time
      SWARM_HOLDS(!over_);
      if (std::get_if<runtime::link_dropped>(&e))
        over_ = true;
      else if (const auto* up = std::get_if<runtime::link_up>(&e)) {
        SWARM_HOLDS(up->protocol >= 1 && up->protocol <= 2 && up->other.node_id == "b");
        written_ = up->resumed ? up->other.received : 0;
        if (!up->resumed)
          heard_ = 0, credit_ = 0;
      }
    }
    SWARM_HOLDS(end_.unconsumed_bytes() <= end_.options().window_bytes);
    SWARM_HOLDS(!over_ || !end_.up());
  }

  federation_link end_;
  federation_link::connection connection_ = 0;
  runtime::link_time now_{1};
  bool over_ = true, closed_ = true;
  std::uint64_t heard_ = 0, written_ = 0, credit_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  if (in.byte() % 2 == 0)
    two_ends(in);
  else
    for (bad_node p; !in.empty();)
      p.step(in);
  return 0;
}
