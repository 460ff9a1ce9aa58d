// What a reader of a conversation gets, as bytes.
#pragma once

#include <string>
#include <string_view>

#include <grpcpp/support/byte_buffer.h>

#include "swarm/v1/conversation.pb.h"

namespace swarm {

/// The message with this item and its cursor, around the item's bytes as the log has them: most of what is read is passed on as it is.
grpc::ByteBuffer chunk_with_item(std::string_view item, std::string_view cursor);
grpc::ByteBuffer chunk_of(const v1::ConversationChunk&);

} // namespace swarm
