// The agents' programs: which package, where its program is, and the files with which its user has set it up, so that it
// starts without questions and talks to the fake model. Nothing here tells it about the fabric: that is what the tests are about.
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const KEY = 'sk-ant-api03-no-real-key-for-tests-only-0000000000';

function put(file, content) {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(file, typeof content === 'string' ? content : `${JSON.stringify(content, null, 2)}\n`);
  chmodSync(file, 0o600);
}

/** Changes a file of settings that prepare() has written. */
function change(file, edit) {
  const settings = JSON.parse(readFileSync(file, 'utf8'));
  edit(settings);
  put(file, settings);
}

const writing = (repository) => ({ tool: 'write', path: join(repository, 'asked.txt'), content: 'asked\n' });

/** Codex asks before it runs a command outside of its sandbox. */
const outside = (cmd) => ({ tool: 'exec_command', input: { cmd, sandbox_permissions: 'require_escalated', justification: 'outside' } });

// name -> {program: path below its directory, npm: further arguments, prepare(home, repository, model), asking, once, hooked}; model is a URL.
// asking is how it comes to ask for permission: {arguments of the program, prepare(home), step(repository): what it asks for, shows: words of the
// question, isSaid: whether its terminal says that it asks, shell: {step(command), shows: words of its question, if it asks, apart: what starts a
// process that outlives the command}}. once(prompt, isSetUp, hasShell) is how a person has it do one thing without a screen, {args, input on stdin}:
// it may use the swarm's tools, if it has them, and write, and with hasShell run what it likes. hooked is what the label of a session says that its
// hooks have registered. isDriven: the fabric drives it in conversations.
export const programs = {
  claude: {
    program: 'node_modules/@anthropic-ai/claude-code-linux-x64/claude',
    npm: [],
    prepare(home, repository, model) {
      put(join(home, '.claude.json'), {
        hasCompletedOnboarding: true,
        hasSeenAutoDefaultNotice: true,
        customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
        projects: { [repository]: { hasTrustDialogAccepted: true } },
      });
      put(join(home, '.claude/settings.json'), {
        env: {
          ANTHROPIC_BASE_URL: model,
          ANTHROPIC_API_KEY: KEY,
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
          DISABLE_AUTOUPDATER: '1',
        },
      });
    },
    asking: {
      arguments: ['--permission-mode', 'default'],
      prepare() {},
      step: writing,
      shows: /Do you want to create/,
      isSaid: true,
      shell: { step: (command) => ({ tool: 'shell', command }), shows: /Do you want to proceed/, apart: '' },
    },
    once: (prompt, isSetUp, hasShell) => ({
      args: ['-p', '--permission-mode', 'acceptEdits', '--allowedTools', ['mcp__swarm', ...(hasShell ? ['Bash'] : [])].join(',')],
      input: prompt,
    }),
    hooked: 'origin:claude-code',
    isDriven: true,
  },
  codex: {
    program: 'node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex',
    npm: [],
    prepare(home, repository, model) {
      put(
        join(home, '.codex/config.toml'),
        `model = "fake-1"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "${model}/v1"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
requires_openai_auth = false

[tui]
screen_reader_detection_done = true
`,
      );
    },
    asking: {
      arguments: [],
      prepare() {},
      step: (repository) => outside(`touch ${join(repository, '../asked.txt')}`),
      shows: /Would you like to run/,
      isSaid: true,
      // In its sandbox no program reaches the node. It ends the process group of a command.
      shell: { step: outside, shows: /Would you like to run/, apart: 'setsid' },
    },
    once: (prompt, isSetUp, hasShell) => ({
      args: ['exec', '--sandbox', hasShell ? 'danger-full-access' : 'workspace-write', ...(isSetUp ? ['-c', 'mcp_servers.swarm.default_tools_approval_mode="approve"'] : []), '-'],
      input: prompt,
    }),
    hooked: 'origin:codex',
  },
  opencode: {
    program: 'node_modules/opencode-linux-x64/bin/opencode',
    npm: [],
    prepare(home, repository, model) {
      put(join(home, '.config/opencode/opencode.json'), {
        model: 'fake/fake-1',
        small_model: 'fake/fake-1',
        enabled_providers: ['fake'],
        autoupdate: false,
        share: 'disabled',
        provider: {
          fake: {
            npm: '@ai-sdk/openai-compatible',
            name: 'fake',
            options: { baseURL: `${model}/v1`, apiKey: 'none' },
            models: { 'fake-1': { name: 'fake-1', limit: { context: 200000, output: 8000 } } },
          },
        },
      });
    },
    asking: {
      arguments: [],
      prepare: (home) => change(join(home, '.config/opencode/opencode.json'), (settings) => (settings.permission = { edit: 'ask' })),
      step: writing,
      shows: /Permission required/,
      isSaid: false,
      shell: { step: (command) => ({ tool: 'shell', command }), apart: '' },
    },
    once: (prompt) => ({ args: ['run'], input: prompt }), // an argument with spaces it would put into quotes
    hooked: 'origin:opencode',
  },
  gemini: {
    program: 'node_modules/.bin/gemini',
    npm: ['--omit=optional'],
    prepare(home, repository, model) {
      put(join(home, '.gemini/settings.json'), {
        security: { auth: { selectedType: 'gemini-api-key' } },
        general: { enableAutoUpdate: false, defaultApprovalMode: 'auto_edit' },
        privacy: { usageStatisticsEnabled: false },
      });
      put(join(home, '.gemini/.env'), `GEMINI_API_KEY=none\nGOOGLE_GEMINI_BASE_URL=${model}\n`);
      put(join(home, '.gemini/trustedFolders.json'), { [repository]: 'TRUST_FOLDER' });
    },
    asking: {
      arguments: [],
      prepare: (home) => change(join(home, '.gemini/settings.json'), (settings) => (settings.general.defaultApprovalMode = 'default')),
      step: writing,
      shows: /Apply this change/,
      isSaid: true,
      shell: { step: (command) => ({ tool: 'shell', command }), shows: /Allow execution of/, apart: '' },
    },
    once: (prompt) => ({ args: ['--approval-mode', 'yolo', '-p', prompt] }),
    hooked: 'origin:gemini',
  },
};
