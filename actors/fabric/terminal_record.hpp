// What <state>/pty/<id>/info holds, apart from the files, so that it can be fuzzed without them.
#pragma once

#include <optional>
#include <string_view>

#include "swarm/v1/pty.pb.h"

namespace swarm {

/// Nothing for bytes that are no record, or the record of another terminal.
inline std::optional<v1::PtyInfo> parse_terminal_record(std::string_view bytes, std::string_view id) {
  v1::PtyInfo info;
  if (!info.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || info.id() != id)
    return std::nullopt;
  return info;
}

} // namespace swarm
