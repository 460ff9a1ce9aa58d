// Somebody else's JSON, edited in place: the bytes around a change stay as they are, comments and trailing commas too.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/base/json_dialect.hpp"

namespace swarm::cli {

using json = nlohmann::ordered_json;

/// A file that cannot be read or changed as it is; what() begins with "line N: ".
struct unreadable : std::runtime_error {
  unreadable(std::size_t at, const std::string& why) : std::runtime_error("line " + std::to_string(at) + ": " + why), line(at) {}
  std::size_t line; // from 1
};

/// Of a place that is written in a way that no entry can be put into or taken out of.
inline constexpr const char* not_editable = "this is written in a way that cannot be changed in place; write it plainly";

class json_text {
public:
  /// Keys; in an array a number, or "-" for the place behind its last item.
  using path = std::vector<std::string>;

  /// Blank text is an empty object. Throws `unreadable` for anything that is not one JSON object in this dialect.
  explicit json_text(std::string text, json_dialect = json_dialect::comments_and_trailing_commas);

  const std::string& text() const noexcept { return text_; }
  const json& value() const noexcept { return value_; }
  /// Null when nothing is there.
  const json* find(const path&) const;

  /// Makes what leads there. Nothing changes when the value is there already. Throws `unreadable` when something else than an
  /// object or array is on the way.
  void set(const path&, const json&);
  /// Nothing happens when nothing is there; of several keys of one name all go.
  void erase(const path&);

private:
  struct node;
  void replace(std::size_t begin, std::size_t end, const std::string& with);
  void insert(const node& container, const std::string& key, const json&);
  void take_out(const node& container, std::size_t index);
  std::string rendered(const json&, std::size_t at, bool one_line) const;
  std::string indent_at(std::size_t at) const;
  std::string unit() const;
  std::string line_break() const;
  bool in_lines(const node&) const;
  std::string text_;
  std::string bare_;  // text_ with blanks in place of comments
  std::string plain_; // and of trailing commas
  json value_;
  json_dialect dialect_;
};

} // namespace swarm::cli
