// The leak meter, with the lab of this build and without any.
import assert from 'node:assert/strict';
import { existsSync, linkSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { axe, choose, FITS, measured, opened, tab, until, WIDE, WINDOWS } from './tab.mjs';
import { Program } from './world.mjs';

const PASSPHRASE = 'long enough for all';
const meterOf = (page) => page.getByRole('region', { name: 'Leak meter' });

export const web_30_the_meter_shows_both_runs_as_a_picture_and_as_a_table = async ({ browser, alice }) => {
  const lab = join(dirname(alice.binary), 'mezza-lab');
  assert.ok(existsSync(lab), `no ${lab}; build it with: cargo build -p mezza-lab`);
  const page = await opened(browser, alice, { reduced: true });
  await choose(page, 'Guard');
  const meter = meterOf(page);
  await meter.getByText(/not the traffic of this device\. A tampered test program hides a made-up secret/).waitFor();
  const lines = () => meter.locator('svg polyline').count();
  assert.equal(await lines(), 0);

  await meter.getByRole('button', { name: 'Run without a guard' }).click();
  await meter.getByText(/^Every bit was read after \d+ handshakes/).waitFor();
  assert.equal(await lines(), 2, 'the frame and one run');
  await meter.getByRole('button', { name: 'Run with a guard' }).click();
  await meter.getByText(/readings are right\. A guess is right once in 256\./).waitFor();
  assert.equal(await lines(), 3);
  await meter.getByRole('img', { name: /Without a guard: 128 of 128 bits recovered, 200 of 200 handshakes seen\. With a guard: \d+ of 128/ }).waitFor();
  await meter.getByText('Handshake dh of the lab, group ristretto255, field A, firewall none.').waitFor();
  await meter.getByText('Handshake dh of the lab, group ristretto255, field A, firewall fw.').waitFor();
  const commands = await meter.locator('code').allTextContents();
  const [off, on] = commands.map((text) => /^mezza lab run leak --variant dh --firewall (none|fw) --seed (\d+)$/.exec(text));
  assert.deepEqual([off?.[1], on?.[1], off?.[2]], ['none', 'fw', on?.[2]], 'both runs are of one secret');

  const rows = meter.getByRole('row');
  assert.equal(await rows.count(), 11);
  const last = await rows.last().getByRole('cell').allTextContents();
  assert.equal(await rows.last().getByRole('rowheader').textContent(), '200');
  assert.equal(last[0], '128');
  assert.ok(Number(last[1]) < 64, `behind the firewall: ${last[1]}`);

  for (const viewport of [WINDOWS.small, WINDOWS.desktop, WINDOWS.doubled]) {
    await page.setViewportSize(viewport);
    assert.deepEqual(await measured(page), { ...FITS, bar: (await measured(page)).bar }, `${viewport.width} px`);
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      const { severe, rest } = await axe(page);
      assert.deepEqual([...severe, ...rest], [], `${scheme}, ${viewport.width} px`);
    }
  }
  await page.setViewportSize(WIDE);

  // Another handshake is another secret: nothing of the first one stays beside it.
  await meter.getByRole('combobox').selectOption('eg');
  assert.equal(await lines(), 0);
  // A run that never begins can be stopped.
  await page.route('**/v1/guard/leak', () => null);
  await meter.getByRole('button', { name: 'Run without a guard' }).click();
  await meter.getByText('The experiment runs.').waitFor();
  assert.ok(await meter.getByRole('button', { name: 'Run with a guard' }).isDisabled());
  await meter.getByRole('button', { name: 'Stop' }).click();
  await meter.getByText('Stopped before its end.').waitFor();
  await page.unrouteAll();
  await meter.getByRole('button', { name: 'Run with a guard' }).click();
  await meter.getByText('Handshake eg of the lab, group ristretto255, field c1, firewall remaul.').waitFor();
  // Whoever leaves the screen ends the experiment, so that the next one may run.
  await choose(page, 'Health');
  await until('the turn', async () => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${alice.bearer}` };
    const answer = await fetch(`${alice.origin}/v1/guard/leak`, { method: 'POST', headers, body: JSON.stringify({ variant: 'dh', guarded: false, seed: 1 }) });
    await answer.body?.cancel();
    return answer.ok;
  });
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

export const web_31_without_the_lab_the_screen_says_how_to_get_it = async ({ browser, alice }) => {
  // A second name of the program, in a folder without a lab.
  const folder = mkdtempSync(join(dirname(alice.binary), 'without-lab-'));
  const binary = join(folder, 'mezza');
  linkSync(alice.binary, binary);
  const program = new Program(binary);
  try {
    await program.start(['node', 'run', '--port', '0']);
    await program.ask('POST', '/v1/create', { name: 'Mia', passphrase: PASSPHRASE });
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('navigation').waitFor();
    await choose(page, 'Guard');
    const meter = meterOf(page);
    await meter.getByText('The lab does not lie beside this program; build it with “cargo build --release -p mezza-lab”').waitFor();
    assert.equal(await meter.getByRole('button').count(), 0);
    const { severe, rest } = await axe(page);
    assert.deepEqual([...severe, ...rest, ...page.faults], []);
    await page.context().close();
  } finally {
    await program.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};
