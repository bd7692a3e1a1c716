// Texts of the page. `t` takes literal keys only, so that the build can check them (build/fluent-keys.ts).
import { FluentBundle, FluentResource, type FluentVariable } from '@fluent/bundle';
import english from '../i18n/en.ftl?raw';
import { directionOf, language } from './language.ts';

/** Texts of the other languages, loaded when one of them is spoken. English is there from the start. */
const others: Record<string, () => Promise<{ default: string }>> = { fa: () => import('../i18n/fa.ftl?raw') };

// Isolation is done below, where it is needed only: marks around every number would get into what people copy.
const bundleOf = (code: string): FluentBundle => new FluentBundle(code, { useIsolating: false });
const first = bundleOf('en');
first.addResource(new FluentResource(english));
let [bundle, spoken] = [first, 'en'];

/** Takes the texts of a language. */
export function adopt(code: string, texts: string): void {
  [bundle, spoken] = [bundleOf(code), code];
  bundle.addResource(new FluentResource(texts));
}

/** Adds English texts of a screen that is loaded later, so that the first screen stays small. */
export function addEnglish(texts: string): void {
  first.addResource(new FluentResource(texts), { allowOverrides: true });
}

/** Loads the texts of the language that is spoken, and tells the document of it. Without them the page speaks English. */
export async function loadTexts(): Promise<void> {
  const texts = await others[language]?.().catch(() => null);
  if (texts) adopt(language, texts.default);
  document.documentElement.lang = spoken;
  document.documentElement.dir = directionOf(spoken);
}

const TURNS = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Keeps the direction of a value inside the value (Unicode FSI .. PDI). In a text from right to left each one needs that. */
export function isolate(value: FluentVariable): FluentVariable {
  const apart = typeof value === 'string' && (TURNS.test(value) || directionOf(spoken) === 'rtl');
  return apart ? `\u2068${value}\u2069` : value;
}

/** The text of a key. */
export function t(key: string, values: Record<string, FluentVariable> = {}): string {
  const pattern = bundle.getMessage(key)?.value;
  if (!pattern) return key;
  return bundle.formatPattern(pattern, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isolate(value)])));
}
