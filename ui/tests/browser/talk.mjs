// WEB-13 to WEB-16: what stands in a conversation, what stays of it, and what it costs.
import assert from 'node:assert/strict';
import { about, axe, bubble, go, opened, say, tabTo, until } from './tab.mjs';
import { DEMO_PASSPHRASE, Program } from './world.mjs';

const entryOf = (page) => page.getByRole('textbox', { name: /^Note to/ });
const line = (page, text) => page.locator('.log .line').filter({ hasText: text });

/** Two fresh demonstrations; the second one knows the card of the first. */
async function withPair({ browser, alice }, work) {
  const programs = [new Program(alice.binary), new Program(alice.binary)];
  try {
    for (const program of programs) await program.start(['up', '--demo', '--port', '0']);
    const { uri } = await programs[0].ask('GET', '/v1/me/card?form=full&as=uri');
    await programs[1].ask('POST', '/v1/contacts', { uri, name: 'Ada' });
    await work(...programs, browser);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

export const web_14_requests_stand_on_top_and_count_in_the_title = (world) => withPair(world, async (ada, ben, browser) => {
  const page = await opened(browser, ada);
  const unread = async () => (await ada.ask('GET', '/v1/contacts')).contacts.reduce((sum, one) => sum + one.unread, 0);
  await ben.send((await ben.contact('Ada')).id, 'May I?');
  const first = page.locator('nav .list li').first();
  await first.getByText('Requests to write to you').waitFor();
  await until('one more in the title', async () => (await page.title()) === `(${(await unread()) + 1}) Mezzavoce`);
  await first.getByRole('link').click();
  await page.locator('.requests li').getByText('May I?').waitFor();
  await page.getByRole('button', { name: 'Accept' }).click();
  await page.getByRole('log').getByText('May I?').waitFor();
  await until('none asks', async () => (await page.getByText('Requests to write to you').count()) === 0);
  await page.context().close();

  // A change by either side is a line in both threads, and survives a lock.
  const theirs = await opened(browser, ben);
  const { id } = await ben.contact('Ada');
  await go(theirs, `#/c/${id}`, 'article.note');
  const [{ id: back }] = (await ada.ask('GET', '/v1/contacts')).contacts.filter((one) => one.name !== 'echo');
  const mine = await opened(browser, ada);
  await about(mine, back);
  await mine.getByLabel('Disappearing notes').selectOption({ label: '24 hours after they are written or arrive' });
  await line(mine, 'You set the timer to 24 hours').waitFor();
  await line(theirs, 'Ada set the timer to 24 hours').waitFor();
  await mine.locator('.thread header').getByText('Notes disappear after 24 hours').waitFor();
  assert.equal((await ben.contact('Ada')).policy.timer_s, 86_400);
  await ada.ask('PATCH', '/v1/me', { name: 'Ada Lovelace' });
  await line(theirs, 'They now call themselves Ada Lovelace').waitFor();
  assert.equal((await ben.contact('Ada'))?.name, 'Ada', 'the name that was accepted stays');
  await ben.ask('POST', '/v1/lock');
  await ben.ask('POST', '/v1/unlock', { passphrase: DEMO_PASSPHRASE });
  const { changes } = await ben.ask('GET', `/v1/contacts/${id}/changes`);
  assert.deepEqual(changes.map((one) => [one.what, one.own]), [['timer', false], ['name', false]]);
  await Promise.all([mine.context().close(), theirs.context().close()]);
});

export const web_14_carriers_fallback_and_timer_are_chosen_in_the_pane = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await about(page, (await alice.contact('echo')).id);
  const rules = page.getByRole('region', { name: 'About echo' });
  const policy = async () => (await alice.contact('echo')).policy;
  const was = await policy();
  const { id } = await alice.contact('echo');
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...was, carriers: ['relay'], fallback: 'none' } });
  const ways = rules.getByRole('group', { name: 'Carriers for your notes' });
  await until('the last one cannot be taken away', () => ways.getByRole('checkbox', { name: /^relay/ }).isDisabled());
  await ways.getByRole('checkbox', { name: /^mixnet/ }).check();
  await until('both', async () => (await policy()).carriers.join() === 'relay,mixnet');
  await ways.getByRole('button', { name: 'Use mixnet first' }).click();
  await until('the other way round', async () => (await policy()).carriers.join() === 'mixnet,relay');
  await line(page, 'Your notes now use: mixnet, relay').waitFor();
  await rules.getByRole('checkbox', { name: 'If the first is down, use the next' }).check();
  await until('a fallback', async () => (await policy()).fallback === 'listed');
  await line(page, 'You allowed the next carrier').waitFor();
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: was });
  await page.context().close();
};

export const web_14_blocked_looks_blocked = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const { id } = await alice.contact('echo');
  await alice.ask('PATCH', `/v1/contacts/${id}`, { blocked: true });
  try {
    const entry = page.locator('nav .list a').filter({ hasText: 'echo' });
    await entry.getByText('Blocked', { exact: true }).waitFor();
    await page.locator('.thread header').getByText('Blocked', { exact: true }).waitFor();
    assert.equal(await entryOf(page).getAttribute('placeholder'), 'You have blocked this contact');
    assert.ok(await entryOf(page).isDisabled());
    assert.deepEqual((await axe(page)).severe, [], 'pale, and still to be read');
  } finally {
    await alice.ask('PATCH', `/v1/contacts/${id}`, { blocked: false });
  }
  await page.getByText('Blocked', { exact: true }).first().waitFor({ state: 'detached' });
  await page.context().close();
};

export const web_14_a_deleted_note_can_be_taken_back_for_5_s = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const text = `to be deleted ${Date.now()}`;
  await say(page, text);
  const mine = bubble(page, text, true);
  await mine.getByText('on their device').waitFor();
  const { id } = await alice.contact('echo');
  const held = async () => (await alice.ask('GET', `/v1/contacts/${id}/notes`)).notes.some((note) => !note.incoming && note.text === text);
  const remove = async () => {
    await mine.locator('.chip').click();
    await mine.getByRole('button', { name: 'Delete it here' }).click();
    await mine.waitFor({ state: 'detached' });
  };
  await remove();
  await page.getByRole('button', { name: 'Undo' }).click();
  await mine.waitFor();
  assert.ok(await held());
  await remove();
  assert.ok(await held(), 'not yet');
  await until('it is gone', async () => !(await held()));
  await until('the offer is gone, too', async () => (await page.getByRole('button', { name: 'Undo' }).count()) === 0);
  // The node keeps the time: it goes without its page, too (WEB-19).
  await say(page, `${text} too`);
  await bubble(page, `${text} too`, true).getByText('on their device').waitFor();
  await bubble(page, `${text} too`, true).locator('.chip').click();
  await bubble(page, `${text} too`, true).getByRole('button', { name: 'Delete it here' }).click();
  const gone = async () => !(await alice.ask('GET', `/v1/contacts/${id}/notes`)).notes.some((note) => !note.incoming && note.text === `${text} too`);
  assert.ok(!(await gone()));
  await page.goto('about:blank');
  await until('it is gone without its page', gone);
  await page.context().close();
};

export const web_14_what_turns_the_direction_is_marked_and_does_nothing = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const { id } = await alice.contact('echo');
  const text = `photo\u202egnp.exe ${Date.now()}`;
  await alice.send(id, text);
  const note = page.locator('article.note.own').filter({ hasText: 'gnp.exe' }).last();
  await note.getByText('Characters that change the direction').waitFor();
  const shown = await note.locator('.text').evaluate((one) => {
    const last = [...one.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.data.startsWith('gnp'));
    const at = (from, to) => {
      const range = document.createRange();
      range.setStart(last, from);
      range.setEnd(last, to);
      return range.getBoundingClientRect().left;
    };
    return { text: one.textContent, forward: at(0, 1) < at(2, 3), mark: getComputedStyle(one.querySelector('.turn'), '::after').content };
  });
  assert.deepEqual(shown, { text, forward: true, mark: '"⇄"' });
  await page.context().close();
};

export const web_13_nothing_of_the_vault_stays_after_a_lock = async ({ browser, bob }) => {
  const page = await opened(browser, bob);
  const text = `secret of the vault ${Date.now()}`;
  await say(page, text);
  await bubble(page, text, true).getByText('on their device').waitFor();
  await until('something was said', async () => (await page.locator('p.spoken').textContent()) !== '');
  // A notice with a name in it.
  await page.evaluate(() => document.dispatchEvent(Object.assign(new Event('paste', { bubbles: true }), { clipboardData: { types: ['Files'], files: Object.assign([new File(['x'], 'named-by-the-person.jpg')], {}) } })));
  await page.getByText('named-by-the-person.jpg').waitFor();
  await entryOf(page).fill('half a secret');
  await page.getByRole('button', { name: 'Lock', exact: true }).click();
  await page.getByLabel('Passphrase').waitFor();
  const left = await page.evaluate(() => ({ page: document.documentElement.outerHTML, title: document.title, held: JSON.stringify([{ ...sessionStorage }, { ...localStorage }]) }));
  for (const secret of ['echo', text, 'half a secret', 'on their device', 'named-by-the-person', 'alice']) {
    for (const [where, what] of Object.entries(left)) assert.ok(!what.includes(secret), `${secret} is still in: ${where}`);
  }
  await page.getByLabel('Passphrase').fill(DEMO_PASSPHRASE);
  await page.keyboard.press('Enter');
  await page.getByRole('log').waitFor();
  await until('the draft is there again', async () => (await entryOf(page).inputValue()) === 'half a secret');
  await entryOf(page).fill('');
  const { id } = await bob.contact('echo');
  await until('no draft', async () => (await bob.ask('GET', `/v1/contacts/${id}/draft`)).text === '');
  await page.context().close();
};

export const web_15_a_draft_outlives_screen_reload_and_node = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['up', '--demo', '--port', '0']);
  try {
    let page = await opened(browser, program);
    const { id } = await program.contact('echo');
    const drafted = async () => (await program.ask('GET', `/v1/contacts/${id}/draft`)).text;
    const shown = (text) => until(`the draft ${text}`, async () => (await entryOf(page).inputValue()) === text);
    await entryOf(page).pressSequentially('begun and not');
    await go(page, '#/health', '.lines li');
    await until('the draft at the node', async () => (await drafted()) === 'begun and not');
    await go(page, `#/c/${id}`, '[role="log"]');
    await shown('begun and not');
    await entryOf(page).press('End');
    await entryOf(page).pressSequentially(' sent');
    await page.reload();
    await page.getByRole('log').waitFor();
    await shown('begun and not sent');
    await page.context().close();
    await program.restart(['up', '--demo', '--port', '0']);
    page = await opened(browser, program);
    await shown('begun and not sent');
    await page.keyboard.press('Enter');
    await bubble(page, 'begun and not sent', true).waitFor();
    await until('no draft after it was sent', async () => (await drafted()) === '');
    await shown('');
    await page.context().close();
  } finally {
    await program.stop();
  }
};

export const web_15_what_changes_about_a_contact_takes_nothing_that_is_being_written = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const { id, policy } = await alice.contact('echo');
  await about(page, (await alice.contact('echo')).id);
  const rules = page.getByRole('region', { name: 'About echo' });
  const name = rules.getByRole('textbox', { name: 'Your name for them' });
  await rules.locator('.groups li').first().waitFor();
  await name.fill('half a new na');
  const asked = [];
  page.on('request', (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy: { ...policy, timer_s: 604_800 } });
  await line(page, 'You').filter({ hasText: '7 days' }).waitFor();
  await until('the timer in the pane', async () => (await rules.locator('select.entry').inputValue()) === '604800');
  assert.equal(await name.inputValue(), 'half a new na');
  assert.deepEqual(asked.filter((one) => /\/(draft|number|notes)$/.test(one)), [], 'nothing is read again');

  // The name changes elsewhere, too: it is shown, and the field stays.
  await alice.ask('PATCH', `/v1/contacts/${id}`, { policy, name: 'echo elsewhere' });
  try {
    const pane = page.getByRole('region', { name: 'About echo elsewhere' });
    await pane.waitFor();
    const field = pane.getByRole('textbox', { name: 'Your name for them' });
    assert.equal(await field.inputValue(), 'half a new na');
    await field.fill('echo elsewhere');
  } finally {
    await alice.ask('PATCH', `/v1/contacts/${id}`, { name: 'echo' });
  }
  await until('the field follows again', async () => (await name.inputValue()) === 'echo');
  await page.context().close();
};

export const web_15_the_page_asks_before_it_is_left_with_a_draft_that_cannot_be_kept = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await page.route('**/draft', (route) => (route.request().method() === 'PUT' ? route.abort() : route.continue()));
  const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/draft'));
  await entryOf(page).pressSequentially('nobody keeps this');
  await failed;
  await until('the page knows that nobody keeps it', () => page.evaluate(() => !window.dispatchEvent(new Event('beforeunload', { cancelable: true }))));
  const asked = new Promise((resolve) => page.on('dialog', (dialog) => {
    resolve(dialog.type());
    void dialog.accept();
  }));
  await page.close({ runBeforeUnload: true });
  assert.equal(await Promise.race([asked, new Promise((go) => setTimeout(() => go('no question'), 5_000))]), 'beforeunload');
  await page.context().close();
};

export const web_16_a_burst_costs_one_seen_and_few_requests = async ({ browser, alice }) => {
  const [NOTES, BURST_MS] = [30, 300];
  const page = await opened(browser, alice);
  const { id } = await alice.contact('echo');
  const asked = [];
  page.on('request', (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
  await page.evaluate(() => {
    window.updates = 0;
    new MutationObserver((changes) => {
      if (changes.some((change) => [...change.addedNodes].some((node) => node.querySelector?.('article.note') ?? node.matches?.('article.note')))) window.updates += 1;
    }).observe(document.querySelector('.log'), { childList: true, subtree: true });
  });
  const stamp = Date.now();
  await Promise.all(Array.from({ length: NOTES }, (_, n) => alice.send(id, `burst ${stamp} ${n} end`)));
  await until('all answers', async () => (await page.locator('article.note:not(.own)').filter({ hasText: `burst ${stamp}` }).count()) === NOTES);
  await until('all are seen', async () => (await alice.contact('echo')).unread === 0);
  const of = (call) => asked.filter((one) => one === call).length;
  const count = { seen: of(`POST /v1/contacts/${id}/seen`), contact: of(`GET /v1/contacts/${id}`), all: asked.length };
  // A busy machine stretches the burst; each kind of request still goes once in its time.
  const most = 2 + (Date.now() - stamp) / BURST_MS;
  assert.ok(count.seen <= most && count.contact <= most, JSON.stringify({ ...count, most }));
  await page.context().close();
};

export const web_6_a_conversation_that_is_opened_has_the_focus_and_one_stop_for_its_notes = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const focused = () => page.evaluate(() => document.activeElement?.tagName);
  await page.locator('nav .list a').filter({ hasText: 'echo' }).click();
  await until('focus in the composer', async () => (await focused()) === 'TEXTAREA');
  await tabTo(page, /^div Conversation with echo/, 'Shift+Tab');
  await page.keyboard.press('ArrowUp');
  assert.ok(await page.locator('.chip').last().evaluate((one) => one === document.activeElement), 'the newest note');
  await page.keyboard.press('ArrowUp');
  assert.ok(await page.locator('.chip').nth(-2).evaluate((one) => one === document.activeElement), 'the one before');
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'TEXTAREA');
  await page.context().close();
};

/** A conversation whose first page holds not all of its notes, and a reader who has scrolled to the first of them. */
async function atTheFirstNote(browser, binary, look) {
  const program = await new Program(binary).start(['up', '--demo', '--port', '0']);
  try {
    const { id } = await program.contact('echo');
    const sent = [];
    for (let n = 0; n < 120; n += 1) sent.push(await program.send(id, `old note ${n}.`));
    const page = await opened(browser, program);
    await page.locator('article.note').nth(99).waitFor();
    assert.equal(await page.getByText('old note 0.', { exact: true }).count(), 0);
    const log = page.getByRole('log');
    await until('the first note', async () => {
      await log.evaluate((one) => one.scrollTo({ top: 0 }));
      return (await page.locator('article.note.own').getByText('old note 0.', { exact: true }).count()) === 1;
    });
    await look({ program, page, log, sent });
    await page.context().close();
  } finally {
    await program.stop();
  }
}

export const web_16_old_notes_come_by_scrolling_and_the_way_stands_where_it_changes = async ({ browser, alice }) => {
  await atTheFirstNote(browser, alice.binary, async ({ page, log }) => {
    const ids = await page.locator('article.note').count();
    assert.ok(ids >= 120, 'all of them, each once');
    assert.ok((await log.locator('.line time').count()) >= 1, 'with the day');
    const ways = await page.locator('.chip').filter({ hasText: /relay, level 1/ }).count();
    assert.ok(ways < 20, `the way stands at ${ways} of ${ids} notes`);
  });
};

export const web_16_a_note_that_goes_takes_no_older_one_from_the_page = async ({ browser, alice }) => {
  await atTheFirstNote(browser, alice.binary, async ({ program, page, sent }) => {
    await page.evaluate(() => {
      const shown = () => document.querySelectorAll('article.note').length;
      window.fewest = shown();
      new MutationObserver(() => (window.fewest = Math.min(window.fewest, shown()))).observe(document.querySelector('.log'), { childList: true });
    });
    const read = page.waitForResponse((answer) => /\/notes\?limit=/.test(answer.url()));
    await program.ask('DELETE', `/v1/notes/${sent.at(-1).id}?how=forget`);
    await until('the note goes', async () => (await page.locator('article.note.own').getByText('old note 119.', { exact: true }).count()) === 0);
    await (await read).finished();
    await page.waitForTimeout(500);
    assert.equal(await page.locator('article.note.own').getByText('old note 0.', { exact: true }).count(), 1, 'the first note stays');
    assert.ok((await page.evaluate(() => window.fewest)) >= 119, 'and all between');
  });
};
