// config.toml: what it may hold is a table of keys. Reading, checking, showing, completing and documenting the file all go by that table.
// actors/domain/config.hpp has the whole table; this file has the reader, which knows no key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/base/result.hpp"

namespace swarm {

enum class config_kind : std::uint8_t { number, boolean, text, texts };

/// One key of config.toml.
struct config_key {
  std::string section; // "limits", "accept.spawn"
  std::string name;    // "*" = any name: the section is the user's own table of texts
  config_kind kind = config_kind::text;
  std::string fallback = {};             // the default, as TOML; empty = none
  std::string unit = {};                 // of a number: bytes, ms or count
  std::string reader = {};               // which program uses it
  std::string effect = {};               // when a change takes effect
  std::string help = {};                 // one line
  std::uint64_t lowest = 0, highest = 0; // of a number
  std::size_t count_max = 0;             // of texts: how many; of "*": how many names
  /// Why the text, or one of the texts, is wrong, to go after the name of the key; empty = it fits.
  std::function<std::string(std::string_view)> objection = {};
  /// The same for a name where any goes, as a whole sentence.
  std::function<std::string(std::string_view)> objection_to_name = {};
  bool may_be_secret = false; // what is shown of a value is only where it comes from

  /// "accept.spawn.principals"
  std::string full_name() const { return section + '.' + name; }
};

using config_value = std::variant<std::uint64_t, bool, std::string, std::vector<std::string>>;

/// One key as the file sets it.
struct config_entry {
  const config_key* key = nullptr;
  std::string name; // the key's, or the user's own
  std::size_t line = 0;
  config_value value;
};

struct config_fault {
  std::size_t line = 0; // from 1; 0 = the file as a whole
  std::string name;     // section, or section and key; empty = the file as a whole
  std::string text;     // says what would be right

  /// "FILE:LINE: text"; "line LINE: text" where the file has no name.
  std::string told(const std::string& file) const;
};

/// What a file says. It may be used only if there are no faults.
struct config_document {
  bool exists = false;
  std::vector<config_entry> entries; // by line
  std::vector<config_fault> faults;  // by line

  const config_entry* find(std::string_view section, std::string_view name) const;
  template <class T>
  void take(std::string_view section, std::string_view name, T& target) const {
    if (const auto* e = find(section, name))
      target = std::get<T>(e->value);
  }
};

/// What one key alone cannot tell: adds faults.
using config_rule = std::function<void(config_document&)>;

struct config_registry {
  std::vector<config_key> keys;
  std::vector<config_rule> rules = {};
  /// Every section of the file is in `keys`; otherwise sections that are not belong to others.
  bool whole = false;

  /// "limits", "accept.spawn", each once, in the order of the keys.
  std::vector<std::string> sections() const;
};

/// The text of such a file; nothing when there is none. The failure is for people, with the file's name: only a regular file that is not too large is
/// read, so that nobody waits on a FIFO.
result<std::optional<std::string>, std::string> read_config_text(const std::filesystem::path&);
/// The registry must live as long as the document.
config_document parse_config(std::string text, const config_registry&);
/// A file that is not there is an empty document; one that cannot be read is a document with one fault.
config_document read_config(const std::filesystem::path&, const config_registry&);

/// As it stands in a file.
std::string config_text(const config_value&);
/// "number (bytes)", "true or false", "text", "list of texts".
std::string config_kind_text(const config_key&);

} // namespace swarm
