# Shared by the scripts in tools/. Source it; it changes nothing by itself.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ROOT

say() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Prints the comment block at the head of the calling script: its help text.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# How many compilers may run at once: one per core, but never more than memory allows (1.5 GiB each for gRPC's headers).
jobs() {
  local cores free_kib fit
  cores=$(nproc)
  free_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  fit=$((free_kib / (1536 * 1024)))
  ((fit >= 1)) || fit=1
  echo $((cores < fit ? cores : fit))
}

# As root or through sudo.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root to run: $*  (log in as root or install sudo)"
  fi
}
