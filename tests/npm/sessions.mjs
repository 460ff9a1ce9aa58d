// The two generations of the SDK behind one face, and the counterparts that the tools need.
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as NewClient } from '@modelcontextprotocol/client';
import { StdioClientTransport as NewTransport } from '@modelcontextprotocol/client/stdio';

import { eventually } from './fabric.mjs';

const who = { name: 'swarm-npm-test', version: '1' };

/** era: "sdk" (1.x, by initialize), "legacy" (2.x, by initialize) or "modern" (2.x, stateless). */
export async function open(place, era) {
  const news = [];
  let client, transport;
  if (era === 'sdk') {
    client = new OldClient(who);
    transport = new OldTransport({ ...place.server(), stderr: 'inherit' });
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, n => { news.push(n.params.uri); });
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => { news.push('tools'); });
  } else {
    client = new NewClient(who, { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } });
    transport = new NewTransport({ ...place.server(), stderr: 'inherit' });
    client.setNotificationHandler('notifications/resources/updated', n => { news.push(n.params.uri); });
    client.setNotificationHandler('notifications/tools/list_changed', () => { news.push('tools'); });
  }
  await client.connect(transport);
  const listening = era === 'modern'
    ? await client.listen({ toolsListChanged: true, resourceSubscriptions: ['swarm://inbox', 'swarm://tasks', 'swarm://instances'] }) : undefined;
  const close = async () => {
    place.fabric.open.delete(close);
    await listening?.close();
    await client.close();
  };
  place.fabric.open.add(close);
  return {
    client,
    news,
    close,
    heard: what => eventually(() => news.includes(what), `news of ${what}, after ${news}`),
    call: (name, args = {}, options = {}) =>
      era === 'sdk' ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options),
  };
}

/** A session that is registered; `id` is its. */
export async function member(place, era, label) {
  const session = await open(place, era);
  const reply = await session.call('register', { directory: place.work, label });
  session.id = JSON.parse(reply.content[0].text).id;
  return session;
}

/** What every_tool needs to know; `close()` ends the counterparts. */
export async function counterparts(place) {
  const peer = await member(place, 'sdk', 'identity:npm role:reviewer');
  const victim = await member(place, 'sdk', 'identity:npm role:researcher');
  const lease = (label, ...more) => place.ctl('register', '--label', `identity:npm ${label}`, '--lease-seconds', '600', ...more);
  const leased = await lease('session:npm mode:gateway', '--grant', 'pty', '--grant', 'spawn');
  // Of two leased sessions in a directory none is adopted before it is asked for.
  await lease('session:other');
  // Elsewhere: a session without an identity, which a terminal is, keeps those with one from locking files of its directory.
  const terminals = place.fabric.place();
  const pty = await terminals.ctl('pty', 'new', '--', 'sh', '-c', 'echo ready; while read -r line; do echo got-$line; done');
  await peer.call('send_message', { recipient: leased.id, content: 'from the peer' });
  await eventually(async () => (await terminals.verb('pty', 'read', pty.id)).out.includes('ready'), 'the terminal has said ready');
  return {
    known: { work: place.work, session: leased.id, peer: peer.id, victim: victim.id, pty: pty.id },
    peer,
    close: () => Promise.all([peer.close(), victim.close()]),
  };
}
