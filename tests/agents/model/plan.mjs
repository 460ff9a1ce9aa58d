// What the fake model does next. It has no state: everything follows from the conversation in the request, so that a
// program that sends a request again, or goes on in a new process, gets the same answer again.
//
// A conversation is a list of
//   {role: 'user', text}                  something typed, or put in by the program
//   {role: 'assistant', text, calls}      what we said before; calls = [{id, name, input}]
//   {role: 'tool', id, name, text}        the result of a call
// and a reply is {text, calls: [{tool}], think, slow: {chunks, ms}, error}, see replyTo below.

// The words with which the fabric wakes an agent; the rest of the line is not ours to rely on.
const NUDGE = /A peer sent you a swarm message(?: for task ([0-9a-zA-Z-]+))?/;
const TASK = /\[task:([0-9a-zA-Z-]+)\]/;
// How the first prompt of a conversation begins that does a task.
const OWN_TASK = /^Task ([0-9a-zA-Z-]+) is yours/;
const STEPS_MAX = 64;

/** The JSON value that begins at `start` (an object or array), or undefined. Text may follow it. */
export function jsonAt(text, start) {
  while (start < text.length && /\s/.test(text[start])) ++start;
  if (text[start] !== '{' && text[start] !== '[') return undefined;
  let depth = 0;
  let inString = false;
  for (let at = start; at < text.length; ++at) {
    const character = text[at];
    if (inString) {
      if (character === '\\') ++at;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === '{' || character === '[') ++depth;
    else if ((character === '}' || character === ']') && --depth === 0) {
      try {
        return JSON.parse(text.slice(start, at + 1));
      } catch {
        return undefined;
      }
    }
  }
  return undefined;
}

/** The steps of `FAKE_STEPS [...]` in the text, undefined without any. */
export function stepsIn(text) {
  const at = text.search(/FAKE_(STEPS|TOOL)\b/);
  const value = at < 0 ? undefined : jsonAt(text, text.indexOf(' ', at));
  if (value === undefined) return undefined;
  return (Array.isArray(value) ? value : [value]).slice(0, STEPS_MAX).map(normalised);
}

// Both {"tool": "swarm.update_task", "input": {...}} and {"tool": "write", "path": ..., "content": ...} are steps.
function normalised(step) {
  const { tool, name, input, ...others } = step;
  return { tool: tool ?? name ?? '', input: input ?? others };
}

function* stepsOf(steps) {
  for (const step of steps) yield step;
}

// What a woken agent does: look what has come, do what each message says, and end its task if it names one.
function* onNudge(prompt) {
  const seen = new Set();
  const named = NUDGE.exec(prompt)?.[1];
  let messages = messagesIn(yield { tool: 'swarm.bootstrap', input: {}, otherwise: 'swarm.poll_messages' });
  if (messages.length === 0) messages = messagesIn(yield { tool: 'swarm.poll_messages', input: {} });
  if (messages.length === 0 && named) messages = [`[task:${named}]`];
  const said = [];
  for (const message of messages) {
    const task = TASK.exec(message)?.[1];
    const steps = stepsIn(message);
    if (task === undefined && steps === undefined) said.push('mail read');
    if (task !== undefined && steps === undefined && seen.has(task)) continue;
    seen.add(task);
    for (const step of steps ?? []) yield withTask(step, task);
    if (task !== undefined && !steps?.some((step) => endsTask(step.tool))) {
      if (steps === undefined) yield { tool: 'swarm.claim_task', input: { task_id: task } };
      yield { tool: 'swarm.update_task', input: { task_id: task, status: 'done', result: 'done by fake' } };
    }
    if (task !== undefined) said.push(`task ${task} done by fake`);
    else if (steps !== undefined) said.push('steps done');
  }
  return `Woken: ${said.join(', ') || 'no mail'}.`;
}

// The contents of the messages in the result of bootstrap or poll_messages, the oldest first. Some programs put a line before a result.
function messagesIn(result) {
  const start = result.search(/[[{]/);
  const value = start < 0 ? undefined : jsonAt(result, start);
  if (value === undefined) return /\[task:|FAKE_/.test(result) ? [result] : [];
  const list = Array.isArray(value) ? value : (value.unread_messages ?? value.messages ?? []);
  return list.map((message) => String(message.content ?? ''));
}

function endsTask(tool) {
  return tool === 'swarm.update_task' || tool === 'swarm.complete_task';
}

// A step may say "$TASK" where only the message knows the id.
function withTask(step, task) {
  if (!task) return step;
  return JSON.parse(JSON.stringify(step).replaceAll('$TASK', task));
}

function programOf(prompt) {
  const steps = stepsIn(prompt);
  if (steps) return stepsOf(steps.map((step) => withTask(step, OWN_TASK.exec(prompt)?.[1])));
  if (NUDGE.test(prompt)) return onNudge(prompt);
  return stepsOf([]);
}

function isSteering(text) {
  return /FAKE_(STEPS|TOOL|SLOW|ERROR|THINK|SAY)\b/.test(text) || NUDGE.test(text);
}

/** What was asked in the turn that runs: {prompts: [text], calls: [{...}], results: [text]}. */
export function currentTurn(conversation) {
  let start = 0;
  conversation.forEach((message, index) => {
    if (message.role === 'assistant' && message.calls.length === 0 && message.text !== '') start = index + 1;
  });
  const turn = conversation.slice(start);
  const typed = turn.filter((message) => message.role === 'user').map((message) => message.text);
  const steering = typed.filter(isSteering);
  return {
    prompts: steering.length > 0 ? steering : typed.slice(-1),
    calls: turn.flatMap((message) => (message.role === 'assistant' ? message.calls : [])),
    results: turn.filter((message) => message.role === 'tool').map((message) => message.text),
  };
}

/**
 * The reply to a conversation. `resolve(step)` gives the call of a step in the program's own words, {name, input, ...},
 * or undefined when the request offers no such tool.
 */
export function replyTo(conversation, resolve) {
  const turn = currentTurn(conversation);
  const all = turn.prompts.join('\n');
  const slow = /FAKE_SLOW (\d+) (\d+)/.exec([all, ...turn.results].join('\n'));
  const reply = {
    prompt: all,
    text: '',
    calls: [],
    think: /FAKE_THINK\b/.test(all),
    slow: slow ? { chunks: Number(slow[1]), ms: Number(slow[2]) } : undefined,
    error: Number(/FAKE_ERROR (\d{3})/.exec(all)?.[1] ?? 0) || undefined,
    missing: [],
  };
  const said = [];
  let done = 0; // calls of this turn that a program has accounted for
  for (const prompt of turn.prompts) {
    const program = programOf(prompt);
    let next = program.next();
    while (!next.done) {
      const call = resolve(next.value) ?? (next.value.otherwise ? resolve({ ...next.value, tool: next.value.otherwise }) : undefined);
      if (call === undefined) {
        // Not offered: say so once and go on, the way a model would.
        reply.missing.push(next.value.tool);
        next = program.next('');
        continue;
      }
      if (done >= turn.calls.length) {
        reply.calls.push(call);
        return reply;
      }
      next = program.next(turn.results[done] ?? '');
      ++done;
    }
    if (next.value) said.push(next.value);
  }
  const say = /FAKE_SAY "([^"]*)"/.exec(all);
  if (say) said.push(say[1]);
  const last = turn.results.at(-1);
  if (said.length === 0) said.push(last === undefined ? 'This is the fake model.' : `Done after ${turn.results.length} calls.`);
  if (reply.missing.length > 0) said.push(`Not offered: ${reply.missing.join(', ')}.`);
  reply.text = said.join(' ');
  return reply;
}
