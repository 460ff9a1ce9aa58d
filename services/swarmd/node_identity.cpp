#include "services/swarmd/node_identity.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "actors/base/atomic_file.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

namespace {

/// Nothing when there is no such file.
std::optional<std::string> read_file(const std::filesystem::path& p) {
  unique_fd fd{open(p.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd && errno == ENOENT)
    return std::nullopt;
  std::string out(limits::node_identity_bytes_max, '\0');
  auto n = fd ? read(fd.get(), out.data(), out.size()) : -1;
  if (n < 0)
    throw std::runtime_error("cannot read " + p.string() + ": " + std::strerror(errno));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

void write_file(const std::filesystem::path& p, const std::string& bytes) {
  if (auto error = replace_file(p, bytes))
    throw std::runtime_error("cannot write " + p.string() + ": " + error.message());
}

std::string host_name() {
  char buffer[256] = {};
  if (gethostname(buffer, sizeof buffer - 1) != 0)
    return "node";
  std::string name{buffer};
  return name.substr(0, std::min(name.find('.'), std::size_t{64}));
}

bool is_node_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

} // namespace

std::optional<node_identity> parse_identity(std::string_view text) {
  auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("id") || !j["id"].is_string())
    return std::nullopt;
  node_identity out;
  out.id = j["id"].get<std::string>();
  // A name that cannot be one is replaced, an id is not.
  if (auto name = j.find("name"); name != j.end() && name->is_string())
    out.name = name->get<std::string>();
  return is_plain_name(out.id) ? std::optional{std::move(out)} : std::nullopt;
}

node_identity load_identity(const state_dir& dir, const std::string& name) {
  if (!name.empty() && !is_node_name(name))
    throw std::runtime_error("a node name has 1 to 64 letters, digits, dots, dashes or underscores");
  node_identity out;
  if (auto text = read_file(dir.node_file())) {
    auto stored = parse_identity(*text);
    if (!stored)
      throw std::runtime_error(dir.node_file().string() +
                               " is damaged; restore it from a backup or move it away to make a new node of this directory");
    out = std::move(*stored);
  }
  auto fresh = out.id.empty();
  if (fresh)
    out.id = random_uuid();
  auto wanted = !name.empty() ? name : is_node_name(out.name) ? out.name : is_node_name(host_name()) ? host_name() : "node";
  if (fresh || wanted != out.name) {
    out.name = wanted;
    write_file(dir.node_file(), nlohmann::json{{"id", out.id}, {"name", out.name}}.dump(2) + "\n");
  }
  auto key_file = dir.root / "node.key";
  out.key = read_file(key_file).value_or("");
  if (out.key.size() != 32) {
    out.key = random_bytes(32);
    write_file(key_file, out.key);
  }
  return out;
}

} // namespace swarm
