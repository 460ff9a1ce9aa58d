#!/usr/bin/env node
// replay.mjs PROGRAM RECORDING [ARGUMENTS OF THE PROGRAM...]   an agent's program as it was recorded, for tests without it
//
// Put it where the fabric starts the program (SWARM_HARNESS_CLAUDE="replay.mjs claude session"). On the terminal appears what
// fixtures/<PROGRAM>/<RECORDING>.cast has: the start at once, the turn when somebody has typed a prompt, over and over. At the same
// places the hooks that the fabric gave the program are run, with the input that was recorded, and heeded: a write that they deny is not
// done, any other is. A turn ends like that of a good agent: it reads its mail and ends its tasks, by the command line.
//   SWARM_REPLAY_SPEED   so many times as fast (1)
//   SWARM_REPLAY_LOG     file for a JSON object per line: {"typed"}, {"hook", "denied"}, {"wrote"}, {"mark"}
import { spawn } from 'node:child_process';
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const RECORDED = '/tmp/agent/repo'; // where it was recorded
const [program, recording, ...given] = process.argv.slice(2);
const speed = Number(process.env.SWARM_REPLAY_SPEED ?? 1);
const fixtures = join(dirname(fileURLToPath(import.meta.url)), 'fixtures', program);
const lines = (file) =>
  readFileSync(join(fixtures, file), 'utf8')
    .split('\n')
    .filter((line) => line !== '');

/** {status, stdout, stderr} of a program, the terminal going on meanwhile. */
function ran(file, args, input = '') {
  return new Promise((done) => {
    const child = spawn(file, args);
    const said = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr']) child[stream].on('data', (data) => (said[stream] += data));
    child.on('error', (error) => done({ ...said, status: 127, stderr: error.message }));
    child.on('close', (status) => done({ ...said, status }));
    child.stdin.on('error', () => {}); // it may end without reading
    child.stdin.end(input);
  });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function log(entry) {
  if (process.env.SWARM_REPLAY_LOG) appendFileSync(process.env.SWARM_REPLAY_LOG, `${JSON.stringify(entry)}\n`);
}

// -- what was recorded ---------------------------------------------------------------------

const [, ...events] = lines(`${recording}.cast`).map((line) => JSON.parse(line));
const begins = (entry) => entry.event === 'SessionStart' || entry.event === 'load';
const isScreen = (entry) => entry.input.type === 'catalog.updated'; // what OpenCode's first screen sets off

/** The hooks of this recording: both were written into one file, one after the other. */
function recordedHooks() {
  const all = lines('hooks.jsonl').map((line) => JSON.parse(line.replaceAll(RECORDED, process.cwd())));
  const second = all.findLastIndex(begins);
  return recording === 'dialog' ? all.slice(second) : all.slice(0, second);
}

const hooks = recordedHooks();
const isPrompt = (entry) => entry.event === 'UserPromptSubmit' || entry.event === 'BeforeAgent' || entry.event === 'chat.message';
const isEnd = (entry) => entry.event === 'SessionEnd';
// Codex calls its first hook with the first prompt only, and OpenCode has no session before.
const isStart = (entry) => (begins(entry) && program !== 'codex') || isScreen(entry);
const atStart = hooks.filter(isStart);
const atFirstPrompt = hooks.slice(0, hooks.findIndex(isPrompt)).filter((entry) => !isStart(entry));
const working = hooks.slice(hooks.findIndex(isPrompt)).filter((entry) => !isEnd(entry));
const replied = working.findIndex((entry) => entry.input.type === 'permission.replied');
const asking = replied < 0 ? working : working.slice(0, replied);

// -- the hooks that the program was given ---------------------------------------------------------

/** The shell commands for an event: Claude Code's are in --settings, Codex's in -c, Gemini CLI's in a file. */
function commandsFor(event) {
  if (program === 'claude') return commandsIn(JSON.parse(given[given.indexOf('--settings') + 1] ?? '{}').hooks?.[event]);
  if (program === 'gemini') {
    const file = process.env.GEMINI_CLI_SYSTEM_DEFAULTS_PATH;
    return file ? commandsIn(JSON.parse(readFileSync(file, 'utf8')).hooks?.[event]) : [];
  }
  const value = given.find((argument) => argument.startsWith(`hooks.${event}=`)) ?? '';
  return [...value.matchAll(/command=("(?:[^"\\]|\\.)*")/g)].map((match) => ({ command: JSON.parse(match[1]) }));
}

function commandsIn(groups = []) {
  return groups.flatMap((group) => group.hooks.map((hook) => ({ matcher: group.matcher, command: hook.command })));
}

/** OpenCode runs a plugin as a module whatever its directory says; Debian's node goes by the name of the file. */
async function importModule(url) {
  const directory = mkdtempSync(join(tmpdir(), 'swarm-replay-'));
  const copy = join(directory, 'plugin.mjs');
  copyFileSync(fileURLToPath(url), copy);
  try {
    return await import(pathToFileURL(copy));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

let plugin; // OpenCode's, of the fabric
async function loadPlugin() {
  const config = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT ?? '{}');
  for (const name of config.plugin ?? []) {
    const [make] = Object.values(await importModule(name));
    plugin = await make({ directory: process.cwd(), worktree: process.cwd() });
  }
}

/** Runs what was given for a recorded event; the reason when it denies the tool. */
async function runHook({ event, input }) {
  let denied;
  if (program === 'opencode') {
    if (event === 'load') await loadPlugin();
    else if (event === 'event') await plugin?.event?.({ event: input });
    else
      await plugin?.[event]?.(input, { args: input.args ?? {}, parts: [{ type: 'text', text: input.text ?? '' }] }).catch((error) => {
        denied = error.message;
      });
  } else {
    const matches = ({ matcher }) => !matcher || matcher === '*' || new RegExp(`^(?:${matcher})$`).test(input.tool_name ?? '');
    for (const { command } of commandsFor(event).filter(matches)) {
      const done = await ran('sh', ['-c', command], JSON.stringify(input));
      const said = done.stdout.startsWith('{') ? JSON.parse(done.stdout) : {};
      if (said.hookSpecificOutput?.permissionDecision === 'deny') denied = said.hookSpecificOutput.permissionDecisionReason;
      else if (said.decision === 'deny' || said.decision === 'block') denied = said.reason;
      else if (done.status === 2) denied = done.stderr.trim();
    }
  }
  log({ hook: program === 'opencode' && event === 'event' ? input.type : event, ...(denied ? { denied } : {}) });
  return denied;
}

/** The write that a tool is about to do: [path, content], or nothing. */
function writeOf({ event, input }) {
  if (!['PreToolUse', 'BeforeTool', 'tool.execute.before'].includes(event)) return undefined;
  const what = input.tool_input ?? input.args ?? {};
  const path = what.file_path ?? what.filePath;
  if (path !== undefined && what.content !== undefined) return [path, what.content];
  const patch = /\*\*\* Add File: (.*)\n\+(.*)\n/.exec(what.command ?? '');
  return patch ? [patch[1], `${patch[2]}\n`] : undefined;
}

async function run(entries) {
  for (const entry of entries) {
    const write = writeOf(entry);
    const denied = await runHook(entry);
    if (!write || denied || recording === 'dialog') continue;
    writeFileSync(...write);
    log({ wrote: write[0] });
  }
}

// -- the terminal ----------------------------------------------------------------------------

let typed = '';
let waits = false; // for a prompt
process.stdin.setRawMode?.(true);
process.stdin.on('data', (data) => {
  // The node's answer to the question whether it listens is no prompt.
  const text = String(data).replaceAll('\x1b]7501;?\x1b\\', '');
  typed += text;
  if (waits) draw(text);
});

/** What is typed stands in the input line, with a cursor behind it. */
function draw(text) {
  const shown = text.replaceAll('\x1b[200~', '').replaceAll('\x1b[201~', '').replace(/[\x00-\x1f]/g, '');
  if (shown) process.stdout.write(`${shown}\x1b[K\x1b[7m \x1b[27m\x1b[D`);
}

/** The screen as it was when the recorded prompt was entered: what was drawn above is not what the next output goes on from. */
function redraw() {
  const past = events.slice(0, turn).filter(([, kind]) => kind === 'o');
  process.stdout.write('\x1b[?1049l\x1bc');
  for (const [, , text] of past) process.stdout.write(text.replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, ''));
}
process.stdin.on('end', () => finish(0));

/** What is typed until Enter, without the marks of a paste. */
async function prompt() {
  waits = true;
  draw(typed.split('\r')[0]); // typed before it waited
  for (;;) {
    const enter = typed.indexOf('\r');
    const text = (enter < 0 ? '' : typed.slice(0, enter)).replaceAll('\x1b[200~', '').replaceAll('\x1b[201~', '');
    if (enter >= 0) typed = typed.slice(enter + 1);
    if (text !== '') {
      waits = false;
      redraw();
      return text;
    }
    if (enter < 0) await pause(20);
  }
}

let ending = false;
async function finish(status) {
  if (ending) return;
  ending = true;
  await run(hooks.filter(isEnd).slice(0, 1));
  await plugin?.dispose?.();
  process.exit(status);
}
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.on(signal, () => finish(signal === 'SIGTERM' ? 143 : 0));

async function show(from, to) {
  let at = events[from]?.[0] ?? 0;
  for (const [when, kind, text] of events.slice(from, to)) {
    await pause(((when - at) * 1000) / speed);
    at = when;
    if (kind === 'o') process.stdout.write(text);
  }
}

const markAt = (name, from = 0) => events.findIndex(([, kind, text], index) => index >= from && kind === 'm' && text.startsWith(name));

/** Where the program says on its terminal that its turn is over: the last time it begins to say so. */
function saysIdle(from, to) {
  let over = to;
  for (let i = from; i < to; ++i) {
    const [, kind, text] = events[i];
    if (kind !== 'o') continue;
    if (/\x1b\]7501;[^\x07\x1b]*state=working|\x1b\][02];[^\x07\x1b]*(Working|✦)/.test(text)) over = to;
    if (over === to && /\x1b\]7501;[^\x07\x1b]*state=(?:idle|done|error)|\x1b\][02];[^\x07\x1b]*(Ready|◇)/.test(text)) over = i;
  }
  return over;
}

const idle = markAt('idle');
const turn = markAt('turn');
await Promise.all([show(0, idle), run(atStart)]);
log({ mark: 'idle' });
for (;;) {
  const text = await prompt();
  log({ typed: text });
  await run(atFirstPrompt.splice(0));
  if (recording === 'dialog') {
    const blocked = markAt('blocked');
    await Promise.all([show(turn, blocked), run(asking)]);
    log({ mark: 'blocked' });
    while (!/[\r\x1b]/.test(typed)) await pause(20);
    log({ answered: typed.includes('\r') ? 'yes' : 'no' });
    typed = '';
    await show(blocked, markAt('idle', blocked));
    await run(working.slice(asking.length));
  } else {
    const last = working.length - 1;
    // A program does not say that it is idle before its tools have ended, which here take as long as they take.
    const over = saysIdle(turn, markAt('idle', turn));
    await Promise.all([show(turn, over), run(working.slice(0, last))]);
    const mail = await ran('swarmctl', ['bootstrap']);
    // One line wakes it for all its mail, which may be about another task as well.
    const named = [...text.matchAll(/for task ([0-9a-zA-Z-]+)/g), ...mail.stdout.matchAll(/\[task:([0-9a-zA-Z-]+)\]/g)];
    for (const task of new Set(named.map((match) => match[1]))) {
      await ran('swarmctl', ['claim', task]); // unless it is reserved for us
      await ran('swarmctl', ['update-task', task, '--status', 'done', '--note', 'replayed']);
    }
    await Promise.all([show(over, markAt('idle', turn)), run(working.slice(last))]);
  }
  log({ mark: 'idle' });
}
