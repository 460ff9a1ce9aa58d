// OpenAI Responses: POST /v1/responses, always streamed by Codex.
import { pieces } from './stream.mjs';

export function read(body) {
  const conversation = [];
  const items = typeof body.input === 'string' ? [{ type: 'message', role: 'user', content: body.input }] : (body.input ?? []);
  const tools = [];
  for (const item of items) {
    const type = item.type ?? 'message';
    if (type === 'message') {
      const text = textOf(item.content);
      if (item.role === 'assistant') conversation.push({ role: 'assistant', text, calls: [] });
      else if (item.role === 'user') conversation.push({ role: 'user', text });
    } else if (type === 'function_call' || type === 'custom_tool_call') {
      const input = type === 'function_call' ? parsed(item.arguments) : item.input;
      conversation.push({ role: 'assistant', text: '', calls: [{ id: item.call_id, name: item.name, input }] });
    } else if (type === 'function_call_output' || type === 'custom_tool_call_output') {
      conversation.push({ role: 'tool', id: item.call_id, text: textOf(item.output), failed: item.success === false });
    } else if (type === 'additional_tools') offer(item.tools, tools);
  }
  offer(body.tools, tools);
  return { model: body.model, stream: body.stream === true, tools, conversation };
}

function offer(list, tools, namespace) {
  for (const tool of list ?? []) {
    if (tool.type === 'namespace') offer(tool.tools, tools, tool.name);
    else if (tool.name !== undefined) tools.push({ name: tool.name, custom: tool.type === 'custom', ...(namespace ? { namespace } : {}) });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function textOf(content) {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map((part) => part.text ?? '').join('\n');
  return content.content !== undefined ? textOf(content.content) : JSON.stringify(content);
}

export async function write(reply, request, out) {
  const id = out.id('resp_');
  const output = [];
  if (reply.text) {
    output.push({
      type: 'message',
      id: out.id('msg_'),
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: reply.text, annotations: [] }],
    });
  }
  for (const call of reply.calls) {
    const common = {
      id: out.id('fc_'),
      call_id: out.id('call_'),
      name: call.name,
      status: 'completed',
      ...(call.namespace ? { namespace: call.namespace } : {}),
    };
    if (call.custom)
      output.push({ type: 'custom_tool_call', ...common, input: typeof call.input === 'string' ? call.input : JSON.stringify(call.input) });
    else output.push({ type: 'function_call', ...common, arguments: JSON.stringify(call.input) });
  }
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 120,
  };
  const response = { id, object: 'response', created_at: 0, model: request.model, status: 'in_progress', output: [] };
  const complete = { ...response, status: 'completed', output, usage };
  if (!request.stream) {
    out.json(complete);
    return;
  }
  let sequence_number = 0;
  const send = (type, fields) => out.event({ type, sequence_number: sequence_number++, ...fields }, type);
  send('response.created', { response });
  for (const [output_index, item] of output.entries()) {
    if (item.type === 'message') {
      send('response.output_item.added', { output_index, item: { ...item, status: 'in_progress', content: [] } });
      send('response.content_part.added', {
        item_id: item.id,
        output_index,
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] },
      });
      for await (const delta of pieces(reply.text, reply.slow)) {
        send('response.output_text.delta', { item_id: item.id, output_index, content_index: 0, delta });
      }
    } else send('response.output_item.added', { output_index, item: { ...item, status: 'in_progress' } });
    send('response.output_item.done', { output_index, item });
  }
  send('response.completed', { response: complete });
  out.end();
}
