// Keeping a thread in order while notes arrive twice or late.
import type { Note } from './api.ts';

/** Compares decimal identifiers of any length. */
export function compareIds(left: string, right: string): number {
  return left.length - right.length || (left < right ? -1 : left > right ? 1 : 0);
}

/** The thread with this note in its place: a known one is replaced, never shown twice. */
export function upsert(notes: Note[], note: Note): Note[] {
  const at = notes.findIndex((other) => other.id === note.id);
  if (at >= 0) return notes.with(at, note);
  const before = notes.findLastIndex((other) => compareIds(other.id, note.id) < 0);
  return notes.toSpliced(before + 1, 0, note);
}

/** The same, unless what is held knows more of the note already. */
export function upsertNewer(notes: Note[], note: Note): Note[] {
  const known = notes.find((other) => other.id === note.id);
  return known && known.facts.length > note.facts.length ? notes : upsert(notes, note);
}

/** Whether what is held goes further back than these notes do. */
export function reaches(held: Note[], notes: Note[]): boolean {
  const [oldest, first] = [held[0], notes[0]];
  return oldest !== undefined && first !== undefined && compareIds(oldest.id, first.id) < 0;
}

/** A page of a thread that was asked for some time ago: what events have brought since then stays. */
export function renew(page: Note[], held: Note[]): Note[] {
  const last = page.at(-1)?.id;
  const since = held.filter((note) => last === undefined || compareIds(note.id, last) > 0);
  const newest = (note: Note) => held.find((known) => known.id === note.id && known.facts.length > note.facts.length) ?? note;
  return [...page.map(newest), ...since];
}

/** Two answers of the node as one thread; what `newer` says about a note wins. */
export function merge(older: Note[], newer: Note[]): Note[] {
  return newer.reduce(upsert, older);
}

/** A note as the thread shows it. */
export interface Row {
  note: Note;
  /** It follows closely on a note of the same side. */
  close: boolean;
  /** Its status line is that of a later note of the same minute. */
  folded: boolean;
  /** It travelled otherwise than the notes before its group. */
  new_path: boolean;
}

const MINUTE_MS = 60_000;

/** Whether two notes share one status line: same side, same minute, and nothing differs in what is proven of them. */
export function sharesStatus(note: Note, next: Note | undefined): boolean {
  if (!next || note.mark || note.incoming !== next.incoming) return false;
  const equal = (['state', 'why', 'words', 'carrier', 'level', 'pin'] as const).every((field) => note[field] === next[field]);
  return equal && Math.floor(note.at_ms / MINUTE_MS) === Math.floor(next.at_ms / MINUTE_MS);
}

/** Notes as rows. The path of a group is compared with that of the note before the group. */
export function rows(notes: Note[]): Row[] {
  let new_path = true;
  return notes.map((note, at) => {
    const before = notes[at - 1];
    if (!before || !sharesStatus(before, note)) new_path = before?.carrier !== note.carrier || before.level !== note.level;
    const close = before?.incoming === note.incoming && note.at_ms - before.at_ms < MINUTE_MS;
    return { note, close, folded: sharesStatus(note, notes[at + 1]), new_path };
  });
}
