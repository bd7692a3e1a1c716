// The part of a text around what was looked for.

const AROUND = 60;
// A character that turns the direction of what follows, or belongs to the sign before it, begins no excerpt.
const TURNING = /[\u202a-\u202e\u2066-\u2069]/gu;

export interface Excerpt {
  before: string;
  match: string;
  after: string;
}

/** What stands around the first match, upper and lower case being the same. Without a match: the beginning of the text. */
export function excerpt(text: string, wanted: string): Excerpt {
  const line = text.replace(TURNING, '').replace(/\s+/gu, ' ');
  const folded = line.toLowerCase();
  // Lower case may have another length: then places do not agree, and no part is marked.
  const at = folded.length === line.length && wanted !== '' ? folded.indexOf(wanted.toLowerCase()) : -1;
  if (at < 0) return { before: cut(line, 0, 2 * AROUND), match: '', after: '' };
  const end = at + wanted.length;
  return {
    before: `${at > AROUND ? '…' : ''}${cut(line, Math.max(0, at - AROUND), at)}`,
    match: line.slice(at, end),
    after: `${cut(line, end, end + AROUND)}${line.length > end + AROUND ? '…' : ''}`,
  };
}

/** A slice that begins and ends with whole characters. */
function cut(text: string, from: number, to: number): string {
  return text.slice(from, to).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
}
