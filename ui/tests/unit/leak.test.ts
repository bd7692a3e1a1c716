// The leak meter: lines of the experiment, its picture, its table and its words.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import type { LeakBegin, LeakLine, LeakReading } from '../../src/api.ts';
import { addEnglish } from '../../src/fluent.ts';
import { commandText, corners, cut, EMPTY, LINE_MAX, READINGS_MAX, resultTexts, rows, type Run, standText, taken } from '../../src/leak.ts';

beforeAll(() => addEnglish(readFileSync(new URL('../../i18n/en-guard.ftl', import.meta.url), 'utf8')));

const begin: LeakBegin = { variant: 'dh', group: 'ristretto255', element: 'A', firewall: 'none', is_open: true, secret_bits: 128, block_bits: 8, handshakes: 200, expected: 54.09, seed: 7 };
const reading = (handshake: number, recovered_bits: number, over: Partial<LeakReading> = {}): LeakReading => ({ handshake, recovered_bits, read_bits: 128, hits: 0, contradictions: 0, ...over });
const runOf = (over: Partial<LeakBegin>, readings: LeakReading[], ...rest: LeakLine[]): Run =>
  [...readings.map((one): LeakLine => ({ kind: 'reading', ...one })), ...rest].reduce(taken, taken(EMPTY, { kind: 'begin', ...begin, ...over }));

describe('lines', () => {
  test('a line may come in pieces, and several in one', () => {
    expect(cut('', '{"a"')).toEqual({ lines: [], rest: '{"a"' });
    expect(cut('{"a"', ':1}\n\n{"b":2}\n{')).toEqual({ lines: ['{"a":1}', '{"b":2}'], rest: '{' });
  });

  test('a line without end is refused before it fills the memory', () => {
    expect(() => cut('x'.repeat(LINE_MAX), 'x')).toThrow(/does not know/);
    expect(() => cut('', `${'x'.repeat(LINE_MAX + 1)}\n`)).toThrow(/does not know/);
    expect(cut('', 'x'.repeat(LINE_MAX)).rest.length).toBe(LINE_MAX);
  });

  test('a reading before the beginning counts for nothing, and readings have a bound', () => {
    expect(taken(EMPTY, { kind: 'reading', ...reading(1, 8) })).toBe(EMPTY);
    let run = taken(EMPTY, { kind: 'begin', ...begin });
    for (let at = 1; at <= READINGS_MAX + 5; at += 1) run = taken(run, { kind: 'reading', ...reading(at, 8) });
    expect(run.readings.length).toBe(READINGS_MAX);
  });
});

describe('the picture', () => {
  test('bits stay until the next reading, and nothing leaves the frame', () => {
    expect(corners(EMPTY, 400, 160)).toBe('');
    expect(corners(runOf({}, [reading(50, 64), reading(100, 64), reading(200, 128)]), 400, 160)).toBe('0,160 100,160 100,80 200,80 400,80 400,0');
    expect(corners(runOf({ handshakes: 0, secret_bits: 0 }, [reading(9, 500)]), 400, 160)).toBe('0,160 400,160 400,0');
  });
});

describe('the table', () => {
  const off = runOf({}, Array.from({ length: 200 }, (_, at) => reading(at + 1, Math.min(128, 8 * at))));

  test('it has about ten rows, the last handshake among them', () => {
    expect(rows(EMPTY, EMPTY)).toEqual([]);
    expect(rows(off, EMPTY).map((row) => row.handshake)).toEqual([20, 40, 60, 80, 100, 120, 140, 160, 180, 200]);
    expect(rows(off, EMPTY)[0]).toEqual({ handshake: 20, off: 128, on: null });
  });

  test('where a run has not come so far it has no value', () => {
    const on = runOf({ firewall: 'fw', is_open: false }, [reading(1, 0), reading(25, 8)]);
    expect(rows(off, on).slice(0, 3).map((row) => row.on)).toEqual([0, null, null]);
    expect(rows(EMPTY, on)).toEqual([{ handshake: 20, off: null, on: 0 }, { handshake: 25, off: null, on: 8 }]);
  });
});

describe('the words', () => {
  test('a run says how far it has come', () => {
    expect(standText(EMPTY)).toBe('not run yet');
    expect(standText(runOf({}, []))).toBe('0 of 128 bits recovered, 0 of 200 handshakes seen');
    expect(standText(runOf({}, [reading(12, 40)]))).toBe('40 of 128 bits recovered, 12 of 200 handshakes seen');
  });

  test('there is no result before the end', () => {
    expect(resultTexts(runOf({}, [reading(200, 128)]))).toEqual([]);
    expect(resultTexts(runOf({}, [], { kind: 'result', agreed: true, complete: null }))).toEqual([]);
  });

  test('without a guard the secret is complete, with one readings are guesses', () => {
    const [all] = resultTexts(runOf({}, [reading(200, 128)], { kind: 'result', agreed: true, complete: 59 }));
    expect(all).toBe('Every bit was read after 59 handshakes. On average 54 are needed.');
    const guarded = runOf({ firewall: 'fw', is_open: false }, [reading(200, 8, { hits: 1, contradictions: 184 })], { kind: 'result', agreed: true, complete: 61 });
    expect(resultTexts(guarded)[0]).toBe('1 of 200 readings are right. A guess is right once in 256. Readings that contradict an earlier one: 184.');
  });

  test('all blocks read wrong are no complete secret, whatever the lab says of the firewall', () => {
    const wrong = runOf({}, [reading(200, 0, { hits: 0 })], { kind: 'result', agreed: false, complete: 61 });
    expect(resultTexts(wrong)).toEqual([expect.stringMatching(/^0 of 200 readings/), expect.stringMatching(/bug of ours/)]);
  });

  test('the command is the experiment that was run', () => {
    expect(commandText({ ...begin, firewall: 'full', variant: 'dh-comm', seed: 4_294_967_295 })).toBe('mezza lab run leak --variant dh-comm --firewall full --seed 4294967295');
  });
});
