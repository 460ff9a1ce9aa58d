// Conversations: their logs, and what readers are told of them while they live.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/fabric/messages/log_tail.hpp"
#include "actors/store/conversation/log.hpp"
#include "swarm/internal/driver.pb.h"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// Names a log. The logs' actor makes it when there is none.
struct conversation_log_name {
  std::string id;           // of the conversation
  std::uint64_t synced = 0; // as the row says
};

/// What a log holds of one generation.
struct log_question {
  conversation_log_name log;
  std::uint32_t generation = 0;
};
using log_question_ptr = std::shared_ptr<const log_question>;

/// Where a log ends, synced when it was asked to be.
struct log_state {
  log_cursor end;
  log_tail tail;                       // answers a question
  std::vector<std::string> nonces;     // likewise: log_hello's of this generation, the newest first
  std::uint32_t generation_before = 0; // when the log has no frame of this generation: the generation of its last frame; 0 = the log is empty
  log_tail before;                     // of that
};
using log_state_ptr = std::shared_ptr<const log_state>;

/// Frames to be appended.
struct log_frames {
  conversation_log_name log;
  std::vector<conversation_frame> frames;
  bool sync = false;
};
using log_frames_ptr = std::shared_ptr<const log_frames>;

/// Hello is about to be said to a driver with this nonce: whoever hears the driver out after both have died has to know it.
struct log_hello {
  conversation_log_name log;
  std::uint32_t generation = 0;
  std::string nonce;
};
using log_hello_ptr = std::shared_ptr<const log_hello>;

/// A reader's: from a cursor that it may have got long ago, or from one of this answer's before.
struct log_reading {
  conversation_log_name log;
  std::optional<log_cursor> from; // nothing: from the oldest that is kept
  bool resumes = false;           // `from` is of another time: the answer says what is missing
  std::uint64_t tail_bytes = 0;   // without `from`: the answer says where so many last bytes begin; 0 = at the oldest
};
using log_reading_ptr = std::shared_ptr<const log_reading>;

/// Frames that follow each other, or a gap before further ones.
struct log_pages {
  struct entry {
    std::string item; // a v1::ConversationItem as the log has it
    bool ends_item = false;
    log_cursor next;
  };
  std::optional<log_gap> gap;
  std::uint64_t skipped = 0; // bytes that are kept, and were not asked for
  std::vector<entry> entries;
  log_cursor next; // without entries and gap: the end
};
using log_pages_ptr = std::shared_ptr<const log_pages>;

/// What is held in a scope, as it has it.
struct scope_locks {
  std::string scope;
  std::string checkout; // directory that relative paths of the scope lie in
  std::vector<v1::LockView> all;
  bool more = false;                              // there were more
  std::map<std::string, std::string> directories; // of the holders that work on this host, by their sessions
};
using scope_locks_ptr = std::shared_ptr<const scope_locks>;

/// What others hold, and perhaps what a tool would do.
struct lock_case {
  std::string session_id;                         // whose own locks are in nobody's way
  scope_locks_ptr locks;                          // of the conversation's scope; never null
  std::vector<scope_locks_ptr> others;            // of other scopes in whose directories the tool would write
  std::optional<internal::HookQuestion> question; // with what the tool would write; else the list is wanted
};
using lock_case_ptr = std::shared_ptr<const lock_case>;

struct lock_verdict {
  std::string why_not;   // the tool may not run; empty = it may
  internal::Locks locks; // for the driver; empty for a question
};
using lock_verdict_ptr = std::shared_ptr<const lock_verdict>;

/// "What is new behind this cursor, which stands at the log's end as I know it?"
struct conversation_poll {
  std::string scope;
  std::string id;
  log_cursor at;
  std::uint64_t state_seen = 0; // conversation_news::state_number
};
using conversation_poll_ptr = std::shared_ptr<const conversation_poll>;

/// One of them, or both.
struct conversation_news {
  bool log_grew = false;                      // read on first
  std::optional<v1::ConversationDelta> delta; // with its cursor
  log_cursor at;                              // behind the delta
  std::optional<v1::Conversation> state;
  std::uint64_t state_number = 0;
};
using conversation_news_ptr = std::shared_ptr<const conversation_news>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_question_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_state_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_frames_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_hello_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::scope_locks_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::lock_case_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::lock_verdict_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_reading_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::log_pages_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::conversation_poll_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::conversation_news_ptr)
