#!/usr/bin/env node
// run.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--keep] [--verbose]
//
// The real agents' programs against the fake model: each is dispatched to, stopped by a peer's lock, woken for its mail, asks something, and is ended.
// One line for each check; the exit status is 1 if one failed. What a failed program had on its screen is shown with it, and the
// directory of its node stays. Every program has a node, a home and a repository of its own, and nothing of the caller's.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const SAME_S = 5; // what is asked for twice within is the same
const CALL_S = 60; // of one command of swarmctl
const TASK_S = 120; // from a dispatch to the end of its task, the program's start included
const MAIL_S = 60; // from a message to the model having read it
const STILL_S = 8; // in which a question that somebody has moved in stays open
const END_S = 20; // from the end of a worker to the end of its processes

const { values: options } = parseArgs({
  options: {
    bin: { type: 'string' },
    agents: { type: 'string' },
    only: { type: 'string' },
    keep: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (options.help || !options.bin || !options.agents) {
  console.log('usage: run.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--keep] [--verbose]');
  process.exit(options.help ? 0 : 2);
}
const names = options.only ? options.only.split(',') : Object.keys(programs);
const strange = names.filter((name) => !programs[name]);
if (strange.length > 0) {
  console.error(`run.mjs: no such program: ${strange.join(', ')}; there are ${Object.keys(programs).join(', ')}`);
  process.exit(2);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** What `look` returns once it returns something, looked for until `seconds` are over. */
async function eventually(what, seconds, look) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await pause(200);
  }
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

class model {
  static async start(directory) {
    const self = new model();
    self.file = join(directory, 'model.jsonl');
    writeFileSync(self.file, '');
    self.child = spawn(process.execPath, [join(here, 'model/server.mjs'), '--log', self.file, '--bodies', join(directory, 'bodies')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const line = await new Promise((done, failed) => {
      self.child.stdout.once('data', (data) => done(String(data)));
      self.child.once('exit', () => failed(new Error('the fake model has ended')));
    });
    self.url = `http://127.0.0.1:${/\d+/.exec(line)[0]}`;
    return self;
  }
  /** The requests so far, the oldest first. */
  requests() {
    return readFileSync(this.file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  }
  /** What the model has been told since request `from`: prompts and results of tools. */
  heard(from) {
    return this.requests()
      .slice(from)
      .flatMap((request) => request.heard ?? []);
  }
  stop() {
    this.child.kill();
  }
}

/** A session of `swarmctl mcp`, as an agent that hands out work has one. */
class gateway {
  constructor(at, label) {
    this.label = label;
    this.repository = at.repository;
    this.waiting = new Map();
    this.child = spawn(join(resolve(options.bin), 'swarmctl'), ['mcp'], { cwd: at.repository, env: at.environment, stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin.on('error', () => {}); // then it is said below
    this.ended = new Promise((done) => this.child.on('exit', done));
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      const { id, result, error } = JSON.parse(line);
      const { done, failed } = this.waiting.get(id) ?? {};
      this.waiting.delete(id);
      if (error) failed?.(new Error(error.message));
      else done?.(result);
    });
  }
  ask(method, params) {
    const id = (this.last = (this.last ?? 0) + 1);
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    const answered = new Promise((done, failed) => this.waiting.set(id, { done, failed }));
    const over = this.ended.then(() => Promise.reject(new Error('swarmctl mcp has ended')));
    return Promise.race([answered, over]);
  }
  async call(name, input) {
    const { content, isError } = await this.ask('tools/call', { name, arguments: input });
    if (isError) throw new Error(`${name}: ${content[0].text}`);
    return JSON.parse(content[0].text);
  }
  async enroll() {
    await this.ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '0' } });
    return this.call('register', { directory: this.repository, label: this.label });
  }
  async leave() {
    this.child.stdin.end();
    await this.ended;
  }
}

class node {
  /** `asks`: its program asks for permission. */
  constructor(name, fake, asks = false) {
    this.name = name;
    this.fake = fake;
    // Short: a Unix socket below it has a name of at most 107 bytes.
    this.root = mkdtempSync(join(tmpdir(), 'sw-'));
    this.home = join(this.root, 'home');
    this.repository = join(this.root, 'repo');
    this.state = join(this.root, 'state');
    for (const directory of [this.home, this.repository, this.state]) mkdirSync(directory, { mode: 0o700 });
    const program = join(resolve(options.agents), name, programs[name].program);
    check(existsSync(program), `${name} is not installed: there is no ${program}`);
    this.environment = {
      HOME: this.home,
      PATH: [resolve(options.bin), process.env.PATH].join(delimiter),
      LANG: 'C.UTF-8',
      SHELL: '/bin/sh',
      SWARM_HOME: this.state,
      [`SWARM_HARNESS_${name.toUpperCase()}`]: [program, ...(asks ? programs[name].asking.arguments : [])].join(' '),
    };
    for (const passed of ['ASAN_OPTIONS', 'UBSAN_OPTIONS', 'SWARM_SHARE']) if (process.env[passed]) this.environment[passed] = process.env[passed];
    programs[name].prepare(this.home, this.repository, fake.url);
    if (asks) programs[name].asking.prepare(this.home);
    const git = 'git init -q . && git add . && git -c user.name=t -c user.email=t@localhost commit -q -m first';
    writeFileSync(join(this.repository, 'ours.txt'), 'ours\n');
    writeFileSync(join(this.repository, 'theirs.txt'), 'theirs\n');
    check(spawnSync('sh', ['-c', git], { cwd: this.repository, env: this.environment }).status === 0, 'git does not work');
  }

  /** Standard output of `swarmctl ARGUMENTS`; throws what it complained about. */
  swarmctl(...args) {
    return this.swarmctlWith('', ...args);
  }
  swarmctlWith(input, ...args) {
    const done = spawnSync(join(resolve(options.bin), 'swarmctl'), args, {
      cwd: this.repository,
      env: this.environment,
      input,
      encoding: 'utf8',
      timeout: (CALL_S + TASK_S) * 1000,
    });
    if (done.error) throw done.error;
    if (options.verbose) console.log(`    swarmctl ${args.join(' ')}\n${done.stdout}${done.stderr}`);
    if (done.status !== 0) throw new Error(`swarmctl ${args[0]}: exit ${done.status}: ${done.stderr.trim() || done.stdout.trim()}`);
    return done.stdout;
  }
  json(...args) {
    return JSON.parse(this.swarmctl(...args, '--json'));
  }
  read(file) {
    const path = join(this.repository, file);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }
  steps(...steps) {
    return `FAKE_STEPS ${JSON.stringify(steps)}`;
  }
  dispatch(title, message) {
    return this.json(...this.dispatchArguments(title, message));
  }
  dispatchArguments(title, message) {
    return ['dispatch', title, '--harness', this.name, '--message', message, '--wait', String(CALL_S), '--wait-for-completion', String(TASK_S)];
  }
  /** The same without waiting for it: the promise of its reply. */
  beginDispatch(title, message, ...args) {
    return new Promise((done, failed) => {
      const all = [...this.dispatchArguments(title, message), ...args, '--json'];
      execFile(join(resolve(options.bin), 'swarmctl'), all, { cwd: this.repository, env: this.environment }, (error, stdout) =>
        error ? failed(new Error(`swarmctl dispatch: ${error.message}`)) : done(JSON.parse(stdout)),
      );
    });
  }
  write(file, content) {
    return { tool: 'write', path: join(this.repository, file), content };
  }
  done(result) {
    return { tool: 'swarm.update_task', input: { task_id: '$TASK', status: 'done', result } };
  }
  workers() {
    return this.json('instances').filter((one) => (one.label ?? '').includes(`provider:${this.name}`));
  }
  /** The one worker there is; throws when there is another number of them. */
  only() {
    const found = this.workers();
    check(found.length === 1, `there are ${found.length} workers`);
    return found[0];
  }
  screen() {
    try {
      return this.swarmctl('peek', `provider:${this.name}`, '--lines', '40', '--visible');
    } catch (error) {
      return `(${error.message})`;
    }
  }
  stop() {
    try {
      this.swarmctl('down');
    } catch (error) {
      console.log(`    ${error.message}`);
    }
  }
}

/** The prompts that the program has got from us, as the model has heard them. Titles and the like, asked for without tools, repeat them. */
function wakesHeard(at, from) {
  const turns = at.fake.requests().filter((one) => one.number > from && one.tools?.length > 0);
  return turns.flatMap((one) => one.heard).filter((one) => one.role === 'user' && one.text.includes('A peer sent you a swarm message'));
}

async function ends(at) {
  const worker = at.only();
  const pids = processesOf(at.home);
  check(pids.length > 0, 'it has no process');
  at.swarmctl('remove-instance', worker.id);
  at.swarmctl('down');
  await eventually('its processes end', END_S, () => processesOf(at.home).length === 0);
}

const checks = {
  // Also the first start of the program, which is the slowest: two gateways at once want the same.
  async 'the same dispatch by three ends in done, by one worker told once'(at) {
    const progress = { tool: 'swarm.report_progress', input: { task_id: '$TASK', summary: 'begun' } };
    const message = at.steps(progress, at.write('new.txt', 'by the worker\n'), at.done('written'));
    const other = new gateway(at, 'mode:gateway name:second');
    await other.enroll();
    const begun = Date.now();
    const two = ['first', 'second'].map((caller) => at.beginDispatch('write a file', message, '--label', `by:${caller}`));
    const third = await other.call('dispatch', { title: 'write a file', message, harness: at.name });
    check(Date.now() - begun < SAME_S * 1000, `the second gateway has dispatched only after ${Date.now() - begun} ms`);
    const one = (await Promise.all(two)).map((reply) => {
      check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
      check(reply.completion.task.result === 'written', `its result is ${reply.completion.task.result}`);
      return reply.task_id;
    });
    check(new Set([...one, third.task_id]).size === 1, `there are several tasks: ${[...one, third.task_id].join(', ')}`);
    const again = await other.call('dispatch', { title: 'write a file', message, harness: at.name });
    check(again.task_id === third.task_id, 'asked again, the second gateway has made another task');
    await other.leave();
    at.only();
    check(at.json('tasks').length === 1, 'there is another task');
    check(at.json('spawns').length === 1, 'there was another worker');
    check(at.read('new.txt') === 'by the worker\n', `new.txt is ${at.read('new.txt')}`);
    // The instruction came as mail: the terminal was told only that there is some.
    const prompts = wakesHeard(at, 0);
    check(prompts.length === 1, `the program has been told ${prompts.length} times that it has mail`);
    check(!prompts.some((prompt) => prompt.text.includes('FAKE_STEPS')), 'the instruction was typed into the terminal');
  },

  async 'the same dispatch again starts nobody'(at) {
    const reply = at.dispatch('write a file', 'something else');
    check(reply.task.status === 'done' && reply.task.result === 'written', `the task is ${reply.task.status}: ${reply.task.result}`);
    at.only();
  },

  async "a peer's lock stops a write"(at) {
    const peer = at.json('register', at.repository, '--label', 'role:peer', '--lease-seconds', '600').id;
    at.swarmctl('lock', 'theirs.txt', '--as', peer);
    const before = at.fake.requests().length;
    const reply = at.dispatch('write theirs.txt', at.steps(at.write('theirs.txt', 'stolen\n'), at.write('free.txt', 'free\n'), at.done('tried')));
    check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
    check(at.read('theirs.txt') === 'theirs\n', `theirs.txt is ${at.read('theirs.txt')}`);
    const told = at.fake.heard(before).filter((one) => one.role === 'tool' && one.text.includes('swarm lock blocked'));
    check(told.length > 0, 'the model has not been told that the file is locked');
    check(told[0].text.includes('held by role:peer'), `the model has been told: ${told[0].text}`);
    check(at.read('free.txt') === 'free\n', `free.txt is ${at.read('free.txt')}`);
    at.swarmctl('unlock', 'theirs.txt', '--as', peer);
  },

  async 'mail wakes it when it is idle'(at) {
    const worker = at.only();
    const before = at.fake.requests().length;
    at.swarmctl('send', '--to', worker.id, 'the secret word is heliotrope');
    await eventually('the model reads the message', MAIL_S, () =>
      at.fake.heard(before).some((one) => one.role === 'tool' && one.text.includes('heliotrope')),
    );
    const unread = at.json('messages', '--to', worker.id).filter((one) => one.content.includes('heliotrope') && !one.read);
    check(unread.length === 0, 'the message counts as unread');
  },

  async 'mail wakes it after the turn in which it came'(at) {
    const worker = at.only();
    const before = at.fake.requests().length;
    at.swarmctl('send', '--to', worker.id, 'FAKE_SLOW 30 200');
    const slow = await eventually('the model speaks slowly', MAIL_S, () =>
      at.fake
        .requests()
        .slice(before)
        .find((one) => one.slow),
    );
    at.swarmctl('send', '--to', worker.id, 'the second word is cinnabar');
    const read = (one) => one.heard?.some((heard) => heard.role === 'tool' && heard.text.includes('cinnabar'));
    await eventually('the model reads the second message', MAIL_S, () => at.fake.requests().some(read));
    const all = at.fake.requests();
    const ended = all.findIndex((one) => one.ended && one.number === slow.number);
    check(ended >= 0 && ended < all.findIndex(read), 'it was woken in the middle of its turn');
  },

  async 'in a worktree of its own it starts without a question and writes there'(at) {
    const title = 'work apart';
    const first = at.only();
    const reply = at.json(...at.dispatchArguments(title, at.steps(at.done('seen'))), '--worktree');
    check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
    const tree = at.json('worktree', 'list').find((one) => one.title === title);
    check(tree?.in_use, 'it works in no worktree');
    const worker = at.workers().find((one) => one.id !== first.id);
    const file = join(tree.path, 'apart.txt');
    at.swarmctl('send', '--to', worker.id, at.steps({ tool: 'write', path: file, content: 'apart\n' }));
    await eventually('it writes', MAIL_S, () => existsSync(file));
    check(at.read('apart.txt') === undefined, 'it has written into the repository');
    at.swarmctl('pty', 'kill', at.json('agents').find((one) => one.instance_id === worker.id).pty);
    await eventually('it ends', END_S, () => !at.json('worktree', 'list').some((one) => one.in_use) && at.workers().length === 1);
  },

  'it ends with its node, and leaves nothing behind': ends,
};
// With a program that asks for permission; its dialog has Yes preselected.
const askingChecks = {
  async 'what it asks is not answered for a person, and after their No mail wakes it'(at) {
    const question = programs[at.name].asking;
    at.json('dispatch', 'ask', '--harness', at.name, '--message', at.steps(question.step(at.repository)));
    await eventually('it asks', TASK_S, () => question.shows.test(at.screen()));
    await eventually('it counts as blocked', MAIL_S, () => at.json('agents')[0].state === 'blocked');
    const agent = at.json('agents')[0];
    const before = at.fake.requests().length;
    const told = at.json('prompt-peer', '--to', agent.instance_id, '--message', 'the third word is vermilion');
    check(told.nudged === false, 'it was woken while it asks');
    // Somebody looks what there is to choose and goes away: it is still open.
    at.swarmctlWith('\x1b[B', 'pty', 'send', agent.pty, '--stdin');
    await pause(STILL_S * 1000);
    check(question.shows.test(at.screen()), 'its question has gone');
    check(at.json('agents')[0].state === 'blocked', `while it asks it is ${at.json('agents')[0].state}`);
    at.swarmctlWith('\x1b', 'pty', 'send', agent.pty, '--stdin');
    await eventually('the model reads the message', MAIL_S, () =>
      at.fake.heard(before).some((one) => one.role === 'tool' && one.text.includes('vermilion')),
    );
    check(!existsSync(join(at.repository, 'asked.txt')) && !existsSync(join(at.root, 'asked.txt')), 'what it asked for was allowed');
  },

  'it ends with its node': ends,
};

// The processes with this home, by their environment.
function processesOf(home) {
  const found = spawnSync('sh', ['-c', 'grep -lzxF "HOME=$1" /proc/[0-9]*/environ 2>/dev/null', 'sh', home], { encoding: 'utf8' }).stdout;
  return found.split('\n').flatMap((line) => /\/proc\/(\d+)\//.exec(line)?.[1] ?? []);
}

async function run(name, wanted, asks) {
  const directory = mkdtempSync(join(tmpdir(), 'swm-'));
  const fake = await model.start(directory);
  const at = new node(name, fake, asks);
  let failures = 0;
  for (const [what, test] of Object.entries(wanted)) {
    const begun = Date.now();
    try {
      await test(at);
      console.log(`ok      ${name}: ${what} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (error) {
      ++failures;
      console.log(`FAILED  ${name}: ${what} (${((Date.now() - begun) / 1000).toFixed(1)} s): ${error.message}`);
      console.log(at.screen().replace(/^/gm, '    | '));
    }
  }
  at.stop();
  fake.stop();
  if (failures > 0 || options.keep) console.log(`        ${name}: kept in ${at.root} (its node) and ${directory} (the model)`);
  else for (const gone of [at.root, directory]) rmSync(gone, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  return failures;
}

let failures = 0;
for (const name of names) {
  try {
    failures += await run(name, checks, false);
    failures += await run(name, askingChecks, true);
  } catch (error) {
    ++failures;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}
const all = names.length * (Object.keys(checks).length + Object.keys(askingChecks).length);
console.log(failures === 0 ? `all ${all} checks passed` : `${failures} of ${all} checks failed`);
process.exit(failures === 0 ? 0 : 1);
