// The actor that keeps the blobs of conversations. It also removes blobs that are too old and what conversations without a row have left. It is
// detached because it blocks: it writes and syncs megabytes, so that the logs never wait for them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/conversations/forgotten.hpp"
#include "actors/fabric/node_environment.hpp"
#include "actors/store/conversation/blobs.hpp"

namespace swarm {

struct blobs_links {
  reader_actor reader;
  conversation_logs_actor logs;
  std::function<std::uint64_t()> free_disk_bytes; // null: as the file system says
};

struct conversation_blobs_state {
  static inline const char* name = "conversation-blobs";
  /// Those of one conversation that are being written.
  struct place {
    blobs all;
    std::map<std::string, std::uint64_t> sizes; // of those that stand there
    std::uint64_t coming = 0;                   // bytes of uploads
    std::size_t uploads = 0;
  };
  struct upload {
    std::string conversation;
    blob_writer writer;
    std::uint64_t bytes = 0;
  };
  /// One that is over, and can be taken back.
  struct made {
    std::string upload;
    std::string conversation;
    std::string sha256;
  };
  node_environment_ptr node;
  blobs_links links;
  std::map<std::string, place> places;   // bounded
  std::map<std::string, upload> uploads; // bounded
  std::deque<made> newest;               // bounded
  forgotten_conversations forgotten;
  std::vector<std::string> to_look_at; // directories that the round has not reached
};

conversation_blobs_actor::behavior_type conversation_blobs(conversation_blobs_actor::stateful_pointer<conversation_blobs_state> self,
                                                           node_environment_ptr node, blobs_links links);

/// Looks at all conversations' directories: it removes blobs that nobody names and what conversations without a row have left, and has old logs
/// aged. A second round does not begin before the first is over.
void begin_round(conversation_blobs_actor::stateful_pointer<conversation_blobs_state> self);
/// The conversation is deleted: closes its log, then removes its directory. It is refused from now on.
void forget_conversation(conversation_blobs_actor::stateful_pointer<conversation_blobs_state> self, const std::string& id);
/// Removes one of the conversation's blobs.
void take_blob(conversation_blobs_actor::stateful_pointer<conversation_blobs_state> self, const std::string& id, const std::string& sha256);

std::filesystem::path blobs_directory(const node_environment& node, const std::string& id);

} // namespace swarm
