// The official inspector against `swarmctl mcp`: its one-shot command line, and its daemon that keeps a connection over many commands.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { mkdirSync } from 'node:fs';
import path from 'node:path';

import { call_every_tool } from './every_tool.mjs';
import { Fabric, run, swarmctl } from './fabric.mjs';
import { counterparts } from './sessions.mjs';

const fabric = new Fabric();
after(() => fabric.end());

const clients = path.join(import.meta.dirname, 'node_modules/@modelcontextprotocol/inspector/clients');
/** The inspector hands only few variables on, so the server's are given by name. */
const server_variables = place => Object.entries(place.env).filter(([name]) => name !== 'PATH').flatMap(([k, v]) => ['-e', `${k}=${v}`]);

/** Runs one of its programs; what it printed, which is JSON. */
async function inspector(place, program, args, env = {}) {
  const home = path.join(fabric.base, 'inspector');
  mkdirSync(home, { recursive: true });
  const options = { cwd: place.work, env: { PATH: '/usr/bin:/bin', HOME: home, ...env } };
  const ran = await run(process.execPath, [path.join(clients, program), ...args], options);
  assert.equal(ran.status, 0, `${args.join(' ')}: ${ran.out}${ran.err}`);
  return { ...ran, json: ran.out.trim() ? JSON.parse(ran.out) : null };
}

describe('the inspector', { concurrency: true }, () => {
  const once = (place, ...args) => inspector(place, 'launcher/build/index.js', ['--cli', swarmctl, 'mcp', ...server_variables(place), ...args]);

  test('its command line lists everything, and finds no error in a schema', async () => {
    const place = fabric.place();
    const tools = await once(place, '--method', 'tools/list', '--strict');
    assert.ok(tools.json.tools.length >= 33);
    const { json: { resources } } = await once(place, '--method', 'resources/list');
    assert.ok(resources.some(r => r.uri === 'swarm://inbox'));
    const { json: { resourceTemplates } } = await once(place, '--method', 'resources/templates/list');
    assert.deepEqual(resourceTemplates.map(r => r.uriTemplate), ['swarm://lock{?file}']);
    const { json: { contents } } = await once(place, '--method', 'resources/read', '--uri', 'swarm://tasks');
    assert.equal(contents[0].uri, 'swarm://tasks');
    const { json: { prompts } } = await once(place, '--method', 'prompts/list');
    assert.ok(prompts.some(p => p.name === 'protocol'));
    assert.ok((await once(place, '--method', 'prompts/get', '--prompt-name', 'protocol')).out.includes('wait_for_activity'));
    const registered = await once(place, '--method', 'tools/call', '--tool-name', 'register', '--tool-arg', `directory=${place.work}`);
    assert.equal(JSON.parse(registered.json.content[0].text).scope, place.work);
  });

  // A process for each call takes its time; the other era has had its lists and a call above.
  for (const era of process.env.SWARM_TEST_FULL === '1' ? ['legacy', 'modern'] : ['modern'])
    test(`over one ${era} connection it calls every tool that is listed`, async () => {
      const place = fabric.place();
      const daemon = {
        MCP_INSPECTOR_DAEMON_DIR: path.join(fabric.base, `daemon-${era}`),
        MCP_INSPECTOR_DAEMON_TOKEN: 'a token of this test alone 0123456789',
      };
      const mcpdo = (...args) => inspector(place, 'mcpdo/build/mcp-bin.js', ['--format', 'json', ...args], daemon);
      const { known, close } = await counterparts(place);
      const how = ['--era', era, ...server_variables(place), '--cwd', place.work, '--transport', 'stdio'];
      await mcpdo('connect', ...how, '@swarm', '--', swarmctl, 'mcp');
      try {
        let listed;
        const called = await call_every_tool(async (tool, args) => {
          const { json } = await mcpdo('@swarm', 'tools/call', tool, '--tool-args-json', JSON.stringify(args));
          if (tool === 'register') listed = (await mcpdo('@swarm', 'tools/list')).json.tools;
          return json;
        }, known);
        assert.deepEqual(called, listed.map(t => t.name).sort());
        assert.ok(JSON.stringify((await mcpdo('connections/show', '@swarm')).json).includes(era));
      } finally {
        await mcpdo('daemon', 'stop');
        await close();
      }
    });
});
