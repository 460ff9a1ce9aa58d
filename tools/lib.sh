# Shared by the scripts in tools/. Source it; it changes nothing by itself.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ROOT

# The sanitizers' programs look for a name without the version.
export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer
export UBSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH TSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH

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

# enter_view [ARGUMENT...]   run the calling script again, with these arguments, in a view of this checkout; returns in that second run only
#
# The view is an overlay in a mount namespace of its own, at the checkout's own path: what is built is used there, what changes lands in a
# temporary folder, and the checkout stays as it is. Needs what root or a user namespace allows: to mount an overlay.
enter_view() {
  if [[ -z ${SWARM_VIEW:-} ]]; then
    "$ROOT/tools/setup" build test
    local user=() status=0
    SWARM_VIEW=$(mktemp -d /var/tmp/swarm-view.XXXXXX)
    trap 'rm -rf "$SWARM_VIEW"' EXIT
    mkdir "$SWARM_VIEW/upper" "$SWARM_VIEW/work"
    ((EUID == 0)) || user=(--user --map-root-user)
    SWARM_VIEW=$SWARM_VIEW unshare "${user[@]}" --mount --propagation private "$0" "$@" || status=$?
    exit "$status"
  fi
  mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$SWARM_VIEW/upper,workdir=$SWARM_VIEW/work" "$ROOT" ||
    die "cannot mount an overlay over $ROOT; try as root, and not in a container"
  cd "$ROOT" || exit
  local log
  log=$(cmake --preset asan 2>&1) || { printf '%s\n' "$log" >&2; die "cmake could not configure asan"; }
}

# build_in_view TARGET...   shows the end of the log when it fails; the whole is in build.log
build_in_view() {
  # Tests of whole nodes start the programs.
  case "$1" in test_e2e_* | test_fault_*) set -- "$@" swarmd swarmctl swarm-keeper swarm-driver ;; esac
  ninja -C build/asan -j "${SWARM_JOBS:-$(jobs)}" "$@" >build.log 2>&1 || { tail -n 40 build.log >&2; return 1; }
}

# test_in_view PROGRAM [DOCTEST OPTION...]   what it prints is in test.log
test_in_view() {
  SWARM_TEST_BIN_DIR="$ROOT/build/asan/bin" SWARM_SOURCE_DIR="$ROOT" timeout 300 "build/asan/bin/$1" "${@:2}" >test.log 2>&1
}

# How long the compiler works on a source, in seconds of a usual core; awk.
source_seconds='function source_seconds(bytes) { return 2.1 + bytes / 4200 }'

# weigh_steps DIRECTORY FILE [TARGET...]   how long each step of a build takes, in seconds of a usual core: FILE gets one line a step
weigh_steps() {
  # By another name: a dry run of build.ninja ends with "Re-running CMake", which it does not do.
  cp "$1/build.ninja" "$1/plan.ninja"
  ninja -C "$1" -f plan.ninja -n "${@:3}" | sed -n 's/^\[[0-9]*\/[0-9]*\] //p' | awk '
    /^Building (C|CXX) object / {
      path = $NF
      if (path ~ /cmake_pch/) { print "p 8"; next }
      sub(/CMakeFiles\/[^\/]+\.dir\//, "", path)
      sub(/\.o$/, "", path)
      gsub(/[^\/]+\/__\//, "", path)
      print "s " path
      next
    }
    /^Linking CXX executable / { print "l 1"; next }
    { print "o 0.1" }' >"$2.steps"
  local sizes
  sizes=$(cd "$ROOT" && sed -n 's/^s //p' "$2.steps" | xargs -r stat -c '%n %s' 2>/dev/null || true)
  awk "$source_seconds"' NR == FNR { size[$1] = $2; next }
    $1 == "s" { print ($2 in size) ? source_seconds(size[$2]) : 4; next }
    { print $2 }' <(printf '%s\n' "$sizes") "$2.steps" >"$2"
  rm -f "$2.steps"
}

# How fast this machine is: its seconds for one of a core as weigh_steps takes them. A loop of bash's, since a bare machine has no compiler yet.
core_seconds() {
  local TIMEFORMAT=%U took i tries=""
  for _ in 1 2 3 4 5; do
    took=$({ time for ((i = 0; i < 50000; i++)); do :; done; } 2>&1)
    tries+="$took"$'\n'
  done
  # The quickest: the others were disturbed by something.
  awk '$1 > 0 && (best == "" || $1 < best) { best = $1 } END { printf "%.3f", (best > 0 ? best / 0.06 : 1) }' <<<"$tries"
}

# Seconds that building the programs takes here, before anything is configured: their sources, and for the generated code, the precompiled
# headers and the links a sum.
programs_seconds() {
  local bytes
  bytes=$(find "$ROOT"/{actors,services,gateway,cli} -name '*.cpp' -printf '%s\n')
  awk -v pace="$(core_seconds)" -v parallel="$(jobs)" "$source_seconds"' { sum += source_seconds($1) } END { printf "%d", (sum + 200) * pace / parallel }' <<<"$bytes"
}

in_minutes() {
  local seconds=$1
  if ((seconds < 55)); then printf '%d s' $(((seconds + 4) / 5 * 5)); else printf '%d min' $(((seconds + 45) / 60)); fi
}

# run_ninja DIRECTORY JOBS [TARGET...]   ninja with what is left of the time: one line on a terminal, one now and then in a pipe.
run_ninja() {
  local dir=$1 parallel=$2 weights total pace
  shift 2
  weights=$(mktemp)
  weigh_steps "$dir" "$weights" "$@"
  total=$(awk '{ all += $1 } END { printf "%d", all + 0.5 }' "$weights")
  if ((total < 20)); then
    rm -f "$weights"
    ninja -C "$dir" -j "$parallel" "$@"
    return
  fi
  pace=$(core_seconds)
  note "$(wc -l <"$weights") steps; about $(in_minutes "$(awk -v t="$total" -v p="$pace" -v j="$parallel" 'BEGIN { printf "%d", t * p / j }')") on this machine, less where the compiler's cache knows them"
  local status=0
  ninja -C "$dir" -j "$parallel" "$@" 2>&1 | show_progress "$weights" "$total" "$pace" "$parallel" || status=$?
  rm -f "$weights"
  return $status
}

show_progress() {
  local total=$2 terminal=0 line step of seen shown=-1 started=$SECONDS percent left told=$SECONDS
  local -a weights
  mapfile -t weights < <(awk -v total="$2" '{ done += $1; part = 1000 * done / total; printf "%d\n", part < 1000 ? part : 1000 }' "$1")
  if [[ -t 1 ]]; then terminal=1; fi
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*)$ ]]; then
      step=${BASH_REMATCH[1]} of=${BASH_REMATCH[2]}
      ((step > 0)) || continue # what ninja does before it has counted its steps
      seen=$((step - 1 < ${#weights[@]} ? step - 1 : ${#weights[@]} - 1))
      percent=${weights[seen]}
      # The first guess gives way to what has been seen.
      left=$(((1000 - percent) * (percent > 30 ? (SECONDS - started) * 1000 / percent : $(awk -v t="$total" -v p="$3" -v j="$4" 'BEGIN { printf "%d", t * p / j }')) / 1000))
      if ((terminal)); then
        printf '\r\033[K   %3d %%  %d of %d, %s left  %.60s' $((percent / 10)) "$step" "$of" "$(in_minutes "$left")" "${BASH_REMATCH[3]}"
      elif ((percent / 100 > shown || SECONDS - told >= 60)); then
        shown=$((percent / 100)) told=$SECONDS
        note "$(printf '%3d %%: %d of %d, %s left' $((percent / 10)) "$step" "$of" "$(in_minutes "$left")")"
      fi
    elif [[ $line != "ninja: Entering directory"* ]]; then
      if ((terminal)); then printf '\r\033[K'; fi
      printf '%s\n' "$line"
    fi
  done
  if ((terminal)); then printf '\r\033[K'; fi
}
