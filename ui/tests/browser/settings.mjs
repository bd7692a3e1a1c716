// WEB-10, WEB-11: the relay that is asked for, what can be changed later, keys of input methods.
import assert from 'node:assert/strict';
import { FITS, go, measured, opened, tab, until, WIDE, WINDOWS } from './tab.mjs';
import { Program } from './world.mjs';

const SETTINGS = 'h1:has-text("Settings")';
/** Passphrase of a fresh vault. */
const FIRST = 'the first passphrase';
const BANNER = 'You have no relay: nobody can write to you.';

/** Presses a key as Safari does when Enter ends a composition: a trusted key with code 229, followed by its letter. */
async function composedEnter(page) {
  const inspector = await page.context().newCDPSession(page);
  const key = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229, nativeVirtualKeyCode: 229 };
  await inspector.send('Input.dispatchKeyEvent', { type: 'keyDown', ...key, text: '\r', unmodifiedText: '\r' });
  await inspector.send('Input.dispatchKeyEvent', { type: 'keyUp', ...key });
  await inspector.detach();
}

/** A fresh home with a relay of its own, which runs. */
async function withRelay(binary, work) {
  const program = new Program(binary);
  program.run(['relay', 'init', '--listen', '127.0.0.1:0']);
  const relay = program.aside(['relay', 'run']);
  try {
    await until('the relay', () => /127\.0\.0\.1:\d+/.test(program.said.join('\n')));
    await program.start(['node', 'run', '--port', '0']);
    await work(program);
  } finally {
    relay.kill('SIGTERM');
    await program.stop();
  }
}

export const web_10_the_relay_is_asked_for_and_the_one_of_this_home_is_offered = async ({ browser, alice }) => withRelay(alice.binary, async (program) => {
  const page = await tab(browser);
  await page.goto(await program.address());
  await page.getByRole('heading', { name: 'Make your identity' }).waitFor();
  const field = page.getByRole('textbox', { name: /^Your relay/ });
  assert.ok(await field.isVisible(), 'the field is not folded away');
  assert.ok(await page.getByText('Without a relay nobody can write to you').isVisible());
  for (const size of [...Object.values(WINDOWS), WIDE]) {
    await page.setViewportSize(size);
    assert.deepEqual(await measured(page), FITS, 'the form that makes an identity');
  }
  await page.getByText(/A relay is on this machine: 127\.0\.0\.1:\d+.*It runs\. Only people on this machine/).waitFor();
  await page.getByRole('button', { name: 'Use the one on this machine' }).click();
  assert.match(await field.inputValue(), /^mezzavoce:r1\//i);
  await page.getByLabel('Your name, as others will see it').fill('Dora');
  await page.getByLabel('Passphrase', { exact: true }).fill('short');
  await page.getByLabel('Passphrase', { exact: true }).press('Enter');
  await page.getByRole('alert').filter({ hasText: '8 characters' }).waitFor();
  const inside = await page.getByRole('alert').evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight);
  assert.ok(inside, 'what is wrong can be read without scrolling');
  await page.getByLabel('Passphrase', { exact: true }).fill('a passphrase of eight and more');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('navigation').waitFor();
  await until('the keyboard goes on from here', () => page.evaluate(() => document.activeElement?.tagName === 'H1'));
  assert.equal((await program.ask('GET', '/v1/me')).relays.length, 1);
  await until('the relay is up', async () => (await program.ask('GET', '/v1/carriers')).carriers.some((one) => one.carrier === 'relay' && one.up));
  assert.equal(await page.getByText(BANNER).count(), 0);
  await page.context().close();
});

export const web_10_without_a_relay_a_banner_stays_until_there_is_one = async ({ browser, alice }) => withRelay(alice.binary, async (program) => {
  await program.ask('POST', '/v1/create', { name: 'Emil', passphrase: 'a passphrase of eight and more' });
  const page = await tab(browser);
  await page.goto(await program.address());
  for (const hash of ['#/', '#/add', '#/health']) {
    await page.evaluate((to) => (location.hash = to), hash);
    await page.getByText(BANNER).waitFor();
    for (const size of [...Object.values(WINDOWS), WIDE]) {
      await page.setViewportSize(size);
      assert.deepEqual(await measured(page), FITS, `${hash} under the banner`);
    }
  }
  await page.getByRole('link', { name: 'Choose one' }).click();
  await page.locator(SETTINGS).waitFor();
  await page.getByRole('textbox', { name: /^Your relay/ }).fill('mezzavoce:r1/NONE');
  await page.getByRole('button', { name: 'Use this relay' }).click();
  await until('a word about the wrong address', async () => (await page.getByRole('alert').first().textContent())?.trim());
  await page.getByText(BANNER).waitFor();
  await page.getByRole('button', { name: 'Use the one on this machine' }).click();
  const name = page.getByRole('textbox', { name: 'Your name, as others will see it', exact: true });
  await name.fill('half a new na');
  await page.getByRole('button', { name: 'Use this relay' }).click();
  await page.getByText(BANNER).waitFor({ state: 'detached' });
  await page.getByText(/^Saved\. Your contacts get card number/).waitFor();
  assert.equal((await program.ask('GET', '/v1/me')).relays.length, 1);
  assert.equal(await name.inputValue(), 'half a new na', 'WEB-15: another setting leaves it');
  await page.context().close();
});

export const web_10_name_lock_observer_and_colours_are_changed_later = async ({ browser, bob }) => {
  const page = await opened(browser, bob);
  await go(page, '#/settings', SETTINGS);
  const before = await bob.ask('GET', '/v1/me');
  const name = page.getByLabel('Your name, as others will see it');
  await name.fill('ü'.repeat(13));
  await page.getByText('Too long: 26 of 24 bytes').waitFor();
  assert.equal(await name.inputValue(), 'ü'.repeat(13), 'it is counted and not cut');
  await page.keyboard.press('Enter');
  assert.equal((await bob.ask('GET', '/v1/me')).name, before.name);
  await name.fill('Robert');
  await page.keyboard.press('Enter');
  await page.getByText(/^Saved: Robert\./).waitFor();
  const after = await bob.ask('GET', '/v1/me');
  assert.deepEqual([after.name, after.card_serial > before.card_serial], ['Robert', true]);
  await name.fill(before.name);
  await page.keyboard.press('Enter');
  await page.getByText(`Saved: ${before.name}.`).waitFor();

  await page.getByLabel('Locks itself').selectOption({ label: 'after 60 minutes without you' });
  await until('the lock at the node', async () => (await bob.ask('GET', '/v1/status')).idle_lock_s === 3_600);
  assert.match(bob.run(['config', 'print']), /idle_lock_s = 3600/);
  await page.getByLabel('Locks itself').selectOption({ label: 'never' });
  await until('no lock at the node', async () => (await bob.ask('GET', '/v1/status')).idle_lock_s === 0);

  const observer = page.getByRole('checkbox', { name: /^Record the view/ });
  assert.ok(await observer.isChecked());
  await observer.uncheck();
  await page.getByText('The observer is off').waitFor();
  await go(page, '#/observer', 'text=The observer is off');
  await go(page, '#/settings', SETTINGS);
  await observer.check();
  await page.getByText('The observer is recording.').waitFor();

  await page.getByLabel('Colours').selectOption({ label: 'dark' });
  await until('dark', () => page.evaluate(() => document.documentElement.dataset.theme === 'dark'));
  assert.equal(await page.getByLabel('Language').inputValue(), 'en');
  await page.context().close();
};

export const vault_10_the_passphrase_is_changed_on_the_page = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['node', 'run', '--port', '0']);
  try {
    await program.ask('POST', '/v1/create', { name: 'Fay', passphrase: FIRST });
    await changed(browser, program);
  } finally {
    await program.stop();
  }
};

async function changed(browser, program) {
  const page = await tab(browser);
  await page.goto(await program.address());
  await go(page, '#/settings', SETTINGS);
  const section = page.getByRole('region', { name: 'Passphrase' });
  const change = async (old, fresh) => {
    await section.getByLabel('Current passphrase').fill(old);
    await section.getByLabel('New passphrase').fill(fresh);
    await section.getByRole('button', { name: 'Change it' }).click();
  };
  await change('certainly wrong', 'quite another one');
  await until('a word about the wrong passphrase', async () => /wrong/.test(await section.getByRole('alert').textContent()));
  await change(FIRST, 'short');
  await until('a word about the short passphrase', async () => /at least 8/.test(await section.getByRole('alert').textContent()));
  await change(FIRST, 'quite another one');
  await section.getByText(/^Changed and tested/).waitFor();
  await program.ask('POST', '/v1/lock');
  await page.getByRole('button', { name: 'Unlock' }).waitFor();
  const entry = page.getByLabel('Passphrase');
  await entry.fill(FIRST);
  await page.keyboard.press('Enter');
  await until('the old one is refused', async () => (await page.getByRole('alert').textContent())?.trim());
  await entry.fill('quite another one');
  await page.keyboard.press('Enter');
  await page.locator(SETTINGS).waitFor();
  await page.context().close();
}

export const web_11_enter_of_an_input_method_sends_nothing_and_submits_nothing = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const entry = page.getByRole('textbox', { name: /^Note to/ });
  await entry.fill('being composed');
  await composedEnter(page);
  await page.waitForTimeout(200);
  assert.equal(await entry.inputValue(), 'being composed');
  assert.equal(await page.locator('article.note').filter({ hasText: 'being composed' }).count(), 0);
  await entry.fill('');

  await page.evaluate(() => {
    window.submitted = 0;
    document.addEventListener('submit', (event) => {
      event.preventDefault();
      event.stopImmediatePropagation();
      window.submitted += 1;
    }, true);
  });
  const { id } = await alice.contact('echo');
  const forms = [
    [`#/c/${id}/about`, page.getByLabel('Your name for them'), 'Echo'], ['#/settings', page.getByLabel('Your name, as others will see it'), 'Alice B'],
    ['#/add', page.getByLabel('Your name for them'), 'Someone'], ['#/observer', page.getByRole('textbox', { name: /Write a note to echo/ }), 'watched'],
  ];
  for (const [hash, field, text] of forms) {
    await page.evaluate((to) => (location.hash = to), hash);
    if (hash === '#/add') await page.getByLabel('Card as text').fill('mezzavoce:c1/X');
    await field.fill(text);
    const count = await page.evaluate(() => window.submitted);
    await composedEnter(page);
    assert.equal(await page.evaluate(() => window.submitted), count, `${hash}: Enter of an input method`);
    await page.keyboard.press('Enter');
    await until(`${hash}: a real Enter`, () => page.evaluate((was) => window.submitted === was + 1, count));
  }
  await page.context().close();
};
