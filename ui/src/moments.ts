// What three observers saw, grouped into moments: events that follow each other closely belong to one exchange.
import type { Note, Observer, ObserverEvent } from './api.ts';

/** Silence that ends a moment, ms. An exchange on loopback takes some 30 ms. */
export const SILENCE_MS = 400;
/** How long after a moment a look at the disk still shows what it left there, ms. The node looks when it is asked. */
export const REST_MS = 5_000;
/** Events kept, as many as the node's ring holds. */
export const SIGHTS_MAX = 256;

export interface EventGroup {
  first: number;
  from_ms: number;
  to_ms: number;
  sights: ObserverEvent[];
}

/** Old and new events, each once, the oldest dropped beyond the limit. */
export function appendEvents(held: ObserverEvent[], fresh: ObserverEvent[]): ObserverEvent[] {
  const last = held.at(-1)?.n ?? -1;
  return [...held, ...fresh.filter((sight) => sight.n > last)].slice(-SIGHTS_MAX);
}

/** Moments, the newest first. */
export function moments(sights: ObserverEvent[]): EventGroup[] {
  const found: EventGroup[] = [];
  for (const sight of sights) {
    const open = found.at(-1);
    if (open && sight.direction === 'at rest' && sight.at_ms - open.to_ms <= REST_MS) {
      open.sights.push(sight);
    } else if (open && sight.at_ms - open.to_ms <= SILENCE_MS) {
      open.sights.push(sight);
      open.to_ms = Math.max(open.to_ms, sight.at_ms);
    } else {
      found.push({ first: sight.n, from_ms: sight.at_ms, to_ms: sight.at_ms, sights: [sight] });
    }
  }
  return found.reverse();
}

/** What one observer saw in a moment. */
export function eventsOf(moment: EventGroup, who: Observer): ObserverEvent[] {
  return moment.sights.filter((sight) => sight.who === who);
}

/** Number of the largest event: the one that carries the note. */
export function largest(sights: ObserverEvent[]): number | undefined {
  return sights.reduce<ObserverEvent | undefined>((best, sight) => (best && best.bytes >= sight.bytes ? best : sight), undefined)?.n;
}

/** How far from its events the time of a note may lie, ms. */
const NEAR_MS = 500;

/** Notes that were written or came in a moment, the oldest first. */
export function notesOf(moment: EventGroup, notes: Note[]): Note[] {
  return notes.filter((note) => note.at_ms >= moment.from_ms - NEAR_MS && note.at_ms <= moment.to_ms + NEAR_MS).sort((a, b) => a.at_ms - b.at_ms);
}

/** The newest moment in which a note went or came, else the newest of all. */
export function lastNoteMoment(all: EventGroup[], notes: Note[]): EventGroup | undefined {
  return all.find((moment) => notesOf(moment, notes).length > 0) ?? all[0];
}
