// The mixnet in numbers and words: what it takes to carry so many bytes, and how much of its promise is used.
import type { Budget, CarrierView, Leaving, Mixnet, NoiseGrade, Offer, Promised } from './api.ts';
import { TEXT_BYTES_MAX } from './bytes.ts';
import { t } from './fluent.ts';
import { language } from './language.ts';
import { carrierText } from './words.ts';

/** Bytes that one cell carries; a client sends one cell in each round. */
export const CELL_BYTES = 225;
/** Most cells of one message. */
export const CELLS_MAX = 40;
/** What a message puts in front of its bytes. */
const LENGTH_BYTES = 2;
/** Most bytes of one message. */
export const MESSAGE_BYTES_MAX = CELL_BYTES * CELLS_MAX - LENGTH_BYTES;
/** The page asks for the state of the rounds no more often than this, ms. */
const ASK_MS = 1_000;
/** From this part of the budget on the person is told. */
const NEAR = 0.8;

type Unit = 'second' | 'minute' | 'hour' | 'day' | 'byte' | 'kilobyte' | 'megabyte' | 'gigabyte';

function counted(value: number, unit: Unit, digits = 0): string {
  const unitDisplay = unit === 'kilobyte' || unit === 'megabyte' || unit === 'gigabyte' ? 'short' : 'long';
  return new Intl.NumberFormat(language, { style: 'unit', unit, unitDisplay, maximumFractionDigits: digits }).format(value);
}

/** 9,001 bytes, 24.5 kB, 2.4 MB. */
export function sizeText(bytes: number): string {
  if (bytes < 1e4) return counted(bytes, 'byte');
  if (bytes < 1e6) return counted(bytes / 1e3, 'kilobyte', 1);
  return bytes < 1e9 ? counted(bytes / 1e6, 'megabyte', 1) : counted(bytes / 1e9, 'gigabyte', 1);
}

/** A time in the unit that people would take, rounded up. */
export function durationText(ms: number): string {
  const steps: [Unit, number, number][] = [['second', 1e3, 90], ['minute', 6e4, 90], ['hour', 36e5, 48]];
  for (const [unit, each, most] of steps) if (ms <= each * most) return counted(Math.ceil(ms / each), unit);
  return counted(Math.ceil(ms / 864e5), 'day');
}

/** From one round to the next: 0.5 seconds. */
export function intervalText(ms: number): string {
  return counted(ms / 1e3, 'second', 3);
}

/** Cells for so many bytes, in as many messages as they need. */
export function cells(bytes: number): number {
  const rest = bytes % MESSAGE_BYTES_MAX;
  return Math.floor(bytes / MESSAGE_BYTES_MAX) * CELLS_MAX + (rest > 0 ? Math.ceil((rest + LENGTH_BYTES) / CELL_BYTES) : 0);
}

/** Most bytes that a carrier takes at once. */
export function maxBytes(carrier: CarrierView): number {
  return carrier.piece_bytes * carrier.pieces_max - (carrier.carrier === 'mixnet' ? LENGTH_BYTES : 0);
}

/** Whether a text is too big for every carrier that may take it. The offers say what it measures once it is sealed. */
export function tooBig(bytes: number, allowed: CarrierView[], offers: Offer[]): boolean {
  if (bytes > TEXT_BYTES_MAX) return true;
  const pieces = (one: CarrierView): number => offers.find((offer) => offer.carrier === one.carrier)?.pieces ?? 1;
  // Written so that a number which is missing refuses nothing: then the node decides.
  return allowed.length > 0 && allowed.every((one) => bytes > maxBytes(one) || pieces(one) > one.pieces_max);
}

/** What so many bytes would take over the mixnet, and which carriers take them at all. */
export function carriageText(bytes: number, interval_ms: number | null, allowed: CarrierView[]): string {
  const count = cells(bytes);
  const fitting = new Set(allowed.filter((one) => bytes <= maxBytes(one)).map((one) => carrierText(one.carrier)));
  return [
    interval_ms === null
      ? t('carriage-unknown', { cells: count, bytes: CELL_BYTES })
      : t('carriage', { cells: count, bytes: CELL_BYTES, time: durationText(count * interval_ms) }),
    t('carriage-limits', { text: TEXT_BYTES_MAX, cells: CELLS_MAX, message: MESSAGE_BYTES_MAX }),
    fitting.size > 0 ? t('carriage-fits', { carriers: [...fitting].join(', ') }) : t('carriage-none'),
  ].join(' ');
}

/** Name and size of files that somebody wants to send. */
export function filesText(files: readonly { name: string; size: number }[]): string {
  const size = sizeText(files.reduce((sum, file) => sum + file.size, 0));
  const [first] = files;
  return files.length === 1 && first ? t('file-refused', { name: first.name.slice(0, 80), size }) : t('files-refused', { count: files.length, size });
}

/** Law, mean and scale of the noise. A law that this page does not know is shown as the node calls it. */
export function noiseText(net: Pick<Mixnet, 'law' | 'noise'>): string {
  if (!net.noise) return t('mixnet-unknown');
  const law = net.law === 'gauss' ? t('law-gauss') : net.law === 'paper' ? t('law-paper') : (net.law ?? '?');
  return t('mixnet-noise', { law, mean: net.noise[0], scale: net.noise[1] });
}

/** What the noise does not do where it is below the standard level. */
export function gradeText(grade: NoiseGrade | null): string {
  return grade === 'nothing' ? t('no-promise-why') : grade === 'weak' ? t('weak-noise-why') : '';
}

/** How much of the promise is used, and whether that calls for care. */
export function budget(used: number, max: number | null): { words: string; warn: boolean } {
  if (!max) return { words: t('budget-unlimited', { used }), warn: false };
  if (used >= max) return { words: t('budget-spent', { used, max }), warn: true };
  return { words: t('budget-used', { used, max, part: Math.floor((100 * used) / max) }), warn: used >= NEAR * max };
}

/** What becomes of notes and contacts once the mixnet is left. */
export function leavingText({ elsewhere, waiting, unreachable, guests }: Leaving): string {
  const said = [
    elsewhere > 0 ? t('leave-elsewhere', { count: elsewhere }) : '',
    waiting > 0 ? t('leave-waiting', { count: waiting }) : '',
    unreachable.length > 0 ? t('leave-unreachable', { names: unreachable.map((one) => one.name).join(', ') }) : '',
    guests > 0 ? t('leave-guests', { count: guests }) : '',
    t('leave-kept'),
  ];
  return said.filter((words) => words !== '').join(' ');
}

/** The budgets of all services, one line each, and whether one calls for care. */
export function budgetLines(budgets: Budget[]): { words: string; warn: boolean }[] {
  return budgets.map(({ service, used, max }) => {
    const { words, warn } = budget(used, max);
    const name = service === 'call' ? t('budget-call') : service === 'invitation' ? t('budget-invitation') : t('budget-conversation');
    return { words: `${name}: ${words}`, warn };
  });
}

/** Against which stories the budget holds; nothing where it holds against none. */
export function storyText({ likely, idle, other, two_years }: Promised): string[] {
  if (!(idle < 1)) return [];
  const chance = (delta: number): string => (delta < 1 ? t('budget-chance', { one: Math.floor(1 / delta) }) : t('budget-no-promise'));
  return [
    t('budget-idle', { likely: Math.ceil(likely), chance: chance(idle) }),
    t('budget-other', { chance: chance(other) }),
    t('budget-years', { chance: chance(two_years) }),
  ];
}

/** How long the page waits before it asks again: one round, but a second at least. */
export function askAfter(interval_ms: number | null): number {
  return Math.max(ASK_MS, interval_ms ?? 0);
}
