// Texts of the page. `t` takes literal keys only, so that the build can check them (build/fluent-keys.ts).
import { FluentBundle, FluentResource, type FluentVariable } from '@fluent/bundle';
import english from '../i18n/en.ftl?raw';

const KEY = 'mezza.language';
const texts: Record<string, string> = { en: english };

/** Codes of the languages that the page speaks. */
export const languages = Object.keys(texts);
/** The one it speaks: what was chosen in this browser, else the browser's own if it is one of them, else English. */
export const language = [globalThis.localStorage?.getItem(KEY), globalThis.navigator?.language.split('-')[0]].find((code) => code && code in texts) ?? 'en';

// Isolation is done below, where it is needed only: marks around every number would get into what people copy.
const bundle = new FluentBundle(language, { useIsolating: false });
bundle.addResource(new FluentResource(texts[language] ?? english));

/** Speaks another language from now on: the page begins anew. */
export function speak(code: string): void {
  localStorage.setItem(KEY, code);
  location.reload();
}

const TURNS = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Keeps the direction of a value inside the value (Unicode FSI .. PDI). */
export function isolate(value: FluentVariable): FluentVariable {
  return typeof value === 'string' && TURNS.test(value) ? `\u2068${value}\u2069` : value;
}

/** The text of a key. */
export function t(key: string, values: Record<string, FluentVariable> = {}): string {
  const pattern = bundle.getMessage(key)?.value;
  if (!pattern) return key;
  return bundle.formatPattern(pattern, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isolate(value)])));
}
