#!/usr/bin/env bash
# tools/test --changed picks the tests of the rooms that a change reaches, those of a program that is built from it, and all when in doubt.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
failed=0

# affects "FILE..." "LABEL...": exactly these labels, in order
affects() {
  local got
  got=$(tr ' ' '\n' <<<"$1" | awk -v MAY=<(awk -v TABLE=1 -f "$top/tools/layering.awk" </dev/null) -f "$top/tools/test.d/affected.awk" | LC_ALL=C sort | xargs)
  [[ $got == "$2" ]] || {
    printf 'FAIL: %s: expected "%s", got "%s"\n' "$1" "$2" "$got"
    failed=1
  }
}
programs="agents contract fuzz npm package"
whole='test_e2e_.* test_fault_.*'

affects docs/agents.md contract
# a document that a test reads
affects docs/configuration.md "contract test_services"
affects "docs/quick-reference.md docs/examples/pipeline.sh" "contract test_cli test_e2e_documents"
affects docs/schemas/rows/task.json "contract test_e2e_json"
affects tests/unit/domain/kv_test.cpp "contract test_domain"
affects tests/e2e/test_e2e_mcp.cpp "contract test_e2e_mcp"
affects "tests/unit/cli/output_test.cpp docs/limits.md" "contract test_cli"
affects cli/verbs/kv.cpp "$programs test_cli $whole"
# rooms that include the changed one are tested, those below it are not
affects gateway/mcp/rows.cpp "$programs test_cli $whole test_gateway"
affects gateway/routine/run.cpp "$programs test_cli $whole test_gateway"
affects actors/fabric/entities/lock.cpp "$programs test_e2e_.* test_fabric test_fault_.* test_services test_sim test_simulate"
affects services/security/secret.cpp "$programs $whole test_security test_services"
affects services/federation/links.cpp "$programs $whole test_services"
affects tools/simulate.d/star.cpp "contract test_simulate"
affects tools/format contract
affects deploy/man/swarmctl.1 "agents contract npm package $whole"
# whatever the tests share, and what no rule knows
affects proto/swarm/v1/pty.proto all
affects tests/support/node_client.cpp all
affects CMakeLists.txt all
affects "docs/agents.md actors/unknown/a.cpp" all
affects "" ""

# Every program of the tests can be chosen: its name is a label that some room leads to.
for folder in "$top"/tests/unit/*/ "$top"/tests/unit/services/security/ "$top"/tests/unit/services/keeper/; do
  affects "${folder#"$top"/}x.cpp" "contract test_$(basename "$folder")"
done
exit $failed
