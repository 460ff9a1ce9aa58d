#!/usr/bin/env node
// record.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--into DIRECTORY]
//
// What the real programs say, for tests that must run without them: fixtures/<program>/session.cast (a terminal of 80x24 that listens to what
// its program says of itself, as an asciinema recording: start, idle, a turn with tools, idle, exit), dialog.cast (it asks for permission
// and is told no) and hooks.jsonl (what its hooks are given, one {"event", "input"} per line, of both). Needs `script` of util-linux for the
// terminal. The directories have the same names on every machine, so that nothing of this one is in the recordings.
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StringDecoder } from 'node:string_decoder';
import { parseArgs } from 'node:util';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
  options: {
    bin: { type: 'string' },
    agents: { type: 'string' },
    only: { type: 'string' },
    into: { type: 'string', default: join(here, 'fixtures') },
  },
});
if (!options.bin || !options.agents) {
  console.error('usage: record.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--into DIRECTORY]');
  process.exit(2);
}

const ROOT = '/tmp/agent';
const HOME = join(ROOT, 'home');
const REPOSITORY = join(ROOT, 'repo');
const HOOK = join(ROOT, 'hook');
const HOOKS = join(ROOT, 'hooks.jsonl');
const COLUMNS = 80;
const ROWS = 24;
const SILENCE_MS = 4000;
const START_MS = 40000;
const TURN_MS = 60000;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

class terminal {
  constructor(command, environment) {
    this.begun = Date.now();
    this.last = this.begun;
    this.events = [];
    this.text = '';
    const decoder = new StringDecoder('utf8');
    const line = `stty cols ${COLUMNS} rows ${ROWS}; exec ${command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')}`;
    this.child = spawn('script', ['-qfec', line, '/dev/null'], { cwd: REPOSITORY, env: environment, stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdout.on('data', (data) => {
      const text = decoder.write(data);
      if (text.includes('\x1b]7501;?')) this.child.stdin.write('\x1b]7501;?\x1b\\');
      this.last = Date.now();
      this.text += text;
      this.put('o', text);
    });
    this.ended = new Promise((done) => this.child.on('exit', (status) => done(status)));
  }
  put(kind, text) {
    this.events.push([(Date.now() - this.begun) / 1000, kind, text]);
  }
  mark(name) {
    this.put('m', name);
  }
  type(text) {
    this.put('i', text);
    this.child.stdin.write(text);
  }
  async prompt(text) {
    this.type(`\x1b[200~${text}\x1b[201~`);
    await pause(300);
    this.type('\r');
  }
  async silence(limit, after = SILENCE_MS) {
    const end = Date.now() + limit;
    this.last = Date.now();
    while (Date.now() - this.last < after) {
      if (Date.now() > end) throw new Error('it is never silent');
      await pause(50);
    }
  }
  async shows(words, limit) {
    const end = Date.now() + limit;
    while (!words.test(plain(this.text))) {
      if (Date.now() > end) throw new Error(`it never shows ${words}`);
      await pause(50);
    }
  }
  async finish(keys) {
    for (const key of keys) {
      this.type(key);
      await pause(400);
    }
    const status = await Promise.race([this.ended, pause(15000)]);
    this.child.stdin.end();
    this.mark(`exit ${status}`);
  }
  save(file, title) {
    const header = { version: 2, width: COLUMNS, height: ROWS, title, env: { TERM: 'xterm-256color' } };
    const lines = this.events.map(([at, kind, text]) => JSON.stringify([Number(at.toFixed(3)), kind, text]));
    writeFileSync(file, `${[JSON.stringify(header), ...lines].join('\n')}\n`);
  }
}

// Text of a screen without what moves and colours it: enough to look for words.
function plain(text) {
  return text
    .replace(/\x1b\[\d*[CG]/g, ' ')
    .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, '')
    .replace(/\x1b\[[0-9;?<>=!]*[ -/]*[@-~]/g, '');
}

// What each program is given to call our hook at each event, and to start.
const hook = (event) => `${HOOK} ${event}`;
const swarmctl = () => join(resolve(options.bin), 'swarmctl');
const claudeHooks = (events) =>
  Object.fromEntries(events.map((event) => [event, [{ hooks: [{ type: 'command', command: hook(event), timeout: 20 }] }]]));
const toml = JSON.stringify;

const ways = {
  claude: {
    ready: /❯/,
    command: (program) => [
      program,
      '--mcp-config',
      JSON.stringify({ mcpServers: { swarm: { command: swarmctl(), args: ['mcp'], alwaysLoad: true } } }),
      '--settings',
      JSON.stringify({
        permissions: { allow: ['mcp__swarm'] },
        hooks: claudeHooks([
          'SessionStart',
          'UserPromptSubmit',
          'PreToolUse',
          'PermissionRequest',
          'PostToolUse',
          'PostToolUseFailure',
          'Stop',
          'Notification',
          'SessionEnd',
        ]),
      }),
    ],
    exit: ['\x03', '\x03'],
  },
  codex: {
    ready: /Ask Codex/,
    command: (program) => [
      program,
      '--no-daemon',
      '--dangerously-bypass-hook-trust',
      '-c',
      `projects={${toml(REPOSITORY)}={trust_level="trusted"}}`,
      '-c',
      `mcp_servers.swarm={command=${toml(swarmctl())},args=["mcp"],env_vars=["SWARM_HOME"],default_tools_approval_mode="approve"}`,
      ...['SessionStart', 'UserPromptSubmit', 'PreToolUse', 'PermissionRequest', 'PostToolUse', 'Stop'].flatMap((event) => [
        '-c',
        `hooks.${event}=[{hooks=[{type="command",command=${toml(hook(event))},timeout=20}]}]`,
      ]),
    ],
    exit: ['\x03'],
  },
  opencode: {
    ready: /Ask anything/,
    environment: () => ({
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        plugin: [`file://${ROOT}/plugin.mjs`],
        mcp: { swarm: { type: 'local', command: [swarmctl(), 'mcp'], enabled: true } },
      }),
    }),
    command: (program) => [program],
    exit: ['\x03'],
  },
  gemini: {
    ready: /Type your message/,
    environment: () => ({ GEMINI_CLI_NO_RELAUNCH: 'true' }),
    prepare: () => {
      const file = join(HOME, '.gemini/settings.json');
      const settings = JSON.parse(readFileSync(file, 'utf8'));
      settings.mcpServers = { swarm: { command: swarmctl(), args: ['mcp'], trust: true } };
      settings.hooks = Object.fromEntries(
        ['SessionStart', 'BeforeAgent', 'BeforeTool', 'AfterTool', 'AfterAgent', 'Notification', 'SessionEnd'].map((event) => [
          event,
          [{ matcher: '*', hooks: [{ type: 'command', name: event, command: hook(event), timeout: 20000 }] }],
        ]),
      );
      writeFileSync(file, JSON.stringify(settings));
    },
    command: (program) => [program, '--skip-trust'],
    exit: ['\x03', '\x03'],
  },
};

const hookProgram = `#!/usr/bin/env node
const { appendFileSync, readFileSync } = require('node:fs');
const event = process.argv[2];
const input = JSON.parse(readFileSync(0, 'utf8'));
appendFileSync('${HOOKS}', JSON.stringify({ event, input }) + '\\n');
const reason = 'swarm lock blocked ' + input.tool_name + ' for ${REPOSITORY}/locked.txt: held by role:peer';
if (JSON.stringify(input).includes('locked.txt')) {
  if (event === 'PreToolUse') console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: event, permissionDecision: 'deny', permissionDecisionReason: reason } }));
  if (event === 'BeforeTool') console.log(JSON.stringify({ decision: 'deny', reason }));
}
`;

const plugin = `import { appendFileSync } from 'node:fs';
const log = (event, input) => appendFileSync('${HOOKS}', JSON.stringify({ event, input }) + '\\n');
export const Recorder = async (ctx) => {
  log('load', { directory: ctx.directory, worktree: ctx.worktree });
  return {
    event: async ({ event }) => {
      if (event.type === 'catalog.updated') log('event', { type: event.type });
      if (/^(session\\.(created|idle|status|error|deleted)|permission\\.|question\\.|server\\.instance)/.test(event.type)) log('event', event);
    },
    'chat.message': async (input, output) => log('chat.message', { ...input, text: output.parts?.map((part) => part.text).join('') }),
    'tool.execute.before': async (input, output) => {
      log('tool.execute.before', { ...input, args: output.args });
      if (JSON.stringify(output.args ?? {}).includes('locked.txt')) throw new Error('swarm lock blocked ' + input.tool + ' for ${REPOSITORY}/locked.txt: held by role:peer');
    },
    'tool.execute.after': async (input, output) => log('tool.execute.after', { ...input, title: output.title, output: output.output }),
  };
};
`;

function prepare(name, model, ask) {
  rmSync(ROOT, { recursive: true, force: true });
  for (const directory of [ROOT, HOME, REPOSITORY, join(ROOT, 'state')]) mkdirSync(directory, { mode: 0o700 });
  writeFileSync(HOOK, hookProgram);
  chmodSync(HOOK, 0o700);
  writeFileSync(join(ROOT, 'plugin.mjs'), plugin);
  writeFileSync(HOOKS, '');
  writeFileSync(join(REPOSITORY, 'a.txt'), 'a\n');
  execFileSync('sh', ['-c', 'git init -q . && git add . && git -c user.name=t -c user.email=t@localhost commit -q -m first'], { cwd: REPOSITORY });
  programs[name].prepare(HOME, REPOSITORY, model);
  ways[name].prepare?.();
  if (ask) programs[name].asking.prepare(HOME);
}

function environmentOf(name) {
  return {
    HOME,
    PATH: process.env.PATH,
    TERM: 'xterm-256color',
    LANG: 'C.UTF-8',
    SHELL: '/bin/sh',
    SWARM_HOME: join(ROOT, 'state'),
    ...ways[name].environment?.(),
  };
}

// Ids and times differ from run to run, the rest must not name this machine.
function scrubbed(line) {
  return line.replaceAll(resolve(options.bin), '/usr/bin').replaceAll(process.cwd(), '/');
}

async function record(name, model) {
  const program = join(resolve(options.agents), name, programs[name].program);
  const into = join(options.into, name);
  mkdirSync(into, { recursive: true });
  const version = JSON.parse(readFileSync(join(here, 'pinned', name, 'package.json'), 'utf8')).dependencies;
  const title = Object.entries(version)
    .map(([what, which]) => `${what} ${which}`)
    .join(' ');
  let hooks = '';
  const session = async (ask, file, turn) => {
    prepare(name, model, ask);
    const command = [...ways[name].command(program), ...(ask ? programs[name].asking.arguments : [])];
    const screen = new terminal(command, environmentOf(name));
    try {
      await screen.shows(ways[name].ready, START_MS);
      await screen.silence(START_MS);
      screen.mark('idle');
      await turn(screen);
      await screen.finish(ways[name].exit);
    } finally {
      screen.child.kill('SIGTERM'); // script passes its end on
      screen.save(join(into, file), title);
      hooks += readFileSync(HOOKS, 'utf8');
      execFileSync(swarmctl(), ['down'], { env: environmentOf(name), stdio: 'ignore' });
    }
  };
  await session(false, 'session.cast', async (screen) => {
    const steps = [
      { tool: 'swarm.swarm_status', input: {} },
      { tool: 'write', path: join(REPOSITORY, 'new.txt'), content: 'new\n' },
      { tool: 'write', path: join(REPOSITORY, 'locked.txt'), content: 'stolen\n' },
      { tool: 'read', path: join(REPOSITORY, 'a.txt') },
    ];
    await screen.prompt(`FAKE_SLOW 8 250 FAKE_STEPS ${JSON.stringify(steps)}`);
    screen.mark('turn');
    await screen.silence(TURN_MS);
    screen.mark('idle');
  });
  const { asking } = programs[name];
  await session(true, 'dialog.cast', async (screen) => {
    await screen.prompt(`FAKE_STEPS ${JSON.stringify([asking.step(REPOSITORY)])}`);
    screen.mark('turn');
    await screen.shows(asking.shows, TURN_MS);
    await pause(8000);
    screen.mark('blocked');
    screen.type('\x1b');
    await screen.silence(TURN_MS);
    screen.mark('idle');
  });
  writeFileSync(join(into, 'hooks.jsonl'), scrubbed(hooks));
}

if (existsSync(ROOT)) {
  console.error(`record.mjs: ${ROOT} is in the way; remove it`);
  process.exit(1);
}
const fake = spawn(process.execPath, [join(here, 'model/server.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
const port = await new Promise((done) => fake.stdout.once('data', (data) => done(/\d+/.exec(String(data))[0])));
let status = 0;
for (const name of options.only ? options.only.split(',') : Object.keys(programs)) {
  try {
    await record(name, `http://127.0.0.1:${port}`);
    console.log(`${name}: recorded`);
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
    status = 1;
  }
}
fake.kill();
if (status === 0) rmSync(ROOT, { recursive: true, force: true });
process.exit(status);
