#!/bin/sh
# A routine: a list of tasks in a file of the repository, run with one command. It must be trusted first, as it is written. Here a
# session takes the steps as they open; `--harness claude` would start agents for them.
#
# Prints:
#   trusted: repository/check
#   began run … of repository/check
#   …size…open…
#   …verdict…blocked…
#   done: size
#   done: style
#   done: verdict
#   …done…Is README good?
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
swarmctl up >/dev/null
git init -q .
mkdir -p .swarm/routines
cat >.swarm/routines/check.toml <<'TOML'
name = "check"
summary = "Look at a file from two sides, then decide"

[parameters.file]
required = true

[[step]]
id = "size"
title = "How large is ${file}?"
priority = 3

[[step]]
id = "style"
title = "How does ${file} read?"
priority = 2

[[step]]
id = "verdict"
title = "Is ${file} good?"
needs = ["size", "style"]
TOML

swarmctl routine trust repository/check --yes
swarmctl routine run repository/check --set file=README

me=$(swarmctl register --label role:implementer --lease-seconds 600 | cut -d ' ' -f 2)
for step in size style verdict; do
  task=$(swarmctl claim-next --as "$me" | cut -d ' ' -f 2)
  swarmctl update-task "$task" --status "done" --as "$me" >/dev/null
  echo "done: $step"
done
swarmctl tasks
swarmctl deregister --as "$me"
