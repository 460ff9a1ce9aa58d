#include "cli/completion.hpp"

#include "actors/base/text.hpp"
#include "cli/verb.hpp"

namespace swarm::cli {

namespace {

/// One place in the command tree: "" for swarmctl itself, "kv", "kv get", …
struct place {
  std::string path;
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::string& path, std::vector<place>& out) {
  out.push_back({path, &app});
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> names{sub->get_name()};
    for (const auto& alias : sub->get_aliases())
      names.push_back(alias);
    for (const auto& name : names)
      collect(*sub, path.empty() ? name : concat({path, " ", name}), out);
  }
}

std::vector<place> places(const CLI::App& root) {
  std::vector<place> out;
  collect(root, "", out);
  return out;
}

std::vector<std::string> names_of_subcommands(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    out.push_back(sub->get_name());
    for (const auto& alias : sub->get_aliases())
      out.push_back(alias);
  }
  return out;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* o : app.get_options([](const CLI::Option* each) { return each->nonpositional(); }))
    for (const auto& name : o->get_lnames())
      out.push_back("--" + name);
  return out;
}

/// What may come next at that place: subcommands, its flags, the global flags.
std::string words_at(const place& p, const CLI::App& root) {
  auto list = names_of_subcommands(*p.app);
  for (const auto& f : flags_of(*p.app))
    list.push_back(f);
  if (p.app != &root)
    for (const auto& f : flags_of(root))
      if (std::find(list.begin(), list.end(), f) == list.end())
        list.push_back(f);
  return joined(list);
}

std::string case_arms(const CLI::App& root, const std::string& assignment) {
  std::string out;
  for (const auto& p : places(root))
    out += "    \"" + p.path + "\") " + assignment + "'" + words_at(p, root) + "' ;;\n";
  return out;
}

std::string known_paths(const CLI::App& root) {
  std::string out;
  for (const auto& p : places(root))
    if (!p.path.empty())
      out += (out.empty() ? "" : "|") + std::string{"\""} + p.path + "\"";
  return out;
}

std::string fish_quoted(std::string text) {
  std::string out = "'";
  for (auto c : text)
    out += c == '\'' || c == '\\' ? std::string{"\\"} + c : std::string(1, c);
  return out + "'";
}

} // namespace

std::string bash_completion(const CLI::App& root) {
  return "# bash completion for swarmctl; load with: source <(swarmctl completion bash)\n"
         "_swarmctl() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} path= next words i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    [[ ${COMP_WORDS[i]} == -- ]] && { COMPREPLY=($(compgen -c -- \"$current\")); return; }\n"
         "    next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
         "    case \"$next\" in\n"
         "    " +
         known_paths(root) +
         ") path=$next ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path\" in\n" +
         case_arms(root, "words=") +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _swarmctl swarmctl swarm-mcp\n";
}

std::string zsh_completion(const CLI::App& root) {
  return "#compdef swarmctl swarm-mcp\n"
         "# zsh completion for swarmctl; load with: source <(swarmctl completion zsh)\n"
         "_swarmctl() {\n"
         "  local path_= next list i\n"
         "  for ((i = 2; i < CURRENT; i++)); do\n"
         "    [[ ${words[i]} == -- ]] && { _command_names; return; }\n"
         "    next=\"${path_:+$path_ }${words[i]}\"\n"
         "    case \"$next\" in\n"
         "    " +
         known_paths(root) +
         ") path_=$next ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path_\" in\n" +
         case_arms(root, "list=") +
         "  esac\n"
         "  compadd -- ${=list} || _files\n"
         "}\n"
         "compdef _swarmctl swarmctl swarm-mcp\n";
}

std::string fish_completion(const CLI::App& root) {
  std::string out = "# fish completion for swarmctl; load with: swarmctl completion fish | source\n"
                    "complete -c swarmctl -f\n"
                    "complete -c swarm-mcp -w swarmctl\n";
  auto options = [&out](const CLI::App& app, const std::string& condition) {
    for (const auto* o : app.get_options([](const CLI::Option* each) { return each->nonpositional(); }))
      for (const auto& name : o->get_lnames())
        out += concat({"complete -c swarmctl", condition, " -l ", name, o->get_items_expected_max() > 0 ? " -r" : "", " -d ",
                       fish_quoted(o->get_description()), "\n"});
  };
  options(root, "");
  for (const auto& p : places(root)) {
    if (p.app == &root) {
      for (const auto* sub : root.get_subcommands([](const CLI::App*) { return true; }))
        for (const auto& name : names_of_subcommands(root))
          if (sub->check_name(name))
            out += concat({"complete -c swarmctl -n __fish_use_subcommand -a ", name, " -d ", fish_quoted(sub->get_description()), "\n"});
      continue;
    }
    auto last = p.path.substr(p.path.rfind(' ') + 1);
    auto condition = " -n '__fish_seen_subcommand_from " + last + "'";
    for (const auto& name : names_of_subcommands(*p.app))
      out += concat({"complete -c swarmctl", condition, " -a ", name, "\n"});
    options(*p.app, condition);
  }
  return out;
}

namespace {

void build_completion(CLI::App& app, invocation& cli) {
  auto shell = std::make_shared<std::string>();
  option(app, "shell", *shell, "bash, zsh or fish")->required();
  on_run(app, cli, [shell, &cli] {
    auto root = full_tree(cli);
    if (*shell == "bash")
      cli.io().raw(bash_completion(*root));
    else if (*shell == "zsh")
      cli.io().raw(zsh_completion(*root));
    else if (*shell == "fish")
      cli.io().raw(fish_completion(*root));
    else
      throw usage("completion takes bash, zsh or fish");
    return code::ok;
  });
}

constexpr verb verbs[] = {
  {"completion", subject::node, "print a completion script for a shell", "  source <(swarmctl completion bash)\n  swarmctl completion fish | source",
   build_completion, nullptr, "", nullptr, node_choice::own},
};

} // namespace

std::span<const verb> completion_verbs() { return verbs; }

} // namespace swarm::cli
