// The real program, started in an empty home, and a small client of its interface.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const START_MS = 300_000;
/** Carriers that `up` checks: relay, link, mixnet, mesh. */
const CHECKS = 4;
/** How long the tests wait for what must come, ms. Long enough that only what never comes fails by it. */
export const WAIT_MS = 60_000;
const STOP_MS = 30_000;
// The program reads MEZZA_* as settings; those that were meant for this suite are not for it.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MEZZA_')));
/** Passphrase of every demonstration world. */
export const DEMO_PASSPHRASE = 'demo';

/** Waits until `look` gives something; the reason names what was awaited. */
export async function until(what, look, ms = WAIT_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`);
    await new Promise((go) => setTimeout(go, 50));
  }
}

/** One raw request with headers as given, forged ones too. */
export function raw(origin, method, path, headers = {}, body = null) {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, method, path, headers }, (answer) => {
      const chunks = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, text: Buffer.concat(chunks).toString() }));
    });
    asked.on('error', reject);
    if (body !== null) asked.write(body);
    asked.end();
  });
}

/** A running program with its home, its origin and a bearer. */
export class Program {
  constructor(binary) {
    this.binary = binary;
    this.home = mkdtempSync(join(tmpdir(), 'mezza-browser-'));
    this.said = [];
  }

  /** Starts `mezza ARGS` and reads the address of its page from what it prints. */
  async start(args) {
    this.child = spawn(this.binary, ['--json', '--home', this.home, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let ended = null;
    this.child.on('exit', (code) => (ended = code ?? 'a signal'));
    this.child.on('error', (error) => (ended = error.message));
    for (const stream of [this.child.stdout, this.child.stderr]) createInterface({ input: stream }).on('line', (line) => this.said.push(line));
    const address = await until('the address of the page', () => {
      if (ended !== null) throw new Error(`${this.binary} ended with ${ended}:\n${this.said.join('\n')}`);
      return /http:\/\/127\.0\.0\.1:\d+\/#t=[0-9a-f]+/.exec(this.said.join('\n'))?.[0];
    }, START_MS);
    // `up` gives the address before its check, which changes the conversation with echo for a moment.
    if (args[0] === 'up') await until('the check of each carrier', () => this.said.filter((line) => line.includes('"check"')).length >= CHECKS, START_MS);
    this.origin = new URL(address).origin;
    const { bearer } = await this.ask('POST', '/v1/session', { ticket: address.split('#t=')[1] });
    this.bearer = bearer;
    return this;
  }

  /** A call of the interface; throws on anything but success. */
  async ask(method, path, body) {
    // A connection that is kept would be used again for another program that got the same port.
    const headers = { 'content-type': 'application/json', connection: 'close', ...(this.bearer ? { authorization: `Bearer ${this.bearer}` } : {}) };
    const answer = await fetch(this.origin + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** A fresh one-time address. */
  async address() {
    return (await this.ask('POST', '/v1/ticket')).url;
  }

  async contact(name) {
    const { contacts } = await this.ask('GET', '/v1/contacts');
    return contacts.find((one) => one.name === name);
  }

  async send(contact, text) {
    const client_id = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return this.ask('POST', `/v1/contacts/${contact}/notes`, { text, client_id });
  }

  /** Runs the program once in this home, for example `card --out FILE`. */
  run(args) {
    const done = spawnSync(this.binary, ['--home', this.home, ...args], { env, encoding: 'utf8', timeout: START_MS });
    if (done.status !== 0) throw new Error(`mezza ${args.join(' ')}: ${done.status}\n${done.stdout}${done.stderr}`);
    return done.stdout;
  }

  /** Starts another command in this home; what it says is kept with the rest. */
  aside(args) {
    const child = spawn(this.binary, ['--home', this.home, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', (line) => this.said.push(line));
    return child;
  }

  file(name, text) {
    const path = join(this.home, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  /** Stops it and starts it again in the same home. */
  async restart(args) {
    await this.end();
    [this.said, this.bearer] = [[], undefined];
    return this.start(args);
  }

  /** Stops it, and takes its home away. */
  async stop() {
    await this.end();
    rmSync(this.home, { recursive: true, force: true });
  }

  async end() {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) {
      const gone = new Promise((go) => this.child.once('exit', go));
      this.child.kill('SIGTERM');
      const late = setTimeout(() => this.child.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(late);
    }
  }
}
