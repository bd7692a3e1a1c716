// WEB-12: with scroll bars, no document is taller or wider than its window, and nothing in it is cut off sideways.
import assert from 'node:assert/strict';
import { go, opened, screens, tab, until } from './tab.mjs';
import { DEMO_PASSPHRASE } from './world.mjs';

/** Two windows, and the first of them at 200 %. */
const WINDOWS = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 }, doubled: { width: 640, height: 400 } };

const measured = (page) => page.evaluate(() => {
  const root = document.documentElement;
  const named = (one) => `${one.tagName.toLowerCase()}.${one.className}`;
  const scrolls = (one) => ['auto', 'scroll'].includes(getComputedStyle(one).overflowY) || one === root;
  // Bytes in rows of sixteen, and the moments of the observer, are read from left to right.
  const sideways = '.dump, .strip, textarea';
  const wide = [...document.querySelectorAll('*')].filter((one) => scrolls(one) && one.scrollWidth > one.clientWidth && one.clientWidth > 1 && !one.matches(sideways));
  // Panes that do not scroll hide what does not fit.
  const cut = [...document.querySelectorAll('.people, .middle, .side')].filter((one) => one.clientWidth > 1 && (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight));
  return { taller: root.scrollHeight - innerHeight, wider: root.scrollWidth - root.clientWidth, bar: innerWidth - root.clientWidth, wide: wide.map(named), cut: cut.map(named) };
});

const FITS = { taller: 0, wider: 0, bar: 0, wide: [], cut: [] };

const fits = (viewport) => async ({ browser, alice }) => {
  const page = await opened(browser, alice, { viewport });
  // These tests see scroll bars, or they would see nothing.
  const bar = await page.evaluate(() => {
    const box = document.createElement('div');
    box.className = 'sheet';
    document.body.append(box);
    box.style.setProperty('overflow-y', 'scroll');
    const bar = box.offsetWidth - box.clientWidth;
    box.remove();
    return bar;
  });
  assert.ok(bar > 0, 'the browser shows scroll bars');
  const { id } = await alice.contact('echo');
  assert.ok((await alice.ask('GET', '/v1/carriers')).carriers.length >= 2, 'two carriers');
  for (const [name, hash, selector] of screens(id)) {
    await go(page, hash, selector);
    assert.deepEqual(await measured(page), FITS, name);
    if (await page.locator('.chip').last().isVisible()) await page.locator('.chip').last().click();
    assert.deepEqual(await measured(page), FITS, `${name}, opened`);
  }
  await go(page, '#/', 'nav .list a');
  await page.getByRole('button', { name: 'Help' }).click();
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await measured(page), FITS, 'help');
  await page.context().close();
};

export const web_12_no_document_is_larger_than_its_window_desktop = fits(WINDOWS.desktop);
export const web_12_no_document_is_larger_than_its_window_phone = fits(WINDOWS.phone);
export const web_12_no_document_is_larger_than_its_window_doubled = fits(WINDOWS.doubled);

export const web_12_nor_at_the_door = async ({ browser, bob }) => {
  for (const viewport of Object.values(WINDOWS)) {
    const closed = await tab(browser, { viewport });
    await closed.goto(`${bob.origin}/`);
    await closed.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
    const locked = await opened(browser, bob, { viewport });
    await bob.ask('POST', '/v1/lock');
    await locked.getByLabel('Passphrase').waitFor();
    for (const one of [closed, locked]) {
      assert.deepEqual(await measured(one), FITS);
      await one.context().close();
    }
    await bob.ask('POST', '/v1/unlock', { passphrase: DEMO_PASSPHRASE });
    await until('an open vault', async () => (await bob.ask('GET', '/v1/status')).state === 'open');
  }
};
