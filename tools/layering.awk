# The rules of tools/layering. One pass over all files; every finding is one line "file:line: message".
# Portable awk (mawk and gawk).

BEGIN {
  # Every folder that holds sources is a room, with the rooms it may include; itself is understood. One that has no row is an error.
  base = "actors/base "
  domain = base "actors/domain "
  store = domain "actors/runtime actors/store actors/store/conversation "
  actors = domain "actors/runtime actors/fabric actors/fabric/cluster "
  call = actors "services/federation services/security services/host "

  may["actors/base"] = ""
  may["actors/shell"] = base
  may["actors/agents"] = base "actors/shell"
  may["actors/domain"] = base
  may["actors/domain/conversation"] = domain "actors/domain/task"
  may["actors/domain/query"] = domain
  may["actors/domain/session"] = domain
  may["actors/domain/task"] = domain
  may["actors/runtime"] = base
  may["actors/store"] = domain "actors/runtime"
  may["actors/store/conversation"] = base
  may["actors/fabric/messages"] = store
  may["actors/fabric"] = store "actors/fabric/messages actors/fabric/cluster actors/fabric/entities actors/fabric/terminals actors/fabric/workers actors/fabric/conversations"
  may["actors/fabric/cluster"] = store "actors/fabric"
  may["actors/fabric/entities"] = store "actors/fabric"
  may["actors/fabric/terminals"] = store "actors/fabric"
  may["actors/fabric/workers"] = store "actors/fabric actors/agents"
  may["actors/fabric/conversations"] = store "actors/fabric actors/fabric/messages actors/agents actors/store/conversation"

  may["services/driver"] = base "actors/agents actors/shell"
  may["services/keeper"] = base
  may["services/security"] = base
  may["services/federation"] = actors "services/security"
  may["services/host"] = actors "services/keeper"
  may["services/call"] = call "actors/agents "
  may["services/api"] = call "services/call actors/agents"
  may["services"] = may["services/api"] " services/api"
  may["services/swarmd"] = may["services"] " actors/store actors/store/conversation actors/fabric/terminals services services/keeper"

  may["gateway/client"] = base
  may["gateway/json"] = domain
  may["gateway/session"] = domain "gateway/json"
  may["gateway/routine"] = domain
  may["gateway/mcp"] = domain "gateway/client gateway/json gateway/session gateway/routine"

  may["cli/edit"] = base "gateway/client"
  may["cli"] = domain "actors/agents gateway/client gateway/json gateway/session cli/edit"
  may["cli/worktree"] = may["cli"] " cli"
  may["cli/hook"] = may["cli"] " cli actors/shell"
  may["cli/install"] = may["cli"] " cli"
  may["cli/verbs"] = may["cli/hook"] " gateway/mcp gateway/routine cli/hook cli/install cli/worktree"

  # So few entries at the top of a room that a reader finds the way; a folder is one entry, and so is a .hpp with its .cpp.
  at_most["actors/fabric"] = 19
  at_most["cli"] = 16
  at_most["services"] = 10

  # Of the fabric's own room its subfolders take what actors are made of, not those that start them.
  split("front node scope scope_internal scope_lost_host", names, " ")
  for (i in names) upward["actors/fabric/" names[i] ".hpp"] = 1

  # For tools/test --changed.
  if (TABLE) {
    for (room in may) print room, room, may[room]
    exit
  }
}

function room_of(path, room) {
  if (match(path, /^(tests|tools)\//)) return substr(path, 1, RLENGTH - 1)
  room = path
  sub(/\/[^\/]*$/, "", room)
  return room
}

function count_entry(path, top, name) {
  for (top in at_most) {
    if (index(path, top "/") != 1) continue
    name = substr(path, length(top) + 2)
    sub(/[\/.].*/, "", name)
    if (name != "pch" && !seen[top, name]++) entries[top]++
  }
}

function report(line, message) { printf "%s:%d: %s\n", FILENAME, line, message }

function allowed(from, to, names, n, i) {
  if (from == to) return 1
  n = split(may[from], names, " ")
  for (i = 1; i <= n; i++) if (names[i] == to) return 1
  return 0
}

# Removes comments and the contents of literals, so that prose and texts are not code.
function code_of(text, out, c, d, i, n, quote) {
  out = ""
  n = length(text)
  i = 1
  while (i <= n) {
    c = substr(text, i, 1)
    d = substr(text, i, 2)
    if (in_block) {
      if (d == "*/") { in_block = 0; i += 2 } else i++
    } else if (d == "//") {
      break
    } else if (d == "/*") {
      in_block = 1
      i += 2
    } else if (c == "\"") {
      out = out c
      i++
      while (i <= n && substr(text, i, 1) != "\"") i += (substr(text, i, 1) == "\\") ? 2 : 1
      out = out "\""
      i++
    } else if (c == "'" && substr(text, i) ~ /^'(\\.|[^\\'])'/) {
      out = out "' '"
      i += (substr(text, i + 1, 1) == "\\") ? 4 : 3
    } else {
      out = out c
      i++
    }
  }
  return out
}

function check_include(target, to) {
  if (is_free) return
  if (target ~ /^(sqlite3|sqlite3ext)\.h$/ && room != "actors/store") report(FNR, "sqlite3.h outside actors/store")
  if (target ~ /^(grpc|grpcpp)\// || target ~ /\.grpc\.pb\.h$/)
    if (room !~ /^(services|services\/(api|call|federation|swarmd)|gateway\/(client|mcp)|cli|cli\/verbs)$/) report(FNR, "gRPC outside services, gateway and cli")
  if (target ~ /^caf\// && room !~ /^(actors\/(runtime|store|fabric)(\/|$)|services$|services\/(api|call|federation|host|swarmd)$)/)
    report(FNR, "CAF outside the actors (runtime, store, fabric) and services")
  if (target ~ /^swarm\/internal\/commit_log/) {
    if (room != "actors/store")
      report(FNR, "the commit log's private format outside the store")
  } else if (target ~ /^swarm\/internal\/driver/) {
    if (room !~ /^(actors\/(agents|fabric)(\/|$)|services$|services\/(driver|host|swarmd)$)/)
      report(FNR, "the driver's private protocol outside agents, fabric, the driver and services")
  } else if (target ~ /^swarm\/internal\// && room !~ /^(actors\/fabric(\/|$)|services$|services\/(host|keeper|swarmd)$)/)
    report(FNR, "the keeper's private protocol outside fabric and services")
  if (target ~ /^(spdlog|fmt)\// && room !~ /^actors\/domain/ && FILENAME !~ /(^|\/)actors\/base\/log\.cpp$/)
    report(FNR, "slow templates: log by actors/base/log.hpp, join texts by concat()")
  if (room ~ /^actors\/domain/) {
    if (target ~ /^(iostream|fstream|cstdio|stdio\.h|ctime|time\.h|thread|mutex|condition_variable|future|random|filesystem|unistd\.h|fcntl\.h|poll\.h)$/ ||
        target ~ /^(sys|spdlog|fmt|asm|linux|netinet|arpa)\// || target == "actors/base/clock.hpp")
      report(FNR, "clock, I/O or randomness in the domain: <" target ">")
  }
  if (target ~ /^(actors|services|gateway|cli|tests|tools)\//) {
    to = room_of(target)
    if (target == "actors/store/interfaces.hpp" && room ~ /^services/) return
    if (!allowed(room, to) || (target in upward && room ~ /^actors\/fabric\//)) report(FNR, room " may not include " to " (" target ")")
  }
}

function lint(text) {
  if (text ~ /with<(caf::)?unit_t>/) report(FNR, "with<unit_t> fails at run time; use reacts_to and result<void>")
  if (text ~ /registry\(\)\.put/) report(FNR, "CAF's registry keeps dead bindings; use runtime's registry")
  if (text ~ /self->anon_send/) report(FNR, "self->anon_send is not anonymous; use caf::anon_send")
  if (is_test) return
  if (text ~ /caf::infinite/ && $0 !~ /lint: edge deadline/) report(FNR, "caf::infinite outside tests; every request has a deadline")
  if (is_free) return
  if (text ~ /sleep_for|sleep_until|[^a-z_]usleep *\(|[^a-z]nanosleep *\(|[^a-z_.>]sleep *\(/ ||
      text ~ /[^a-z_]p?poll *\( *(nullptr|NULL|0) *,/ || text ~ /[^a-z_]p?select *\( *0 *,/)
    report(FNR, "sleeping in product code; wait for the event")
  if (room ~ /^actors\/domain/ && text ~ /(system|steady|high_resolution)_clock|system_clock_port|getenv|random_uuid|random_bytes|[^a-z_]rand *\(/)
    report(FNR, "clock, environment or randomness in the domain; take it from inputs")
}

# `.then(f)` with one argument: the error would end the actor. Text is gathered until its parenthesis closes.
function scan_then(text, c, i, n) {
  n = length(text)
  for (i = 1; i <= n; i++) {
    if (!then_depth) {
      if (substr(text, i, 6) ~ /^\.then\(/) {
        then_depth = 1
        then_line = FNR
        then_commas = 0
        i += 5
      }
      continue
    }
    c = substr(text, i, 1)
    if (c == "(" || c == "[" || c == "{") then_depth++
    else if (c == ")" || c == "]" || c == "}") {
      then_depth--
      if (!then_depth && !then_commas) report(then_line, ".then with one branch; give it an error branch")
    } else if (c == "," && then_depth == 1) then_commas++
  }
}

# In a loop, a wait whose time is a constant polls. The time up to a deadline is no constant, nor
# is 0 (do not wait) or -1 (for ever).
function scan_loops(text, c, i, n, inside, before) {
  n = length(text)
  inside = loop_top || loop_head
  for (i = 1; i <= n; i++) {
    c = substr(text, i, 1)
    before = i == 1 ? " " : substr(text, i - 1, 1)
    if (before !~ /[A-Za-z0-9_]/ && substr(text, i) ~ /^(for|while|do)([^A-Za-z0-9_]|$)/) loop_head = inside = 1
    if (c == "(") parens++
    else if (c == ")") parens--
    else if (c == "{") {
      braces++
      if (loop_head && !parens) {
        loop_at[++loop_top] = braces
        loop_head = 0
      }
    } else if (c == "}") {
      if (loop_top && loop_at[loop_top] == braces) loop_top--
      braces--
    } else if (c == ";" && !parens) loop_head = 0
  }
  if (!inside) return
  if (text ~ /[^a-z_](p?poll|epoll_wait) *\([^;]*, *[1-9][0-9']* *\)/ || text ~ /[^a-z_]caf::after *\(/ ||
      text ~ /[.>]wait_for *\([^;]*[0-9](ms|s|us|min|h)[^a-z]/ || text ~ /[.>]wait_for *\([^;]*seconds *[({][0-9]/)
    report(FNR, "waiting in steps in product code; wait for the event")
}

FNR == 1 {
  room = room_of(FILENAME)
  is_test = room == "tests"
  is_free = is_test || room == "tools" || FILENAME ~ /\/pch\.hpp$/
  # A precompiled header gathers what the sources include.
  if (!is_free && !(room in may)) report(1, room " has no row in tools/layering.awk: say which rooms it may include")
  count_entry(FILENAME)
  in_block = 0
  then_depth = 0
  parens = braces = loop_top = loop_head = 0
}

/^[ \t]*#[ \t]*include/ {
  if (match($0, /[<"][^>"]+[>"]/)) check_include(substr($0, RSTART + 1, RLENGTH - 2))
  next
}

{
  text = code_of($0)
  lint(text)
  if (!is_free) {
    scan_then(text)
    scan_loops(text)
  }
}

END {
  for (top in entries)
    if (entries[top] > at_most[top]) printf "%s:1: %d entries at the top, at most %d: put some in a folder\n", top, entries[top], at_most[top]
}
