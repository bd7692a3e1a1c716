// WEB-12: with scroll bars, no document is taller or wider than its window, and nothing in it is cut off sideways.
import assert from 'node:assert/strict';
import { FITS, go, measured, opened, openHelp, screens, tab, until, WINDOWS } from './tab.mjs';
import { DEMO_PASSPHRASE } from './world.mjs';

/** Buttons, links and labels whose words do not fit into them. Names of people are shortened on purpose. */
const clipped = (page) => page.evaluate(() => [...document.querySelectorAll('button, .act, .plain, label > span, h1, h2, h3, dt')]
  .filter((one) => one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1 && !one.closest('.thread header, .list, .strip'))
  .map((one) => `${one.tagName.toLowerCase()}: ${one.textContent.trim()}`));

const fits = (viewport, locale = 'en-US') => async ({ browser, alice }) => {
  const page = await opened(browser, alice, { viewport, locale });
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
    assert.deepEqual(await clipped(page), [], `${name}: words in a button`);
    if (await page.locator('.chip').last().isVisible()) await page.locator('.chip').last().click();
    assert.deepEqual(await measured(page), FITS, `${name}, opened`);
  }
  await go(page, '#/', 'nav .list a');
  await openHelp(page);
  assert.deepEqual(await measured(page), FITS, 'help');
  await page.context().close();
};

export const web_12_no_document_is_larger_than_its_window_desktop = fits(WINDOWS.desktop);
export const web_12_no_document_is_larger_than_its_window_phone = fits(WINDOWS.phone);
export const web_12_no_document_is_larger_than_its_window_doubled = fits(WINDOWS.doubled);
export const web_12_no_document_is_larger_than_its_window_small = fits(WINDOWS.small);
export const web_12_no_document_is_larger_than_its_window_large = fits(WINDOWS.large);
export const web_24_nothing_is_cut_off_in_persian_small = fits(WINDOWS.small, 'fa-IR');
export const web_24_nothing_is_cut_off_in_persian_desktop = fits(WINDOWS.desktop, 'fa-IR');
export const web_24_nothing_is_cut_off_in_persian_doubled = fits(WINDOWS.doubled, 'fa-IR');

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
