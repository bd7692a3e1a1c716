// BACKUP-16, BACKUP-25, BACKUP-30 on the page: a backup, its restore into another home, what both sides show, and a move.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { axe, bubble, FITS, measured, tab, until, WIDE, WINDOWS } from './tab.mjs';
import { Program } from './world.mjs';

const VAULT = 'the passphrase of a vault';
const WORDS = 'abacus above absorb accent access acorn';
const RUN = ['node', 'run', '--port', '0'];

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** A relay, Ann and Ben who have written to each other, and a folder for files. */
async function withFriends(binary, work) {
  const programs = [];
  const start = async (args) => {
    const program = new Program(binary);
    programs.push(program);
    return program.start(args);
  };
  const folder = mkdtempSync(join(tmpdir(), 'mezza-usb-'));
  const relay = new Program(binary);
  let child = null;
  const startRelay = async () => {
    child = relay.aside(['relay', 'run']);
    const before = relay.said.length;
    await until('the relay', () => relay.said.slice(before).some((line) => /127\.0\.0\.1:\d+/.test(line)) || relay.said.some((line) => /127\.0\.0\.1:\d+/.test(line)));
  };
  const stopRelay = async () => {
    const gone = new Promise((go) => child.once('exit', go));
    child.kill('SIGTERM');
    await gone;
  };
  relay.run(['relay', 'init', '--listen', `127.0.0.1:${await freePort()}`]);
  await startRelay();
  try {
    const uri = relay.run(['relay', 'uri']).match(/mezzavoce:r1\/\S+/i)[0];
    const ann = await start(RUN);
    const ben = await start(RUN);
    await ann.ask('POST', '/v1/create', { name: 'Ann', passphrase: VAULT, relay: uri });
    await ben.ask('POST', '/v1/create', { name: 'Ben', passphrase: VAULT, relay: uri });
    const card = async (one) => (await one.ask('GET', '/v1/me/card?form=full&as=uri')).uri;
    const annCard = await card(ann);
    await ann.ask('POST', '/v1/contacts', { uri: await card(ben), in_person: true });
    await ben.ask('POST', '/v1/contacts', { uri: annCard, in_person: true });
    await talk(ann, 'Ben', 'hello Ben');
    await talk(ben, 'Ann', 'hello Ann');
    await work({ ann, ben, folder, start, startRelay, stopRelay });
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
    child?.kill('SIGTERM');
    await relay.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const notesOf = async (program, name) => {
  const { id } = await program.contact(name);
  return (await program.ask('GET', `/v1/contacts/${id}/notes?limit=100`)).notes;
};

/** Sends a note and waits until it is on the other device. */
async function talk(program, name, text) {
  const { id } = await program.send((await program.contact(name)).id, text);
  await until(`the receipt of ${text}`, async () => (await notesOf(program, name)).some((note) => note.id === id && ['delivered', 'read'].includes(note.state)));
}

async function thread(page, program, name) {
  const { id } = await program.contact(name);
  await page.evaluate((to) => (location.hash = `#/c/${to}`), id);
  await page.getByRole('log').waitFor();
}

async function fitsAndSound(page, what) {
  for (const size of [...Object.values(WINDOWS), WIDE]) {
    await page.setViewportSize(size);
    assert.deepEqual(await measured(page), FITS, what);
  }
  assert.deepEqual((await axe(page)).severe, [], what);
}

export const backup_16_a_backup_is_made_and_restored_on_the_page = async ({ browser, alice }) => withFriends(alice.binary, async ({ ann, ben, folder, start, startRelay, stopRelay }) => {
  const file = join(folder, 'ann.age');
  // A note that waits without a number, because no relay is there.
  await stopRelay();
  await ann.send((await ann.contact('Ben')).id, 'shall I?');
  await ann.send((await ann.contact('Ben')).id, 'better not');

  const page = await tab(browser);
  await page.goto(await ann.address());
  await page.getByRole('navigation').waitFor();
  await page.evaluate(() => (location.hash = '#/settings'));
  await page.getByRole('link', { name: 'Backups' }).click();
  await page.getByText('No backup has been made yet.').waitFor();
  await fitsAndSound(page, 'the screen of backups');
  await page.getByRole('textbox', { name: /^New file/ }).fill(file);
  const make = page.getByRole('region', { name: 'Make a backup' });
  await make.getByLabel('Passphrase of the backup', { exact: true }).fill('short');
  await make.getByRole('button', { name: 'Make the backup' }).click();
  await make.getByRole('alert').filter({ hasText: '8 characters' }).waitFor();
  assert.ok(!existsSync(file));
  await make.getByLabel('Passphrase of the backup', { exact: true }).fill(WORDS);
  await make.getByRole('button', { name: 'Make the backup' }).click();
  await make.getByText(/^The backup is in .*One contact and 4 notes/).waitFor();
  await page.getByText(/^The last backup is from/).waitFor();

  const check = page.getByRole('region', { name: 'Check a backup' });
  await check.getByLabel('Passphrase of the backup', { exact: true }).fill('abacus above absorb accent');
  await check.getByRole('button', { name: 'Check it' }).click();
  await check.getByRole('alert').filter({ hasText: 'passphrase is wrong' }).waitFor();
  await check.getByLabel('Passphrase of the backup', { exact: true }).fill(WORDS);
  await check.getByRole('button', { name: 'Check it' }).click();
  await check.getByText(/^The whole file is readable\. One contact and 4 notes/).waitFor();
  assert.deepEqual(page.faults.filter((fault) => !/status of 4/.test(fault)), []);
  await page.context().close();

  // The lost device goes on after its last backup. What waits there is never sent.
  const { notes } = await ann.ask('GET', '/v1/outbox').then(({ notes }) => ({ notes }));
  for (const note of notes) await ann.ask('DELETE', `/v1/notes/${note.id}?how=cancel`);
  await startRelay();
  await talk(ann, 'Ben', 'after the backup');
  await talk(ben, 'Ann', 'Ann has it for a while');
  await ann.end();

  const fresh = await start(RUN);
  const door = await tab(browser);
  await door.goto(await fresh.address());
  await door.getByRole('heading', { name: 'Make your identity' }).waitFor();
  await door.getByRole('link', { name: 'Move' }).click();
  await door.getByRole('heading', { name: 'Move from another device' }).waitFor();
  await door.getByRole('link', { name: 'New' }).click();
  await door.getByRole('heading', { name: 'Make your identity' }).waitFor();
  await door.getByRole('link', { name: 'Restore' }).click();
  await door.getByRole('heading', { name: 'Restore a backup' }).waitFor();
  await door.locator('.words').waitFor();
  await fitsAndSound(door, 'the restore');
  await door.getByRole('textbox', { name: /^File of the backup/ }).fill(file);
  await door.getByLabel('Passphrase of the backup', { exact: true }).fill('abacus above absorb accent');
  await door.getByLabel('New passphrase for this device', { exact: true }).fill(VAULT);
  await door.getByRole('button', { name: 'Restore it' }).click();
  await door.getByRole('alert').filter({ hasText: 'passphrase is wrong' }).waitFor();
  assert.equal((await fresh.ask('GET', '/v1/status')).state, 'empty', 'nothing was made');
  await door.getByLabel('Passphrase of the backup', { exact: true }).fill(WORDS);
  await door.getByRole('button', { name: 'Restore it' }).click();
  await door.getByRole('navigation', { name: 'People and places' }).waitFor();
  await thread(door, fresh, 'Ben');
  await bubble(door, 'hello Ben', true).waitFor();

  // Each side sees what was lost, note by note.
  await door.getByText('One note of yours is on their device and not here').waitFor();
  await door.getByText('2 notes may have been sent since the backup: send them again, or discard them').waitFor();
  const unsure = bubble(door, 'shall I?', true);
  await unsure.getByText(/^May have been sent since/).waitFor();
  await unsure.getByRole('button', { name: 'Send again' }).click();
  await until('the note that Ann decided to send', async () => (await notesOf(ben, 'Ann')).some((note) => note.text === 'shall I?'));
  await bubble(door, 'better not', true).getByRole('button', { name: 'Discard' }).click();
  await bubble(door, 'better not', true).waitFor({ state: 'detached' });
  await door.getByText(/may have been sent since the backup/).waitFor({ state: 'detached' });
  assert.ok(!(await notesOf(ben, 'Ann')).some((note) => note.text === 'better not'));

  const theirs = await tab(browser);
  await theirs.goto(await ben.address());
  await theirs.getByRole('navigation').waitFor();
  await thread(theirs, ben, 'Ann');
  const lost = bubble(theirs, 'Ann has it for a while', true);
  await lost.getByText('Was on their device and is not any more: deleted there, or not in a restored backup').waitFor();
  await lost.getByText('on their device', { exact: true }).waitFor();
  assert.ok(!(await notesOf(fresh, 'Ben')).some((note) => note.text === 'Ann has it for a while'), 'nothing is sent again without Ben');
  await lost.getByRole('button', { name: 'Send again' }).click();
  await until('the note again', async () => (await notesOf(fresh, 'Ben')).some((note) => note.text === 'Ann has it for a while'));
  await theirs.getByRole('button', { name: 'Send again' }).waitFor({ state: 'detached' });
  await talk(fresh, 'Ben', 'as before');
  assert.deepEqual(theirs.faults, []);
  await theirs.context().close();
  await door.context().close();
});

export const backup_15_the_page_warns_when_the_newest_backup_is_gone = async ({ browser, alice }) => withFriends(alice.binary, async ({ ann, folder }) => {
  const page = await tab(browser);
  await page.goto(await ann.address());
  await page.getByRole('navigation').waitFor();
  await page.evaluate(() => (location.hash = '#/backup'));
  const auto = page.getByRole('region', { name: 'Backups without you' });
  const place = join(folder, 'auto');
  await auto.getByLabel('Folder', { exact: true }).fill(place);
  await auto.getByLabel('Passphrase of the backup', { exact: true }).fill(WORDS);
  await auto.getByRole('button', { name: 'Begin' }).click();
  await auto.getByText(/^One backup into .*/).waitFor();
  await page.context().close();
  const banner = /^Backup: the newest one in .* is missing or was changed/;
  renameSync(place, `${place}-away`);
  const again = await tab(browser);
  await again.goto(await ann.address());
  await again.getByText(banner).waitFor();
  await again.getByRole('link', { name: 'Backups' }).click();
  await again.getByRole('heading', { name: 'Backup', exact: true }).waitFor();
  renameSync(`${place}-away`, place);
  await again.getByRole('button', { name: 'Make no more' }).click();
  await again.getByText('The program makes no more backups. Those that are there stay.').waitFor();
  await again.evaluate(() => (location.hash = '#/'));
  await until('no banner', async () => (await again.getByText(/^Backup:/).count()) === 0);
  await again.context().close();
});

export const backup_30_an_identity_is_moved_on_the_page = async ({ browser, alice }) => withFriends(alice.binary, async ({ ann, ben, folder, start }) => {
  const file = join(folder, 'ann.move');
  const fresh = await start(RUN);
  const incoming = await tab(browser);
  await incoming.goto(await fresh.address());
  await incoming.getByRole('link', { name: 'Move' }).click();
  const recipient = await incoming.locator('code').filter({ hasText: /^age1/ }).textContent();
  await incoming.locator('.paper img').waitFor();
  await fitsAndSound(incoming, 'the move to this device');

  const outgoing = await tab(browser);
  await outgoing.goto(await ann.address());
  await outgoing.getByRole('navigation').waitFor();
  await outgoing.evaluate(() => (location.hash = '#/settings'));
  await outgoing.getByRole('link', { name: 'Move to another device' }).click();
  await outgoing.getByLabel('Recipient, as the new device shows it').fill(recipient);
  await outgoing.getByRole('textbox', { name: /^New file/ }).fill(file);
  await fitsAndSound(outgoing, 'the move from this device');
  await outgoing.getByLabel('Passphrase', { exact: true }).fill(VAULT);
  await outgoing.getByRole('button', { name: 'Write the file' }).click();
  const typed = outgoing.getByLabel('Digits', { exact: true });
  await typed.waitFor();
  // Nothing runs here any more, and the page of a reload goes on where it was.
  assert.equal((await ann.ask('GET', '/v1/status')).state, 'locked');
  await outgoing.reload();
  await typed.waitFor();

  await incoming.getByRole('textbox', { name: /^File of the move/ }).fill(file);
  await incoming.getByRole('button', { name: 'Show the digits' }).click();
  const digits = await incoming.locator('.digits').textContent();
  assert.match(digits, /^\d{8}$/);
  await typed.fill(digits === '00000000' ? '11111111' : '00000000');
  await outgoing.getByLabel('Passphrase', { exact: true }).fill(VAULT);
  await outgoing.getByRole('button', { name: 'Destroy the identity here' }).click();
  await outgoing.getByRole('alert').filter({ hasText: 'not the digits' }).waitFor();
  await typed.fill(digits);
  await outgoing.getByRole('button', { name: 'Destroy the identity here' }).click();
  await outgoing.getByRole('heading', { name: 'This device is empty now' }).waitFor();
  const key = await outgoing.locator('code').filter({ hasText: /^mezza-move:/ }).textContent();
  await outgoing.reload();
  await outgoing.getByText(key).waitFor();

  await incoming.getByLabel('Key, as the old device shows it').fill(key);
  await incoming.getByLabel('New passphrase for this device', { exact: true }).fill(VAULT);
  await incoming.getByRole('button', { name: 'Move in' }).click();
  await incoming.getByRole('navigation', { name: 'People and places' }).waitFor();
  await thread(incoming, fresh, 'Ben');
  await bubble(incoming, 'hello Ann', false).waitFor();
  await talk(fresh, 'Ben', 'from the new device');
  await talk(ben, 'Ann', 'it looks the same');
  assert.deepEqual(incoming.faults, []);
  await incoming.context().close();
  await outgoing.context().close();
});

export const backup_30_a_move_is_given_up_on_the_page = async ({ browser, alice }) => withFriends(alice.binary, async ({ ann, folder, start }) => {
  const fresh = await start(RUN);
  const { recipient } = await fresh.ask('POST', '/v1/move/in');
  await ann.ask('POST', '/v1/move/out', { recipient, file: join(folder, 'ann.move'), passphrase: VAULT });
  const page = await tab(browser);
  await page.goto(await ann.address());
  // The vault does not open while it is being moved.
  await page.getByLabel('Passphrase').fill(VAULT);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'being moved away' }).waitFor();
  await page.getByRole('link', { name: 'Go on with the move' }).click();
  await page.getByLabel('Passphrase', { exact: true }).fill(VAULT);
  await page.getByRole('button', { name: 'Give up the move' }).click();
  await page.locator('h1:has-text("Settings")').waitFor();
  await talk(ann, 'Ben', 'still here');
  await page.context().close();
});
