// OpenCode plugin of swarm-fabric: asks `swarmctl hook opencode` before a tool writes, and tells it what the session does.
// `swarmctl install --host opencode` puts it here, with swarm.json beside it, which names swarmctl. Without a swarmctl to ask
// it stays out of the way, unless swarm.json says fail_closed.
import { spawn } from "node:child_process"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
// Longer than the time after which swarmctl ends a hook itself.
const patienceMs = 10000
const outputBytesMax = 1024 * 1024
// A worker is ready when the events of its first screen have come and ceased, or when none has come for a long time.
const settledMs = 1000
const settlingMsMax = 5000
const silentStartMs = 15000

function settings() {
  try {
    const value = JSON.parse(readFileSync(join(here, "swarm.json"), "utf8"))
    return value && typeof value === "object" ? value : {}
  } catch {
    return {}
  }
}

// Writes a file that swarmctl doctor reads, because OpenCode does not report a plugin that it could not load. Where swarmctl keeps the plugin
// for workers, nobody reads the file, and install would take it for a part of the plugin.
function callHome() {
  if (!existsSync(join(here, "swarm.json"))) return
  try {
    const stamp = join(here, "loaded.json")
    writeFileSync(stamp + ".new", JSON.stringify({ for: "swarm-fabric", at_ms: Date.now() }) + "\n", { mode: 0o600 })
    renameSync(stamp + ".new", stamp)
  } catch {
    // The plugin works without this file, so a directory without write access does not matter.
  }
}

// Resolves to what the hook printed, rejects when the hook could not run.
function ask(program, event, flags, input) {
  return new Promise((resolve, reject) => {
    let out = ""
    let err = ""
    let child
    try {
      child = spawn(program, ["hook", "opencode", event, ...flags], { stdio: ["pipe", "pipe", "pipe"] })
    } catch (error) {
      reject(error)
      return
    }
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      reject(new Error(`no answer from ${program} within ${patienceMs / 1000} s`))
    }, patienceMs)
    child.on("error", (error) => {
      clearTimeout(timer)
      reject(error)
    })
    child.stdout.on("data", (part) => {
      if (out.length < outputBytesMax) out += part
    })
    child.stderr.on("data", (part) => {
      if (err.length < outputBytesMax) err += part
    })
    child.on("close", (status) => {
      clearTimeout(timer)
      if (status === 0) resolve(out)
      else if (status === 2) resolve(JSON.stringify({ decision: "block", reason: err.trim() || "blocked by swarmctl" }))
      else reject(new Error(`${program} ended with ${status}: ${err.trim()}`))
    })
    child.stdin.on("error", () => {}) // it may end without reading
    child.stdin.end(JSON.stringify(input))
  })
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

export const SwarmPlugin = async (ctx) => {
  const { program = "swarmctl", fail_closed = false, enforce = false } = settings()
  const checkFlags = [...(fail_closed ? ["--fail-closed"] : []), ...(enforce ? ["--enforce"] : [])]
  const started = new Set() // sessions that swarmctl knows of
  const busy = new Set()
  const parents = new Map() // from a subagent's session to the one above it, which the subagent's work is reported for
  let complained = false

  const directory = () => ctx?.directory ?? process.cwd()
  const owner = (id) => {
    for (let i = 0; i < 16 && parents.has(id); ++i) id = parents.get(id)
    return id
  }

  // What the model should know, or nothing. Never throws.
  const tell = async (event, session_id, more = {}) => {
    try {
      const reply = parsed(await ask(program, event, [], { session_id, cwd: directory(), ...more }))
      return reply?.hookSpecificOutput?.additionalContext ?? ""
    } catch (error) {
      if (!complained) console.error(`swarm: ${error.message}; going on without it`)
      complained = true
      return ""
    }
  }
  const start = async (id, source = "startup") => {
    if (!id || started.has(id)) return ""
    started.add(id)
    return tell("session-start", id, { source })
  }
  const contexts = new Map() // from a session to the text for its next prompt
  const remember = (id, text) => {
    if (text) contexts.set(id, contexts.has(id) ? `${contexts.get(id)}\n\n${text}` : text)
  }
  const prompt = async (id) => {
    if (busy.has(id)) return
    busy.add(id)
    remember(id, await tell("prompt-submit", id))
  }
  const end = async () => {
    announceNoMore()
    const all = [...started]
    started.clear()
    await Promise.all(all.map((id) => tell("session-end", id)))
  }

  // The fabric types its first message to a worker when the program is ready. OpenCode has no session before its first prompt. It loads this
  // plugin before its first screen, and loses what is typed before that screen.
  let worker = process.env.SWARM_SPAWN_ID
  let announcement
  let latest
  const announceIn = (ms) => {
    clearTimeout(announcement)
    announcement = setTimeout(() => {
      const id = worker
      worker = ""
      void tell("session-start", `worker-${id}`, { source: "startup" })
    }, ms)
  }
  const settle = () => {
    latest ??= Date.now() + settlingMsMax
    announceIn(Math.max(0, Math.min(settledMs, latest - Date.now())))
  }
  // A typed prompt shows that the program is ready, so the announcement is not needed any more.
  const announceNoMore = () => {
    clearTimeout(announcement)
    worker = ""
  }

  callHome()
  if (worker) announceIn(silentStartMs)

  return {
    "tool.execute.before": async (input, output) => {
      const id = owner(input.sessionID)
      remember(id, await start(id, "resume"))
      let reply
      try {
        const text = await ask(program, "pre-tool-use", checkFlags, {
          session_id: id,
          cwd: directory(),
          tool_name: input.tool,
          tool_input: output?.args ?? {},
          tool_use_id: input.callID ?? "",
        })
        reply = text.trim() === "" ? {} : parsed(text)
        if (typeof reply !== "object" || reply === null || Array.isArray(reply))
          throw new Error(`${program} answered with something else than an object`)
      } catch (error) {
        if (fail_closed) throw new Error(`swarm: the lock check failed, and this set-up blocks then: ${error.message}`)
        if (!complained) console.error(`swarm: ${error.message}; going on without it`)
        complained = true
        return
      }
      if (reply?.decision === "block") throw new Error(reply.reason || "blocked by swarmctl")
    },

    "tool.execute.after": async (input) => {
      const id = owner(input.sessionID)
      const text = await tell("post-tool-use", id, {
        tool_name: input.tool,
        tool_input: input.args ?? {},
        tool_use_id: input.callID ?? "",
      })
      remember(id, text)
    },

    // A user's message shows that the session is at work; the news for the model go with it.
    "chat.message": async (input, output) => {
      const id = input?.sessionID
      announceNoMore()
      if (!id || parents.has(id)) return
      remember(id, await start(id, "resume"))
      await prompt(id)
      const text = contexts.get(id)
      if (!text || !Array.isArray(output?.parts)) return
      const first = output.parts.find((part) => part?.type === "text" && typeof part.text === "string")
      if (!first) return
      contexts.delete(id)
      first.text = `${first.text}\n\n${text}`
    },

    event: async ({ event }) => {
      const what = event?.properties ?? {}
      const id = what.sessionID ?? what.info?.id
      if (worker) settle()
      switch (event?.type) {
        case "session.created":
          if (what.info?.parentID) parents.set(id, what.info.parentID)
          else remember(id, await start(id))
          break
        case "session.status":
          if (id && !parents.has(id) && what.status?.type === "busy" && started.has(id)) await prompt(id)
          break
        case "session.idle":
          if (!id || parents.has(id)) break
          busy.delete(id)
          await tell("stop", id)
          break
        case "permission.asked":
        case "permission.updated":
          if (id) await tell("notification", owner(id), { message: "waits for permission" })
          break
        case "session.deleted":
          parents.delete(id)
          contexts.delete(id)
          busy.delete(id)
          if (started.delete(id)) await tell("session-end", id)
          break
        case "server.instance.disposed":
          await end()
          break
      }
    },

    dispose: end,
  }
}
