// OpenAI Chat Completions: POST /v1/chat/completions, streaming or not.
import { pieces } from './stream.mjs';

export function read(body) {
  const conversation = [];
  for (const message of body.messages ?? []) {
    const text = textOf(message.content);
    if (message.role === 'user') conversation.push({ role: 'user', text });
    else if (message.role === 'tool') conversation.push({ role: 'tool', id: message.tool_call_id, text });
    else if (message.role === 'assistant') {
      const calls = (message.tool_calls ?? []).map((call) => ({ id: call.id, name: call.function.name, input: parsed(call.function.arguments) }));
      conversation.push({ role: 'assistant', text, calls });
    }
  }
  const tools = (body.tools ?? []).map((tool) => ({ name: tool.function?.name ?? tool.name }));
  return { model: body.model, stream: body.stream === true, tools, conversation };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function textOf(content) {
  if (Array.isArray(content)) return content.map((part) => part.text ?? '').join('\n');
  return content ?? '';
}

export async function write(reply, request, out) {
  const tool_calls = reply.calls.map((call, index) => ({
    index,
    id: out.id('call_'),
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.input) },
  }));
  const finish_reason = tool_calls.length > 0 ? 'tool_calls' : 'stop';
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
  const common = { id: out.id('chatcmpl-'), created: 0, model: request.model };
  if (!request.stream) {
    const message = { role: 'assistant', content: reply.text, ...(tool_calls.length > 0 ? { tool_calls } : {}) };
    out.json({ ...common, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage });
    return;
  }
  const send = (delta, reason = null) =>
    out.event({ ...common, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: reason }] });
  send({ role: 'assistant', content: '' });
  if (reply.text) for await (const content of pieces(reply.text, reply.slow)) send({ content });
  for (const call of tool_calls) send({ tool_calls: [call] });
  send({}, finish_reason);
  out.event({ ...common, object: 'chat.completion.chunk', choices: [], usage });
  out.raw('data: [DONE]\n\n');
  out.end();
}
