// The watch hub: the newest events of every scope, and those who wait for the next one.
//
// Followers pull: a poll is parked until there is something after its revision, so a slow follower costs nothing and can
// never make the hub grow; one that falls behind the buffer reads the store instead.
//
// Beside the scopes there is the feed: what concerns a person (is_of_feed) in all scopes, numbered by the hub. It is nowhere else, so that a follower
// that falls behind looks at the state of things again.
#pragma once

#include <deque>
#include <list>
#include <unordered_map>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/interfaces.hpp"
#include "actors/runtime/parked.hpp"

namespace swarm {

struct watch_hub_state {
  static inline const char* name = "watch";

  struct waiting {
    watch_poll_ptr poll;
    std::uint64_t after = 0; // nothing up to here passes the poll
    runtime::parked<watch_page_ptr> promise;
    caf::actor_addr who;
  };
  struct numbered {
    std::uint64_t number = 0; // the event's revision; in the feed its place there
    v1::Event event;
  };
  struct scope_buffer {
    std::deque<numbered> events;     // ascending, at most limits::watch_buffer_events_max()
    std::uint64_t complete_from = 0; // every event after this number is in `events`
    std::uint64_t newest = 0;
    std::list<waiting> followers;
    std::list<std::string>::iterator age; // valid while `events` is not empty
  };

  std::unordered_map<std::string, scope_buffer> scopes;      // "" is the feed
  std::unordered_map<caf::actor_addr, std::string> scope_of; // of parked followers
  std::size_t parked = 0;
  std::list<std::string> by_age;        // scopes with events, the one quiet for longest first
  std::size_t held = 0;                 // events of all scopes, at most limits::watch_buffers_events_max()
  std::vector<commit_sink_actor> sinks; // the front and the federation, while they live
};

/// `feed_begin`: the feed's numbers go on from there; greater than every number of the hubs before, so that a follower of theirs is noticed.
watch_hub_actor::behavior_type watch_hub(watch_hub_actor::stateful_pointer<watch_hub_state> self, std::uint64_t feed_begin);

/// Where the feed of a hub begins that starts at this time: 2 048 events a millisecond fit between two starts. Below 2^53.
constexpr std::uint64_t feed_begin_at(std::int64_t unix_ms) { return static_cast<std::uint64_t>(unix_ms) << 11U; }

/// True for the types of events that the feed has: approvals and conversations.
bool is_of_feed(const v1::Event&);

/// True if the event passes the poll's filters.
bool passes(const watch_poll& poll, const v1::Event& event);

} // namespace swarm
