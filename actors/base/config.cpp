#include "actors/base/config.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// toml++ 3.3 asserts what a malformed file can break ("[=") and refuses it a few lines below: without assertions every build
// answers as the release does.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"
#include "actors/base/nearest.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace {

/// So many names are listed in an error; of more, the user is told where they are.
constexpr std::size_t names_listed_max = 12;
/// Of a name or text that an error repeats.
constexpr std::size_t bytes_repeated_max = 64;

std::string repeated(std::string_view text) { return escape_control(utf8_prefix(text, bytes_repeated_max), false); }

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return out;
}

class reader {
public:
  reader(const config_registry& registry, config_document& out) : registry_(registry), out_(out) {}

  void read(const toml::table& file) {
    read_table(file, "");
    for (const auto& rule : registry_.rules)
      rule(out_);
    auto by_line = [](const auto& a, const auto& b) { return std::tie(a.line, a.name) < std::tie(b.line, b.name); };
    std::sort(out_.entries.begin(), out_.entries.end(), by_line);
    std::sort(out_.faults.begin(), out_.faults.end(), by_line);
  }

private:
  void wrong(std::size_t line, std::string name, std::string text) { out_.faults.push_back({line, std::move(name), std::move(text)}); }

  bool leads_to_section(const std::string& path) const {
    return std::any_of(registry_.keys.begin(), registry_.keys.end(),
                       [&](const config_key& k) { return k.section == path || k.section.starts_with(path + '.'); });
  }

  const config_key* key_of(const std::string& section, std::string_view name) const {
    auto i = std::find_if(registry_.keys.begin(), registry_.keys.end(),
                          [&](const config_key& k) { return k.section == section && (k.name == name || k.name == "*"); });
    return i == registry_.keys.end() ? nullptr : &*i;
  }

  void read_table(const toml::table& table, const std::string& section) {
    for (const auto& [key, value] : table) {
      const std::string name{key.str()};
      const auto line = std::max<std::size_t>(key.source().begin.line, 1);
      const auto path = section.empty() ? name : section + '.' + name;
      if (const auto* known = key_of(section, name))
        read_value(*known, name, line, value);
      else if (!leads_to_section(path))
        unknown(section, name, line);
      else if (const auto* below = value.as_table())
        read_table(*below, path);
      else
        wrong(line, path, concat({path, " must be a table: [", path, "]"}));
    }
  }

  void unknown(const std::string& section, const std::string& name, std::size_t line) {
    std::vector<std::string> keys;
    for (const auto& k : registry_.keys)
      if (k.section == section)
        keys.push_back(k.name);
    if (keys.empty())
      return unknown_section(section, name, line);
    auto text = concat({"unknown key \"", repeated(name), "\" in [", section, "]"});
    if (auto near = meant(name, keys); !near.empty())
      text += near;
    else if (keys.size() > names_listed_max)
      text += "; the keys are listed by: swarmctl config show " + section;
    else
      text += (keys.size() == 1 ? "; there is " : "; there are ") + listed(keys);
    wrong(line, section + '.' + name, std::move(text));
  }

  void unknown_section(const std::string& section, const std::string& name, std::size_t line) {
    if (section.empty() && !registry_.whole)
      return;
    // Those of the same level, as a file would name them.
    const auto above = section.empty() ? std::string{} : section + '.';
    std::vector<std::string> names, shown;
    for (const auto& known : registry_.sections()) {
      if (!known.starts_with(above))
        continue;
      auto one = known.substr(above.size(), known.find('.', above.size()) - above.size());
      if (std::find(names.begin(), names.end(), one) != names.end())
        continue;
      names.push_back(one);
      shown.push_back(concat({"[", above, one, "]"}));
    }
    const auto near = nearest(name, names);
    wrong(line, above + name,
          concat({"unknown table or key \"", above, repeated(name), "\"",
                  near.empty() ? "; there are " + listed(shown) : concat({"; did you mean [", above, near, "]?"})}));
  }

  void read_value(const config_key& key, const std::string& name, std::size_t line, const toml::node& value) {
    const auto full = key.section + '.' + name;
    auto refuse = [&](std::string_view why) { wrong(line, full, concat({repeated(name), " in [", key.section, "]", why})); };
    if (key.name == "*" && key.objection_to_name)
      if (auto why = key.objection_to_name(name); !why.empty())
        return wrong(line, full, std::move(why));
    switch (key.kind) {
      case config_kind::number:
        if (auto n = value.value_exact<std::int64_t>(); n && *n >= 0 && fits(key, static_cast<std::uint64_t>(*n)))
          return add(key, name, line, static_cast<std::uint64_t>(*n));
        return refuse(concat({" must be a whole number from ", key.lowest, " to ", key.highest}));
      case config_kind::boolean:
        if (auto on = value.value_exact<bool>())
          return add(key, name, line, *on);
        return refuse(" must be true or false");
      case config_kind::text: {
        auto text = value.value_exact<std::string>();
        if (!text)
          return refuse(concat({" must be a text in quotes: ", repeated(name), " = \"...\""}));
        auto why = key.objection ? key.objection(*text) : std::string{};
        return why.empty() ? add(key, name, line, std::move(*text)) : refuse(why);
      }
      case config_kind::texts: return read_list(key, name, line, value.as_array(), refuse);
    }
  }

  template <class Refuse>
  void read_list(const config_key& key, const std::string& name, std::size_t line, const toml::array* items, Refuse refuse) {
    if (!items || items->size() > key.count_max)
      return refuse(concat({" must be a list of at most ", key.count_max, " texts"}));
    std::vector<std::string> texts;
    for (const auto& item : *items) {
      auto text = item.value_exact<std::string>();
      auto why = text && key.objection ? key.objection(*text) : std::string{};
      if (!text)
        return refuse(" must be a list of texts in quotes");
      if (!why.empty())
        return refuse(why);
      texts.push_back(std::move(*text));
    }
    add(key, name, line, std::move(texts));
  }

  static bool fits(const config_key& key, std::uint64_t n) { return n >= key.lowest && n <= key.highest; }

  void add(const config_key& key, const std::string& name, std::size_t line, config_value value) {
    out_.entries.push_back({&key, name, line, std::move(value)});
  }

  const config_registry& registry_;
  config_document& out_;
};

std::string text_in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u" + hex(static_cast<unsigned char>(c), 4);
      continue;
    }
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + '"';
}

} // namespace

std::string config_fault::told(const std::string& file) const {
  if (line == 0)
    return file.empty() ? text : file + ": " + text;
  return file.empty() ? concat({"line ", line, ": ", text}) : concat({file, ":", line, ": ", text});
}

const config_entry* config_document::find(std::string_view section, std::string_view name) const {
  auto i = std::find_if(entries.begin(), entries.end(), [&](const config_entry& e) { return e.key->section == section && e.name == name; });
  return i == entries.end() ? nullptr : &*i;
}

std::vector<std::string> config_registry::sections() const {
  std::vector<std::string> out;
  for (const auto& key : keys)
    if (std::find(out.begin(), out.end(), key.section) == out.end())
      out.push_back(key.section);
  return out;
}

result<std::optional<std::string>, std::string> read_config_text(const std::filesystem::path& file) {
  // A FIFO would keep an open() waiting without O_NONBLOCK.
  unique_fd fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  auto failed = [&](std::string_view why) { return concat({file.string(), ": cannot be read: ", why}); };
  if (!fd) {
    const auto error = errno;
    if (error == ENOENT || error == ENOTDIR)
      return std::optional<std::string>{};
    return failed(std::strerror(error));
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0)
    return failed(std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return failed("it is no regular file; remove it, and write a file in its place");
  std::string text(limits::configuration_bytes_max + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const auto n = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed(std::strerror(errno));
    if (n == 0)
      break;
    filled += static_cast<std::size_t>(n);
  }
  if (filled > limits::configuration_bytes_max)
    return concat({file.string(), ": is larger than ", limits::configuration_bytes_max / limits::kib, " KiB"});
  text.resize(filled);
  return std::optional{std::move(text)};
}

config_document parse_config(std::string text, const config_registry& registry) {
  config_document out;
  out.exists = true;
  if (auto unfit = make_fit_for_toml(text)) {
    out.faults.push_back({unfit->line, "", unfit->text});
    return out;
  }
  try {
    const auto file = toml::parse(text);
    reader{registry, out}.read(file);
  } catch (const toml::parse_error& e) {
    out.faults.push_back({e.source().begin.line, "", std::string{e.description()}});
  }
  return out;
}

config_document read_config(const std::filesystem::path& file, const config_registry& registry) {
  if (file.empty())
    return {};
  auto text = read_config_text(file);
  if (!text) {
    config_document out;
    out.exists = true;
    // Without the name, which told() puts before it.
    out.faults.push_back({0, "", text.failure().substr(file.string().size() + 2)});
    return out;
  }
  return *text ? parse_config(std::move(**text), registry) : config_document{};
}

std::string config_text(const config_value& value) {
  if (const auto* n = std::get_if<std::uint64_t>(&value))
    return std::to_string(*n);
  if (const auto* on = std::get_if<bool>(&value))
    return *on ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value))
    return text_in_quotes(*text);
  std::string out = "[";
  for (const auto& text : std::get<std::vector<std::string>>(value))
    out += (out.size() == 1 ? "" : ", ") + text_in_quotes(text);
  return out + "]";
}

std::string config_kind_text(const config_key& key) {
  switch (key.kind) {
    case config_kind::number: return "number (" + key.unit + ")";
    case config_kind::boolean: return "true or false";
    case config_kind::text: return "text";
    case config_kind::texts: return "list of texts";
  }
  return {};
}

} // namespace swarm
