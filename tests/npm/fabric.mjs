// A node of its own for one test file, as tests/support/node_process.hpp has it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const binaries = process.env.SWARM_TEST_BIN_DIR;
assert.ok(binaries, 'SWARM_TEST_BIN_DIR names the directory of the programs');
export const swarmctl = path.join(binaries, 'swarmctl');
export const patience_ms = 60_000;

/** Waits until the condition is true (or throws no more), at most `patience_ms`; its value. */
export async function eventually(condition, what) {
  const until = Date.now() + patience_ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < until, `not in time: ${what}`);
    await sleep(20);
  }
}

/** Runs a program to its end; { status, out, err }. */
export function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000, ...options });
    let out = '', err = '';
    child.stdout.on('data', chunk => (out += chunk));
    child.stderr.on('data', chunk => (err += chunk));
    child.on('error', reject);
    child.on('close', (status, signal) => resolve({ status: status ?? signal, out, err }));
  });
}

/** The running processes whose environment or arguments name this directory; one that ends meanwhile is left out. */
function processes_of(directory) {
  const of = (pid, file) => readFileSync(`/proc/${pid}/${file}`, 'latin1');
  return readdirSync('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid).filter(pid => {
    try {
      return (of(pid, 'environ') + of(pid, 'cmdline')).includes(directory) && !/^State:\s+[ZX]/m.test(of(pid, 'status'));
    } catch {
      return false;
    }
  });
}

/** A working directory on a node. */
class Place {
  constructor(fabric, work) {
    this.fabric = fabric;
    this.work = work;
    this.env = fabric.env;
  }

  /** What starts the server, for a client's stdio transport. */
  server() {
    return { command: swarmctl, args: ['mcp'], cwd: this.work, env: this.env };
  }

  /** A verb of the command line. */
  verb(...args) {
    return run(swarmctl, args, { cwd: this.work, env: this.env });
  }

  /** The same, which must not fail; its JSON. */
  async ctl(...args) {
    const { status, out, err } = await this.verb('--json', ...args);
    assert.equal(status, 0, `swarmctl ${args.join(' ')}: ${out}${err}`);
    return out ? JSON.parse(out) : null;
  }
}

export class Fabric {
  /** limits: the table [limits] of the node's configuration. */
  constructor(limits = {}) {
    this.base = mkdtempSync(path.join(realpathSync(tmpdir()), 'swarm-npm-'));
    this.state = path.join(this.base, 'state');
    mkdirSync(this.state, { mode: 0o700 });
    this.open = new Set(); // what closes each session that is open
    writeFileSync(path.join(this.state, 'config.toml'), `[limits]\n${Object.entries(limits).map(([k, v]) => `${k} = ${v}\n`).join('')}`);
    this.env = { PATH: '/usr/bin:/bin', HOME: this.base, USER: 'tester', LANG: 'C.UTF-8', TERM: 'xterm', SWARM_HOME: this.state };
    for (const name of ['ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS', 'TSAN_OPTIONS', 'LD_LIBRARY_PATH'])
      if (process.env[name]) this.env[name] = process.env[name];
  }

  /** A directory, which is a scope of its own. */
  place() {
    return new Place(this, mkdtempSync(path.join(this.base, 'work-')));
  }

  /** Closes what a test that failed has left open and takes the node down; nothing of it may be left. */
  async end() {
    await Promise.allSettled([...this.open].map(close => close()));
    const down = await run(swarmctl, ['--no-autostart', 'down'], { cwd: this.base, env: this.env }).catch(error => ({ out: '', err: `${error}` }));
    try {
      const left = () => processes_of(this.base);
      await eventually(() => left().length === 0, 'the node and everything it started have ended').catch(error => {
        const names = left().map(pid => readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' '));
        for (const pid of left()) process.kill(Number(pid), 'SIGKILL');
        throw new Error(`${error.message}: ${names.join('; ')} ${down.out}${down.err}`);
      });
    } finally {
      if (existsSync(this.base)) rmSync(this.base, { recursive: true });
    }
  }
}
