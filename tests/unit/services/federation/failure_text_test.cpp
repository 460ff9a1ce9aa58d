#include "services/federation/failure_text.hpp"

#include <doctest/doctest.h>

using namespace swarm;

TEST_CASE("why a node is not reached is said without the words of gRPC") {
  const std::string all = "failed to connect to all addresses; last error: ";
  CHECK(failure_text(all + "UNKNOWN: ipv4:10.0.0.1:7400: Failed to connect to remote host: Connection refused") ==
        "10.0.0.1:7400: connection refused");
  CHECK(failure_text(all + "UNKNOWN: ipv6:%5B::1%5D:7400: Failed to connect to remote host: No route to host") == "[::1]:7400: no route to host");
  CHECK(failure_text(all + "UNAVAILABLE: ipv4:10.0.0.1:7400: Socket closed") == "10.0.0.1:7400: it has cut the connection");
}

TEST_CASE("a host that stands still, or is no node, is told in our words too") {
  const std::string all = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:7400: ";
  CHECK(failure_text(all + "Handshake read failed") == "10.0.0.1:7400: it takes the connection and does not answer");
  CHECK(failure_text(all + "connection attempt timed out before receiving SETTINGS frame") ==
        "10.0.0.1:7400: it takes the connection and does not answer");
  CHECK(failure_text(all + "Timeout occurred: FD Shutdown") == "10.0.0.1:7400: it does not answer");
  CHECK(
    failure_text(all + "Ssl handshake failed: SSL_ERROR_SSL: error:1416F086:SSL routines:tls_process_server_certificate:certificate verify failed") ==
    "10.0.0.1:7400: its certificate is not accepted (certificate verify failed)");
  CHECK(failure_text(all + "Ssl handshake failed: SSL_ERROR_SSL: error:1408F10B:SSL routines:ssl3_get_record:wrong version number") ==
        "10.0.0.1:7400: the TLS handshake failed: wrong version number");
  CHECK(failure_text(all + "something that nobody has seen yet") == "10.0.0.1:7400: the connection failed");
  CHECK(failure_text("failed to connect to all addresses") == "the connection failed");
  CHECK(failure_text("DNS resolution failed for home.lan:7400: C-ares status is not ARES_SUCCESS: Domain name not found") ==
        "home.lan:7400: the name has no address");
}

TEST_CASE("how a connection that stood has ended is told in our words") {
  CHECK(failure_text("keepalive watchdog timeout") == "it has stopped answering");
  CHECK(failure_text("Socket closed") == "it has cut the connection");
  CHECK(failure_text("recvmsg:Connection reset by peer") == "it has cut the connection");
  CHECK(failure_text("Connection timed out") == "it does not answer");
}

TEST_CASE("what another node says stays as it is") {
  for (const std::string whole : {"this node is stopping", "the node is starting; try again", ""})
    CHECK(failure_text(whole) == whole);
}
