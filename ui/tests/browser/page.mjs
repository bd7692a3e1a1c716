// WEB-21 to WEB-27 and WEB-10: the order of the page, addresses, languages, search, the mesh, and a relay of one's own.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { axe, bubble, choose, go, openMenu, opened, PHONE, say, tab, until } from './tab.mjs';
import { Program } from './world.mjs';

const PASSPHRASE = 'a passphrase of eight and more';
const RUN = ['node', 'run', '--port', '0'];

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** A fresh home with these settings, whose program runs. */
async function withHome(binary, settings, work) {
  const program = new Program(binary);
  program.file('config.toml', settings);
  try {
    await program.start(RUN);
    await work(program);
  } finally {
    await program.stop();
  }
}

export const web_21_a_note_that_waits_for_a_level_is_sent_at_the_level_of_now = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const { id, policy } = await alice.contact('echo');
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...policy, carriers: ['relay'], pin: 3 } });
  try {
    const text = `written for level 3, ${Date.now()}`;
    await say(page, text);
    const mine = bubble(page, text, true);
    await mine.getByText('The conversation allows no level below 3.').waitFor();
    await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...policy, carriers: ['relay'], pin: 1 } });
    await mine.getByText('It was written for level 3. The conversation allows level 1 now.').waitFor();
    await mine.getByRole('button', { name: 'Send it at level 1' }).click();
    await mine.getByText('on their device').waitFor();
    assert.equal(await mine.getByRole('button', { name: /^Send it at/ }).count(), 0);
  } finally {
    await alice.ask('PATCH', `/v1/contacts/${id}`, { policy });
  }
  await page.context().close();
};

export const web_22_tools_are_in_one_menu_and_the_pane_is_opened_by_the_person = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  assert.equal(await page.getByRole('region', { name: 'About echo' }).count(), 0, 'no pane at first');
  assert.equal(await page.locator('nav .places').count(), 0, 'the menu is shut');
  await page.locator('.thread header a.title').click();
  await page.getByRole('region', { name: 'About echo' }).waitFor();
  await page.locator('.thread header a.title').click();
  await page.getByRole('region', { name: 'About echo' }).waitFor({ state: 'detached' });
  await choose(page, 'Health');
  await page.locator('.lines li').first().waitFor();
  await page.getByRole('button', { name: 'Menu: Health' }).waitFor();
  await openMenu(page);
  assert.equal(await page.locator('nav .places [aria-current="page"]').textContent(), 'Health');
  await page.keyboard.press('Escape');
  await until('the menu is shut again', async () => (await page.locator('nav .places').count()) === 0);
  await until('the focus is on its button', () => page.evaluate(() => document.activeElement?.classList.contains('menu')));
  await page.context().close();
};

export const web_22_notes_of_one_minute_share_a_status_line = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['up', '--demo', '--port', '0']);
  try {
    const { id, policy } = await program.contact('echo');
    // Nobody answers: all of them wait for the same reason.
    await program.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...policy, pin: 4, fallback: 'none' } });
    const page = await opened(browser, program);
    const sent = [];
    const inOneMinute = async () => {
      sent.length = 0;
      for (let n = 0; n < 3; n += 1) sent.push(await program.send(id, `minute ${n}`));
      return new Set(sent.map((note) => Math.floor(note.at_ms / 60_000))).size === 1;
    };
    await until('three notes in one minute', inOneMinute);
    const row = (note) => page.locator(`[data-note="${note.id}"]`);
    await row(sent[2]).waitFor();
    const seen = (note) => row(note).locator('.chip').evaluate((one) => one.getBoundingClientRect().height > 10);
    await until('one line', async () => (await Promise.all(sent.map(seen))).join() === 'false,false,true');
    await row(sent[0]).locator('.text').click();
    await row(sent[0]).locator('.facts').waitFor();
    assert.ok(await seen(sent[0]), 'a note that is chosen shows its own');
    await page.context().close();
  } finally {
    await program.stop();
  }
};

export const web_22_the_observer_opens_on_the_last_note_and_names_its_moments = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const text = `named by the observer ${Date.now()}`;
  await say(page, text);
  await bubble(page, text, true).getByText('on their device').waitFor();
  await choose(page, 'What the relay sees');
  await page.locator('.plaintext').getByText(text).first().waitFor();
  await page.locator('.strip [aria-pressed="true"]').getByText(/echo|notes$/).waitFor();
  await page.context().close();
};

export const web_23_an_address_is_opened_after_a_question_only = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const asked = [];
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      asked.push(bytes.toString());
      socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok');
    });
    socket.on('error', () => null);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const address = `http://127.0.0.1:${server.address().port}/a/long/path?with=${'x'.repeat(80)}`;
    const { id } = await alice.contact('echo');
    await alice.send(id, `look at ${address}, please`);
    const note = page.locator('article.note.own').filter({ hasText: address }).last();
    await note.waitFor();
    assert.equal(await note.locator('a').count(), 0, 'it is no link');
    await note.getByRole('button', { name: address }).click();
    const dialog = page.getByRole('dialog', { name: 'Open this address?' });
    await dialog.getByText(`Your browser connects to 127.0.0.1:${server.address().port}.`).waitFor();
    assert.equal(await dialog.locator('code').textContent(), address, 'all of it');
    const link = dialog.getByRole('link', { name: 'Open it' });
    assert.deepEqual(await link.evaluate((one) => [one.rel, one.target, one.referrerPolicy]), ['noreferrer noopener', '_blank', 'no-referrer']);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'hidden' });
    assert.deepEqual(asked, [], 'nothing was fetched before');
    await note.getByRole('button', { name: address }).click();
    const [other] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
    await until('the request', () => asked.some((one) => one.startsWith('GET /a/long/path')));
    // The browser also asks that server for an icon, and names the server's own page then.
    const pages = asked.filter((one) => one.startsWith('GET /a/long/path'));
    assert.ok(pages.every((one) => !/^referer:/im.test(one)), 'no referrer');
    assert.ok(asked.every((one) => !one.includes(alice.origin)), 'nothing names this page');
    assert.equal(await other.evaluate(() => window.opener), null);
    assert.deepEqual(page.faults, []);
  } finally {
    await page.context().close();
    server.close();
  }
};

export const web_24_the_language_is_switched_and_written_from_right_to_left = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await go(page, '#/settings', 'h1:has-text("Settings")');
  const speaks = () => page.evaluate(() => [document.documentElement.lang, document.documentElement.dir].join());
  assert.equal(await speaks(), 'en,ltr');
  await page.getByLabel('Language').selectOption('fa');
  await page.locator('h1').getByText('تنظیمات').waitFor();
  assert.equal(await speaks(), 'fa,rtl');
  const sides = await page.evaluate(() => ['.people', '.middle'].map((one) => document.querySelector(one).getBoundingClientRect().left));
  assert.ok(sides[0] > sides[1], 'the list is at the right');
  await go(page, '#/', 'nav .list a');
  await page.getByText('گفت‌وگویی را انتخاب کنید.').waitFor();
  await go(page, '#/settings', 'h1:has-text("تنظیمات")');
  await page.locator('select').last().selectOption('en');
  await page.locator('h1').getByText('Settings').waitFor();
  assert.equal(await speaks(), 'en,ltr');
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

export const web_25_a_search_leads_to_an_old_note_and_a_day_to_its_first_one = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['up', '--demo', '--port', '0']);
  try {
    const { id } = await program.contact('echo');
    const first = await program.send(id, 'the Needle in the haystack');
    for (let n = 0; n < 110; n += 1) await program.send(id, `hay ${n}`);
    const page = await opened(browser, program);
    await page.locator('article.note').nth(99).waitFor();
    assert.equal(await page.locator(`[data-note="${first.id}"]`).count(), 0, 'it is not loaded yet');
    await page.getByRole('log').focus();
    await page.keyboard.press('/');
    await page.getByRole('searchbox', { name: 'Text' }).fill('nEEDLE');
    const found = page.locator('.found a').filter({ hasText: 'You to echo' });
    await found.waitFor();
    assert.equal(await found.locator('mark').textContent(), 'Needle');
    await found.click();
    const note = page.locator(`[data-note="${first.id}"]`);
    await note.waitFor();
    await until('it is in sight and has the focus', () => note.evaluate((one) => {
      const box = one.getBoundingClientRect();
      const log = one.closest('.log').getBoundingClientRect();
      return box.top >= log.top && box.bottom <= log.bottom && one.contains(document.activeElement);
    }));
    await go(page, `#/search/${id}`, '[data-screen="search"] input');
    await page.getByRole('searchbox', { name: 'Text' }).fill('no such text');
    await page.getByText('No note contains “no such text”.').waitFor();
    await page.getByRole('button', { name: 'Search for something else' }).click();
    const day = await page.evaluate((at) => {
      const time = new Date(at);
      return [time.getFullYear(), String(time.getMonth() + 1).padStart(2, '0'), String(time.getDate()).padStart(2, '0')].join('-');
    }, first.at_ms);
    await page.getByLabel('Go to a day').fill(day);
    await page.getByRole('button', { name: 'Go to this day' }).click();
    await until('a note of that day', () => page.evaluate(() => document.activeElement?.classList.contains('chip')));
    assert.ok(page.url().endsWith(`/day/${day}`));
    await page.context().close();
  } finally {
    await program.stop();
  }
};

/** A crowd of people who sit is drawn, and its table says what the picture shows. */
async function crowdIsDrawn(page) {
  const crowd = page.getByRole('region', { name: 'A simulated crowd' });
  await crowd.getByLabel('They').selectOption('sit');
  await crowd.getByRole('button', { name: 'Simulate' }).click();
  await crowd.getByText(/^The note arrived after /).waitFor();
  const picture = crowd.locator('canvas');
  await crowd.getByRole('slider').fill('0');
  await crowd.getByRole('img', { name: /^Map of the crowd .* one device holds it$/ }).waitFor();
  const colours = await picture.evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 4).join())).size;
  });
  assert.ok(colours > 3, `a picture of ${colours} colours`);
  const rows = crowd.getByRole('row');
  assert.equal(await rows.count(), 8);
  assert.equal(await rows.nth(1).getByRole('cell').first().textContent(), '1');
}

export const web_26_the_mesh_of_a_home_is_shown_with_its_clock_and_its_card = async ({ browser, alice }) => {
  const port = await freePort();
  await withHome(alice.binary, `mesh = true\nmesh_port = ${port}\nmesh_net = "browser-test-${port}"\n`, async (program) => {
    await program.ask('POST', '/v1/create', { name: 'Mia', passphrase: PASSPHRASE });
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('navigation').waitFor();
    await choose(page, 'Mesh');
    const now = page.getByRole('region', { name: 'The mesh now' });
    await now.getByText(`browser-test-${port}`).waitFor();
    await now.getByText('none is heard').waitFor();
    await now.getByText(/^It is right within .* second/).waitFor();
    await now.getByText('Your card has no keys for the mesh').waitFor();
    const card = page.getByRole('region', { name: 'Your card for the mesh' });
    await until('keys', async () => {
      const compared = card.getByRole('checkbox', { name: 'Date and time are right' });
      if (await compared.count()) await compared.check();
      const make = card.getByRole('button', { name: 'Make keys for the mesh' });
      if (await make.count()) await make.click({ timeout: 1_000 }).catch(() => null);
      return (await card.locator('img').count()) > 0;
    });
    assert.ok((await program.ask('GET', '/v1/mesh')).has_keys);
    await page.getByRole('region', { name: 'How long your notes travel' }).getByText(/erased after at most 1 minute/).waitFor();
    await crowdIsDrawn(page);
    await page.context().close();
  });
  await withHome(alice.binary, '', async (program) => {
    await program.ask('POST', '/v1/create', { name: 'Una', passphrase: PASSPHRASE });
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('navigation').waitFor();
    await choose(page, 'Mesh');
    await page.getByText('mesh = true').waitFor();
    await page.context().close();
  });
};

export const web_10_a_relay_is_run_on_this_machine_with_one_button_and_runs_again = async ({ browser, alice }) => {
  await withHome(alice.binary, `relay_listen = "127.0.0.1:${await freePort()}"\n`, async (program) => {
    const page = await tab(browser, { viewport: PHONE });
    await page.goto(await program.address());
    const sources = page.getByRole('region', { name: 'Where do I get a relay?' });
    for (const text of ['From the person who invited you.', 'On this machine.', 'From an operator.']) await sources.getByText(text).waitFor();
    await sources.getByText('relay init --listen').waitFor();
    await sources.getByRole('button', { name: 'Run a relay here' }).click();
    await sources.getByText(/It runs\. Only people on this machine/).waitFor();
    assert.match(await page.getByRole('textbox', { name: /^Your relay/ }).inputValue(), /^mezzavoce:r1\//i);
    await page.getByLabel('Your name, as others will see it').fill('Rhea');
    await page.getByLabel('Passphrase', { exact: true }).fill(PASSPHRASE);
    await page.getByRole('button', { name: 'Make it' }).click();
    await page.getByRole('navigation').waitFor();
    // While the identity is being made the node answers that there is none.
    const carriers = async () => (await program.ask('GET', '/v1/carriers').catch(() => ({ carriers: [] }))).carriers;
    const up = () => until('the relay is up', async () => (await carriers()).some((one) => one.carrier === 'relay' && one.up));
    await up();
    await page.context().close();
    await program.restart(RUN);
    await program.ask('POST', '/v1/unlock', { passphrase: PASSPHRASE });
    await up();
    assert.ok((await program.ask('GET', '/v1/relay')).relay.up);
  });
};

export const web_10_the_relay_of_the_person_who_invites_is_offered = async ({ browser, alice }) => {
  const { uri } = await alice.ask('GET', '/v1/me/card?form=full&as=uri');
  await withHome(alice.binary, '', async (program) => {
    await program.ask('POST', '/v1/create', { name: 'Ida', passphrase: PASSPHRASE });
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('navigation').waitFor();
    await go(page, '#/add', '.paper img');
    await page.getByRole('textbox', { name: 'Card as text' }).fill(uri);
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText(/is a contact now\. You have no relay\. You can share theirs/).waitFor();
    await page.getByRole('button', { name: 'Use their relay' }).click();
    await page.getByRole('log').waitFor();
    const [own, theirs] = await Promise.all([program, alice].map((one) => one.ask('GET', '/v1/me')));
    assert.equal(own.relays[0].key, theirs.relays[0].key);
    await page.context().close();
  });
  await withHome(alice.binary, '', async (program) => {
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('textbox', { name: /^Your relay/ }).fill(uri);
    await page.getByLabel('Your name, as others will see it').fill('Ivo');
    await page.getByLabel('Passphrase', { exact: true }).fill(PASSPHRASE);
    await page.getByRole('button', { name: 'Make it' }).click();
    await until('the card of the host is there to be added', async () => (await page.getByRole('textbox', { name: 'Card as text' }).inputValue()) === uri);
    await page.context().close();
  });
};

export const web_27_the_life_in_the_mesh_is_chosen_for_a_conversation_and_for_one_note = async ({ browser, alice }) => {
  const { id, policy } = await alice.contact('echo');
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...policy, carriers: ['mesh'], fallback: 'none' } });
  const page = await opened(browser, alice);
  try {
    await go(page, `#/c/${id}/about`, '.groups li');
    const rules = page.getByRole('region', { name: 'About echo' });
    const life = rules.getByLabel('Time in the mesh');
    await rules.getByText(/erased after at most 1 minute/).waitFor();
    await life.selectOption({ label: 'at most 1 hour' });
    await until('the life at the node', async () => (await alice.contact('echo')).policy.mesh_life === 'half-hour');
    await rules.getByText(/within this hour can open notes/).waitFor();
    await page.locator('.log .line').filter({ hasText: 'travel in the mesh: at most 1 hour' }).waitFor();
    assert.deepEqual((await axe(page)).severe, []);

    const next = page.getByLabel('This note in the mesh:');
    await next.selectOption({ label: 'at most 1 day' });
    await page.locator('.life').getByText(/within this day can open notes/).waitFor();
    await say(page, 'by courier');
    const note = bubble(page, 'by courier', true);
    await note.getByText(/announced by|on their device/).waitFor();
    assert.equal(await next.inputValue(), '', 'the choice was for one note');
    await note.locator('.chip').click();
    await note.locator('.facts').getByText('at most 1 day').waitFor();
    const { notes } = await alice.ask('GET', `/v1/contacts/${id}/notes`);
    assert.equal(notes.findLast((one) => one.text === 'by courier' && !one.incoming).mesh_life, 'half-day');

    await life.selectOption({ index: 0 });
    await until('as the node is set', async () => (await alice.contact('echo')).policy.mesh_life === undefined);
  } finally {
    await alice.ask('PATCH', `/v1/contacts/${id}`, { policy });
    await page.context().close();
  }
};
