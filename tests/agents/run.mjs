#!/usr/bin/env node
// run.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--part PART] [--check WORDS] [--user NAME] [--keep] [--verbose]
//
// The real agents' programs against the fake model: each is dispatched to, stopped by a peer's lock, woken for its mail, asks something, and is
// ended; and it is set up by `swarmctl install`, started by a person, and the set-up taken out. One line for each check; the exit status is 1 if
// one failed. What a failed program had on its screen is shown with it, and the directory of its node stays. Every program has a node, a home and
// a repository of its own, and nothing of the caller's.
//
// Programs treat root otherwise than a person. Started by root, the checks run as NAME (nobody); `--user root` stays root.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { conversationChecks, settings } from './conversations.mjs';
import { check, eventually, gateway, model, node, pause, processesOf, TASK_S } from './parts.mjs';
import { programs } from './programs.mjs';

// What makes a person's line and an agent's call one task: a person's message is a part of the task, an agent's is not.
const SAME = ['--idempotency-key', 'the same by three'];
const MAIL_S = 60; // from a message to the model having read it
const STILL_S = 8; // in which a question that somebody has moved in stays open
const END_S = 60; // from the end of a worker to the end of its processes

const { values: options } = parseArgs({
  options: {
    bin: { type: 'string' },
    agents: { type: 'string' },
    only: { type: 'string' },
    part: { type: 'string' },
    check: { type: 'string' },
    user: { type: 'string' },
    keep: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (options.help || !options.bin || !options.agents) {
  console.log('usage: run.mjs --bin DIRECTORY --agents DIRECTORY [--only PROGRAM,...] [--part PART] [--check WORDS] [--user NAME] [--keep] [--verbose]');
  process.exit(options.help ? 0 : 2);
}
options.bin = resolve(options.bin);
options.agents = resolve(options.agents);
const names = options.only ? options.only.split(',') : Object.keys(programs);
const strange = names.filter((name) => !programs[name]);
if (strange.length > 0) {
  console.error(`run.mjs: no such program: ${strange.join(', ')}; there are ${Object.keys(programs).join(', ')}`);
  process.exit(2);
}

/** This script as another user, its exit status; undefined when that user cannot get at the programs. */
function runAs(user) {
  const id = (what) => Number(spawnSync('id', [what, user], { encoding: 'utf8' }).stdout);
  const as = { uid: id('-u'), gid: id('-g'), cwd: '/', stdio: 'inherit' };
  if (!as.uid) return undefined; // no such user, or root
  const script = fileURLToPath(import.meta.url);
  const needed = [join(options.bin, 'swarmctl'), ...names.map((name) => join(options.agents, name, programs[name].program)), script];
  if (needed.some((file) => spawnSync('test', ['-r', file], as).status !== 0)) return undefined;
  console.log(`as ${user}`);
  const flags = ['keep', 'verbose'].filter((flag) => options[flag]).map((flag) => `--${flag}`);
  for (const chosen of ['part', 'check']) if (options[chosen]) flags.push(`--${chosen}`, options[chosen]);
  return spawnSync(process.execPath, [script, '--bin', options.bin, '--agents', options.agents, '--only', names.join(','), ...flags], as).status ?? 1;
}
if (process.getuid() === 0 && options.user !== 'root') {
  const user = options.user ?? 'nobody';
  const status = runAs(user);
  if (status !== undefined) process.exit(status);
  console.log(`run.mjs: there is no user ${user} to run as, or ${options.bin}, ${options.agents} or this script is closed to it`);
  if (options.user) process.exit(2);
  console.log('run.mjs: so the checks run as root');
}

/** The prompts that the program has got from us, as the model has heard them. Titles and the like, asked for without tools, repeat them. */
function wakesHeard(at) {
  const turns = at.fake.requests().filter((one) => one.tools?.length > 0);
  return turns.flatMap((one) => one.heard).filter((one) => one.role === 'user' && one.text.includes('A peer sent you a swarm message'));
}

/** What the model was told in vain: results that say that a peer has locked the file. */
function refusals(at, from) {
  return at.fake.heard(from).filter((one) => one.role === 'tool' && one.text.includes('swarm lock blocked'));
}

async function ends(at) {
  at.only();
  check(processesOf(at.home).length > 0, 'it has no process');
  at.swarmctl('down');
  await eventually('its processes end', END_S, () => processesOf(at.home).length === 0);
}

const checks = {
  // Also the first start of the program, which is the slowest: two gateways at once want the same.
  async 'the same dispatch by three ends in done, by one worker told once'(at) {
    const progress = { tool: 'swarm.report_progress', input: { task_id: '$TASK', summary: 'begun' } };
    const message = at.steps(progress, at.write('new.txt', 'by the worker\n'), at.done('written'));
    // A coordinator without a role would be given the task by the others, as whoever does everything.
    const other = new gateway(at, 'mode:gateway role:planner name:second');
    await other.enroll();
    const two = ['first', 'second'].map((caller) => at.beginDispatch('write a file', message, '--label', `by:${caller}`, ...SAME));
    const asked = { title: 'write a file', message, harness: at.name, idempotency_key: SAME[1] };
    const third = await other.call('dispatch', asked);
    check(third.task.status !== 'done', 'the second gateway has dispatched only after the end of the task');
    const one = (await Promise.all(two)).map((reply) => {
      check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
      check(reply.completion.task.result === 'written', `its result is ${reply.completion.task.result}`);
      return reply.task_id;
    });
    check(new Set([...one, third.task_id]).size === 1, `there are several tasks: ${[...one, third.task_id].join(', ')}`);
    const again = await other.call('dispatch', asked);
    check(again.task_id === third.task_id, 'asked again, the second gateway has made another task');
    await other.leave();
    at.only();
    check(at.json('tasks').length === 1, 'there is another task');
    check(at.json('spawns').length === 1, 'there was another worker');
    check(at.read('new.txt') === 'by the worker\n', `new.txt is ${at.read('new.txt')}`);
    // The instruction came as mail: the terminal was told only that there is some.
    const prompts = wakesHeard(at);
    check(prompts.length === 1, `the program has been told ${prompts.length} times that it has mail`);
    check(!prompts.some((prompt) => prompt.text.includes('FAKE_STEPS')), 'the instruction was typed into the terminal');
  },

  async 'the same dispatch again starts nobody'(at) {
    const reply = at.dispatch('write a file', 'something else', ...SAME);
    check(reply.task.status === 'done' && reply.task.result === 'written', `the task is ${reply.task.status}: ${reply.task.result}`);
    at.only();
  },

  async "a peer's lock stops a write"(at) {
    const peer = at.peer();
    const before = at.fake.requests().length;
    const reply = at.dispatch('write theirs.txt', at.steps(at.write('theirs.txt', 'stolen\n'), at.write('free.txt', 'free\n'), at.done('tried')));
    check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
    check(at.read('theirs.txt') === 'theirs\n', `theirs.txt is ${at.read('theirs.txt')}`);
    const told = refusals(at, before);
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
    at.endWorker(worker);
    await eventually('it ends', END_S, () => !at.json('worktree', 'list').some((one) => one.in_use) && at.workers().length === 1);
  },

  'it ends with its node, and leaves nothing behind': ends,
};
/** What an agent's own tools could try to answer what it asks: by typing, by waking it, by forced mail, and by saying that it is idle. */
async function triesToAnswer(at) {
  const said = await at.runBeside(`swarmctl pty send $SWARM_SPAWN_ID --enter; echo typed $?
    swarmctl pty send $SWARM_SPAWN_ID 1; echo chosen $?
    swarmctl prompt-peer --to $SWARM_MCP_INSTANCE_ID --message x --force; echo woken $?
    swarmctl send --to $SWARM_MCP_INSTANCE_ID x; echo sent $?
    for s in cli hook one two three; do swarmctl report-agent idle --source $s; done`);
  for (const refused of ['typed 1', 'chosen 1', 'woken 1', 'sent 1']) check(said.includes(refused), `its tools may do that: ${said}`);
}

/**
 * What only a person may do: `command` has a shell try it, at once and by a process that it leaves behind. `apart` is what starts one that outlives the
 * command.
 */
async function deeds(at, peer, apart) {
  const approval = await at.requestApproval('deploy');
  const node = at.nodeProcess();
  const all = { down: 'down', unlock: `unlock theirs.txt --as ${peer}`, decide: `decide ${approval.id} yes` };
  const script = Object.entries(all).map(([name, deed]) => `'${at.program}' ${deed}; echo "${name} $?"\n`).join('');
  const [deed, later, left] = ['deeds', 'later', 'left'].map((name) => join(at.root, name));
  writeFileSync(later, `while kill -0 $1 2>/dev/null; do sleep 0.1; done\n${script}echo over\n`);
  writeFileSync(deed, `${apart} sh '${later}' $$ > '${left}' 2>&1 < /dev/null &\n${script}`);
  const areRefused = async (before) => {
    const said = await eventually('its shell has run', TASK_S, () =>
      at.fake.heard(before).find((one) => one.role === 'tool' && /^decide \d/m.test(one.text)),
    );
    const saidLater = await eventually('what it left behind has run', TASK_S, () => {
      const text = existsSync(left) ? readFileSync(left, 'utf8') : '';
      return /^over$/m.test(text) && text;
    });
    for (const [who, text] of Object.entries({ 'its shell': said.text, 'what it left behind': saidLater })) {
      for (const name of Object.keys(all)) check(new RegExp(`^${name} 1$`, 'm').test(text), `${who} may do that: ${text}`);
      check(text.includes('whoami --explain'), `${who} was not told who it is: ${text}`);
    }
    check(at.nodeProcess() === node && process.kill(node, 0), 'its node was stopped');
    check(at.json('locks').some((one) => one.file.endsWith('theirs.txt')), 'the peer has lost its lock');
    check(at.json('approvals').some((one) => one.id === approval.id), 'the approval was decided');
  };
  return { command: `sh '${deed}'`, areRefused };
}

// With a program that asks for permission; its dialog has Yes preselected.
const askingChecks = {
  async 'what it asks is not answered for a person, and after their No mail wakes it'(at) {
    const question = programs[at.name].asking;
    at.json('dispatch', 'ask', '--harness', at.name, '--message', at.steps(question.step(at.repository)));
    await eventually('it asks', TASK_S, () => question.shows.test(at.screen()));
    await eventually('it counts as blocked', MAIL_S, () => at.json('agents')[0].state === 'blocked');
    const agent = at.json('agents')[0];
    const isBlocked = (when) => {
      const { state } = at.json('agents')[0];
      check(state === 'blocked', `${when} it is ${state}`);
    };
    const staysOpen = async (when) => {
      await pause(STILL_S * 1000);
      check(question.shows.test(at.screen()), `${when} its question has gone`);
    };
    const before = at.fake.requests().length;
    const told = at.json('prompt-peer', '--to', agent.instance_id, '--message', 'the third word is vermilion');
    check(told.nudged === false, 'it was woken while it asks');
    await triesToAnswer(at);
    isBlocked('since its tools said so');
    at.json('prompt-peer', '--to', agent.instance_id, '--message', 'and the fourth', '--force');
    await staysOpen('with its own tools and forced mail');
    isBlocked('after that');
    // Somebody looks what there is to choose and goes away: it is still open.
    at.swarmctlWith('\x1b[B', 'pty', 'send', agent.pty, '--stdin');
    await staysOpen('when somebody looked');
    isBlocked('when somebody looked');
    await triesToAnswer(at);
    if (question.isSaid) isBlocked('when somebody had looked and its tools said so');
    // A hook that nobody called ends its turn; what the program says of itself counts more.
    await at.runBeside(`printf '{"session_id":"x","hook_event_name":"Stop"}' | swarmctl hook ${at.name} stop`);
    at.json('prompt-peer', '--to', agent.instance_id, '--message', 'and the fifth', '--force');
    await staysOpen('when somebody had looked, with its own tools and hook');
    if (question.isSaid) isBlocked('since its hook was called');
    at.swarmctlWith('\x1b', 'pty', 'send', agent.pty, '--stdin');
    await eventually('the model reads the message', MAIL_S, () =>
      at.fake.heard(before).some((one) => one.role === 'tool' && one.text.includes('vermilion')),
    );
    check(!existsSync(join(at.repository, 'asked.txt')) && !existsSync(join(at.root, 'asked.txt')), 'what it asked for was allowed');
  },

  async 'its shell, which a person lets run, stops no node, releases no lock of a peer and decides nothing'(at) {
    const { shell } = programs[at.name].asking;
    const worker = at.only();
    const tried = await deeds(at, at.peer(), shell.apart);
    const before = at.fake.requests().length;
    at.swarmctl('send', '--to', worker.id, at.steps(shell.step(tried.command)));
    if (shell.shows) {
      await eventually('it asks', TASK_S, () => shell.shows.test(at.screen()));
      at.swarmctlWith('\r', 'pty', 'send', at.json('agents')[0].pty, '--stdin');
    }
    await tried.areRefused(before);
  },

  'it ends with its node': ends,
};

/** What doctor says of the program's set-up. */
const doctorOf = (at) => at.json('doctor').checks.find((one) => one.name === `host_${at.name}`);

/** Names of files and directories below `directory` that speak of us, without those that are to stay: backups, and what the node keeps. */
function namesOfOurs(directory) {
  const all = readdirSync(directory, { recursive: true }).filter((name) => /swarm/.test(name));
  return all.filter((name) => !/\.swarm-backup-\d+$/.test(name) && !/^\.(local\/state|cache)\//.test(name));
}

// A person sets the program up and starts it: nothing of the fabric's is in its environment.
const setUpChecks = {
  async 'install sets it up, and doctor finds it so'(at) {
    at.installed = at.json('install', '--host', at.name, '--yes').hosts[0].files.map((file) => file.path);
    check(at.installed.length > 0, 'install has written nothing');
    const { status, message } = doctorOf(at);
    check(status === 'ok', `doctor says ${status}: ${message}`);
  },

  async 'started by a person it is there, is stopped by a lock, hears from its peer, and leaves'(at) {
    at.peerId = at.peer();
    const lock = { tool: 'swarm.lock_file', input: { file: join(at.repository, 'ours.txt') } };
    const read = { tool: 'read', path: join(at.repository, 'ours.txt') }; // some edit only what they have read
    const edit = { tool: 'edit', path: join(at.repository, 'ours.txt'), old: 'ours', new: 'mine' };
    const wait = { tool: 'swarm.wait_for_activity', input: { timeout_seconds: MAIL_S } };
    const running = at.start(at.steps(at.write('theirs.txt', 'stolen\n'), at.write('free.txt', 'free\n'), lock, read, edit, wait), true);
    const others = () => at.json('instances').filter((one) => one.id !== at.peerId);
    // It waits for mail then, so it is there as long as we look.
    await eventually('it writes its own file', TASK_S, () => {
      check(running.ended === undefined, `it has ended with ${running.ended}`);
      return at.read('ours.txt') === 'mine\n';
    });
    const sessions = others();
    check(sessions.length === 1, `there are ${sessions.length} sessions of it`);
    check(sessions[0].label.includes(programs[at.name].hooked), `its session is ${sessions[0].label}`);
    const locks = at.json('locks', '--as', sessions[0].id).map((one) => one.file);
    check(locks.join() === join(at.repository, 'ours.txt'), `its locks are ${locks}`);
    at.swarmctl('send', '--as', at.peerId, '--to', sessions[0].id, 'the fourth word is celadon');
    const status = await running.end(TASK_S);
    check(status === 0, `it has ended with ${status}`);
    check(at.read('theirs.txt') === 'theirs\n', `theirs.txt is ${at.read('theirs.txt')}`);
    check(refusals(at, 0)[0]?.text.includes('held by role:peer'), 'the model has not been told that the file is locked, and by whom');
    check(at.read('free.txt') === 'free\n', `free.txt is ${at.read('free.txt')}`);
    const heard = at.fake.heard(0).some((one) => one.role === 'tool' && one.text.includes('celadon'));
    check(heard, 'the session of its tools is not the one of its hooks: it has not got the message');
    await eventually('its session leaves', END_S, () => others().length === 0);
    check(at.json('locks').length === 1, 'it has left with its lock');
  },

  async 'its shell, in a terminal of a person, stops no node, releases no lock of a peer and decides nothing'(at) {
    const { shell } = programs[at.name].asking;
    const tried = await deeds(at, at.peerId, shell.apart);
    const before = at.fake.requests().length;
    const running = at.start(at.steps({ tool: 'shell', command: tried.command }), true, true);
    const status = await running.end(TASK_S);
    check(status === 0, `it has ended with ${status}`);
    await tried.areRefused(before);
  },

  async 'doctor still finds it set up'(at) {
    const { status, message } = doctorOf(at);
    check(status === 'ok', `doctor says ${status}: ${message}`);
  },

  async 'as a worker, with its set-up besides what a worker gets, it is one session and is stopped by a lock'(at) {
    const before = at.fake.requests().length;
    const reply = at.dispatch('write again', at.steps(at.write('theirs.txt', 'stolen\n'), at.write('again.txt', 'again\n'), at.done('written')));
    check(reply.completion?.terminal_status === 'done', `the task is ${reply.completion?.terminal_status ?? reply.status}`);
    check(at.read('again.txt') === 'again\n', `again.txt is ${at.read('again.txt')}`);
    check(at.read('theirs.txt') === 'theirs\n', `theirs.txt is ${at.read('theirs.txt')}`);
    check(refusals(at, before).length > 0, 'the model has not been told that the file is locked');
    const all = at.json('instances').filter((one) => one.id !== at.peerId);
    check(all.length === 1, `it has ${all.length} sessions`);
    at.endWorker(at.only());
    await eventually('it leaves', END_S, () => at.workers().length === 0);
  },

  async 'uninstalled, nothing of ours is left, and it knows nothing of the swarm'(at) {
    at.swarmctl('install', '--host', at.name, '--uninstall', '--yes');
    const ours = at.installed.filter((file) => existsSync(file) && /swarm/.test(readFileSync(file, 'utf8')));
    check(ours.length === 0, `these still speak of us: ${ours.join(', ')}`);
    const left = namesOfOurs(at.home);
    check(left.length === 0, `these are left: ${left.join(', ')}`);
    check(doctorOf(at).status === 'info', `doctor says: ${doctorOf(at).message}`);
    const registered = at.events('instance.registered').length;
    const before = at.fake.requests().length;
    const running = at.start(at.steps(at.write('theirs.txt', 'written\n')), false);
    const status = await running.end(TASK_S);
    check(status === 0, `it has ended with ${status}`);
    check(at.json('locks').length === 1, 'the peer has lost its lock');
    check(at.read('theirs.txt') === 'written\n', `theirs.txt is ${at.read('theirs.txt')}`);
    const offered = at.fake.requests().slice(before).flatMap((one) => one.tools ?? []).filter((tool) => /swarm/.test(tool));
    check(offered.length === 0, `it still offers ${offered.join(', ')}`);
    check(at.events('instance.registered').length === registered, 'it has registered a session');
  },

  async 'nothing of it runs on'(at) {
    at.swarmctl('down');
    await eventually('its processes end', END_S, () => processesOf(at.home).length === 0);
  },
};

async function run(name, wanted, manner, settings) {
  const directory = mkdtempSync(join(tmpdir(), 'swm-'));
  const fake = await model.start(directory);
  const at = new node(name, fake, manner, options);
  if (settings) writeFileSync(join(at.state, 'config.toml'), settings, { mode: 0o600 });
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

// Which checks a program has, each group on a node of its own; --part takes one of them.
const parts = [
  { part: 'worker', wanted: checks, manner: 'worker' },
  { part: 'asking', wanted: askingChecks, manner: 'asking' },
  { part: 'person', wanted: setUpChecks, manner: 'person' },
  { part: 'conversations', wanted: conversationChecks, manner: 'worker', settings, isFor: ({ isDriven }) => isDriven },
];

let failures = 0;
let all = 0;
for (const name of names) {
  try {
    for (const { part, wanted, manner, settings, isFor } of parts) {
      if ((options.part && options.part !== part) || (isFor && !isFor(programs[name]))) continue;
      const chosen = Object.entries(wanted).filter(([what]) => !options.check || what.includes(options.check));
      all += chosen.length;
      if (chosen.length > 0) failures += await run(name, Object.fromEntries(chosen), manner, settings);
    }
  } catch (error) {
    ++failures;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}
console.log(failures === 0 ? `all ${all} checks passed` : `${failures} of ${all} checks failed`);
process.exit(failures === 0 ? 0 : 1);
