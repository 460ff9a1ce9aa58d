#!/bin/sh
# Tasks that wait for other tasks. Two run at the same time; the third begins when both are done. A check that fails
# is repeated.
#
# Prints:
#   3 + 5 = 8
#   the check failed, status 1
#   the check passed
#   …failed…check
#   …done…check
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
swarmctl up >/dev/null

# With --detach the task's id alone is on stdout.
three=$(swarmctl dispatch "make three" --detach -- sh -c 'echo 3 >three')
five=$(swarmctl dispatch "make five" --detach -- sh -c 'echo 5 >five')
# -q: nothing but the worker's output.
swarmctl dispatch "add up" -q --depends-on "$three" --depends-on "$five" -- \
  awk 'BEGIN { getline a <"three"; getline b <"five"; print a " + " b " = " a + b }'

# The exit status is the worker's. The same line after a failure makes a new task; after a success it would answer with the old one.
check() { swarmctl dispatch "check" -q -- sh -c 'test -e ready'; }
check || echo "the check failed, status $?"
touch ready
check && echo "the check passed"
swarmctl tasks
