// WEB-1, WEB-2: who gets in.
import assert from 'node:assert/strict';
import { opened, tab } from './tab.mjs';
import { Program, raw } from './world.mjs';

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
    await page.getByRole('heading', { name: 'A fresh address is needed' }).waitFor({ timeout: 30_000 });
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

export const web_2_a_reload_keeps_the_session_of_the_tab = async ({ browser, alice }) => {
  const page = await opened(browser, alice);
  await page.reload();
  await page.getByRole('log').waitFor();
  const other = await page.context().newPage();
  await other.goto(`${alice.origin}/`);
  await other.getByRole('heading', { name: 'A fresh address is needed' }).waitFor();
  await page.context().close();
};
