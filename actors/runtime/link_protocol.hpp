// One side of the link between two nodes, which outlives the connections that carry it: every message arrives once and in order, for as
// long as neither side is reset by its owner. No sockets, no clock, no chance: the owner tells what happened and when, writes the frames it is
// given and does what the events say.
//
// Whether a new connection goes on with the link or starts it over is a function of the two hellos alone, so that both sides come to the
// same answer. That needs what a hello says to be true of both: a side names the other's incarnation only once it has seen a frame
// behind the hello, because its sender has read the hello of this side and made the same decision. Until then it is given no credit and
// has sent nothing that could be lost; and nothing of the other's hello is believed that could not be taken back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actors/base/errc.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::runtime {

/// Since whenever, of a clock that never goes back and goes on in suspend.
using link_time = std::chrono::microseconds;

/// Numbered as in v1::LinkClose.
enum class link_reason : std::uint8_t { unspecified, going, duplicate, protocol, wrong_cluster, wrong_node, revoked, silent };

struct link_hello {
  std::uint32_t protocol = 0;
  std::uint32_t protocol_min = 0;
  std::string cluster_id;
  std::string node_id;
  std::string node_name;
  std::string version;
  std::uint64_t incarnation = 0;
  std::uint64_t other_incarnation = 0;
  std::uint64_t received = 0;
  std::uint64_t kept_from = 1;
  std::int64_t time_ms = 0;
};

struct link_heartbeat {};

struct link_close {
  link_reason reason = link_reason::unspecified;
  std::string text;
};

/// Plain, so that the protocol does not know how it is encoded. Without a body it only acknowledges.
template <class Message>
struct link_frame {
  std::uint64_t seq = 0;
  std::uint64_t ack = 0;
  std::uint64_t credit = 0;
  std::variant<std::monostate, link_hello, Message, link_heartbeat, link_close> body;
};

struct link_options {
  std::string cluster_id;
  std::string node_id;
  std::string node_name;
  std::string version;
  /// Random, of this run of the node; not 0.
  std::uint64_t incarnation = 0;
  /// Who the certificate of the other side says it is.
  std::string other_id;
  std::uint32_t protocol = limits::link_protocol;
  std::uint32_t protocol_min = limits::link_protocol_min;
  std::size_t message_bytes_max = limits::link_message_bytes_max;
  std::size_t window_bytes = limits::link_window_bytes();
  std::size_t outbox_messages_max = limits::link_outbox_messages_max();
  std::size_t outbox_bytes_max = limits::link_outbox_bytes_max();
  link_time heartbeat = limits::link_heartbeat();
  link_time silence = limits::link_silence();
};

/// Both sides have said hello.
struct link_up {
  link_hello other;
  std::uint32_t protocol = 0; // the newest that both speak
  bool resumed = false;       // false: the numbers begin at 1
  bool restarted = false;     // the other node has restarted since the last hello
};

/// Nothing that was sent before can be relied on: it may have arrived or not. Everything unanswered is to be asked again.
template <class Message>
struct link_begun_anew {
  std::vector<Message> lost; // not acknowledged, dropped here
};

template <class Message>
struct link_delivery {
  Message message;
  std::size_t cost = 0; // for consumed()
};

/// The owner must end this connection: at once if the other side closed it, else after sending what next_frame() still has.
struct link_dropped {
  link_close why;
  bool by_other = false;
};

struct link_counters {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t messages_sent = 0; // without those sent again
  std::uint64_t messages_received = 0;
  std::uint64_t resent = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t refused = 0; // by send()
  std::uint64_t begun_anew = 0;
  std::uint64_t lost = 0;   // dropped when it was reset; they may have arrived
  std::uint64_t closed = 0; // connections that this side ended
};

/// Why this hello is not acceptable; nothing when it is.
std::optional<link_close> refusal_of(const link_hello& other, const link_options& ours);
/// Whether a connection with these two hellos goes on with the link. Symmetric.
bool goes_on(const link_hello& one, const link_hello& other);
/// Of two connections between two nodes the one dialled by the lower node id stays. (Of two that the same node has dialled, the newer.)
bool which_connection_stays(std::string_view own_id, std::string_view other_id, bool dialled_by_me);

/// Size{}(message) is its encoded size in bytes. A Message is copied for every frame that carries it: make it a pointer if it is large.
template <class Message, class Size>
class link_end {
public:
  using frame = link_frame<Message>;
  using event = std::variant<link_up, link_begun_anew<Message>, link_delivery<Message>, link_dropped>;
  /// Frames of a connection that is not the last one any more are nothing.
  using connection = std::uint64_t;

  explicit link_end(link_options options) : options_(std::move(options)) {
    // So that the largest message can be sent at all.
    options_.window_bytes = std::max(options_.window_bytes, cost_max());
    options_.outbox_bytes_max = std::max(options_.outbox_bytes_max, cost_max());
  }

  // -- what happened ----------------------------------------------------------------

  /// There is a new connection, in place of any before. `unix_ms` is for the hello.
  connection connected(link_time now, std::int64_t unix_ms) {
    disconnected(connection_);
    pass(now);
    phase_ = phase::greeting;
    hello_ = hello(unix_ms);
    hello_written_ = false;
    heard_ = spoke_ = now_;
    return ++connection_;
  }

  void disconnected(connection c) {
    if (c != connection_)
      return;
    phase_ = phase::none;
    must_speak_ = heartbeat_due_ = false;
    ack_at_.reset();
    probe_.reset();
    unacknowledged_ = unacknowledged_bytes_ = 0;
  }

  void received(connection c, frame f, link_time now) {
    pass(now);
    if (c != connection_ || (phase_ != phase::greeting && phase_ != phase::open))
      return;
    heard_ = now_;
    ++counters_.frames_received;
    if (auto* close = std::get_if<link_close>(&f.body)) {
      phase_ = phase::closed;
      close->text.resize(utf8_prefix(close->text, limits::link_close_text_bytes_max).size());
      events_.push_back(link_dropped{std::move(*close), true});
      return;
    }
    auto* greeting = std::get_if<link_hello>(&f.body);
    if ((phase_ == phase::greeting) != (greeting != nullptr))
      return end_for_protocol(greeting ? "a second hello" : "the first frame was no hello");
    if (greeting)
      greet(std::move(*greeting));
    else
      take(std::move(f));
  }

  /// Nothing: it will arrive, or be among what is lost when the link is reset. overloaded: too much waits. invalid: it is too large.
  std::optional<errc> send(Message message) {
    auto bytes = Size{}(message);
    auto fits = bytes <= options_.message_bytes_max;
    if (!fits || outbox_.size() >= options_.outbox_messages_max || outbox_bytes_ + cost_of(bytes) > options_.outbox_bytes_max) {
      ++counters_.refused;
      return fits ? errc::overloaded : errc::invalid;
    }
    outbox_bytes_ += cost_of(bytes);
    queued_total_ += cost_of(bytes);
    outbox_.push_back({std::move(message), cost_of(bytes), queued_total_});
    return std::nullopt;
  }

  /// Somebody has dealt with delivered messages of this cost, also of before the link was reset.
  void consumed(std::size_t cost) {
    unconsumed_ -= std::min(cost, unconsumed_);
    if (phase_ == phase::open && credit_due() - given_ >= credit_step())
      must_speak_ = true;
  }

  void tick(link_time now) {
    pass(now);
    if ((phase_ == phase::greeting || phase_ == phase::open) && now_ - heard_ >= options_.silence)
      end({link_reason::silent, "nothing was heard for " + duration(options_.silence / std::chrono::milliseconds{1})});
  }

  /// The owner's reasons to end the connection.
  void close(link_reason reason, std::string text) {
    if (phase_ == phase::greeting || phase_ == phase::open)
      end({reason, std::move(text)});
  }

  /// Resets the link, whatever the other side has kept. The connection ends.
  void forget() {
    close(link_reason::going, "the link starts over");
    announce_lost(reset());
  }

  // -- what to do -------------------------------------------------------------------

  /// To be written now; nothing: there is none until something happens. Asked whenever the connection can take a frame, so that
  /// nothing piles up behind a slow one, and an acknowledgement goes with the message that is written anyway.
  std::optional<frame> next_frame(connection c, link_time now) {
    pass(now);
    if (c != connection_ || phase_ == phase::none)
      return std::nullopt;
    if (!hello_written_) {
      hello_written_ = true;
      return spoken({0, 0, 0, hello_});
    }
    if (phase_ == phase::closing) {
      phase_ = phase::closed;
      return spoken({0, 0, 0, closing_});
    }
    if (phase_ != phase::open)
      return std::nullopt;
    if (const auto* waiting = next_message()) {
      heartbeat_due_ = false; // it is answered as well
      return position(write(*waiting));
    }
    if (must_speak_)
      return position({});
    if (!std::exchange(heartbeat_due_, false))
      return std::nullopt;
    if (acked_ == written_)
      probe_ = probe{0, now_};
    return position({0, 0, 0, link_heartbeat{}});
  }

  /// In the order in which it happened.
  std::vector<event> take_events() { return std::exchange(events_, {}); }

  /// When to call tick(). Never far away, so that a clock that has jumped is noticed.
  std::optional<link_time> next_deadline() const {
    if (phase_ != phase::greeting && phase_ != phase::open)
      return std::nullopt;
    auto at = std::min(heard_ + options_.silence, now_ + pause());
    if (ack_at_)
      at = std::min(at, *ack_at_);
    if (phase_ == phase::open && !heartbeat_due_)
      at = std::min(at, spoke_ + pause());
    return at;
  }

  // -- how it is --------------------------------------------------------------------

  bool up() const { return phase_ == phase::open; }
  std::size_t waiting_messages() const { return outbox_.size(); }
  std::size_t waiting_bytes() const { return outbox_bytes_; }
  std::size_t unconsumed_bytes() const { return unconsumed_; }
  /// From a message or a heartbeat to its acknowledgement, smoothed.
  std::optional<link_time> round_trip() const { return round_trip_; }
  const link_counters& counters() const { return counters_; }
  const link_options& options() const { return options_; }

private:
  enum class phase : std::uint8_t {
    none,
    greeting, // the other side's hello has not come
    open,
    closing, // a close is to be written
    closed,  // nothing more, in either direction
  };

  struct entry {
    Message message;
    std::size_t cost = 0;
    std::uint64_t end = 0; // of all costs, up to and with this one
  };

  struct probe {
    std::uint64_t seq = 0; // 0: a heartbeat
    link_time at{};
  };

  static constexpr std::size_t cost_of(std::size_t bytes) { return bytes + limits::link_message_overhead_bytes; }
  std::size_t cost_max() const { return cost_of(options_.message_bytes_max); }
  /// Between two signs of life.
  link_time pause() const { return std::min(options_.heartbeat, options_.silence / 3); }

  /// What the other side may have sent in all. Messages from before a reset count until they are consumed.
  std::uint64_t credit_due() const { return received_total_ + (options_.window_bytes - unconsumed_); }
  /// Credit that has grown by so much is told at once. Less than what is left beside the largest message: nobody who waits for credit
  /// is left waiting when all was dealt with.
  std::size_t credit_step() const { return std::max<std::size_t>(1, std::min(options_.window_bytes / 4, options_.window_bytes - cost_max())); }

  link_hello hello(std::int64_t unix_ms) const {
    link_hello out;
    out.protocol = options_.protocol;
    out.protocol_min = options_.protocol_min;
    out.cluster_id = options_.cluster_id;
    out.node_id = options_.node_id;
    out.node_name = options_.node_name;
    out.version = options_.version;
    out.incarnation = options_.incarnation;
    out.other_incarnation = agreed_ ? other_incarnation_ : 0;
    out.received = received_;
    out.kept_from = acked_ + 1;
    out.time_ms = unix_ms;
    return out;
  }

  void pass(link_time now) {
    auto before = std::exchange(now_, std::max(now, now_));
    if (phase_ != phase::greeting && phase_ != phase::open)
      return;
    // Nobody called for a long time: the machine slept, or this process was stopped. The other side gets a chance to be heard.
    if (now_ - before > 2 * pause()) {
      heard_ = std::max(heard_, now_ - options_.silence + pause());
      heartbeat_due_ = phase_ == phase::open;
    }
    if (phase_ == phase::open && now_ - spoke_ >= pause())
      heartbeat_due_ = true;
    if (ack_at_ && now_ >= *ack_at_) {
      ack_at_.reset();
      must_speak_ = true;
    }
  }

  void end(link_close why) {
    phase_ = phase::closing;
    why.text.resize(utf8_prefix(why.text, limits::link_close_text_bytes_max).size());
    closing_ = why;
    ++counters_.closed;
    events_.push_back(link_dropped{std::move(why), false});
  }
  void end_for_protocol(std::string text) { end({link_reason::protocol, std::move(text)}); }

  void greet(link_hello other) {
    if (auto refusal = refusal_of(other, options_))
      return end(std::move(*refusal));
    auto resumed = goes_on(hello_, other);
    if (resumed && other.received > written_) // the hello is old, or the other side has lost its state
      return forget();
    auto restarted = other_incarnation_ != 0 && other_incarnation_ != other.incarnation;
    other_incarnation_ = other.incarnation;
    if (!resumed)
      begin_anew();
    // The hello may have been written long ago, on a connection that its writer has left: it acknowledges nothing yet.
    next_ = resumed ? other.received + 1 : 1;
    phase_ = phase::open;
    must_speak_ = true; // the credit, and that its hello was read
    auto protocol = std::min(options_.protocol, other.protocol);
    events_.push_back(link_up{std::move(other), protocol, resumed, restarted});
  }

  void begin_anew() {
    agreed_ = false;
    if (written_ != 0 || received_ != 0)
      return announce_lost(reset());
    // Nothing has gone either way: what waits can go on waiting.
    other_credit_ = given_ = 0;
  }

  void announce_lost(std::vector<Message> lost) {
    ++counters_.begun_anew;
    counters_.lost += lost.size();
    events_.push_back(link_begun_anew<Message>{std::move(lost)});
  }

  std::vector<Message> reset() {
    std::vector<Message> lost;
    lost.reserve(outbox_.size());
    for (auto& e : outbox_)
      lost.push_back(std::move(e.message));
    outbox_.clear();
    outbox_bytes_ = 0;
    agreed_ = false;
    acked_ = written_ = received_ = 0;
    queued_total_ = received_total_ = other_credit_ = given_ = 0;
    return lost;
  }

  void take(frame f) {
    agreed_ = true;
    if (f.ack < acked_ || f.ack >= next_)
      return end_for_protocol("it acknowledges " + std::to_string(f.ack) + " after " + std::to_string(acked_) + ", and " + std::to_string(next_ - 1) +
                              " was the last message");
    if (f.credit < other_credit_)
      return end_for_protocol("it takes back credit");
    other_credit_ = f.credit;
    acknowledge(f.ack);
    auto* message = std::get_if<Message>(&f.body);
    if (!message && f.seq != 0)
      return end_for_protocol("a number without a message");
    auto heartbeat = std::holds_alternative<link_heartbeat>(f.body);
    if (heartbeat)
      must_speak_ = true; // the answer, which has no body so that it is known as one
    else if (probe_ && probe_->seq == 0)
      message ? probe_.reset() : measured();
    if (message)
      take_message(f.seq, std::move(*message));
  }

  void take_message(std::uint64_t seq, Message message) {
    if (seq == 0)
      return end_for_protocol("a message without a number");
    if (seq <= received_) {
      ++counters_.duplicates;
      return owe_ack(0);
    }
    if (seq != received_ + 1)
      return end_for_protocol("message " + std::to_string(seq) + " came, and " + std::to_string(received_ + 1) + " was next");
    auto bytes = Size{}(message);
    if (bytes > options_.message_bytes_max)
      return end_for_protocol("a message of " + std::to_string(bytes) + " bytes");
    auto cost = cost_of(bytes);
    if (cost > given_ - received_total_)
      return end_for_protocol("it sends more than it was given credit for");
    received_ = seq;
    received_total_ += cost;
    unconsumed_ += cost;
    ++counters_.messages_received;
    events_.push_back(link_delivery<Message>{std::move(message), cost});
    owe_ack(cost);
  }

  void owe_ack(std::size_t cost) {
    unacknowledged_bytes_ += cost;
    if (++unacknowledged_ >= limits::link_unacknowledged_max || unacknowledged_bytes_ >= options_.window_bytes / 8)
      must_speak_ = true;
    else if (!ack_at_)
      ack_at_ = now_ + limits::link_ack_delay;
  }

  void acknowledge(std::uint64_t up_to) {
    for (; acked_ < up_to; ++acked_) {
      outbox_bytes_ -= outbox_.front().cost;
      outbox_.pop_front();
    }
    if (probe_ && probe_->seq != 0 && probe_->seq <= acked_)
      measured();
  }

  void measured() {
    auto took = now_ - std::exchange(probe_, {})->at;
    round_trip_ = round_trip_ ? *round_trip_ + (took - *round_trip_) / 8 : took;
  }

  /// The next message, if the other side has room for it.
  const entry* next_message() const {
    auto at = next_ - acked_ - 1;
    return at < outbox_.size() && outbox_[at].end <= other_credit_ ? &outbox_[at] : nullptr;
  }

  frame write(const entry& e) {
    frame f{next_, 0, 0, e.message};
    if (next_ <= written_)
      ++counters_.resent;
    else {
      written_ = next_;
      ++counters_.messages_sent;
      if (!probe_ || probe_->seq == 0) // not of one that is sent again: nobody could tell which of them was acknowledged
        probe_ = probe{next_, now_};
    }
    ++next_;
    return f;
  }

  /// With where this side stands, as every frame behind the hello.
  frame position(frame f) {
    f.ack = received_;
    f.credit = given_ = credit_due();
    must_speak_ = false;
    ack_at_.reset();
    unacknowledged_ = unacknowledged_bytes_ = 0;
    return spoken(std::move(f));
  }

  frame spoken(frame f) {
    spoke_ = now_;
    ++counters_.frames_sent;
    return f;
  }

  link_options options_;
  phase phase_ = phase::none;
  connection connection_ = 0;
  link_time now_{0}, heard_{0}, spoke_{0};

  // of this connection
  link_hello hello_; // as sent: what was decided from
  bool hello_written_ = false;
  link_close closing_;
  bool must_speak_ = false;
  bool heartbeat_due_ = false;
  std::optional<link_time> ack_at_;
  std::size_t unacknowledged_ = 0, unacknowledged_bytes_ = 0;
  std::uint64_t next_ = 1; // to be written
  std::optional<probe> probe_;

  // of the link
  std::uint64_t other_incarnation_ = 0; // as last seen
  bool agreed_ = false;                 // the other side has read a hello of this side since the last reset
  std::deque<entry> outbox_;            // from acked_ + 1 on
  std::size_t outbox_bytes_ = 0;
  std::uint64_t acked_ = 0, written_ = 0; // of ours: has arrived; was ever sent
  std::uint64_t queued_total_ = 0;        // costs of all messages of ours
  std::uint64_t other_credit_ = 0;        // of them may have been sent
  std::uint64_t received_ = 0;            // of the other side's
  std::uint64_t received_total_ = 0;      // costs of those
  std::uint64_t given_ = 0;               // credit it was told of
  std::size_t unconsumed_ = 0;

  std::vector<event> events_;
  std::optional<link_time> round_trip_;
  link_counters counters_;
};

} // namespace swarm::runtime
