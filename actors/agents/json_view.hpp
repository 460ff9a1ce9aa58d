// JSON as it came: values are found in the text and stay the bytes that they are. A person decides on exactly these bytes, and the agent gets them
// back. Nothing is copied, so a line of many megabytes costs no more than its size, however it is nested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swarm::agents {

/// One value of a JSON text that outlives it. An absent value is no object, no array and no text.
class json_view {
public:
  json_view() = default;
  /// The value of a whole text; absent when that is no JSON.
  static json_view of(std::string_view json);

  bool exists() const noexcept { return !raw_.empty(); }
  bool is_object() const noexcept { return raw_.starts_with('{'); }
  bool is_array() const noexcept { return raw_.starts_with('['); }
  bool is_text() const noexcept { return raw_.starts_with('"'); }
  bool is_true() const noexcept { return raw_ == "true"; }
  /// The bytes, without the blanks around them.
  std::string_view raw() const noexcept { return raw_; }
  /// The characters of a text; empty for anything else.
  std::string text() const;
  bool is(std::string_view text) const;
  /// Not for anything else than a number that fits.
  std::optional<double> number() const;
  /// The same without its fraction; 0 for anything else, and for what is below 0 or above 2^53.
  std::uint64_t count() const;

  /// A member of an object; of several with this name the last, as JavaScript takes it. Each call reads the object once.
  json_view operator[](std::string_view name) const;
  /// The values of an array, at most so many.
  std::vector<json_view> elements(std::size_t max) const;

  class members;

private:
  explicit json_view(std::string_view raw) noexcept : raw_(raw) {}
  std::string_view raw_; // empty = absent
};

/// The members of an object, read once. Of more than `max` the others are not seen.
class json_view::members {
public:
  explicit members(const json_view& object, std::size_t max = 512);

  json_view operator[](std::string_view name) const;
  const std::vector<std::pair<json_view, json_view>>& all() const noexcept { return all_; }

private:
  std::vector<std::pair<json_view, json_view>> all_; // name, value
};

/// The text as JSON, in quotes and without line breaks.
std::string json_quoted(std::string_view text);

} // namespace swarm::agents
