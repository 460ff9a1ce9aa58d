#!/usr/bin/env node
// install.mjs DIRECTORY PROGRAM...   put the pinned program (claude, codex, opencode, gemini) into DIRECTORY/PROGRAM, unless it is there
//
// One directory each: installing one must not change the others. No script of a package is run.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { programs } from './programs.mjs';

const here = dirname(fileURLToPath(import.meta.url));

function install(directory, name) {
  const lock = readFileSync(join(here, 'pinned', name, 'package-lock.json'), 'utf8');
  const target = join(directory, name);
  const stamp = join(target, '.complete');
  const program = join(target, programs[name].program);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock && existsSync(program)) return;
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  cpSync(join(here, 'pinned', name), target, { recursive: true });
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', ...programs[name].npm], {
    cwd: target,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error(`${name} could not be installed`);
  if (!existsSync(program)) throw new Error(`${name} is installed, but there is no ${programs[name].program}`);
  writeFileSync(stamp, lock);
}

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`install.mjs: the agents' programs need Node 20, this is ${process.version}`);
  process.exit(1);
}
const [directory, ...names] = process.argv.slice(2);
if (!directory || names.length === 0 || names.some((name) => !programs[name])) {
  console.error(`usage: install.mjs DIRECTORY PROGRAM...   (${Object.keys(programs).join(', ')})`);
  process.exit(2);
}
try {
  for (const name of names) install(resolve(directory), name);
} catch (error) {
  console.error(`install: ${error.message}`);
  process.exit(1);
}
