// The proxy of the fault tests over several hosts: it does each harm that it is told to do, and no other.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/tcp_proxy.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

constexpr auto soon = 10'000ms; // only ever used up by a failure
constexpr auto silence = 150ms; // how long nothing is looked at, where nothing must come
constexpr unsigned seed = 20261123;

sockaddr_in loopback(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  return a;
}

bool readable(const unique_fd& fd, std::chrono::milliseconds within) {
  pollfd p{fd.get(), POLLIN, 0};
  return poll(&p, 1, static_cast<int>(within.count())) == 1;
}

/// A server that is called by hand.
struct listener {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port = 0;
  listener() {
    auto a = loopback(0);
    socklen_t n = sizeof a;
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&a), n) != 0 || listen(fd.get(), 16) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&a), &n) != 0)
      throw std::runtime_error("cannot listen");
    port = ntohs(a.sin_port);
  }
  unique_fd next() const { return readable(fd, soon) ? unique_fd{accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)} : unique_fd{}; }
};

unique_fd call(int port) {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto a = loopback(port);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) != 0)
    fd.reset();
  return fd;
}

void say(const unique_fd& fd, const std::string& text) { REQUIRE(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text)); }

/// The next bytes; "<end>" when the other side has closed, "<reset>" when it was reset.
std::string hear(const unique_fd& fd) {
  char buffer[65'536];
  if (!readable(fd, soon))
    return "<nothing>";
  auto n = recv(fd.get(), buffer, sizeof buffer, 0);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : n == 0 ? "<end>" : "<reset>";
}

std::string hear_all(const unique_fd& fd, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) {
    auto more = hear(fd);
    if (more.starts_with('<'))
      return out + more;
    out += more;
  }
  return out;
}

struct pair_of_ends {
  listener behind;
  tcp_proxy proxy{"127.0.0.1", 0, "127.0.0.1", behind.port, seed};
  unique_fd client = call(proxy.port());
  unique_fd server = behind.next();
  pair_of_ends() {
    REQUIRE(client);
    REQUIRE(server);
    say(client, "hello");
    REQUIRE(hear(server) == "hello");
    say(server, "welcome");
    REQUIRE(hear(client) == "welcome");
  }
};

std::string long_text(std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<char>('a' + i * 7 % 23);
  return out;
}

} // namespace

TEST_CASE("a plain proxy passes bytes and the end of them on, both ways") {
  pair_of_ends e;
  auto text = long_text(3'000'000);
  std::thread writer([&] {
    for (std::size_t at = 0; at < text.size();) {
      auto n = send(e.client.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n <= 0)
        return;
      at += static_cast<std::size_t>(n);
    }
    shutdown(e.client.get(), SHUT_WR);
  });
  auto got = hear_all(e.server, text.size());
  writer.join();
  CHECK(got == text);
  CHECK(hear(e.server) == "<end>");
  say(e.server, "still heard");
  CHECK(hear(e.client) == "still heard");
  e.server.reset();
  CHECK(hear(e.client) == "<end>");
}

TEST_CASE("slices are written one by one, and the bytes stay what they were") {
  pair_of_ends e;
  proxy_way slices;
  slices.slice_most = 7;
  slices.delay_most = 1ms;
  e.proxy.set(tcp_proxy::to_server, slices);
  auto before = e.proxy.so_far().writes;
  auto text = long_text(2'000);
  say(e.client, text);
  CHECK(hear_all(e.server, text.size()) == text);
  CHECK(e.proxy.so_far().writes - before >= text.size() / 7);
}

TEST_CASE("a delay is kept and a stall comes on top of it, in one direction only") {
  pair_of_ends e;
  proxy_way late;
  late.delay_least = late.delay_most = 100ms;
  late.stall_chance = 1;
  late.stall = 100ms;
  e.proxy.set(tcp_proxy::to_client, late);
  say(e.client, "quick");
  CHECK(hear(e.server) == "quick");
  auto said = std::chrono::steady_clock::now();
  say(e.server, "slow");
  CHECK(hear(e.client) == "slow");
  CHECK(std::chrono::steady_clock::now() - said >= 200ms);
  CHECK(e.proxy.so_far().stalls == 1);
}

TEST_CASE("what is held comes when it is let go, and the other direction goes on meanwhile") {
  pair_of_ends e;
  proxy_way held;
  held.fate = proxy_way::hold;
  e.proxy.set(tcp_proxy::to_server, held);
  say(e.client, "later");
  CHECK_FALSE(readable(e.server, silence));
  say(e.server, "now");
  CHECK(hear(e.client) == "now");
  e.proxy.heal();
  CHECK(hear(e.server) == "later");
}

TEST_CASE("who connects while the way to the server is held hears nothing, and is put through when it is free") {
  pair_of_ends e;
  proxy_way held;
  held.fate = proxy_way::hold;
  e.proxy.set_both(held);
  auto second = call(e.proxy.port());
  REQUIRE(second);
  CHECK_FALSE(readable(e.behind.fd, silence));
  CHECK_FALSE(readable(second, 0ms));
  e.proxy.heal();
  auto through = e.behind.next();
  REQUIRE(through);
  say(second, "here");
  CHECK(hear(through) == "here");
}

TEST_CASE("a connection that lost bytes is kept, and reset when the way is free again") {
  pair_of_ends e;
  proxy_way lossy;
  lossy.fate = proxy_way::drop;
  e.proxy.set(tcp_proxy::to_server, lossy);
  say(e.client, "lost");
  CHECK_FALSE(readable(e.server, silence));
  CHECK_FALSE(readable(e.client, 0ms));
  CHECK(e.proxy.so_far().dropped == 4);
  e.proxy.heal();
  CHECK(hear(e.client) == "<reset>");
  CHECK(hear(e.server) == "<reset>");
}

TEST_CASE("of a connection that is half open one end is gone and the other never hears of it") {
  pair_of_ends e;
  e.proxy.leave_half_open(tcp_proxy::to_client);
  CHECK(hear(e.client) == "<reset>");
  say(e.server, "is anybody there");
  CHECK_FALSE(readable(e.server, silence));
  CHECK(e.proxy.connections() == 1);
  // Others are none of its business.
  auto second = call(e.proxy.port());
  auto through = e.behind.next();
  say(second, "new");
  CHECK(hear(through) == "new");
}

TEST_CASE("refused connections are reset at once, resets end all, and both are over with the healing") {
  pair_of_ends e;
  e.proxy.refuse(true);
  auto second = call(e.proxy.port());
  CHECK(hear(second) == "<reset>");
  e.proxy.reset_all();
  CHECK(hear(e.client) == "<reset>");
  CHECK(hear(e.server) == "<reset>");
  e.proxy.heal();
  auto third = call(e.proxy.port());
  auto through = e.behind.next();
  say(third, "again");
  CHECK(hear(through) == "again");
  CHECK(e.proxy.so_far().refused == 1);
}

TEST_CASE("an end that is reset resets the other, and a server that is not there resets who calls") {
  pair_of_ends e;
  linger at_once{1, 0};
  setsockopt(e.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  e.client.reset();
  CHECK(hear(e.server) == "<reset>");
  e.behind.fd.reset();
  auto second = call(e.proxy.port());
  CHECK(hear(second) == "<reset>");
}
