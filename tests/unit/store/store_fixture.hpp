// What the store's tests share: a place for the file, commands to execute, and a look at the replies.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/crypto.hpp"
#include "actors/store/ledger.hpp"

namespace swarm::test {

/// A directory that goes with the test.
struct scratch_dir {
  scratch_dir() : path(std::filesystem::temp_directory_path() / ("swarm-store-" + random_uuid())) { std::filesystem::create_directory(path); }
  ~scratch_dir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  scratch_dir(const scratch_dir&) = delete;
  scratch_dir& operator=(const scratch_dir&) = delete;
  std::string file(const std::string& name = "swarm.db") const { return (path / name).string(); }

  std::filesystem::path path;
};

constexpr std::uint64_t plenty = 1ull << 40;

inline ledger_options options_for(const clock_port& clock, std::uint64_t seed = 1) {
  ledger_options options;
  options.clock = &clock;
  options.new_uuid = seeded_uuids(seed);
  options.node_id = "node-1";
  options.user_identity = "user:test";
  options.free_disk_bytes = [] { return plenty; };
  return options;
}

inline v1::Command operator_command(const std::string& scope = "build") {
  v1::Command cmd;
  cmd.set_scope(scope);
  cmd.mutable_caller()->set_directory("/src");
  cmd.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  return cmd;
}

inline v1::Command set_kv(const std::string& key, const std::string& value) {
  auto cmd = operator_command();
  cmd.mutable_set_kv()->set_key(key);
  cmd.mutable_set_kv()->set_value(value);
  return cmd;
}

/// Succeeds once: the key must not exist.
inline v1::Command create_kv(const std::string& key, const std::string& value) {
  auto cmd = set_kv(key, value);
  cmd.mutable_set_kv()->set_compare(true);
  return cmd;
}

inline v1::Command delete_kv(const std::string& key) {
  auto cmd = operator_command();
  cmd.mutable_delete_kv()->set_key(key);
  return cmd;
}

inline v1::Command session_command(const std::string& session) {
  auto cmd = operator_command();
  cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
  cmd.mutable_principal()->set_id(session);
  cmd.set_actor(session);
  return cmd;
}

inline v1::Command register_session(const std::string& id) {
  auto cmd = operator_command();
  auto* r = cmd.mutable_register_session();
  r->set_directory("/src");
  r->set_root("/src");
  r->set_preassigned_id(id);
  r->set_label("identity:test");
  return cmd;
}

inline v1::Command acquire(const std::string& session, const std::string& path, std::int64_t wait_ms = 0) {
  auto cmd = session_command(session);
  cmd.mutable_acquire_lock()->set_path(path);
  cmd.mutable_acquire_lock()->set_exclusive(true);
  cmd.mutable_acquire_lock()->set_wait_ms(wait_ms);
  return cmd;
}

inline v1::Command release(const std::string& session, const std::string& path) {
  auto cmd = session_command(session);
  cmd.mutable_release_lock()->set_path(path);
  return cmd;
}

inline v1::Command send_message(const std::string& from, const std::string& to, const std::string& text) {
  auto cmd = session_command(from);
  cmd.mutable_send_message()->set_recipient(to);
  cmd.mutable_send_message()->set_content(text);
  return cmd;
}

inline v1::Command create_task(const std::string& title, const std::string& idempotency_key = {}) {
  auto cmd = operator_command();
  auto* t = cmd.mutable_create_tasks()->add_tasks();
  t->set_type("implement");
  t->set_title(title);
  t->set_idempotency_key(idempotency_key);
  return cmd;
}

inline execution_ptr numbered(std::uint64_t seq, v1::Command cmd, const std::string& client = "client-aa", std::uint64_t acked_below = 0) {
  auto e = std::make_shared<execution>();
  e->id.set_client(client);
  e->id.set_seq(seq);
  e->id.set_acked_below(acked_below);
  e->command = std::move(cmd);
  return e;
}

inline execution_ptr from_node(v1::Command cmd) {
  auto e = std::make_shared<execution>();
  e->command = std::move(cmd);
  return e;
}

inline ::swarm::outcome one(ledger& book, const execution_ptr& e) { return book.execute_all(std::vector<execution_ptr>{e}).outcomes.at(0); }

inline v1::Reply reply_to(ledger& book, const execution_ptr& e) {
  ::swarm::outcome o = one(book, e);
  return o.reply ? *o.reply : v1::Reply{};
}

/// The reply as it was first given.
inline std::string first_form(v1::Reply reply) {
  reply.set_repeated(false);
  return reply.SerializeAsString();
}

} // namespace swarm::test
