#include "actors/base/local_socket.hpp"

#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/process.hpp"
#include "tests/unit/base/waiting_child.hpp"

using namespace swarm;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct directory {
  directory() { fs::create_directories(path); }
  ~directory() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / ("swarm-socket-" + random_uuid());
  fs::path socket = path / "s.sock";
  fs::path lock = path / "s.lock";
};

/// As if `pid` had taken and signed the lock.
void sign_as(const fs::path& lock, pid_t pid) {
  auto fd = take_ownership(lock);
  REQUIRE(fd);
  auto text = std::to_string(pid) + " " + std::to_string(pid_start_time(pid).value_or(0)) + "\n";
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

/// The other end has closed it.
bool is_closed(const unique_fd& fd) {
  char byte = 0;
  pollfd p{fd.get(), POLLIN, 0};
  return poll(&p, 1, 20'000) == 1 && read(fd.get(), &byte, 1) == 0;
}

} // namespace

TEST_CASE("a socket is only for its owner, replaces a dead one, and accepts as soon as it can be seen") {
  directory d;
  CHECK_FALSE(connect_at(d.socket));
  CHECK_FALSE(connect_at(d.path / "none" / "s.sock"));
  { auto dead = listen_at(d.socket, 8); }
  CHECK(fs::exists(d.socket));
  CHECK_FALSE(connect_at(d.socket));
  owner_news news{{}, d.socket};
  acceptor a{listen_at(d.socket, 8)};
  CHECK(news.wait(20s));
  struct stat s {};
  REQUIRE(stat(d.socket.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0600);
  auto one = connect_at(d.socket), two = connect_at(d.socket, SOCK_NONBLOCK);
  CHECK(one);
  CHECK(two);
  std::vector<unique_fd> taken;
  a.accept_all([&](unique_fd c) { taken.push_back(std::move(c)); }, [](int) {});
  CHECK(taken.size() == 2);
}

TEST_CASE("without a descriptor left a connection is closed at once, and later ones are taken") {
  directory d;
  acceptor a{listen_at(d.socket, 8)};
  auto early = connect_at(d.socket), late = connect_at(d.socket);
  std::vector<unique_fd> taken;
  std::vector<int> refused;
  auto accept = [&] { a.accept_all([&](unique_fd c) { taken.push_back(std::move(c)); }, [&](int error) { refused.push_back(error); }); };
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  unique_fd next{dup(0)};
  auto full = before;
  full.rlim_cur = static_cast<rlim_t>(next.get()); // no number is free below it
  next.reset();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &full) == 0);
  accept();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(taken.empty());
  CHECK(refused == std::vector<int>{EMFILE, EMFILE});
  CHECK(is_closed(early));
  CHECK(is_closed(late));
  auto after = connect_at(d.socket);
  accept();
  CHECK(taken.size() == 1);
  CHECK(refused.size() == 2);
}

TEST_CASE("the lock belongs to one at a time") {
  directory d;
  auto mine = take_ownership(d.lock);
  REQUIRE(mine);
  CHECK_FALSE(take_ownership(d.lock));
  mine.reset();
  CHECK(take_ownership(d.lock));
  CHECK_THROWS(take_ownership(d.path / "none" / "s.lock"));
}

TEST_CASE("who waits for an owner hears of its end, of its signature and of its socket, and of nothing else") {
  directory d;
  waiting_child owner;
  sign_as(d.lock, owner.pid());
  owner_news news{d.lock, d.socket};
  { auto other = listen_at(d.path / "other.sock", 1); }
  CHECK_FALSE(news.wait(0ms));
  SUBCASE("its end") {
    std::thread killer{[&] { owner.end(); }};
    CHECK(news.wait(20s));
    killer.join();
    CHECK(news.wait(20s)); // it is not there any more
  }
  SUBCASE("its socket") {
    std::thread listener{[&] { listen_at(d.socket, 1); }};
    CHECK(news.wait(20s));
    listener.join();
    CHECK_FALSE(news.wait(0ms)); // heard
  }
  SUBCASE("its signature") {
    std::thread signer{[&] { sign_as(d.lock, getpid()); }};
    CHECK(news.wait(20s));
    signer.join();
  }
}

TEST_CASE("an owner whose number was given to another process is gone") {
  directory d;
  auto fd = take_ownership(d.lock);
  auto text = std::to_string(getpid()) + " 1\n";
  REQUIRE(write(fd.get(), text.data(), text.size()) > 0);
  CHECK(owner_news{d.lock, d.socket}.wait(20s));
  sign_ownership(fd.get());
  CHECK_FALSE(owner_news{d.lock, d.socket}.wait(0ms));
}

TEST_CASE("who stops listening removes the own socket, not the one that another process has put in its place") {
  directory d;
  auto first = listen_at(d.socket, 8);
  socket_file mine{d.socket};
  CHECK(mine.is_same());
  auto second = listen_at(d.socket, 8);
  socket_file theirs{d.socket};
  CHECK_FALSE(mine.is_same());
  mine.remove();
  CHECK(theirs.is_same());
  CHECK(connect_at(d.socket));
  theirs.remove();
  CHECK_FALSE(fs::exists(d.socket));
  CHECK_FALSE(theirs.is_same());
  CHECK_FALSE(socket_file{d.socket}.is_same());
}

TEST_CASE("the living owner of a directory is the process that has signed its lock, until it ends") {
  directory d;
  CHECK_FALSE(living_owner(d.lock));
  auto fd = take_ownership(d.lock);
  CHECK_FALSE(living_owner(d.lock));
  auto text = std::to_string(getpid()) + " 1\n";
  REQUIRE(write(fd.get(), text.data(), text.size()) > 0);
  CHECK_FALSE(living_owner(d.lock));
  sign_ownership(fd.get());
  CHECK(living_owner(d.lock) == getpid());
}

TEST_CASE("a wait for an owner can be cancelled") {
  directory d;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  unique_fd in{ends[0]}, out{ends[1]};
  owner_news news{{}, d.socket};
  std::thread canceller{[&] { CHECK(write(out.get(), "x", 1) == 1); }};
  CHECK_FALSE(news.wait(1h, in.get()));
  canceller.join();
}
