// The language of the page: what was chosen in this browser, else the browser's own if the page speaks it, else English.

const KEY = 'mezza.language';

/** Codes of the languages that the page speaks. */
export const languages = ['en', 'fa'];
/** Those that are written from right to left. */
const FROM_RIGHT = ['fa'];

/** The one that it speaks now. */
export const language =
  [globalThis.localStorage?.getItem(KEY), globalThis.navigator?.language.split('-')[0]].find((code) => code && languages.includes(code)) ?? 'en';

/** The direction in which a language is written. */
export const directionOf = (code: string): 'ltr' | 'rtl' => (FROM_RIGHT.includes(code) ? 'rtl' : 'ltr');

/** Speaks another language from now on: the page begins anew. */
export function speak(code: string): void {
  localStorage.setItem(KEY, code);
  location.reload();
}
