// A node that answers what the test says and remembers what it was asked; and a console that keeps what was printed.
#pragma once

#include "actors/base/crypto.hpp"
#include "cli/app.hpp"
#include "tests/support/session_row.hpp"

#include <deque>
#include <map>

namespace swarm::cli::test {

class fake_node final : public coordination_port, public node_port, public pty_port, public conversation_port, public node_finder {
public:
  std::vector<v1::Command> commands;
  std::vector<v1::Query> queries;
  environment_list last_environment;
  std::function<v1::Reply(const v1::Command&)> on_command = [](const v1::Command&) { return v1::Reply{}; };
  std::function<v1::Answer(const v1::Query&)> on_query = [](const v1::Query&) { return v1::Answer{}; };
  /// Each watch takes the next script: what is delivered and how the stream ends.
  struct script {
    std::vector<v1::WatchReply> replies;
    stream_end end = stream_end::lost;
  };
  std::deque<script> watches;
  std::vector<v1::WatchRequest> watch_requests;
  bool is_running = true;
  bool may_start = true;

  v1::Reply execute(const v1::Command& c, const environment_list& e, std::int64_t) override {
    commands.push_back(c);
    last_environment = e;
    return on_command(c);
  }
  v1::Answer ask(const v1::Query& q) override {
    queries.push_back(q);
    return on_query(q);
  }
  stream_end watch(const v1::WatchRequest& r, const std::function<bool(const v1::WatchReply&)>& on) override {
    watch_requests.push_back(r);
    if (watches.empty())
      throw failure(code::deadline, "the test has no more events");
    auto next = watches.front();
    watches.pop_front();
    for (const auto& reply : next.replies)
      if (!on(reply))
        return stream_end::stopped;
    return next.end;
  }
  std::vector<v1::WaitRequest> waits;
  v1::Activity wait_for_activity(v1::WaitRequest r) override {
    waits.push_back(r);
    return {};
  }
  std::function<void()> on_cancel = [] {};
  void cancel() override { on_cancel(); }
  v1::NodeStatus status() override {
    v1::NodeStatus s;
    s.set_pid(42);
    s.set_version("9");
    s.set_node_name("box");
    s.set_state_dir("/state");
    s.set_uptime_ms(61'500);
    return s;
  }
  v1::ActorGraph graph(const v1::GraphRequest&) override { return {}; }
  v1::BackupReply backup(const v1::BackupRequest&) override { return {}; }
  v1::ShutdownReply shutdown(const v1::ShutdownRequest&) override {
    v1::ShutdownReply r;
    r.set_pid(42);
    return r;
  }
  v1::CheckReply check(const v1::CheckRequest&) override { return {}; }
  v1::Explanation explanation;
  v1::Explanation explain() override { return explanation; }
  std::optional<v1::Explanation> here; // what the node of this user says
  std::optional<v1::Explanation> explain_here() override { return here; }
  v1::FoundRequest to_found;
  std::string recovery_copy;
  v1::FoundReply found_cluster(const v1::FoundRequest& r) override {
    to_found = r;
    v1::FoundReply reply;
    reply.set_recovery_copy(recovery_copy);
    return reply;
  }
  v1::JoinToken create_join_token(const v1::CreateJoinTokenRequest&) override { return {}; }
  v1::ClusterView join_cluster(const v1::JoinClusterRequest&) override { return view; }
  v1::ClusterView view;
  v1::ClusterView nodes() override { return view; }
  v1::UnlockAuthorityReply unlock_authority(const v1::UnlockAuthorityRequest&) override { return {}; }
  v1::ClusterView revoke_node(const v1::RevokeNodeRequest&) override { return {}; }
  v1::ClusterView drain_node(const v1::DrainNodeRequest&) override { return {}; }
  v1::LeaveClusterReply leave_cluster(const v1::LeaveClusterRequest&) override { return {}; }
  v1::CheckoutList share_scope(const v1::ShareScopeRequest&) override { return {}; }
  v1::CheckoutList unshare_scope(const v1::UnshareScopeRequest&) override { return {}; }
  v1::CheckoutList shared;
  v1::CheckoutList checkouts() override { return shared; }
  v1::PtyInfo create(v1::CreatePtyRequest r) override {
    created = r;
    v1::PtyInfo info;
    info.set_id("pty-1");
    info.set_running(true);
    return info;
  }
  v1::CreatePtyRequest created;
  std::vector<v1::PtyInfo> terminals;
  v1::PtyList list(const v1::ListPtysRequest& r) override {
    v1::PtyList out;
    for (const auto& p : terminals)
      if (r.all_scopes() || p.scope() == r.scope())
        *out.add_ptys() = p;
    return out;
  }
  std::vector<std::string> output; // of every terminal, in chunks
  std::string refused_read;        // why there is none; empty: there is
  std::vector<v1::ReadPtyRequest> reads;
  std::vector<stream_end> read_ends; // of the first reads; complete after that
  stream_end read(const v1::ReadPtyRequest& request, const std::function<bool(const v1::PtyChunk&)>& on) override {
    reads.push_back(request);
    if (!refused_read.empty())
      throw call_failed(code::refused, refused_read);
    v1::PtyChunk chunk;
    chunk.set_offset(request.from());
    for (const auto& bytes : output) {
      chunk.set_offset(chunk.offset() + chunk.data().size());
      chunk.set_data(bytes);
      on(chunk);
    }
    return reads.size() <= read_ends.size() ? read_ends[reads.size() - 1] : stream_end::complete;
  }
  void pass_input(const std::string&, const std::string&) override {}
  std::vector<v1::SendPtyRequest> typed;
  v1::SendPtyReply send(v1::SendPtyRequest request) override {
    typed.push_back(request);
    return {};
  }
  v1::PtyInfo resize(const v1::ResizePtyRequest&) override { return {}; }
  std::vector<v1::KillPtyRequest> killed;
  v1::PtyInfo kill(const v1::KillPtyRequest& request) override {
    killed.push_back(request);
    v1::PtyInfo info;
    info.set_id(request.pty_id());
    info.set_running(true);
    return info;
  }
  std::function<v1::PtyInfo(const v1::ForgetPtyRequest&)> on_forget = [](const v1::ForgetPtyRequest&) { return v1::PtyInfo{}; };
  v1::PtyInfo forget(const v1::ForgetPtyRequest& r) override { return on_forget(r); }
  std::unique_ptr<pty_stream> attach() override { return nullptr; }
  std::unique_ptr<pty_stream> attach_again() override { return nullptr; }
  /// Each read of a conversation takes the next script: what is delivered and how the stream ends.
  struct said {
    std::vector<v1::ConversationChunk> chunks;
    stream_end end = stream_end::complete;
  };
  std::deque<said> conversations;
  std::vector<v1::ReadConversationRequest> conversation_reads;
  stream_end read_conversation(const v1::ReadConversationRequest& r, const std::function<bool(const v1::ConversationChunk&)>& on) override {
    conversation_reads.push_back(r);
    if (conversations.empty())
      throw failure(code::deadline, "the test has no more of the conversation");
    auto next = conversations.front();
    conversations.pop_front();
    for (const auto& chunk : next.chunks)
      if (!on(chunk))
        return stream_end::stopped;
    return next.end;
  }
  std::map<std::string, std::string> blobs; // by digest
  std::string read_blob(const v1::ReadBlobRequest& r) override {
    const auto found = blobs.find(r.digest());
    if (found == blobs.end())
      throw call_failed(code::refused, "there is no such blob");
    return found->second;
  }
  v1::WriteBlobReply write_blob(const v1::WriteBlobRequest& head, std::string_view bytes) override {
    v1::WriteBlobReply r;
    r.set_digest(sha256(bytes));
    r.set_bytes(bytes.size());
    blobs[r.digest()] = std::string{bytes};
    blob_of = head.conversation_id();
    return r;
  }
  std::string blob_of; // conversation of the last one
  bool running() override { return is_running; }
  void start(const std::string&) override { is_running = true; }
  void start_in_foreground(const std::string&) override {}
  bool ends = true;
  std::vector<std::pair<std::int64_t, std::int64_t>> awaited; // pid, milliseconds
  bool wait_for_exit(std::int64_t pid, std::int64_t timeout_ms) override {
    awaited.emplace_back(pid, timeout_ms);
    return ends;
  }
  std::string state_directory() override { return "/state"; }
  std::vector<std::string> obstacles() override { return {}; }
  std::string restore(const std::string&) override { return {}; }
  std::optional<target> spoken_to;
  void speak_to(const target& c) override { spoken_to = c; }
  bool kept_down = false, programs_go_on = false;
  bool keep_down() override {
    kept_down = true;
    return programs_go_on;
  }
  std::vector<v1::PtyInfo> kept;
  std::vector<v1::PtyInfo> kept_programs() override { return kept; }
  std::vector<v1::PtyInfo> end_kept_programs() override {
    programs_go_on = false;
    return std::exchange(kept, {});
  }
  bool is_kept_down() override { return kept_down; }
  void expect_return() override {
    if (kept_down && !programs_go_on)
      throw call_failed(code::no_node, "the node was stopped");
  }
  void never_start() override { may_start = false; }
  bool takes_keeper = false;
  void take_keeper() override { takes_keeper = true; }
  std::vector<v1::LoginRequest> logins;
  v1::LoginReply login(const v1::LoginRequest& r) override {
    logins.push_back(r);
    v1::LoginReply reply;
    reply.set_until_ms(1'795'291'620'000);
    return reply;
  }
  std::vector<v1::LogoutRequest> logouts;
  v1::LogoutReply logout(const v1::LogoutRequest& r) override {
    logouts.push_back(r);
    v1::LogoutReply reply;
    reply.set_ended(1);
    return reply;
  }
  std::vector<v1::SetPassphraseRequest> passphrases;
  v1::SetPassphraseReply set_passphrase(const v1::SetPassphraseRequest& r) override {
    passphrases.push_back(r);
    v1::SetPassphraseReply reply;
    reply.set_set(!r.passphrase().empty());
    return reply;
  }
  void set_timeout_ms(std::int64_t) override {}
  std::unique_ptr<node_line> connect(const std::string&, bool) override { return nullptr; }
};

struct terminal {
  std::string out;
  std::string err;
  console io{[this](std::string_view b) { out += b; }, [this](std::string_view b) { err += b; }, false, false, false};
};

struct cli {
  fake_node node;
  terminal screen;
  environment env{{{"HOME", "/home/ada"}}};
  manual_clock clock{1'795'291'700'000};
  std::string directory = "/r";
  std::string program = "swarmctl";
  std::filesystem::path config_file;
  recent_things recent;

  int operator()(std::vector<std::string> args) {
    screen.out.clear();
    screen.err.clear();
    invocation cli{{node, node, node, node, node}, env, screen.io, clock, directory};
    cli.program = program;
    cli.config_file = config_file;
    cli.recent = recent;
    return run(cli, std::move(args));
  }
  json out_json() const { return json::parse(screen.out); }
};

using swarm::testing::session;

inline v1::Reply refusal(v1::Refusal::Code c, const std::string& text) {
  v1::Reply r;
  r.mutable_refusal()->set_code(c);
  r.mutable_refusal()->set_text(text);
  return r;
}

} // namespace swarm::cli::test
