// WEB-1, WEB-2: who gets in.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { bubble, opened, say, tab } from './tab.mjs';
import { Program, raw, until } from './world.mjs';

export const web_1_a_foreign_host_is_refused_with_421 = async ({ alice }) => {
  const authorization = `Bearer ${alice.bearer}`;
  for (const host of ['evil.example', `evil.example:${new URL(alice.origin).port}`, '127.0.0.1:1', `127.0.0.1.evil.example:${new URL(alice.origin).port}`]) {
    for (const path of ['/v1/status', '/', '/v1/session']) {
      const answer = await raw(alice.origin, path === '/v1/session' ? 'POST' : 'GET', path, { host, authorization });
      assert.equal(answer.status, 421, `${host} ${path}`);
    }
  }
  assert.equal((await raw(alice.origin, 'GET', '/v1/status', { authorization })).status, 200);
};

export const web_1_a_foreign_origin_is_refused_with_403 = async ({ alice }) => {
  const authorization = `Bearer ${alice.bearer}`;
  for (const origin of ['http://evil.example', 'https://127.0.0.1', 'null', `${alice.origin}.evil.example`, 'http://127.0.0.1:1']) {
    const answer = await raw(alice.origin, 'GET', '/v1/status', { origin, authorization });
    assert.equal(answer.status, 403, origin);
  }
  assert.equal((await raw(alice.origin, 'GET', '/v1/status', { origin: alice.origin, authorization })).status, 200);
};

export const web_1_without_a_bearer_401_on_all_but_the_page = async ({ alice }) => {
  const id = (await alice.contact('echo')).id;
  const closed = [['GET', '/v1/status'], ['GET', '/v1/me'], ['GET', '/v1/contacts'], ['GET', `/v1/contacts/${id}/notes`], ['GET', '/v1/observer'],
    ['GET', '/v1/health'], ['GET', '/v1/carriers'], ['GET', '/openapi.json'], ['POST', '/v1/ticket'], ['POST', '/v1/lock'], ['POST', '/v1/unlock'], ['POST', '/v1/qr'], ['DELETE', `/v1/contacts/${id}`]];
  for (const [method, path] of closed) {
    for (const headers of [{}, { authorization: `Bearer ${'0'.repeat(64)}` }, { cookie: `bearer=${alice.bearer}` }]) {
      assert.equal((await raw(alice.origin, method, path, headers)).status, 401, `${method} ${path}`);
    }
  }
  assert.equal((await raw(alice.origin, 'GET', '/')).status, 200);
};

export const web_1_the_socket_closes_with_4401_unless_a_bearer_comes_within_2_s = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const closings = await page.evaluate(() => {
    const closing = (frame) => new Promise((resolve) => {
      const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/v1/events`);
      const begun = performance.now();
      socket.onopen = () => frame === null || socket.send(frame);
      socket.onclose = (closed) => resolve({ code: closed.code, ms: performance.now() - begun });
    });
    return Promise.all([closing('{"bearer":"00"}'), closing('hello'), closing(null)]);
  });
  assert.deepEqual(closings.map((one) => one.code), [4401, 4401, 4401]);
  assert.ok(closings[2].ms > 1_000, `silence was cut after ${closings[2].ms} ms already`);
  await page.context().close();
};

export const web_1_a_page_of_another_origin_learns_nothing = async ({ browser, alice, bob }) => {
  const page = await tab(browser);
  await page.goto(`${bob.origin}/`);
  const answer = await page.evaluate(async ([target, bearer]) => {
    try {
      const got = await fetch(`${target}/v1/status`, { headers: { authorization: `Bearer ${bearer}` } });
      return `${got.status} ${await got.text()}`;
    } catch (error) {
      return error.name;
    }
  }, [alice.origin, alice.bearer]);
  assert.equal(answer, 'TypeError');
  await page.context().close();
};

export const web_2_a_ticket_works_once_and_leaves_the_address = async ({ browser, alice }) => {
  const address = await alice.address();
  const page = await tab(browser);
  await page.goto(address);
  await page.getByRole('log').waitFor();
  assert.ok(!page.url().includes('t='), page.url());
  const kept = await page.evaluate(() => ({ local: Object.values(localStorage).join(), cookies: document.cookie }));
  assert.deepEqual(kept, { local: '', cookies: '' });
  await page.goBack();
  assert.equal(page.url(), 'about:blank', 'history keeps no address with the ticket');

  const second = await tab(browser);
  await second.goto(address);
  await second.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
  await second.getByText('mezza url').first().waitFor();
  await second.getByRole('textbox').fill(await alice.address());
  await second.getByRole('button', { name: 'Open' }).click();
  await second.getByRole('log').waitFor();
  assert.ok(!second.url().includes('t='), second.url());
  await Promise.all([page.context().close(), second.context().close()]);
};

export const web_2_after_a_restart_the_gate_names_the_command_with_its_home = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['node', 'run', '--port', '0']);
  try {
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByRole('heading', { name: 'Make your identity' }).waitFor();
    await program.restart(['node', 'run', '--port', new URL(program.origin).port]);
    await page.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
    assert.equal(await page.locator('code').textContent(), `mezza --home ${program.home} url`);
    const address = program.run(['url']).trim();
    await page.getByRole('textbox').fill(address);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('heading', { name: 'Make your identity' }).waitFor();
    await page.context().close();
  } finally {
    await program.stop();
  }
};

export const web_20_an_unlock_on_the_command_line_opens_the_tab = async ({ browser, alice }) => {
  const program = new Program(alice.binary);
  const pass = program.file('pass', 'long enough for all\n');
  program.run(['init', '--name', 'Nora', '--passphrase-file', pass]);
  await program.start(['node', 'run', '--port', '0']);
  try {
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.locator('input[type=password]').waitFor();
    program.run(['unlock', '--passphrase-file', pass]);
    await page.locator('input[type=password]').waitFor({ state: 'detached' });
    program.run(['lock']);
    await page.locator('input[type=password]').waitFor();
    await page.context().close();
  } finally {
    await program.stop();
  }
};

/** A program of another user that has the port of a node which is gone. It answers as a locked node would, and notes what it gets. */
async function impostor(port) {
  const got = [];
  const server = createServer((request, answer) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      got.push({ path: request.url, authorization: request.headers.authorization, body: Buffer.concat(chunks).toString() });
      answer.setHeader('content-type', 'application/json');
      answer.end(request.url === '/v1/proof' ? JSON.stringify({ mac: '0'.repeat(64) }) : JSON.stringify({ version: '1', state: 'locked', name: 'Nora', demo: false, observer: false, idle_lock_s: 0, now_ms: 0 }));
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { got, close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }) };
}

export const web_17_a_tab_gives_nothing_to_a_program_that_took_the_port_of_its_node = async ({ browser, alice }) => {
  const program = await new Program(alice.binary).start(['node', 'run', '--port', '0']);
  const port = Number(new URL(program.origin).port);
  try {
    const page = await tab(browser);
    await page.goto(await program.address());
    await page.getByLabel('Passphrase').first().fill('correct horse battery staple six');
    const gone = new Promise((go) => program.child.once('exit', go));
    program.child.kill('SIGKILL');
    await gone;
    await page.getByText('The program does not answer').first().waitFor();
    assert.equal(await page.locator('input[type=password], input[type=text]').count(), 0, 'nothing asks for a passphrase meanwhile');
    const other = await impostor(port);
    try {
      await page.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
      assert.equal(await page.locator('input[type=password]').count(), 0);
      assert.ok(other.got.length > 0);
      for (const one of other.got) {
        assert.equal(one.path, '/v1/proof');
        assert.equal(one.authorization, undefined);
        assert.match(one.body, /^\{"challenge":"[0-9a-f]{64}"\}$/);
      }
    } finally {
      await other.close();
    }
    await page.context().close();
  } finally {
    await program.stop();
  }
};

export const msg_83_requests_that_a_note_causes_do_not_say_that_a_person_is_there = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  const echo = await alice.contact('echo');
  // The way here was a person's; its signs have gone along with requests, or go with the next one.
  await page.waitForTimeout(11_000);
  const asked = [];
  page.on('request', (request) => {
    if (request.url().includes('/v1/')) asked.push(request);
  });
  await alice.send(echo.id, 'from another door');
  await bubble(page, 'from another door', false).waitFor();
  await until('requests of the page', () => asked.length >= 2);
  const marked = () => Promise.all(asked.map(async (one) => (await one.allHeaders())['mezza-person']));
  assert.deepEqual(new Set(await marked()), new Set([undefined]), asked.map((one) => one.url()).join());
  await say(page, 'a person writes');
  await bubble(page, 'a person writes', true).waitFor();
  await until('a request of a person', async () => (await marked()).includes('1'));
  await page.context().close();
};

export const web_2_a_reload_keeps_the_session_of_the_tab = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await page.reload();
  await page.getByRole('log').waitFor();
  const other = await page.context().newPage();
  await other.goto(`${alice.origin}/`);
  await other.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
  await page.context().close();
};
