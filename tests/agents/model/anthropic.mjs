// Anthropic Messages: POST /v1/messages, streaming or not.
import { pieces } from './stream.mjs';

export function read(body) {
  const conversation = [];
  for (const message of body.messages ?? []) {
    const blocks = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : (message.content ?? []);
    if (message.role === 'assistant') {
      conversation.push({
        role: 'assistant',
        text: textOf(blocks),
        calls: blocks.filter((block) => block.type === 'tool_use').map(({ id, name, input }) => ({ id, name, input })),
      });
      continue;
    }
    for (const block of blocks) {
      if (block.type === 'tool_result') {
        const content = typeof block.content === 'string' ? block.content : textOf(block.content ?? []);
        conversation.push({ role: 'tool', id: block.tool_use_id, text: content, failed: block.is_error === true });
      } else if (block.type === 'text') conversation.push({ role: 'user', text: block.text });
    }
  }
  const tools = (body.tools ?? []).map(({ name }) => ({ name }));
  return { model: body.model, stream: body.stream === true, tools, conversation };
}

function textOf(blocks) {
  return blocks
    .filter((block) => block.type === 'text')
    .map((block) => block.text)
    .join('\n');
}

export async function write(reply, request, out) {
  const content = [];
  if (reply.think) content.push({ type: 'thinking', thinking: 'Thinking about it.', signature: 'fake' });
  if (reply.text) content.push({ type: 'text', text: reply.text });
  for (const call of reply.calls) content.push({ type: 'tool_use', id: out.id('toolu_'), name: call.name, input: call.input });
  const message = {
    id: out.id('msg_'),
    type: 'message',
    role: 'assistant',
    model: request.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  };
  const stop_reason = reply.calls.length > 0 ? 'tool_use' : 'end_turn';
  if (!request.stream) {
    out.json({ ...message, content, stop_reason, usage: { ...message.usage, output_tokens: 20 } });
    return;
  }
  const send = (data) => out.event(data, data.type);
  send({ type: 'message_start', message });
  for (const [index, block] of content.entries()) {
    if (block.type === 'text') {
      send({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } });
      for await (const text of pieces(block.text, reply.slow)) send({ type: 'content_block_delta', index, delta: { type: 'text_delta', text } });
    } else if (block.type === 'thinking') {
      send({ type: 'content_block_start', index, content_block: { type: 'thinking', thinking: '', signature: '' } });
      send({ type: 'content_block_delta', index, delta: { type: 'thinking_delta', thinking: block.thinking } });
      send({ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature: block.signature } });
    } else {
      send({ type: 'content_block_start', index, content_block: { ...block, input: {} } });
      send({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } });
    }
    send({ type: 'content_block_stop', index });
  }
  send({ type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 20 } });
  send({ type: 'message_stop' });
  out.end();
}
