import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Presence, PRESENCE_MS } from '../../src/presence.ts';
import { challenge, verify } from '../../src/proof.ts';

describe('web_17 proof of the node', () => {
  const [key, other] = ['3a', '3b'].map((pair) => pair.repeat(32)) as [string, string];
  const mac = (secret: string, asked: string): string =>
    createHmac('sha256', Buffer.from(secret, 'hex')).update('mezza/page-proof').update(Buffer.from(asked, 'hex')).digest('hex');

  test('a challenge is never the same, and only its own MAC under the key of the tab is a proof', async () => {
    const [one, two] = [challenge(), challenge()];
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(one).not.toBe(two);
    expect(await verify(key, one, mac(key, one))).toBe(true);
    for (const wrong of [mac(key, two), mac(other, one), '', 'zz'.repeat(32), '00'.repeat(32), one]) expect(await verify(key, one, wrong)).toBe(false);
    expect(await verify('', one, mac(key, one))).toBe(false);
  });
});

describe('msg_83 presence of a person', () => {
  test('a sign goes along once, and alone where no request comes', () => {
    const timers: { run: () => void; ms: number }[] = [];
    let said = 0;
    const presence = new Presence((run, ms) => void timers.push({ run, ms }), () => void (said += Number(presence.take())));
    expect(presence.take()).toBe(false);
    presence.sign();
    presence.sign();
    expect(timers.map((one) => one.ms)).toEqual([PRESENCE_MS]);
    expect([presence.take(), presence.take()]).toEqual([true, false]);
    timers.shift()?.run();
    expect(said).toBe(0);
    presence.sign();
    timers.shift()?.run();
    expect([said, presence.take()]).toEqual([1, false]);
  });

  test('what a script does is no sign of a person', () => {
    const presence = new Presence(() => undefined, () => undefined);
    const page = new EventTarget();
    presence.watch(page);
    page.dispatchEvent(new Event('keydown'));
    expect(presence.take()).toBe(false);
  });
});
