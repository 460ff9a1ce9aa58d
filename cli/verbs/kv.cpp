// kv [list|get|set|append|del].
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "cli/verb.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

struct kv_options {
  std::string prefix;
  std::string key;
  std::vector<std::string> value;
  double ttl_s = 0;
  std::int64_t if_revision = -1;
  std::string lock;
  std::int64_t fence = 0;
};

int run_list(invocation& cli, const kv_options& o) {
  auto entries = all_kv(cli, o.prefix);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& e : entries)
      out.push_back(mcp::kv_row(e));
    cli.io().print(out);
    return code::ok;
  }
  if (entries.empty())
    cli.io().line(none_in_scope(cli, o.prefix.empty() ? "kv entries" : "kv entries with that prefix"));
  for (const auto& e : entries)
    cli.io().line("  " + e.key() + "  (" + utc(e.updated_at_ms()) + ")");
  return code::ok;
}

int run_get(invocation& cli, const kv_options& o) {
  auto query = cli.query();
  query.mutable_get_kv()->set_key(o.key);
  cli.require_named_actor();
  auto answer = cli.node().coordination.ask(query);
  if (answer.refusal().code() == v1::Refusal::NOT_FOUND)
    throw failure(code::refused, "", json(nullptr));
  if (answer.has_refusal())
    throw refused(answer.refusal());
  if (!cli.json_wanted()) {
    // On a terminal the value is escaped; in a pipe it is what was stored.
    if (cli.io().out_is_terminal())
      cli.io().text(answer.kv().value());
    else
      cli.io().raw(answer.kv().value() + "\n");
    return code::ok;
  }
  auto out = mcp::kv_value(answer.kv());
  out["revision"] = answer.kv().revision();
  if (answer.kv().expires_at_ms() != 0)
    out["expires_at"] = mcp::seconds(answer.kv().expires_at_ms());
  cli.io().print(out);
  return code::ok;
}

v1::Command acting(const invocation& cli) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  return command;
}

/// --lock and --fence: the write happens only while the lock is held with that fence, by the instance that `lock` acts for.
template <class Write>
void guard(const invocation& cli, const kv_options& o, v1::Command& command, Write& body) {
  if (o.lock.empty() && o.fence == 0)
    return;
  if (o.lock.empty() || o.fence <= 0)
    throw usage("--lock FILE and --fence N belong together; `lock --json` gave the fence");
  auto session = cli.actor();
  command.set_actor(session.id());
  body.mutable_guard()->set_path(cli.lock_file(o.lock, session));
  body.mutable_guard()->set_fence(static_cast<std::uint64_t>(o.fence));
}

int run_set(invocation& cli, const kv_options& o) {
  auto command = acting(cli);
  auto* body = command.mutable_set_kv();
  body->set_key(o.key);
  body->set_value(joined(o.value));
  body->set_ttl_ms(milliseconds_of(o.ttl_s, "--ttl", limits::kv_ttl_max()));
  guard(cli, o, command, *body);
  if (o.if_revision >= 0) {
    body->set_compare(true);
    body->set_expected_revision(static_cast<std::uint64_t>(o.if_revision));
  }
  auto reply = cli.execute(command);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"key", o.key}, {"revision", reply.kv_written().entry().revision()}});
  else
    cli.io().line("set " + o.key);
  return code::ok;
}

int run_append(invocation& cli, const kv_options& o) {
  auto command = acting(cli);
  command.mutable_append_kv()->set_key(o.key);
  // swarm-mcp turns the value of a key that was typed by mistake into an array.
  command.mutable_append_kv()->set_only_to_array(!cli.is_swarm_mcp());
  command.mutable_append_kv()->set_json(joined(o.value));
  guard(cli, o, command, *command.mutable_append_kv());
  auto length = cli.execute(command).kv_written().items();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"key", o.key}, {"length", length}});
  else
    cli.io().line("appended to " + o.key + " (length=" + std::to_string(length) + ")");
  return code::ok;
}

int run_delete(invocation& cli, const kv_options& o) {
  auto command = acting(cli);
  command.mutable_delete_kv()->set_key(o.key);
  guard(cli, o, command, *command.mutable_delete_kv());
  auto done = cli.execute(command).done();
  // swarm-mcp claims success.
  if (done.nothing_there() && !cli.is_swarm_mcp())
    throw failure(code::refused, "there is no key " + o.key + " in scope " + cli.scope(), json{{"ok", false}, {"key", o.key}, {"deleted", false}});
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"key", o.key}});
  else
    cli.io().line("deleted " + o.key);
  return code::ok;
}

CLI::App* keyed(CLI::App& app, const char* name, const char* help, kv_options& o) {
  auto* sub = app.add_subcommand(name, help);
  option(*sub, "key", o.key, "key, 1 byte to " + byte_count(limits::kv_key_bytes_max()), argument::key)->required();
  return sub;
}

void guard_options(CLI::App& app, kv_options& o) {
  option(app, "--lock", o.lock, "only while this instance holds the lock of this file with --fence", argument::file);
  option(app, "--fence", o.fence, "fencing number that lock --json gave");
}

void build_kv(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<kv_options>();
  option(app, "--prefix", o->prefix, "only keys that start with this (% and _ are wildcards)");
  on_run(app, cli, [o, &cli] { return run_list(cli, *o); });
  auto* list = app.add_subcommand("list", "list the keys");
  on_run(*list, cli, [o, &cli] { return run_list(cli, *o); });
  on_run(*keyed(app, "get", "print a value; exit 1 if it is missing", *o), cli, [o, &cli] { return run_get(cli, *o); });
  auto* set = keyed(app, "set", "write a value", *o);
  words(*set, "value", o->value, "the text")->required();
  option(*set, "--ttl", o->ttl_s, "seconds until it expires");
  option(*set, "--if-revision", o->if_revision, "only if the entry has this revision; 0 = only if the key is new");
  guard_options(*set, *o);
  on_run(*set, cli, [o, &cli] { return run_set(cli, *o); });
  auto* append = keyed(app, "append", "append a JSON value to an array, which a new key begins", *o);
  words(*append, "json", o->value, "the value as JSON")->required();
  guard_options(*append, *o);
  on_run(*append, cli, [o, &cli] { return run_append(cli, *o); });
  auto* del = keyed(app, "del", "delete a key", *o);
  guard_options(*del, *o);
  on_run(*del, cli, [o, &cli] { return run_delete(cli, *o); });
}

constexpr verb verbs[] = {
  {"kv", subject::locks, "read and write the keys of the scope: list, get, set, append, del",
   "  swarmctl kv set plan/latest \"ship it\"\n"
   "  swarmctl kv get plan/latest --json\n"
   "  swarmctl kv set leader me --if-revision 0 --ttl 60\n"
   "  swarmctl kv set state/db migrated --lock schema.sql --fence 7\n"
   "  swarmctl kv append findings '{\"file\":\"a.cpp\"}'",
   build_kv},
};

} // namespace

std::span<const verb> kv_verbs() { return verbs; }

} // namespace swarm::cli
