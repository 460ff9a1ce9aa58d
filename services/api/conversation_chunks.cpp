#include "services/api/conversation_chunks.hpp"

#include <algorithm>
#include <cstdint>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/slice.h>

namespace swarm {

namespace {

using coded = google::protobuf::io::CodedOutputStream;
using wire = google::protobuf::internal::WireFormatLite;

constexpr std::uint32_t tag_of(int field) { return wire::MakeTag(field, wire::WIRETYPE_LENGTH_DELIMITED); }

/// Of a field of so many bytes, before them.
std::size_t head_bytes(int field, std::size_t bytes) {
  return coded::VarintSize32(tag_of(field)) + coded::VarintSize32(static_cast<std::uint32_t>(bytes));
}

std::uint8_t* put_head(std::uint8_t* at, int field, std::size_t bytes) {
  return coded::WriteVarint32ToArray(static_cast<std::uint32_t>(bytes), coded::WriteVarint32ToArray(tag_of(field), at));
}

std::uint8_t* put(std::uint8_t* at, std::string_view text) { return std::copy(text.begin(), text.end(), at); }

grpc::ByteBuffer filled(std::size_t bytes, auto fill) {
  auto memory = grpc_slice_malloc(bytes);
  fill(GRPC_SLICE_START_PTR(memory));
  const grpc::Slice slice{memory, grpc::Slice::STEAL_REF};
  return {&slice, 1};
}

} // namespace

grpc::ByteBuffer chunk_with_item(std::string_view item, std::string_view cursor) {
  constexpr auto cursor_field = v1::ConversationItem::kCursorFieldNumber;
  constexpr auto item_field = v1::ConversationChunk::kItemFieldNumber;
  const auto inner = item.size() + head_bytes(cursor_field, cursor.size()) + cursor.size();
  return filled(head_bytes(item_field, inner) + inner, [&](std::uint8_t* at) {
    at = put(put_head(at, item_field, inner), item);
    put(put_head(at, cursor_field, cursor.size()), cursor);
  });
}

grpc::ByteBuffer chunk_of(const v1::ConversationChunk& c) {
  return filled(c.ByteSizeLong(), [&](std::uint8_t* at) { c.SerializeWithCachedSizesToArray(at); });
}

} // namespace swarm
