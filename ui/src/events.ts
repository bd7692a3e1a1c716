// The stream of events: one WebSocket, opened again with growing pauses, resumed at the last cursor.
//
//   idle -> open -> (lost) -> waiting -> open ...      4401 -> refused (the bearer is no longer good)
//   Nothing is sent before the node has proved itself (WEB-17).
//                   (4408 or `reload`) -> forget the cursor; whoever opens without one reads everything again
import type { NodeEvent } from './api.ts';

/** Longest pause between two attempts, ms. */
export const PAUSE_MAX_MS = 10_000;
const PAUSE_FIRST_MS = 250;
/** Close code of a bearer that is not known. */
const UNKNOWN = 4401;

/** Pause before attempt n (from 0), ms: doubled each time, a quarter of it by chance, so that tabs do not come in step. */
export function pause(attempt: number, random: number): number {
  const whole = Math.min(PAUSE_MAX_MS, PAUSE_FIRST_MS * 2 ** Math.min(attempt, 10));
  return Math.round(whole * (0.75 + 0.25 * random));
}

/** The part of a WebSocket that the stream needs. */
export interface Socket {
  onopen: (() => void) | null;
  onmessage: ((message: { data: unknown }) => void) | null;
  onclose: ((closed: { code: number }) => void) | null;
  send(text: string): void;
  close(): void;
}

export interface StreamEnv {
  open(): Socket;
  /** Whether the node is the one in which this tab came in; rejects while it does not answer. */
  proven(): true | Promise<boolean>;
  bearer(): string | null;
  later(run: () => void, ms: number): void;
  random(): number;
}

export interface Listener {
  event(event: NodeEvent): void;
  online(online: boolean): void;
  reload(): void;
  refused(): void;
}

export class EventStream {
  #world: StreamEnv;
  #listener: Listener;
  #socket: Socket | null = null;
  #cursor: number | null = null;
  #attempt = 0;
  /** Grows with each try, so that a late proof opens nothing. */
  #run = 0;
  #stopped = true;

  constructor(world: StreamEnv, listener: Listener) {
    this.#world = world;
    this.#listener = listener;
  }

  /** Cursor of the newest event seen; null before the first. */
  get cursor(): number | null {
    return this.#cursor;
  }

  start(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#open();
  }

  stop(): void {
    this.#stopped = true;
    this.#socket?.close();
    this.#socket = null;
  }

  #open(): void {
    this.#run += 1;
    const run = this.#run;
    const current = (): boolean => run === this.#run && !this.#stopped;
    if (this.#stopped || this.#world.bearer() === null) return;
    const proven = this.#world.proven();
    if (proven === true) return this.#connect();
    proven.then(
      (known) => {
        if (!current()) return;
        if (known) this.#connect();
        else this.#lost(UNKNOWN);
      },
      () => current() && this.#lost(0),
    );
  }

  #connect(): void {
    const bearer = this.#world.bearer();
    if (bearer === null) return;
    const socket = this.#world.open();
    this.#socket = socket;
    socket.onopen = () => {
      // A cursor of 0 is older than any: the node answers with the newest one, once it tells events here.
      socket.send(JSON.stringify({ bearer, since: this.#cursor ?? 0 }));
      this.#listener.online(true);
    };
    socket.onmessage = (message) => {
      if (socket === this.#socket && typeof message.data === 'string') this.#take(message.data);
    };
    socket.onclose = (closed) => {
      if (socket === this.#socket) this.#lost(closed.code);
    };
  }

  #take(text: string): void {
    this.#attempt = 0;
    const event = JSON.parse(text) as NodeEvent;
    if (event.kind === 'reload') {
      // Without a cursor the node hangs up next. With one it goes on from there: nothing that happens
      // after everything is read again is missed.
      this.#cursor = event.cursor;
      if (event.cursor !== null) this.#listener.reload();
      return;
    }
    if (event.cursor !== null) this.#cursor = Math.max(this.#cursor ?? 0, event.cursor);
    this.#listener.event(event);
  }

  #lost(code: number): void {
    this.#socket = null;
    if (this.#stopped) return;
    this.#listener.online(false);
    if (code === UNKNOWN) {
      this.#stopped = true;
      this.#listener.refused();
      return;
    }
    if (code === 4408) this.#cursor = null;
    this.#world.later(() => this.#open(), pause(this.#attempt, this.#world.random()));
    this.#attempt += 1;
  }
}
