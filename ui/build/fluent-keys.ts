// Compares the texts the page asks for with the texts i18n/*.ftl holds. A key that is missing, or kept for nothing,
// fails the build. So that this can be seen without running the page, `t` takes a literal key only.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

const ASKED = /(?<![\w.])t\(\s*'([a-z][a-z0-9-]*)'/g;
const COMPUTED = /(?<![\w.])t\((?!\s*')/;

/** Keys used in one source text; throws when a key is computed. */
export function keysAsked(source: string, file: string): string[] {
  if (!file.endsWith('fluent.ts') && COMPUTED.test(source)) {
    throw new Error(`${file}: t() takes a literal key in single quotes`);
  }
  return [...source.matchAll(ASKED)].map((found) => found[1] ?? '');
}

/** Message keys that a Fluent file defines. */
export function keysHeld(ftl: string): string[] {
  return [...ftl.matchAll(/^([a-z][a-z0-9-]*)\s*=/gm)].map((found) => found[1] ?? '');
}

/** Variables of each message of a Fluent file. */
export function variablesOf(ftl: string): Map<string, string> {
  const messages = ftl.split(/^(?=[a-z][a-z0-9-]*\s*=)/m);
  return new Map(messages.map((text) => [keysHeld(text)[0] ?? '', [...new Set([...text.matchAll(/\{\s*\$([a-z_]+)/g)].map((found) => found[1] ?? ''))].sort().join(' ')]));
}

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /\.(svelte|ts)$/.test(entry.name) ? [path] : [];
  });
}

/** What is wrong between the sources and every language, one sentence each; empty when all is well. */
export function faults(root: string): string[] {
  const asked = new Set(sources(join(root, 'src')).flatMap((path) => keysAsked(readFileSync(path, 'utf8'), path)));
  // A language may have several files: texts of a screen that is loaded later stand apart.
  const files = readdirSync(join(root, 'i18n')).filter((name) => name.endsWith('.ftl'));
  const languages = [...new Set(files.map((name) => name.split(/[-.]/)[0] ?? ''))];
  const textOf = (language: string): string =>
    files.filter((name) => name.split(/[-.]/)[0] === language).map((name) => readFileSync(join(root, 'i18n', name), 'utf8')).join('\n');
  const first = variablesOf(textOf('en'));
  return languages.flatMap((name) => {
    const text = textOf(name);
    const held = keysHeld(text);
    const set = new Set(held);
    return [
      ...[...asked].filter((key) => !set.has(key)).map((key) => `${name} lacks the text ${key}`),
      ...held.filter((key) => !asked.has(key)).map((key) => `${name} holds ${key}, which nothing shows`),
      ...[...variablesOf(text)].filter(([key, variables]) => first.has(key) && first.get(key) !== variables).map(([key]) => `${name} has other variables in ${key} than en`),
      ...held.filter((key, at) => held.indexOf(key) !== at).map((key) => `${name} defines ${key} twice`),
    ];
  });
}

/** Vite plugin: stops the build when a text is missing. */
export function fluentKeys(root: string): Plugin {
  return {
    name: 'fluent-keys',
    apply: 'build',
    buildStart() {
      const wrong = faults(root);
      if (wrong.length > 0) this.error(wrong.join('\n'));
    },
  };
}
