#!/usr/bin/env bash
# The examples of CONTRIBUTING.md do what the page says: their blocks apply to this checkout, are laid out, build and pass, and change no more files
# than the page allows; and what the page says of each forgotten file is what happens. Works in a view of the checkout, which stays as it is. Part
# of tools/test --full: a change of the contract builds much again.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/../../tools/lib.sh"
enter_view "$@"

page=CONTRIBUTING.md
section() { awk -v headline="## $1" '/^## / { inside = $0 == headline } inside' "$page"; }
# All blocks of a section as one patch, and the part of it that changes one file.
blocks() { awk '/^```$/ { inside = 0 } inside; /^```diff$/ { inside = 1 }'; }
part() {
  awk -v file="b/$1" '
    $1 == "---" { before = $0; inside = 0; next }
    $1 == "+++" { inside = $2 == file; if (inside) print before }
    inside' example.patch
}
apply() { patch -p1 --fuzz=0 --silent "$@" >patch.log 2>&1 || { cat patch.log >&2; die "the example no longer applies; adapt it to the code"; }; }

# What the page names as the one that reports: a source, a script or a program of the tests.
check() {
  case "$1" in
    *.cpp) build_in_view "$ROOT/$1^" 2>/dev/null || { cat build.log; return 1; } ;;
    *.sh) "$1" 2>&1 ;;
    *)
      build_in_view "$1" 2>/dev/null || { cat build.log; return 1; }
      test_in_view "$1" || { cat test.log; return 1; }
      ;;
  esac
}
# Takes a file's part of the example away, or a field of its spec; puts it back.
spec=actors/domain/commands.cpp
without() {
  case "$1" in
    .*) cp "$spec" spec.whole && sed -i "s/\(RenewKv.*\), $1 = [a-z_]*/\1/" "$spec" ;;
    *) part "$1" | apply --reverse ;;
  esac
}
with() {
  case "$1" in
    .*) cp spec.whole "$spec" ;;
    *) part "$1" | apply ;;
  esac
}
# reported FILE_OR_FIELD CHECK WORDS: without it, the check fails and says so
reported() {
  without "$1"
  if check "$2" >check.log; then die "$1 is forgotten, and $2 reports nothing"; fi
  grep -qF -e "$3" check.log || { tail -n 40 check.log >&2; die "$1 is forgotten, and $2 does not say: $3"; }
  with "$1"
  note "without $1, $2 fails"
}

# all_reported ROWS; not on standard input, which the checks may read
all_reported() {
  local file by words
  while IFS=$'\t' read -r -u 3 file by words; do reported "$file" "$by" "$words"; done 3<<<"$1"
}

# Brings the table of rights up to date; the test of the documents reports one that is not.
show_rights() {
  local rights=docs/security.md
  cp "$rights" rights.txt
  tools/rights-table --write >check.log || { tail -n 40 check.log >&2; die "the table of rights cannot be written"; }
  cmp -s "$rights" rights.txt && return
  cp "$rights" rights.written && cp rights.txt "$rights"
  if check tests/contract/documents_test.sh >check.log; then die "the table of rights is not up to date, and nothing reports it"; fi
  grep -qF "$rights shows other rights" check.log || { tail -n 40 check.log >&2; die "the table of rights is not up to date, and nothing says so"; }
  cp rights.written "$rights"
  note "with the old table of rights, documents_test.sh fails"
}

# example SECTION FILES CHECK...   applies the example of a section, which may change so many files, and runs the checks
example() {
  local section=$1 most=$2 files sources rows file name
  shift 2
  section "$section" | blocks >example.patch
  mapfile -t files < <(sed -n 's/^+++ b\///p' example.patch)
  # shellcheck disable=SC2016  # the page's quotes
  rows=$(section "$section" | sed -n 's/^| `\([^`]*\)` | `\([^`]*\)` | `\(.*\)` |$/\1\t\2\t\3/p')
  ((${#files[@]} >= 5 && $(grep -c . <<<"$rows") >= 5)) || die "hardly any block or row found in $page, $section: the search is wrong"
  ((${#files[@]} <= most)) || die "$section: the example takes ${#files[@]} files, at most $most are allowed"
  for file in "${files[@]}"; do
    [[ $file == tests/* || $'\n'$rows == *$'\n'"$file"$'\t'* ]] || die "$section: $page does not say what reports $file when it is forgotten"
  done
  apply <example.patch

  say "$section: ${#files[@]} files"
  mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep '\.[ch]pp$')
  clang-format-14 --dry-run --Werror "${sources[@]}" || die "the example is not laid out; see tools/format"
  # These fail before much is built.
  all_reported "$(awk -F '\t' '$2 ~ /\.cpp$/' <<<"$rows")"
  show_rights
  for name; do
    check "$name" >check.log || { tail -n 40 check.log >&2; die "$name fails with the example"; }
    note "$name passes with the example"
  done
  all_reported "$(awk -F '\t' '$2 !~ /\.cpp$/' <<<"$rows")"
  tools/proto-baseline >check.log || { cat check.log >&2; die "the example cannot be published"; }
}

cp proto/swarm.desc.txt published.txt
cp docs/security.md rights.published
example "A new command, for the impatient" 9 test_domain test_cli tests/contract/documents_test.sh test_e2e_json
apply --reverse <example.patch
cp published.txt proto/swarm.desc.txt
cp rights.published docs/security.md
example "A new table" 7 test_domain test_store
say "the examples of $page hold"
