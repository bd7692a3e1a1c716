// The mixnet on the page: its rounds, joining by a link, and what is too big for it.
import assert from 'node:assert/strict';
import { axe, go, opened, PHONE, tab, tabTo, until, WIDE } from './tab.mjs';
import { Program } from './world.mjs';

const TITLE = 'h1:has-text("Mixnet")';
const ROUND = 'dd[data-round]';
const FILE_BYTES = 2_400_000;

const round = async (page) => Number(await page.locator(ROUND).getAttribute('data-round'));

async function joined(program) {
  await until('the demo mixnet', async () => (await program.ask('GET', '/v1/mixnet')).up);
}

export const the_mixnet_screen_shows_rounds_that_rise_and_demo_noise = async ({ browser, alice, log }) => {
  await joined(alice);
  const page = await opened(browser, alice, { reduced: true });
  await tabTo(page, /^button Menu/);
  await page.keyboard.press('Enter');
  await tabTo(page, /^a Mixnet$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator(TITLE).waitFor();
  await until('focus on the title', () => page.evaluate(() => document.activeElement?.tagName === 'H1'));

  const now = page.getByRole('region', { name: 'The network now' });
  await now.getByText('up: it takes part in each round').waitFor();
  await now.getByText('Gaussian, mean 40, scale 6').waitFor();
  await now.getByText('as the entry server reports').waitFor();
  await now.getByText(/^None: this network promises nothing \([\d,]+ rounds taken part in\)$/).waitFor();
  assert.equal(await now.getByRole('progressbar').count(), 0, 'a bar for a budget that there is not');
  const net = await alice.ask('GET', '/v1/mixnet');
  await now.getByText(net.network).waitFor();
  await page.locator('p.care').getByText('The noise promises nothing').waitFor();

  const shifts = page.evaluate(() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((one) => (sum += one.value))).observe({ type: 'layout-shift' });
    setTimeout(() => done(sum), 3_000);
  }));
  const first = await round(page);
  await until('three answers', async () => (await round(page)) >= first + 4);
  assert.equal(await shifts, 0, 'nothing moves while numbers change');
  log(`round ${first} to ${await round(page)}`);
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

export const the_mixnet_screen_asks_at_most_once_a_second_and_only_while_it_is_seen = async ({ browser, alice }) => {
  await joined(alice);
  const page = await opened(browser, alice);
  const asked = [];
  page.on('request', (request) => request.url().endsWith('/v1/mixnet') && asked.push(request.url()));
  await go(page, '#/mixnet', ROUND);
  // The page has asked once for its own sake when it opened; that may be a moment ago.
  const begun = await page.evaluate(() => performance.now());
  const earlier = asked.length;
  await until('three questions', () => asked.length >= earlier + 3);
  // The page's own clock dates the requests: a busy machine tells them to this program late and in bursts.
  const times = await page.evaluate((from) => performance.getEntriesByType('resource')
    .filter((one) => one.startTime >= from && one.name.endsWith('/v1/mixnet')).map((one) => one.startTime), begun);
  const pauses = times.slice(1).map((time, index) => time - times[index]);
  for (const pause of pauses) assert.ok(pause >= 950, `asked again after ${pause} ms`);

  const hide = (state) => page.evaluate((to) => {
    Object.defineProperty(document, 'visibilityState', { value: to, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
  const quiet = async (why) => {
    await page.waitForTimeout(200);
    const before = asked.length;
    await page.waitForTimeout(2_500);
    assert.equal(asked.length, before, why);
  };
  await hide('hidden');
  await quiet('a hidden screen asks nothing');
  const before = asked.length;
  await hide('visible');
  await until('a question once it is seen again', () => asked.length > before);
  await go(page, '#/health', 'h1:has-text("Health")');
  await quiet('a screen that was left asks nothing');
  await page.context().close();
};

const axeOnMixnet = (scheme, viewport) => async ({ browser, alice, log }) => {
  await joined(alice);
  const page = await opened(browser, alice, { scheme, viewport, reduced: true });
  await go(page, '#/mixnet', ROUND);
  const { severe, rest } = await axe(page);
  rest.forEach((line) => log(`mixnet ${scheme}: ${line}`));
  assert.deepEqual(severe, []);
  const fits = await page.evaluate(() => [document.documentElement, document.querySelector('.sheet')].every((one) => one.scrollWidth <= one.clientWidth));
  assert.ok(fits, 'nothing scrolls sideways');
  await page.context().close();
};

export const axe_finds_nothing_severe_on_the_mixnet_light_wide = axeOnMixnet('light', WIDE);
export const axe_finds_nothing_severe_on_the_mixnet_light_phone = axeOnMixnet('light', PHONE);
export const axe_finds_nothing_severe_on_the_mixnet_dark_wide = axeOnMixnet('dark', WIDE);
export const axe_finds_nothing_severe_on_the_mixnet_dark_phone = axeOnMixnet('dark', PHONE);

export const a_wrong_link_is_refused_with_its_next_step_and_a_right_one_joins = async ({ browser, alice, log }) => {
  await joined(alice);
  const { link, network } = await alice.ask('GET', '/v1/mixnet');
  const fresh = await new Program(alice.binary).start(['node', 'run', '--port', '0']);
  try {
    await fresh.ask('POST', '/v1/create', { name: 'dora', passphrase: 'six words that nobody would guess' });
    const page = await tab(browser);
    await page.goto(await fresh.address());
    await page.getByRole('navigation').waitFor();
    await go(page, '#/mixnet', TITLE);
    const entry = page.getByRole('textbox', { name: 'Link to a mixnet' });
    await entry.waitFor();
    const { severe, rest } = await axe(page);
    rest.forEach((line) => log(`join: ${line}`));
    assert.deepEqual(severe, []);
    assert.deepEqual(page.faults, []);

    await tabTo(page, /^textarea Link to a mixnet/);
    const attempt = async (text, words) => {
      await entry.fill(text);
      await tabTo(page, /^button Join$/);
      await page.keyboard.press('Enter');
      await page.getByRole('alert').filter({ hasText: words }).waitFor();
    };
    await attempt('mezza-net:2:nonsense', /This is no link to a mixnet; write it like mezza-net:1:HASH@host:port/);
    await attempt(`mezza-net:1:${'0'.repeat(64)}@${link.split('@')[1]}`, /hash differs from the link you opened.*; get the link again from a person you trust/);

    // What was refused stands in the browser's console, too.
    page.faults.length = 0;
    await entry.fill(link);
    await page.getByRole('button', { name: 'Join' }).click();
    await page.getByText(network).waitFor();
    await until('focus on the title', () => page.evaluate(() => document.activeElement?.tagName === 'H1'));
    await until('the network up', async () => (await page.getByText('up: it takes part in each round').count()) > 0);
    assert.equal(await entry.count(), 0, 'the form is gone');

    // Left again, by keyboard: what becomes of it is said before.
    await tabTo(page, /^button Leave this mixnet$/);
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Leave this mixnet?' });
    await dialog.getByText('is kept, and counts again').waitFor();
    const asked = await axe(page);
    asked.rest.forEach((line) => log(`leave: ${line}`));
    assert.deepEqual(asked.severe, []);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    assert.equal((await fresh.ask('GET', '/v1/mixnet')).network, network, 'nothing was done');
    await page.getByRole('button', { name: 'Leave this mixnet' }).click();
    // Leaving waits for the question on its way: its answer would be an error once the mixnet is left.
    let free = null;
    let left = false;
    await page.route('**/v1/mixnet', async (route) => {
      if (route.request().method() === 'DELETE') left = true;
      else if (free === null) await new Promise((go) => (free = go));
      await route.continue();
    });
    await until('a question on its way', () => free !== null);
    await dialog.getByRole('button', { name: 'Leave', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    assert.equal(left, false, 'it is left while a question is on its way');
    free();
    await entry.waitFor();
    await page.unroute('**/v1/mixnet');
    await page.locator('.notice').filter({ hasText: 'You have left the mixnet' }).waitFor();
    await until('focus on the title again', () => page.evaluate(() => document.activeElement?.tagName === 'H1'));
    await entry.fill(link);
    await page.getByRole('button', { name: 'Join' }).click();
    await page.getByText(network).waitFor();
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await fresh.stop();
  }
};

/** Gives the page a file as the system would: dropped on, or pasted into, what the selector names. */
const give = (page, how, selector, bytes) => page.evaluate(([kind, at, size]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(size)], 'holiday.jpg', { type: 'image/jpeg' }));
  const options = { bubbles: true, cancelable: true };
  const target = document.querySelector(at);
  if (kind === 'paste') return !target.dispatchEvent(new ClipboardEvent('paste', { ...options, clipboardData: data }));
  const hovered = !target.dispatchEvent(new DragEvent('dragover', { ...options, dataTransfer: data }));
  return hovered && !target.dispatchEvent(new DragEvent('drop', { ...options, dataTransfer: data }));
}, [how, selector, bytes]);

export const a_file_is_refused_before_anything_is_sent_with_its_size_and_time = async ({ browser, alice }) => {
  await joined(alice);
  const page = await opened(browser, alice);
  const sent = [];
  // An open conversation says that it is seen and asks for the cost of its empty draft: a few bytes.
  page.on('request', (request) => {
    const bytes = request.postData()?.length ?? 0;
    const own = /\/(seen|preview)$/.test(request.url()) && bytes < 100;
    if (request.method() !== 'GET' && !own) sent.push(`${request.method()} ${request.url()} ${bytes}`);
  });
  for (const [how, selector] of [['drop', '.log'], ['drop', 'aside.people'], ['paste', 'textarea']]) {
    assert.ok(await give(page, how, selector, FILE_BYTES), `${how} on ${selector} is taken from the browser`);
    const notice = page.locator('.notice').filter({ hasText: 'Not sent: holiday.jpg, 2.4 MB' });
    await notice.waitFor();
    const words = await notice.textContent();
    assert.match(words, /10,670 cells of 225 bytes, one in each round, at least 3 hours/);
    assert.match(words, /at most 8,192 bytes in a note; a mixnet message is 40 cells, 8,998 bytes/);
    assert.match(words, /No carrier of this conversation accepts a text of this size/);
    await notice.getByRole('button', { name: 'Dismiss' }).click();
    await notice.waitFor({ state: 'detached' });
  }
  assert.ok(await give(page, 'drop', '.log', 9_500));
  await page.locator('.notice').filter({ hasText: /9,500 bytes.*fits into one message over: relay\./ }).waitFor();
  assert.equal(await page.locator('article.note').filter({ hasText: 'holiday.jpg' }).count(), 0);
  assert.deepEqual(sent, [], 'nothing is sent');
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

export const a_text_that_no_allowed_carrier_takes_is_refused_in_the_composer = async ({ browser, alice }) => {
  await joined(alice);
  const page = await opened(browser, alice);
  const entry = page.getByRole('textbox', { name: /^Note to/ });
  const posted = [];
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/notes') && posted.push(request.url()));
  await entry.fill('x'.repeat(9_001));
  await page.getByText(/^Too long for one note: 9,001 bytes\. Split it in two\. Over the mixnet: 41 cells of 225 bytes, one in each round, at least 41 seconds\./).waitFor();
  await page.keyboard.press('Enter');
  for (const viewport of [PHONE, WIDE]) {
    await page.setViewportSize(viewport);
    const fits = await page.evaluate(() => [...document.querySelectorAll('.thread, .thread form, #cost')].every((one) => one.getBoundingClientRect().right <= document.querySelector('main').getBoundingClientRect().right));
    assert.ok(fits, 'one long word stays in its box');
  }

  // As if sealing it took more than any carrier holds: the page believes what the node measures.
  await page.route('**/preview', async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    await route.fulfill({ response: answer, json: { ...body, offers: body.offers.map((one) => ({ ...one, fits: false, pieces: 99 })) } });
  });
  await entry.fill('y'.repeat(5_000));
  await page.keyboard.press('Enter');
  await page.getByText('Too long for one note: 5,000 bytes').waitFor();
  assert.equal((await entry.inputValue()).length, 5_000, 'the text is kept');
  assert.deepEqual(posted, []);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.context().close();
};

export const somebody_without_a_name_is_asked_who_it_is_and_let_in = async ({ browser, alice, log }) => {
  await joined(alice);
  const { link } = await alice.ask('GET', '/v1/mixnet');
  const { uri } = await alice.ask('GET', '/v1/me/card?form=full&as=uri');
  const fresh = await new Program(alice.binary).start(['node', 'run', '--port', '0']);
  try {
    // Without a relay of their own nobody can write to them but over the mixnet.
    await fresh.ask('POST', '/v1/create', { name: 'erin', passphrase: 'six words that nobody would guess' });
    await fresh.ask('POST', '/v1/mixnet', { link });
    await joined(fresh);
    const contact = await fresh.ask('POST', '/v1/contacts', { uri });
    await fresh.ask('PATCH', `/v1/contacts/${contact.id}`, { policy: { ...contact.policy, carriers: ['mixnet'] } });
    await fresh.send(contact.id, 'Guess who I am');

    const page = await opened(browser, alice);
    await go(page, '#/requests', 'h1:has-text("Requests to write to you")');
    const guest = page.locator('.requests li').filter({ hasText: 'Someone new (no name yet)' });
    await guest.waitFor();
    const { severe, rest } = await axe(page);
    rest.forEach((line) => log(`guest: ${line}`));
    assert.deepEqual(severe, []);
    await guest.getByRole('button', { name: 'Ask who it is' }).click();
    await guest.getByText('Asked.').waitFor();
    const request = page.locator('.requests li').filter({ hasText: 'Guess who I am' });
    await request.waitFor();
    await request.getByRole('heading', { name: 'erin' }).waitFor();
    await request.getByRole('button', { name: 'Accept' }).click();
    await page.getByRole('log').getByText('Guess who I am').waitFor();
    const { id } = await alice.contact('erin');
    await alice.send(id, 'Now I know');
    await until('the answer', async () => (await fresh.ask('GET', `/v1/contacts/${contact.id}/notes`)).notes.some((note) => note.text === 'Now I know' && note.carrier === 'mixnet'));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  } finally {
    await fresh.stop();
  }
};
