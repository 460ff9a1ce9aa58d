#!/bin/sh
# Two agents want to write one file. The second is refused and told who holds the lock: by the command line, and by the hook that
# `swarmctl install` puts before the write tools of agents. In line, it gets the lock as soon as the first releases it.
#
# Prints:
#   ann: locked …/report.md
#   ben is refused by the command, status 1
#   ben is refused by the hook: …"permissionDecision":"deny"…role:ann…
#   …report.md…1 waiting…
#   ann: unlocked …/report.md
#   ben: locked …/report.md
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
swarmctl up >/dev/null

ann=$(swarmctl register --label role:ann --lease-seconds 600 | cut -d ' ' -f 2)
ben=$(swarmctl register --label role:ben --lease-seconds 600 | cut -d ' ' -f 2)

echo "ann: $(swarmctl lock report.md --as "$ann" --note "writing the summary")"
swarmctl lock report.md --as "$ben" || echo "ben is refused by the command, status $?"

# What an agent's program tells its hooks: that a session begins, that it is about to write, that the session ends.
hook() {
  echo "{\"session_id\": \"example\", \"cwd\": \"$PWD\", \"tool_name\": \"Write\", \"tool_input\": {\"file_path\": \"$PWD/report.md\"}}" |
    swarmctl hook claude "$1"
}
hook session-start >/dev/null
echo "ben is refused by the hook: $(hook pre-tool-use)"
hook session-end

# --ttl: the lock ends by itself after five minutes.
swarmctl lock report.md --as "$ben" --wait 60 --ttl 300 >ben.txt &
timeout 30 sh -c 'until swarmctl locks | grep waiting; do sleep 0.1; done'
echo "ann: $(swarmctl unlock report.md --as "$ann")"
wait
echo "ben: $(cat ben.txt)"

swarmctl deregister --as "$ann"
swarmctl deregister --as "$ben"
