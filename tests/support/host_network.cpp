#include "tests/support/host_network.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

namespace {

constexpr auto this_threads_network = "/proc/thread-self/ns/net";

unique_fd open_network() { return unique_fd{open(this_threads_network, O_RDONLY | O_CLOEXEC)}; }

unique_fd new_network() {
  unique_fd out;
  int failed = 0;
  std::thread{[&] {
    if (unshare(CLONE_NEWNET) == 0)
      out = open_network();
    failed = errno;
  }}.join();
  if (!out)
    throw std::runtime_error(std::string{"a network namespace: "} + std::strerror(failed));
  return out;
}

/// Of 10.77.0.0/16, of which nobody outside hears.
std::string subnet(std::size_t host) { return "10.77." + std::to_string(host + 1) + "."; }

std::string path_of(const unique_fd& network) { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(network.get()); }

} // namespace

host_network::host_network(std::size_t hosts, bool may_separate) : here_(open_network()) {
  try {
    if (!may_separate)
      throw std::runtime_error("not wanted");
    build(hosts);
    separate_ = true;
    kind_ = std::to_string(hosts) + " network namespaces around a router";
  } catch (const std::exception& e) {
    hosts_.clear();
    router_.reset();
    kind_ = std::string{"loopback, cut by proxies alone, without namespaces ("} + e.what() + ")";
  }
}

void host_network::build(std::size_t hosts) {
  router_ = new_network();
  for (std::size_t i = 0; i < hosts; ++i)
    hosts_.push_back(new_network());
  inside(router, [] {
    std::ofstream forward{"/proc/sys/net/ipv4/ip_forward"};
    if (!(forward << "1" << std::flush))
      throw std::runtime_error("ip_forward cannot be set");
  });
  // What is cut goes before what is delivered here.
  ip(router, "link set lo up\nrule add pref 100 lookup local\nrule del pref 0\n");
  for (std::size_t i = 0; i < hosts; ++i) {
    auto name = "host" + std::to_string(i);
    ip(router, "link add " + name + " type veth peer name eth0 netns " + path_of(hosts_[i]) + "\naddr add " + router_address(i) + "/24 dev " + name +
                 "\nlink set " + name + " up\n");
    ip(i, "link set lo up\naddr add " + subnet(i) + "1/24 dev eth0\nlink set eth0 up\nroute add default via " + subnet(i) + "254\n");
  }
}

std::string host_network::address(std::size_t host) const { return hosts_.empty() ? "127.0.0.1" : subnet(host) + "1"; }

std::string host_network::router_address(std::size_t host) const {
  return hosts_.empty() ? "127.0.0." + std::to_string(host + 2) : subnet(host) + "254";
}

void host_network::inside(std::size_t place, const std::function<void()>& what) const {
  if (!router_)
    return what();
  if (setns((place == router ? router_ : hosts_.at(place)).get(), CLONE_NEWNET) != 0)
    throw std::runtime_error(std::string{"setns: "} + std::strerror(errno));
  struct back {
    int fd;
    ~back() {
      if (setns(fd, CLONE_NEWNET) != 0)
        std::terminate(); // everything after it would happen in the wrong place
    }
  } home{here_.get()};
  what();
}

void host_network::ip(std::size_t place, const std::string& commands) const {
  run_result done;
  inside(place, [&] { done = child_process{{"/sbin/ip", "-batch", "-"}, {{"PATH", "/usr/sbin:/sbin"}}, "/", commands}.finish(); });
  if (done.status != 0)
    throw std::runtime_error("ip -batch, of package iproute2: status " + std::to_string(done.status) + " " + done.err);
}

std::string host_network::rule(std::size_t from, std::size_t to) const {
  auto one = from == router ? router_address(to) : address(from);
  auto other = to == router ? router_address(from) : address(to);
  return "pref 10 from " + one + " to " + other + " blackhole\n";
}

void host_network::change(const char* verb, std::size_t from, std::size_t to) const {
  ip(router, std::string{"rule "} + verb + " " + rule(from, to));
}

void host_network::cut(std::size_t from, std::size_t to) {
  std::lock_guard guard{mutex_};
  if (separate_ && cuts_.emplace(from, to).second)
    change("add", from, to);
}

void host_network::mend(std::size_t from, std::size_t to) {
  std::lock_guard guard{mutex_};
  if (cuts_.erase({from, to}) == 1)
    change("del", from, to);
}

void host_network::mend_all() {
  std::lock_guard guard{mutex_};
  for (const auto& [from, to] : cuts_)
    change("del", from, to);
  cuts_.clear();
}

} // namespace swarm::testing
