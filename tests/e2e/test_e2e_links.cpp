// Nodes that are not what they should be, over real sockets: what is wrong is refused, said once with the reason and counted, and the
// home and its other members go on.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
#include <limits>

#include <poll.h>
#include <sys/socket.h>

#include "actors/base/clock.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/federation/links.hpp"
#include "services/security/openssl.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/refusing_home.hpp"
#include "tests/support/scripted_node.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

using namespace std::chrono_literals;

v1::Principal by_operator() {
  v1::Principal p;
  p.set_kind(v1::Principal::OPERATOR);
  return p;
}
v1::Principal by_session(const std::string& id) {
  v1::Principal p;
  p.set_kind(v1::Principal::SESSION);
  p.set_id(id);
  return p;
}

v1::LinkRequest command_of(const v1::Principal& who, const std::function<void(v1::Command&)>& fill) {
  static std::uint64_t seq = 0;
  v1::LinkRequest r;
  *r.mutable_principal() = who;
  r.set_timeout_ms(patience.count());
  auto& x = *r.mutable_execute();
  x.mutable_id()->set_client("scripted-node");
  x.mutable_id()->set_seq(++seq);
  auto& c = *x.mutable_command();
  c.set_scope("shared");
  c.mutable_caller()->set_directory("/");
  *c.mutable_principal() = who;
  fill(c);
  return r;
}

v1::LinkRequest registration(const std::string& label) {
  return command_of(by_operator(), [&](v1::Command& c) {
    c.mutable_register_session()->set_directory("/");
    c.mutable_register_session()->set_label(label);
    c.mutable_register_session()->set_lease_ms(600'000);
  });
}

v1::LinkRequest lock_of(const std::string& session, const std::string& path) {
  return command_of(by_session(session), [&](v1::Command& c) {
    c.set_actor(session);
    c.mutable_acquire_lock()->set_path(path);
  });
}

v1::LinkFrame message_frame(std::uint64_t seq, v1::LinkRequest r, std::uint64_t id) {
  v1::LinkFrame f;
  f.set_seq(seq);
  f.set_credit(limits::link_window_bytes());
  *f.mutable_message()->mutable_request() = std::move(r);
  f.mutable_message()->mutable_request()->set_id(id);
  return f;
}

v1::LinkRequest question() {
  v1::LinkRequest r;
  *r.mutable_principal() = by_operator();
  r.set_timeout_ms(patience.count());
  r.mutable_query()->set_scope("shared");
  *r.mutable_query()->mutable_principal() = by_operator();
  r.mutable_query()->mutable_list_locks();
  return r;
}

/// Everything the home answers until it has answered this one.
std::vector<std::uint64_t> answers_until(link_stream& s, std::uint64_t last) {
  std::vector<std::uint64_t> out;
  while (auto f = s.next()) {
    if (f->message().has_response())
      out.push_back(f->message().response().id());
    if (!out.empty() && out.back() == last)
      return out;
  }
  out.push_back(0);
  return out;
}

std::uint64_t resident_bytes(pid_t pid) {
  for (const auto& line : lines_of(file_text("/proc/" + std::to_string(pid) + "/status")))
    if (line.starts_with("VmRSS:"))
      return std::stoull(line.substr(6)) * 1024;
  return 0;
}

v1::LinkFrame plain(std::uint64_t seq, std::uint64_t ack, std::uint64_t credit) {
  v1::LinkFrame f;
  f.set_seq(seq);
  f.set_ack(ack);
  f.set_credit(credit);
  return f;
}

/// Everything by which a node speaks to its home: each looks at who calls. Of one that is let in there is no end but the deadline.
struct call_of_nodes {
  const char* name;
  std::function<grpc::Status(v1::Federation::Stub&, grpc::ClientContext&)> make;
};
const std::vector<call_of_nodes> all_calls{
  {"Link", [](v1::Federation::Stub& home, grpc::ClientContext& c) { return home.Link(&c)->Finish(); }},
  {"Bulk", [](v1::Federation::Stub& home, grpc::ClientContext& c) { return home.Bulk(&c)->Finish(); }},
  {"Renew",
   [](v1::Federation::Stub& home, grpc::ClientContext& c) {
     v1::RenewReply said;
     return home.Renew(&c, {}, &said);
   }},
  {"Leave",
   [](v1::Federation::Stub& home, grpc::ClientContext& c) {
     v1::LeaveReply said;
     return home.Leave(&c, {}, &said);
   }},
  {"Drain",
   [](v1::Federation::Stub& home, grpc::ClientContext& c) {
     v1::ClusterView said;
     return home.Drain(&c, {}, &said);
   }},
};
grpc::Status answer_to(const call_of_nodes& call, const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  return call.make(*v1::Federation::NewStub(channel), context);
}

std::string read_exactly(const unique_fd& fd, std::size_t n) {
  std::string out(n, '\0');
  for (std::size_t have = 0; have < n;) {
    pollfd p{fd.get(), POLLIN, 0};
    auto more = poll(&p, 1, static_cast<int>(patience.count())) == 1 ? recv(fd.get(), out.data() + have, n - have, 0) : 0;
    if (more <= 0)
      throw std::runtime_error("the connection ends, or nothing comes");
    have += static_cast<std::size_t>(more);
  }
  return out;
}

std::size_t number_at(const std::string& bytes, std::size_t at, std::size_t size) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < size; ++i)
    out = out << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return out;
}

/// The first record that a side of TLS says, with its head.
std::string tls_record(const unique_fd& fd) {
  constexpr std::size_t head_bytes = 5;
  auto head = read_exactly(fd, head_bytes);
  return head + read_exactly(fd, number_at(head, 3, 2));
}

/// What a ServerHello has chosen: its legacy version, unless the extension says what it really is (RFC 8446, 4.2.1).
std::size_t version_chosen(const std::string& record) {
  constexpr std::size_t handshake = 22, server_hello = 2, supported_versions = 43;
  constexpr std::size_t body = 5 + 4; // behind the heads of the record and of the message
  if (number_at(record, 0, 1) != handshake || number_at(record, 5, 1) != server_hello)
    throw std::runtime_error("this is no ServerHello");
  auto out = number_at(record, body, 2);
  auto at = body + 2 + 32;            // the random
  at += 1 + number_at(record, at, 1); // the session
  at += 2 + 1;                        // cipher, compression
  if (at + 2 > record.size())
    return out; // no extensions
  for (auto end = at + 2 + number_at(record, at, 2), i = at + 2; i < end; i += 4 + number_at(record, i + 2, 2))
    if (number_at(record, i, 2) == supported_versions)
      out = number_at(record, i + 4, 2);
  return out;
}

} // namespace

TEST_CASE("a node of the protocol before is a node like the others, over its one connection") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto bob = register_shared(b, "name:bob");
  std::atomic<int> reads = 0;
  auto who = join_as_member(c.token(), "old");
  const auto old_id = who.node_id;
  scripted_node old{who, 1, 1, 0, [&](const v1::LinkRequest& r, v1::LinkResponse& out) {
                      auto described = [&](v1::PtyInfo& pty) {
                        pty.set_id("of-old");
                        pty.set_node_id(old_id);
                        pty.set_running(true);
                      };
                      if (r.has_find_pty() && r.find_pty().id() == "of-old")
                        described(*out.mutable_pty());
                      else if (r.has_list_ptys())
                        described(*out.mutable_ptys()->add_ptys());
                      else if (r.has_read_pty() && r.read_pty().from() == 0) {
                        ++reads;
                        out.mutable_chunk()->set_data("hello of old\n");
                        out.mutable_chunk()->set_ended(true);
                      }
                    }};
  REQUIRE(old.up());
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "old") == "up"; }));
  // What it asks is answered.
  auto made = old.ask(registration("name:olga"));
  REQUIRE(made);
  CAPTURE(made->ShortDebugString());
  auto olga = made->reply().session().session().id();
  REQUIRE(!olga.empty());
  auto locked = old.ask(lock_of(olga, "/src/f"));
  REQUIRE(locked);
  CAPTURE(locked->ShortDebugString());
  CHECK(locked->reply().lock().has_lock());
  // The others work beside it, and respect the lock.
  CHECK(b.ctl(in_shared({"lock", "/src/f", "--as", bob})).status == 1);
  CHECK(b.ctl(in_shared({"lock", "/src/g", "--as", bob})).status == 0);
  CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 2);
  // Terminals, both ways.
  auto id = c.home.ctl_json({"pty", "new", "--", "sh", "-c", "echo hello of a; sleep 600"})["id"].get<std::string>();
  CHECK(eventually([&] {
    v1::LinkRequest r;
    *r.mutable_principal() = by_operator();
    r.mutable_read_pty()->set_id(id);
    auto said = old.ask(r);
    return said && said->chunk().data().find("hello of a") != std::string::npos;
  }));
  auto read = c.home.ctl({"pty", "read", "of-old"});
  CAPTURE(read.err);
  CHECK(read.out.find("hello of old") != std::string::npos);
  CHECK(reads > 0);
}

TEST_CASE("a node that is newer, of another cluster or not the node of its certificate is refused, and said once") {
  cluster_of_nodes c;
  auto who = join_as_member(c.token(), "odd");
  struct wrong {
    const char* what;
    std::function<void(v1::LinkHello&)> change;
    v1::LinkClose::Code code;
    std::string text;
  };
  const std::vector<wrong> all{
    {"newer", [](v1::LinkHello& h) { h.set_protocol_min(limits::link_protocol + 1), h.set_protocol(limits::link_protocol + 2); },
     v1::LinkClose::PROTOCOL, "update the older one"},
    {"cluster", [](v1::LinkHello& h) { h.set_cluster_id("11111111-2222-4333-8444-555555555555"); }, v1::LinkClose::WRONG_CLUSTER, "another cluster"},
    {"node", [](v1::LinkHello& h) { h.set_node_id("11111111-2222-4333-8444-555555555555"); }, v1::LinkClose::WRONG_NODE, "that of another node"},
    {"itself", [&](v1::LinkHello& h) { h.set_node_id(who.home_id); }, v1::LinkClose::WRONG_NODE, "the node itself"},
    {"name", [](v1::LinkHello& h) { h.set_node_name("x\n[error] everything is lost"); }, v1::LinkClose::PROTOCOL, "makes no sense"},
    {"versions", [](v1::LinkHello& h) { h.set_protocol_min(2), h.set_protocol(1); }, v1::LinkClose::PROTOCOL, "makes no sense"},
  };
  constexpr int dials = 3;
  for (const auto& w : all)
    for (int i = 0; i < dials; ++i) {
      CAPTURE(w.what);
      link_stream s{who};
      auto f = hello_frame(who);
      w.change(*f.mutable_hello());
      REQUIRE(s.write(f));
      auto close = s.close_of_home();
      REQUIRE(close);
      CHECK(close->code() == w.code);
      CHECK(close->text().find(w.text) != std::string::npos);
      CHECK(s.over());
    }
  for (const auto& w : all) {
    CAPTURE(w.what);
    CHECK(lines_with(c.home, w.text) == 1);
  }
  CHECK(lines_with(c.home, "everything is lost") == 0);
  CHECK(eventually([&] { return counted(c.home, peer_row("odd")) == dials * static_cast<int>(all.size()); }));
  CHECK(nodes_of(c.home) == 2);
  CHECK(cluster_of_nodes::link_seen_by(c.home, "odd") == "down");
  // Another node's name is not taken; the link stands.
  auto s = std::make_unique<link_stream>(who);
  auto f = hello_frame(who);
  f.mutable_hello()->set_node_name("a");
  REQUIRE(s->write(f));
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "odd") == "up"; }));
  CHECK(cluster_of_nodes::row_seen_by(c.home, "a")["link"] == "self");
  CHECK(lines_with(c.home, "the name of another node") == 1);
}

TEST_CASE("two clusters mixed up refuse each other and stay as they are") {
  test_node m;
  auto at = std::make_unique<cluster_of_nodes>();
  auto& y = *at;
  y.join(m, "m");
  test_node x;
  auto founded = [&] { return x.ctl({"up", "--node-name", "x", "--listen", y.address, "--insecure-ca"}); };
  // The other cluster's home is where this one's was.
  y.home.kill_node();
  REQUIRE(founded().status == 0);
  auto before = counted(m, peer_row("a"), "not reached");
  CHECK(eventually([&] { return counted(m, peer_row("a"), "not reached") >= before + 3; }));
  // A home that is killed may cut a handshake off, too; whatever the reason, it is said once.
  const std::string said = "the node a is not reached: ";
  std::set<std::string> reasons;
  for (const auto& line : lines_of(file_text(m.dir().log_dir() / "swarmd.log")))
    if (auto begin = line.find(said); begin != std::string::npos)
      reasons.insert(line.substr(begin));
  CHECK(lines_with(m, said) == reasons.size());
  CHECK(lines_with(m, "certificate verify failed") == 1);
  CHECK(nodes_of(x) == 1);
  CHECK(cluster_of_nodes::link_seen_by(m, "a") == "down");
  // A token of the one does not let a node of the other in.
  auto token = last_line(x.ctl({"join-token", "create"}).out);
  auto r = m.ctl({"join", token});
  CHECK(r.status != 0);
  CHECK(r.err.find("in a cluster already") != std::string::npos);
  // When all is as it was, so is the link.
  x.kill_node();
  REQUIRE(y.home.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(m, "a") == "up"; }));
  CHECK(nodes_of(y.home) == 2);
}

TEST_CASE("a certificate that is not valid is refused before anything is said") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto who = join_as_member(c.token(), "odd");
  auto ours = authority_of(c.home);
  auto now = system_clock_port().unix_ms();
  auto other = authority::create(who.cluster_id, now);
  REQUIRE(other);
  constexpr std::int64_t day_ms = 24LL * 3600 * 1000;
  auto self_signed = who;
  self_signed.key_pem = std::string{other->key().to_pem()->view()};
  self_signed.chain_pem = *certificate_to_pem(other->certificate());
  auto without = who;
  without.chain_pem.clear();
  auto foreign = certified_by(*other, who, now - day_ms, now + day_ms);
  auto early = certified_by(ours, who, now + day_ms, now + 2 * day_ms);
  auto late = certified_by(ours, who, now - 2 * day_ms, now - day_ms);
  auto gone = join_as_member(c.token(), "gone");
  REQUIRE(c.home.ctl({"node", "revoke", "gone"}).status == 0);
  // It has left and come again, with another certificate.
  auto retired = join_as_member(c.token(), "again");
  REQUIRE(answer_to(all_calls[3], channel_of(retired)).ok());
  auto rejoined = join_as_member(c.token(), "again", retired.node_id);
  struct wrong {
    const char* what;
    const member_identity& who;
    std::string text;
  };
  const std::vector<wrong> all{{"another authority's", foreign, "was not made by this cluster's authority"},
                               {"self-signed", self_signed, "was not made by this cluster's authority"},
                               {"not yet valid", early, "is not valid before"},
                               {"expired", late, "the node's certificate ended at"},
                               {"none", without, "the TLS handshake failed: peer did not return a certificate"},
                               {"revoked", gone, "this node was revoked from the cluster"},
                               {"retired", retired, "this node has left the cluster"}};
  for (const auto& w : all)
    for (const auto& call : all_calls) {
      CAPTURE(w.what);
      CAPTURE(call.name);
      auto status = answer_to(call, channel_of(w.who));
      CAPTURE(status.error_message());
      CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
    }
  CHECK(eventually([&] { return counted(c.home, federation) >= static_cast<int>(all.size() * all_calls.size()); }));
  for (const auto& w : all) {
    CAPTURE(w.what);
    CHECK(lines_with(c.home, w.text) == 1);
  }
  CHECK(cluster_of_nodes::link_seen_by(c.home, "gone") == "revoked");
  CHECK(b.ctl(in_shared({"kv", "set", "k", "1"})).status == 0);
  CHECK(scripted_node(who, limits::link_protocol, 1).up());
  CHECK(scripted_node(rejoined, limits::link_protocol, 1).up());
}

TEST_CASE("a revoked node that talks on is cut off on each of its streams, also while it reads nothing, and is refused on a connection that stands") {
  cluster_of_nodes c{"link_heartbeat = 1000\nlink_silence = 4000\n"};
  constexpr std::uint64_t credit = std::uint64_t{1} << 30;
  auto talk_until_cut_off = [](link_stream& s) {
    static constexpr auto before_its_own_deadline = 3 * patience / 2;
    return std::async(std::launch::async, [&s] { return eventually([&s] { return !s.write(plain(0, 0, credit)); }, before_its_own_deadline); });
  };

  auto odd = join_as_member(c.token(), "odd");
  auto standing = channel_of(odd);
  {
    grpc::ClientContext context;
    v1::RenewRequest ask;
    ask.set_csr(value_of(make_csr(value_of(key_pair::from_pem(odd.key_pem)), "a node")));
    v1::RenewReply said;
    REQUIRE(v1::Federation::NewStub(standing)->Renew(&context, ask, &said).ok());
  }
  auto control = linked_stream(odd), bulk = linked_stream(odd, link_lane::bulk);
  auto control_cut = talk_until_cut_off(*control), bulk_cut = talk_until_cut_off(*bulk);

  // More is on its way to it than gRPC takes in unread: the last word of the home does not get through.
  auto deaf = join_as_member(c.token(), "deaf");
  constexpr std::size_t value_bytes = 100'000;
  constexpr std::size_t answers = 3 * limits::grpc_message_bytes_max / value_bytes;
  REQUIRE(c.home.ctl(in_shared({"kv", "set", "large", std::string(value_bytes, 'x')})).status == 0);
  link_stream unread{deaf, link_lane::control, false};
  REQUIRE(unread.write(hello_frame(deaf)));
  for (v1::LinkFrame of_home; of_home.credit() == 0;)
    REQUIRE(unread.read(of_home));
  for (std::uint64_t seq = 1; seq <= answers; ++seq) {
    auto r = question();
    r.mutable_query()->mutable_get_kv()->set_key("large");
    auto f = message_frame(seq, r, seq);
    f.set_credit(credit);
    REQUIRE(unread.write(f));
  }
  auto unread_cut = talk_until_cut_off(unread);
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(c.home, "deaf")["unacknowledged"] >= answers; }));
  CHECK(cluster_of_nodes::link_seen_by(c.home, "deaf") == "up");
  CHECK(cluster_of_nodes::link_seen_by(c.home, "odd") == "up");

  REQUIRE(c.home.ctl({"node", "revoke", "odd"}).status == 0);
  REQUIRE(c.home.ctl({"node", "revoke", "deaf"}).status == 0);
  for (auto* s : {control.get(), bulk.get()}) {
    auto close = s->close_of_home();
    REQUIRE(close);
    CHECK(close->code() == v1::LinkClose::REVOKED);
  }
  CHECK(control_cut.get());
  CHECK(bulk_cut.get());
  CHECK(unread_cut.get());
  for (const auto& call : all_calls) {
    CAPTURE(call.name);
    auto status = answer_to(call, standing);
    CHECK(status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(status.error_message().find("was revoked") != std::string::npos);
  }
  CHECK(lines_with(c.home, "this node was revoked from the cluster") == 1);
  CHECK(counted(c.home, federation) == static_cast<int>(all_calls.size()));
  for (const auto* name : {"odd", "deaf"})
    CHECK(cluster_of_nodes::link_seen_by(c.home, name) == "revoked");
}

TEST_CASE("two nodes speak TLS 1.3 with each other") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(b.down().status == 0);
  // It calls its home where its file says that it is: here, where the first word of each is looked at and passed on.
  listener between;
  auto file = b.dir().root / "cluster" / "cluster.json";
  auto facts = json::parse(file_text(file));
  facts.at("home_address") = between.address;
  std::ofstream{file} << facts.dump();
  REQUIRE(b.ctl({"up"}).status == 0);
  auto of_member = between.next();
  REQUIRE(of_member);
  auto of_home = connected_to(port_of(c.address));
  REQUIRE(of_home);
  auto hello = tls_record(of_member);
  REQUIRE(send(of_home.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size()));
  CHECK(version_chosen(tls_record(of_home)) == TLS1_3_VERSION);
}

TEST_CASE("frames that make no sense end their connection, and nothing else") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  auto bob = register_shared(b, "name:bob");
  REQUIRE(b.ctl(in_shared({"lock", "/src/f", "--as", bob})).status == 0);
  auto pid = c.home.node_pid();
  auto who = join_as_member(c.token(), "odd");

  {
    INFO("what ends the connection");
    struct wrong {
      std::string text;
      std::function<void(link_stream&)> say;
    };
    const std::vector<wrong> all{{"a second hello", [&](link_stream& s) { s.write(hello_frame(who)); }},
                                 {"message 3 came, and 1 was next", [](link_stream& s) { s.write(message_frame(3, question(), 1)); }},
                                 {"a message without a number", [](link_stream& s) { s.write(message_frame(0, question(), 1)); }},
                                 {"a number without a message", [](link_stream& s) { s.write(plain(1, 0, 0)); }},
                                 {"it acknowledges 999 after 0", [](link_stream& s) { s.write(plain(0, 999, 0)); }},
                                 {"it takes back credit", [](link_stream& s) { s.write(plain(0, 0, 1'000)) && s.write(plain(0, 0, 10)); }},
                                 {"bytes", [](link_stream& s) {
                                    auto r = question();
                                    r.mutable_query()->mutable_get_kv()->set_key(std::string(limits::link_message_bytes_max, 'x'));
                                    s.write(message_frame(1, r, 1));
                                  }}};
    constexpr int rounds = 2;
    for (const auto& w : all)
      for (int i = 0; i < rounds; ++i) {
        CAPTURE(w.text);
        auto s = linked_stream(who);
        w.say(*s);
        auto close = s->close_of_home();
        REQUIRE(close);
        CHECK(close->code() == v1::LinkClose::PROTOCOL);
        CHECK(close->text().find(w.text) != std::string::npos);
        CHECK(s->over());
      }
    for (const auto& w : all) {
      CAPTURE(w.text);
      CHECK(lines_with(c.home, "ends: " + (w.text == "bytes" ? "a message of" : w.text)) == 1);
    }
    CHECK(eventually([&] { return counted(c.home, peer_row("odd")) == rounds * static_cast<int>(all.size()); }));
  }

  {
    INFO("what cannot be read at all");
    auto before = counted(c.home, peer_row("odd"));
    for (int i = 0; i < 3; ++i) {
      auto garbage = linked_stream(who);
      CHECK(garbage->write_bytes("\xff\xff\xff\xff this is no frame"));
      CHECK(garbage->over());
      auto huge = linked_stream(who);
      huge->write_bytes(std::string(limits::grpc_message_bytes_max + 1, '\x0a'));
      CHECK(huge->over());
    }
    CHECK(eventually([&] { return counted(c.home, peer_row("odd")) >= before + 3; }));
    CHECK(lines_with(c.home, "a frame could not be read, or the other node ended the stream") == 1);
  }

  {
    INFO("what is answered, or passed over");
    auto s = linked_stream(who);
    // The same frame again, as after a lost acknowledgement: it is not done twice.
    auto lock = message_frame(1, registration("name:once"), 1);
    REQUIRE((s->write(lock) && s->write(lock) && s->write(message_frame(2, question(), 2))));
    auto answered = answers_until(*s, 2);
    if (answered == std::vector<std::uint64_t>{2})
      CHECK(answers_until(*s, 1) == std::vector<std::uint64_t>{1});
    else
      CHECK(answered == std::vector<std::uint64_t>{1, 2});
    CHECK(c.home.ctl_json(in_shared({"instances"})).size() == 2);
    // Of a later version: a frame, a message and a request that this one does not know.
    const std::string later = "\xf2\x01\x03new"; // a field that this version does not know
    auto credit = plain(0, 0, limits::link_window_bytes()).SerializeAsString();
    REQUIRE(s->write_bytes(credit + later));
    REQUIRE(s->write_bytes(plain(3, 0, limits::link_window_bytes()).SerializeAsString() + "\x5a\x06" + later));
    v1::LinkRequest unknown;
    *unknown.mutable_principal() = by_operator();
    REQUIRE((s->write(message_frame(4, unknown, 4)) && s->write(message_frame(5, question(), 5))));
    CHECK(answers_until(*s, 5).size() == 2);
    CHECK(!s->over(0ms));
  }

  {
    INFO("who does not belong to the node that asks");
    scripted_node odd{who, limits::link_protocol, 1};
    REQUIRE(odd.up());
    auto refused = [&](const v1::LinkRequest& r) {
      auto said = odd.ask(r);
      REQUIRE(said);
      CAPTURE(said->ShortDebugString());
      CHECK((said->error().code() == static_cast<std::uint32_t>(errc::forbidden) || said->reply().refusal().code() == v1::Refusal::FORBIDDEN ||
             said->reply().refusal().code() == v1::Refusal::NOT_REGISTERED || said->answer_to_query().refusal().code() == v1::Refusal::FORBIDDEN));
    };
    refused(lock_of(bob, "/src/h"));
    refused(lock_of("nobody-at-all", "/src/h"));
    auto unlock = command_of(by_session(bob), [&](v1::Command& cmd) {
      cmd.set_actor(bob);
      cmd.mutable_release_lock()->set_path("/src/f");
    });
    refused(unlock);
    auto as_node = lock_of(bob, "/src/h");
    auto& principal = *as_node.mutable_execute()->mutable_command()->mutable_principal();
    principal.set_kind(v1::Principal::NODE);
    principal.set_id(who.home_id);
    refused(as_node);
    principal.set_kind(v1::Principal::KIND_UNSPECIFIED);
    refused(as_node);
    // Of a device or gateway the link may say what it likes: here nobody has given it a grant.
    for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY}) {
      v1::Principal edge;
      edge.set_kind(kind);
      edge.set_id("phone");
      for (const auto* grant : {"approve", "terminal", "dispatch", "admin"})
        edge.add_grants(grant);
      refused(command_of(edge, [](v1::Command& cmd) { cmd.mutable_decide_approval()->set_approval_id("x"); }));
      v1::LinkRequest look, type;
      *look.mutable_principal() = *look.mutable_query()->mutable_principal() = edge;
      look.mutable_query()->set_scope("shared");
      look.mutable_query()->mutable_list_approvals();
      refused(look);
      *type.mutable_principal() = edge;
      type.mutable_send_pty()->set_pty_id("x");
      refused(type);
    }
    v1::LinkRequest wait;
    *wait.mutable_principal() = by_session(bob);
    wait.mutable_wait()->set_scope("shared");
    wait.mutable_wait()->set_session_id(bob);
    wait.mutable_wait()->set_timeout_ms(1'000);
    refused(wait);
  }

  // The home is the one it was, and so is what it keeps.
  CHECK(c.home.node_pid() == pid);
  CHECK(c.home.ctl_json(in_shared({"locks"})).size() == 1);
  CHECK(b.ctl(in_shared({"unlock", "/src/f", "--as", bob})).status == 0);
  grpc::ClientContext context;
  node_client client{c.home};
  client.prepare(context);
  v1::CheckRequest whole;
  whole.set_full(true);
  v1::CheckReply found;
  REQUIRE(client.node().Check(&context, whole, &found).ok());
  CHECK(found.ok());
  CHECK(scripted_node(who, limits::link_protocol, 1).up());
}

TEST_CASE("a node that floods and does not read is cut off, and the others are served meanwhile") {
  cluster_of_nodes c{"link_heartbeat = 1000\nlink_silence = 2000\n"};
  CHECK(c.home.down().status == 0);
  {
    // What was freed counts as used for as long as the sanitizer keeps it. (`up` would start a node without its options.)
    std::string was = std::getenv("ASAN_OPTIONS") ? std::getenv("ASAN_OPTIONS") : "";
    setenv("ASAN_OPTIONS", (was + (was.empty() ? "" : ":") + "quarantine_size_mb=4").c_str(), 1);
    c.home.start();
    was.empty() ? unsetenv("ASAN_OPTIONS") : setenv("ASAN_OPTIONS", was.c_str(), 1);
  }
  test_node b;
  configure(b, "link_heartbeat = 1000\nlink_silence = 2000\n");
  c.join(b, "b");
  auto who = join_as_member(c.token(), "flood");
  const auto pid = c.home.node_pid();
  const auto before = resident_bytes(pid);
  std::atomic<bool> ended = false;
  std::atomic<std::uint64_t> most = 0;
  auto flood = [&](const std::function<v1::LinkFrame(std::uint64_t)>& frame) {
    link_stream s{who, link_lane::control, false};
    if (!s.write(hello_frame(who)))
      return false;
    std::uint64_t seq = 0;
    while (s.write(frame(seq + 1))) {
      if (++seq % 1'024 == 0)
        most = std::max(most.load(), resident_bytes(pid));
    }
    most = std::max(most.load(), resident_bytes(pid));
    return seq > 0;
  };
  auto flooding = std::async(std::launch::async, [&] {
    // Small requests whose answers nobody takes; large ones that wait, beyond all credit.
    auto small = flood([&](std::uint64_t seq) { return message_frame(seq, question(), seq); });
    auto large = flood([&](std::uint64_t seq) {
      v1::LinkRequest r;
      *r.mutable_principal() = by_operator();
      r.set_timeout_ms(600'000);
      r.mutable_watch()->set_scope("shared");
      r.mutable_watch()->set_subject(std::string(1'000'000, 'x'));
      r.mutable_watch()->set_after(std::uint64_t{1} << 60);
      r.mutable_watch()->set_wait(true);
      return message_frame(seq, r, seq);
    });
    ended = true;
    return small && large;
  });
  auto served = 0;
  do {
    CHECK(b.ctl(in_shared({"kv", "set", "k", std::to_string(served)}), {.deadline = 10s}).status == 0);
    ++served;
  } while (!ended && served < 1'000);
  CHECK(flooding.get());
  CHECK(most - std::min(before, most.load()) < 128u * 1024 * 1024);
  CHECK(lines_with(c.home, "the link to the node flood ends: it sends more than it was given credit for") == 1);
  CHECK(counted(c.home, peer_row("flood")) >= 2);
  CHECK(scripted_node(who, limits::link_protocol, 1).up());
}

TEST_CASE("a node that asks for more than may be under way is refused the rest, until it takes something back or starts over") {
  constexpr std::uint64_t most = 512;
  cluster_of_nodes c{"link_requests_max = " + std::to_string(most) + "\n"};
  auto who = join_as_member(c.token(), "greedy");
  auto at_once = [&](std::uint64_t n) {
    return eventually([&] { return detail_of(c.home, peer_row("greedy")).find(", " + std::to_string(n) + " asked of us") != std::string::npos; });
  };
  auto s = linked_stream(who);
  std::uint64_t seq = 0;
  auto put = [&](v1::LinkRequest r) {
    ++seq;
    REQUIRE(s->write(message_frame(seq, std::move(r), seq)));
  };
  auto ask = [&](v1::LinkRequest r) {
    put(std::move(r));
    for (;;) {
      auto f = s->next();
      REQUIRE(f);
      if (f->message().response().id() == seq)
        return f->message().response();
    }
  };
  auto path = [](std::uint64_t i) { return "/src/" + std::to_string(i); };
  auto olga = ask(registration("name:olga")).reply().session().session().id(), pat = ask(registration("name:pat")).reply().session().session().id();
  for (std::uint64_t i = 0; i < most; ++i)
    CHECK(ask(lock_of(olga, path(i))).reply().lock().has_lock());
  std::vector<v1::LinkRequest> waiting;
  for (std::uint64_t i = 0; i < most; ++i) {
    waiting.push_back(lock_of(pat, path(i)));
    waiting.back().mutable_execute()->mutable_command()->mutable_acquire_lock()->set_wait_ms(600'000);
    put(waiting.back());
  }
  auto last = seq;
  CHECK(ask(question()).error().code() == static_cast<std::uint32_t>(errc::overloaded));
  CHECK(at_once(most));
  CHECK(c.home.ctl(in_shared({"kv", "set", "k", "v"})).status == 0);
  v1::LinkFrame back;
  back.set_seq(++seq);
  back.set_credit(limits::link_window_bytes());
  back.mutable_message()->mutable_cancel()->set_id(last);
  REQUIRE(s->write(back));
  CHECK(ask(question()).has_answer_to_query());
  CHECK(at_once(most - 1));
  // Taken back, the place in line is given up; a node that starts over asks again, and has it still.
  auto in_line = [&] {
    auto rows = c.home.ctl_json(in_shared({"locks"}));
    return std::count_if(rows.begin(), rows.end(), [](const json& l) { return l.value("waiters", 0) == 1; });
  };
  CHECK(eventually([&] { return in_line() == most - 1; }));
  // The connections of a node that starts over have ended; one that calls beside them would be taken for a copy.
  s = nullptr;
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "greedy") == "down"; }));
  s = linked_stream(who);
  seq = 0;
  CHECK(at_once(0));
  CHECK(in_line() == most - 1);
  put(waiting.front());
  REQUIRE(at_once(1));
  auto let_go = command_of(by_session(olga), [&](v1::Command& cmd) {
    cmd.set_actor(olga);
    cmd.mutable_release_lock()->set_path(path(0));
  });
  put(let_go);
  v1::LinkResponse granted;
  while (granted.id() != 1) {
    auto f = s->next();
    REQUIRE(f);
    granted = f->message().response();
  }
  CHECK(granted.reply().lock().has_lock());
}

TEST_CASE("a node whose clock is an hour off is linked, shown and said once, and its leases are the home's to judge") {
  cluster_of_nodes c;
  auto who = join_as_member(c.token(), "late");
  std::string olga;
  for (auto hours : {1, 1, 1}) {
    scripted_node late{who, limits::link_protocol, 1, hours * 3'600'000};
    REQUIRE(late.up());
    auto off = [&] { return cluster_of_nodes::row_seen_by(c.home, "late")["clock_offset_ms"].get<std::int64_t>(); };
    CHECK(eventually([&] { return std::abs(off() - 3'600'000) < 60'000; }));
    CHECK(c.home.ctl({"nodes"}).out.find(" ahead") != std::string::npos);
    if (olga.empty()) {
      auto made = late.ask(registration("name:olga"));
      REQUIRE(made);
      olga = made->reply().session().session().id();
    }
    auto locked = late.ask(lock_of(olga, "/src/f"));
    REQUIRE(locked);
    CHECK(locked->reply().lock().has_lock());
  }
  CHECK(lines_with(c.home, "the clock of the node late is") == 1);
  scripted_node right{who, limits::link_protocol, 1};
  REQUIRE(right.up());
  CHECK(eventually([&] { return c.home.ctl({"nodes"}).out.find(" ahead") == std::string::npos; }));
}

TEST_CASE("a node that says a time that cannot be is linked and shown as one whose clock is off") {
  cluster_of_nodes c;
  auto who = join_as_member(c.token(), "odd");
  auto off = [&] { return cluster_of_nodes::row_seen_by(c.home, "odd")["clock_offset_ms"].get<std::int64_t>(); };
  constexpr auto year_ms = std::int64_t{365} * 24 * 3'600'000;
  {
    scripted_node past{who, limits::link_protocol, 1, std::numeric_limits<std::int64_t>::min()};
    REQUIRE(past.up());
    CHECK(eventually([&] { return off() < -year_ms; }));
    CHECK(c.home.ctl({"nodes"}).out.find(" behind") != std::string::npos);
  }
  scripted_node future{who, limits::link_protocol, 1, std::numeric_limits<std::int64_t>::max() - 2 * system_clock_port().unix_ms()};
  REQUIRE(future.up());
  CHECK(eventually([&] { return off() > year_ms; }));
  CHECK(c.home.ctl({"nodes"}).out.find(" ahead") != std::string::npos);
}
