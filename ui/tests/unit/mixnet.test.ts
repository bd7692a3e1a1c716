// What a mixnet would take for so many bytes, and what is said of it.
import { describe, expect, test } from 'vitest';
import type { CarrierView, Offer } from '../../src/api.ts';
import { TEXT_BYTES_MAX } from '../../src/bytes.ts';
import {
  askAfter, budget, budgetLines, carriageText, cells, CELL_BYTES, CELLS_MAX, durationText, filesText, gradeText, intervalText, leavingText, MESSAGE_BYTES_MAX, noiseText, maxBytes, sizeText, storyText, tooBig,
} from '../../src/mixnet.ts';

const carrier = (name: string, piece_bytes: number, pieces_max: number): CarrierView => ({
  carrier: name, up: true, level: 1, relay: null, delay_ms: 0, delay_p99_ms: 0, piece_bytes, pieces_max, store_h: 0, receipts: true, demo: false, noise_grade: null, hides: [],
});
const relay = carrier('relay', 16_333, 1);
const mixnet = carrier('mixnet', CELL_BYTES, CELLS_MAX);
const offer = (name: string, pieces: number): Offer => ({ carrier: name, fits: true, up: true, level: 1, pieces, cost: '' });

describe('cells', () => {
  test('a message of 40 cells holds 8,998 bytes, and one byte more begins another message', () => {
    expect(MESSAGE_BYTES_MAX).toBe(8_998);
    expect([0, 1, 223, 224, 8_998, 8_999, 17_996].map(cells)).toEqual([0, 1, 1, 2, 40, 41, 80]);
  });

  test('a carrier takes its pieces, the mixnet less two bytes of length', () => {
    expect([maxBytes(relay), maxBytes(mixnet)]).toEqual([16_333, 8_998]);
  });

  test('2.4 MB at half a second a round take an hour and a half', () => {
    expect(cells(2_400_000)).toBe(10_670);
    expect(durationText(10_670 * 500)).toBe('89 minutes');
  });
});

describe('what is refused', () => {
  test('a text is too big when no allowed carrier takes it, to the byte', () => {
    expect(tooBig(TEXT_BYTES_MAX, [relay], [])).toBe(false);
    expect(tooBig(TEXT_BYTES_MAX + 1, [relay, mixnet], [])).toBe(true);
    const small = carrier('mesh', 100, 3);
    expect(tooBig(300, [small], [])).toBe(false);
    expect(tooBig(301, [small], [])).toBe(true);
    expect(tooBig(301, [small, relay], [])).toBe(false);
  });

  test('what counts is the size once it is sealed, as the node offers it', () => {
    expect(tooBig(8_000, [mixnet], [offer('mixnet', 40)])).toBe(false);
    expect(tooBig(8_000, [mixnet], [offer('mixnet', 41)])).toBe(true);
    expect(tooBig(8_000, [mixnet, relay], [offer('mixnet', 41), offer('relay', 1)])).toBe(false);
    expect(tooBig(8_000, [mixnet, relay], [offer('mixnet', 41), offer('relay', 2)])).toBe(true);
  });

  test('where nothing is known of a carrier the node decides', () => {
    expect(tooBig(8_000, [], [])).toBe(false);
    const garbled = { carrier: 'relay', level: 1, up: true, hides: null } as unknown as CarrierView;
    expect(tooBig(8_000, [garbled], [offer('relay', 1)])).toBe(false);
    expect(carriageText(9_000, 500, [garbled])).toMatch(/No carrier/);
  });
});

describe('words', () => {
  test('sizes and times are in the unit that people take', () => {
    expect([0, 1, 9_001, 24_520, 2_400_000, 3e9].map(sizeText)).toEqual(['0 bytes', '1 byte', '9,001 bytes', '24.5 kB', '2.4 MB', '3 GB']);
    expect([1, 90_000, 90_001, 54e5, 54e5 + 1, 48 * 36e5, 48 * 36e5 + 1].map(durationText)).toEqual(['1 second', '90 seconds', '2 minutes', '90 minutes', '2 hours', '48 hours', '3 days']);
    expect([500, 1_000, 5_000].map(intervalText)).toEqual(['0.5 seconds', '1 second', '5 seconds']);
  });

  test('a refused file is named with its size', () => {
    expect(filesText([{ name: 'a.jpg', size: 2_400_000 }])).toBe('Not sent: a.jpg, 2.4 MB');
    expect(filesText([{ name: 'a.jpg', size: 600 }, { name: 'b.jpg', size: 400 }])).toBe('Not sent: 2 files, 1,000 bytes together');
    expect(filesText([{ name: 'x'.repeat(255), size: 1 }])).toBe(`Not sent: ${'x'.repeat(80)}, 1 byte`);
  });

  test('carriage says cells, time, limits and who would take it', () => {
    expect(carriageText(2_400_000, 500, [relay, mixnet])).toBe(
      'Over the mixnet: 10,670 cells of 225 bytes, one in each round, at least 89 minutes. ' +
        'This version sends text only, at most 8,192 bytes in a note; a mixnet message is 40 cells, 8,998 bytes. No carrier of this conversation accepts a text of this size.',
    );
    expect(carriageText(8_999, 5_000, [relay, mixnet])).toMatch(/41 cells .* at least 4 minutes\. .*: relay\.$/);
    expect(carriageText(200, 500, [relay, mixnet, relay])).toMatch(/one cell of .* at least 1 second\. .*: relay, mixnet\.$/);
  });

  test('without a network no time is promised', () => {
    const words = carriageText(2_400_000, null, [relay]);
    expect(words).toMatch(/^Over a mixnet: 10,670 cells of 225 bytes, .* none is joined\./);
    expect(words).not.toMatch(/second|minute|hour|day/);
  });

  test('noise has a law, a mean and a scale', () => {
    expect(noiseText({ law: 'gauss', noise: [40, 6] })).toBe('Gaussian, mean 40, scale 6');
    expect(noiseText({ law: 'paper', noise: [45_710, 6_892] })).toBe('Laplace, mean 45,710, scale 6,892');
    expect(noiseText({ law: 'cauchy', noise: [1, 1] })).toBe('cauchy, mean 1, scale 1');
    expect(noiseText({ law: null, noise: null })).toBe('not known yet');
  });
});

describe('protection', () => {
  test('each grade of noise below the standard level has a text of its own', () => {
    expect(gradeText('nothing')).toContain('promises nothing');
    expect(gradeText('weak')).toContain('below the standard level');
    expect([gradeText('standard'), gradeText(null)]).toEqual(['', '']);
  });
});

describe('leaving', () => {
  const leaving = { link: '', elsewhere: 0, waiting: 0, unreachable: [], guests: 0 };

  test('what becomes of notes and contacts is said, and nothing else', () => {
    expect(leavingText(leaving)).toBe('The used part of the privacy budget is kept, and counts again if you join this mixnet again.');
    const names = [{ id: '1', name: 'Ben' }, { id: '2', name: 'Eve' }];
    expect(leavingText({ ...leaving, elsewhere: 1, waiting: 2, unreachable: names, guests: 1 })).toMatch(
      /^One note that is not delivered goes by the next carrier .* 2 notes wait, .* Nothing is sent to Ben, Eve until .* One invitation of somebody .* is dropped\. The used part/,
    );
  });
});

describe('budget', () => {
  test('it is told from four fifths on, and that it is spent', () => {
    expect(budget(0, 240_000)).toEqual({ words: '0 of 240,000 rounds used (0 %)', warn: false });
    expect(budget(191_999, 240_000)).toEqual({ words: '191,999 of 240,000 rounds used (79 %)', warn: false });
    expect(budget(192_000, 240_000)).toEqual({ words: '192,000 of 240,000 rounds used (80 %)', warn: true });
    expect(budget(239_999, 240_000).words).toContain('(99 %)');
    expect(budget(240_000, 240_000)).toMatchObject({ words: expect.stringContaining('the promise is used up') as string, warn: true });
  });

  test('no limit is no promise', () => {
    for (const max of [null, 0]) expect(budget(12, max)).toEqual({ words: 'None: this network promises nothing (12 rounds taken part in)', warn: false });
  });
});

test('each service has its budget, and one that is spent calls for care', () => {
  const lines = budgetLines([
    { service: 'conversation', used: 12, max: 240_000 },
    { service: 'call', used: 3_500, max: 3_500 },
    { service: 'invitation', used: 0, max: 1_000 },
  ]);
  expect(lines.map((line) => line.warn)).toEqual([false, true, false]);
  expect(lines[0]?.words).toBe('Conversation: 12 of 240,000 rounds used (0 %)');
  expect(lines[1]?.words).toMatch(/^Calls: 3,500 of 3,500 rounds used: the promise is used up/);
});

test('the page asks once a round, and at most once a second', () => {
  expect([null, 500, 1_000, 5_000].map(askAfter)).toEqual([1_000, 1_000, 1_000, 5_000]);
});

describe('stories', () => {
  test('the budget holds against idling, and keeps less against talking with somebody else', () => {
    expect(storyText({ likely: 66.67, idle: 9.998e-5, other: 2.909e-3, two_years: 2.909e-3 })).toEqual([
      'Against “I was idle in these rounds”: what somebody thought 50 % likely becomes at most 67 % likely; it keeps less with a chance of one in 10,002.',
      'Against “I talked with somebody else at other times” twice as many rounds differ; it keeps less with a chance of one in 343.',
      'After two years with spent budgets: it keeps less with a chance of one in 343.',
    ]);
  });

  test('where nothing is kept nothing is said, or that', () => {
    expect(storyText({ likely: 67, idle: 1, other: 1, two_years: 1 })).toEqual([]);
    expect(storyText({ likely: 67, idle: 0.5, other: 1, two_years: 1 })[1]).toMatch(/differ; it promises nothing\.$/);
  });
});
