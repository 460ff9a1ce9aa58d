#!/usr/bin/env node
// A model for tests: speaks to Claude Code, Codex, OpenCode and Gemini CLI in their own protocols, on 127.0.0.1 only.
//
//   server.mjs [--port N] [--log FILE] [--bodies DIRECTORY]
//
// Prints `listening on <port>` (port 0 picks one). FILE gets a JSON object for each request; DIRECTORY each body as it came.
// What it answers is steered by the prompt, see plan.mjs.
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import * as anthropic from './anthropic.mjs';
import * as chat from './chat.mjs';
import * as gemini from './gemini.mjs';
import { replyTo } from './plan.mjs';
import * as responses from './responses.mjs';
import { resolveStep } from './tools.mjs';

const BODY_BYTES_MAX = 64 * 1024 * 1024;

const { values: options } = parseArgs({
  options: { port: { type: 'string', default: '0' }, log: { type: 'string' }, bodies: { type: 'string' } },
});
if (options.bodies) mkdirSync(options.bodies, { recursive: true });

let requests = 0;
let ids = 0;

function log(entry) {
  if (options.log) appendFileSync(options.log, `${JSON.stringify({ at: new Date().toISOString(), ...entry })}\n`);
}

function protocolOf(path) {
  if (path.endsWith('/v1/messages')) return ['anthropic', anthropic];
  if (path.endsWith('/responses')) return ['responses', responses];
  if (path.endsWith('/chat/completions')) return ['chat', chat];
  if (/:(stream)?[gG]enerateContent$/.test(path)) return ['gemini', gemini];
  return undefined;
}

// Requests beside the conversation: an answer that keeps the programs content.
function aside(path) {
  if (path.endsWith('/count_tokens')) return { input_tokens: 100 };
  if (path.endsWith(':countTokens')) return { totalTokens: 100 };
  if (path.endsWith('/models')) return { object: 'list', data: [{ id: 'fake-1', object: 'model' }], models: [] };
  return undefined;
}

async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX) throw new Error('body too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function outTo(response) {
  let streaming = false;
  const begin = () => {
    if (streaming) return;
    streaming = true;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  };
  return {
    id: (prefix) => `${prefix}fake${++ids}`,
    json(value, status = 200) {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    },
    event(value, name) {
      begin();
      response.write(`${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(value)}\n\n`);
    },
    raw(text) {
      begin();
      response.write(text);
    },
    end: () => response.end(),
  };
}

// A value that fits a JSON schema, for requests that want JSON (routing, "who speaks next").
function sample(schema) {
  if (schema === undefined) return {};
  if (schema.enum) return schema.enum.at(-1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (String(type).toLowerCase()) {
    case 'object':
      return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, value]) => [key, sample(value)]));
    case 'array':
      return [];
    case 'number':
    case 'integer':
      return schema.minimum ?? 0;
    case 'boolean':
      return false;
    default:
      return 'fake';
  }
}

async function serve(request, response) {
  const url = new URL(request.url, 'http://127.0.0.1');
  const out = outTo(response);
  const number = ++requests;
  const text = await bodyOf(request);
  if (options.bodies && text)
    writeFileSync(join(options.bodies, `${String(number).padStart(4, '0')}${url.pathname.replaceAll('/', '_')}.json`), text);
  const protocol = protocolOf(url.pathname);
  if (request.method !== 'POST' || !protocol) {
    const answer = aside(url.pathname);
    log({ number, method: request.method, path: url.pathname, known: answer !== undefined });
    out.json(answer ?? { error: { type: 'not_found_error', message: 'the fake model does not know this path' } }, answer ? 200 : 404);
    return;
  }
  const [api, { read, write }] = protocol;
  const body = JSON.parse(text);
  const asked = read(body, url);
  const reply = replyTo(asked.conversation, (step) => resolveStep(step, asked.tools));
  if (asked.schema) reply.text = JSON.stringify(sample(asked.schema));
  // Titles, summaries and the like come without tools.
  else if (asked.tools.length === 0) Object.assign(reply, { calls: [], text: 'Fake title' });
  const heard = asked.conversation.slice(asked.conversation.findLastIndex((message) => message.role === 'assistant') + 1);
  log({
    number,
    api,
    path: url.pathname,
    model: asked.model,
    tools: asked.tools.map(({ name, namespace }) => (namespace ? `${namespace}/${name}` : name)),
    messages: asked.conversation.length,
    heard, // what has come since our last reply: prompts and results, in full
    prompt: reply.prompt,
    calls: reply.calls.map(({ name, namespace, input }) => ({ name, namespace, input })),
    text: reply.text,
    slow: reply.text !== '' ? reply.slow : undefined,
    error: reply.error,
  });
  if (reply.error) {
    out.json({ type: 'error', error: { type: 'api_error', message: `fake error ${reply.error}` } }, reply.error);
    return;
  }
  await write(reply, asked, out);
  log({ number, ended: true });
}

const server = createServer((request, response) => {
  serve(request, response).catch((error) => {
    log({ failure: String(error?.stack ?? error), path: request.url });
    if (!response.headersSent) response.writeHead(400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { type: 'invalid_request_error', message: String(error?.message ?? error) } }));
  });
});
server.listen(Number(options.port), '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
