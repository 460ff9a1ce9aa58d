#!/usr/bin/env node
// tour.mjs BUILD_DIRECTORY    "Two agents in five minutes" of docs/agents.md, to the letter
//
// Every line of its code blocks is run, in their order, as somebody types it who has nothing but the package: in a fresh home and a repository.
// Only the package itself is not installed; the programs of the build are on the path instead. The two agents in terminals are played by recorded
// hooks, run as `swarmctl install` has set them up, and by the tool server that it has named; the workers by replay.mjs. Status 77: not here.
import { fork, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const source = resolve(here, '../..');
const LINE_S = 100; // for a line to end
const SOON_S = 30; // for what follows from it

/** {status, out} of a program, both its outputs in one; ended at the deadline. */
function ran(file, args, { input = '', seconds = LINE_S, ...options } = {}) {
  return new Promise((done) => {
    const child = spawn(file, args, { ...options, detached: true });
    let out = '';
    const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), seconds * 1000);
    for (const stream of ['stdout', 'stderr']) child[stream].on('data', (data) => (out += data));
    child.on('error', (error) => (out += error.message));
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      done({ status: status ?? signal, out });
    });
    child.stdin.on('error', () => {}); // it may end without reading
    child.stdin.end(input);
  });
}

function holds(what, message) {
  if (!what) throw new Error(message);
}

async function eventually(condition, message) {
  for (const until = Date.now() + SOON_S * 1000; !condition(); await new Promise((done) => setTimeout(done, 50)))
    holds(Date.now() < until, message());
}

// -- an agent in a terminal of somebody's: a process of its own --------------------------------------

/** Does what it is sent: {event, input} runs its hooks for that, {tool, input} calls its tool server. */
async function beAnAgent() {
  const home = process.env.HOME;
  const settings = JSON.parse(readFileSync(join(home, '.claude/settings.json'), 'utf8'));
  const { command, args } = JSON.parse(readFileSync(join(home, '.claude.json'), 'utf8')).mcpServers.swarm;
  const session_id = randomUUID();
  const recorded = readFileSync(join(here, 'fixtures/claude/hooks.jsonl'), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line.replaceAll('/tmp/agent/repo', process.cwd()).replaceAll('/tmp/agent/home', home)));
  const server = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map();
  let partial = '';
  server.stdout.on('data', (data) => {
    const lines = (partial + data).split('\n');
    partial = lines.pop();
    for (const line of lines.map((text) => JSON.parse(text))) waiting.get(line.id)?.(line);
  });
  let last = 0;
  const request = (method, params) =>
    new Promise((done) => {
      waiting.set((last += 1), done);
      server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: last, method, params })}\n`);
    });
  await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'tour', version: '1' } });

  async function hook(event, input) {
    const like = recorded.find((entry) => entry.event === event && (!input.tool_name || entry.input.tool_name === input.tool_name));
    const said = { denied: '', context: '' };
    for (const { matcher, hooks } of settings.hooks[event] ?? []) {
      if (matcher && !new RegExp(`^(?:${matcher})$`).test(input.tool_name ?? '')) continue;
      for (const each of hooks) {
        const { status, out } = await ran('sh', ['-c', each.command], { input: JSON.stringify({ ...like.input, session_id, ...input }) });
        const answer = out.startsWith('{') ? JSON.parse(out).hookSpecificOutput : {};
        holds(status === 0, `${each.command}: ${out}`);
        said.denied ||= answer.permissionDecisionReason ?? '';
        said.context += answer.additionalContext ?? '';
      }
    }
    return said;
  }
  process.on('message', async ({ event, tool, input }) => {
    try {
      if (event) return process.send({ said: await hook(event, input) });
      const { result, error } = await request('tools/call', { name: tool, arguments: input });
      holds(result && !result.isError, `${tool}: ${JSON.stringify(error ?? result)}`);
      process.send({ said: result.content[0].text });
    } catch (failed) {
      process.send({ failed: failed.message });
    }
  });
  process.on('disconnect', async () => {
    await hook('SessionEnd', {});
    server.stdin.end();
    server.on('close', () => process.exit(0));
  });
  process.send({ said: 'ready' });
}

class Agent {
  static async start(options) {
    const agent = new Agent();
    agent.process = fork(fileURLToPath(import.meta.url), ['--agent'], options);
    await agent.answer();
    agent.context = (await agent.does({ event: 'SessionStart', input: {} })).context;
    return agent;
  }
  answer() {
    return new Promise((done, fail) => {
      this.process.once('message', ({ said, failed }) => (failed ? fail(new Error(failed)) : done(said)));
      this.process.once('exit', (status) => fail(new Error(`an agent ended with ${status}`)));
    });
  }
  does(what) {
    const answer = this.answer();
    this.process.send(what);
    return answer;
  }
  calls(tool, input = {}) {
    return this.does({ tool, input });
  }
  /** Its terminal is closed. */
  end() {
    this.process.removeAllListeners('exit');
    const ended = new Promise((done) => this.process.once('exit', done));
    this.process.disconnect();
    return ended;
  }
}

// -- the tour --------------------------------------------------------------------------------------

/** The code blocks of that section, a list of lines each, without their comments. */
function blocksOf(document, title) {
  const text = readFileSync(document, 'utf8');
  const section = text.split(/^## /m).find((part) => part.startsWith(`${title}\n`));
  holds(section, `${document} has no "${title}"`);
  return section
    .split(/\n(?! {4})/)
    .map((part) => part.split('\n').filter((line) => line.startsWith('    ')))
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map((line) => line.trim().replace(/ +# .*$/, '')));
}

/** What each line must show; where several fit, all do. */
const shows = [
  [/^swarmctl install$/, /^Claude Code: set up$/m],
  [/^swarmctl doctor$/, /\[OK {2}\] host_claude/],
  [/^swarmctl instances$/, /claude-code platform:cli[^]*claude-code platform:cli/],
  [/\bswarmctl locks\b/, /src\/a\.cpp/],
  [/\bswarmctl tasks\b/, /in_progress.*write a test for src\/a\.cpp/],
  [/^swarmctl dispatch .* --wait-for-completion /, /^\d\d:\d\d:\d\d {2}done$/m],
  [/^swarmctl dispatch .* --worktree/, /^spawned worker for task/m],
  [/^swarmctl agents$/, /claude[^]*codex|codex[^]*claude/],
  [/^swarmctl peek /, /\S/],
  [/^swarmctl routine run /, /^shipped\/review-branch: 4 done$/m],
];

async function follow(build) {
  const base = mkdtempSync(join(tmpdir(), 'swarm-tour-'));
  const [home, repository] = [join(base, 'home'), join(base, 'repository')];
  mkdirSync(join(home, 'bin'), { recursive: true });
  mkdirSync(join(repository, 'src'), { recursive: true });
  for (const program of ['claude', 'codex']) {
    writeFileSync(join(home, 'bin', program), `#!/bin/sh\nexec '${process.execPath}' '${join(here, 'replay.mjs')}' ${program} session "$@"\n`);
    chmodSync(join(home, 'bin', program), 0o755);
  }
  const kept = Object.entries(process.env).filter(([name]) => /^(LANG|LC_.*|LD_LIBRARY_PATH|[A-Z]+SAN_OPTIONS)$/.test(name));
  const env = {
    ...Object.fromEntries(kept),
    HOME: home,
    PATH: `${join(home, 'bin')}:${join(build, 'bin')}:/usr/local/bin:/usr/bin:/bin`,
    TERM: 'xterm',
    SWARM_REPLAY_SPEED: '12',
    SWARM_REPLAY_LOG: join(base, 'replay.log'),
    GIT_AUTHOR_NAME: 'Ada',
    GIT_AUTHOR_EMAIL: 'ada@example.org',
    GIT_COMMITTER_NAME: 'Ada',
    GIT_COMMITTER_EMAIL: 'ada@example.org',
  };
  const options = { cwd: repository, env };
  writeFileSync(join(repository, 'src/a.cpp'), 'int a;\n');
  const made = await ran('sh', ['-ec', 'git init -qb main; git add .; git commit -qm first; git branch my-branch'], options);
  holds(made.status === 0, made.out);

  const unused = new Set(shows);
  const terminals = []; // that go on
  const agents = [];
  async function line(text) {
    console.log(`$ ${text}`);
    if (text.startsWith('sudo apt install ')) {
      const [, name] = /^set\(CPACK_PACKAGE_NAME "(.*)"\)$/m.exec(readFileSync(join(build, 'CPackConfig.cmake'), 'utf8'));
      return holds(text === `sudo apt install ./${name}_*.deb`, `the package is ${name}_VERSION_ARCHITECTURE.deb`);
    }
    if (text.includes('--follow')) {
      const terminal = { out: '', process: spawn('sh', ['-c', `exec ${text}`], options) };
      for (const stream of ['stdout', 'stderr']) terminal.process[stream].on('data', (data) => (terminal.out += data));
      terminals.push(terminal);
      return undefined;
    }
    const checks = shows.filter(([which]) => which.test(text));
    for (const check of checks) unused.delete(check);
    // What only looks may have to look again: a worker draws its screen when it has started.
    const until = Date.now() + (/^swarmctl (?:agents|peek) ?/.test(text) ? SOON_S * 1000 : 0);
    for (;;) {
      const { status, out } = await ran('sh', ['-c', text], options);
      const missing = checks.find(([, what]) => !what.test(out));
      if (status === 0 && missing && Date.now() < until) continue;
      console.log(out.trimEnd().replace(/^/gm, '    '));
      holds(status === 0, `it ended with ${status}`);
      return holds(!missing, `it does not show ${missing?.[1]}`);
    }
  }

  /** What the tour has its reader say to the two agents. */
  async function work() {
    const [first, second] = agents;
    for (const agent of agents) {
      holds(agent.context.includes('swarm coordination is active'), `it was not told so: ${agent.context}`);
      await agent.calls('register', { directory: repository });
    }
    await first.calls('lock_file', { file: 'src/a.cpp', reason: 'mine' });
    const write = { tool_name: 'Write', tool_input: { file_path: join(repository, 'src/a.cpp'), content: '// a\n' } };
    const { denied } = await second.does({ event: 'PreToolUse', input: write });
    holds(/^swarm lock blocked Write for .*src\/a\.cpp: held by .*claude-code.* \(mine\)$/.test(denied), `the write is not refused: ${denied}`);
    await first.calls('request_task', { type: 'test', title: 'write a test for src/a.cpp' });
    const claimed = await second.calls('claim_next_task');
    holds(claimed.includes('write a test for src/a.cpp'), `no task was found: ${claimed}`);
  }

  try {
    const blocks = blocksOf(join(source, 'docs/agents.md'), 'Two agents in five minutes');
    holds(blocks.length === 4, `the tour has ${blocks.length} blocks of code: to install, to watch, to start agents, to run a routine`);
    for (const text of blocks[0]) await line(text);
    while (agents.length < 2) agents.push(await Agent.start({ ...options, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }));
    const [watching, ...looking] = blocks[1];
    await line(watching);
    await work();
    for (const text of [...looking, ...blocks[2]]) await line(text);
    for (const text of blocks[3]) await line(text);
    for (const agent of agents.splice(0)) await agent.end();
    for (const terminal of terminals)
      for (const event of ['lock', 'task', 'spawn'])
        await eventually(
          () => terminal.out.includes(event),
          () => `what follows the events has not seen a ${event}: ${terminal.out}`,
        );
    holds(unused.size === 0, `the tour has no line for ${[...unused].map(([which]) => which)}`);
    const inline = readFileSync(join(source, 'docs/agents.md'), 'utf8').match(/`tools\/[a-z]+`/g) ?? [];
    for (const tool of inline) holds(existsSync(join(source, tool.slice(1, -1))), `there is no ${tool}`);
  } catch (error) {
    console.log((await ran('sh', ['-c', 'swarmctl tasks; swarmctl spawns; swarmctl agents; tail -n 40 "$SWARM_REPLAY_LOG"'], options)).out);
    throw error;
  } finally {
    for (const { process: child } of terminals) child.kill('SIGINT');
    for (const agent of agents) await agent.end();
    await ran('swarmctl', ['down'], options);
    for (const pid of readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))) {
      try {
        if (readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has gone, or is not ours.
      }
    }
    rmSync(base, { recursive: true, force: true, maxRetries: 5 });
  }
}

if (process.argv[2] === '--agent') {
  await beAnAgent();
} else if (Number(process.versions.node.split('.')[0]) < 20) {
  console.log('SKIPPED, the tour is not followed here: Node is too old');
  process.exit(77);
} else {
  await follow(resolve(process.argv[2])).catch((error) => {
    console.error(`FAILED: ${error.message}`);
    process.exit(1);
  });
  console.log('the tour works as it stands');
}
