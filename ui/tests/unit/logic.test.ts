import { describe, expect, test } from 'vitest';
import type { Note, ObserverEvent } from '../../src/api.ts';
import { clientId, fitInto, greyPixels, sendable, textBytes, TEXT_BYTES_MAX } from '../../src/bytes.ts';
import { faultText, Refusal } from '../../src/client.ts';
import { isolate, t } from '../../src/fluent.ts';
import { dump, owners } from '../../src/hexdump.ts';
import { appendEvents, moments, eventsOf, SIGHTS_MAX } from '../../src/moments.ts';
import { compareIds, merge, reaches, renew, upsert } from '../../src/order.ts';
import { href, parse } from '../../src/route.ts';
import { clockText, dayText, exactText, recentText } from '../../src/time.ts';
import { pathText, stateText } from '../../src/words.ts';

const note = (changes: Partial<Note> = {}): Note => ({
  id: '1', contact: '1', incoming: false, kind: 'text', text: 'a', sent_ms: 0, at_ms: 0, state: 'queued', why: null,
  words: 'words of the node', carrier: null, level: null, pin: 1, facts: [], due_ms: null, mark: null, ...changes,
});

describe('state words', () => {
  test('each state says what its evidence proves', () => {
    expect(stateText(note({ state: 'delivered' }))).toBe('on their device');
    expect(stateText(note({ state: 'read' }))).toBe('read');
    expect(stateText(note({ state: 'handed', carrier: 'relay' }))).toBe('the relay took it');
    expect(stateText(note({ state: 'expired' }))).toBe('not confirmed before it expired; it may have arrived');
  });

  test('every reason for waiting has words of its own', () => {
    const reasons = ['sending', 'no_carrier', 'below_pin', 'too_big', 'keys', 'bundle', 'answer', 'box_gone', 'box_full', 'budget', 'slow'];
    const words = reasons.map((why) => stateText(note({ why })));
    expect(new Set(words).size).toBe(reasons.length);
    for (const line of words) expect(line).toMatch(/^waiting: ./);
  });

  test('what a newer node says is shown in its own words, and nothing is called failed', () => {
    expect(stateText(note({ why: 'reason_of_tomorrow' }))).toBe('words of the node');
    expect(stateText(note({ state: 'carried' }))).toBe('words of the node');
    expect(stateText(note({ state: 'handed', carrier: 'mesh' }))).toBe('words of the node');
  });

  test('a path is shown once a carrier has the note', () => {
    expect(pathText(note())).toBeNull();
    expect(pathText(note({ carrier: 'relay', level: 1 }))).toBe('relay, level 1');
    expect(pathText(note({ carrier: 'pigeon', level: null }))).toBe('pigeon');
  });
});

describe('bytes', () => {
  test('a text is measured in bytes of UTF-8', () => {
    expect(textBytes('')).toBe(0);
    expect(textBytes('né')).toBe(3);
    expect(textBytes('🎼')).toBe(4);
    expect(textBytes('\ud800')).toBe(3);
  });

  test('the limit is the protocol’s, to the byte', () => {
    expect(sendable('x'.repeat(TEXT_BYTES_MAX))).toBe(true);
    expect(sendable('x'.repeat(TEXT_BYTES_MAX + 1))).toBe(false);
    expect(sendable(`${'x'.repeat(TEXT_BYTES_MAX - 1)}é`)).toBe(false);
    expect(sendable(' \n\t ')).toBe(false);
  });

  test('a client id is 16 bytes of hex and never the same', () => {
    const ids = Array.from({ length: 100 }, clientId);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set(ids).size).toBe(100);
  });

  test('pixels turn grey, transparent ones white', () => {
    const rgba = new Uint8ClampedArray([0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 255, 0, 0, 0, 0]);
    expect([...greyPixels(rgba)]).toEqual([0, 255, 76, 255]);
  });

  test('a picture is made smaller, never larger', () => {
    expect(fitInto(4000, 2000, 1600)).toEqual({ width: 1600, height: 800 });
    expect(fitInto(100, 50, 1600)).toEqual({ width: 100, height: 50 });
    expect(fitInto(90000, 1, 1600)).toEqual({ width: 1600, height: 1 });
  });
});

describe('threads', () => {
  test('identifiers compare as numbers of any length', () => {
    expect(['10', '9', '100', '99'].sort(compareIds)).toEqual(['9', '10', '99', '100']);
  });

  test('a note is shown once and in its place, its newest state wins', () => {
    const notes = ['2', '9', '11'].map((id) => note({ id }));
    expect(upsert(notes, note({ id: '10' })).map((one) => one.id)).toEqual(['2', '9', '10', '11']);
    const changed = upsert(notes, note({ id: '9', state: 'delivered' }));
    expect(changed.map((one) => one.id)).toEqual(['2', '9', '11']);
    expect(changed[1]?.state).toBe('delivered');
    expect(merge(notes, [note({ id: '1' }), note({ id: '12' })]).map((one) => one.id)).toEqual(['1', '2', '9', '11', '12']);
  });

  test('a late page takes back neither a state nor a note', () => {
    const fact = { what: 'delivered' as const, carrier: 'relay', at_ms: 0, words: '' };
    const held = [note({ id: '2' }), note({ id: '9', state: 'delivered', facts: [fact] }), note({ id: '11' })];
    const late = renew([note({ id: '9', state: 'handed' }), note({ id: '10' })], held);
    expect(late.map((one) => one.id)).toEqual(['9', '10', '11']);
    expect(late[0]?.state).toBe('delivered');
  });

  test('a thread that is read anew is read as far back as it is held', () => {
    const page = [note({ id: '10' }), note({ id: '11' })];
    expect(reaches([note({ id: '9' }), note({ id: '10' })], page)).toBe(true);
    expect(reaches([note({ id: '10' })], page)).toBe(false);
    expect(reaches([], page)).toBe(false);
    expect(reaches([note({ id: '9' })], [])).toBe(false);
  });
});

describe('observer', () => {
  const sight = (n: number, at_ms: number, who: ObserverEvent['who'] = 'relay'): ObserverEvent => ({ n, at_ms, who, direction: 'in', bytes: 0, hex: '', fields: [] });

  test('events that follow closely are one moment, the newest moment first', () => {
    const found = moments([sight(1, 0), sight(2, 300, 'provider'), sight(3, 600), sight(4, 1100)]);
    expect(found.map((one) => one.sights.length)).toEqual([1, 3]);
    expect(found[1] && eventsOf(found[1], 'relay').map((one) => one.n)).toEqual([1, 3]);
  });

  test('a look at the disk belongs to the moment before it, and makes that one no longer', () => {
    const rest = (n: number, at_ms: number): ObserverEvent => ({ ...sight(n, at_ms, 'thief'), direction: 'at rest' });
    const found = moments([sight(1, 0), rest(2, 1000), sight(3, 1100), rest(4, 1200), rest(5, 9000)]);
    expect(found.map((one) => one.sights.map((seen) => seen.n))).toEqual([[5], [3, 4], [1, 2]]);
  });

  test('an event told twice is kept once, and the ring is bounded', () => {
    const held = appendEvents([sight(1, 0), sight(2, 0)], [sight(2, 0), sight(3, 0)]);
    expect(held.map((one) => one.n)).toEqual([1, 2, 3]);
    const many = Array.from({ length: 400 }, (_, n) => sight(n + 10, n));
    expect(appendEvents(held, many)).toHaveLength(SIGHTS_MAX);
  });

  test('bytes keep the name of the most exact field', () => {
    const fields = [{ name: 'frame', value: '', offset: 0, len: 10 }, { name: 'type', value: '', offset: 2, len: 1 }, { name: 'beyond', value: '', offset: 8, len: 99 }];
    expect(owners(10, fields)).toEqual([0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    const [row, second] = dump('4d5a000102030405060708', fields.slice(0, 2), 9);
    expect(row?.runs.map((run) => run.hex)).toEqual(['4d 5a', '00', '01 02 03 04 05']);
    expect(row?.runs[0]?.text).toBe('MZ');
    expect(second?.offset).toBe('0008');
    expect(second?.runs.map((run) => run.field)).toEqual([0, -1]);
    expect(dump('00'.repeat(100), [], 2)).toHaveLength(2);
  });
});

describe('refusals', () => {
  test('a refusal is one sentence that ends with the next step', () => {
    const refusal = new Refusal({ code: 'ticket', title: 'this address was used already', next: '`mezza url` prints a new one', status: 403 });
    expect(faultText(refusal)).toBe('This address was used already; “mezza url” prints a new one');
  });
});

describe('times', () => {
  test('times are read as people read them', () => {
    const noon = new Date(2026, 10, 21, 12, 5, 9, 120).getTime();
    expect([clockText(noon), exactText(noon), dayText(noon)]).toEqual(['12:05', '12:05:09.120', 'November 21, 2026']);
    expect([recentText(noon, noon + 60_000), recentText(noon, noon + 864e5)]).toEqual(['12:05', 'Nov 21']);
  });

  test('a claimed time that is no date breaks nothing', () => {
    for (const ms of [Number.NaN, Infinity, 2 ** 63, -(2 ** 63)]) expect([clockText(ms), dayText(ms), recentText(ms, 0)]).toEqual(['–', '–', '–']);
  });
});

describe('addresses and texts', () => {
  test('a route survives its address', () => {
    for (const hash of ['#/', '#/c/12', '#/c/12/about', '#/add', '#/observer', '#/mixnet', '#/health', '#/requests', '#/settings']) expect(href(parse(hash))).toBe(hash);
  });

  test('an address that means nothing is the list of chats', () => {
    for (const hash of ['', '#', '#t=abc', '#/c/', '#/c/x', '#/c/1x', '#/../etc', '#/nowhere']) expect(parse(hash)).toEqual({ screen: 'chats' });
  });

  test('a value with another direction is kept apart, a plain one is not marked', () => {
    expect(isolate('echo')).toBe('echo');
    expect(isolate('יעל')).toBe('\u2068יעל\u2069');
    expect(isolate('a\u202eb')).toBe('\u2068a\u202eb\u2069');
    expect(t('cost', { carrier: 'relay', level: 1, cost: 'now' })).toBe('relay, level 1: now');
  });
});
