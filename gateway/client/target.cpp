#include "gateway/client/target.hpp"

#include <algorithm>
#include <cctype>

namespace swarm::cli {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

} // namespace

std::optional<ssh_host> parse_ssh_host(std::string_view text) {
  constexpr std::string_view scheme = "ssh://";
  ssh_host out;
  bool url = text.starts_with(scheme);
  if (url)
    text.remove_prefix(scheme.size());
  std::string user;
  if (auto at = text.rfind('@'); at != text.npos) {
    user = text.substr(0, at);
    text.remove_prefix(at + 1);
    if (user.empty())
      return std::nullopt;
  }
  bool bracketed = url && text.starts_with('[');
  if (bracketed) {
    auto end = text.find(']');
    if (end == text.npos)
      return std::nullopt;
    out.destination = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    auto end = url ? std::min(text.find(':'), text.size()) : text.size();
    out.destination = text.substr(0, end);
    text.remove_prefix(end);
  }
  if (!text.empty()) {
    out.port = text.substr(1);
    bool number = text.front() == ':' && !out.port.empty() && out.port.size() <= 5 &&
                  std::all_of(out.port.begin(), out.port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number || std::stoi(out.port) < 1 || std::stoi(out.port) > 65535)
      return std::nullopt;
  }
  // It becomes an argument of ssh, and ssh hands parts of it to shells of its own settings.
  auto plain = [](std::string_view part, std::string_view further) {
    return !part.empty() && part.front() != '-' &&
           std::all_of(part.begin(), part.end(), [&](char c) { return is_word(c) || further.find(c) != further.npos; });
  };
  if (!plain(out.destination, bracketed ? ".-_:%" : url ? ".-_" : ".-_:%") || (!user.empty() && !plain(user, ".-_+@%")))
    return std::nullopt;
  if (!user.empty())
    out.destination = user + "@" + out.destination;
  return out;
}

} // namespace swarm::cli
