// How a host that is gone is spoken of: a word that programs know, and how it went, for people: "host_lost: host b was revoked". What names the host
// by its id has that in the place of the word.
#pragma once

#include <string>
#include <string_view>

#include "actors/domain/transaction.hpp"

namespace swarm::domain {

struct host_loss {
  std::string word;
  std::string how; // empty = not said
};

inline std::string text_of(const host_loss& l) { return l.how.empty() ? l.word : l.word + ": " + l.how; }

inline host_loss read_host_loss(std::string_view text) {
  const auto at = text.find(": ");
  return at == text.npos ? host_loss{std::string{text}, {}} : host_loss{std::string{text.substr(0, at)}, std::string{text.substr(at + 2)}};
}

/// Ends a session with its host, and says so in everything that comes of it.
void end_lost_session(transaction&, const v1::Session&, const std::string& how);

} // namespace swarm::domain
