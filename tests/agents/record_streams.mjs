#!/usr/bin/env node
// record_streams.mjs --agents DIRECTORY [--only SCENARIO,...] [--into DIRECTORY]
//
// What Claude Code says when a program drives it (--input-format stream-json), for the tests of actors/agents/claude_stream: fixtures/claude/streams/
// <scenario>.jsonl has one line per frame, {"at": ms, "to": frame} for what it is told and {"at": ms, "from": frame} for what it says, then
// {"at", "exit", "signal"}; "stderr" has what it writes there. Its input is one end of a socketpair, as in the fabric. The directories have the same
// names on every machine, so that nothing of this one is in the recordings.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { model, pause } from './parts.mjs';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
  options: {
    agents: { type: 'string' },
    only: { type: 'string' },
    into: { type: 'string', default: join(here, 'fixtures/claude/streams') },
  },
});
if (!options.agents) {
  console.error('usage: record_streams.mjs --agents DIRECTORY [--only SCENARIO,...] [--into DIRECTORY]');
  process.exit(2);
}

const ROOT = '/tmp/agent';
const HOME = join(ROOT, 'home');
const REPOSITORY = join(ROOT, 'repo');
const PROGRAM = join(resolve(options.agents), 'claude', programs.claude.program);
const WAIT_MS = 60000;
const TEXT_MAX = 60; // of a description in the answer to initialize
const FLAGS = ['--print', '--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose', '--permission-prompt-tool', 'stdio'];
const HOOKS = {
  PreToolUse: [{ matcher: '.*', hookCallbackIds: ['before'], timeout: 10, onFailure: 'block' }],
  PostToolUse: [{ matcher: 'Write|Edit|MultiEdit|NotebookEdit|Bash|Monitor|mcp__.*', hookCallbackIds: ['after'], timeout: 10 }],
};
// A PNG of one black pixel.
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==';

/** Shortens the texts of a value, and leaves out what only names this process. */
function shortened(value) {
  if (typeof value === 'string') return value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value;
  if (Array.isArray(value)) return value.map(shortened);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, key === 'pid' ? 1 : shortened(of)]));
}

/** A frame as it is kept. The answer to initialize is long, and the same each time. */
function kept(frame) {
  const isAnswer = frame?.type === 'control_response' && frame.response?.request_id === 'init-1' && frame.response.response;
  return isAnswer ? { ...frame, response: { ...frame.response, response: shortened(frame.response.response) } } : frame;
}

/** The program, driven. */
class driven {
  constructor(further, lines, environment = {}) {
    this.begun = Date.now();
    this.lines = lines;
    this.seen = [];
    this.waiting = [];
    this.onHook = () => ({});
    this.child = spawn(PROGRAM, [...FLAGS, '--include-partial-messages', ...further], {
      cwd: REPOSITORY,
      env: { HOME, PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8', SHELL: '/bin/sh', CLAUDE_CODE_MAX_RETRIES: '1', ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const input = readlinkSync(`/proc/${this.child.pid}/fd/0`);
    if (!input.startsWith('socket:')) throw new Error(`its input is no socket but ${input}`);
    this.child.stdin.on('error', () => {});
    this.child.stderr.on('data', (data) => this.put({ stderr: String(data) }));
    const output = createInterface({ input: this.child.stdout });
    output.on('line', (line) => this.hear(line));
    const closed = new Promise((done) => output.on('close', done));
    this.ended = new Promise((done) =>
      this.child.on('exit', async (status, signal) => {
        await closed;
        this.put({ exit: status, signal });
        this.wake({ type: 'exit' });
        done();
      }),
    );
  }
  put(entry) {
    this.lines.push(JSON.stringify({ at: Date.now() - this.begun, ...entry }));
  }
  hear(line) {
    const frame = JSON.parse(line);
    this.put({ from: kept(frame) });
    if (frame.type === 'control_request' && frame.request.subtype === 'hook_callback') this.reply(frame, this.onHook(frame.request));
    this.wake(frame);
  }
  wake(frame) {
    this.seen.push(frame);
    const [woken, still] = [[], []];
    for (const each of this.waiting) (each.wanted(frame) ? woken : still).push(each);
    this.waiting = still;
    for (const each of woken) each.done(frame);
  }
  /** The next frame that is wanted, from now on. */
  next(what, wanted) {
    return new Promise((done, failed) => {
      const late = setTimeout(() => failed(new Error(`${what}: not within ${WAIT_MS} ms`)), WAIT_MS);
      const found = (frame) => {
        clearTimeout(late);
        done(frame);
      };
      this.waiting.push({ wanted, done: found });
    });
  }
  result = () => this.next('result', (frame) => frame.type === 'result');
  asked = () => this.next('can_use_tool', (frame) => frame.type === 'control_request' && frame.request.subtype === 'can_use_tool');
  words = (count) => this.next('text', (frame) => frame.event?.delta?.type === 'text_delta' && --count <= 0);
  system = (subtype) => this.next(subtype, (frame) => frame.type === 'system' && frame.subtype === subtype);
  tell(frame) {
    this.put({ to: frame });
    this.child.stdin.write(`${JSON.stringify(frame)}\n`);
  }
  control(id, request) {
    this.tell({ type: 'control_request', request_id: id, request });
    return this.next(id, (frame) => frame.type === 'control_response' && frame.response.request_id === id);
  }
  initialize(hooks = HOOKS) {
    return this.control('init-1', { subtype: 'initialize', hooks });
  }
  prompt(content) {
    const message = { role: 'user', content };
    this.tell({ type: 'user', message, parent_tool_use_id: null, session_id: '', uuid: randomUUID() });
  }
  steps(...steps) {
    this.prompt(`FAKE_STEPS ${JSON.stringify(steps)}`);
  }
  reply(request, response) {
    this.tell({ type: 'control_response', response: { subtype: 'success', request_id: request.request_id, response } });
  }
  allow(request, further = {}) {
    this.reply(request, { behavior: 'allow', updatedInput: request.request.input, ...further });
  }
  deny(request, message, interrupt = false) {
    this.reply(request, { behavior: 'deny', message, interrupt });
  }
  async end() {
    this.child.stdin.end();
    await this.ended;
  }
}

const write = (name, content = 'hello\n') => ({ tool: 'write', path: join(REPOSITORY, name), content });
const shell = (command) => ({ tool: 'shell', command });
const say = (words) => `FAKE_SAY "${words}"`;

// name -> what is done with the program. `start` starts it with further arguments; one recording may have several of its processes.
const scenarios = {
  async text(start) {
    const agent = start();
    await agent.initialize();
    agent.prompt(`FAKE_SLOW 12 60 ${say('Grüße — these words come slowly, in twelve pieces: one two three four.')}`);
    await agent.result();
    agent.prompt(say('And a second turn.'));
    await agent.result();
    await agent.end();
  },
  async tools(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    agent.prompt(`FAKE_THINK FAKE_STEPS ${JSON.stringify([write('a.txt'), shell('cat a.txt'), { tool: 'read', path: join(REPOSITORY, 'none.txt') }])}`);
    agent.allow(await asked);
    await agent.result();
    await agent.end();
  },
  async deny(start) {
    const agent = start();
    await agent.initialize();
    let asked = agent.asked();
    agent.steps(write('denied.txt'));
    agent.deny(await asked, 'not this file');
    await agent.result();
    asked = agent.asked();
    agent.steps(write('stopped.txt'));
    agent.deny(await asked, 'stop', true);
    await agent.result();
    await agent.end();
  },
  async always(start) {
    const agent = start();
    await agent.initialize();
    let asked = agent.asked();
    agent.steps(shell('node -e 1'), shell('node -e 1'), write('b.txt'));
    const { request_id, request } = await asked;
    asked = agent.asked();
    const rules = request.permission_suggestions.filter(({ type }) => type === 'addRules');
    agent.allow({ request_id, request }, { updatedPermissions: rules.map((rule) => ({ ...rule, destination: 'session' })) });
    agent.allow(await asked); // the file, not the command again
    await agent.result();
    await agent.end();
  },
  async question(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    const options = [
      { label: 'Red', description: 'warm' },
      { label: 'Blue', description: 'cold' },
    ];
    const questions = [
      { question: 'Which colour?', header: 'Colour', options, multiSelect: false },
      { question: 'Which sizes?', header: 'Sizes', options: [{ label: 'S', description: 'small' }, { label: 'L', description: 'large' }], multiSelect: true },
    ];
    agent.steps({ tool: 'AskUserQuestion', input: { questions } });
    const request = await asked;
    const answers = { 'Which colour?': 'Blue', 'Which sizes?': 'S, L' };
    agent.reply(request, { behavior: 'allow', updatedInput: { ...request.request.input, answers } });
    await agent.result();
    await agent.end();
  },
  async interrupt(start) {
    const agent = start();
    await agent.initialize();
    const some = agent.words(2);
    agent.prompt(`FAKE_SLOW 8 1000 ${say('These words are cut off in the middle because somebody wants something else.')}`);
    await some;
    let ended = agent.result();
    await agent.control('stop-1', { subtype: 'interrupt' });
    await ended;
    const asked = agent.asked();
    agent.steps(write('open.txt'));
    const request = await asked;
    ended = agent.result();
    const stopped = agent.control('stop-2', { subtype: 'interrupt' });
    agent.deny(request, 'The user interrupted the turn'); // for tasks beside the turn, which would wait on
    await stopped;
    await ended;
    agent.allow(request); // too late
    ended = agent.result();
    agent.prompt(say('It goes on.'));
    await ended;
    await agent.end();
  },
  async busy(start) {
    const agent = start();
    await agent.initialize();
    const some = agent.words(2);
    agent.prompt(`FAKE_SLOW 10 100 ${say('The first prompt takes a while.')}`);
    await some;
    agent.prompt(say('second'));
    agent.prompt('the third has no words of its own');
    await agent.result();
    await agent.result();
    await agent.end();
  },
  // A prompt while a tool runs is put into the turn.
  async steer(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    const ran = agent.next('tool result', (frame) => frame.type === 'user');
    agent.steps(write('steer.txt'), shell('cat steer.txt'));
    const request = await asked;
    agent.prompt(say('steered'));
    await pause(300);
    agent.allow(request);
    await ran;
    await agent.result();
    await pause(1500);
    await agent.end();
  },
  async resume(start) {
    let agent = start();
    await agent.initialize();
    agent.prompt(say('first life'));
    const { session_id } = await agent.result();
    await agent.end();
    agent = start('--resume', session_id);
    await agent.initialize();
    agent.prompt(say('second life'));
    await agent.result();
    await agent.end();
  },
  async 'resume-unknown'(start) {
    const agent = start('--resume', '00000000-0000-4000-8000-000000000000');
    agent.initialize().catch(() => {});
    agent.prompt(say('nobody'));
    await Promise.race([agent.ended, pause(8000)]);
    await agent.end();
  },
  async 'api-error'(start) {
    const agent = start();
    await agent.initialize();
    agent.prompt('FAKE_ERROR 400');
    await agent.result();
    await agent.end();
  },
  async overloaded(start) {
    const agent = start();
    await agent.initialize();
    agent.prompt('FAKE_ERROR 529');
    await agent.result();
    await agent.end();
  },
  async eof(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    agent.steps(write('eof.txt'));
    await asked;
    await agent.end();
  },
  async killed(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    agent.steps(write('killed.txt'));
    await asked;
    agent.child.kill('SIGKILL');
    await agent.ended;
  },
  async image(start) {
    const agent = start();
    await agent.initialize();
    agent.prompt([
      { type: 'text', text: say('a pixel') },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
    ]);
    await agent.result();
    const steps = [shell(`printf %s '${PIXEL}' | base64 -d >pixel.png`), { tool: 'read', path: join(REPOSITORY, 'pixel.png') }];
    const asked = agent.asked();
    agent.steps(...steps);
    agent.allow(await asked);
    await agent.result();
    await agent.end();
  },
  // It cuts the result itself.
  async 'large-result'(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    agent.steps(shell('node -e "for (let n = 0; n < 100000; ++n) console.log(String(n).padStart(51))"'));
    agent.allow(await asked);
    await agent.result();
    await agent.end();
  },
  async background(start) {
    const agent = start();
    await agent.initialize();
    const asked = agent.asked();
    agent.steps({ tool: 'Bash', input: { command: 'sleep 3; touch late.txt', description: 'a step', run_in_background: true } });
    agent.allow(await asked);
    await agent.result();
    await Promise.race([agent.result(), pause(10000)]).catch(() => {});
    await agent.end();
  },
  async subagent(start) {
    const agent = start();
    await agent.initialize();
    agent.steps({ tool: 'Agent', input: { description: 'a part', prompt: say('the part is done'), subagent_type: 'general-purpose', run_in_background: false } });
    await agent.result();
    await pause(500);
    await agent.end();
  },
  async 'hook-denies'(start) {
    const agent = start();
    await agent.initialize();
    agent.onHook = ({ input }) =>
      input.hook_event_name === 'PreToolUse' && input.tool_input.file_path?.endsWith('locked.txt')
        ? {
            hookSpecificOutput: {
              hookEventName: 'PreToolUse',
              permissionDecision: 'deny',
              permissionDecisionReason: 'locked.txt is held by role:peer',
            },
          }
        : {};
    const asked = agent.asked();
    agent.steps(write('locked.txt'), write('free.txt'));
    agent.allow(await asked);
    await agent.result();
    await agent.end();
  },
  async options(start) {
    const agent = start();
    await agent.initialize();
    await agent.control('mode-1', { subtype: 'set_permission_mode', mode: 'acceptEdits' });
    await agent.control('mode-2', { subtype: 'set_permission_mode', mode: 'bypassPermissions' });
    await agent.control('model-1', { subtype: 'set_model', model: 'claude-fake-2' });
    await agent.control('other-1', { subtype: 'no_such_thing' });
    agent.steps(write('accepted.txt'));
    await agent.result();
    await agent.end();
  },
};

async function record(name) {
  for (const directory of [HOME, REPOSITORY]) rmSync(directory, { recursive: true, force: true });
  for (const directory of [HOME, REPOSITORY]) mkdirSync(directory, { recursive: true, mode: 0o700 });
  const fake = await model.start(ROOT);
  const lines = [];
  const started = [];
  try {
    programs.claude.prepare(HOME, REPOSITORY, fake.url);
    const start = (...further) => {
      started.push(new driven(further, lines));
      return started.at(-1);
    };
    await scenarios[name](start);
    writeFileSync(join(options.into, `${name}.jsonl`), `${lines.join('\n')}\n`.replaceAll(new URL(fake.url).host, '127.0.0.1:4010'));
  } catch (error) {
    writeFileSync(join(ROOT, `${name}.failed.jsonl`), `${lines.join('\n')}\n`);
    throw error;
  } finally {
    for (const agent of started) agent.child.kill('SIGKILL');
    fake.stop();
  }
}

if (existsSync(ROOT)) {
  console.error(`record_streams.mjs: ${ROOT} is in the way; remove it`);
  process.exit(1);
}
mkdirSync(ROOT, { mode: 0o700 });
mkdirSync(options.into, { recursive: true });
let status = 0;
for (const name of options.only ? options.only.split(',') : Object.keys(scenarios)) {
  try {
    await record(name);
    console.log(`${name}: recorded`);
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
    status = 1;
  }
}
if (status === 0) rmSync(ROOT, { recursive: true, force: true });
process.exit(status);
