// What people do: write, see states, add, accept, lock.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { about, bubble, go, opened, PHONE, say, tab, until } from './tab.mjs';
import { DEMO_PASSPHRASE } from './world.mjs';

const badge = (page) => page.evaluate(() => [...document.querySelectorAll('span.demo')].some((one) => one.textContent.startsWith('DEMO') && one.getClientRects().length > 0));

export const first_screen_is_echo_with_the_composer_focused = async ({ browser, alice }) => {
  await alice.send((await alice.contact('echo')).id, 'a first exchange');
  for (const viewport of [undefined, PHONE]) {
    const page = await opened(browser, alice, viewport ? { viewport } : {});
    await page.getByRole('heading', { name: 'echo', level: 1 }).waitFor();
    await until('focus in the composer', () => page.evaluate(() => document.activeElement?.tagName === 'TEXTAREA'));
    const log = page.getByRole('log');
    for (const name of ['Add a contact', 'What the relay sees', 'Help']) assert.ok(await log.getByText(name, { exact: true }).isVisible(), name);
    assert.ok(await badge(page), 'the badge');
    // The exchange stands in the thread.
    await log.locator('article.note.own').first().waitFor();
    await log.locator('article.note:not(.own)').first().waitFor();
    await page.context().close();
  }
};

export const echo_answers_and_the_state_becomes_on_their_device = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const text = `half the voice ${Date.now()}`;
  await say(page, text);
  const mine = bubble(page, text, true);
  await mine.getByText('on their device').waitFor();
  await bubble(page, text, false).waitFor();
  assert.equal(await page.locator('article.note.own').filter({ hasText: text }).count(), 1, 'a note is shown once');

  await mine.getByRole('button', { expanded: false }).click();
  const facts = mine.locator('.facts');
  for (const words of ['Written', 'Accepted by the carrier', 'On their device', 'relay, level 1']) await facts.getByText(words, { exact: true }).waitFor();
  assert.equal(await page.getByRole('log').getAttribute('aria-live'), 'polite');
  await until('the spoken state', async () => (await page.locator('p[role=status]').last().textContent()) !== '');
  await page.context().close();
};

export const the_composer_shows_cost_and_bytes_and_refuses_what_is_too_long = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const entry = page.getByRole('textbox', { name: /^Note to/ });
  await page.getByText(/^relay, level 1: /).waitFor();
  await entry.fill('né');
  await page.getByText('3 of 8,192 bytes').waitFor();
  await entry.fill('x'.repeat(8_193));
  await page.getByText('Too long for one note').waitFor();
  await page.keyboard.press('Enter');
  assert.ok(await page.getByRole('button', { name: 'Send' }).isDisabled());
  assert.equal(await page.locator('article.note').filter({ hasText: 'x'.repeat(200) }).count(), 0);
  await entry.fill('two');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('lines');
  assert.equal(await entry.inputValue(), 'two\nlines');
  await page.context().close();
};

export const observer_shows_one_note_as_three_onlookers_see_it = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await go(page, '#/observer', 'h1:has-text("What the relay sees")');
  const text = 'VerySecretWordForTheObserver';
  await page.getByRole('textbox', { name: /Write a note to echo/ }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText(text).first().waitFor();
  for (const name of ['Your internet provider', 'The relay', 'A thief of the disk']) {
    const column = page.getByRole('region', { name });
    await until(`bytes in the column ${name}`, async () => (await column.locator('details').count()) > 0);
    assert.ok((await column.locator('.dump .line').count()) > 0, name);
    assert.ok((await column.locator('.fields button').count()) > 0, `${name} has named fields`);
    const bytes = (await column.locator('.ascii').allTextContents()).join('');
    assert.ok(!bytes.includes(text), `${name} reads the text`);
  }
  // The mark is drawn some time after the click.
  const field = page.getByRole('region', { name: 'The relay' }).locator('.fields button').filter({ hasText: / B$/ }).first();
  const chosen = page.locator('.chosen');
  await until('a chosen field is marked in the bytes', async () => {
    if ((await chosen.count()) === 0) await field.click();
    return (await chosen.count()) > 0;
  });
  await page.context().close();
};

export const contact_added_from_a_qr_picture_and_request_accepted = async ({ browser, alice, bob }) => {
  const picture = join(bob.home, 'card.png');
  bob.run(['card', '--out', picture]);
  const page = await opened(browser, alice);
  await go(page, '#/add', 'h1:has-text("Add a contact")');
  await page.locator('input[type=file]').setInputFiles(picture);
  await page.getByText('Card found').waitFor();
  assert.match(await page.getByRole('textbox', { name: 'Card as text' }).inputValue(), /^mezzavoce:c1\//i);
  await page.getByText(/^This card says it is .*, number [0-9,]+\.$/).waitFor();
  await page.getByText(/^Notes go to the relay 127\.0\.0\.1:/).waitFor();
  await page.getByRole('textbox', { name: 'Your name for them' }).fill('Bob');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('heading', { name: 'Bob', level: 1 }).waitFor();
  await say(page, 'May I write to you?');
  await bubble(page, 'May I write to you?', true).waitFor();

  const theirs = await opened(browser, bob);
  await theirs.getByRole('link', { name: /^Requests to write to you/ }).click();
  const request = theirs.locator('.requests li').filter({ hasText: 'May I write to you?' });
  await request.waitFor();
  await request.getByRole('button', { name: 'Accept' }).click();
  await theirs.getByRole('log').getByText('May I write to you?').waitFor();
  await say(theirs, 'Yes, of course.');
  await bubble(page, 'Yes, of course.', false).waitFor();
  await bubble(page, 'May I write to you?', true).getByText('on their device').waitFor();
  await bubble(theirs, 'Yes, of course.', true).getByText('on their device').waitFor();
  await Promise.all([page.context().close(), theirs.context().close()]);
};

export const a_picture_without_a_code_says_what_to_do = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await go(page, '#/add', 'h1:has-text("Add a contact")');
  const blank = await page.evaluate(async () => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 64;
    const blob = await new Promise((done) => canvas.toBlob(done));
    return [...new Uint8Array(await blob.arrayBuffer())];
  });
  await page.locator('input[type=file]').setInputFiles({ name: 'blank.png', mimeType: 'image/png', buffer: Buffer.from(blank) });
  assert.match(await page.getByRole('alert').filter({ hasText: /\S/ }).first().textContent(), /no code/i);
  await page.locator('input[type=file]').setInputFiles({ name: 'no.png', mimeType: 'image/png', buffer: Buffer.from('not a picture') });
  await page.getByText('This file is not a picture').waitFor();
  await page.getByRole('textbox', { name: 'Card as text' }).fill('mezzavoce:c1/NOTACARD');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await until('an answer to a bad card', async () => (await page.getByRole('alert').last().textContent())?.trim());
  await page.context().close();
};

export const contact_pane_number_mark_pin_receipts_block = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await about(page, (await alice.contact('echo')).id);
  const pane = page.getByRole('region', { name: 'About echo' });
  await pane.locator('.groups li').first().waitFor();
  const groups = await pane.locator('.groups li').allTextContents();
  const { id } = await alice.contact('echo');
  assert.deepEqual(groups, (await alice.ask('GET', `/v1/contacts/${id}/number`)).groups);
  assert.equal(groups.length, 12);
  await pane.getByRole('button', { name: 'They match' }).click();
  await pane.getByText(/^Number compared on/).waitFor();
  await pane.getByRole('button', { name: 'Remove the mark' }).click();
  await pane.getByRole('button', { name: 'They match' }).waitFor();

  const table = pane.getByRole('table').first();
  for (const row of ['Your provider', 'The relay', 'An observer of all traffic', 'A thief']) assert.ok(await table.getByRole('rowheader', { name: row }).isVisible(), row);

  const slider = pane.getByRole('slider');
  await slider.focus();
  await page.keyboard.press('ArrowRight');
  await pane.getByText('Blocked: relay, level 1.').waitFor();
  await until('the pin at the node', async () => (await alice.contact('echo')).policy.pin === 2);
  await say(page, 'this one waits for level 2');
  const waiting = bubble(page, 'this one waits for level 2', true);
  await waiting.getByText(/^waiting: no carrier that is up reaches this conversation's lowest level/).waitFor();
  await slider.focus();
  await page.keyboard.press('ArrowLeft');
  await until('the pin at the node', async () => (await alice.contact('echo')).policy.pin === 1);
  await waiting.locator('.chip').click();
  await waiting.getByRole('button', { name: 'Do not send it' }).click();
  await waiting.waitFor({ state: 'detached' });

  await pane.getByRole('checkbox', { name: /when I have read it/ }).check();
  await until('read receipts at the node', async () => (await alice.contact('echo')).policy.read);
  await pane.getByRole('button', { name: 'Block', exact: true }).click();
  await pane.getByText('Blocked', { exact: true }).waitFor();
  assert.equal((await alice.contact('echo')).standing, 'blocked');
  assert.ok(await page.getByRole('textbox', { name: /^Note to/ }).isDisabled());
  await pane.getByRole('button', { name: 'Unblock' }).click();
  await pane.getByRole('button', { name: 'Block', exact: true }).waitFor();
  assert.equal((await alice.contact('echo')).standing, 'open');
  await page.context().close();
};

export const health_lists_its_lines_and_the_demo_badge_stays = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await go(page, '#/health', 'h1:has-text("Health")');
  const { lines } = await alice.ask('GET', '/v1/health');
  await until('as many lines as the node gives', async () => (await page.locator('.lines li').count()) === lines.length);
  for (const [hash, title] of [['#/add', 'Add a contact'], ['#/observer', 'What the relay sees'], ['#/health', 'Health']]) {
    await go(page, hash, `h1:has-text("${title}")`);
    assert.ok(await badge(page), hash);
  }
  await page.setViewportSize(PHONE);
  const { id } = await alice.contact('echo');
  for (const hash of ['#/', '#/add', '#/observer', '#/health', `#/c/${id}`, `#/c/${id}/about`]) {
    await page.evaluate((to) => (location.hash = to), hash);
    await until(`the badge on ${hash}`, () => badge(page));
  }
  await page.context().close();
};

export const lock_hides_all_and_the_passphrase_opens_again = async ({ browser, bob }) => {
  const page = await opened(browser, bob);
  const second = await opened(browser, bob);
  await page.getByRole('button', { name: 'Lock', exact: true }).click();
  const entry = page.getByLabel('Passphrase');
  await entry.waitFor();
  await second.getByLabel('Passphrase').waitFor();
  for (const one of [page, second]) assert.equal(await one.getByText('echo', { exact: true }).count(), 0, 'nothing of a locked vault is left on the page');
  await entry.fill('certainly wrong');
  await page.keyboard.press('Enter');
  await until('a word about the wrong passphrase', async () => (await page.getByRole('alert').textContent())?.trim());
  await entry.fill(DEMO_PASSPHRASE);
  await page.keyboard.press('Enter');
  await page.getByRole('log').waitFor();
  await Promise.all([page.context().close(), second.context().close()]);
};

export const an_identity_is_made_with_the_offered_words = async ({ browser, carol }) => {
  const page = await tab(browser);
  await page.goto(await carol.address());
  await page.getByRole('heading', { name: 'Make your identity' }).waitFor();
  const words = page.locator('.words');
  const first = await words.textContent();
  assert.equal(first.trim().split(/\s+/).length, 6);
  await page.getByRole('button', { name: 'Other words' }).click();
  await until('other words', async () => (await words.textContent()) !== first);
  const entry = page.getByLabel('Passphrase', { exact: true });
  await page.getByLabel('Your name, as others will see it').fill('Carol');
  await entry.fill('short');
  await page.getByRole('button', { name: 'Make it' }).click();
  await until('a word about the short passphrase', async () => (await page.getByRole('alert').textContent())?.trim());
  await page.getByRole('button', { name: 'Use these words' }).click();
  const passphrase = await entry.inputValue();
  assert.equal(passphrase, (await words.textContent()).trim());
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('navigation').waitFor();
  assert.equal((await carol.ask('GET', '/v1/me')).name, 'Carol');
  assert.equal(await page.locator('span.demo').count(), 0, 'no demo badge outside of the demo');
  await page.getByRole('button', { name: 'Lock', exact: true }).click();
  await page.getByLabel('Passphrase').fill(passphrase);
  await page.keyboard.press('Enter');
  await page.getByRole('navigation').waitFor();
  assert.deepEqual(page.faults.filter((fault) => !fault.includes('status of 4')), []);
  await page.context().close();
};
