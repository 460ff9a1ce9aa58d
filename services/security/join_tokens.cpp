#include "services/security/join_tokens.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/security/certificate.hpp"
#include "services/security/join_token.hpp"
#include "services/security/private_file.hpp"

namespace swarm {

namespace {

using json = nlohmann::json;

constexpr std::size_t file_bytes_max = 64 * limits::kib;
constexpr std::int64_t minute_ms = 60'000;

security_failure damaged(const std::filesystem::path& file) {
  return {security_error::malformed, file.string() + " is damaged: remove it, and make new join tokens"};
}

/// Of the right length, or nothing.
std::string bytes_of(const json& j, const char* name, std::size_t n) {
  auto found = j.find(name);
  auto out = found != j.end() && found->is_string() ? from_hex(found->get_ref<const std::string&>()) : std::string{};
  return out.size() == n ? out : std::string{};
}

} // namespace

security_result<std::unique_ptr<join_tokens>> join_tokens::open(const std::filesystem::path& directory) {
  std::unique_ptr<join_tokens> out{new join_tokens{directory / "join-tokens.json"}};
  auto text = read_private_file(out->file_, file_bytes_max);
  if (!text)
    return text.failure();
  if (!*text)
    return out;
  auto all = json::parse((*text)->view(), nullptr, false);
  if (!all.is_array() || all.size() > limits::join_tokens_remembered_max)
    return damaged(out->file_);
  for (const auto& j : all) {
    if (!j.is_object())
      return damaged(out->file_);
    auto expires = j.find("expires_ms");
    entry e{bytes_of(j, "id", join_token_id_bytes), bytes_of(j, "secret_sha256", 32), 0, bytes_of(j, "claimant", 32)};
    if (e.id.empty() || e.key_hash.empty() || expires == j.end() || !expires->is_number_integer() || (e.claimant.empty() && j.contains("claimant")))
      return damaged(out->file_);
    e.expires_ms = expires->get<std::int64_t>();
    out->entries_.push_back(std::move(e));
  }
  return out;
}

std::optional<security_failure> join_tokens::store(const std::vector<entry>& entries) const {
  auto all = json::array();
  for (const auto& e : entries) {
    json j{{"id", to_hex(e.id)}, {"secret_sha256", to_hex(e.key_hash)}, {"expires_ms", e.expires_ms}};
    if (!e.claimant.empty())
      j["claimant"] = to_hex(e.claimant);
    all.push_back(std::move(j));
  }
  return write_private_file(file_, all.dump(1) + "\n");
}

security_result<join_tokens::made> join_tokens::create(std::int64_t ttl_ms, std::int64_t now_ms) {
  if (ttl_ms == 0)
    ttl_ms = limits::join_token_lifetime.count();
  if (ttl_ms < 0 || ttl_ms > limits::join_token_lifetime_max.count())
    return security_failure{security_error::malformed,
                            "a join token is valid for at most " + std::to_string(limits::join_token_lifetime_max / limits::hours{1}) + " hours"};
  std::lock_guard lock{mutex_};
  auto open = [now_ms](const entry& e) { return e.expires_ms > now_ms && e.claimant.empty(); };
  if (static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), open)) >= limits::join_tokens_max)
    return security_failure{security_error::too_many, "there are " + std::to_string(limits::join_tokens_max) +
                                                        " join tokens already that nobody has used: use one, or wait until one has expired"};
  auto id = random_bytes(join_token_id_bytes);
  auto key = secret::of_size(join_token_secret_bytes);
  fill_random(key);
  auto entries = entries_;
  while (entries.size() >= limits::join_tokens_remembered_max)
    entries.erase(std::find_if_not(entries.begin(), entries.end(), open));
  entries.push_back({id, sha256(key.view()), now_ms + ttl_ms, {}});
  if (auto wrong = store(entries))
    return *wrong;
  entries_ = std::move(entries);
  return made{std::move(id), std::move(key), now_ms + ttl_ms};
}

/// Under the mutex. The secret first: of anything else only who has it is told.
security_result<join_tokens::claim> join_tokens::look(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der,
                                                      std::int64_t now_ms) {
  // Also those of later: the clock was set back, and nobody is to wait for it.
  std::erase_if(refused_ms_, [now_ms](std::int64_t t) { return t <= now_ms - minute_ms || t > now_ms; });
  if (refused_ms_.size() >= limits::join_attempts_per_minute_max)
    return security_failure{security_error::too_many_attempts, "too many wrong tokens were tried in the last minute: try again in a minute"};
  auto found = std::find_if(entries_.begin(), entries_.end(), [id](const entry& e) { return e.id == id; });
  // One answer for both: who guesses learns nothing of which ids there are.
  if (found == entries_.end() || !equal_secrets(sha256(key), found->key_hash)) {
    refused_ms_.push_back(now_ms);
    return security_failure{security_error::unknown_token, "the home knows no such join token: make a new one with `swarmctl join-token create`"};
  }
  if (now_ms >= found->expires_ms)
    return security_failure{security_error::expired, "the join token has expired: make a new one with `swarmctl join-token create`"};
  if (!is_node_id(node_id))
    return security_failure{security_error::malformed, "the id of a node must be a UUID in lower case"};
  auto asked_for = csr_public_key(csr_der);
  if (!asked_for)
    return asked_for.failure();
  auto claimant = sha256(std::string{node_id} + *asked_for);
  if (!found->claimant.empty() && found->claimant != claimant)
    return security_failure{security_error::used_token,
                            "another node has joined with this token: make a new one with `swarmctl join-token create`. If none of yours has, "
                            "somebody else has the token: see `swarmctl nodes`, and revoke what is not yours"};
  return claim{static_cast<std::size_t>(found - entries_.begin()), std::move(claimant)};
}

security_result<bool> join_tokens::check(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der,
                                         std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  auto found = look(id, key, node_id, csr_der, now_ms);
  if (!found)
    return found.failure();
  return !entries_[found->at].claimant.empty();
}

std::optional<security_failure> join_tokens::redeem(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der,
                                                    std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  auto found = look(id, key, node_id, csr_der, now_ms);
  if (!found)
    return found.failure();
  if (!entries_[found->at].claimant.empty())
    return std::nullopt;
  auto entries = entries_;
  entries[found->at].claimant = std::move(found->claimant);
  if (auto wrong = store(entries))
    return wrong;
  entries_ = std::move(entries);
  return std::nullopt;
}

std::int64_t join_tokens::open_until(std::int64_t now_ms) const {
  std::lock_guard lock{mutex_};
  std::int64_t out = 0;
  for (const auto& e : entries_)
    if (e.expires_ms > now_ms)
      out = std::max(out, e.expires_ms);
  return out;
}

} // namespace swarm
