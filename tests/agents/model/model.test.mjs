// The fake model in each of its four protocols, as the programs speak to it. Run with: node --test tests/agents/model
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { jsonAt, replyTo, stepsIn } from './plan.mjs';
import { resolveStep } from './tools.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'model-'));
const log = join(directory, 'log');
let child;
let url;

before(async () => {
  child = spawn(process.execPath, [join(here, 'server.mjs'), '--log', log], { stdio: ['ignore', 'pipe', 'inherit'] });
  const line = await new Promise((done) => child.stdout.once('data', (data) => done(String(data))));
  url = `http://127.0.0.1:${/\d+/.exec(line)[0]}`;
});
after(() => {
  child.kill();
  rmSync(directory, { recursive: true });
});

const post = (path, body) => fetch(url + path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });
async function events(path, body) {
  const text = await (await post(path, body)).text();
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)));
}

const prompt = 'FAKE_STEPS [{"tool":"write","path":"/r/a","content":"x\\n"}]';

// For each protocol: a request with the prompt, one that has the result as well, and how to see the call and the text in the reply.
const protocols = {
  anthropic: {
    path: '/v1/messages',
    tools: [{ name: 'Write' }],
    first: (tools) => ({ model: 'm', stream: true, tools, messages: [{ role: 'user', content: [{ type: 'text', text: prompt }] }] }),
    second: (tools) => ({
      model: 'm',
      stream: true,
      tools,
      messages: [
        { role: 'user', content: prompt },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'Write', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'wrote it' }] },
      ],
    }),
    call: (all) => [
      all.find((one) => one.content_block?.type === 'tool_use')?.content_block.name,
      JSON.parse(all.find((one) => one.delta?.partial_json)?.delta.partial_json ?? 'null'),
    ],
    text: (all) => all.map((one) => (one.delta?.type === 'text_delta' ? one.delta.text : '')).join(''),
    expected: ['Write', { file_path: '/r/a', content: 'x\n' }],
  },
  responses: {
    path: '/v1/responses',
    tools: [{ type: 'function', name: 'exec_command' }],
    first: (tools) => ({
      model: 'm',
      stream: true,
      tools,
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: prompt }] }],
    }),
    second: (tools) => ({
      model: 'm',
      stream: true,
      tools,
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: prompt }] },
        { type: 'function_call', call_id: 'c1', name: 'exec_command', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'wrote it' },
      ],
    }),
    call: (all) => {
      const item = all.find((one) => one.type === 'response.output_item.done' && one.item.type === 'function_call')?.item;
      return [item?.name, JSON.parse(item?.arguments ?? 'null')];
    },
    text: (all) => all.map((one) => (one.type === 'response.output_text.delta' ? one.delta : '')).join(''),
    expected: ['exec_command', { cmd: "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: /r/a\n+x\n*** End Patch\nEOF" }],
  },
  chat: {
    path: '/v1/chat/completions',
    tools: [{ type: 'function', function: { name: 'write' } }],
    first: (tools) => ({ model: 'm', stream: true, tools, messages: [{ role: 'user', content: prompt }] }),
    second: (tools) => ({
      model: 'm',
      stream: true,
      tools,
      messages: [
        { role: 'user', content: prompt },
        { role: 'assistant', content: null, tool_calls: [{ id: 'c1', function: { name: 'write', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: 'c1', content: 'wrote it' },
      ],
    }),
    call: (all) => {
      const call = all.flatMap((one) => one.choices).find((one) => one.delta.tool_calls)?.delta.tool_calls[0].function;
      return [call?.name, JSON.parse(call?.arguments ?? 'null')];
    },
    text: (all) =>
      all
        .flatMap((one) => one.choices)
        .map((one) => one.delta.content ?? '')
        .join(''),
    expected: ['write', { filePath: '/r/a', content: 'x\n' }],
  },
  gemini: {
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    tools: [{ functionDeclarations: [{ name: 'write_file' }] }],
    first: (tools) => ({ tools, contents: [{ role: 'user', parts: [{ text: prompt }] }] }),
    second: (tools) => ({
      tools,
      contents: [
        { role: 'user', parts: [{ text: prompt }] },
        { role: 'model', parts: [{ functionCall: { name: 'write_file', args: {} } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'write_file', response: { output: 'wrote it' } } }] },
      ],
    }),
    call: (all) => {
      const call = all.flatMap((one) => one.candidates[0].content.parts).find((one) => one.functionCall)?.functionCall;
      return [call?.name, call?.args];
    },
    text: (all) =>
      all
        .flatMap((one) => one.candidates[0].content.parts)
        .map((one) => one.text ?? '')
        .join(''),
    expected: ['write_file', { file_path: '/r/a', content: 'x\n' }],
  },
};

for (const [name, protocol] of Object.entries(protocols)) {
  test(`${name}: a step is called, then it says that it is done`, async () => {
    assert.deepEqual(protocol.call(await events(protocol.path, protocol.first(protocol.tools))), protocol.expected);
    const end = await events(protocol.path, protocol.second(protocol.tools));
    assert.equal(protocol.call(end)[0], undefined);
    assert.equal(protocol.text(end), 'Done after 1 calls.');
    const told = readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes('"heard"'))
      .map((line) => JSON.parse(line))
      .at(-1);
    assert.equal(told.heard.at(-1).text, 'wrote it');
  });
  test(`${name}: a tool that is not offered is not called`, async () => {
    const reply = await events(protocol.path, protocol.first([]));
    assert.equal(protocol.call(reply)[0], undefined);
    assert.notEqual(protocol.text(reply), '');
  });
}

test('bad input is an error, and the model goes on', async () => {
  assert.equal((await post('/v1/messages', '{"messages":')).status, 400);
  assert.equal((await post('/nowhere', {})).status, 404);
  assert.equal((await post('/v1/messages', { messages: [{ role: 'user', content: 'FAKE_ERROR 529' }] })).status, 529);
  assert.equal((await post('/v1/messages', { messages: [] })).status, 200);
});

test('steps are found in a text, and only whole ones', () => {
  assert.deepEqual(stepsIn('do FAKE_STEPS [{"tool":"a","x":"]\\""}] now'), [{ tool: 'a', input: { x: ']"' } }]);
  assert.deepEqual(stepsIn('FAKE_TOOL {"name":"a","input":{"b":1}}'), [{ tool: 'a', input: { b: 1 } }]);
  assert.equal(stepsIn('FAKE_STEPS [{"tool":'), undefined);
  assert.equal(stepsIn('nothing'), undefined);
  assert.equal(jsonAt('{"a":1}}', 0).a, 1);
});

// What an agent does that is woken with this mail, the results of its tools being `results`.
function play(wake, results) {
  const conversation = [{ role: 'user', text: wake }];
  const calls = [];
  for (;;) {
    const reply = replyTo(conversation, (step) => ({ name: step.tool, input: step.input }));
    if (reply.calls.length === 0) return { calls, text: reply.text };
    calls.push([reply.calls[0].name, reply.calls[0].input]);
    conversation.push({ role: 'assistant', text: '', calls: reply.calls }, { role: 'tool', text: results[calls.length - 1] ?? '{"ok":true}' });
  }
}

test('woken for a task without steps, it claims and ends it', () => {
  const mail = JSON.stringify({
    unread_messages: [{ content: '[task:t-1] please' }],
    tasks: { open: [{ description: 'FAKE_STEPS [{"tool":"wrong"}]' }] },
  });
  const { calls } = play('A peer sent you a swarm message for task t-1. Call ...', [mail]);
  assert.deepEqual(calls, [
    ['swarm.bootstrap', {}],
    ['swarm.claim_task', { task_id: 't-1' }],
    ['swarm.update_task', { task_id: 't-1', status: 'done', result: 'done by fake' }],
  ]);
});

test('woken with steps, it does them, and ends the task only if they do not', () => {
  const mail = (steps) =>
    `Wall time: 1 s\n${JSON.stringify({ unread_messages: [{ content: `[task:t-1] do\nFAKE_STEPS ${JSON.stringify(steps)}` }] })}`;
  assert.deepEqual(
    play('A peer sent you a swarm message.', [mail([{ tool: 'write', path: 'p' }])]).calls.map((call) => call[0]),
    ['swarm.bootstrap', 'write', 'swarm.update_task'],
  );
  const ending = play('A peer sent you a swarm message.', [mail([{ tool: 'swarm.complete_task', input: { task_id: '$TASK' } }])]);
  assert.deepEqual(ending.calls, [
    ['swarm.bootstrap', {}],
    ['swarm.complete_task', { task_id: 't-1' }],
  ]);
});

test('woken without a task, it polls when bootstrap has no mail, and reads', () => {
  const { calls, text } = play('A peer sent you a swarm message.', ['{"unread_messages":[]}', '[{"content":"hello"}]']);
  assert.deepEqual(
    calls.map((call) => call[0]),
    ['swarm.bootstrap', 'swarm.poll_messages'],
  );
  assert.equal(text, 'Woken: mail read.');
});

test('the tools of the swarm have another name in each program', () => {
  const step = { tool: 'swarm.whoami', input: {} };
  for (const offered of [
    { name: 'mcp__swarm__whoami' },
    { name: 'swarm_whoami' },
    { name: 'mcp_swarm_whoami' },
    { name: 'whoami', namespace: 'mcp__swarm' },
  ])
    assert.equal(resolveStep(step, [{ name: 'other' }, offered]).name, offered.name);
  assert.equal(resolveStep(step, [{ name: 'whoami' }, { name: 'other_whoami' }]), undefined);
});
