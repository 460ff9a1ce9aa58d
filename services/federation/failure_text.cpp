#include "services/federation/failure_text.hpp"

#include "actors/base/text.hpp"

#include <cctype>
#include <string_view>
#include <utility>

namespace swarm {

namespace {

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  const bool there = text.starts_with(prefix);
  if (there)
    text.remove_prefix(prefix.size());
  return there;
}

/// gRPC writes the brackets of an IPv6 address as in a URI.
std::string address_text(std::string_view address) {
  std::string out{address};
  for (const auto& [code, bracket] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}})
    if (auto at = out.find(code); at != std::string::npos)
      out.replace(at, 3, bracket);
  return out;
}

} // namespace

std::string failure_text(const std::string& of_grpc) {
  std::string_view text{of_grpc};
  if (!drop_prefix(text, "failed to connect to all addresses; last error: "))
    return of_grpc;
  for (auto status : {"UNKNOWN: ", "UNAVAILABLE: ", "INTERNAL: "})
    if (drop_prefix(text, status))
      break;
  if (!drop_prefix(text, "ipv4:") && !drop_prefix(text, "ipv6:"))
    return of_grpc;
  const auto end = text.find(": ");
  const auto address = text.substr(0, end);
  if (end == std::string_view::npos || text.find("andshake") != std::string_view::npos || text.find("ertificate") != std::string_view::npos)
    return of_grpc;
  text.remove_prefix(end + 2);
  drop_prefix(text, "Failed to connect to remote host: ");
  std::string why{text};
  if (!why.empty())
    why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
  return concat({address_text(address), ": ", why});
}

} // namespace swarm
