// The official client libraries against `swarmctl mcp`: 1.x of the SDK, which knows the protocol of `initialize`, and 2.x, which knows both.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { call_every_tool, reply_of } from './every_tool.mjs';
import { Fabric, eventually } from './fabric.mjs';
import { counterparts, member, open } from './sessions.mjs';

// The shortest that the node takes. A call that goes on says so four times in each of these.
const server_wait_ms = 7500;
const fabric = new Fabric({ server_wait_max: server_wait_ms });
after(() => fabric.end());

const versions = { sdk: '2025-11-25', legacy: '2025-11-25', modern: '2026-07-28' };

describe('the client libraries', { concurrency: true }, () => {
  for (const era of Object.keys(versions)) {
    describe(era, { concurrency: true }, () => {
      test('what the server says of itself', async () => {
        const { client, close } = await open(fabric.place(), era);
        assert.equal(client.getServerVersion().name, 'swarm');
        if (era !== 'sdk') assert.equal(client.getNegotiatedProtocolVersion(), versions[era]);
        for (const what of ['tools', 'resources', 'prompts']) assert.equal(client.getServerCapabilities()[what].listChanged, true);
        const { resources } = await client.listResources();
        for (const uri of ['swarm://inbox', 'swarm://tasks', 'swarm://instances']) assert.ok(resources.some(r => r.uri === uri), uri);
        for (const { uri } of resources) {
          const [content] = (await client.readResource({ uri })).contents;
          assert.equal(content.uri, uri);
          if (content.mimeType === 'application/json') JSON.parse(content.text);
        }
        const { resourceTemplates } = await client.listResourceTemplates();
        assert.deepEqual(resourceTemplates.map(r => r.uriTemplate), ['swarm://lock{?file}']);
        JSON.parse((await client.readResource({ uri: 'swarm://lock?file=a.txt' })).contents[0].text);
        const { prompts } = await client.listPrompts();
        for (const name of ['setup', 'protocol']) assert.ok(prompts.some(p => p.name === name), name);
        for (const { name } of prompts) assert.ok((await client.getPrompt({ name })).messages[0].content.text.length > 100, name);
        await close();
      });

      test('every tool that is listed is called and answers', async () => {
        const place = fabric.place();
        const { known, peer, close: close_others } = await counterparts(place);
        const me = await open(place, era);
        const before = (await me.client.listTools()).tools;
        let listed = [];
        const called = await call_every_tool(async (tool, args) => {
          const result = await me.call(tool, args);
          if (tool === 'register') {
            // With its rights come further tools, which is told.
            await me.heard('tools');
            listed = (await me.client.listTools()).tools;
          }
          return result;
        }, known);
        assert.deepEqual(called, listed.map(tool => tool.name).sort());
        const names = listed.map(tool => tool.name);
        assert.ok(before.every(tool => names.includes(tool.name)) && before.length < listed.length);
        for (const tool of listed) assert.ok(tool.description.length > 20 && tool.inputSchema.type === 'object', tool.name);
        const mail = reply_of(await peer.call('poll_messages')).json.map(m => m.content);
        assert.ok(mail.includes('to one') && mail.includes('to all'), JSON.stringify(mail));
        // An unknown tool is a failed call, an unknown prompt an error of the request.
        assert.equal((await me.call('no_such_tool')).isError, true);
        await assert.rejects(me.client.getPrompt({ name: 'none' }), error => error.code === -32602);
        await me.close();
        await close_others();
      });

      test('news of mail, tasks and sessions are pushed, and who closes has left', async () => {
        const place = fabric.place();
        const me = await member(place, era, 'identity:npm');
        const peer = await member(place, 'sdk', 'identity:npm');
        await me.heard('swarm://instances');
        me.news.length = 0;
        await peer.call('send_message', { recipient: me.id, content: 'hi' });
        await me.heard('swarm://inbox');
        await peer.call('request_task', { type: 'other', title: 'work' });
        await me.heard('swarm://tasks');
        assert.equal(me.news.includes('tools'), false);
        assert.ok((await me.client.readResource({ uri: 'swarm://inbox' })).contents[0].text.includes('"hi"'));
        await peer.close();
        await me.close();
        assert.deepEqual(await place.ctl('instances'), []);
      });

      test('a wait that is cancelled leaves the line', async () => {
        const place = fabric.place();
        const me = await member(place, era, 'identity:npm');
        const peer = await member(place, 'sdk', 'identity:npm');
        await peer.call('lock_file', { file: 'a.txt' });
        const stop = new AbortController();
        const in_line = me.call('lock_acquire', { file: 'a.txt', wait_seconds: 60 }, { signal: stop.signal });
        in_line.catch(() => {});
        // A later call is not held back by it.
        assert.equal(reply_of(await me.call('whoami')).json.id, me.id);
        const waiters = async () => (await place.ctl('locks'))[0].waiters ?? 0;
        await eventually(async () => (await waiters()) === 1, 'this session stands in line');
        stop.abort(new Error('changed my mind'));
        await assert.rejects(in_line, /changed my mind/);
        await eventually(async () => (await waiters()) === 0, 'this session has left the line');
        await peer.call('unlock_file', { file: 'a.txt' });
        assert.equal(reply_of(await me.call('get_file_lock', { file: 'a.txt' })).json.active, null);
        for (const session of [me, peer]) await session.close();
      });

      test('a wait says that it goes on, and ends with its cancellation', async () => {
        const place = fabric.place();
        const me = await member(place, era, 'identity:npm');
        const stop = new AbortController();
        const heard = [];
        const idle = me.call('wait_for_activity', { timeout_seconds: 60 }, { signal: stop.signal, onprogress: p => heard.push(p) });
        idle.catch(() => {});
        await eventually(() => heard.length > 1, 'the wait says that it goes on');
        assert.ok(heard[0].progress >= server_wait_ms / 4000 - 0.5 && heard[1].progress > heard[0].progress, JSON.stringify(heard));
        stop.abort(new Error('enough'));
        await assert.rejects(idle, /enough/);
        // So does any other call, and a client that gives up what it does not hear of goes on with it.
        const peer = await member(place, 'sdk', 'identity:npm');
        await peer.call('lock_file', { file: 'a.txt' });
        const patience = { timeout: server_wait_ms / 2, resetTimeoutOnProgress: true };
        let words = 0;
        const in_line = me.call('lock_acquire', { file: 'a.txt', wait_seconds: 60 }, { ...patience, onprogress: () => { words += 1; } });
        in_line.catch(() => {});
        await eventually(() => words > 3, 'the wait in line says that it goes on');
        await peer.call('unlock_file', { file: 'a.txt' });
        assert.equal(reply_of(await in_line).json.ok, true);
        await peer.close();
        // Nothing waits any more that would be told of this.
        assert.equal(reply_of(await me.call('wait_for_activity', { timeout_seconds: 1 })).json.timeout, true);
        await me.close();
      });
    });
  }

  test('2.x finds out by itself that the stateless protocol is spoken', async () => {
    const client = new Client({ name: 'auto', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StdioClientTransport(fabric.place().server()));
    assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
    await client.close();
  });
});
