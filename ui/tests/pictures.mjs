// The pictures of the README and of the guide to the page, taken of the real program: `npm run pictures`
// MEZZA_BIN names the program (default: the debug build), MEZZA_CHROMIUM the browser.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bubble, choose, launch, opened, say } from './browser/tab.mjs';
import { Program } from './browser/world.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const binary = process.env.MEZZA_BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'debug', 'mezza');
/** Largest picture, bytes: a README is opened over slow lines, too. */
const BYTES_MAX = 300_000;
const TEXTS = ['Hello echo, do you read me?', 'Half the voice is enough.'];

async function take(page, name) {
  const path = join(root, 'docs', name);
  await page.mouse.move(0, 0);
  await page.screenshot({ path, animations: 'disabled' });
  const { size } = statSync(path);
  if (size > BYTES_MAX) throw new Error(`${name} has ${size} bytes; at most ${BYTES_MAX}`);
  process.stdout.write(`made     docs/${name}   ${size} bytes\n`);
}

const program = new Program(binary);
process.on('exit', () => program.child?.kill('SIGKILL'));
const browser = await launch();
try {
  await program.start(['up', '--demo', '--listen', '127.0.0.1:0']);
  const page = await opened(browser, program);
  const { id } = await program.contact('echo');
  await page.evaluate((to) => (location.hash = to), `#/c/${id}/about`);
  for (const text of TEXTS) {
    await say(page, text);
    await bubble(page, text, true).getByText('on their device').waitFor();
    await bubble(page, text, false).waitFor();
  }
  await take(page, 'page.png');
  await choose(page, 'What the relay sees');
  await page.locator('.plaintext').getByText(TEXTS[1]).first().waitFor();
  await take(page, 'observer.png');
} finally {
  await browser.close();
  await program.stop();
}
