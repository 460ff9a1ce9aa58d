// From the neutral names of steps to the tools that a request offers. Each program names and shapes its own tools.

// neutral tool: [[name of the program's tool, its input from ours], ...], the first that is offered is called.
const OWN = {
  write: [
    ['Write', ({ path, content }) => ({ file_path: path, content })], // Claude Code
    ['write', ({ path, content }) => ({ filePath: path, content })], // OpenCode
    ['write_file', ({ path, content }) => ({ file_path: path, content })], // Gemini CLI
    ['apply_patch', ({ path, content }) => patch(path, content)], // Codex, models that know it
    ['exec_command', ({ path, content }) => ({ cmd: heredoc(path, content) })], // Codex, other models
    ['shell_command', ({ path, content }) => ({ command: heredoc(path, content) })],
  ],
  read: [
    ['Read', ({ path }) => ({ file_path: path })],
    ['read', ({ path }) => ({ filePath: path })],
    ['read_file', ({ path }) => ({ file_path: path })],
    ['exec_command', ({ path }) => ({ cmd: `cat ${quoted(path)}` })],
    ['shell_command', ({ path }) => ({ command: `cat ${quoted(path)}` })],
  ],
  edit: [
    ['Edit', (input) => ({ file_path: input.path, old_string: input.old, new_string: input.new })],
    ['edit', (input) => ({ filePath: input.path, oldString: input.old, newString: input.new })],
    ['replace', (input) => ({ file_path: input.path, old_string: input.old, new_string: input.new, instruction: 'replace' })],
    ['apply_patch', (input) => `*** Begin Patch\n*** Update File: ${input.path}\n@@\n-${input.old}\n+${input.new}\n*** End Patch\n`],
    ['exec_command', (input) => ({ cmd: update(input) })],
    ['shell_command', (input) => ({ command: update(input) })],
  ],
  shell: [
    ['Bash', ({ command }) => ({ command, description: 'a step' })],
    ['bash', ({ command }) => ({ command, description: 'a step' })],
    ['run_shell_command', ({ command }) => ({ command, description: 'a step' })],
    ['exec_command', ({ command }) => ({ cmd: command })],
    ['shell_command', ({ command }) => ({ command })],
  ],
};

function patch(path, content) {
  const lines = content.replace(/\n$/, '').split('\n');
  return `*** Begin Patch\n*** Add File: ${path}\n${lines.map((line) => `+${line}\n`).join('')}*** End Patch\n`;
}

function heredoc(path, content) {
  return `apply_patch <<'EOF'\n${patch(path, content)}EOF`;
}

function update({ path, old, new: fresh }) {
  return `apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: ${path}\n@@\n-${old}\n+${fresh}\n*** End Patch\nEOF`;
}

function quoted(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * The call of a step, {name, namespace?, input}, or undefined when no offered tool fits. `offered` is [{name, namespace?}].
 * `swarm.X` is the tool X of the MCP server "swarm", whatever the program makes of its name; other names are first those of
 * the table above, then taken as they are.
 */
export function resolveStep(step, offered) {
  const found = (test) => offered.find(test);
  const swarm = /^swarm\.(.+)$/.exec(step.tool);
  if (swarm) {
    const tool = found(
      ({ name, namespace }) =>
        (namespace !== undefined && /swarm/.test(namespace) && name === swarm[1]) ||
        name === `mcp__swarm__${swarm[1]}` ||
        name === `mcp_swarm_${swarm[1]}` ||
        name === `swarm__${swarm[1]}` ||
        name === `swarm_${swarm[1]}`,
    );
    return tool && { ...tool, input: step.input };
  }
  for (const [name, shape] of OWN[step.tool] ?? []) {
    const tool = found((candidate) => candidate.name === name);
    if (tool) return { ...tool, input: shape(step.input) };
  }
  const tool = found(({ name }) => name === step.tool);
  return tool && { ...tool, input: step.input };
}
