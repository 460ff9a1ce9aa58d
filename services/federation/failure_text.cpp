#include "services/federation/failure_text.hpp"

#include "actors/base/text.hpp"

#include <cctype>
#include <optional>
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

/// What gRPC's texts mean. The first that a text contains holds.
struct meaning {
  std::string_view of_grpc;
  const char* words;
};
constexpr meaning meanings[] = {
  // The words of the TLS library stay: people look for them.
  {"certificate verify failed", "its certificate is not accepted (certificate verify failed)"},
  // A host that stands still takes a connection, and then says nothing on it.
  {"Handshake read failed", "it takes the connection and does not answer"},
  {"Handshake write failed", "it takes the connection and does not answer"},
  {"andshake timed out", "it takes the connection and does not answer"},
  {"SETTINGS frame", "it takes the connection and does not answer"},
  {"keepalive watchdog timeout", "it has stopped answering"},
  {"ping timeout", "it has stopped answering"},
  {"Timeout occurred", "it does not answer"},
  {"Connection timed out", "it does not answer"},
  {"Deadline Exceeded", "it did not answer in time"},
  {"Connection reset by peer", "it has cut the connection"},
  {"Socket closed", "it has cut the connection"},
  {"Broken pipe", "it has cut the connection"},
  {"Stream removed", "it has cut the connection"},
  {"Transport closed", "it has cut the connection"},
  {"GOAWAY", "it has cut the connection"},
  {"RST_STREAM", "it has cut the connection"},
  {"Cancelled on the server side", "it has cut the connection"},
};

std::optional<std::string> in_our_words(std::string_view text) {
  for (const auto& m : meanings)
    if (text.find(m.of_grpc) != std::string_view::npos)
      return m.words;
  // What the system says is no word of gRPC.
  if (drop_prefix(text, "Failed to connect to remote host: ") && !text.empty())
    return static_cast<char>(std::tolower(static_cast<unsigned char>(text[0]))) + std::string{text.substr(1)};
  if (text.find("andshake failed") == std::string_view::npos)
    return std::nullopt;
  // "Ssl handshake failed: SSL_ERROR_SSL: error:0A000126:SSL routines::unexpected eof while reading"
  return concat({"the TLS handshake failed: ", trimmed(text.substr(text.rfind(':') + 1))});
}

} // namespace

std::string failure_text(const std::string& of_grpc) {
  std::string_view text{of_grpc};
  constexpr std::string_view of_name = "DNS resolution failed for ";
  if (drop_prefix(text, of_name))
    return concat({text.substr(0, text.find(": ")), ": the name has no address"});
  if (!text.starts_with("failed to connect to all addresses"))
    return in_our_words(text).value_or(of_grpc);
  drop_prefix(text, "failed to connect to all addresses; last error: ");
  for (auto status : {"UNKNOWN: ", "UNAVAILABLE: ", "INTERNAL: "})
    if (drop_prefix(text, status))
      break;
  std::string address;
  if (drop_prefix(text, "ipv4:") || drop_prefix(text, "ipv6:"))
    if (const auto end = text.find(": "); end != std::string_view::npos) {
      address = address_text(text.substr(0, end)) + ": ";
      text.remove_prefix(end + 2);
    }
  return address + in_our_words(text).value_or("the connection failed");
}

} // namespace swarm
