// A session as a node shows it.
#pragma once

#include <string>

#include "swarm/v1/state.pb.h"

namespace swarm::testing {

inline v1::Session session(const std::string& id, const std::string& label = {}) {
  v1::Session s;
  s.set_id(id);
  s.set_scope("/r");
  s.set_directory("/r");
  s.set_root("/r");
  s.set_file_root("/r");
  s.set_pid(123);
  s.set_label(label);
  s.set_registered_at_ms(1'795'291'620'000);
  s.set_heartbeat_ms(1'795'291'620'000);
  s.set_adopted(true);
  return s;
}

} // namespace swarm::testing
