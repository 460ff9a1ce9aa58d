// Gemini: POST /v1beta/models/<model>:generateContent and :streamGenerateContent?alt=sse
import { pieces } from './stream.mjs';

export function read(body, url) {
  const conversation = [];
  for (const message of body.contents ?? []) {
    const parts = message.parts ?? [];
    if (message.role === 'model') {
      const calls = parts
        .filter((part) => part.functionCall)
        .map(({ functionCall }) => ({ id: functionCall.id, name: functionCall.name, input: functionCall.args }));
      const text = parts
        .filter((part) => part.text !== undefined && !part.thought)
        .map((part) => part.text)
        .join('\n');
      conversation.push({ role: 'assistant', text, calls });
      continue;
    }
    for (const part of parts) {
      if (part.functionResponse) {
        const { id, name, response } = part.functionResponse;
        conversation.push({
          role: 'tool',
          id,
          name,
          text: response?.output ?? response?.error ?? JSON.stringify(response),
          failed: response?.error !== undefined,
        });
      } else if (part.text !== undefined) conversation.push({ role: 'user', text: part.text });
    }
  }
  const tools = (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => ({ name }));
  const model = /models\/([^:]+):/.exec(url.pathname)?.[1];
  const schema = body.generationConfig?.responseJsonSchema ?? body.generationConfig?.responseSchema;
  return { model, stream: url.pathname.endsWith(':streamGenerateContent'), tools, conversation, schema };
}

export async function write(reply, request, out) {
  const usageMetadata = { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 };
  const chunk = (parts, finishReason) => ({
    candidates: [{ index: 0, content: { role: 'model', parts }, ...(finishReason ? { finishReason } : {}) }],
    usageMetadata,
    modelVersion: request.model,
  });
  const calls = reply.calls.map((call) => ({ functionCall: { name: call.name, args: call.input } }));
  if (!request.stream) {
    out.json(chunk([...(reply.text ? [{ text: reply.text }] : []), ...calls], 'STOP'));
    return;
  }
  if (reply.think) out.event(chunk([{ text: 'Thinking about it.', thought: true }]));
  if (reply.text) for await (const text of pieces(reply.text, reply.slow)) out.event(chunk([{ text }]));
  out.event(chunk(calls.length > 0 ? calls : [{ text: '' }], 'STOP'));
  out.end();
}
