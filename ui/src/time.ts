// Times for people. The language is named, because a POSIX locale makes Intl throw.

const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const exact = new Intl.DateTimeFormat('en', {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
});
const day = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'long', year: 'numeric' });
const short = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short' });

/** 13:05 */
export const clockWords = (ms: number): string => clock.format(ms);
/** 13:05:22.120 */
export const exactWords = (ms: number): string => exact.format(ms);
/** November 21, 2026 */
export const dayWords = (ms: number): string => day.format(ms);

/** 13:05 of today, otherwise the day. */
export function recentWords(ms: number, now_ms: number): string {
  return day.format(ms) === day.format(now_ms) ? clock.format(ms) : short.format(ms);
}
