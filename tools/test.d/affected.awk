# Which tests can a change affect? Reads the names of changed files and prints labels of tests, one a line; "all" when only all will do.
# MAY is the table of tools/layering ("room room..." lines: a room and those it may include), so that the arrows are written down once.
BEGIN {
  while ((getline line < MAY) > 0) {
    n = split(line, word, " ")
    rooms[word[1]] = 1
    for (i = 2; i <= n; i++) may[word[1], word[i]] = 1
  }
  # What a program of tests/unit tests, where its name is not that of a folder of actors.
  of["services"] = "services services/api services/call services/federation services/host services/swarmd"
  of["security"] = "services/security"
  of["keeper"] = "services/keeper"
  of["cli"] = "cli cli/edit cli/hook cli/install cli/verbs cli/worktree"
  of["gateway"] = "gateway/client gateway/json gateway/session gateway/routine gateway/mcp"
  of["simulate"] = "actors/fabric tools/simulate.d"
  # Documents that a test reads, walks or runs; a name with a slash at its end is all below it.
  reads["docs/configuration.md"] = "test_services"
  reads["docs/quick-reference.md"] = "test_cli"
  reads["docs/hosts.md"] = "test_e2e_hosts_walk"
  reads["docs/json.md"] = reads["docs/schemas/"] = "test_e2e_json"
  reads["docs/examples/"] = "test_e2e_documents"
  reads["docs/uninstall.md"] = "test_e2e_documents"
}

function room_of(path, room) {
  for (room = path; sub(/\/[^\/]*$/, "", room);) if (room in rooms) return room
  return ""
}

/^$/ { next }
/^docs\// { for (page in reads) if ($0 == page || (page ~ /\/$/ && index($0, page) == 1)) labels[reads[page]] = 1 }
/^(docs|deploy)\// || /^[^\/]*\.md$/ { contract = 1; if (/^deploy\//) programs = 1; next }
/^tests\/unit\/services\/(security|keeper)\// { split($0, part, "/"); labels["test_" part[4]] = 1; contract = 1; next }
/^tests\/unit\// { split($0, part, "/"); labels["test_" part[3]] = 1; contract = 1; next }
/^tests\/(e2e|fault)\/test_[^\/]*\.cpp$/ { sub(/.*\//, ""); sub(/\.cpp$/, ""); labels[$0] = 1; contract = 1; next }
/^tests\/sim\// { labels["test_sim"] = contract = 1; next }
/^tests\/fuzz\// { labels["fuzz"] = contract = 1; next }
/^tests\/contract\// { labels["test_contract"] = contract = 1; next }
/^tests\/(npm|package|agents)\// { split($0, part, "/"); labels[part[2]] = contract = 1; next }
/^tests\/mutations\// { contract = 1; next }
/^tools\/simulate\.d\// { labels["test_simulate"] = contract = 1; next }
/^tools\// { contract = 1; next }
/^(actors|services|gateway|cli)\/.*\.(cpp|hpp)$/ {
  room = room_of($0)
  if (room == "") { all = 1; next }
  changed[room] = 1
  next
}
{ all = 1 } # the contract, the build, what the tests share

END {
  if (all) { print "all"; exit }
  for (room in changed) {
    contract = programs = 1
    touched[room] = 1
  }
  # Rooms that include a touched one, and so on.
  for (grown = 1; grown;) {
    grown = 0
    for (room in touched) for (user in rooms) if (!(user in touched) && (user, room) in may) touched[user] = grown = 1
  }
  for (room in touched) {
    if (room ~ /^actors\//) { split(room, part, "/"); labels["test_" part[2]] = 1 }
    for (name in of) if (index(" " of[name] " ", " " room " ")) labels["test_" name] = 1
    if (room ~ /^actors\/(store$|fabric)/) labels["test_sim"] = 1
    labels["fuzz"] = 1
  }
  if ("actors/base" in changed) labels["test_history"] = labels["test_network"] = 1
  # The real programs hold every room.
  if (programs) labels["test_e2e_.*"] = labels["test_fault_.*"] = labels["npm"] = labels["package"] = labels["agents"] = 1
  if (contract) labels["contract"] = 1
  for (label in labels) print label
}
