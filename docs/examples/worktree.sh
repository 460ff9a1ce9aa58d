#!/bin/sh
# A worker in a worktree and on a branch of its own: nothing changes in the repository until you merge what it did.
#
# Prints:
#   before the merge: one
#   …swarm/… done +1 -0 clean …/repository.worktrees/…
#   +two
#   …merged…
#   after the merge: one two
#   (no worktrees)
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
swarmctl up >/dev/null
git init -q -b main repository
cd repository
git config user.name Example
git config user.email example@example.org
echo one >a.txt
git add a.txt
git commit -q -m "first"

# For an agent: --harness claude instead of a command.
swarmctl dispatch "append a line" --worktree -- sh -c 'echo two >>a.txt; git commit -q -a -m "append a line"'
echo "before the merge: $(xargs <a.txt)"
swarmctl worktree list
swarmctl worktree diff @last
swarmctl worktree merge @last
echo "after the merge: $(xargs <a.txt)"
swarmctl worktree list
