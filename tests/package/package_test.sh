#!/usr/bin/env bash
# tests/package/package_test.sh BUILD_DIR [CPACK ARGUMENTS...]    make the package of that build, install it, use it, and take it away again
# tests/package/package_test.sh PACKAGE                           the same with a package that is made
#
# As root the package is really installed, with dpkg, over this machine's own system: in namespaces where whatever it changes is in a scratch
# directory and goes with it, and every process with the last one. Otherwise, or where that is not allowed, it is unpacked and used in place.
set -euo pipefail

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
step() { printf '== %s\n' "$*"; }
# contains TEXT WORD WHAT
contains() { [[ $1 == *"$2"* ]] || fail "$3: no \"$2\" in: $1"; }

# -- inside: as a user of the package --------------------------------------------------------------

# The files that people and their programs read.
check_files() {
  local page text name
  step "the manual pages"
  for page in man1/swarmctl.1 man1/swarm-mcp.1 man8/swarmd.8 man8/swarm-keeper.8 man8/swarm-driver.8; do
    text=$(MANWIDTH=120 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$shares/man/$page.gz" 2>"$scratch/warnings") || fail "man cannot show $page"
    [[ ! -s $scratch/warnings ]] || fail "$page: $(cat "$scratch/warnings")"
    name=${page#*/}
    contains "$text" "${name%.*} - " "$page has a name"
    [[ ! $text =~ @[A-Za-z_]+@ ]] || fail "$page has an open place: ${BASH_REMATCH[0]}"
  done
  text=$(MANWIDTH=120 LC_ALL=C.UTF-8 man -l "$shares/man/man1/swarmctl.1.gz")
  # Every command, and the options of one of them.
  "$bin/swarmctl" --help |
    awk '/^[A-Z][a-z ]*:$/ { on = !/^(Options|Positionals|Examples):$/; next } /^[^ ]/ { on = 0 } on && /^  [^ ]/ { sub(/,.*/, "", $1); print $1 }' >"$scratch/verbs"
  (($(wc -l <"$scratch/verbs") > 40)) || fail "too few commands: $(cat "$scratch/verbs")"
  while read -r name; do contains "$text" "swarmctl $name" "swarmctl(1)"; done <"$scratch/verbs"
  contains "$text" "--idempotency-key" "swarmctl(1)"
  contains "$text" "swarmctl pty attach" "swarmctl(1)"

  step "completion"
  # By either name of the program, from the file that a shell looks for.
  for name in swarmctl swarm-mcp; do
    # shellcheck disable=SC2016  # expands inside
    text=$(bash -uc '. "$1"; complete -p "$2"; COMP_WORDS=("$3/$2" pty at); COMP_CWORD=2; _swarmctl; echo "${COMPREPLY[@]}"' complete \
      "$shares/bash-completion/completions/$name" "$name" "$bin")
    contains "$text" "complete -F _swarmctl $name" "bash"
    contains "$text" "attach" "bash"
    [[ -s $shares/fish/vendor_completions.d/$name.fish ]] || fail "fish: nothing for $name"
  done
  contains "$(head -n 1 "$shares/zsh/vendor-completions/_swarmctl")" "#compdef swarmctl swarm-mcp" "zsh"
  contains "$(tail -n 1 "$shares/zsh/vendor-completions/_swarmctl")" '_swarmctl "$@"' "zsh: what is loaded on demand completes at once"
  contains "$(cat "$shares/fish/vendor_completions.d/swarmctl.fish")" "__complete" "fish"
  contains "$(cat "$shares/fish/vendor_completions.d/swarm-mcp.fish")" "complete -c swarm-mcp -w swarmctl" "fish"
  if command -v zsh >/dev/null; then zsh -n "$shares/zsh/vendor-completions/_swarmctl"; fi
  if command -v fish >/dev/null; then fish --no-execute "$shares/fish/vendor_completions.d/"swarm*.fish; fi

  step "what agents are given"
  for name in skills/swarm/SKILL.md agents/opencode agents/hermes routines; do
    [[ -e $shares/swarm-fabric/$name ]] || fail "there is no $shares/swarm-fabric/$name"
  done
  [[ -s $shares/doc/swarm-fabric/README.md && -s $shares/doc/swarm-fabric/docs/agents.md ]] || fail "the documents are missing"
  text=$(cat "$shares/doc/swarm-fabric/copyright")
  for name in gRPC Abseil protobuf c-ares; do contains "${text,,}" "${name,,}" "the copyright file"; done
}

# Silence is what tells that a unit is right: an unknown setting is a warning, and no more, to systemd-analyze.
verify() { systemd-analyze verify --user --man=no "$1" 2>&1 || true; }
check_unit() {
  local unit=$root/usr/lib/systemd/user/swarmd.service said
  step "the unit"
  export XDG_RUNTIME_DIR=$scratch/run
  mkdir -m 700 "$XDG_RUNTIME_DIR"
  sed "s|/usr/bin/swarmd|$bin/swarmd|" "$unit" >"$scratch/swarmd.service"
  said=$(verify "$scratch/swarmd.service")
  [[ -z $said ]] || fail "systemd-analyze verify: $said"
  sed 's/^NoNewPrivileges=/NoNewPrivilege=/' "$unit" >"$scratch/run/swarmd.service"
  contains "$(verify "$scratch/run/swarmd.service")" "NoNewPrivilege" "a wrong unit"
  systemd-analyze security --user --offline=yes --no-pager "$scratch/swarmd.service" | tail -n 1
}

initialize='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'
check_programs() {
  local said
  step "a node, a worker, a server for an agent"
  mkdir -p "$HOME" "$scratch/project"
  cd "$scratch/project"
  swarmctl up >"$scratch/up" || fail "swarmctl up: $(cat "$scratch/up")"
  said=$(swarmctl --json status | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p' | head -n 1)
  [[ $(readlink "/proc/$said/exe") == "$bin/swarmd" ]] || fail "the node $said is $(readlink "/proc/$said/exe")"
  # shellcheck disable=SC2016  # expands in the worker
  swarmctl dispatch "say where you are" --harness exec -- sh -c 'command -v swarmctl >made' >"$scratch/dispatch" 2>&1 ||
    fail "swarmctl dispatch: $(cat "$scratch/dispatch")"
  [[ $(cat made) == "$bin/swarmctl" ]] || fail "the worker found $(cat made)"
  said=$(swarm-mcp <<<"$initialize") || fail "swarm-mcp ended with $?"
  contains "$said" '"protocolVersion":"2025-06-18"' "swarm-mcp as the server"
  contains "$(swarm-mcp tasks --json)" "say where you are" "swarm-mcp with a command"
  contains "$(swarmctl routine list 2>&1)" "release-check" "the shipped routines"
  swarmctl down >/dev/null || fail "swarmctl down"
  nothing_runs
}
# Of ours: among all processes only where these are a namespace's.
running() { if [[ -z $root ]]; then pgrep -af '^([^ ]*/)?swarm(d|ctl|-mcp|-keeper)( |$)'; else pgrep -af -- "$SWARM_HOME"; fi; }
nothing_runs() {
  local until=$((SECONDS + 20))
  while running >/dev/null; do
    ((SECONDS < until)) || fail "still running: $(running)"
    read -rt 0.05 <> <(:) || true
  done
}

# The unit under a service manager of its own, with a worker that does what agents do.
run_the_unit() {
  local until said
  mount -t tmpfs tmpfs /run
  mkdir -p /run/systemd/system /run/user
  export XDG_RUNTIME_DIR=/run/user/0
  mkdir -m 700 "$XDG_RUNTIME_DIR"
  umount -R /sys/fs/cgroup 2>/dev/null || true
  if ! mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null || [[ ! -w /sys/fs/cgroup/cgroup.procs ]]; then
    step "the unit is not started: no control groups here"
    return 0
  fi
  step "the unit, started by a service manager of its own"
  setsid /lib/systemd/systemd --user </dev/null >"$scratch/systemd.log" 2>&1 &
  until=$((SECONDS + 20))
  while [[ ! -S $XDG_RUNTIME_DIR/systemd/private ]]; do
    ((SECONDS < until)) || {
      step "the unit is not started: systemd --user does not come up: $(cat "$scratch/systemd.log")"
      return 0
    }
    read -rt 0.05 <> <(:) || true
  done
  # Workers have the restrictions of their keeper: none from before may be there for the unit to find.
  nothing_runs
  systemctl --user set-environment SWARM_HOME="$SWARM_HOME" ASAN_OPTIONS="${ASAN_OPTIONS:-}"
  systemctl --user start swarmd || fail "systemctl start: $(systemctl --user --no-pager status swarmd 2>&1)"
  cd "$scratch/project"
  until=$((SECONDS + 20))
  until swarmctl --no-autostart status >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "the unit does not serve: $(systemctl --user --no-pager status swarmd 2>&1)"
  done
  said=$(swarmctl --no-autostart status --json | tr -d ' \n')
  [[ $said == *'"keeper_refused":null'* ]] || fail "the unit does not take its keeper: $said"
  [[ $said == *'"restrictions":{"no_new_privileges":true,"seccomp":2,"unit":"swarmd.service"}'* ]] || fail "the unit's restrictions: $said"
  swarmctl --no-autostart dispatch "work under the unit" --harness exec -- sh -euc '
    grep "^NoNewPrivs" /proc/self/status
    echo in the home >"$HOME/written"; echo in the project >written; mktemp >/dev/null
    # What sandboxes of agents are made of.
    unshare --user --map-root-user --mount sh -c "mount -t tmpfs tmpfs /mnt" || exit 4
    # One more, which an agent does not need.
    chmod u+s written && exit 5 || true' >"$scratch/dispatch" 2>&1 || fail "under the unit: $(cat "$scratch/dispatch")"
  [[ $(cat "$HOME/written" written) == *home*project* ]] || fail "the worker has not written"
  said=$(swarmctl --no-autostart status --json | tr -d ' \n')
  [[ $said == *'"keeper_restrictions":{"no_new_privileges":true,"seccomp":2,"unit":"swarmd.service"}'* ]] || fail "the keeper's restrictions: $said"
  systemctl --user stop swarmd
  said=$(systemctl --user show -p Result --value swarmd)
  [[ $said == success ]] || fail "the unit ended with $said: $(systemctl --user --no-pager status swarmd 2>&1)"
  # Outside of the unit the node does not take over its keeper, and ends it all the same.
  swarmctl up >/dev/null || fail "swarmctl up after the unit"
  swarmctl down >/dev/null || fail "swarmctl down after the unit"
  nothing_runs
}

inside() {
  local how=$1 scratch=$2 package=$3 with_unit=${4:-}
  local root="" bin shares
  export HOME=$scratch/home SWARM_HOME=$scratch/state
  if [[ $how == installed ]]; then
    step "dpkg --install"
    dpkg --no-triggers --install "$package" >"$scratch/dpkg.log" 2>&1 || fail "dpkg: $(cat "$scratch/dpkg.log")"
  else
    step "unpacked: not root, or nothing can be mounted"
    root=$scratch/root
    dpkg-deb --extract "$package" "$root"
    trap 'swarmctl --no-autostart down >/dev/null 2>&1 || true' EXIT
  fi
  bin=$root/usr/bin
  shares=$root/usr/share
  export PATH=$bin:/usr/bin:/bin:/usr/sbin:/sbin
  check_files
  check_unit
  check_programs
  if [[ $how == installed ]]; then
    [[ -z $with_unit ]] || run_the_unit
    cd /
    step "dpkg --purge"
    dpkg --no-triggers --purge swarm-fabric >"$scratch/dpkg.log" 2>&1 || fail "dpkg: $(cat "$scratch/dpkg.log")"
    [[ ! -e /usr/bin/swarmctl && ! -e /usr/bin/swarm-mcp && ! -e /usr/share/swarm-fabric && ! -e /usr/share/doc/swarm-fabric ]] ||
      fail "something is left behind"
  fi
}

# As root of a namespace of its own: an upper layer over the directories that dpkg writes to.
inside_namespaces() {
  local scratch=$1 dir
  mount -t tmpfs -o mode=700 tmpfs "$scratch/upper"
  for dir in usr etc var; do
    mkdir -p "$scratch/upper/$dir" "$scratch/upper/.$dir"
    mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$scratch/upper/$dir,workdir=$scratch/upper/.$dir" "/$dir" 2>/dev/null || exit 70
  done
  inside installed "$@"
}

# -- outside ---------------------------------------------------------------------------------------

if [[ ${1:-} == --inside ]]; then
  shift
  "$@"
  exit 0
fi

subject=$1
shift
scratch=$(mktemp -d /tmp/swarm-package.XXXXXX)
group=""
# shellcheck disable=SC2317  # called by the trap
cleanup() {
  [[ -z $group ]] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/upper"

if [[ -d $subject ]]; then
  step "cpack"
  # Quick rather than small.
  (cd "$subject" &&
    cpack --config CPackConfig.cmake -B "$scratch/made" -D CPACK_OUTPUT_FILE_PREFIX="$scratch" -D CPACK_DEBIAN_COMPRESSION_TYPE=none "$@") \
    >"$scratch/cpack.log" 2>&1 || fail "cpack: $(cat "$scratch/cpack.log")"
  rm -rf "$scratch/made"
  package=$(echo "$scratch"/swarm-fabric_*_*.deb)
else
  package=$(realpath "$subject")
fi
depends=$(dpkg-deb --field "$package" Depends)
if [[ $* != *SHLIBDEPS=OFF* ]]; then
  for name in libc6 libcaf-core0.17 libsqlite3-0 libssl3; do contains "$depends" "$name" "what the package depends on"; done
fi
[[ -z $(dpkg-deb --contents "$package" | awk '$2 != "root/root"') ]] || fail "somebody owns a file of the package"
# Nothing that is text tells where it was made.
dpkg-deb --extract "$package" "$scratch/look"
! grep -rlI -e "$(cd "$(dirname "$0")/../.." && pwd)" -e "$scratch" "$scratch/look" || fail "these name a directory of the machine that made them"
rm -rf "$scratch/look"

export -n SWARM_HOME
status=70
# Mounts that would be seen outside are out of the question; below a plain directory as root directory, as in tools/fresh, there are no others.
if ((EUID == 0)) && unshare --mount --propagation private --pid --fork --mount-proc true 2>/dev/null; then
  # A control group of its own for the service manager's, if there are any of the second version.
  hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  if [[ -n $hierarchy ]] && mkdir "$hierarchy${own%/}/swarm-package-$$" 2>/dev/null; then
    group=$hierarchy${own%/}/swarm-package-$$
  fi
  status=0
  (
    if [[ -n $group ]]; then echo "$BASHPID" >"$group/cgroup.procs"; fi
    exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc ${group:+--cgroup} \
      bash "$0" --inside inside_namespaces "$scratch" "$package" ${group:+unit}
  ) || status=$?
fi
((status != 70)) || { status=0; bash "$0" --inside inside unpacked "$scratch" "$package" || status=$?; }
exit "$status"
