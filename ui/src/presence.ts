// Whether a person is at this page (MSG-83): keys, clicks and scrolling, never what a note or a timer causes.
// Moving pointers do not count: a browser reports those also when the page moves under a pointer at rest.

const SIGNS = ['keydown', 'pointerdown', 'wheel', 'touchstart'];

/** How long a sign of life waits for a request that takes it along, ms. */
export const PRESENCE_MS = 10_000;

export class Presence {
  #waits = false;
  #timer = false;
  #later: (run: () => void, ms: number) => void;
  #say: () => void;

  /** `say` makes a request where none comes by itself. */
  constructor(later: (run: () => void, ms: number) => void, say: () => void) {
    this.#later = later;
    this.#say = say;
  }

  /** A person did something. */
  sign(): void {
    this.#waits = true;
    if (this.#timer) return;
    this.#timer = true;
    this.#later(() => {
      this.#timer = false;
      if (this.#waits) this.#say();
    }, PRESENCE_MS);
  }

  /** Returns true once for the signs since the last request. */
  take(): boolean {
    const waits = this.#waits;
    this.#waits = false;
    return waits;
  }

  watch(target: EventTarget): void {
    const heard = (event: Event): void => {
      // A script can make events, too.
      if (event.isTrusted) this.sign();
    };
    for (const sign of SIGNS) target.addEventListener(sign, heard, { capture: true, passive: true });
  }
}
