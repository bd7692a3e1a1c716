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
