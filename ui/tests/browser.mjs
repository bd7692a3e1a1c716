// The page in a real browser against the real program. `npm run browser [-- PATTERN]`
// MEZZA_BIN names the program (default: the debug build), MEZZA_CHROMIUM the browser.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as backup from './browser/backup.mjs';
import * as care from './browser/care.mjs';
import * as chat from './browser/chat.mjs';
import * as door from './browser/door.mjs';
import * as keys from './browser/keys.mjs';
import * as leak from './browser/leak.mjs';
import * as mixnet from './browser/mixnet.mjs';
import * as page from './browser/page.mjs';
import * as settings from './browser/settings.mjs';
import * as size from './browser/size.mjs';
import * as talk from './browser/talk.mjs';
import { CHROMIUM, launch } from './browser/tab.mjs';
import { Program } from './browser/world.mjs';

// Ends a test that hangs.
const TEST_MS = 300_000;
const root = fileURLToPath(new URL('../..', import.meta.url));
const binary = process.env.MEZZA_BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'debug', 'mezza');
const pattern = new RegExp(process.argv[2] ?? '');
const cases = Object.entries({ ...door, ...chat, ...care, ...keys, ...page, ...settings, ...talk, ...size, ...mixnet, ...leak, ...backup }).filter(([name]) => pattern.test(name));
const print = (line) => process.stdout.write(`${line}\n`);
const failures = [];

function skip(reason) {
  for (const [name] of cases) print(`SKIPPED ${name}: ${reason}`);
  print(`0 passed, 0 failed, ${cases.length} skipped`);
  process.exit(0);
}

if (!existsSync(CHROMIUM)) skip(`no ${CHROMIUM}; on Debian: apt install chromium`);
if (!existsSync(binary)) skip(`no ${binary}; build it with: cargo build -p mezza`);

async function once(name, run, world) {
  const lines = [];
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not done after ${TEST_MS} ms`)), TEST_MS)));
  try {
    await Promise.race([run({ ...world, log: (line) => lines.push(line) }), late]);
    print(`ok ${name}`);
    return true;
  } catch (error) {
    const reason = String(error?.stack ?? error).split('\n').slice(0, 14).map((line) => `    ${line}`);
    failures.push(`FAILED ${name}`, ...reason);
    print([`FAILED ${name}`, ...reason].join('\n'));
    return false;
  } finally {
    clearTimeout(timer);
    lines.forEach((line) => print(`    ${line}`));
    await Promise.all(world.browser.contexts().map((context) => context.close().catch(() => null)));
  }
}

const programs = [new Program(binary), new Program(binary), new Program(binary)];
// Whatever happens, no program is left behind.
process.on('exit', () => programs.forEach((program) => program.child?.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

const browser = await launch();
let failed = 0;
try {
  const [alice, bob, carol] = programs;
  await alice.start(['up', '--demo', '--port', '0']);
  await bob.start(['up', '--demo', '--port', '0']);
  await carol.start(['node', 'run', '--port', '0']);
  for (const [name, run] of cases) if (!(await once(name, run, { browser, alice, bob, carol }))) failed += 1;
} catch (error) {
  print(`FAILED to start: ${error.message}`);
  failed = cases.length;
} finally {
  await browser.close();
  await Promise.all(programs.map((program) => program.stop()));
}
// Whoever reads the last lines alone sees what failed.
failures.forEach((line) => print(line));
print(`${cases.length - failed} passed, ${failed} failed, 0 skipped`);
process.exit(failed === 0 ? 0 : 1);
