// The note that was begun, and bursts of events.
import { describe, expect, test } from 'vitest';
import { Coalesced, Gathered } from '../../src/burst.ts';
import { Draft } from '../../src/draft.ts';
import { isComposed } from '../../src/keys.ts';
import { changesBetween, changeText, turns } from '../../src/words.ts';
import type { Change } from '../../src/api.ts';

/** Timers that run when the test says so, and a node that answers when the test says so. */
class World {
  kept: string[] = [];
  timers = new Map<number, () => void>();
  answers: { done: () => void; fail: () => void }[] = [];
  #n = 0;

  keep = (text: string): Promise<void> => {
    this.kept.push(text);
    return new Promise((done, fail) => this.answers.push({ done, fail: () => fail(new Error('no')) }));
  };
  later = (run: () => void): number => {
    this.timers.set((this.#n += 1), run);
    return this.#n;
  };
  cancel = (timer: number): void => void this.timers.delete(timer);
  async tick(): Promise<void> {
    const due = [...this.timers.values()];
    this.timers.clear();
    due.forEach((run) => run());
    await new Promise((go) => setTimeout(go));
  }
  async answer(): Promise<void> {
    this.answers.shift()?.done();
    await new Promise((go) => setTimeout(go));
  }
}

describe('drafts', () => {
  test('web_15_a_draft_is_kept_once_after_the_last_letter', async () => {
    const world = new World();
    const draft = new Draft(world, '');
    for (const text of ['h', 'ha', 'hal']) draft.write(text);
    expect([world.timers.size, world.kept]).toEqual([1, []]);
    await world.tick();
    expect(world.kept).toEqual(['hal']);
    expect([draft.dirty, draft.stuck]).toEqual([true, false]);
    await world.answer();
    expect(draft.dirty).toBe(false);
  });

  test('web_15_a_draft_that_could_not_be_kept_stays_dirty_and_goes_with_the_next_letter', async () => {
    const world = new World();
    const draft = new Draft(world, '');
    draft.write('one');
    await world.tick();
    world.answers.shift()?.fail();
    await new Promise((go) => setTimeout(go));
    expect([draft.dirty, draft.stuck]).toEqual([true, true]);
    draft.write('one more');
    await world.tick();
    await world.answer();
    expect([world.kept, draft.dirty, draft.stuck]).toEqual([['one', 'one more'], false, false]);
  });

  test('web_15_what_was_sent_is_no_draft_even_if_it_is_being_kept_at_that_moment', async () => {
    const world = new World();
    const draft = new Draft(world, '');
    draft.write('hello');
    await world.tick(); // on its way to the node
    draft.sent('hello');
    draft.write('');
    await world.answer();
    await world.tick();
    await world.answer();
    expect([world.kept.at(-1), draft.dirty]).toEqual(['', false]);
    // The node dropped what it had, since it was the text that was sent.
    const second = new Draft(world, 'ready');
    second.sent('ready');
    second.write('');
    expect([second.dirty, world.timers.size]).toEqual([false, 0]);
    // It had an older text, which must go.
    const third = new Draft(world, 'rea');
    third.write('ready');
    third.sent('ready');
    third.write('');
    await world.tick();
    expect(world.kept.at(-1)).toBe('');
  });
});

describe('bursts', () => {
  test('web_16_a_burst_is_taken_once_in_its_order', () => {
    let frame: (() => void) | undefined;
    const taken: number[][] = [];
    const gathered = new Gathered<number>((run) => (frame = run), (items) => taken.push(items));
    for (let n = 0; n < 200; n += 1) gathered.add(n);
    expect(taken).toEqual([]);
    frame?.();
    expect(taken).toEqual([Array.from({ length: 200 }, (_, n) => n)]);
    frame?.();
    expect(taken).toHaveLength(1);
    gathered.add(7);
    gathered.clear();
    frame?.();
    expect(taken).toHaveLength(1);
  });

  test('web_16_what_is_asked_for_again_meanwhile_is_done_once_more_and_never_twice_at_a_time', async () => {
    const timers: (() => void)[] = [];
    const coalesced = new Coalesced(300, (run) => timers.push(run));
    const done: string[] = [];
    let finish: (() => void) | undefined;
    const work = (name: string) => () => {
      done.push(name);
      return new Promise<void>((go) => (finish = go));
    };
    for (let n = 0; n < 50; n += 1) coalesced.ask('seen', work(`seen ${n}`));
    expect([timers.length, done]).toEqual([1, []]);
    timers.shift()?.();
    expect(done).toEqual(['seen 49']);
    for (let n = 50; n < 60; n += 1) coalesced.ask('seen', work(`seen ${n}`));
    expect(timers).toHaveLength(0);
    finish?.();
    await new Promise((go) => setTimeout(go));
    expect(timers).toHaveLength(1);
    timers.shift()?.();
    expect(done).toEqual(['seen 49', 'seen 59']);
  });
});

describe('texts', () => {
  test('web_11_a_key_of_an_input_method_is_known_by_229_too', () => {
    expect(isComposed({ isComposing: false, keyCode: 229 })).toBe(true);
    expect(isComposed({ isComposing: true, keyCode: 13 })).toBe(true);
    expect(isComposed({ isComposing: false, keyCode: 13 })).toBe(false);
  });

  test('web_4_what_turns_the_direction_stands_apart_and_nothing_is_lost', () => {
    const text = 'photo\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd\u200f\u2067x\u2069';
    const parts = turns(text);
    expect(parts.map((part) => part.text).join('')).toBe(text);
    expect(parts.filter((part) => part.turns).map((part) => part.text)).toEqual(['\u202e']);
    expect(turns('plain')).toEqual([{ text: 'plain', turns: false }]);
    expect(turns('\u202a\u202b\u202d').every((part) => part.turns)).toBe(true);
  });

  test('web_14_a_change_says_who_made_it', () => {
    const change = (own: boolean, what: Change['what'], number: number | null, names: string[] = []): Change => ({ at_ms: 5, own, what, number, names });
    expect(changeText(change(true, 'timer', 86_400), 'Bob')).toBe('You set the timer to 24 hours');
    expect(changeText(change(false, 'timer', 0), 'Bob')).toBe('Bob switched the timer off');
    expect(changeText(change(true, 'carriers', null, ['mixnet', 'relay']), 'Bob')).toBe('Your notes now use: mixnet, relay');
    expect(changeText(change(false, 'name', null, ['Robert']), 'Bob')).toBe('They now call themselves Robert');
    expect(changeText(change(true, 'level', 3), 'Bob')).toContain('3');
    expect(changeText(change(true, 'fallback', 1), 'Bob')).not.toBe(changeText(change(true, 'fallback', 0), 'Bob'));
  });

  test('web_14_each_change_stands_at_one_place', () => {
    const at = (at_ms: number): Change => ({ at_ms, own: true, what: 'level', number: 1, names: [] });
    const changes = [at(1), at(10), at(11), at(30)];
    const placed = [changesBetween(changes, null, 10), changesBetween(changes, 10, 20), changesBetween(changes, 20, Infinity)];
    expect(placed.map((some) => some.map((one) => one.at_ms))).toEqual([[1, 10], [11], [30]]);
  });
});
