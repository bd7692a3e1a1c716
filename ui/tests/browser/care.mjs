// WEB-3 to WEB-7: policy, hostile text, accessibility, keyboard, failing parts; M6.
import assert from 'node:assert/strict';
import { axe, bubble, go, opened, openHelp, PHONE, say, screens, tab, until, WIDE, WINDOWS } from './tab.mjs';
import { DEMO_PASSPHRASE, Program } from './world.mjs';

async function visit(page, program, look) {
  const { id } = await program.contact('echo');
  for (const [name, hash, selector] of screens(id)) {
    await go(page, hash, selector);
    await look(name);
  }
  await go(page, '#/', 'nav .list a');
  await openHelp(page);
  await look('help');
  await page.keyboard.press('Escape');
}

export const web_3_no_violation_on_any_screen = async ({ browser, alice, bob }) => {
  for (const viewport of [WIDE, PHONE]) {
    const page = await opened(browser, alice, { viewport });
    await say(page, 'a note for the policy');
    await bubble(page, 'a note for the policy', true).getByText('on their device').waitFor();
    await bubble(page, 'a note for the policy', true).getByRole('button').click();
    await visit(page, alice, async (name) => assert.deepEqual(page.faults, [], name));
    await page.context().close();
  }
  const page = await opened(browser, bob);
  await bob.ask('POST', '/v1/lock');
  await page.getByLabel('Passphrase').fill(DEMO_PASSPHRASE);
  await page.keyboard.press('Enter');
  await page.getByRole('log').waitFor();
  // What was asked just before the lock is refused, which the browser notes as well.
  assert.deepEqual(page.faults.filter((fault) => !fault.includes('status of 423')), []);
  await page.context().close();
};

export const web_3_the_policy_is_in_force_and_a_violation_would_be_seen = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const answer = await page.evaluate(() => {
    try {
      document.createElement('div').innerHTML = '<b>x</b>';
      return 'taken';
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(answer, 'TypeError');
  await page.evaluate(() => document.body.setAttribute('style', 'color: red'));
  await until('both violations', () => page.faults.filter((fault) => fault.startsWith('policy:')).length >= 2);
  await page.context().close();
};

const HOSTILE = [
  '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script><a href="javascript:alert(1)">x</a>&lt;b&gt;',
  '\u202e\u2066\u2067dlrow olleh\u202d\u200f <b>bidi</b> \u202e',
  'http://127.0.0.1:1/fetched.png',
];

export const web_4_a_hostile_note_shows_as_text = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  const { id } = await alice.contact('echo');
  for (const text of HOSTILE) await alice.send(id, text);
  for (const text of HOSTILE) {
    await until('the note, letter by letter', () => page.evaluate((want) => [...document.querySelectorAll('.note.own .text')].some((one) => one.textContent === want), text));
  }
  const found = await page.evaluate(() => ({
    children: [...document.querySelectorAll('.note .text')].reduce((sum, one) => sum + one.querySelectorAll('img,script,a,b').length, 0),
    dirs: [...document.querySelectorAll('.note .text')].every((one) => one.getAttribute('dir') === 'auto' && getComputedStyle(one).unicodeBidi.includes('isolate')),
    chips: [...document.querySelectorAll('.note .chip')].every((one) => getComputedStyle(one).direction === 'ltr'),
    title: document.title,
  }));
  assert.deepEqual({ ...found, title: found.title.includes('owned') }, { children: 0, dirs: true, chips: true, title: false });
  assert.deepEqual(asked.filter((url) => !url.replace('blob:', '').startsWith(`${alice.origin}/`)), [], 'links are shown, never fetched');
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

export const web_4_8192_bytes_of_combining_marks_stay_in_their_box = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const { id } = await alice.contact('echo');
  const text = `Z${'\u0335\u0489\u030d'.repeat(1_365)}`;
  assert.equal(Buffer.byteLength(text), 8_191);
  await alice.send(id, 'the note before');
  await bubble(page, 'the note before', true).waitFor();
  await alice.send(id, text);
  const marks = page.locator('.note.own .text').filter({ hasText: '\u0489' }).last();
  await marks.waitFor();
  await until('the answer', async () => (await page.locator('.note:not(.own) .text').filter({ hasText: '\u0489' }).count()) > 0);
  await marks.scrollIntoViewIfNeeded();
  await page.waitForTimeout(300);
  // What is outside the box must look the same whether the marks are drawn or not.
  const shots = async (seen) => {
    await page.evaluate((visible) => {
      for (const one of document.querySelectorAll('.note .text')) if (one.textContent.includes('\u0489')) one.style.color = visible ? '' : 'transparent';
    }, seen);
    return page.getByRole('log').screenshot({ mask: await page.locator('.note .text').all(), animations: 'disabled' });
  };
  // A state that changes meanwhile makes two pictures differ once; marks outside do so each time.
  await until('pictures without marks outside of their box', async () => (await shots(true)).equals(await shots(false)));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.log').scrollWidth <= document.querySelector('.log').clientWidth);
  assert.ok(wide, 'nothing scrolls sideways');
  await page.context().close();
};

const SIZES = [WINDOWS.small, WINDOWS.desktop, WINDOWS.large, WINDOWS.doubled];

/** Both themes and all windows on every screen, in one language. */
const axeOnScreens = (locale) => async ({ browser, alice }) => {
  await alice.send((await alice.contact('echo')).id, 'a note to be judged');
  const page = await opened(browser, alice, { locale, reduced: true });
  await until('the language', async () => (await page.evaluate(() => document.documentElement.lang)) === locale.slice(0, 2));
  await page.locator('.chip').last().click();
  await visit(page, alice, async (name) => {
    for (const viewport of SIZES) {
      await page.setViewportSize(viewport);
      for (const scheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme: scheme });
        const { severe, rest } = await axe(page);
        assert.deepEqual([...severe, ...rest], [], `${name}, ${scheme}, ${viewport.width} px`);
      }
    }
    await page.setViewportSize(WIDE);
  });
  await page.context().close();
};

/** The screens before the chats: no session, locked, and no identity yet. */
const axeAtTheDoor = (scheme, locale) => async ({ browser, bob }) => {
  const closed = await tab(browser, { scheme, locale });
  await closed.goto(`${bob.origin}/`);
  await closed.locator('form code').waitFor();
  const locked = await opened(browser, bob, { scheme, locale });
  await bob.ask('POST', '/v1/lock');
  await locked.locator('input[type=password]').waitFor();
  await locked.keyboard.type('certainly wrong');
  await locked.keyboard.press('Enter');
  await until('a word about the wrong passphrase', async () => (await locked.getByRole('alert').textContent())?.trim());
  const empty = await new Program(bob.binary).start(['node', 'run', '--port', '0']);
  try {
    const create = await tab(browser, { scheme, locale });
    await create.goto(await empty.address());
    await create.locator('.words').waitFor();
    for (const one of [closed, locked, create]) {
      for (const viewport of SIZES) {
        await one.setViewportSize(viewport);
        const { severe, rest } = await axe(one);
        assert.deepEqual([...severe, ...rest], [], `${scheme}, ${viewport.width} px`);
      }
      await one.context().close();
    }
  } finally {
    await empty.stop();
    await bob.ask('POST', '/v1/unlock', { passphrase: DEMO_PASSPHRASE });
  }
};

export const web_5_axe_finds_nothing_in_english = axeOnScreens('en-US');
export const web_5_axe_finds_nothing_in_persian = axeOnScreens('fa-IR');
export const web_5_axe_finds_nothing_at_the_door_light = axeAtTheDoor('light', 'en-US');
export const web_5_axe_finds_nothing_at_the_door_dark = axeAtTheDoor('dark', 'en-US');
export const web_5_axe_finds_nothing_at_the_door_in_persian = axeAtTheDoor('dark', 'fa-IR');
