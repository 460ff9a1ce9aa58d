// Somebody else's YAML, edited in place, as far as it is written in blocks: keys on lines of their own, lists with dashes. What is
// written otherwise is read over, and refused where an edit would have to reach into it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace swarm::cli {

/// A text as a YAML string.
std::string yaml_quoted(const std::string&);

class yaml_text {
public:
  /// Keys from the top; a number is an item of a list.
  using path = std::vector<std::string>;

  /// Throws `unreadable` (install_json.hpp) for what is not block YAML with one mapping at the top, tabs for indentation and
  /// several documents included.
  explicit yaml_text(std::string text);

  const std::string& text() const noexcept { return text_; }
  bool has(const path&) const;
  /// Of a value on one line, without quotes; empty when there is none.
  std::optional<std::string> scalar(const path&) const;
  /// How many items the list has, written either way; 0 when there is none.
  std::size_t size(const path&) const;

  /// `lines` follow the key, one step deeper. Makes the mapping that holds it.
  void add_key(const path& mapping, const std::string& key, const std::vector<std::string>& lines);
  /// Makes the list.
  void add_item(const path& list, const std::vector<std::string>& lines);
  /// Puts these lines in the place of what the key or item has.
  void replace(const path&, const std::vector<std::string>& lines);
  /// Puts that text in the place of a value on one line. Throws `unreadable` when there is none.
  void set_scalar(const path&, const std::string& text);
  /// With what holds it, if that is then empty.
  void erase(const path&);

private:
  struct entry;
  struct reader;
  const entry* find(const path&) const;
  bool follows_block(const entry&, std::size_t line) const;
  void splice(std::size_t from, std::size_t to, const std::vector<std::string>& lines);
  void add(const path& holder, std::vector<std::string> lines, bool item);
  std::string text_;
  std::vector<std::string> lines_; // with their ends
  std::shared_ptr<entry> root_;
};

} // namespace swarm::cli
