// One other node: the link to it, what it asks of us and we of it.
#pragma once

#include <array>
#include <map>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/limits.hpp"
#include "actors/fabric/cluster/link_frames.hpp"
#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/log_limiter.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/restarts.hpp"

namespace swarm {

struct link_state {
  static inline const char* name = "link";

  /// One of the two links and the connection that carries it.
  struct lane {
    std::optional<federation_link> link;
    link_connection_ptr connection; // null: none
    federation_link::connection connected = 0;
    bool writing = false; // a frame is on its way into the connection
    bool dialling = false;
    runtime::backoff redials;
    std::int64_t dialled_ms = 0;
    std::int64_t redial_at_ms = 0;     // 0: not planned
    link_connection_ptr leaving;       // the one before, until it has ended; null: it has
    std::int64_t leaving_until_ms = 0; // boot time
    std::uint64_t epoch = 0;           // answers to what was asked before the link was reset are nobody's
    std::uint32_t protocol = 0;        // as agreed on with the node
  };
  /// Asked by somebody here.
  struct question {
    link_request_ptr request;
    std::int64_t asked_ms = 0;    // boot time
    std::int64_t deadline_ms = 0; // boot time
    runtime::parked<link_response_ptr> answer;
    std::optional<link_lane> put; // it is on its way there, or has arrived: it may happen
    bool was_put = false;         // now or on a link before
  };
  /// What the other node has asked, as long as the link it asked on goes on.
  struct ticket {
    link_lane lane = link_lane::control;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0;
  };
  struct job {
    std::size_t cost = 0; // of the link's credit, until it is answered
    call_ptr call;        // a command under way
    caf::actor helper;    // asks for it, if it may wait; its end gives the place in line up
    link_request_ptr on;  // as it was passed on to another node
  };

  node_environment_ptr node;
  v1::NodeAddress address;
  bool dials = false; // we call it, not it us
  federation_actor parent;
  watch_hub_actor watch;
  processes_actor processes;
  front_actor front;

  std::array<lane, link_lanes> lanes;
  std::uint64_t run = 0;        // of the other node, by which it was linked last
  link_connection_ptr newcomer; // calls while another connection is up, and has not said yet which run of the node it is
  std::string last_failure;
  std::int64_t down_since_ms = 0;  // boot time at which the link ended, or this node started; 0 while it is up
  bool was_up = false;             // since this node started
  bool fell_silent = false;        // the link that ended last had not been heard for limits::link_silence
  std::int64_t heard_ms = 0;       // boot time at which the other node was heard last, or this node started
  std::int64_t dial_failed_ms = 0; // boot time at which the last dial failed; 0: none has since the link was up
  std::int64_t refuse_at_ms = 0;   // boot time at which what clients ask of the home is refused; 0: nothing of the kind waits
  runtime::log_limiter denied;     // questions that who asks may not ask
  runtime::log_limiter refused;    // connections that ended because one side does not take the other
  runtime::log_limiter unreached;  // since it was linked last
  bool clock_off = false;          // as said last

  std::map<std::uint64_t, question> asked;
  std::uint64_t next_id = 1;
  std::int64_t typed_ms = 0;      // boot time of the last input for a terminal there
  std::int64_t held_until_ms = 0; // when reads of much output are put that wait for it; 0: none does
  runtime::deadline_heap<std::uint64_t> due;
  std::map<std::pair<link_lane, std::uint64_t>, job> jobs;

  v1::NodeInfo info;     // as the other node says
  std::string said_info; // what it was told last of this node, encoded
  std::int64_t last_heard_ms = 0;
  std::int64_t clock_offset_ms = 0;
  std::int64_t gone_at_ms = 0; // boot time at which it is considered gone; 0: it is there, or its loss was reported
  bool revoked = false;
  bool revoked_us = false; // the other node, our home, has said that our certificate is revoked
  runtime::single_timer timer;
  ~link_state();
};

link_actor::behavior_type link(link_actor::stateful_pointer<link_state> self, node_environment_ptr node, v1::NodeAddress address, bool dials,
                               federation_actor parent, watch_hub_actor watch, processes_actor processes);

/// For how long after its last word a run of a node keeps another one with the same id, a copy of its state directory, from being taken for it.
inline std::chrono::milliseconds twin_patience() { return 2 * limits::link_heartbeat(); }

/// What a node that was revoked says when its home would have to be asked.
std::string revoked_by(const std::string& home_name);

/// Whether a node has to hear of this batch: it is about its sessions or workers, or about something that ends rights or work anywhere.
bool concerns(const v1::Batch& batch, const std::string& node_id);

} // namespace swarm
