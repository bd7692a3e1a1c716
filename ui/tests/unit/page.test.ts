// Groups of notes, addresses in notes, excerpts, moments, and the mesh in words.
import { describe, expect, test } from 'vitest';
import type { Mesh, MeshNode, Note, ObserverEvent } from '../../src/api.ts';
import { LIVES, lifeName, lifeOf, lifeTexts } from '../../src/life.ts';
import { hostOf, linkParts } from '../../src/links.ts';
import { confirmed, meshReasons } from '../../src/mesh.ts';
import { lastNoteMoment, moments, notesOf } from '../../src/moments.ts';
import { rows } from '../../src/order.ts';
import { href, parse } from '../../src/route.ts';
import { excerpt } from '../../src/search.ts';
import { clockText, dayStart } from '../../src/time.ts';
import { changeText, stateText } from '../../src/words.ts';

const MINUTE_MS = 60_000;
const note = (changes: Partial<Note> = {}): Note => ({
  id: '1', contact: '1', incoming: false, kind: 'text', text: 'a', sent_ms: 0, at_ms: 0, state: 'delivered', why: null,
  words: '', carrier: 'relay', level: 1, pin: 1, facts: [], due_ms: null, mark: null, ...changes,
});

describe('web_22 groups', () => {
  const folded = (notes: Note[]): boolean[] => rows(notes).map((row) => row.folded);

  test('notes of one side and one minute share the last status line', () => {
    expect(folded([note(), note({ at_ms: 1 }), note({ at_ms: MINUTE_MS - 1 }), note({ at_ms: MINUTE_MS })])).toEqual([true, true, false, false]);
    expect(folded([note(), note({ incoming: true, state: 'received' }), note()])).toEqual([false, false, false]);
  });

  test('nothing that is proven of a note is hidden behind another one', () => {
    const others: Partial<Note>[] = [{ state: 'read' }, { carrier: 'mixnet' }, { level: 2 }, { why: 'budget' }, { words: 'another' }, { pin: 2 }];
    for (const other of others) expect(folded([note(), note(other)])).toEqual([false, false]);
    expect(folded([note({ mark: { what: 'lost', words: '' } }), note()])).toEqual([false, false]);
  });

  test('a path stands at the end of its group where it differs from the group before', () => {
    const paths = rows([note(), note({ at_ms: 1 }), note({ at_ms: 2, incoming: true }), note({ at_ms: 3, carrier: 'mixnet' }), note({ at_ms: 4, carrier: 'mixnet' })]);
    expect(paths.map((row) => row.new_path)).toEqual([true, true, false, true, true]);
  });
});

describe('web_23 addresses', () => {
  const found = (text: string): string[] => linkParts(text).filter((part) => part.link).map((part) => part.text);

  test('an address ends before the punctuation of its sentence', () => {
    expect(found('See https://a.example/x?y=1, or (http://b.example/c_(d)).')).toEqual(['https://a.example/x?y=1', 'http://b.example/c_(d)']);
    expect(linkParts('no address').map((part) => part.text)).toEqual(['no address']);
    const text = 'x https://a.example y http://b.example!';
    expect(linkParts(text).map((part) => part.text).join('')).toBe(text);
  });

  test('what hides its host is text', () => {
    for (const text of ['https://bank.example@evil.example/', 'javascript:alert(1)', 'https://', `https://a.example/${'x'.repeat(3_000)}`, 'ftp://a.example']) expect(found(text)).toEqual([]);
    expect(found('https://a.example/\u202egnp.exe')).toEqual(['https://a.example/']);
    expect(hostOf('https://\u0430pple.example/')).toBe('xn--pple-43d.example');
  });
});

describe('web_25 search', () => {
  test('an excerpt shows the match and what stands around it', () => {
    expect(excerpt('The old Oak', 'oak')).toEqual({ before: 'The old ', match: 'Oak', after: '' });
    const long = excerpt(`${'a '.repeat(100)}needle${' b'.repeat(100)}`, 'NEEDLE');
    expect([long.before.startsWith('…'), long.match, long.after.endsWith('…')]).toEqual([true, 'needle', true]);
    expect(excerpt('\u202eevil', 'evil').before).toBe('');
    expect(excerpt('İstanbul', 'stan').match).toBe('');
  });

  test('a place in a thread survives its address, and a day that is none is none', () => {
    for (const hash of ['#/c/12/note/345', '#/c/12/day/2026-11-21', '#/search', '#/search/12', '#/mesh']) expect(href(parse(hash))).toBe(hash);
    expect(parse('#/c/12/day/tomorrow')).toEqual({ screen: 'thread', contact: '12', about: false });
    expect(dayStart('2026-11-21')).toBe(new Date(2026, 10, 21).getTime());
    for (const day of ['2026-02-30', '2026-13-01', '']) expect(dayStart(day)).toBeNull();
  });
});

describe('web_22 moments', () => {
  const sight = (n: number, at_ms: number): ObserverEvent => ({ n, at_ms, who: 'relay', direction: 'in', bytes: 1, hex: '00', fields: [] });

  test('the observer opens on the newest moment with a note', () => {
    const found = moments([sight(1, 10_000), sight(2, 20_000), sight(3, 30_000)]);
    expect(lastNoteMoment(found, [note({ at_ms: 20_100 })])?.first).toBe(2);
    expect(lastNoteMoment(found, [])?.first).toBe(3);
    expect(lastNoteMoment([], [])).toBeUndefined();
    expect(found[1] && notesOf(found[1], [note({ at_ms: 20_100 }), note({ at_ms: 31_000 })])).toHaveLength(1);
  });
});

describe('web_26 mesh', () => {
  const node: MeshNode = {
    network: 'n', closed: false, links: ['eth0'], cur: 1, within_ms: 2_500, moved_ms: 0, trusted_ms: null, elsewhere_ms: null, other_day: null, other_devices: null,
    state: 'agreed', grade: 'fair', around: 2, live: 0, store_bytes: 0, carried: 0, carried_bytes: 0, bytes_in: 0, bytes_out: 0, neighbours: [],
  };
  const mesh = (changes: Partial<MeshNode>, has_keys = true): Mesh => ({ on: true, life: 'minute', has_keys, trouble: null, node: { ...node, ...changes } });

  test('a clock is confirmed by the system or by the neighbours', () => {
    expect([confirmed(node), confirmed({ grade: 'good', state: 'alone' }), confirmed({ grade: 'poor', state: 'seeking' })]).toEqual([true, true, false]);
  });

  test('each reason why notes wait has its words', () => {
    expect(meshReasons(mesh({}))).toEqual([]);
    const wrong = mesh({ links: [], around: 0, state: 'alone', elsewhere_ms: -90_000, other_day: 20_000, other_devices: 1 }, false);
    expect(new Set(meshReasons(wrong)).size).toBe(6);
  });

  test('each life has its name and its risk, and an unknown one is shown as the node calls it', () => {
    expect(LIVES.map(lifeOf)).toEqual(LIVES);
    expect([lifeOf(''), lifeOf('a week')]).toEqual([null, null]);
    expect(new Set(LIVES.map(lifeName)).size).toBe(3);
    expect(new Set(LIVES.map((life) => lifeTexts(life)?.risks)).size).toBe(3);
    expect([lifeName('a-week'), lifeTexts('a-week')]).toEqual(['a-week', null]);
    const change = { at_ms: 0, own: true, what: 'life' as const, number: null };
    expect(changeText({ ...change, names: ['half-day'] }, 'Bob')).toBe('You set how long your notes travel in the mesh: at most 1 day');
    expect(changeText({ ...change, names: [] }, 'Bob')).toBe('Your notes travel in the mesh for as long as this device is set to');
  });

  test('a carried note says by how many it is announced, and when it ends by this clock', () => {
    const end = new Date(2026, 10, 21, 14, 30).getTime();
    expect(stateText(note({ state: 'carried', announced: 3, carried_until_ms: end }))).toBe(`carried, announced by 3 neighbours, expires ${clockText(end)}`);
    expect(clockText(end)).toBe('14:30');
    expect(stateText(note({ state: 'carried', announced: 1 }))).toBe('carried, announced by one neighbour');
  });
});
