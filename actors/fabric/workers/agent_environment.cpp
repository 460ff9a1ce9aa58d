#include "actors/fabric/workers/agent_environment.hpp"

#include "actors/base/secrets.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

/// An editor ends a file with the end of a line, which is no part of a key.
std::string without_line_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  return text;
}

result<private_text, std::string> value_of(const std::string& text, const secret_store& secrets) {
  if (text.starts_with(secret_prefix))
    return secrets.read(text.substr(secret_prefix.size()));
  if (!text.starts_with(domain::path_prefix))
    return private_text{text};
  auto file = read_private_text(text.substr(domain::path_prefix.size()), false);
  return file ? private_text{without_line_end(std::move(file->bytes))} : file;
}

} // namespace

result<resolved_variables, std::string> resolve(const domain::variables& variables, const std::string& agent,
                                                const std::filesystem::path& directory) {
  const secret_store secrets{directory};
  resolved_variables out;
  for (const auto& [name, text] : variables) {
    auto value = value_of(text, secrets);
    if (!value)
      return concat({name, " of [agents.", agent, ".environment]: ", value.failure()});
    if (value->bytes.find('\0') != std::string::npos)
      return concat({name, " of [agents.", agent, ".environment]: the file holds a zero byte, which no variable can hold"});
    out.list.push_back(concat({name, "=", value->bytes}));
  }
  return out;
}

} // namespace swarm
