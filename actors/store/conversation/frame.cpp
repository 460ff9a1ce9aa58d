#include "actors/store/conversation/frame.hpp"

#include "actors/base/crc32c.hpp"
#include "actors/store/conversation/numbers.hpp"

namespace swarm {

namespace {

constexpr std::string_view magic = "swrmcnv1";
constexpr std::size_t crc_at = 4;
constexpr std::size_t after_crc = 8;

/// Of all but the checksum itself.
log_mark mark_behind(std::string_view frame, log_mark before) { return crc32c(frame.substr(after_crc), crc32c(frame.substr(0, crc_at), before)); }

} // namespace

conversation_frame frame_view::copy() const { return {generation, driver_seq, at_ms, kind, std::string{body}}; }

std::string encode_frame(const conversation_frame& frame, log_mark before) {
  std::string out;
  out.reserve(frame_head_bytes + frame.body.size());
  put_number(out, static_cast<std::uint32_t>(frame.body.size()));
  put_number(out, log_mark{0});
  put_number(out, frame.generation);
  put_number(out, frame.driver_seq);
  put_number(out, frame.at_ms);
  put_number(out, frame.kind);
  out += frame.body;
  std::string crc;
  put_number(crc, mark_behind(out, before));
  out.replace(crc_at, crc.size(), crc);
  return out;
}

std::optional<std::size_t> frame_length(std::string_view head) {
  const std::size_t body = take_number<std::uint32_t>(head);
  if (body > frame_body_bytes_max)
    return std::nullopt;
  return frame_head_bytes + body;
}

std::optional<frame_view> decode_frame(std::string_view bytes, log_mark before) {
  if (bytes.size() < frame_head_bytes)
    return std::nullopt;
  const auto length = frame_length(bytes);
  if (!length || *length > bytes.size())
    return std::nullopt;
  frame_view out{.bytes = bytes.substr(0, *length), .body = bytes.substr(frame_head_bytes, *length - frame_head_bytes)};
  auto rest = out.bytes.substr(crc_at);
  out.mark = take_number<log_mark>(rest);
  out.generation = take_number<std::uint64_t>(rest);
  out.driver_seq = take_number<std::uint64_t>(rest);
  out.at_ms = take_number<std::int64_t>(rest);
  out.kind = take_number<std::uint32_t>(rest);
  // A hole of zeros is no frame, whatever its checksum.
  if (out.kind == 0 || out.mark != mark_behind(out.bytes, before))
    return std::nullopt;
  return out;
}

log_mark mark_of(std::string_view encoded) {
  auto rest = encoded.substr(crc_at);
  return take_number<log_mark>(rest);
}

std::string encode_head(const segment_head& head) {
  std::string out{magic};
  put_number(out, head.epoch);
  put_number(out, head.base.offset);
  put_number(out, head.begun_at_ms);
  put_number(out, head.base.mark);
  put_number(out, crc32c(out));
  return out;
}

std::optional<segment_head> decode_head(std::string_view bytes) {
  if (bytes.size() < segment_head_bytes || !bytes.starts_with(magic))
    return std::nullopt;
  auto rest = bytes.substr(magic.size());
  segment_head out;
  out.epoch = take_number<std::uint64_t>(rest);
  out.base.offset = take_number<std::uint64_t>(rest);
  out.begun_at_ms = take_number<std::int64_t>(rest);
  out.base.mark = take_number<log_mark>(rest);
  if (take_number<std::uint32_t>(rest) != crc32c(bytes.substr(0, segment_head_bytes - 4)))
    return std::nullopt;
  return out;
}

} // namespace swarm
