// secret set|list|rm: keys of others, which config.toml names as secret:NAME.
#include <string.h>
#include <unistd.h>

#include "actors/base/paths.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/passphrase.hpp"

namespace swarm::cli {

namespace {

secret_store store_of(const invocation& cli) { return secret_store{secrets_directory(cli.config_file.parent_path())}; }

/// The settings of config.toml that name it; none if that file cannot be read.
std::vector<std::string> uses_of(const invocation& cli, const std::string& name) {
  std::vector<std::string> out;
  const auto document = read_config(cli.config_file, domain::whole_config());
  for (const auto& used : domain::secrets_used(document))
    if (used.name == name)
      out.push_back(used.setting);
  return out;
}

/// Up to the end of the input; one end of a line at its end is no part of it.
std::string secret_of_input() {
  std::string out;
  out.reserve(secret_bytes_max + 2); // growing would leave copies behind
  char c = 0;
  for (ssize_t n = 0; out.size() <= secret_bytes_max + 1 && ((n = read(STDIN_FILENO, &c, 1)) == 1 || (n < 0 && errno == EINTR));)
    if (n == 1)
      out += c;
  if (!out.empty() && out.back() == '\n')
    out.pop_back();
  if (!out.empty() && out.back() == '\r')
    out.pop_back();
  return out;
}

int run_set_secret(invocation& cli, const std::string& name) {
  if (auto why = objection_to_secret_name(name); !why.empty())
    throw usage(why);
  auto value = isatty(STDIN_FILENO) == 1 ? typed_passphrase("Secret " + name + " (it is not shown): ", "there is no terminal to type a secret at")
                                         : secret_of_input();
  prepare(state_dir{cli.config_file.parent_path()});
  const auto why = store_of(cli).set(name, value);
  explicit_bzero(value.data(), value.size());
  if (!why.empty())
    throw failure(code::refused, why);
  const auto uses = uses_of(cli, name);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"name", name}, {"used_by", uses}});
  else
    cli.io().line("kept " + name + (uses.empty() ? "; name it in config.toml as secret:" + name : "; used by " + joined(uses)));
  return code::ok;
}

int run_list_secrets(invocation& cli) {
  auto rows = json::array();
  std::vector<std::vector<std::string>> lines;
  for (const auto& name : store_of(cli).names()) {
    const auto uses = uses_of(cli, name);
    rows.push_back({{"name", name}, {"used_by", uses}});
    lines.push_back({name, uses.empty() ? "-" : joined(uses)});
  }
  if (cli.json_wanted())
    cli.io().print(rows);
  else if (lines.empty())
    cli.io().line("(no secrets; keep one with: swarmctl secret set NAME)");
  else
    cli.io().text(table({"SECRET", "USED BY"}, lines));
  return code::ok;
}

int run_remove_secret(invocation& cli, const std::string& name) {
  if (const auto why = store_of(cli).remove(name); !why.empty())
    throw failure(code::refused, why);
  const auto uses = uses_of(cli, name);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"name", name}, {"used_by", uses}});
  else
    cli.io().line("removed " + name + (uses.empty() ? "" : "; config.toml still names it: " + joined(uses)));
  return code::ok;
}

void build_secret(CLI::App& app, invocation& cli) {
  auto name = std::make_shared<std::string>();
  auto* set = app.add_subcommand("set", "keep a secret: typed at the terminal, where it is not shown, or read from standard input");
  auto values = std::make_shared<std::vector<std::string>>();
  option(*set, "name", *name, "its name: up to 32 letters, digits, - and _", argument::secret)->required();
  set->add_option("value", *values)->group("");
  on_run(*set, cli, [name, values, &cli] {
    if (!values->empty())
      throw usage("other users see the arguments of a command, and this one may be known to them now. Type the secret, or pipe it in: swarmctl "
                  "secret set NAME");
    return run_set_secret(cli, *name);
  });
  on_run(*app.add_subcommand("list", "the names of the secrets, and what uses them; never a value"), cli, [&cli] { return run_list_secrets(cli); });
  auto* remove = app.add_subcommand("rm", "remove a secret");
  option(*remove, "name", *name, "its name", argument::secret)->required();
  on_run(*remove, cli, [name, &cli] { return run_remove_secret(cli, *name); });
}

constexpr verb verbs[] = {
  {.name = "secret",
   .about = subject::node,
   .summary = "keep keys for the agents of this host's node: set, list, rm",
   .examples = "  swarmctl secret set anthropic\n  pass show anthropic | swarmctl secret set anthropic\n  swarmctl secret list\n"
               "  swarmctl secret rm anthropic",
   .build = build_secret,
   .node = node_choice::own},
};

} // namespace

std::span<const verb> secret_verbs() { return verbs; }

} // namespace swarm::cli
