#!/usr/bin/env bash
# tools/layering sees every kind of violation, names file and line, and keeps quiet about what is allowed.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

fail() {
  printf 'FAIL: %s\n' "$*"
  failed=1
}
plant() { # FILE, text on stdin
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/$(dirname "$1")"
  cat >"$tree/$1"
}
# reported FILE LINE PART: exactly one finding, at that place, with that text
reported() {
  local output
  if output=$("$top/tools/layering" "$tree" 2>/dev/null); then
    fail "$1: nothing reported, expected \"$3\""
  elif [[ $(grep -c . <<<"$output") != 1 || $output != "$1:$2: "*"$3"* ]]; then
    fail "$1: expected $1:$2 with \"$3\", got: $output"
  fi
}
silent() {
  local output
  output=$("$top/tools/layering" "$tree" 2>/dev/null) || fail "$1: unexpected finding: $output"
}
# include FILE HEADER PART: one include, on line 2
include() {
  printf '// planted\n#include %s\n' "$2" | plant "$1"
  reported "$1" 2 "$3"
}
# code FILE TEXT PART: one line of code, on line 2
code() {
  printf '#include <string>\n%s\n' "$2" | plant "$1"
  reported "$1" 2 "$3"
}

# the arrows
include actors/base/a.hpp '"actors/domain/rows.hpp"' 'actors/base may not include actors/domain'
include actors/domain/a.cpp '"actors/store/interfaces.hpp"' 'actors/domain may not include actors/store'
include actors/runtime/a.cpp '"actors/domain/rows.hpp"' 'actors/runtime may not include actors/domain'
include actors/store/a.cpp '"actors/fabric/interfaces.hpp"' 'actors/store may not include actors/fabric'
include actors/fabric/a.cpp '"services/convert.hpp"' 'actors/fabric may not include services'
include services/a.cpp '"actors/store/ledger.hpp"' 'services may not include actors/store'
include services/keeper/a.cpp '"actors/domain/rows.hpp"' 'services/keeper may not include actors/domain'
include services/security/a.cpp '"services/convert.hpp"' 'services/security may not include services'
include gateway/mcp/a.cpp '"actors/fabric/interfaces.hpp"' 'gateway/mcp may not include actors/fabric'
include cli/a.cpp '"actors/fabric/interfaces.hpp"' 'cli may not include actors/fabric'
include cli/a.cpp '"services/convert.hpp"' 'cli may not include services'
include cli/a.cpp '"gateway/main.hpp"' 'cli may not include gateway'
include actors/domain/task/a.cpp '"actors/domain/query/rules.hpp"' 'actors/domain/task may not include actors/domain/query'
include actors/fabric/entities/a.cpp '"actors/fabric/workers/spawn.hpp"' 'actors/fabric/entities may not include actors/fabric/workers'
include actors/fabric/cluster/a.cpp '"actors/fabric/scope.hpp"' 'actors/fabric/cluster may not include actors/fabric'
include services/call/a.cpp '"services/api/node_service.hpp"' 'services/call may not include services/api'
include gateway/client/a.cpp '"cli/targets.hpp"' 'gateway/client may not include cli'
include gateway/json/a.cpp '"gateway/session/nudge.hpp"' 'gateway/json may not include gateway/session'
include cli/hook/a.cpp '"cli/verbs/follow.hpp"' 'cli/hook may not include cli/verbs'
printf '// planted\n' | plant actors/fabric/a/b.cpp
reported actors/fabric/a/b.cpp 1 'actors/fabric/a has no row'

# how much stands at the top of a room
# entries ROOM N: N pairs of a header and a source in the room, and what is not an entry
entries() {
  printf '// planted\n' | plant "$1/pch.hpp"
  local i
  for ((i = 1; i <= $2; i++)); do cp "$tree/$1/pch.hpp" "$tree/$1/a$i.hpp"; cp "$tree/$1/pch.hpp" "$tree/$1/a$i.cpp"; done
  touch "$tree/$1/CMakeLists.txt"
}
# full ROOM N FOLDER: it holds N entries, and not the folder as well
full() {
  entries "$1" "$2"
  silent "$1 with $2 entries"
  mkdir "$tree/$1/$3"
  printf '// planted\n' | tee "$tree/$1/$3/a.cpp" >"$tree/$1/$3/b.cpp"
  reported "$1" 1 "$(($2 + 1)) entries at the top"
}
full actors/fabric 19 cluster
full cli 16 hook
full services 10 api

# what belongs to one room only
include actors/fabric/a.cpp '<sqlite3.h>' 'sqlite3.h outside actors/store'
include actors/fabric/a.cpp '<grpcpp/grpcpp.h>' 'gRPC outside'
include actors/store/a.cpp '"swarm/v1/node.grpc.pb.h"' 'gRPC outside'
include services/keeper/a.cpp '<grpcpp/server.h>' 'gRPC outside'
include services/a.cpp '<spdlog/spdlog.h>' 'log by actors/base/log.hpp'
include cli/a.cpp '<fmt/format.h>' 'join texts by concat()'
include services/security/a.cpp '<grpcpp/grpcpp.h>' 'gRPC outside'
include actors/domain/a.cpp '<caf/actor.hpp>' 'CAF outside'
include actors/base/a.hpp '<caf/error.hpp>' 'CAF outside'
include cli/a.cpp '<caf/all.hpp>' 'CAF outside'
include services/keeper/a.cpp '<caf/all.hpp>' 'CAF outside'
include cli/a.cpp '"swarm/internal/keeper.pb.h"' "keeper's private protocol"
include actors/agents/a.cpp '"swarm/internal/keeper.pb.h"' "keeper's private protocol"
include cli/a.cpp '"swarm/internal/driver.pb.h"' "driver's private protocol"
include actors/domain/a.cpp '<iostream>' 'clock, I/O or randomness in the domain'
include actors/domain/a.cpp '<sys/stat.h>' 'clock, I/O or randomness in the domain'
include actors/domain/a.cpp '"actors/base/clock.hpp"' 'clock, I/O or randomness in the domain'

# the lints
code actors/domain/a.cpp 'auto t = std::chrono::system_clock::now();' 'clock, environment or randomness'
code actors/domain/a.cpp 'auto id = random_uuid();' 'clock, environment or randomness'
code actors/fabric/a.cpp 'self->request(x, caf::infinite, 1).then([] {}, [] {});' 'caf::infinite outside tests'
code actors/fabric/a.cpp 'self->anon_send(x, 1);' 'self->anon_send is not anonymous'
code actors/fabric/a.hpp 'using x = caf::replies_to<int>::with<caf::unit_t>;' 'with<unit_t> fails'
code actors/runtime/a.cpp 'sys.registry().put("a", x);' 'registry keeps dead bindings'
code services/a.cpp 'std::this_thread::sleep_for(1s);' 'sleeping in product code'
code services/keeper/a.cpp '  usleep(10);' 'sleeping in product code'
code cli/a.cpp '  ::sleep(1);' 'sleeping in product code'
code cli/a.cpp '  poll(nullptr, 0, left());' 'sleeping in product code'
code services/a.cpp '  ::poll( nullptr, 0, 20);' 'sleeping in product code'
code cli/a.cpp '  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);' 'sleeping in product code'
code cli/a.cpp '  select(0, nullptr, nullptr, nullptr, &t);' 'sleeping in product code'
code cli/a.cpp 'while (!done) poll(&p, 1, 50);' 'waiting in steps'
code services/swarmd/a.cpp 'while (!up()) { me->receive(caf::after(pause) >> [] {}); }' 'waiting in steps'
printf 'void f() {\n  for (;;) {\n    if (try_it()) {\n      return;\n    }\n    poll(&stop, 1, 1000);\n  }\n}\n' | plant services/a.cpp
reported services/a.cpp 6 'waiting in steps'
printf 'void f() {\n  do\n    epoll_wait(e, &x, 1, 20);\n  while (!done);\n}\n' | plant services/keeper/a.cpp
reported services/keeper/a.cpp 3 'waiting in steps'
printf 'void f() {\n  while (!done) {\n    changed_.wait_for(lock, 100ms);\n  }\n}\n' | plant cli/a.cpp
reported cli/a.cpp 3 'waiting in steps'
code actors/fabric/a.cpp 'request(x, 1s).then([](int a, int b) { use(a, b); });' '.then with one branch'
printf 'void f() {\n  request(x)\n      .then([](int a) {\n        use(a, 1);\n      });\n}\n' | plant actors/fabric/a.cpp
reported actors/fabric/a.cpp 3 '.then with one branch'

# what is allowed
plant actors/store/a.cpp <<'CODE'
// caf::infinite, usleep(1) and self->anon_send in a comment
#include <sqlite3.h>
#include <caf/actor.hpp>
#include "actors/domain/rows.hpp"
/* sleep_for(1)
   registry().put */
auto text = "std::this_thread::sleep_for(1) // \" caf::infinite";
auto letter = '"'; // caf::infinite
void f() { request(x, 1s).then([](int a, int b) { use(a, b); }, [](const caf::error& e) { log(e); }); }
CODE
silent "allowed code in the store"
plant services/a.cpp <<'CODE'
void f() {
  for (auto until = now() + 5s; now() < until;) {
    poll(&p, 1, left_ms(until));
    changed_.wait_for(lock, until - now(), [] { return up; });
    poll(&p, 1, 0);
    poll(&p, 1, -1);
  }
  poll(&p, 1, 1000);
  me->receive(caf::after(5s) >> [] {});
  do_it(while_away, for_all);
  poll(&p, 1, 1000);
}
CODE
silent "waits up to a deadline in a loop, and single waits"
printf '#include <grpcpp/grpcpp.h>\n#include <caf/actor.hpp>\n#include "actors/fabric/interfaces.hpp"\n#include "actors/store/interfaces.hpp"\n' | plant services/a.cpp
silent "allowed includes in services"
printf '#include <grpcpp/grpcpp.h>\n#include "gateway/json/shapes.hpp"\n#include "actors/domain/rows.hpp"\n#include "swarm/v1/node.grpc.pb.h"\n' | plant cli/a.cpp
silent "allowed includes in cli"
printf '#include <sqlite3.h>\n#include <grpcpp/grpcpp.h>\n#include "gateway/client/client.hpp"\nauto x = request(y, caf::infinite);\n' | plant tests/unit/store/a.cpp
silent "tests may include anything"

((failed == 0)) || exit 1
echo "layering: every planted violation was reported"
