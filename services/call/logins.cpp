#include "services/call/logins.hpp"

#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/text.hpp"
#include "services/security/passphrase.hpp"
#include "services/security/private_file.hpp"

namespace swarm {

namespace {

constexpr std::size_t hash_bytes_max = 256;
constexpr std::int64_t minute_ms = 60'000;

} // namespace

bool login_registry::any() const {
  std::lock_guard guard{mutex_};
  return !until_ms_.empty();
}

bool login_registry::is_person(const kernel_session& session) const {
  std::lock_guard guard{mutex_};
  auto i = until_ms_.find(session);
  return i != until_ms_.end() && boot_ms_() < i->second;
}

security_result<std::string> login_registry::stored_hash() const {
  auto file = read_private_file(hash_file_, hash_bytes_max);
  if (!file)
    return file.failure();
  return *file ? std::string{(**file).view()} : std::string{};
}

bool login_registry::has_passphrase() const {
  auto hash = stored_hash();
  return hash && !hash->empty();
}

bool login_registry::too_many_wrong(const kernel_session& session) {
  std::lock_guard guard{mutex_};
  const auto since = boot_ms_() - minute_ms;
  std::erase_if(wrong_, [&](const auto& w) { return w.first <= since; });
  const auto here = std::count_if(wrong_.begin(), wrong_.end(), [&](const auto& w) { return w.second == session; });
  return wrong_.size() >= limits::login_wrong_max || static_cast<std::size_t>(here) >= limits::login_wrong_per_terminal_max;
}

std::optional<security_failure> login_registry::check(const kernel_session& session, std::string_view passphrase) {
  auto hash = stored_hash();
  if (!hash)
    return hash.failure();
  if (hash->empty())
    return security_failure{security_error::wrong_state, "there is no passphrase to log in with; at a terminal of yours: swarmctl login --set"};
  if (too_many_wrong(session))
    return security_failure{security_error::too_many_attempts, "too many wrong passphrases; wait a minute, or use another terminal"};
  if (is_passphrase_of(*hash, passphrase))
    return std::nullopt;
  std::lock_guard guard{mutex_};
  wrong_.emplace_back(boot_ms_(), session);
  log::warn({"a wrong passphrase for `swarmctl login` from the terminal of process ", session.leader});
  return security_failure{security_error::wrong_passphrase, "the passphrase is wrong"};
}

security_result<std::int64_t> login_registry::login(const kernel_session& session, std::string_view passphrase) {
  std::lock_guard one_at_a_time{checking_};
  if (auto wrong = check(session, passphrase))
    return *wrong;
  std::lock_guard guard{mutex_};
  const auto now = boot_ms_();
  std::erase_if(until_ms_, [&](const auto& u) { return u.second <= now; });
  if (until_ms_.size() >= limits::logins_max && !until_ms_.contains(session))
    until_ms_.erase(std::min_element(until_ms_.begin(), until_ms_.end(), [](const auto& a, const auto& b) { return a.second < b.second; }));
  until_ms_[session] = now + limits::login_lifetime.count();
  log::info({"the terminal of process ", session.leader, " is logged in"});
  return limits::login_lifetime.count();
}

bool login_registry::logout(const kernel_session& session) {
  std::lock_guard guard{mutex_};
  auto node = until_ms_.extract(session);
  return !node.empty() && boot_ms_() < node.mapped();
}

std::size_t login_registry::logout_all() {
  std::lock_guard guard{mutex_};
  const auto now = boot_ms_();
  const auto valid = std::count_if(until_ms_.begin(), until_ms_.end(), [&](const auto& u) { return now < u.second; });
  until_ms_.clear();
  return static_cast<std::size_t>(valid);
}

std::optional<security_failure> login_registry::set_passphrase(const kernel_session& from, std::string_view former, std::string_view fresh) {
  if (!fresh.empty() && fresh.size() < limits::login_passphrase_bytes_min)
    return security_failure{security_error::malformed, concat({"a passphrase has at least ", limits::login_passphrase_bytes_min, " bytes"})};
  if (std::max(fresh.size(), former.size()) > limits::passphrase_bytes_max)
    return security_failure{security_error::malformed, "the passphrase is longer than 1 KiB"};
  std::lock_guard one_at_a_time{checking_};
  if (has_passphrase())
    if (auto wrong = check(from, former))
      return wrong;
  if (fresh.empty()) {
    if (auto failed = remove_private_file(hash_file_))
      return failed;
  } else {
    auto hash = hash_passphrase(fresh);
    if (!hash)
      return hash.failure();
    if (auto failed = write_private_file(hash_file_, *hash))
      return failed;
  }
  logout_all();
  return std::nullopt;
}

} // namespace swarm
