#include "gateway/session/file_uri.hpp"

#include <algorithm>

namespace swarm::mcp {

namespace {

/// `lower` has small letters only.
bool begins_with(std::string_view text, std::string_view lower) {
  auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + ('a' - 'A')) : a) == b; };
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), [&](char l, char t) { return same(t, l); });
}

} // namespace

std::optional<std::string_view> path_of_file_uri(std::string_view text) noexcept {
  constexpr std::string_view scheme = "file:", slashes = "//", host = "localhost";
  if (!begins_with(text, scheme))
    return std::nullopt;
  text.remove_prefix(scheme.size());
  if (!text.starts_with(slashes))
    return text.starts_with('/') ? std::optional{text} : std::nullopt;
  text.remove_prefix(slashes.size());
  if (begins_with(text, host) && text.substr(host.size()).starts_with('/'))
    text.remove_prefix(host.size());
  return text;
}

} // namespace swarm::mcp
