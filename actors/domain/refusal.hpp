// A refusal, and a reply that refuses. `text` is shown to people and agents, and is swarm-mcp's where swarm-mcp has one; `subject`
// is the id, path or key that the refusal is about.
#pragma once

#include <string>
#include <utility>

#include "swarm/v1/command.pb.h"

namespace swarm::domain {

inline v1::Refusal refusal(v1::Refusal::Code code, std::string text, std::string subject = {}) {
  v1::Refusal out;
  out.set_code(code);
  out.set_text(std::move(text));
  out.set_subject(std::move(subject));
  return out;
}

inline v1::Reply refuse(v1::Refusal::Code code, std::string text, std::string subject = {}) {
  v1::Reply out;
  *out.mutable_refusal() = refusal(code, std::move(text), std::move(subject));
  return out;
}

} // namespace swarm::domain
