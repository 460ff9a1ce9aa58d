#include "services/security/authority_store.hpp"

#include <fstream>
#include <iterator>

#include <unistd.h>

#include "actors/base/limits.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;
namespace fs = std::filesystem;

namespace {

constexpr seal_cost cheap{1, 8};
const std::string passphrase = "correct horse battery";

cluster_facts of_home() { return {cluster_id, node_a, node_a, "a", "a.example:7420", "a.example:7420"}; }
cluster_facts of_member() { return {cluster_id, node_b, node_a, "a", "a.example:7420", ""}; }

struct place {
  fs::path path() const { return dir.path / "cluster"; }
  void open() { store = value_of(authority_store::open(path())); }
  std::string read(const char* name) const {
    std::ifstream in{path() / name, std::ios::binary};
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const char* name, const std::string& text) const {
    std::ofstream{path() / name, std::ios::binary} << text;
    fs::permissions(path() / name, fs::perms::owner_read | fs::perms::owner_write);
  }

  temp_dir dir;
  std::unique_ptr<authority_store> store;
};

struct home : place {
  explicit home(bool insecure = false) {
    open();
    recovery = value_of(store->found(of_home(), insecure ? std::nullopt : std::optional<std::string_view>{passphrase}, now_ms, cheap));
  }
  secret recovery;
};

struct member : place {
  explicit member(home& h) {
    open();
    auto csr = value_of(store->request_certificate(node_b));
    auto certificate = value_of(h.store->issue(csr, node_b, now_ms));
    auto why = store->join(of_member(), certificate, value_of(h.store->credentials()).authority_der, now_ms);
    if (why)
      FAIL(why->text);
  }
};

} // namespace

TEST_CASE("a founded cluster is there again after a restart, in files of their owner") {
  home h;
  CHECK(mode_of(h.path()) == 0700);
  for (const auto* name : {"cluster.json", "ca.crt", "ca.key", "node.crt", "node.key"})
    CHECK_MESSAGE(mode_of(h.path() / name) == 0600, name);
  auto before = value_of(h.store->credentials());
  CHECK(before.certificate.node_id == node_a);
  CHECK(before.chain_pem.ends_with(before.authority_pem));
  CHECK(value_of(certificate_from_pem(before.authority_pem)) == before.authority_der);
  h.open();
  auto facts = h.store->facts();
  REQUIRE(facts);
  CHECK(facts->cluster_id == cluster_id);
  CHECK(facts->is_home());
  CHECK(facts->home_name == "a");
  CHECK(facts->listen == "a.example:7420");
  auto after = value_of(h.store->credentials());
  CHECK(after.chain_pem == before.chain_pem);
  CHECK(after.key_pem.view() == before.key_pem.view());
  CHECK(value_of(h.store->verify(value_of(certificate_from_pem(after.chain_pem)), now_ms)) == node_a);
  CHECK(code_of(h.store->found(of_home(), passphrase, now_ms, cheap)) == security_error::wrong_state);
}

TEST_CASE("a directory without a cluster has none") {
  place p;
  p.open();
  CHECK(mode_of(p.path()) == 0700);
  CHECK(!p.store->facts());
  CHECK(!p.store->insecure());
  CHECK(p.store->locked(now_ms));
  CHECK(!p.store->renewal_due(now_ms));
  CHECK(code_of(p.store->credentials()) == security_error::wrong_state);
  CHECK(code_of(p.store->unlock(passphrase, now_ms)) == security_error::wrong_state);
  CHECK(code_of(p.store->issue(request_of(new_key()), node_b, now_ms)) == security_error::wrong_state);
  CHECK(code_of(p.store->verify("x", now_ms)) == security_error::wrong_state);
  CHECK(code_of(p.store->revoke(node_b, now_ms)) == security_error::wrong_state);
  CHECK(code_of(p.store->set_listen("a:1")) == security_error::wrong_state);
  CHECK(code_of(p.store->renew("x", now_ms)) == security_error::wrong_state);
}

TEST_CASE("the authority's key is in memory for ten minutes and not longer") {
  home h;
  auto csr = request_of(new_key());
  CHECK(!h.store->locked(now_ms)); // it was just made
  h.open();
  CHECK(h.store->locked(now_ms));
  CHECK(code_of(h.store->issue(csr, node_b, now_ms)) == security_error::locked);
  CHECK(code_of(h.store->unlock("wrong", now_ms)) == security_error::wrong_passphrase);
  CHECK(code_of(h.store->unlock("", now_ms)) == security_error::wrong_passphrase);
  CHECK(h.store->locked(now_ms));
  auto until = value_of(h.store->unlock(passphrase, now_ms));
  CHECK(until == now_ms + limits::authority_unlocked.count());
  CHECK(!h.store->locked(until - 1));
  CHECK(value_of(h.store->verify(value_of(h.store->issue(csr, node_b, until - 1)), until)) == node_b);
  CHECK(code_of(h.store->issue(csr, node_b, until)) == security_error::locked);
  // It is gone, not only reported as gone.
  CHECK(code_of(h.store->issue(csr, node_b, now_ms)) == security_error::locked);
  (void)value_of(h.store->unlock(passphrase, now_ms));
  CHECK(!h.store->locked(now_ms - 1000)); // a clock that is put right
  CHECK(h.store->locked(now_ms - day_ms));
  CHECK(h.store->locked(now_ms));
  (void)value_of(h.store->unlock(passphrase, now_ms));
  h.store->lock();
  CHECK(h.store->locked(now_ms));
}

TEST_CASE("a new cluster's key is locked ten minutes after it was made") {
  home h;
  CHECK(h.store->locked(now_ms + limits::authority_unlocked.count()));
  CHECK(value_of(h.store->unlock(passphrase, now_ms)) > now_ms);
}

TEST_CASE("a key that nobody asks for is wiped in time") {
  home h;
  const auto until = now_ms + limits::authority_unlocked.count();
  CHECK(h.store->wipe_in_time(now_ms) == limits::authority_unlocked.count());
  CHECK(h.store->wipe_in_time(until - 1) == 1);
  CHECK(!h.store->locked(now_ms));
  CHECK(h.store->wipe_in_time(until) == 0);
  CHECK(h.store->locked(now_ms)); // gone, not only reported as gone
  CHECK(h.store->wipe_in_time(now_ms) == 0);
  // The last unlocking applies.
  (void)value_of(h.store->unlock(passphrase, now_ms));
  (void)value_of(h.store->unlock(passphrase, now_ms + 1000));
  CHECK(h.store->wipe_in_time(until) == 1000);
  CHECK(!h.store->locked(until));
  CHECK(!h.store->leave());
  CHECK(h.store->wipe_in_time(until) == 0);
  home insecure{true};
  CHECK(insecure.store->wipe_in_time(now_ms) == 0);
  CHECK(!insecure.store->locked(until));
}

TEST_CASE("the recovery copy opens the authority when its key is lost") {
  home h;
  fs::remove(h.path() / "ca.key");
  h.open();
  auto missing = h.store->unlock(passphrase, now_ms);
  CHECK(code_of(missing) == security_error::storage);
  CHECK(missing.failure().text.find((h.path() / "ca.key").string()) != std::string::npos);
  h.write("ca.key", std::string{h.recovery.view()});
  CHECK(h.store->unlock(passphrase, now_ms));
  // Another cluster's copy, with the same passphrase, does not.
  home other;
  h.write("ca.key", std::string{other.recovery.view()});
  CHECK(code_of(h.store->unlock(passphrase, now_ms)) == security_error::wrong_key);
}

TEST_CASE("an insecure authority is never locked, and says what it is") {
  home h{true};
  CHECK(h.recovery.empty());
  CHECK(h.store->insecure());
  CHECK(h.read("ca.key").find("NOT ENCRYPTED") != std::string::npos);
  h.open();
  CHECK(h.store->insecure());
  CHECK(!h.store->locked(now_ms));
  CHECK(!h.store->locked(now_ms + 100 * day_ms));
  CHECK(h.store->issue(request_of(new_key()), node_b, now_ms));
  home secure;
  CHECK(!secure.store->insecure());
  secure.open();
  CHECK(!secure.store->insecure());
}

TEST_CASE("a member has a certificate and no authority") {
  home h;
  member m{h};
  m.open();
  auto facts = m.store->facts();
  REQUIRE(facts);
  CHECK(!facts->is_home());
  CHECK(facts->home_address == "a.example:7420");
  CHECK(!fs::exists(m.path() / "ca.key"));
  CHECK(m.store->locked(now_ms));
  CHECK(code_of(m.store->unlock(passphrase, now_ms)) == security_error::wrong_state);
  CHECK(code_of(m.store->issue(request_of(new_key()), node_a, now_ms)) == security_error::wrong_state);
  CHECK(code_of(m.store->revoke(node_a, now_ms)) == security_error::wrong_state);
  // Each believes the other.
  CHECK(value_of(m.store->verify(value_of(certificate_from_pem(value_of(h.store->credentials()).chain_pem)), now_ms)) == node_a);
  CHECK(value_of(h.store->verify(value_of(certificate_from_pem(value_of(m.store->credentials()).chain_pem)), now_ms)) == node_b);
  home other;
  CHECK(code_of(other.store->verify(value_of(certificate_from_pem(value_of(m.store->credentials()).chain_pem)), now_ms)) ==
        security_error::other_cluster);
}

TEST_CASE("a join that was cut short goes on with the same key") {
  home h;
  place p;
  p.open();
  auto first = value_of(csr_public_key(value_of(p.store->request_certificate(node_b))));
  p.open();
  CHECK(value_of(csr_public_key(value_of(p.store->request_certificate(node_b)))) == first);
  CHECK(!p.store->facts());
}

TEST_CASE("a node joins only with a certificate for itself and its key, of the authority that it was told") {
  home h, other;
  place p;
  p.open();
  auto ca = value_of(h.store->credentials()).authority_der;
  auto csr = value_of(p.store->request_certificate(node_b));
  auto issue = [](home& by, const std::string& what, const std::string& id) { return value_of(by.store->issue(what, id, now_ms)); };
  CHECK(code_of(p.store->join(of_member(), issue(h, csr, "cccccccc-0000-4000-8000-00000000000c"), ca, now_ms)) == security_error::wrong_key);
  CHECK(code_of(p.store->join(of_member(), issue(h, request_of(new_key()), node_b), ca, now_ms)) == security_error::wrong_key);
  CHECK(code_of(p.store->join(of_member(), issue(other, csr, node_b), ca, now_ms)) == security_error::other_cluster);
  CHECK(code_of(p.store->join(of_member(), "x", ca, now_ms)) == security_error::malformed);
  CHECK(code_of(p.store->join(of_member(), issue(h, csr, node_b), ca, now_ms + 400 * day_ms)) == security_error::expired);
  auto facts = of_member();
  facts.home_address = "nowhere";
  CHECK(code_of(p.store->join(facts, issue(h, csr, node_b), ca, now_ms)) == security_error::malformed);
  facts = of_member();
  facts.home_name = "a b";
  CHECK(code_of(p.store->join(facts, issue(h, csr, node_b), ca, now_ms)) == security_error::malformed);
  CHECK(!p.store->facts());
  CHECK(!fs::exists(p.path() / "cluster.json"));
  CHECK(!p.store->join(of_member(), issue(h, csr, node_b), ca, now_ms));
  CHECK(code_of(p.store->join(of_member(), issue(h, csr, node_b), ca, now_ms)) == security_error::wrong_state);
}

TEST_CASE("a certificate is renewed in time, for the same key") {
  home h;
  member m{h};
  auto ends = value_of(m.store->credentials()).certificate.not_after_ms;
  auto due = ends - limits::node_certificate_renewal().count();
  CHECK(!m.store->renewal_due(due - 1));
  CHECK(m.store->renewal_due(due));
  (void)value_of(h.store->unlock(passphrase, due));
  auto csr = value_of(m.store->request_certificate(node_b));
  CHECK(code_of(m.store->renew(value_of(h.store->issue(request_of(new_key()), node_b, due)), due)) == security_error::wrong_key);
  CHECK(code_of(m.store->renew(value_of(h.store->issue(csr, node_a, due)), due)) == security_error::wrong_key);
  CHECK(!m.store->renew(value_of(h.store->issue(csr, node_b, due)), due));
  CHECK(!m.store->renewal_due(due));
  m.open();
  CHECK(value_of(m.store->credentials()).certificate.not_after_ms == due + limits::node_certificate_lifetime().count());
}

TEST_CASE("a node whose certificate has expired starts and can be renewed") {
  home h;
  member m{h};
  auto late = now_ms + 400 * day_ms;
  m.open();
  CHECK(m.store->facts());
  CHECK(code_of(m.store->verify(value_of(certificate_from_pem(value_of(m.store->credentials()).chain_pem)), late)) == security_error::expired);
  (void)value_of(h.store->unlock(passphrase, late));
  CHECK(!m.store->renew(value_of(h.store->issue(value_of(m.store->request_certificate(node_b)), node_b, late)), late));
  CHECK(value_of(m.store->verify(value_of(certificate_from_pem(value_of(m.store->credentials()).chain_pem)), late)) == node_b);
}

TEST_CASE("a revoked node is out for good, restarts or not") {
  home h;
  member m{h};
  auto certificate = value_of(certificate_from_pem(value_of(m.store->credentials()).chain_pem));
  CHECK(value_of(h.store->verify(certificate, now_ms)) == node_b);
  CHECK(!h.store->revoked(node_b));
  CHECK(!h.store->revoke(node_b, now_ms));
  CHECK(!h.store->revoke(node_b, now_ms + 1)); // again
  for (int round = 0; round < 2; ++round) {
    CHECK(h.store->revoked(node_b));
    CHECK(!h.store->revoked(node_a));
    CHECK(code_of(h.store->verify(certificate, now_ms)) == security_error::revoked);
    (void)value_of(h.store->unlock(passphrase, now_ms));
    CHECK(code_of(h.store->issue(request_of(new_key()), node_b, now_ms)) == security_error::revoked);
    CHECK(h.store->issue(request_of(new_key()), "cccccccc-0000-4000-8000-00000000000c", now_ms));
    h.open();
  }
  CHECK(mode_of(h.path() / "revoked.json") == 0600);
  CHECK(code_of(h.store->revoke(node_a, now_ms)) == security_error::wrong_state);
  CHECK(code_of(h.store->revoke("no id", now_ms)) == security_error::malformed);
  h.write("revoked.json", "[]");
  CHECK(code_of(authority_store::open(h.path())) == security_error::malformed);
}

TEST_CASE("a node that leaves and comes again within a second has a valid certificate, and the one before is revoked") {
  home h;
  auto issued = [&](std::int64_t at) { return value_of(h.store->issue(request_of(new_key()), node_b, at)); };
  auto first = issued(now_ms);
  CHECK(!h.store->retire(node_b, value_of(read_certificate(first)).not_after_ms));
  auto second = issued(now_ms + 1);
  CHECK(value_of(h.store->verify(second, now_ms + 1)) == node_b);
  CHECK(code_of(h.store->verify(first, now_ms + 1)) == security_error::revoked);
  CHECK(!h.store->retire(node_b, value_of(read_certificate(second)).not_after_ms));
  auto third = issued(now_ms + 2);
  CHECK(value_of(h.store->verify(third, now_ms + 2)) == node_b);
  CHECK(code_of(h.store->verify(second, now_ms + 2)) == security_error::revoked);
}

TEST_CASE("addresses change, and only to addresses") {
  home h;
  CHECK(!h.store->set_listen("b.example:1"));
  CHECK(code_of(h.store->set_listen("")) == security_error::malformed); // members look for the home there
  CHECK(code_of(h.store->set_listen("nowhere")) == security_error::malformed);
  h.open();
  CHECK(h.store->facts()->listen == "b.example:1");
  CHECK(h.store->facts()->home_address == "b.example:1");
  (void)value_of(h.store->unlock(passphrase, now_ms));
  member m{h};
  CHECK(!m.store->set_listen("[::1]:5"));
  CHECK(!m.store->set_listen(""));
  m.open();
  CHECK(m.store->facts()->listen.empty());
  CHECK(m.store->facts()->home_address == "a.example:7420"); // as it was told when it joined
}

TEST_CASE("a node that leaves keeps nothing and can join again") {
  home h;
  member m{h};
  CHECK(!m.store->leave());
  CHECK(!m.store->facts());
  CHECK(fs::is_empty(m.path()));
  m.open();
  CHECK(!m.store->facts());
  auto csr = value_of(m.store->request_certificate(node_b));
  CHECK(!m.store->join(of_member(), value_of(h.store->issue(csr, node_b, now_ms)), value_of(h.store->credentials()).authority_der, now_ms));
  CHECK(!h.store->leave());
  CHECK(h.store->locked(now_ms));
  CHECK(h.store->found(of_home(), passphrase, now_ms, cheap));
}

TEST_CASE("a founding that was cut short is begun again") {
  home h;
  fs::remove(h.path() / "cluster.json"); // the last that is written
  h.open();
  CHECK(!h.store->facts());
  CHECK(h.store->found(of_home(), passphrase, now_ms, cheap));
  h.open();
  CHECK(h.store->facts());
}

TEST_CASE("a founding that cannot be written fails") {
  place p;
  p.open();
  fs::create_directories(p.path() / "ca.crt" / "x"); // in the way of the file
  CHECK(code_of(p.store->found(of_home(), passphrase, now_ms, cheap)) == security_error::storage);
  CHECK(!p.store->facts());
  CHECK(!fs::exists(p.path() / "cluster.json"));
  auto facts = of_home();
  facts.home_address = "";
  CHECK(code_of(p.store->found(facts, passphrase, now_ms, cheap)) == security_error::malformed);
  CHECK(code_of(p.store->found(of_home(), "", now_ms, cheap)) == security_error::wrong_passphrase);
}

TEST_CASE("files that do not fit together are refused by name") {
  home h, other;
  auto refused_for = [&](const char* name, const std::string& text) {
    auto before = h.read(name);
    h.write(name, text);
    auto opened = authority_store::open(h.path());
    h.write(name, before);
    return !opened && opened.failure().text.find(h.path().string()) != std::string::npos;
  };
  CHECK(refused_for("node.key", other.read("node.key")));
  CHECK(refused_for("node.crt", other.read("node.crt")));
  CHECK(refused_for("ca.crt", other.read("ca.crt")));
  CHECK(refused_for("ca.key", "x"));
  for (const auto* name : {"cluster.json", "node.key", "node.crt", "ca.crt"})
    for (const auto& text : {std::string{}, std::string{"x"}, std::string(100'000, 'x'), h.read(name).substr(0, h.read(name).size() / 2)})
      CHECK_MESSAGE(refused_for(name, text), name);
  CHECK(authority_store::open(h.path()));
  for (const auto* name : {"node.key", "node.crt", "ca.crt"}) {
    auto before = h.read(name);
    fs::remove(h.path() / name);
    CHECK_MESSAGE(!authority_store::open(h.path()), name);
    h.write(name, before);
  }
  CHECK(authority_store::open(h.path()));
}

TEST_CASE("keys that others can read, symbolic links and other things in their place are refused, and the directory is tightened") {
  home h;
  fs::permissions(h.path() / "node.key", fs::perms::group_read, fs::perm_options::add);
  auto opened = authority_store::open(h.path());
  CHECK(code_of(opened) == security_error::storage);
  CHECK(opened.failure().text.find("chmod 600") != std::string::npos);
  fs::permissions(h.path() / "node.key", fs::perms::group_read, fs::perm_options::remove);
  fs::permissions(h.path(), fs::perms::group_all, fs::perm_options::add);
  CHECK(authority_store::open(h.path()));
  CHECK(mode_of(h.path()) == 0700);
  fs::rename(h.path() / "node.key", h.dir.path / "elsewhere");
  fs::create_symlink(h.dir.path / "elsewhere", h.path() / "node.key");
  CHECK(code_of(authority_store::open(h.path())) == security_error::storage);
  fs::remove(h.path() / "node.key");
  REQUIRE(mkfifo((h.path() / "node.key").c_str(), 0600) == 0);
  CHECK(code_of(authority_store::open(h.path())) == security_error::storage);
  temp_dir t;
  fs::create_directory_symlink(h.path(), t.path / "cluster");
  CHECK(code_of(authority_store::open(t.path / "cluster")) == security_error::storage);
}

TEST_CASE("no file but the keys' own holds a key, and no text of an error a passphrase") {
  home h;
  auto pem = std::string{value_of(h.store->credentials()).key_pem.view()};
  auto body = pem.substr(pem.find('\n') + 1, 60);
  for (const auto* name : {"cluster.json", "ca.crt", "ca.key", "node.crt"}) {
    CHECK_MESSAGE(h.read(name).find(body) == std::string::npos, name);
    CHECK_MESSAGE(h.read(name).find(passphrase) == std::string::npos, name);
  }
  h.open();
  CHECK(h.store->unlock("a wrong passphrase", now_ms).failure().text.find("a wrong passphrase") == std::string::npos);
  h.write("node.key", pem.substr(0, pem.size() / 2));
  CHECK(authority_store::open(h.path()).failure().text.find(body.substr(0, 8)) == std::string::npos);
}
