// The note that was begun: kept at the node a moment after the last letter, and at once when the person goes elsewhere.
import { call } from './client.ts';

/** How long after the last change a draft is kept, ms. */
export const KEEP_AFTER_MS = 400;

export interface DraftEnv {
  keep(text: string, leaving: boolean): Promise<void>;
  later(run: () => void, ms: number): number;
  cancel(timer: number): void;
}

/** The draft for one contact. */
export class Draft {
  #env: DraftEnv;
  #kept: string;
  #now: string;
  #timer: number | null = null;
  #busy: Promise<void> | null = null;

  constructor(env: DraftEnv, kept: string) {
    this.#env = env;
    this.#kept = kept;
    this.#now = kept;
  }

  /** Whether something was written that the node does not have. */
  get dirty(): boolean {
    return this.#now !== this.#kept;
  }

  /** The text is this now. */
  write(text: string): void {
    this.#now = text;
    this.#stop();
    // What is being kept at this moment may be an older text.
    if (this.dirty || this.#busy) this.#timer = this.#env.later(() => void this.flush(), KEEP_AFTER_MS);
  }

  /** This text was sent: the node drops the draft with it, if it is the same. */
  sent(text: string): void {
    if (this.#kept === text) this.#kept = '';
  }

  /** Keeps what is there now; one keeping at a time, so that an older text never comes last. */
  async flush(leaving = false): Promise<void> {
    this.#stop();
    if (!leaving) await this.#busy;
    if (!this.dirty) return;
    const text = this.#now;
    this.#busy = this.#env.keep(text, leaving).then(
      () => void (this.#kept = text),
      () => undefined, // It stays dirty: the page asks before it is left.
    );
    await this.#busy;
    this.#busy = null;
  }

  #stop(): void {
    if (this.#timer !== null) this.#env.cancel(this.#timer);
    this.#timer = null;
  }
}

/** The draft for a contact as the node has it. */
export async function openDraft(contact: string): Promise<{ text: string; draft: Draft }> {
  const path = `/v1/contacts/${contact}/draft`;
  const { text } = await call<{ text: string }>('GET', path);
  const env: DraftEnv = {
    keep: (now, leaving) => call('PUT', path, { text: now }, leaving),
    later: (run, ms) => window.setTimeout(run, ms),
    cancel: (timer) => clearTimeout(timer),
  };
  return { text, draft: new Draft(env, text) };
}
