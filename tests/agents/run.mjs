#!/usr/bin/env node
// run.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--keep] [--verbose]
//
// The real agents' programs against the fake model: each is dispatched to, stopped by a peer's lock, woken for its mail, and ended.
// One line for each check; the exit status is 1 if one failed. What a failed program had on its screen is shown with it, and the
// directory of its node stays. Every program has a node, a home and a repository of its own, and nothing of the caller's.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const CALL_S = 60; // of one command of swarmctl
const TASK_S = 120; // from a dispatch to the end of its task, the program's start included
const MAIL_S = 60; // from a message to the model having read it
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

class node {
  constructor(name, fake) {
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
      [`SWARM_HARNESS_${name.toUpperCase()}`]: program,
    };
    for (const passed of ['ASAN_OPTIONS', 'UBSAN_OPTIONS', 'SWARM_SHARE']) if (process.env[passed]) this.environment[passed] = process.env[passed];
    programs[name].prepare(this.home, this.repository, fake.url);
    const git = 'git init -q . && git add . && git -c user.name=t -c user.email=t@localhost commit -q -m first';
    writeFileSync(join(this.repository, 'ours.txt'), 'ours\n');
    writeFileSync(join(this.repository, 'theirs.txt'), 'theirs\n');
    check(spawnSync('sh', ['-c', git], { cwd: this.repository, env: this.environment }).status === 0, 'git does not work');
  }

  /** Standard output of `swarmctl ARGUMENTS`; throws what it complained about. */
  swarmctl(...args) {
    const done = spawnSync(join(resolve(options.bin), 'swarmctl'), args, {
      cwd: this.repository,
      env: this.environment,
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

const checks = {
  // Also the first start of the program, which is the slowest: two gateways at once want the same.
  async 'the same dispatch by two ends in done, by one worker'(at) {
    const progress = { tool: 'swarm.report_progress', input: { task_id: '$TASK', summary: 'begun' } };
    const message = at.steps(progress, at.write('new.txt', 'by the worker\n'), at.done('written'));
    const two = await Promise.all(['first', 'second'].map((gateway) => at.beginDispatch('write a file', message, '--label', `by:${gateway}`)));
    for (const reply of two) {
      check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
      check(reply.completion.task.result === 'written', `its result is ${reply.completion.task.result}`);
    }
    check(two[0].task_id === two[1].task_id, 'there are two tasks');
    at.only();
    check(at.read('new.txt') === 'by the worker\n', `new.txt is ${at.read('new.txt')}`);
    // The instruction came as mail: the terminal was told only that there is some.
    const prompts = at.fake.heard(0).filter((one) => one.role === 'user' && one.text.includes('A peer sent you a swarm message'));
    check(prompts.length > 0, 'nobody has told the program that it has mail');
    check(!prompts.some((one) => one.text.includes('FAKE_STEPS')), 'the instruction was typed into the terminal');
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

  async 'it ends with its node, and leaves nothing behind'(at) {
    const worker = at.only();
    const pids = processesOf(at.home);
    check(pids.length > 0, 'it has no process');
    at.swarmctl('remove-instance', worker.id);
    at.swarmctl('down');
    await eventually('its processes end', END_S, () => processesOf(at.home).length === 0);
  },
};

// The processes with this home, by their environment.
function processesOf(home) {
  const found = spawnSync('sh', ['-c', 'grep -lzxF "HOME=$1" /proc/[0-9]*/environ 2>/dev/null', 'sh', home], { encoding: 'utf8' }).stdout;
  return found.split('\n').flatMap((line) => /\/proc\/(\d+)\//.exec(line)?.[1] ?? []);
}

async function run(name) {
  const directory = mkdtempSync(join(tmpdir(), 'swm-'));
  const fake = await model.start(directory);
  const at = new node(name, fake);
  let failures = 0;
  for (const [what, test] of Object.entries(checks)) {
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
    failures += await run(name);
  } catch (error) {
    ++failures;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}
const all = names.length * Object.keys(checks).length;
console.log(failures === 0 ? `all ${all} checks passed` : `${failures} of ${all} checks failed`);
process.exit(failures === 0 ? 0 : 1);
