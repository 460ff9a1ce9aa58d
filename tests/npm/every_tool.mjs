// One call of every tool, in an order in which each has something to do. If you add a tool, add a row.
import assert from 'node:assert/strict';

const is = expected => reply => assert.deepEqual(reply.json, expected);
const says = text => reply => assert.ok(reply.text.includes(text), `${reply.text} does not say: ${text}`);
const ok = reply => assert.equal(reply.json.ok, true, reply.text);
const remember = (name, key) => (reply, known) => assert.ok((known[name] = reply.json[key]), reply.text);
const all = (...checks) => (reply, known) => checks.forEach(check => check(reply, known));

/** [tool, arguments or what makes them of what is known by now, what must hold of the reply]
 *  known: work (directory), session (id of a leased row with all rights), peer and victim (ids of other sessions), pty (id of a terminal in
 *  which a program has said "ready" and answers every line with "got-" and the line). */
export const every_tool = [
  ['register', k => ({ directory: k.work, label: 'identity:npm session:npm mode:gateway', adopt_instance_id: k.session }),
    (reply, k) => assert.equal(reply.json.id, k.session)],
  ['whoami', {}, (reply, k) => assert.equal(reply.json.id, k.session)],
  ['list_instances', { label_contains: 'role:reviewer' }, (reply, k) => assert.deepEqual(reply.json.map(row => row.id), [k.peer])],
  ['bootstrap', { mark_read: false }, (reply, k) => assert.equal(reply.json.instance.id, k.session)],
  ['send_message', k => ({ recipient: k.peer, content: 'to one' }), says('Message sent')],
  ['broadcast', { content: 'to all' }, says('2')],
  ['prompt_peer', k => ({ recipient: k.peer, message: 'wake up', nudge: false }), reply => assert.equal(reply.json.message_sent, true)],
  ['peek_peer', k => ({ recipient: k.peer, lines: 5 }), reply => assert.equal(typeof reply.json, 'object')],
  ['resolve_workspace_handle', { handle: 'nobody' }, reply => assert.equal(typeof reply.json, 'object')],
  ['poll_messages', { limit: 10 }, (reply, k) => assert.deepEqual(reply.json.map(m => [m.sender, m.content]), [[k.peer, 'from the peer']])],
  ['wait_for_activity', { timeout_seconds: 1 }, reply => assert.equal(reply.json.timeout, true)],
  ['request_task', { type: 'implement', title: 'the first', priority: 5, files: ['a.txt'] }, remember('first', 'task_id')],
  ['request_task_batch', { tasks: [{ type: 'test', title: 'the second' }, { type: 'test', title: 'the third', depends_on: ['$1'] }] },
    (reply, k) => { [k.second] = reply.json.task_ids; }],
  ['claim_task', k => ({ task_id: k.first }), ok],
  ['report_progress', k => ({ task_id: k.first, summary: 'half way', blocked_reason: null }), says('half way')],
  ['get_task', k => ({ task_id: k.first }), reply => assert.equal(reply.json.progress_summary, 'half way')],
  ['list_tasks', { status: 'in_progress' }, (reply, k) => assert.deepEqual(reply.json.map(t => t.id), [k.first])],
  ['lock_file', k => ({ file: 'a.txt', reason: 'editing', task_id: k.first }), ok],
  ['get_file_lock', { file: 'a.txt' }, (reply, k) => assert.equal(reply.json.active.instance_id, k.session)],
  ['unlock_file', { file: 'a.txt' }, says('a.txt')],
  ['lock_acquire', { file: 'b.txt', wait_seconds: 1, ttl_seconds: 60 }, all(ok, remember('fence', 'fence'))],
  ['lock_verify', k => ({ file: 'b.txt', fence: k.fence }), ok],
  ['complete_task', k => ({ task_id: k.first, summary: 'done it', tests: [{ command: 'make', status: 'passed' }] }), ok],
  ['claim_next_task', { types: ['test'] }, (reply, k) => assert.equal(reply.json.task.id, k.second)],
  ['update_task', k => ({ task_id: k.second, status: 'cancelled', result: 'not needed' }), ok],
  ['request_task', { type: 'review', title: 'the fourth', approval_required: true }, remember('fourth', 'task_id')],
  ['approve_task', k => ({ task_id: k.fourth }), ok],
  ['dispatch', { title: 'the fifth', spawn: false, role: 'implementer' }, reply => assert.equal(reply.json.status, 'no_worker')],
  ['request_spawn', { role: 'helper', idempotency_key: 'npm', harness: 'exec', argv: ['sleep', '1000'] }, ok],
  ['routine_list', {}, says('fix-tests')],
  ['routine_show', { name: 'shipped/fix-tests' }, says('command')],
  ['routine_run', { name: 'shipped/fix-tests', parameters: { command: 'make test' }, spawn: false }, says('make test')],
  ['ask_person', { title: 'Which colour?', options: ['red', 'green'], timeout_seconds: 1 }, reply => assert.equal(reply.json.state, 'expired')],
  ['kv_set', { key: 'npm/a', value: '[]' }, says('npm/a')],
  ['kv_append', { key: 'npm/a', value: '{"n":1}' }, says('1 items')],
  ['kv_get', { key: 'npm/a' }, says('{\\"n\\":1}')],
  ['kv_set_ttl', { key: 'npm/b', value: 'soon gone', ttl_seconds: 60 }, ok],
  ['kv_list', { prefix: 'npm/' }, reply => assert.deepEqual(reply.json.map(row => row.key), ['npm/a', 'npm/b'])],
  ['kv_delete', { key: 'npm/a' }, says('Deleted')],
  ['swarm_status', {}, reply => assert.equal(typeof reply.json, 'object')],
  ['events_since', { revision: 0, types: ['task.'], limit: 1 }, reply => assert.equal(reply.json.events.length, 1)],
  ['pty_list', { all_scopes: true }, (reply, k) => assert.ok(reply.json.some(row => row.id === k.pty))],
  ['pty_read', k => ({ pty: k.pty, from: 0, bytes: 5 }), reply => assert.equal(reply.json.data, 'ready')],
  ['pty_send', k => ({ pty: k.pty, text: 'hello', enter: true }), reply => assert.equal(reply.json.accepted, 6)],
  ['pty_wait', k => ({ pty: k.pty, text: 'got-hello', from: 0, timeout_seconds: 10 }), reply => assert.equal(reply.json.matched, true)],
  ['remove_instance', k => ({ instance_id: k.victim }), says('Removed instance')],
  ['deregister', {}, says('Deregistered instance')],
];

/** The reply of a tool as an agent sees it. */
export function reply_of(result) {
  const text = result.content[0].text;
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { text, json, is_error: result.isError === true };
}

/** Calls all of them with `call(tool, arguments)`, which gives an MCP result; the names called. */
export async function call_every_tool(call, known) {
  const called = new Set();
  for (const [tool, args, check] of every_tool) {
    const reply = reply_of(await call(tool, typeof args === 'function' ? args(known) : args));
    assert.equal(reply.is_error, false, `${tool}: ${reply.text}`);
    try {
      check(reply, known);
    } catch (error) {
      error.message = `${tool} answered ${reply.text}: ${error.message}`;
      throw error;
    }
    called.add(tool);
  }
  return [...called].sort();
}
