// Many events in a short time, taken together: one update a frame, one request a while.

/** Collects items, and hands all of them over when `soon` says so. */
export class Gathered<T> {
  #held: T[] = [];
  #soon: (run: () => void) => void;
  #take: (items: T[]) => void;

  constructor(soon: (run: () => void) => void, take: (items: T[]) => void) {
    this.#soon = soon;
    this.#take = take;
  }

  add(item: T): void {
    this.#held.push(item);
    if (this.#held.length === 1) this.#soon(() => this.flush());
  }

  /** Hands over what is held now. */
  flush(): void {
    const items = this.#held;
    this.#held = [];
    if (items.length > 0) this.#take(items);
  }

  /** Forgets what is held. */
  clear(): void {
    this.#held = [];
  }
}

/** Does what is asked for under one name once for all who ask within `wait_ms`, and never twice at a time. */
export class Coalesced {
  #wait_ms: number;
  #later: (run: () => void, ms: number) => void;
  #asked = new Map<string, () => Promise<void>>();
  #busy = new Set<string>();

  constructor(wait_ms: number, later: (run: () => void, ms: number) => void = (run, ms) => void setTimeout(run, ms)) {
    this.#wait_ms = wait_ms;
    this.#later = later;
  }

  /** The newest `work` of this name counts. */
  ask(name: string, work: () => Promise<void>): void {
    this.#asked.set(name, work);
    if (this.#busy.has(name)) return;
    this.#busy.add(name);
    this.#later(() => void this.#run(name), this.#wait_ms);
  }

  /** Forgets what was asked for and did not begin. */
  clear(): void {
    this.#asked.clear();
  }

  async #run(name: string): Promise<void> {
    const work = this.#asked.get(name);
    this.#asked.delete(name);
    try {
      await work?.();
    } finally {
      this.#busy.delete(name);
      const again = this.#asked.get(name);
      if (again) this.ask(name, again);
    }
  }
}
