import { beforeEach, describe, expect, test } from 'vitest';
import { EventStream, pause, PAUSE_MAX_MS, type Socket } from '../../src/events.ts';

class FakeSocket implements Socket {
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: unknown }) => void) | null = null;
  onclose: ((closed: { code: number }) => void) | null = null;
  sent: string[] = [];
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {
    this.onclose?.({ code: 1000 });
  }
  tell(event: unknown): void {
    this.onmessage?.({ data: JSON.stringify(event) });
  }
}

let sockets: FakeSocket[];
let timers: { run: () => void; ms: number }[];
let heard: string[];
let held: string | null;
let proven: true | Promise<boolean>;
let stream: EventStream;

const newest = (): FakeSocket => sockets.at(-1) ?? new FakeSocket();

function pass(): void {
  timers.shift()?.run();
}

beforeEach(() => {
  [sockets, timers, heard, held, proven] = [[], [], [], 'b1', true];
  stream = new EventStream(
    {
      open: () => {
        sockets.push(new FakeSocket());
        return newest();
      },
      proven: () => proven,
      bearer: () => held,
      later: (run, ms) => void timers.push({ run, ms }),
      random: () => 1,
    },
    {
      event: (event) => void heard.push(event.kind),
      online: (online) => void heard.push(online ? 'online' : 'offline'),
      reload: () => void heard.push('reload'),
      refused: () => void heard.push('refused'),
    },
  );
  stream.start();
});

describe('event stream', () => {
  test('the bearer is the first frame; everything is read once the node tells events, not before', () => {
    newest().onopen?.();
    expect(heard).toEqual(['online']);
    expect(newest().sent).toEqual(['{"bearer":"b1","since":0}']);
    newest().tell({ cursor: 6, kind: 'reload' });
    expect(heard).toEqual(['online', 'reload']);
    expect(stream.cursor).toBe(6);
  });

  test('a node that keeps no event since then has everything read again, on the same stream', () => {
    newest().onopen?.();
    newest().tell({ cursor: 9, kind: 'state' });
    newest().onclose?.({ code: 1006 });
    pass();
    newest().onopen?.();
    newest().tell({ cursor: 70, kind: 'reload' });
    expect(heard.filter((one) => one === 'reload')).toHaveLength(1);
    newest().tell({ cursor: 71, kind: 'note' });
    expect(heard.at(-1)).toBe('note');
    expect(stream.cursor).toBe(71);
  });

  test('after a loss it resumes at the highest cursor seen', () => {
    newest().onopen?.();
    for (const cursor of [7, 9, null, 8]) newest().tell({ cursor, kind: 'state' });
    expect(stream.cursor).toBe(9);
    newest().onclose?.({ code: 1006 });
    pass();
    newest().onopen?.();
    expect(newest().sent).toEqual(['{"bearer":"b1","since":9}']);
    expect(heard).not.toContain('reload');
  });

  test('pauses double up to their limit and begin anew after an event', () => {
    for (let attempt = 0; attempt < 8; attempt += 1) {
      newest().onclose?.({ code: 1006 });
      expect(timers[0]?.ms).toBe(Math.min(PAUSE_MAX_MS, 250 * 2 ** attempt));
      pass();
    }
    newest().tell({ cursor: 1, kind: 'card' });
    newest().onclose?.({ code: 1006 });
    expect(timers[0]?.ms).toBe(250);
  });

  test('chance takes at most a quarter off a pause', () => {
    expect(pause(3, 0)).toBe(1500);
    expect(pause(3, 1)).toBe(2000);
    expect(pause(1000, 1)).toBe(PAUSE_MAX_MS);
  });

  test('a refused bearer ends it', () => {
    newest().onclose?.({ code: 4401 });
    expect(heard).toEqual(['offline', 'refused']);
    expect(timers).toHaveLength(0);
  });

  test('a program that does not prove itself gets no bearer', async () => {
    newest().onclose?.({ code: 1006 });
    proven = Promise.resolve(false);
    pass();
    await proven;
    expect(sockets).toHaveLength(1);
    expect(heard).toEqual(['offline', 'offline', 'refused']);
    expect(timers).toHaveLength(0);
  });

  test('a proof that comes after a stop opens nothing, and one that fails is asked for again', async () => {
    newest().onclose?.({ code: 1006 });
    let prove = (_known: boolean): void => undefined;
    proven = new Promise<boolean>((resolve) => (prove = resolve));
    pass();
    stream.stop();
    prove(true);
    await proven;
    expect(sockets).toHaveLength(1);
    proven = Promise.reject(new Error('away'));
    stream.start();
    await proven.catch(() => null);
    expect(timers).toHaveLength(1);
    proven = true;
    pass();
    expect(sockets).toHaveLength(2);
  });

  test('told to reload, it forgets the cursor and says so once', () => {
    newest().tell({ cursor: 5, kind: 'note' });
    newest().tell({ cursor: null, kind: 'reload' });
    newest().onclose?.({ code: 4408 });
    expect(heard).toEqual(['note', 'offline']);
    pass();
    newest().onopen?.();
    newest().tell({ cursor: 9, kind: 'reload' });
    expect(heard).toEqual(['note', 'offline', 'online', 'reload']);
    expect(newest().sent).toEqual(['{"bearer":"b1","since":0}']);
  });

  test('closed for lagging without a word, it reloads all the same', () => {
    newest().tell({ cursor: 5, kind: 'note' });
    newest().onclose?.({ code: 4408 });
    pass();
    newest().onopen?.();
    expect(newest().sent).toEqual(['{"bearer":"b1","since":0}']);
  });

  test('stopped, it opens nothing, and a late frame of an old socket is not heard', () => {
    const old = newest();
    stream.stop();
    old.tell({ cursor: 1, kind: 'note' });
    expect(heard).toEqual([]);
    expect(timers).toHaveLength(0);
    stream.start();
    expect(sockets).toHaveLength(2);
  });

  test('without a bearer nothing is opened', () => {
    stream.stop();
    held = null;
    stream.start();
    expect(sockets).toHaveLength(1);
  });
});
