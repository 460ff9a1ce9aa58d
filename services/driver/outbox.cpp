#include "services/driver/outbox.hpp"

#include <algorithm>
#include <utility>

#include "actors/agents/driver_frames.hpp"

namespace swarm::driver {

std::uint64_t outbox::keep(internal::FromDriver body, moment now) {
  send_joined(now);
  body.set_at_ms(now.unix_ms);
  backlog_bytes_ += body.ByteSizeLong();
  backlog_.push_back(std::move(body));
  const auto seq = last_ + backlog_.size();
  fill_ring();
  return seq;
}

void outbox::fill_ring() {
  while (!backlog_.empty() && (released_ || ring_bytes_ + limits::driver_frame_bytes_max <= limits::driver_ring_bytes)) {
    auto frame = std::move(backlog_.front());
    backlog_.pop_front();
    backlog_bytes_ -= std::min<std::size_t>(backlog_bytes_, frame.ByteSizeLong());
    put(std::move(frame));
  }
  if (backlog_.empty())
    backlog_bytes_ = 0;
}

void outbox::put(internal::FromDriver frame) {
  frame.set_seq(++last_);
  auto encoded = agents::encode_driver_frame(frame);
  if (encoded.empty()) { // the stream keeps its bodies smaller
    auto& n = *frame.mutable_notice();
    n.set_kind("unreadable");
    n.set_text("A frame of the driver was too large and is lost");
    encoded = agents::encode_driver_frame(frame);
  }
  ring_bytes_ += encoded.size();
  auto shared = std::make_shared<const std::string>(std::move(encoded));
  ring_.push_back({last_, shared});
  if (connected_)
    sending_.push_back({shared, kind::kept});
}

void outbox::send(std::string frame, kind what) {
  (what == kind::text ? passing_bytes_ : asking_bytes_) += frame.size();
  sending_.push_back({std::make_shared<const std::string>(std::move(frame)), what});
}

void outbox::pass(internal::FromDriver body, moment now) {
  if (!connected_)
    return;
  send_joined(now);
  body.set_at_ms(now.unix_ms);
  send(agents::encode_driver_frame(body), kind::other);
}

void outbox::join(internal::Delta delta, moment now) {
  if (!connected_)
    return;
  if (joined_ && joined_->item_id() == delta.item_id() && joined_->kind() == delta.kind() &&
      joined_->offset() + joined_->text().size() == delta.offset() && joined_->text().size() + delta.text().size() <= limits::driver_part_bytes_max) {
    joined_->mutable_text()->append(delta.text());
    return;
  }
  send_joined(now);
  joined_ = std::move(delta);
  joined_until_ = now.boot_ms + limits::delta_join().count();
}

std::optional<std::int64_t> outbox::joined_until() const { return joined_ ? std::optional{joined_until_} : std::nullopt; }

void outbox::send_joined(moment now) {
  if (!joined_)
    return;
  internal::FromDriver frame;
  frame.set_at_ms(now.unix_ms);
  *frame.mutable_delta() = *std::exchange(joined_, std::nullopt);
  auto encoded = agents::encode_driver_frame(frame);
  // Behind an item that has no number yet it would be told before it.
  if (backlog_.empty() && passing_bytes_ + encoded.size() <= limits::driver_passing_bytes_max)
    send(std::move(encoded), kind::text);
}

void outbox::connect(const std::string& nonce, internal::Ready ready, std::uint64_t last_seq, moment now) {
  connected_ = true;
  joined_.reset(); // the open item of `ready` has it
  sending_.clear();
  written_ = passing_bytes_ = asking_bytes_ = 0;
  stored(last_seq);
  ready.set_first_seq(ring_.empty() ? 0 : ring_.front().seq);
  ready.set_last_seq(last_);
  internal::FromDriver frame;
  frame.set_at_ms(now.unix_ms);
  *frame.mutable_ready() = std::move(ready);
  send(nonce, kind::other);
  send(agents::encode_driver_frame(frame), kind::other);
  for (const auto& k : ring_)
    sending_.push_back({k.frame, kind::kept});
}

void outbox::stored(std::uint64_t seq) {
  stored_ = std::max(stored_, std::min(seq, last_));
  while (!ring_.empty() && ring_.front().seq <= stored_) {
    ring_bytes_ -= ring_.front().frame->size();
    ring_.pop_front();
  }
  fill_ring();
}

void outbox::release() {
  released_ = true;
  fill_ring();
}

std::string_view outbox::pending() const {
  return sending_.empty() ? std::string_view{} : std::string_view{*sending_.front().frame}.substr(written_);
}

void outbox::written(std::size_t bytes) {
  written_ += bytes;
  if (sending_.empty() || written_ < sending_.front().frame->size())
    return;
  if (const auto& first = sending_.front(); first.what != kind::kept)
    (first.what == kind::text ? passing_bytes_ : asking_bytes_) -= first.frame->size();
  sending_.pop_front();
  written_ = 0;
}

} // namespace swarm::driver
