// A tab of a real browser, and what the tests ask of it.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { until, WAIT_MS } from './world.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = ['--no-sandbox', '--headless', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const CHROMIUM = process.env.MEZZA_CHROMIUM ?? '/usr/bin/chromium';
export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 800 };

// With scroll bars, as people have them.
export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: FLAGS, ignoreDefaultArgs: ['--hide-scrollbars'] });

/** A fresh tab, in a profile of its own, that keeps a list of what went against the page's policy. */
export async function tab(browser, { scheme = 'light', viewport = WIDE, reduced = false, locale = 'en-US' } = {}) {
  const context = await browser.newContext({ viewport, colorScheme: scheme, locale, ...(reduced ? { reducedMotion: 'reduce' } : {}) });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(`page error: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.faults.push(`console: ${message.text()}`);
  });
  await page.exposeFunction('keepViolation', (text) => page.faults.push(`policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      window.keepViolation(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  return page;
}

/** A tab on the first screen of this program. */
export async function opened(browser, program, options) {
  const page = await tab(browser, options);
  await page.goto(await program.address());
  await page.getByRole('log').waitFor();
  return page;
}

/** Goes to a screen by its address, as a link would. */
export async function go(page, hash, selector) {
  await page.evaluate((to) => (location.hash = to), hash);
  await page.locator(selector).first().waitFor();
}

/** Opens the menu of tools, if it is shut, and chooses the entry with this name. */
export async function choose(page, name) {
  await openMenu(page);
  await page.locator('nav .places').getByText(name, { exact: true }).click();
}

export async function openMenu(page) {
  const menu = page.locator('nav .menu');
  if ((await menu.getAttribute('aria-expanded')) === 'false') await menu.click();
}

/** Opens the help, in any language. */
export async function openHelp(page) {
  await openMenu(page);
  await page.locator('nav .places button').last().click();
  await page.getByRole('dialog').waitFor();
}

/** Opens the pane of a contact. */
export const about = (page, id) => go(page, `#/c/${id}/about`, '.groups li');

/** Every screen: its name, how to get there, and what shows that it is there. */
export const screens = (id) => [
  ['thread', `#/c/${id}`, 'article.note'],
  ['contact', `#/c/${id}/about`, '.groups li'],
  ['list', '#/', 'nav .list a'],
  ['add', '#/add', '.paper img'],
  ['observer', '#/observer', '.dump .line'],
  ['mixnet', '#/mixnet', 'dd[data-round]'],
  ['health', '#/health', '.lines li'],
  ['mesh', '#/mesh', '[data-screen="mesh"] .panel'],
  ['link', '#/link', '[data-screen="link"] .panel'],
  ['guard', '#/guard', '[data-screen="guard"] .panel'],
  ['search', '#/search', '[data-screen="search"] input'],
  ['requests', '#/requests', '[data-screen="requests"] h1'],
  ['settings', '#/settings', '.words'],
  ['backup', '#/backup', '.words'],
];

/** Windows from the smallest to the largest, and the desktop at 200 %. */
export const WINDOWS = {
  desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 }, doubled: { width: 640, height: 400 },
  small: { width: 360, height: 740 }, large: { width: 1920, height: 1080 },
};

/** How much of a page does not fit into its window, and what is cut off. */
export const measured = (page) => page.evaluate(() => {
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

/** What `measured` gives where all fits. */
export const FITS = { taller: 0, wider: 0, bar: 0, wide: [], cut: [] };

export async function say(page, text) {
  await page.getByRole('textbox', { name: /^Note to/ }).fill(text);
  await page.keyboard.press('Enter');
}

/** The newest note with this text, on our side or theirs. */
export const bubble = (page, text, own) => page.locator(own ? 'article.note.own' : 'article.note:not(.own)').filter({ hasText: text }).last();

/** What axe finds: the severe ones, and the rest to be listed. */
export async function axe(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const words = (found) => `${found.impact} ${found.id}: ${found.nodes.map((node) => `${node.target.join(' ')} (${node.any.map((one) => one.message).join('; ')})`).join(', ')}`;
  const severe = violations.filter((found) => ['serious', 'critical'].includes(found.impact));
  return { severe: severe.map(words), rest: violations.filter((found) => !severe.includes(found)).map(words) };
}

const name_of_focus = (page) => page.evaluate(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return '';
  const described = at.getAttribute('aria-labelledby');
  const text = at.getAttribute('aria-label') ?? (described ? document.getElementById(described)?.textContent : null) ?? at.labels?.[0]?.textContent ?? at.textContent;
  return `${at.tagName.toLowerCase()} ${text?.trim().replace(/\s+/g, ' ') ?? ''}`;
});

/** Presses Tab until the focus is on what the pattern names, and sees that the focus is visible there. */
export async function tabTo(page, pattern, key = 'Tab') {
  const passed = [];
  for (let step = 0; step < 90; step += 1) {
    await page.keyboard.press(key);
    const name = await name_of_focus(page);
    if (pattern.test(name)) {
      const seen = await page.evaluate(() => {
        const at = document.activeElement;
        const style = getComputedStyle(at);
        const frame = at.parentElement ? getComputedStyle(at.parentElement) : style;
        return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || frame.boxShadow !== 'none';
      });
      if (!seen) throw new Error(`the focus on ${name} cannot be seen`);
      return;
    }
    passed.push(name);
  }
  throw new Error(`Tab never came to ${pattern}; it passed: ${passed.slice(0, 40).join(' | ')}`);
}

export { until };
