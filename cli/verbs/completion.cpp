// completion: scripts for shells. They know no verb: at each press of the Tab key they ask swarmctl itself (complete.cpp), by the name under
// which it was called, so that they never say what an older program said.
#include "cli/verb.hpp"

namespace swarm::cli {

namespace {

constexpr const char* bash_script = R"(# bash completion for swarmctl; load with: source <(swarmctl completion bash)
_swarmctl() {
  local words=() word rest=${COMP_LINE-} current head line found=() i raw=${2-${COMP_WORDS[COMP_CWORD]}}
  # Bash cuts words at = : and @ (COMP_WORDBREAKS). What no blank parts is asked for as one; replaced is what bash calls the word.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $i -gt 1 && -n ${COMP_LINE-} && $rest != [[:space:]]* ]]; then
      words[${#words[@]} - 1]+=$word
    elif ((i > 0)); then
      words+=("$word")
    fi
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"$word"}
  done
  current=${words[${#words[@]} - 1]}
  head=${current%"$raw"}
  mapfile -t found < <("${COMP_WORDS[0]/#\~/$HOME}" __complete -- "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  case ${found[0]-} in
    :program) _swarmctl_program "$raw" ;;
    :files)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$raw")
      ;;
    :directories)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$raw")
      ;;
    *)
      compopt -o nosort 2>/dev/null
      for line in "${found[@]}"; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$head"}")
      done
      ;;
  esac
}
# After -- stands a program with its own words.
_swarmctl_program() {
  local at=1
  while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} != -- ]]; do at=$((at + 1)); done
  at=$((at + 1))
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$at"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$at"
  elif ((COMP_CWORD == at)) && [[ $1 != */* ]]; then
    mapfile -t COMPREPLY < <(compgen -c -- "$1" | sort -u)
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
  fi
}
complete -F _swarmctl swarmctl swarm-mcp
)";

constexpr const char* zsh_script = R"(#compdef swarmctl swarm-mcp
# zsh completion for swarmctl; load with: source <(swarmctl completion zsh)
_swarmctl() {
  local -a given found entries
  local line at
  ((CURRENT > 2)) && given=("${(@Q)words[2,CURRENT-1]}")
  found=("${(@f)$("${${(Q)words[1]}/#\~/$HOME}" __complete -- "${given[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
  case ${found[1]} in
    :program)
      at=${words[(i)--]}
      shift $at words
      ((CURRENT -= at))
      _normal
      ;;
    :files)
      [[ $PREFIX == --*=* ]] && compset -P '*='
      _files
      ;;
    :directories)
      [[ $PREFIX == --*=* ]] && compset -P '*='
      _files -/
      ;;
    ?*)
      for line in $found; do
        entries+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
      done
      _describe -V swarmctl entries
      ;;
  esac
}
compdef _swarmctl swarmctl swarm-mcp
)";

constexpr const char* fish_script = R"(# fish completion for swarmctl; load with: swarmctl completion fish | source
function __swarmctl_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l current (commandline -ct)
    set -l found (command $program __complete -- $words "$current" 2>/dev/null)
    switch "$found[1]"
        case :program
            while test (count $words) -gt 0; and test "$words[1]" != --
                set -e words[1]
            end
            set -e words[1]
            complete -C (string join ' ' -- (string escape -- $words) "$current")
        case :files
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- "$current")
        case :directories
            __fish_complete_directories (string replace -r '^--[^=]*=' '' -- "$current") ''
        case '*'
            printf '%s\n' $found
    end
end
complete -c swarmctl -f -k -a '(__swarmctl_complete)'
complete -c swarm-mcp -w swarmctl
)";

void build_completion(CLI::App& app, invocation& cli) {
  auto shell = std::make_shared<std::string>();
  option(app, "shell", *shell, "bash, zsh or fish", argument::shell)->required();
  on_run(app, cli, [shell, &cli] {
    if (*shell == "bash")
      cli.io().raw(bash_script);
    else if (*shell == "zsh")
      cli.io().raw(zsh_script);
    else if (*shell == "fish")
      cli.io().raw(fish_script);
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
