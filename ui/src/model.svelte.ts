// What the page knows of the node. Everything here is an answer or an event of the node; nothing is guessed ahead of it.
import { untrack } from 'svelte';
import type { CarrierView, Contact, Me, Mixnet, NodeEvent, Note, Invitation, Request, Requests, Status } from './api.ts';
import { bearer, call, openSession, Refusal, sentence, takeTicket } from './client.ts';
import { EventStream, type Socket } from './events.ts';
import { t } from './fluent.ts';
import { merge, renew, upsert } from './order.ts';
import { href, parse, type Route } from './route.ts';

const PAGE_NOTES = 100;
const NOTICES_MAX = 3;
const LOCKED = 423;
const STREAM_MS = 500;

interface Thread {
  notes: Note[];
  more: boolean;
  anew: string | null;
}

export interface Notice {
  id: number;
  title: string;
  next: string | null;
}

class Model {
  access = $state<'starting' | 'closed' | 'through'>('starting');
  status = $state<Status | null>(null);
  me = $state<Me | null>(null);
  contacts = $state<Contact[]>([]);
  threads = $state<Record<string, Thread>>({});
  requests = $state<Request[]>([]);
  guests = $state<Invitation[]>([]);
  carriers = $state<CarrierView[]>([]);
  notices = $state<Notice[]>([]);
  online = $state(true);
  /** Said to screen readers when the state of an own note changes. */
  spoken = $state('');
  route = $state<Route>(parse(location.hash));

  #notice_id = 0;
  #listening: (() => void) | null = null;
  #stream = new EventStream(
    {
      open: () => new WebSocket(`${location.origin.replace(/^http/, 'ws')}/v1/events`) as unknown as Socket,
      bearer: () => bearer.read(),
      later: (run, ms) => void setTimeout(run, ms),
      random: () => Math.random(),
    },
    {
      event: (event) => void this.#onEvent(event).catch((error: unknown) => this.report(error)),
      online: (online) => (this.online = online),
      reload: () => (this.#listening ? this.#listening() : void this.refresh()),
      refused: () => this.#signOut(),
    },
  );

  /** Whether this home is in a mixnet. */
  get joined(): boolean {
    return this.carriers.some((one) => one.carrier === 'mixnet');
  }

  /** From one round of the mixnet to the next, ms; null while no network is known. */
  async interval(): Promise<number | null> {
    if (!this.joined) return null;
    return call<Mixnet>('GET', '/v1/mixnet').then((net) => net.interval_ms, () => null);
  }

  contact(id: string): Contact | undefined {
    return this.contacts.find((contact) => contact.id === id);
  }

  /** Starts the page: ticket, session, first answers. */
  async start(): Promise<void> {
    const ticket = takeTicket();
    addEventListener('hashchange', () => {
      const late = takeTicket();
      if (late) void this.#enter(late);
      else this.route = parse(location.hash);
    });
    await this.#enter(ticket);
  }

  async #enter(ticket: string | null): Promise<void> {
    try {
      if (ticket) await openSession(ticket);
      if (bearer.read() === null) return this.#signOut();
      await this.#listen();
      await this.#read();
    } catch (error) {
      if (error instanceof Refusal && error.code !== 'unreachable') this.#signOut();
      this.report(error);
    }
  }

  /** Opens the stream before anything is read, so that nothing happens unheard in between; but waits for it a moment only. */
  async #listen(): Promise<void> {
    const opened = new Promise<void>((resolve) => (this.#listening = resolve));
    this.#stream.stop();
    this.#stream.start();
    await Promise.race([opened, new Promise((resolve) => setTimeout(resolve, STREAM_MS))]);
    this.#listening = null;
  }

  #signOut(): void {
    bearer.drop();
    this.#forget();
    this.access = 'closed';
  }

  /** Reads everything again: after an unlock, and when the node says that we lag too far behind. */
  async refresh(): Promise<void> {
    try {
      await this.#read();
    } catch (error) {
      this.report(error);
    }
  }

  async #read(): Promise<void> {
    this.status = await call<Status>('GET', '/v1/status');
    this.access = 'through';
    if (this.status.state !== 'open') return this.#forget();
    const [me, { contacts }, { requests, guests }, { carriers }] = await Promise.all([
      call<Me>('GET', '/v1/me'),
      call<{ contacts: Contact[] }>('GET', '/v1/contacts'),
      call<Requests>('GET', '/v1/requests'),
      call<{ carriers: CarrierView[] }>('GET', '/v1/carriers'),
    ]);
    Object.assign(this, { me, contacts: contacts.filter((one) => one.standing !== 'request'), requests, guests, carriers });
    await Promise.all(Object.keys(this.threads).map((id) => this.load(id)));
    this.#first();
  }

  /** In the demo world the first screen is the chat with echo. */
  #first(): void {
    if (this.route.screen !== 'chats' || !this.status?.demo) return;
    const echo = this.contacts.find((contact) => contact.name === 'echo');
    if (echo && location.hash === '') this.go({ screen: 'thread', contact: echo.id, about: false }, true);
  }

  /** Those who wait for an answer of this person. */
  get strangers(): number {
    return this.requests.length + this.guests.length;
  }

  #forget(): void {
    this.me = null;
    this.contacts = [];
    this.requests = [];
    this.guests = [];
    this.threads = {};
    this.carriers = [];
  }

  go(route: Route, replace = false): void {
    if (replace) history.replaceState(null, '', href(route));
    else location.hash = href(route);
    this.route = route;
  }

  /** Loads the newest notes of a thread, or the ones before those already held. */
  async load(id: string, earlier = false): Promise<void> {
    const held = untrack(() => this.threads[id]);
    const oldest = held?.notes[0]?.id;
    const before = earlier && oldest !== undefined ? `before=${oldest}&` : '';
    const page = await call<{ notes: Note[]; more: boolean }>('GET', `/v1/contacts/${id}/notes?${before}limit=${PAGE_NOTES}`);
    const known = untrack(() => this.threads[id]?.notes ?? []);
    const notes = earlier ? merge(page.notes, known) : renew(page.notes, known);
    this.threads[id] = { notes, more: page.more, anew: held?.anew ?? null };
  }

  async send(contact: string, text: string, client_id: string): Promise<void> {
    this.upsertNote(await call<Note>('POST', `/v1/contacts/${contact}/notes`, { text, client_id }));
  }

  /** Puts a note where it belongs, unless an event has brought a newer state of it already. */
  upsertNote(note: Note): void {
    const thread = this.threads[note.contact];
    const known = thread?.notes.find((other) => other.id === note.id);
    if (thread && (!known || known.facts.length <= note.facts.length)) thread.notes = upsert(thread.notes, note);
    const contact = this.contact(note.contact);
    if (contact && (!contact.last || contact.last.at_ms <= note.at_ms)) contact.last = note;
  }

  async seen(contact: string, note: string): Promise<void> {
    await call('POST', `/v1/contacts/${contact}/seen`, { note });
    const known = this.contact(contact);
    if (known) known.unread = 0;
  }

  async change(id: string, changes: unknown): Promise<void> {
    this.#replace(await call<Contact>('PATCH', `/v1/contacts/${id}`, changes));
  }

  async remove(id: string): Promise<void> {
    await call('DELETE', `/v1/contacts/${id}`);
    this.#drop(id);
    this.go({ screen: 'chats' });
  }

  async answer(id: string, accept: boolean): Promise<void> {
    const contact = await call<Contact | undefined>('POST', `/v1/requests/${id}/${accept ? 'accept' : 'refuse'}`);
    this.requests = this.requests.filter((request) => request.contact.id !== id);
    this.guests = this.guests.filter((guest) => guest.id !== id);
    if (contact) {
      this.#replace(contact);
      this.go({ screen: 'thread', contact: contact.id, about: false });
    }
  }

  /** Asks who it is that invites; the event that follows shows that they were asked. */
  async see(id: string): Promise<void> {
    await call('POST', `/v1/requests/${id}/see`);
  }

  async lock(): Promise<void> {
    this.status = await call<Status>('POST', '/v1/lock');
    this.#forget();
  }

  /** Adopts the status that create or unlock answered. */
  async opened(status: Status): Promise<void> {
    this.status = status;
    await this.refresh();
  }

  /** Shows what went wrong and the next step; a lost session closes the gate. */
  report(error: unknown): void {
    if (error instanceof Refusal && error.status === 401) return this.#signOut();
    if (error instanceof Refusal && error.status === LOCKED) return void this.#locked();
    const next = error instanceof Refusal ? sentence(error.next) : null;
    this.notify(sentence(error instanceof Error ? error.message : String(error)), next);
  }

  /** A call that came after the lock is no trouble: the page goes to the door. */
  async #locked(): Promise<void> {
    this.status = await call<Status>('GET', '/v1/status');
    if (this.status.state !== 'open') this.#forget();
  }

  notify(title: string, next: string | null = null): void {
    this.#notice_id += 1;
    const fresh = this.notices.filter((notice) => notice.title !== title);
    this.notices = [...fresh, { id: this.#notice_id, title, next }].slice(-NOTICES_MAX);
  }

  dismiss(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  #replace(contact: Contact): void {
    const at = this.contacts.findIndex((other) => other.id === contact.id);
    this.contacts = at < 0 ? [...this.contacts, contact] : this.contacts.with(at, contact);
  }

  #drop(id: string): void {
    this.contacts = this.contacts.filter((contact) => contact.id !== id);
    delete this.threads[id];
  }

  async #again(id: string): Promise<void> {
    try {
      const contact = await call<Contact>('GET', `/v1/contacts/${id}`);
      if (contact.standing !== 'request') this.#replace(contact);
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
    }
  }

  async #onEvent(event: NodeEvent): Promise<void> {
    switch (event.kind) {
      case 'note':
      case 'state':
        return this.#heardNote(event);
      case 'gone':
        return this.#gone(event);
      case 'contact':
        return event.contact ? this.#again(event.contact) : this.refresh();
      case 'contact_gone':
        if (event.contact) this.#drop(event.contact);
        return;
      case 'request':
        Object.assign(this, await call<Requests>('GET', '/v1/requests'));
        return;
      case 'anew': {
        const thread = event.contact ? this.threads[event.contact] : undefined;
        if (thread) thread.anew = event.text ?? null;
        return;
      }
      case 'carrier':
        this.carriers = (await call<{ carriers: CarrierView[] }>('GET', '/v1/carriers')).carriers;
        return;
      case 'card':
        this.me = await call<Me>('GET', '/v1/me');
        return;
      case 'low':
        this.notify(sentence(event.text ?? t('low')));
        return;
      case 'trouble':
        this.notify(sentence(event.text ?? t('trouble')));
        return;
      case 'locked':
        return this.refresh();
    }
  }

  async #gone(event: NodeEvent): Promise<void> {
    const thread = event.contact ? this.threads[event.contact] : undefined;
    if (!event.contact || !thread) return;
    thread.notes = thread.notes.filter((note) => note.id !== event.text);
    await this.load(event.contact);
  }

  async #heardNote(event: NodeEvent): Promise<void> {
    const note = event.note;
    if (!note) return;
    this.upsertNote(note);
    if (event.kind === 'state') this.spoken = note.words;
    const known = this.contact(note.contact);
    if (!known) return this.#again(note.contact);
    if (note.incoming && event.kind === 'note') await this.#again(note.contact);
  }
}

export const model = new Model();
