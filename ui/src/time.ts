// Times for people. The language is named, because a POSIX locale makes Intl throw. A time may be what somebody else
// claims: whatever is no date is shown as unknown and breaks nothing.
import { language } from './language.ts';

const MS_MAX = 8.64e15;

function shown(options: Intl.DateTimeFormatOptions): (ms: number) => string {
  const format = new Intl.DateTimeFormat(language, options);
  return (ms) => (Math.abs(ms) <= MS_MAX ? format.format(ms) : '–');
}

/** 13:05 */
export const clockText = shown({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
/** 13:05:22.120 */
export const exactText = shown({ hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' });
/** November 21, 2026 */
export const dayText = shown({ day: 'numeric', month: 'long', year: 'numeric' });
const short = shown({ day: 'numeric', month: 'short' });

/** 13:05 of today, otherwise the day. */
export function recentText(ms: number, now_ms: number): string {
  return dayText(ms) === dayText(now_ms) ? clockText(ms) : short(ms);
}

/** The first moment of a day like 2026-11-21 by the clock of this machine, ms; null for what is no day. */
export function dayStart(day: string): number | null {
  const [year, month, date] = day.split('-').map(Number);
  if (year === undefined || month === undefined || date === undefined) return null;
  const start = new Date(year, month - 1, date);
  return start.getMonth() === month - 1 && start.getDate() === date ? start.getTime() : null;
}
