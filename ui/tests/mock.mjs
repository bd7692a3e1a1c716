// A made-up node for work on the looks of the page only. No test counts on it; the browser tests run the real program.
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PAGE = fileURLToPath(new URL('../../crates/mezza/page', import.meta.url));
const port = Number(process.argv[2] ?? 7190);
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";
const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };
const sockets = new Set();
let state = process.argv[3] ?? 'open';
let cursor = 10;
let next = 100;

const now = () => Date.now();
const relay = { key: '5F3A-91C0', host: '127.0.0.1', port: 7101 };
const policy = () => ({ carriers: ['relay'], pin: 1, fallback: 'none', timer_s: 0, delivered: true, read: false });
const note = (contact, incoming, text, ago, more = {}) => ({
  id: String(next++), contact, incoming, kind: 'text', text, sent_ms: now() - ago, at_ms: now() - ago,
  state: incoming ? 'received' : 'delivered', why: null, words: incoming ? 'received' : 'on their device', carrier: 'relay', level: 1, pin: 1,
  facts: incoming ? [] : [{ what: 'handed', carrier: 'relay', at_ms: now() - ago + 9, words: 'the relay took it' }, { what: 'delivered', carrier: 'relay', at_ms: now() - ago + 14, words: 'on their device' }],
  due_ms: now() + 30 * 864e5, ...more,
});
const contact = (id, name, more = {}) => ({
  id, name, claimed_name: name, standing: 'open', verified: null, policy: policy(), suites: ['0x0101'], relay, absent_parts: [], unread: 0, missing: 0, namesake: false, last: null, ...more,
});
const threads = {
  1: [note('1', false, 'hello', 120e3), note('1', true, 'hello (by relay)', 119e3)],
  2: [note('2', true, 'Did the train leave on time? The board at the station said nothing at all.', 9e7), note('2', false, 'It did. I am by the window, it is raining over the whole plain and everything is green.', 8.99e7, { state: 'read', words: 'read' }),
    note('2', false, 'I will write again from the harbour.', 3e6, { state: 'handed', words: 'the relay took it', facts: [] })],
  3: [note('3', false, 'First greeting, waiting for you.', 5e6, { state: 'queued', why: 'answer', words: 'waiting: for an answer', carrier: null, level: null, facts: [] })],
};
const contacts = [contact('1', 'echo'), contact('2', 'Marguerite', { verified: { how: 'number', at_ms: now() - 9e8 }, unread: 1 }), contact('3', 'יעל', { standing: 'asked', claimed_name: 'Yael' })];
let requests = [{ contact: contact('9', 'Tomás', { standing: 'request' }), notes: [note('9', true, 'It is me, from the reading group. Here is my new card.', 6e5)] }];
const carriers = [{ carrier: 'relay', up: true, level: 1, relay, delay_ms: 10, delay_p99_ms: 40, piece_bytes: 16333, pieces_max: 1, store_h: 720, receipts: true, demo: true,
  hides: [{ from: 'your provider', what: 'what you write', hidden: true }, { from: 'your provider', what: 'that you use this relay', hidden: false }, { from: 'the relay', what: 'what you write', hidden: true }, { from: 'the relay', what: 'who writes to whom', hidden: false }, { from: 'the room', what: 'everything', hidden: true }, { from: 'a thief', what: 'everything, while locked', hidden: true }] }];
const events = [];
let count = 1;

const status = () => ({ version: '0.1.0', state, name: 'alice', demo: true, observer: true, idle_lock_s: 0, now_ms: now() });
const view = (one) => ({ ...one, last: threads[one.id]?.at(-1) ?? null });

function frame(text) {
  const body = Buffer.from(text);
  const head = body.length < 126 ? Buffer.from([0x81, body.length]) : Buffer.from([0x81, 126, body.length >> 8, body.length & 255]);
  return Buffer.concat([head, body]);
}
const tell = (event) => sockets.forEach((socket) => socket.write(frame(JSON.stringify({ cursor: cursor++, ...event }))));

function see(text) {
  const field = (name, value, offset, len) => ({ name, value, offset, len });
  const hex = (bytes) => randomBytes(bytes).toString('hex');
  const at_ms = now();
  events.push({ n: count++, at_ms, who: 'provider', direction: 'out', bytes: 1069, hex: `170303${hex(1066)}`, fields: [field('record type', 'application data', 0, 1), field('version', 'TLS 1.2 (as TLS 1.3 says)', 1, 2), field('length', '1064', 3, 2), field('ciphertext', 'not readable', 5, 1064)] });
  events.push({ n: count++, at_ms, who: 'relay', direction: 'in', bytes: 1047, hex: hex(1047), fields: [field('length', '1043', 0, 4), field('type', 'PUT', 4, 1), field('slot address', 'a16 bytes name of a mailbox', 5, 16), field('ttl', '720 h', 21, 2), field('ephemeral key', 'new for each note', 23, 32), field('sealed envelope', `${text.length} byte text padded to 1024`, 55, 992)] });
  events.push({ n: count++, at_ms: at_ms + 3, who: 'thief', direction: 'at rest', bytes: 512, hex: hex(512), fields: [field('nonce', '24 bytes', 0, 24), field('sealed record', 'padded', 24, 488)] });
}

function send(id, text) {
  const mine = note(id, false, text, 0, { state: 'queued', why: 'sending', words: 'waiting: being sent', carrier: null, level: null, facts: [] });
  threads[id].push(mine);
  see(text);
  const at = threads[id].length - 1;
  const later = (ms, changes) => setTimeout(() => tell({ kind: 'state', contact: id, note: (threads[id][at] = { ...threads[id][at], ...changes }) }), ms);
  const handed = { what: 'handed', carrier: 'relay', at_ms: now() + 9, words: 'the relay took it' };
  later(400, { state: 'handed', words: 'the relay took it', carrier: 'relay', level: 1, facts: [handed], why: null });
  if (id === '1') {
    later(900, { state: 'delivered', words: 'on their device', facts: [handed, { what: 'delivered', carrier: 'relay', at_ms: now() + 14, words: 'on their device' }] });
    setTimeout(() => {
      const back = note('1', true, `${text} (by relay)`, 0);
      threads[1].push(back);
      tell({ kind: 'note', contact: '1', note: back });
    }, 1000);
  }
  return mine;
}

function route(method, path, query, body) {
  const part = path.split('/').slice(2);
  const key = `${method} ${part.map((one) => (/^\d+$/.test(one) ? '#' : one)).join('/')}`;
  const id = part[1];
  switch (key) {
    case 'POST session': return { bearer: 'aa'.repeat(32) };
    case 'GET status': return status();
    case 'POST ticket': return { url: `http://127.0.0.1:${port}/#t=${randomBytes(32).toString('hex')}` };
    case 'GET words': return { words: ['harbour', 'violin', 'maple', 'orbit', 'candle', 'thistle'] };
    case 'POST unlock': if (body.passphrase !== 'demo') return { problem: 403, code: 'passphrase', title: 'This passphrase does not open the vault', next: 'Try again; capital letters count.' };
    // falls through
    case 'POST create': state = 'open'; return status();
    case 'POST lock': state = 'locked'; tell({ kind: 'locked' }); return status();
    case 'GET me': return { name: 'alice', id: '9f'.repeat(16), card_serial: 1, issued_days: 20778, suites: ['0x0101'], relays: [relay], one_time_stock: 97 };
    case 'GET me/card': return query.get('as') === 'svg' ? { svg: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 29 29"><path d="M0 0h7v7H0zM22 0h7v7h-7zM0 22h7v7H0zM9 9h3v3h-3zM15 9h2v8h-2zM10 17h4v3h-4z"/></svg>' } : { uri: `mezzavoce:C/${'ABCDEFGH'.repeat(40)}`, form: 'full', bytes: 210 };
    case 'GET contacts': return { contacts: contacts.map(view) };
    case 'POST contacts': { const made = contact(String(next++), body.name ?? 'Noor', { standing: 'held' }); contacts.push(made); threads[made.id] = []; return made; }
    case 'GET contacts/#': return view(contacts.find((one) => one.id === id));
    case 'PATCH contacts/#': {
      const one = contacts.find((other) => other.id === id);
      if ('verified' in body) one.verified = body.verified ? { how: 'number', at_ms: now() } : null;
      if ('blocked' in body) one.standing = body.blocked ? 'blocked' : 'open';
      if (body.name) one.name = body.name;
      if (body.policy) one.policy = body.policy;
      return view(one);
    }
    case 'DELETE contacts/#': contacts.splice(contacts.findIndex((one) => one.id === id), 1); return '';
    case 'GET contacts/#/number': return { groups: ['02176', '88410', '31987', '55023', '90871', '12440', '67305', '28119', '40552', '73968', '00914', '86233'], scannable_svg: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M1 1h3v3H1z"/></svg>' };
    case 'GET contacts/#/notes': return { notes: threads[id] ?? [], more: id === '2' };
    case 'POST contacts/#/notes': return send(id, body.text);
    case 'POST contacts/#/preview': return { bytes: Buffer.byteLength(body.text), bytes_max: 8192, offers: [{ carrier: 'relay', fits: true, up: true, level: 1, pieces: 1, cost: 'one envelope, about 10 ms' }] };
    case 'POST contacts/#/seen': contacts.find((one) => one.id === id).unread = 0; return '';
    case 'GET requests': return { requests };
    case 'POST requests/#/accept': { const [got] = requests; requests = []; got.contact.standing = 'open'; contacts.push(got.contact); threads[id] = got.notes; return got.contact; }
    case 'POST requests/#/refuse': requests = []; return '';
    case 'GET carriers': return { carriers };
    case 'POST qr': return { uri: `mezzavoce:C/${'QRCODE'.repeat(30)}` };
    case 'GET observer': { const since = Number(query.get('since')); return { next: count, events: events.filter((one) => one.n >= since) }; }
    case 'GET health': return { lines: [{ name: 'vault', ok: true, text: 'open, 34 records, 128 KiB', next: null }, { name: 'relay', ok: true, text: '127.0.0.1:7101 answers in 2 ms', next: null }, { name: 'clock', ok: false, text: 'differs from the relay by 4 minutes', next: 'Set the clock: timedatectl set-ntp true' }] };
    case 'DELETE notes/#': return '';
    default: return { problem: 404, code: 'no_route', title: `no ${key}`, next: 'Look at the contract.' };
  }
}

const server = createServer((request, response) => {
  const url = new URL(request.url, 'http://localhost');
  const headers = { 'content-security-policy': CSP, 'cache-control': 'no-store' };
  if (!url.pathname.startsWith('/v1/')) {
    const file = join(PAGE, url.pathname === '/' ? 'index.html' : url.pathname);
    if (!existsSync(file)) return response.writeHead(404).end();
    return response.writeHead(200, { ...headers, 'content-type': kinds[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  }
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
    const json = request.headers['content-type'] === 'application/json' && chunks.length > 0;
    if (!request.headers.authorization && url.pathname !== '/v1/session') return response.writeHead(401).end();
    const answer = route(request.method, url.pathname, url.searchParams, json ? JSON.parse(Buffer.concat(chunks)) : null);
    if (answer.svg) return response.writeHead(200, { 'content-type': 'image/svg+xml' }).end(answer.svg);
    response.writeHead(answer.problem ?? (answer === '' ? 204 : 200), { ...headers, 'content-type': 'application/json' }).end(answer === '' ? '' : JSON.stringify(answer));
  });
});
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket)).on('error', () => sockets.delete(socket));
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/#t=${'ab'.repeat(32)}`));
see('hello');
