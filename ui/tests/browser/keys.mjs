// WEB-6, WEB-7 and M6: the keyboard alone, parts that fail, what the first screen needs.
import assert from 'node:assert/strict';
import { about, bubble, choose, go, opened, tab, tabTo, until } from './tab.mjs';
import { DEMO_PASSPHRASE } from './world.mjs';

const TITLE = (text) => `h1:has-text("${text}")`;

/** Presses an arrow until the focus is there. */
async function walkTo(page, target, key) {
  for (let step = 0; step < 30; step += 1) {
    await page.keyboard.press(key);
    if (await target.evaluate((one) => one === document.activeElement)) return;
  }
  throw new Error(`${key} never came there`);
}

export const web_6_the_keyboard_alone_suffices = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const keys = page.keyboard;
  await until('focus in the composer', () => page.evaluate(() => document.activeElement?.tagName === 'TEXTAREA'));
  await keys.type('by keyboard alone');
  await keys.press('Enter');
  const note = bubble(page, 'by keyboard alone', true);
  await note.getByText('on their device').waitFor();

  await tabTo(page, /^div Conversation with echo/, 'Shift+Tab');
  await walkTo(page, note.locator('.chip'), 'ArrowUp');
  await keys.press('Enter');
  await page.locator('.facts').waitFor();
  await keys.press('Enter');
  await page.locator('.facts').waitFor({ state: 'detached' });

  await tabTo(page, /^a E ?echo/, 'Shift+Tab');
  await keys.press('Enter');
  await page.getByRole('region', { name: 'About echo' }).waitFor();
  await tabTo(page, /^button They match/);
  await keys.press('Enter');
  await page.getByText(/^Number compared on/).waitFor();
  await tabTo(page, /^button Remove the mark/, 'Shift+Tab').catch(() => tabTo(page, /^button Remove the mark/));
  await keys.press('Enter');
  await page.getByRole('button', { name: 'They match' }).waitFor();
  await tabTo(page, /^input Lowest protection/);
  await keys.press('ArrowRight');
  await page.getByText('Blocked: relay, level 1.').waitFor();
  // The answer to a change that is still on its way would undo the next one.
  await until('the higher pin at the node', async () => (await alice.contact('echo')).policy.pin === 2);
  await keys.press('ArrowLeft');
  await until('the pin at the node', async () => (await alice.contact('echo')).policy.pin === 1);

  await tabTo(page, /^a Add a contact/);
  await keys.press('Enter');
  await page.locator(TITLE('Add a contact')).waitFor();
  for (const name of [/^button Copy as text/, /^button From a picture/, /^button With the camera/, /^textarea Card as text/]) await tabTo(page, name);
  await keys.type('mezzavoce:c1/WRONG');
  await tabTo(page, /^button Add$/);
  await keys.press('Enter');
  await until('an answer to a bad card', async () => (await page.getByRole('alert').last().textContent())?.trim());

  await tabTo(page, /^button Menu/);
  await keys.press('Enter');
  await tabTo(page, /^a What the relay sees/, 'Shift+Tab');
  await keys.press('Enter');
  await page.locator(TITLE('What the relay sees')).waitFor();
  await tabTo(page, /^input Write a note to echo/);
  await keys.type('watched by keyboard');
  await keys.press('Enter');
  await until('events', async () => (await page.locator('.fields button').count()) > 0);
  // Further events of the note may still replace the bytes that are shown, and the choice among them.
  await until('a chosen field', async () => {
    await tabTo(page, /^button .* B$/);
    if ((await page.locator('.chosen').count()) === 0) await keys.press('Enter');
    await page.waitForTimeout(300);
    return (await page.locator('.chosen').count()) > 0;
  });

  await tabTo(page, /^button Menu/);
  await keys.press('Enter');
  await tabTo(page, /^a Health/, 'Shift+Tab');
  await keys.press('Enter');
  await page.locator(TITLE('Health')).waitFor();
  await tabTo(page, /^button Menu: Health/);
  await keys.press('Enter');
  await tabTo(page, /^button Help/, 'Shift+Tab');
  await keys.press('Enter');
  await page.getByRole('dialog').waitFor();
  await keys.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await tabTo(page, /^button Menu: Health/);
  await keys.press('Enter');
  await tabTo(page, /^button (Colours|Light|Dark)/, 'Shift+Tab');
  await keys.press('Enter');
  await until('the light theme', () => page.evaluate(() => document.documentElement.dataset.theme === 'light'));

  await tabTo(page, /^button Lock/);
  await keys.press('Enter');
  await until('focus in the passphrase', () => page.evaluate(() => document.activeElement?.getAttribute('type') === 'password'));
  await keys.type(DEMO_PASSPHRASE);
  await keys.press('Enter');
  await page.locator(TITLE('Health')).waitFor();
  await tabTo(page, /^a .*echo/);
  await keys.press('Enter');
  await until('focus in the composer', () => page.evaluate(() => document.activeElement?.tagName === 'TEXTAREA'));
  await page.context().close();
};

async function garbled(browser, program, path, change) {
  const page = await tab(browser);
  const fulfil = async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: change(await answer.json()) });
  };
  // The page may drop a request while its answer is being changed: then there is none to give.
  const dropped = (error) => assert.match(String(error), /disposed|closed/);
  await page.route(`**${path}`, (route) => fulfil(route).catch(dropped));
  await page.goto(await program.address());
  return page;
}

// An answer may be on its way when the tab closes; what comes of it is nobody's business any more.
async function leave(page) {
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.context().close();
}

export const web_7_a_failing_widget_does_not_blank_the_page = async ({ browser, alice }) => {
  const { id } = await alice.contact('echo');
  await alice.send(id, 'something to observe');

  const page = await garbled(browser, alice, '/v1/observer*', (body) => ({ ...body, events: body.events.map((event) => ({ ...event, fields: null })) }));
  await page.getByRole('log').waitFor();
  await go(page, '#/observer', 'text=could not be shown');
  assert.ok(await page.getByRole('navigation').isVisible());
  await choose(page, 'Health');
  await page.locator('.lines li').first().waitFor();
  await leave(page);

  const second = await garbled(browser, alice, '/v1/carriers', () => ({ carriers: [{ carrier: 'relay', level: 1, up: true, hides: null }] }));
  await second.getByRole('log').waitFor();
  await about(second, id);
  await second.getByText('Carriers could not be shown.').waitFor();
  await second.getByRole('textbox', { name: /^Note to/ }).fill('still here');
  await second.keyboard.press('Enter');
  await bubble(second, 'still here', true).getByText('on their device').waitFor();
  await leave(second);

  const third = await garbled(browser, alice, `/v1/contacts/${id}/notes*`, (body) => ({ ...body, notes: body.notes?.map((note, at) => (at === 0 ? { ...note, carrier: {} } : note)) }));
  await third.getByText('This note could not be shown.').waitFor();
  assert.ok((await third.locator('article.note').count()) > 0, 'the other notes are there');
  await third.context().close();
};

export const a_lost_connection_is_shown_and_found_again = async ({ browser, alice }) => {
  const page = await tab(browser);
  const sockets = [];
  let cut = false;
  await page.routeWebSocket('**/v1/events', (socket) => {
    if (cut) return void socket.close({ code: 1012 });
    const server = socket.connectToServer();
    sockets.push({ socket, server });
  });
  await page.goto(await alice.address());
  await page.getByRole('log').waitFor();
  await until('the stream', () => sockets.length === 1);
  cut = true;
  await sockets[0].socket.close({ code: 1012 });
  await page.getByText('The program does not answer. Trying again').waitFor();
  const { id } = await alice.contact('echo');
  await alice.send(id, 'written while the stream was cut');
  cut = false;
  await bubble(page, 'written while the stream was cut', true).getByText('on their device').waitFor();
  await page.getByText('The program does not answer. Trying again').waitFor({ state: 'detached' });
  await page.context().close();
};

/**
 * M6: the first screen needs the parts that the document names and nothing that is loaded later. The time of it is
 * printed and decides nothing, as it depends on the machine.
 */
export const m_6_the_first_screen_needs_no_part_that_is_loaded_later = async ({ browser, alice, log }) => {
  await alice.send((await alice.contact('echo')).id, 'something to be seen first');
  const page = await tab(browser);
  await page.addInitScript(() => {
    const watch = new MutationObserver(() => {
      if (!document.querySelector('article.note') || window.stood) return;
      window.stood = performance.now();
      window.needed = performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname);
    });
    watch.observe(document, { childList: true, subtree: true });
  });
  await page.goto(await alice.address());
  const stood = await (await page.waitForFunction(() => window.stood)).jsonValue();
  const needed = await page.evaluate(() => window.needed.filter((path) => path.endsWith('.js')));
  const named = await page.evaluate(async () => {
    const text = await (await fetch('/')).text();
    return [...text.matchAll(/(?:src|href)="([^"]+\.js)"/g)].map(([, path]) => new URL(path, location.href).pathname);
  });
  log(`first screen after ${Math.round(stood)} ms, with ${needed.length} files of JavaScript`);
  assert.ok(named.length > 0, 'the document names its parts');
  assert.deepEqual(needed.filter((path) => !named.includes(path)), [], 'parts that were loaded before the first note stood');
  await page.context().close();
};
