// Drives the OpenCode plugin as OpenCode does: loads a copy of it beside a swarm.json, and calls its hooks.
// node opencode.mjs <directory with swarm.js and swarm.json> <script>; the script is a JSON list of
// ["before", tool, args] | ["after", tool, args] | ["event", type, properties] | ["message", session, text] | ["until", file, text in it].
// Prints one JSON line for each step: {"ok": text?} or {"error": message}.
import { copyFileSync, existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const [directory, script] = process.argv.slice(2)
// OpenCode runs it as a module whatever its directory says; node goes by the name.
const module_ = join(directory, "swarm.mjs")
copyFileSync(join(directory, "swarm.js"), module_)
const exported = Object.values(await import(pathToFileURL(module_)))
if (exported.length !== 1 || typeof exported[0] !== "function") throw new Error("a plugin exports one function")
const hooks = await exported[0]({ directory: process.cwd(), worktree: process.cwd(), client: {}, serverUrl: new URL("http://127.0.0.1:1") })

const sessionID = "ses_1"
let call = 0
for (const [what, name, value] of JSON.parse(script)) {
  let said
  try {
    if (what === "before") {
      const output = { args: structuredClone(value) }
      await hooks["tool.execute.before"]({ tool: name, sessionID, callID: `call_${++call}` }, output)
      said = { ok: JSON.stringify(output.args) === JSON.stringify(value) ? "" : "the arguments changed" }
    } else if (what === "after") {
      await hooks["tool.execute.after"]({ tool: name, sessionID, callID: `call_${call}`, args: value }, { title: "", output: "", metadata: {} })
      said = { ok: "" }
    } else if (what === "message") {
      const output = { message: { id: "msg_1", role: "user" }, parts: [{ id: "prt_1", type: "text", text: value }] }
      await hooks["chat.message"]({ sessionID: name }, output)
      said = { ok: output.parts.map((part) => part.text).join("|") }
    } else if (what === "until") {
      const deadline = Date.now() + 20000
      while (!existsSync(name) || !readFileSync(name, "utf8").includes(value)) {
        if (Date.now() > deadline) throw new Error(`${name} never has ${value}`)
        await new Promise((done) => setTimeout(done, 20))
      }
      said = { ok: "" }
    } else {
      await hooks.event({ event: { id: "evt_1", type: name, properties: value } })
      said = { ok: "" }
    }
  } catch (error) {
    said = { error: error.message }
  }
  console.log(JSON.stringify(said))
}
await hooks.dispose()
