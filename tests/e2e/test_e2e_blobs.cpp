// Attachments of conversations over the node's socket.
#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "swarm/v1/conversation.grpc.pb.h"
#include "tests/support/node_client.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

constexpr std::size_t part_bytes = 48 * 1024;

struct blob_node {
  test_node node;
  std::unique_ptr<node_client> client;
  std::unique_ptr<v1::Conversations::Stub> conversations;
  std::string id;

  blob_node() {
    node.start();
    reconnect();
    id = start();
  }
  void reconnect() {
    client = std::make_unique<node_client>(node);
    conversations = v1::Conversations::NewStub(grpc::CreateChannel("unix:" + node.dir().socket().string(), grpc::InsecureChannelCredentials()));
  }
  /// One without a prompt, so that no agent runs.
  std::string start() {
    auto c = client->command();
    c.mutable_start_conversation()->set_harness("claude");
    c.mutable_start_conversation()->add_argv("/bin/cat");
    const auto r = client->execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    return r.conversation().conversation().id();
  }
  fs::path directory() const { return node.dir().root / "conversations" / id; }
  std::size_t files() const {
    return fs::exists(directory() / "blobs") ? static_cast<std::size_t>(std::distance(fs::directory_iterator{directory() / "blobs"}, {})) : 0;
  }

  v1::WriteBlobRequest first(std::string data) const {
    v1::WriteBlobRequest r;
    r.set_scope(node.work());
    r.set_conversation_id(id);
    r.set_data(std::move(data));
    return r;
  }
  grpc::Status write(const node_client& as, const std::string& bytes, v1::WriteBlobReply& reply, std::size_t part = part_bytes) {
    grpc::ClientContext context;
    as.prepare(context);
    auto stream = conversations->WriteBlob(&context, &reply);
    for (std::size_t at = 0; at == 0 || at < bytes.size(); at += part) {
      auto r = first(bytes.substr(at, part));
      if (at > 0) {
        r.clear_scope();
        r.clear_conversation_id();
      }
      if (!stream->Write(r))
        break;
    }
    stream->WritesDone();
    return stream->Finish();
  }
  grpc::Status read(const node_client& as, const std::string& digest, std::string& bytes) {
    grpc::ClientContext context;
    as.prepare(context);
    v1::ReadBlobRequest q;
    q.set_scope(node.work());
    q.set_conversation_id(id);
    q.set_digest(digest);
    auto stream = conversations->ReadBlob(&context, q);
    v1::BlobPart part;
    bytes.clear();
    while (stream->Read(&part)) {
      CHECK(part.data().size() <= part_bytes);
      bytes += part.data();
    }
    return stream->Finish();
  }
  void remove() {
    auto c = client->command();
    c.mutable_delete_conversation()->set_conversation_id(id);
    const auto r = client->execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
  }
};

/// No two parts of it are alike.
std::string picture(std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; out.size() < bytes; ++i)
    out += std::to_string(i) + '\0';
  out.resize(bytes);
  return out;
}

} // namespace

TEST_CASE("an attachment is written and read in parts and outlives the node that took it") {
  blob_node n;
  const auto bytes = picture(3'000'000);
  v1::WriteBlobReply kept;
  const auto written = n.write(*n.client, bytes, kept);
  REQUIRE_MESSAGE(written.ok(), written.error_message());
  CHECK(kept.digest() == sha256(bytes));
  CHECK(kept.bytes() == bytes.size());
  n.node.kill_node();
  n.node.start();
  n.reconnect();
  std::string again;
  CHECK(n.read(*n.client, kept.digest(), again).ok());
  CHECK(again == bytes);
  CHECK(n.write(*n.client, "", kept).ok());
  CHECK(n.read(*n.client, sha256(""), again).ok());
  CHECK(again.empty());
  CHECK(n.read(*n.client, sha256("another"), again).error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(n.read(*n.client, "no digest", again).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  n.id = n.start();
  CHECK(n.read(*n.client, kept.digest(), again).error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("a prompt whose attachment the conversation does not have is refused at once and says what to do") {
  blob_node n;
  const auto bytes = picture(100);
  const auto say = [&](const std::string& conversation) {
    auto c = n.client->command();
    c.mutable_send_prompt()->set_conversation_id(conversation);
    c.mutable_send_prompt()->set_prompt("look at this");
    for (const auto& file : {std::string{"there"}, bytes}) {
      auto& a = *c.mutable_send_prompt()->add_attachments();
      a.set_digest(sha256(file));
      a.set_media_type("image/png");
      a.set_name("screen.png");
      a.set_bytes(file.size());
    }
    return n.client->execute(c);
  };
  v1::WriteBlobReply kept;
  REQUIRE(n.write(*n.client, "there", kept).ok());
  const auto refused = say(n.id);
  CHECK(refused.refusal().code() == v1::Refusal::NOT_FOUND);
  CHECK(refused.refusal().text().find("screen.png") != std::string::npos);
  CHECK(refused.refusal().text().find("Hand it over once more") != std::string::npos);
  CHECK(say("no-such-conversation").refusal().text().find("There is no conversation") != std::string::npos);
  REQUIRE(n.write(*n.client, bytes, kept).ok());
  const auto taken = say(n.id);
  CHECK_MESSAGE(!taken.has_refusal(), taken.refusal().text());
  CHECK(taken.conversation().prompt().attachments_size() == 2);
}

TEST_CASE("an attachment that breaks off or is too large leaves nothing") {
  blob_node n;
  {
    grpc::ClientContext context;
    n.client->prepare(context);
    v1::WriteBlobReply reply;
    auto stream = n.conversations->WriteBlob(&context, &reply);
    REQUIRE(stream->Write(n.first(std::string(part_bytes, 'x'))));
    REQUIRE(eventually([&] { return n.files() == 1; }));
    context.TryCancel();
    CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  CHECK(eventually([&] { return n.files() == 0; }));

  v1::WriteBlobReply reply;
  const auto large = n.write(*n.client, std::string(17u << 20, 'x'), reply);
  CHECK(large.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(n.write(*n.client, std::string(part_bytes + 1, 'x'), reply, part_bytes + 1).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  const auto id = std::exchange(n.id, {});
  CHECK(n.write(*n.client, "x", reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  n.id = "../../" + id;
  CHECK(n.write(*n.client, "x", reply).error_code() == grpc::StatusCode::NOT_FOUND);
  n.id = id;
  CHECK(eventually([&] { return n.files() == 0; }));

  grpc::ClientContext context;
  n.client->prepare(context);
  auto stream = n.conversations->WriteBlob(&context, &reply);
  REQUIRE(stream->Write(n.first("half of it")));
  REQUIRE(eventually([&] { return n.files() == 1; }));
  n.node.kill_node();
  CHECK_FALSE(stream->Finish().ok());
  n.node.start();
  CHECK(eventually([&] { return n.files() == 0; }));
}

TEST_CASE("a session without the grant neither writes nor finds attachments of a conversation") {
  blob_node n;
  const auto token = make_token();
  REQUIRE_FALSE(n.client->execute(n.client->registration_with_token(token)).has_refusal());
  const node_client session{n.node, token};
  v1::WriteBlobReply kept;
  REQUIRE(n.write(*n.client, "secret", kept).ok());
  std::string bytes;
  CHECK(n.read(session, kept.digest(), bytes).error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(bytes.empty());
  CHECK_FALSE(n.write(session, "more", kept).ok());
  CHECK(n.files() == 1);
}

TEST_CASE("a conversation that is deleted is gone from the disk, also when the node is killed meanwhile") {
  blob_node n;
  v1::WriteBlobReply kept;
  REQUIRE(n.write(*n.client, picture(1'000'000), kept).ok());
  n.remove();
  CHECK(eventually([&] { return !fs::exists(n.directory()); }));
  std::string bytes;
  CHECK(n.read(*n.client, kept.digest(), bytes).error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(n.write(*n.client, "late", kept).error_code() == grpc::StatusCode::NOT_FOUND);

  n.id = n.start();
  REQUIRE(n.write(*n.client, picture(1'000'000), kept).ok());
  n.remove();
  n.node.kill_node();
  // As if nothing had been removed yet.
  fs::create_directories(n.directory() / "blobs");
  n.node.start();
  CHECK(eventually([&] { return !fs::exists(n.directory()); }));
}
