#!/usr/bin/env bash
# The documents name every limit, every event type and every file of the state directory; this check is itself checked first.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Rows "| `name` | value |": the value counts too.
limits_in() { "$top/tools/limits-table" "$1"; }
# Type texts handed to transaction::event, event_type parameters and subscriptions: words joined by dots, of a known family.
events_in() {
  { grep -ohE '"(instance|message|task|kv|context|lock|spawn|approval|planner|subscription|cleanup|pty|node)(\.[a-z_]*[a-z])+"' "$@" || true; } |
    tr -d '"' | sort -u
}
state_files_in() { sed -n 's/.*return root \/ "\([^"]*\)".*/\1/p' "$@"; }

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

# -- the check sees what it must see ---------------------------------------------------------
cat >"$scratch/limits.hpp" <<'CODE'
inline constexpr std::size_t here_max = 2 * kib; // a comment
inline constexpr milliseconds here{10'000};
inline constexpr milliseconds long_here = hours{24 * 7};
inline constexpr std::size_t changed_max = 3;
inline constexpr milliseconds gone{10};
CODE
printf 't.event("task.here", id, {});\nend("instance.gone");\n' >"$scratch/rules.cpp"
printf '  fs::path a() const { return root / "here.db"; }\n  fs::path b() const { return root / "gone"; }\n' >"$scratch/paths.hpp"
cat >"$scratch/doc.md" <<'TEXT'
| `here_max` | 2 KiB | meaning |
| `here` | 10 s | meaning |
| `long_here` | 7 days | meaning |
| `changed_max` | 2 | meaning |
`task.here` `here.db`, and gone without quotes
TEXT
found=$(
  limits_in "$scratch/limits.hpp" | undocumented "$scratch/doc.md"
  events_in "$scratch/rules.cpp" | undocumented "$scratch/doc.md"
  state_files_in "$scratch/paths.hpp" | undocumented "$scratch/doc.md"
)
# shellcheck disable=SC2016
if [[ $found != $'| `changed_max` | 3 |\n| `gone` | 10 ms |\ninstance.gone\ngone' ]]; then
  printf 'the check itself is blind; it found: %s\n' "$found"
  exit 1
fi

# shellcheck disable=SC2016
printf '| `task.here` | subject | payload |\n| `task.invented` | subject | payload |\n' >"$scratch/events.md"
if [[ $(comm -23 <(promised_events "$scratch/events.md") <(events_in "$scratch/rules.cpp")) != task.invented ]]; then
  printf 'the check does not see an event that is promised and never emitted\n'
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
complete "event types" docs/events.md 10 < <(events_in actors/domain/*.cpp actors/fabric/*.cpp)
unknown=$(comm -23 <(promised_events docs/events.md) <(events_in actors/domain/*.cpp actors/fabric/*.cpp))
if [[ -n $unknown ]]; then
  printf 'docs/events.md promises events that nothing emits:\n%s\n' "$unknown"
  failed=1
fi
complete "state files" docs/operations.md 5 < <(state_files_in actors/base/paths.hpp)
((failed == 0)) || exit 1
echo "documents: limits, events and state files are all named"
