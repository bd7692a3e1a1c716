// The page as it is shipped: texts complete, two builds the same to the bit, small, and without what its policy forbids.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { faults, keysAsked, keysHeld, variablesOf } from '../../build/fluent-keys.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const JS_GZIP_MAX = 60_000;
const JS_LATER_GZIP_MAX = 54_000;
const LANGUAGE_GZIP_MAX = 20_000;

type Files = Map<string, Buffer>;
const folders: string[] = [];
let first: Files;
let second: Files;

async function built(): Promise<Files> {
  const folder = mkdtempSync(join(tmpdir(), 'mezza-page-'));
  folders.push(folder);
  await build({ root: ROOT, configFile: join(ROOT, 'vite.config.ts'), logLevel: 'error', mode: 'production', build: { outDir: folder } });
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(names.map((entry) => join(entry.parentPath, entry.name)).sort().map((path) => [path.slice(folder.length), readFileSync(path)]));
}

const ofKind = (files: Files, end: string): [string, string][] => [...files].filter(([name]) => name.endsWith(end)).map(([name, bytes]) => [name, bytes.toString()]);

beforeAll(async () => {
  const kept = process.env['NODE_ENV'];
  process.env['NODE_ENV'] = 'production';
  first = await built();
  second = await built();
  process.env['NODE_ENV'] = kept;
});

afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

describe('texts', () => {
  test('every text asked for is there, none is kept for nothing', () => {
    expect(faults(ROOT)).toEqual([]);
  });

  test('the check sees a missing text, a computed key and a double one', () => {
    expect(keysAsked("t('one') + t( 'two', { a: 1 }) + at('no')", 'a.svelte')).toEqual(['one', 'two']);
    expect(() => keysAsked('t(`state-${state}`)', 'a.svelte')).toThrow(/literal/);
    expect([...variablesOf('a = { $x } { $y }\nb = { $n ->\n    [1] one\n   *[other] { $n } of { $m }\n}\n')]).toEqual([['a', 'x y'], ['b', 'm n']]);
    expect(keysHeld('one = 1\n# two = 2\nthree =\n    many lines\n')).toEqual(['one', 'three']);
  });
});

describe('build', () => {
  test('two builds are the same to the bit', () => {
    const sums = (files: Files): string[] => [...files].map(([name, bytes]) => `${name} ${createHash('sha256').update(bytes).digest('hex')}`);
    expect(sums(second)).toEqual(sums(first));
    expect(first.size).toBeGreaterThanOrEqual(4);
  });

  test('the JavaScript of the first screen is at most 60 kB gzip', () => {
    const scripts = ofKind(first, '.js');
    const [[, html] = ['', '']] = ofKind(first, '.html');
    const named = (text: string): string[] => scripts.filter(([name]) => text.includes(name.slice(name.lastIndexOf('/') + 1))).map(([name]) => name);
    // A script names those that it needs at once in the import statements at its beginning.
    const needed = new Set<string>();
    const open = named(html);
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      if (needed.has(name)) continue;
      needed.add(name);
      const text = scripts.find(([other]) => other === name)?.[1] ?? '';
      open.push(...named(/^(?:import[^;(]*;)*/.exec(text)?.[0] ?? ''));
    }
    const sum = (some: [string, string][]): number => some.reduce((all, [, text]) => all + gzipSync(text, { level: 9 }).length, 0);
    const now = sum(scripts.filter(([name]) => needed.has(name)));
    const isTexts = ([name]: [string, string]): boolean => /\/fa-[^/]*\.js$/.test(name);
    const texts = sum(scripts.filter(isTexts));
    const later = sum(scripts.filter((one) => !needed.has(one[0]) && !isTexts(one)));
    console.log(`JavaScript: ${now} B gzip at once, ${later} B when their screens are opened, ${texts} B for Persian`);
    expect(texts).toBeGreaterThan(1_000);
    expect(texts).toBeLessThanOrEqual(LANGUAGE_GZIP_MAX);
    expect(now).toBeGreaterThan(1_000);
    expect(now).toBeLessThanOrEqual(JS_GZIP_MAX);
    expect(later).toBeGreaterThan(1_000);
    expect(later).toBeLessThanOrEqual(JS_LATER_GZIP_MAX);
  });

  test('no template is parsed from a string, no code made from one', () => {
    for (const [, text] of ofKind(first, '.js')) {
      expect(text).not.toMatch(/\.innerHTML\s*=|insertAdjacentHTML|document\.write|DOMParser|new Function|[^\w.]eval\(/);
    }
  });

  test('the page names its own files only, and no style or script stands in it', () => {
    const [[, html] = ['', '']] = ofKind(first, '.html');
    expect(html).not.toMatch(/<style|style=|\son\w+=|https?:/);
    expect(html).not.toMatch(/<script(?![^>]*\ssrc="\/assets\/)/);
    for (const [, css] of ofKind(first, '.css')) expect(css).not.toMatch(/https?:|data:|@import/);
  });

  test('directions are logical in every style, so that a right-to-left language needs no second sheet', () => {
    const sources = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true }).filter((entry) => /\.(svelte|css)$/.test(entry.name));
    for (const entry of sources) {
      const whole = readFileSync(join(entry.parentPath, entry.name), 'utf8');
      const text = entry.name.endsWith('.css') ? whole : whole.slice(whole.lastIndexOf('<style>'));
      expect(text, entry.name).not.toMatch(/(margin|padding|border)-(left|right|top|bottom)|[;{]\s*(left|right|top|bottom|width|height|(min|max)-(width|height)):|float:/);
    }
  });
});
