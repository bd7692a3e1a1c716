// The leak experiment of the lab: its lines as they come, and what the meter shows of them.
import type { LeakBegin, LeakFault, LeakLine, LeakOrder, LeakReading, LeakResult } from './api.ts';
import { follow } from './client.ts';
import { t } from './fluent.ts';

/** Most characters of a line; a longer one is none of ours. */
export const LINE_MAX = 16_384;
/** Most readings that are shown of one run. */
export const READINGS_MAX = 4_000;
/** Rows of the table, about. */
const ROWS = 10;

/** One run, as far as it has come. */
export interface Run {
  begin: LeakBegin | null;
  readings: readonly LeakReading[];
  result: LeakResult | null;
  fault: LeakFault | null;
}

export const EMPTY: Run = { begin: null, readings: [], result: null, fault: null };

/** The run after one more line. */
export function taken(run: Run, line: LeakLine): Run {
  switch (line.kind) {
    case 'begin':
      return { ...EMPTY, begin: line };
    case 'reading':
      return run.begin === null || run.readings.length >= READINGS_MAX ? run : { ...run, readings: [...run.readings, line] };
    case 'result':
      return { ...run, result: line };
    case 'fault':
      return { ...run, fault: line };
  }
}

/** Whole lines of a text that comes in pieces, and the rest that waits for its end. */
export function cut(rest: string, piece: string): { lines: string[]; rest: string } {
  const lines = (rest + piece).split('\n');
  const last = lines.pop() ?? '';
  if ([...lines, last].some((line) => line.length > LINE_MAX)) throw new Error(t('leak-garbled'));
  return { lines: lines.filter((line) => line !== ''), rest: last };
}

/** Starts the experiment and gives each of its lines; resolves at its end. */
export async function experiment(order: LeakOrder, signal: AbortSignal, take: (line: LeakLine) => void): Promise<void> {
  const { body } = await follow('/v1/guard/leak', order, signal);
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const piece = await reader?.read();
    if (!piece || piece.done) return;
    const found = cut(rest, piece.value);
    rest = found.rest;
    for (const line of found.lines) take(JSON.parse(line) as LeakLine);
  }
}

const last = (run: Run): LeakReading | undefined => run.readings[run.readings.length - 1];

/** Corners of the line of a run, in a picture of this size: bits stay until the next reading. */
export function corners(run: Run, width: number, height: number): string {
  if (run.begin === null) return '';
  const { handshakes, secret_bits } = run.begin;
  const across = (handshake: number): number => Math.min(1, handshake / Math.max(1, handshakes)) * width;
  const up = (bits: number): number => height - Math.min(1, bits / Math.max(1, secret_bits)) * height;
  let level = height;
  const places = [`0,${height}`];
  for (const { handshake, recovered_bits } of run.readings) {
    const x = across(handshake);
    if (up(recovered_bits) !== level) places.push(`${x},${level}`);
    level = up(recovered_bits);
    places.push(`${x},${level}`);
  }
  return places.join(' ');
}

export interface Row {
  handshake: number;
  /** Bits without and with a guard; null where the run has not come so far. */
  off: number | null;
  on: number | null;
}

/** Both runs at some numbers of handshakes, the last one among them. */
export function rows(off: Run, on: Run): Row[] {
  const seen = Math.max(last(off)?.handshake ?? 0, last(on)?.handshake ?? 0);
  const whole = Math.max(off.begin?.handshakes ?? 0, on.begin?.handshakes ?? 0, seen);
  const step = Math.max(1, Math.ceil(whole / ROWS));
  const at: number[] = [];
  for (let handshake = step; handshake < seen; handshake += step) at.push(handshake);
  if (seen > 0) at.push(seen);
  const bits = (run: Run, handshake: number): number | null =>
    (last(run)?.handshake ?? 0) < handshake ? null : (run.readings.findLast((one) => one.handshake <= handshake)?.recovered_bits ?? 0);
  return at.map((handshake) => ({ handshake, off: bits(off, handshake), on: bits(on, handshake) }));
}

/** How far a run has come, in one line. */
export function standText(run: Run): string {
  if (run.begin === null) return t('leak-not-run');
  const { handshakes, secret_bits } = run.begin;
  return t('leak-stand', { bits: last(run)?.recovered_bits ?? 0, all: secret_bits, seen: last(run)?.handshake ?? 0, count: handshakes });
}

/** What a run has shown, one sentence each; nothing before its end. */
export function resultTexts(run: Run): string[] {
  const [{ begin, result }, reading] = [run, last(run)];
  if (begin === null || result === null || !reading) return [];
  const { hits, handshake, contradictions, recovered_bits } = reading;
  const whole = recovered_bits === begin.secret_bits && result.complete !== null;
  return [
    begin.is_open && whole ? t('leak-complete', { count: result.complete ?? 0, expected: Math.round(begin.expected) }) : t('leak-guesses', { hits, seen: handshake, odds: 2 ** begin.block_bits, contradictions }),
    result.agreed ? t('leak-agreed') : t('leak-disagreed'),
  ];
}

/** The same experiment as a command. */
export const commandText = ({ variant, firewall, seed }: LeakBegin): string => `mezza lab run leak --variant ${variant} --firewall ${firewall} --seed ${seed}`;
