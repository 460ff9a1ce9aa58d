#include "services/federation/failure_text.hpp"

#include <doctest/doctest.h>

using namespace swarm;

TEST_CASE("why a node is not reached is said without the words of gRPC") {
  const std::string all = "failed to connect to all addresses; last error: ";
  CHECK(failure_text(all + "UNKNOWN: ipv4:10.0.0.1:7400: Failed to connect to remote host: Connection refused") ==
        "10.0.0.1:7400: connection refused");
  CHECK(failure_text(all + "UNKNOWN: ipv6:%5B::1%5D:7400: Failed to connect to remote host: No route to host") == "[::1]:7400: no route to host");
  CHECK(failure_text(all + "UNAVAILABLE: ipv4:10.0.0.1:7400: Socket closed") == "10.0.0.1:7400: socket closed");
}

TEST_CASE("a text about certificates stays whole, as does one of another form") {
  for (const std::string whole :
       {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:7400: Ssl handshake failed: "
        "SSL_ERROR_SSL: certificate verify failed",
        "failed to connect to all addresses; last error: UNKNOWN: ", "failed to connect to all addresses", "this node is stopping", ""})
    CHECK(failure_text(whole) == whole);
}
