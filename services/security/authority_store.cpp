#include "services/security/authority_store.hpp"

#include <algorithm>
#include <limits>
#include <system_error>

#include <nlohmann/json.hpp>

#include "actors/base/limits.hpp"
#include "services/security/join_token.hpp"
#include "services/security/private_file.hpp"

namespace swarm {

namespace {

using json = nlohmann::json;

constexpr auto facts_file = "cluster.json"; // the last that is written and the first that goes: without it there is nothing
constexpr auto authority_file = "ca.crt";
constexpr auto authority_key_file = "ca.key";
constexpr auto certificate_file = "node.crt";
constexpr auto node_key_file = "node.key";
constexpr auto revoked_file = "revoked.json";

constexpr std::size_t file_bytes_max = 64 * limits::kib;
constexpr std::size_t revoked_bytes_max = 1 * limits::mib;
constexpr std::int64_t for_good = std::numeric_limits<std::int64_t>::max();

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= limits::node_name_bytes_max && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

bool is_address_or_none(std::string_view text) { return text.empty() || parse_address(text); }

bool make_sense(const cluster_facts& f) {
  return is_node_id(f.cluster_id) && is_node_id(f.node_id) && is_node_id(f.home_id) && is_name(f.home_name) && parse_address(f.home_address) &&
         is_address_or_none(f.listen);
}

security_failure no_sense() {
  return {security_error::malformed, "ids must be UUIDs, names of nodes 1 to 64 letters, digits, dots, dashes or underscores, addresses host:port"};
}

security_failure damaged(const std::filesystem::path& file, const std::string& why) {
  return {security_error::malformed,
          file.string() + ": " + why + "; restore the directory from a backup, or move it away and join the cluster again"};
}

security_failure in_none() { return {security_error::wrong_state, "this node is in no cluster"}; }
security_failure in_one() { return {security_error::wrong_state, "this node is in a cluster already"}; }
security_failure not_home() { return {security_error::wrong_state, "only the home of the cluster can do that"}; }

std::optional<cluster_facts> parse_facts(std::string_view text) {
  auto j = json::parse(text, nullptr, false);
  if (!j.is_object())
    return std::nullopt;
  auto value = [&j](const char* name) {
    auto found = j.find(name);
    return found != j.end() && found->is_string() ? found->get<std::string>() : std::string{};
  };
  cluster_facts f{value("cluster_id"), value("node_id"), value("home_id"), value("home_name"), value("home_address"), value("listen")};
  return make_sense(f) ? std::optional{std::move(f)} : std::nullopt;
}

std::string text_of(const cluster_facts& f) {
  return json{{"cluster_id", f.cluster_id}, {"node_id", f.node_id},           {"home_id", f.home_id},
              {"home_name", f.home_name},   {"home_address", f.home_address}, {"listen", f.listen}}
           .dump(2) +
         "\n";
}

std::optional<security_failure> write_certificate(const std::filesystem::path& file, std::string_view der) {
  auto pem = certificate_to_pem(der);
  if (!pem)
    return pem.failure();
  return write_private_file(file, *pem);
}

/// A file that every node of a cluster needs.
security_result<secret> read_needed(const std::filesystem::path& file) {
  auto bytes = read_private_file(file, file_bytes_max);
  if (!bytes)
    return bytes.failure();
  if (!*bytes)
    return damaged(file, "the file is missing");
  return **std::move(bytes);
}

security_result<std::string> read_certificate_file(const std::filesystem::path& file) {
  auto pem = read_needed(file);
  if (!pem)
    return pem.failure();
  auto der = certificate_from_pem(pem->view());
  if (!der)
    return damaged(file, der.failure().text);
  return der;
}

/// Of this node and its key, made by this authority, and counting at that time.
security_result<certificate_info> check_own(std::string_view der, std::string_view authority_der, const std::string& node_id, const key_pair& key,
                                            std::int64_t now_ms) {
  auto id = verify_node_certificate(der, authority_der, now_ms);
  if (!id)
    return id.failure();
  auto info = read_certificate(der);
  if (!info)
    return info.failure();
  if (*id != node_id || info->public_key != key.public_key())
    return security_failure{security_error::wrong_key, "the certificate is not for this node and its key"};
  return info;
}

} // namespace

security_result<std::unique_ptr<authority_store>> authority_store::open(const std::filesystem::path& directory) {
  if (auto wrong = prepare_private_directory(directory))
    return *wrong;
  std::unique_ptr<authority_store> out{new authority_store{directory}};
  if (auto wrong = out->load())
    return *wrong;
  return out;
}

std::optional<security_failure> authority_store::load() {
  auto text = read_private_file(directory_ / facts_file, file_bytes_max);
  if (!text)
    return text.failure();
  if (!*text)
    return std::nullopt;
  auto facts = parse_facts((*text)->view());
  if (!facts)
    return damaged(directory_ / facts_file, "the file is damaged");
  auto ca = read_certificate_file(directory_ / authority_file);
  if (!ca)
    return ca.failure();
  auto certificate = read_certificate_file(directory_ / certificate_file);
  if (!certificate)
    return certificate.failure();
  auto key = node_key();
  if (!key)
    return key.failure();
  auto said = read_certificate(*certificate);
  if (!said)
    return damaged(directory_ / certificate_file, said.failure().text);
  // Its readers decide whether it is still valid: an expired one can be renewed.
  auto info = check_own(*certificate, *ca, facts->node_id, *key, said->not_before_ms);
  if (!info)
    return damaged(directory_ / certificate_file, info.failure().text);
  kept found{*std::move(facts), *std::move(ca), *std::move(certificate), *std::move(info), false};
  auto sealed = read_private_file(directory_ / authority_key_file, file_bytes_max);
  if (!sealed)
    return sealed.failure();
  if (*sealed) {
    auto parsed = parse_sealed_key((*sealed)->view());
    if (!parsed)
      return security_failure{parsed.failure().code, (directory_ / authority_key_file).string() + ": " + parsed.failure().text};
    found.insecure = !parsed->encrypted;
  }
  if (auto wrong = load_revoked())
    return wrong;
  kept_ = std::move(found);
  return std::nullopt;
}

std::optional<security_failure> authority_store::load_revoked() {
  auto text = read_private_file(directory_ / revoked_file, revoked_bytes_max);
  if (!text)
    return text.failure();
  if (!*text)
    return std::nullopt;
  // A list that cannot be read must not let in whom it kept out.
  auto all = json::parse((*text)->view(), nullptr, false);
  if (!all.is_object())
    return damaged(directory_ / revoked_file, "the file is damaged");
  for (const auto& [id, at] : all.items()) {
    if (!is_node_id(id) || !at.is_number_integer())
      return damaged(directory_ / revoked_file, "the file is damaged");
    revoked_.emplace(id, at.get<std::int64_t>());
  }
  return std::nullopt;
}

security_result<key_pair> authority_store::node_key() const {
  auto pem = read_needed(directory_ / node_key_file);
  if (!pem)
    return pem.failure();
  auto key = key_pair::from_pem(pem->view());
  if (!key)
    return damaged(directory_ / node_key_file, key.failure().text);
  return key;
}

security_result<key_pair> authority_store::node_key_or_new() const {
  auto file = directory_ / node_key_file;
  auto there = read_private_file(file, file_bytes_max);
  if (!there)
    return there.failure();
  if (*there)
    return node_key();
  auto key = key_pair::generate();
  if (!key)
    return key;
  auto pem = key->to_pem();
  if (!pem)
    return pem.failure();
  if (auto wrong = write_private_file(file, pem->view()))
    return *wrong;
  return key;
}

std::optional<cluster_facts> authority_store::facts() const {
  std::lock_guard lock{mutex_};
  return kept_ ? std::optional{kept_->facts} : std::nullopt;
}

security_result<secret> authority_store::found(const cluster_facts& facts, std::optional<std::string_view> passphrase, std::int64_t now_ms,
                                               seal_cost cost) {
  std::lock_guard lock{mutex_};
  if (kept_)
    return in_one();
  if (!make_sense(facts) || !facts.is_home())
    return no_sense();
  auto made = authority::create(facts.cluster_id, now_ms);
  if (!made)
    return made.failure();
  auto sealed = passphrase ? seal_key(made->key(), *passphrase, cost) : write_key_unsealed(made->key());
  if (!sealed)
    return sealed;
  auto key = node_key_or_new();
  if (!key)
    return key.failure();
  auto csr = make_csr(*key, node_dns_name(facts.node_id));
  if (!csr)
    return csr.failure();
  auto certificate = made->issue(*csr, facts.node_id, now_ms);
  if (!certificate)
    return certificate.failure();
  auto info = check_own(*certificate, made->certificate(), facts.node_id, *key, now_ms);
  if (!info)
    return info.failure();
  auto wrong = remove_private_file(directory_ / revoked_file);
  if (!wrong)
    wrong = write_private_file(directory_ / authority_key_file, sealed->view());
  if (!wrong)
    wrong = write_cluster(facts, made->certificate(), *certificate);
  if (wrong)
    return *wrong;
  revoked_.clear();
  kept_ = kept{facts, made->certificate(), *std::move(certificate), *std::move(info), !passphrase};
  authority_ = *std::move(made);
  unlocked_at_ms_ = now_ms;
  return passphrase ? std::move(sealed) : security_result<secret>{secret{}};
}

std::optional<security_failure> authority_store::write_cluster(const cluster_facts& facts, std::string_view authority_der,
                                                               std::string_view certificate_der) const {
  auto wrong = write_certificate(directory_ / authority_file, authority_der);
  if (!wrong)
    wrong = write_certificate(directory_ / certificate_file, certificate_der);
  if (!wrong)
    wrong = write_private_file(directory_ / facts_file, text_of(facts));
  return wrong;
}

security_result<std::string> authority_store::request_certificate(std::string_view node_id) {
  std::lock_guard lock{mutex_};
  if (!is_node_id(node_id))
    return no_sense();
  auto key = node_key_or_new();
  if (!key)
    return key.failure();
  return make_csr(*key, node_dns_name(node_id));
}

std::optional<security_failure> authority_store::join(const cluster_facts& facts, std::string_view certificate_der, std::string_view authority_der,
                                                      std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  if (kept_)
    return in_one();
  if (!make_sense(facts) || facts.is_home())
    return no_sense();
  auto key = node_key();
  if (!key)
    return key.failure();
  auto info = check_own(certificate_der, authority_der, facts.node_id, *key, now_ms);
  if (!info)
    return info.failure();
  auto wrong = remove_private_file(directory_ / revoked_file);
  if (!wrong)
    wrong = remove_private_file(directory_ / authority_key_file);
  if (!wrong)
    wrong = write_cluster(facts, authority_der, certificate_der);
  if (wrong)
    return wrong;
  revoked_.clear();
  kept_ = kept{facts, std::string{authority_der}, std::string{certificate_der}, *std::move(info), false};
  return std::nullopt;
}

std::optional<security_failure> authority_store::renew(std::string_view certificate_der, std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  if (!kept_)
    return in_none();
  auto key = node_key();
  if (!key)
    return key.failure();
  auto info = check_own(certificate_der, kept_->authority_der, kept_->facts.node_id, *key, now_ms);
  if (!info)
    return info.failure();
  if (auto wrong = write_certificate(directory_ / certificate_file, certificate_der))
    return wrong;
  kept_->certificate_der = certificate_der;
  kept_->certificate = *std::move(info);
  return std::nullopt;
}

bool authority_store::renewal_due(std::int64_t now_ms) const {
  std::lock_guard lock{mutex_};
  return kept_ && now_ms >= kept_->certificate.not_after_ms - limits::node_certificate_renewal().count();
}

std::optional<security_failure> authority_store::set_listen(const std::string& address) {
  std::lock_guard lock{mutex_};
  if (!kept_)
    return in_none();
  auto facts = kept_->facts;
  facts.listen = address;
  if (facts.is_home())
    facts.home_address = address;
  return change(std::move(facts));
}

std::optional<security_failure> authority_store::change(cluster_facts facts) {
  if (!make_sense(facts))
    return no_sense();
  if (auto wrong = write_private_file(directory_ / facts_file, text_of(facts)))
    return wrong;
  kept_->facts = std::move(facts);
  return std::nullopt;
}

std::optional<security_failure> authority_store::leave(bool home_is_told) {
  std::lock_guard lock{mutex_};
  if (home_is_told || !kept_)
    if (auto wrong = remove_private_file(directory_ / facts_file))
      return wrong;
  const bool keep = !home_is_told && kept_;
  kept_.reset();
  authority_.reset();
  revoked_.clear();
  // Aside first: the node may be writing down what it knows of the others, and a file that appears meanwhile would keep the directory.
  const auto aside = left();
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  if (!error)
    std::filesystem::rename(directory_, aside, error);
  if (!error && !keep)
    std::filesystem::remove_all(aside, error);
  if (error)
    return security_failure{security_error::storage, "cannot remove " + directory_.string() + ": " + error.message()};
  return prepare_private_directory(directory_);
}

security_result<node_credentials> authority_store::credentials() const {
  std::lock_guard lock{mutex_};
  if (!kept_)
    return in_none();
  auto key = read_needed(directory_ / node_key_file);
  if (!key)
    return key.failure();
  auto own = certificate_to_pem(kept_->certificate_der);
  if (!own)
    return own.failure();
  auto ca = certificate_to_pem(kept_->authority_der);
  if (!ca)
    return ca.failure();
  return node_credentials{*std::move(key), *own + *ca, *ca, kept_->authority_der, kept_->certificate};
}

bool authority_store::insecure() const {
  std::lock_guard lock{mutex_};
  return kept_ && kept_->insecure;
}

security_result<authority> authority_store::read_authority(const std::string& authority_der, std::string_view passphrase) const {
  auto file = directory_ / authority_key_file;
  auto text = read_private_file(file, file_bytes_max);
  if (!text)
    return text.failure();
  if (!*text)
    return security_failure{security_error::storage, "the authority's key is missing: put the recovery copy into " + file.string()};
  auto key = open_key((*text)->view(), passphrase);
  if (!key)
    return key.failure();
  return authority::from(authority_der, *std::move(key));
}

security_result<std::int64_t> authority_store::unlock(std::string_view passphrase, std::int64_t now_ms) {
  std::string authority_der;
  {
    std::lock_guard lock{mutex_};
    if (!kept_)
      return in_none();
    if (!kept_->facts.is_home())
      return not_home();
    authority_der = kept_->authority_der;
  }
  std::lock_guard one_at_a_time{unlocking_};
  auto opened = read_authority(authority_der, passphrase);
  if (!opened)
    return opened.failure();
  std::lock_guard lock{mutex_};
  // Meanwhile the node may have left.
  if (!kept_ || kept_->authority_der != authority_der)
    return in_none();
  authority_ = *std::move(opened);
  unlocked_at_ms_ = now_ms;
  return now_ms + limits::authority_unlocked.count();
}

void authority_store::lock() {
  std::lock_guard lock{mutex_};
  authority_.reset();
}

const authority* authority_store::unlocked(std::int64_t now_ms) {
  if (!kept_ || !kept_->facts.is_home())
    return nullptr;
  if (kept_->insecure) {
    if (!authority_)
      if (auto opened = read_authority(kept_->authority_der, {}))
        authority_ = *std::move(opened);
  } else if (now_ms >= unlocked_at_ms_ + limits::authority_unlocked.count() || now_ms < unlocked_at_ms_ - limits::clock_offset_warned.count()) {
    // A clock that was set back must not keep the key in memory for longer; one that is only being put right may.
    authority_.reset();
  }
  return authority_ ? &*authority_ : nullptr;
}

bool authority_store::locked(std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  return unlocked(now_ms) == nullptr;
}

std::int64_t authority_store::wipe_in_time(std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  if (!authority_ || kept_->insecure || !unlocked(now_ms))
    return 0;
  return unlocked_at_ms_ + limits::authority_unlocked.count() - now_ms;
}

security_result<std::string> authority_store::issue(std::string_view csr_der, std::string_view node_id, std::int64_t now_ms) {
  std::lock_guard lock{mutex_};
  if (!kept_)
    return in_none();
  if (!kept_->facts.is_home())
    return not_home();
  auto out = revoked_.find(std::string{node_id});
  if (out != revoked_.end() && out->second == for_good)
    return security_failure{security_error::revoked,
                            "this node was revoked and gets no certificate any more: it can come back with a new state directory"};
  const auto* by = unlocked(now_ms);
  if (!by)
    return security_failure{security_error::locked, "the cluster's authority is locked: `swarmctl ca unlock` at the home opens it for ten minutes"};
  // Certificates count whole seconds: one that was made in the second in which the last one was must not end with it.
  if (out != revoked_.end())
    now_ms = std::max<std::int64_t>(now_ms, out->second - limits::node_certificate_lifetime().count() + 1'000);
  return by->issue(csr_der, node_id, now_ms);
}

std::optional<security_failure> authority_store::revoke(const std::string& node_id, std::int64_t) { return put_out(node_id, for_good); }

std::optional<security_failure> authority_store::retire(const std::string& node_id, std::int64_t certificates_until_ms) {
  return put_out(node_id, certificates_until_ms);
}

std::optional<security_failure> authority_store::put_out(const std::string& node_id, std::int64_t certificates_until_ms) {
  std::lock_guard lock{mutex_};
  if (!kept_)
    return in_none();
  if (!kept_->facts.is_home())
    return not_home();
  if (!is_node_id(node_id))
    return no_sense();
  if (node_id == kept_->facts.node_id)
    return security_failure{security_error::wrong_state, "the home cannot revoke itself"};
  auto known = revoked_.find(node_id);
  if (known != revoked_.end() && known->second >= certificates_until_ms)
    return std::nullopt;
  if (known == revoked_.end() && revoked_.size() >= limits::revoked_nodes_max)
    return security_failure{security_error::too_many, "more nodes were revoked than a cluster remembers: make a new cluster"};
  auto all = revoked_;
  all[node_id] = certificates_until_ms;
  if (auto wrong = write_private_file(directory_ / revoked_file, json(all).dump(1) + "\n"))
    return wrong;
  revoked_ = std::move(all);
  return std::nullopt;
}

bool authority_store::revoked(const std::string& node_id) const {
  std::lock_guard lock{mutex_};
  auto i = revoked_.find(node_id);
  return i != revoked_.end() && i->second == for_good;
}

security_result<std::string> authority_store::verify(std::string_view certificate_der, std::int64_t now_ms) const {
  std::string authority_der;
  {
    std::lock_guard lock{mutex_};
    if (!kept_)
      return in_none();
    authority_der = kept_->authority_der;
  }
  auto id = verify_node_certificate(certificate_der, authority_der, now_ms);
  auto info = read_certificate(certificate_der);
  if (!id || !info)
    return id ? info.failure() : id.failure();
  std::lock_guard lock{mutex_};
  if (auto i = revoked_.find(*id); i != revoked_.end() && info->not_after_ms <= i->second)
    return security_failure{security_error::revoked,
                            i->second == for_good ? "this node was revoked from the cluster" : "this node has left the cluster; it can join again"};
  return id;
}

} // namespace swarm
