#!/usr/bin/env bash
# The documents name every limit, every event type, every file of the state directory and every environment variable, and link only to what exists. The contract says of every
# message, enum, call and field what it means. This check is itself checked first.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Rows "| `name` | value |": the value is compared, too.
limits_in() { "$top/tools/limits-table" "$1"; }
# Type texts handed to transaction::event, event_type parameters and subscriptions: words joined by dots, of a known family.
events_in() {
  { grep -ohE '"(agent|instance|message|task|kv|context|lock|spawn|approval|planner|conversation|subscription|cleanup|pty|node)(\.[a-z_]*[a-z])+"' "$@" || true; } |
    tr -d '"' | sort -u
}
state_files_in() { sed -n 's/.*return root \/ "\([^"]*\)".*/\1/p' "$@"; }

# Variables of the environment that programs look at. Those that each agent's hooks have of their own are SWARM_X_.
variables_in() {
  { grep -ohE '"((SWARM|XDG)(_[A-Z]+)+|AGENT_IDENTITY|NO_COLOR)"' "$@" || true; } |
    tr -d '"' | sed -E 's/^SWARM_(CC|CODEX|OPENCODE|HERMES|GEMINI)_/SWARM_X_/' | sort -u
}

# The lists of variables that workers inherit, as docs/security.md shows them.
inherited_in() {
  sed -nE 's/^  \{("[a-z]+"), "([A-Z_* ]+)"\},$/| `\1` | `\2` |/p' "$@" | tr -d '"'
  tr '\n' ' ' <"$1" | grep -oE 'constexpr std::string_view [a-z_]+ = *"[A-Za-z_* ]+"' | sed -E 's/.*= *"([^"]*)"/\1/'
}

uncommented() { awk -f "$top/tests/contract/proto_comments.awk" "$@"; }

# The first column of the tables of event types.
# shellcheck disable=SC2016
promised_events() { sed -n 's/^| `\([a-z_]*\.[a-z_.]*\)` |.*/\1/p' "$1" | sort -u; }

# undocumented DOCUMENT, names or rows on stdin: prints those the document does not show, a name as `name`
undocumented() {
  local name
  while IFS= read -r name; do
    case "$name" in
      "|"*) grep -qF -e "$name" "$1" ;;
      *) grep -qF -e "\`$name\`" -e "\`$name/\`" "$1" ;;
    esac || printf '%s\n' "$name"
  done
}

# The headlines of a document, as links name them.
anchors() { sed -n 's/^##* //p' "$1" | tr '[:upper:] ' '[:lower:]-' | sed 's/[^a-z0-9_-]//g'; }
# broken_links DOCUMENT...: "DOCUMENT: TARGET" for links to a file, or to a headline of one, that does not exist
broken_links() {
  local document target path
  for document in "$@"; do
    while IFS= read -r target; do
      path=$document
      [[ $target == "#"* ]] || path=$(dirname "$document")/${target%%#*}
      [[ -e $path && ($target != *"#"* || $'\n'$(anchors "$path")$'\n' == *$'\n'"${target#*#}"$'\n'*) ]] || printf '%s: %s\n' "$document" "$target"
    done < <(grep -oE '\]\([^) ]+\)' "$document" | sed 's/^](\(.*\))$/\1/' | grep -vE '^[a-z]+:' || true)
  done
}

# -- the check sees what it must see ---------------------------------------------------------
cat >"$scratch/limits.hpp" <<'CODE'
inline constexpr std::size_t here_max = 2 * kib; // a comment
inline constexpr milliseconds here{10'000};
inline constexpr milliseconds long_here = hours{24 * 7};
inline constexpr std::size_t changed_max = 3;
inline constexpr milliseconds gone{10};
CODE
printf 't.event("task.here", id, {});\nend("instance.gone");\n' >"$scratch/rules.cpp"
printf 'get("SWARM_HERE"); get("SWARM_CC_HERE"); get("SWARM_GONE"); starts_with("SWARM_");\n' >"$scratch/variables.cpp"
printf '  fs::path a() const { return root / "here.db"; }\n  fs::path b() const { return root / "gone"; }\n' >"$scratch/paths.hpp"
cat >"$scratch/doc.md" <<'TEXT'
| `here_max` | 2 KiB | meaning |
| `here` | 10 s | meaning |
| `long_here` | 7 days | meaning |
| `changed_max` | 2 | meaning |
`task.here` `here.db` `SWARM_HERE` `SWARM_X_HERE`, and gone without quotes
| `here` | `HERE_* A` |
| `changed` | `HERE_*` |
`PATH LC_*`
TEXT
cat >"$scratch/environment.cpp" <<'CODE'
constexpr std::string_view everybodys =
  "PATH LC_*";
constexpr std::string_view gone_list = "GONE HOME";
  {"here", "HERE_* A"},
  {"changed", "HERE_* B"},
CODE
found=$(
  limits_in "$scratch/limits.hpp" | undocumented "$scratch/doc.md"
  events_in "$scratch/rules.cpp" | undocumented "$scratch/doc.md"
  state_files_in "$scratch/paths.hpp" | undocumented "$scratch/doc.md"
  variables_in "$scratch/variables.cpp" | undocumented "$scratch/doc.md"
  inherited_in "$scratch/environment.cpp" | undocumented "$scratch/doc.md"
)
# shellcheck disable=SC2016
if [[ $found != $'| `changed_max` | 3 |\n| `gone` | 10 ms |\ninstance.gone\ngone\nSWARM_GONE\n| `changed` | `HERE_* B` |\nGONE HOME' ]]; then
  printf 'the check itself is blind; it found: %s\n' "$found"
  exit 1
fi

# shellcheck disable=SC2016
printf '| `task.here` | subject | payload |\n| `task.invented` | subject | payload |\n' >"$scratch/events.md"
if [[ $(comm -23 <(promised_events "$scratch/events.md") <(events_in "$scratch/rules.cpp")) != task.invented ]]; then
  printf 'the check does not see an event that is promised and never emitted\n'
  exit 1
fi

printf '# A page, Here\n[a](page.md) [b](page.md#a-page-here) [c](#a-page-here)\n[d](gone.md) [e](page.md#gone) [f](#gone) [g](https://example.org)\n' >"$scratch/page.md"
if [[ $(broken_links "$scratch/page.md" | sed 's/.*: //' | xargs) != "gone.md page.md#gone #gone" ]]; then
  printf 'the check for links is blind or sees ghosts; it found: %s\n' "$(broken_links "$scratch/page.md")"
  exit 1
fi

# Lines that end in "bare" are to be found, all others not.
cat >"$scratch/planted.proto" <<'PROTO'
syntax = "proto3";
package planted;
import "swarm/v1/bare.proto";
option optimize_for = SPEED;

// ---- a ruler is no comment ----
message Bare { // bare in name only
  string field_bare = 1;
  repeated bytes list_bare = 2;
  // above
  string above = 3;
  string second_bare = 4;
  string trailing = 5; // bytes
  string empty_bare = 6; //
  map<string, swarm.v1.Lock> map_bare = 7;
  string text_bare = 8 [json_name = "// bare"];
  string
    split_bare = 9;
  string
    split = 10; // over two lines
  reserved 11;
  reserved "old";

  // not directly above

  string apart_bare = 12;
  oneof body {
    string member_bare = 13;
    string member = 14; // member
  }
  // inner
  enum Inner {
    INNER_UNSPECIFIED = 0;
    VALUE_BARE = 1;
    VALUE = 2; // value
  }
}
message OneLine_bare { string inner_bare = 1; }
message OneLine { string inner = 1; uint64 two = 2; } // trailing
// above
message Above { string inner = 1; }
// ---- a ruler ----
message AfterRuler_bare {}
enum Kind_bare {
  // none of these = 1;
  KIND_UNSPECIFIED = 0;
  KIND_BARE = -1;
}
service Calls_bare {
  rpc Call_bare(A) returns (stream B);
  // call
  rpc Call(A) returns (B);
  rpc Options_bare(A) returns (B) {
    option deprecated = true;
  }
}
PROTO
found=$(uncommented "$scratch/planted.proto" | sed 's/.*: //' | tr '\n' ' ')
expected="field_bare list_bare second_bare empty_bare map_bare text_bare split_bare apart_bare member_bare VALUE_BARE "
expected+="OneLine_bare inner_bare AfterRuler_bare Kind_bare KIND_BARE Calls_bare Call_bare Options_bare "
if [[ $found != "$expected" ]]; then
  printf 'the check for comments is blind or sees ghosts; it found: %s\n' "$found"
  exit 1
fi
# Two files in one pass: nothing of the first, not even an open brace, reaches into the second.
printf '// a comment' >"$scratch/first.proto"
printf 'message Next {\n' >"$scratch/second.proto"
if [[ $(uncommented "$scratch/first.proto" "$scratch/second.proto") != "$scratch/second.proto:1: Next" ]]; then
  printf 'the check for comments does not start over with each file\n'
  exit 1
fi

# The table of rights as the page shows it, between its marks.
shown_rights() { awk '/^<!-- rights: begin/ { inside = 1; next } /^<!-- rights: end/ { inside = 0 } inside' "$1"; }
printf 'before\n<!-- rights: begin x -->\n| a |\n<!-- rights: end -->\nafter\n' >"$scratch/rights.md"
if [[ $(shown_rights "$scratch/rights.md") != "| a |" ]]; then
  printf 'the check does not find the table of rights\n'
  exit 1
fi

# -- the documents -----------------------------------------------------------------------------
cd "$top"
failed=0
# complete WHAT DOCUMENT AT_LEAST, names on stdin; not at the end of a pipe, whose subshell would lose the verdict
complete() {
  local names missing count
  names=$(cat)
  count=$(grep -c . <<<"$names" || true)
  if ((count < $3)); then
    printf '%s: only %s found in the sources, expected at least %s: the search is wrong\n' "$1" "$count" "$3"
    failed=1
  fi
  missing=$(undocumented "$2" <<<"$names" | grep . || true)
  if [[ -n $missing ]]; then
    printf '%s lacks %s:\n%s\n' "$2" "$1" "$missing"
    failed=1
  fi
}
complete limits docs/limits.md 50 < <(limits_in actors/base/limits.hpp)
shopt -s nullglob
mapfile -t sources < <(find actors/domain actors/fabric -name '*.cpp')
complete "event types" docs/events.md 10 < <(events_in "${sources[@]}")
unknown=$(comm -23 <(promised_events docs/events.md) <(events_in "${sources[@]}"))
if [[ -n $unknown ]]; then
  printf 'docs/events.md promises events that nothing emits:\n%s\n' "$unknown"
  failed=1
fi
complete "state files" docs/operations.md 5 < <(state_files_in actors/base/paths.hpp)
# actors/agents only passes variables on.
mapfile -t sources < <(find actors services gateway cli -name '*.cpp' -not -path 'actors/agents/*')
complete "environment variables" docs/configuration.md 25 < <(variables_in "${sources[@]}")
complete "inherited variables" docs/security.md 10 < <(inherited_in actors/base/environment.cpp)
rights=$(tools/rights-table)
if (($(grep -c . <<<"$rights") < 20)); then
  printf 'hardly any right found: the search is wrong\n'
  failed=1
fi
if [[ $(shown_rights docs/security.md) != "$rights" ]]; then
  printf 'docs/security.md shows other rights than the table has; run: tools/rights-table --write\n'
  failed=1
fi
broken=$(broken_links ./*.md docs/*.md docs/adr/*.md docs/examples/*.md)
if [[ -n $broken ]]; then
  printf 'links that lead nowhere:\n%s\n' "$broken"
  failed=1
fi
contract=(proto/swarm/v1/*.proto proto/swarm/internal/*.proto)
statements=$(uncommented -v all=1 "${contract[@]}" | grep -c . || true)
if ((statements < 900)); then
  printf 'only %s messages, fields and so on found in the contract: the search is wrong\n' "$statements"
  failed=1
fi
missing=$(uncommented "${contract[@]}")
if [[ -n $missing ]]; then
  printf 'without a comment of what it means, with units and limits:\n%s\n' "$missing"
  failed=1
fi
((failed == 0)) || exit 1
echo "documents: limits, events, state files and variables are all named, links lead somewhere, and the contract is commented"
