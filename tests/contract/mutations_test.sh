#!/usr/bin/env bash
# Every mutation of tests/mutations applies to this checkout, so that a change which moves its code adapts it. tools/mutate runs them.
set -euo pipefail
cd "$(dirname "$0")/../.."

stale=()
count=0
for file in tests/mutations/*.patch; do
  count=$((count + 1))
  git -c safe.directory="$PWD" apply --check "$file" 2>/dev/null || stale+=("$file")
done
((count >= 30)) || { echo "hardly any mutation found: the search is wrong" >&2; exit 1; }
((${#stale[@]} == 0)) || { printf 'no longer applies; adapt it to the code: %s\n' "${stale[@]}" >&2; exit 1; }
echo "mutations: all $count apply"
