// What the checks of run.mjs work with: the fake model, a session of `swarmctl mcp`, and a node with a home and a repository of its own.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect as connectHttp } from 'node:http2';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const CALL_S = 60; // of one command of swarmctl
export const TASK_S = 120; // from a dispatch to the end of its task, the program's start included

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** What `look` returns once it returns something, looked for until `seconds` are over. */
export async function eventually(what, seconds, look) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await pause(200);
  }
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** The processes with this home, by their environment. */
export function processesOf(home) {
  const found = spawnSync('sh', ['-c', 'grep -lzxF "HOME=$1" /proc/[0-9]*/environ 2>/dev/null', 'sh', home], { encoding: 'utf8' }).stdout;
  return found.split('\n').flatMap((line) => /\/proc\/(\d+)\//.exec(line)?.[1] ?? []);
}

/** A field of a message of Protocol Buffers that has bytes, a text or a message. */
function field(number, content) {
  const bytes = Buffer.from(content);
  check(number < 1 << 12 && bytes.length < 1 << 14, 'too large');
  const varint = (value) => (value < 128 ? [value] : [(value & 127) | 128, value >> 7]);
  return Buffer.from([...varint((number << 3) | 2), ...varint(bytes.length), ...bytes]);
}

/** Calls a method of the node at this socket by gRPC; the status, "0" when it was carried out. */
function callNode(socket, method, message) {
  const length = Buffer.alloc(5);
  length.writeUInt32BE(message.length, 1);
  return new Promise((done, failed) => {
    const http = connectHttp('http://localhost', { createConnection: () => connect(socket) });
    http.on('error', failed);
    const headers = { ':method': 'POST', ':path': method, 'content-type': 'application/grpc', te: 'trailers' };
    const stream = http.request(headers);
    let status;
    stream.on('response', (received) => (status = received['grpc-status']));
    stream.on('trailers', (received) => (status = received['grpc-status']));
    stream.on('error', failed);
    stream.on('close', () => http.close(() => done(status)));
    stream.resume();
    stream.end(Buffer.concat([length, message]));
  });
}

export class model {
  static async start(directory) {
    const self = new model();
    self.file = join(directory, 'model.jsonl');
    self.bodies = join(directory, 'bodies');
    writeFileSync(self.file, '');
    self.child = spawn(process.execPath, [join(here, 'model/server.mjs'), '--log', self.file, '--bodies', self.bodies], {
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
export class gateway {
  constructor(at, label) {
    this.label = label;
    this.repository = at.repository;
    this.waiting = new Map();
    this.child = spawn(at.program, ['mcp'], { cwd: at.repository, env: at.environment, stdio: ['pipe', 'pipe', 'inherit'] });
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

/** A program that a person has started in the repository, by its way without a screen (`once` in programs.mjs). */
class started {
  constructor(at, prompt, isSetUp, hasShell) {
    const { args, input } = programs[at.name].once(prompt, isSetUp, hasShell);
    this.said = '';
    this.child = spawn(at.name, args, { cwd: at.repository, env: at.environment, stdio: ['pipe', 'pipe', 'pipe'] });
    this.child.stdin.on('error', () => {}); // it may end without reading
    this.child.stdin.end(input ?? '');
    for (const stream of [this.child.stdout, this.child.stderr]) stream.setEncoding('utf8').on('data', (text) => (this.said += text));
    this.child.on('error', (error) => (this.ended = error.message));
    this.child.on('exit', (status, signal) => (this.ended = signal ?? status));
  }
  /** Its exit status; it is ended when it takes longer. */
  async end(seconds) {
    try {
      await eventually('it ends', seconds, () => this.ended !== undefined);
    } finally {
      if (this.ended === undefined) this.child.kill('SIGKILL');
    }
    return this.ended;
  }
}

/** Gemini CLI takes the settings that come with swarmctl only if they are root's; otherwise its user needs install. */
function takesSharedSettings(environment) {
  const share = environment.SWARM_SHARE ?? join(here, '../../deploy');
  return statSync(join(share, 'agents/gemini/settings.json')).uid === 0;
}

export class node {
  /**
   * `options`: bin, agents (directories), verbose. `manner`: 'worker'; 'asking', its program asks for permission; 'person', nothing of the
   * fabric's is in the environment, and the program is on the path.
   */
  constructor(name, fake, manner, options) {
    this.name = name;
    this.fake = fake;
    this.verbose = options.verbose;
    this.program = join(options.bin, 'swarmctl');
    // Short: a Unix socket below it has a name of at most 107 bytes.
    this.root = mkdtempSync(join(tmpdir(), 'sw-'));
    this.home = join(this.root, 'home');
    this.repository = join(this.root, 'repo');
    const path = join(this.root, 'path');
    this.state = manner === 'person' ? join(this.home, '.local/state/swarm') : join(this.root, 'state');
    for (const directory of [this.home, this.repository, path]) mkdirSync(directory, { mode: 0o700 });
    const program = join(options.agents, name, programs[name].program);
    check(existsSync(program), `${name} is not installed: there is no ${program}`);
    symlinkSync(program, join(path, name));
    const { asking } = programs[name];
    this.environment = {
      HOME: this.home,
      PATH: [options.bin, path, process.env.PATH].join(delimiter),
      LANG: 'C.UTF-8',
      SHELL: '/bin/sh',
    };
    if (manner !== 'person') {
      this.environment.SWARM_HOME = this.state;
      mkdirSync(this.state, { mode: 0o700 });
      const started = [program, ...(manner === 'asking' ? asking.arguments : [])];
      if (manner === 'asking') started.unshift(this.writeTools());
      this.environment[`SWARM_HARNESS_${name.toUpperCase()}`] = started.join(' ');
    }
    for (const passed of ['ASAN_OPTIONS', 'UBSAN_OPTIONS', 'SWARM_SHARE']) if (process.env[passed]) this.environment[passed] = process.env[passed];
    programs[name].prepare(this.home, this.repository, fake.url);
    if (manner === 'asking') asking.prepare(this.home);
    const git = 'git init -q . && git add . && git -c user.name=t -c user.email=t@localhost commit -q -m first';
    writeFileSync(join(this.repository, 'ours.txt'), 'ours\n');
    writeFileSync(join(this.repository, 'theirs.txt'), 'theirs\n');
    check(spawnSync('sh', ['-c', git], { cwd: this.repository, env: this.environment }).status === 0, 'git does not work');
    if (manner !== 'person' && name === 'gemini' && !takesSharedSettings(this.environment)) this.swarmctl('install', '--host', name, '--yes');
  }

  /** What an agent's tools could run in the background, as its session: a shell beside the program that does what is written to `tools`. */
  writeTools() {
    const file = join(this.root, 'with-tools');
    const loop = `while sleep 0.2; do [ -e tools ] || continue; mv tools tools.sh; sh tools.sh > tools.out 2>&1; mv tools.out tools.said; done`;
    writeFileSync(file, `#!/bin/sh\n(cd '${this.root}' && ${loop}) < /dev/null > /dev/null 2>&1 &\nexec "$@"\n`, { mode: 0o700 });
    return file;
  }
  /** Runs it there; what it said. */
  async runBeside(script) {
    const said = join(this.root, 'tools.said');
    rmSync(said, { force: true });
    writeFileSync(join(this.root, 'tools.new'), script);
    renameSync(join(this.root, 'tools.new'), join(this.root, 'tools'));
    await eventually('the tools have run', CALL_S + TASK_S, () => existsSync(said));
    return readFileSync(said, 'utf8');
  }

  /** Standard output of `swarmctl ARGUMENTS`; throws what it complained about. */
  swarmctl(...args) {
    return this.swarmctlWith('', ...args);
  }
  swarmctlWith(input, ...args) {
    const done = spawnSync(this.program, args, {
      cwd: this.repository,
      env: this.environment,
      input,
      encoding: 'utf8',
      timeout: (CALL_S + TASK_S) * 1000,
    });
    if (done.error) throw done.error;
    if (this.verbose) console.log(`    swarmctl ${args.join(' ')}\n${done.stdout}${done.stderr}`);
    if (done.status !== 0) throw new Error(`swarmctl ${args[0]}: exit ${done.status}: ${done.stderr.trim() || done.stdout.trim()}`);
    return done.stdout;
  }
  json(...args) {
    return JSON.parse(this.swarmctl(...args, '--json'));
  }
  events(type) {
    const lines = this.swarmctl('events', '--since', '0', '--type', type, '--json').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
  }
  read(file) {
    const path = join(this.repository, file);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }
  steps(...steps) {
    return `FAKE_STEPS ${JSON.stringify(steps)}`;
  }
  dispatch(title, message, ...args) {
    this.running = undefined; // what the worker shows is of interest now
    return this.json(...this.dispatchArguments(title, message), ...args);
  }
  dispatchArguments(title, message) {
    return ['dispatch', title, '--harness', this.name, '--message', message, '--wait', String(CALL_S), '--wait-for-completion', String(TASK_S)];
  }
  /** The same without waiting for it: the promise of its reply. */
  beginDispatch(title, message, ...args) {
    return new Promise((done, failed) => {
      const all = [...this.dispatchArguments(title, message), ...args, '--json'];
      execFile(this.program, all, { cwd: this.repository, env: this.environment }, (error, stdout) =>
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
  /** A session of nobody's that holds the lock of theirs.txt: its id. */
  peer() {
    const { id } = this.json('register', this.repository, '--label', 'role:peer', '--lease-seconds', '3600');
    this.swarmctl('lock', 'theirs.txt', '--as', id);
    return id;
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
  /** A question to a person, as what drives agents asks it. No verb of swarmctl does. */
  async requestApproval(subject) {
    const id = Buffer.concat([field(1, 'run.mjs of tests/agents'), Buffer.from([2 << 3, 1])]);
    const command = Buffer.concat([field(1, this.repository), field(73, field(1, subject))]);
    const request = Buffer.concat([field(1, id), field(2, command)]);
    const status = await callNode(join(this.state, 'swarmd.sock'), '/swarm.v1.Coordination/Execute', request);
    check(status === '0', `asked for an approval, the node says ${status}`);
    const asked = this.json('approvals').filter((one) => one.subject === subject);
    check(asked.length === 1, `there are ${asked.length} approvals`);
    return asked[0];
  }
  /** The process of its node. */
  nodeProcess() {
    return Number(readFileSync(join(this.state, 'swarmd.lock'), 'utf8').split(' ')[0]);
  }
  endWorker(worker) {
    this.swarmctl('pty', 'kill', this.json('agents').find((one) => one.instance_id === worker.id).pty);
  }
  /** The program, started by a person with this prompt; `isSetUp`: install has been there; `hasShell`: its shell runs what it likes. */
  start(prompt, isSetUp, hasShell = false) {
    return (this.running = new started(this, prompt, isSetUp, hasShell));
  }
  screen() {
    if (this.running) return this.running.said;
    try {
      if (this.talk) return this.swarmctl('chat', 'read', this.talk.id);
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
