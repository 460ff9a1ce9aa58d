// What a reader of a conversation gets: the log's bytes, as if the message had been made of the item.
#include "services/api/conversation_chunks.hpp"

#include <doctest/doctest.h>

#include <grpcpp/impl/codegen/proto_utils.h>

#include "swarm/v1/options.pb.h"

using namespace swarm;

namespace {

v1::ConversationChunk parsed(grpc::ByteBuffer bytes) {
  v1::ConversationChunk out;
  REQUIRE(grpc::SerializationTraits<v1::ConversationChunk>::Deserialize(&bytes, &out).ok());
  return out;
}

v1::ConversationItem whole_item() {
  v1::ConversationItem i;
  i.set_at_ms(1);
  i.set_kind(v1::CONVERSATION_TURN);
  i.set_id("t-1");
  i.set_generation(7);
  i.set_of("call");
  i.set_nested(true);
  i.set_title("Bash");
  i.set_body(std::string(48 * 1'024, '\0'));
  i.set_media_type("image/png");
  i.set_last(true);
  i.set_failed(true);
  i.set_aborted(true);
  i.set_state("ended");
  i.set_approval_id("a");
  i.add_prompts("p");
  i.mutable_usage()->set_cost_usd(1.5);
  i.add_attachments()->set_name("x.png");
  i.set_rule("ask");
  return i;
}

/// Neither it nor what is in it.
bool has_paths(const google::protobuf::Descriptor& d) {
  for (int i = 0; i < d.field_count(); ++i) {
    const auto& f = *d.field(i);
    if (f.options().GetExtension(v1::in_scope) || f.name() == "scope" || (f.message_type() && has_paths(*f.message_type())))
      return true;
  }
  return false;
}

} // namespace

TEST_CASE("an item of the log goes out as the message that would have been made of it") {
  auto items = {v1::ConversationItem{}, whole_item()};
  for (const auto& item : items)
    for (const auto& cursor : {std::string{}, std::string(48, 'c'), std::string(200, 'c')}) {
      v1::ConversationChunk made;
      *made.mutable_item() = item;
      made.mutable_item()->set_cursor(cursor);
      CHECK(parsed(chunk_with_item(item.SerializeAsString(), cursor)).SerializeAsString() == made.SerializeAsString());
    }
}

TEST_CASE("what a later version has written into an item is passed on") {
  const std::string later = "\xa2\x3f\x03new"; // field 1012
  const auto bytes = whole_item().SerializeAsString() + later;
  const auto item = parsed(chunk_with_item(bytes, "c")).item();
  CHECK(item.id() == "t-1");
  CHECK(item.cursor() == "c");
  CHECK(item.SerializeAsString().find("new") != std::string::npos);
}

TEST_CASE("any other chunk is as it was made") {
  v1::ConversationChunk c;
  c.mutable_resumed()->set_gap("epoch");
  CHECK(parsed(chunk_of(c)).resumed().gap() == "epoch");
  CHECK(parsed(chunk_of({})).body_case() == v1::ConversationChunk::BODY_NOT_SET);
}

TEST_CASE("an item has no path that would have to be made the reader's") { CHECK_FALSE(has_paths(*v1::ConversationItem::descriptor())); }
