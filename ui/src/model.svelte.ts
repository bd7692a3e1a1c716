// What the page knows of the node. Everything here is an answer or an event of the node; nothing is guessed ahead of it.
import { untrack } from 'svelte';
import type { Backups, CarrierView, Change, Contact, Me, MeshLife, Mixnet, NodeEvent, Note, Invitation, Request, Requests, Status } from './api.ts';
import { Coalesced, Gathered } from './burst.ts';
import { bearer, call as ask, lose, openSession, presence, prove, Refusal, sentence, takeTicket } from './client.ts';
import { EventStream, type Socket } from './events.ts';
import { t } from './fluent.ts';
import { merge, reaches, renew, upsertNewer } from './order.ts';
import { href, parse, type Route } from './route.ts';
import { stateText } from './words.ts';

const PAGE_NOTES = 100;
/** Notes of one answer on the way back to an old note. */
const FAR_NOTES = 500;
const NOTICES_MAX = 3;
const LOCKED = 423;
const STREAM_MS = 500;
/** Requests that a burst of notes causes are made once in this time, ms. */
const BURST_MS = 300;
/** How long a deleted note can be taken back, ms. */
const UNDO_MS = 5_000;
/** How often the state of the backups is read, ms. */
const BACKUPS_MS = 3_600_000;
/** Code of an answer that came after the lock: it is of no use to anybody. */
const LATE = 'late';

/** Refusals that say nothing of who asks: a program that is away, and a vault that was locked meanwhile. */
const PASSING = ['unreachable', 'locked', LATE];

interface Page {
  notes: Note[];
  more: boolean;
}

interface Thread extends Page {
  anew: string | null;
  changes: Change[];
}

export interface Notice {
  id: number;
  title: string;
  next: string | null;
  act: { name: string; run: () => void } | null;
}

/** One update a frame; a page that nobody sees has no frames. */
const soon = (run: () => void): void => void (document.visibilityState === 'visible' ? requestAnimationFrame(run) : setTimeout(run, BURST_MS));

class Model {
  access = $state<'starting' | 'closed' | 'through'>('starting');
  status = $state<Status | null>(null);
  me = $state<Me | null>(null);
  contacts = $state<Contact[]>([]);
  threads = $state<Record<string, Thread>>({});
  requests = $state<Request[]>([]);
  guests = $state<Invitation[]>([]);
  carriers = $state<CarrierView[]>([]);
  backups = $state<Backups | null>(null);
  notices = $state<Notice[]>([]);
  online = $state(true);
  /** Said to screen readers when the state of an own note changes. */
  spoken = $state('');
  route = $state<Route>(parse(location.hash));

  /** Grows when a person opens a conversation, so that its writing field takes the focus. */
  entered = $state(0);
  /** An address in a note that the person wants to open, and is asked about. */
  address = $state<string | null>(null);
  /** The card of the person whose relay was taken at the beginning: it can be added next. */
  invited_by = $state<string | null>(null);
  /** Notes that are deleted unless the person takes that back, with the timer of each. */
  leaving = $state<Record<string, number>>({});

  #before_lock = new Set<() => Promise<void>>();
  #notice_id = 0;
  #visit = 0;
  #heard = new Gathered<NodeEvent>(soon, (events) => this.#takeNotes(events));
  #often = new Coalesced(BURST_MS);
  #listening: (() => void) | null = null;
  #stream = new EventStream(
    {
      open: () => new WebSocket(`${location.origin.replace(/^http/, 'ws')}/v1/events`) as unknown as Socket,
      proven: prove,
      bearer: () => bearer.read(),
      later: (run, ms) => void setTimeout(run, ms),
      random: () => Math.random(),
    },
    {
      event: (event) => void this.#onEvent(event).catch((error: unknown) => this.report(error)),
      online: (online) => this.#onOnline(online),
      reload: () => (this.#listening ? this.#listening() : void this.refresh()),
      refused: () => this.#signOut(),
    },
  );

  #onOnline(online: boolean): void {
    this.online = online;
    // Whoever listens on the port from now on may be another program.
    if (!online) lose();
  }

  /** Whether this home is in a mixnet. */
  get joined(): boolean {
    return this.carriers.some((one) => one.carrier === 'mixnet');
  }

  /** From one round of the mixnet to the next, ms; null while no network is known. */
  async interval(): Promise<number | null> {
    if (!this.joined) return null;
    return this.#call<Mixnet>('GET', '/v1/mixnet').then((net) => net.interval_ms, () => null);
  }

  /** A call whose answer counts only if the vault was not locked meanwhile. */
  async #call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const visit = this.#visit;
    const answer = await ask<T>(method, path, body);
    if (visit !== this.#visit) throw new Refusal({ code: LATE, title: '', next: '', status: 0 });
    return answer;
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
    presence.watch(window);
    // A backup grows old without an event.
    setInterval(() => void (this.status?.state === 'open' && this.lookAtBackups().catch(() => null)), BACKUPS_MS);
    await this.#enter(ticket);
  }

  async #enter(ticket: string | null): Promise<void> {
    try {
      if (ticket) await openSession(ticket);
      if (bearer.read() === null) return this.#signOut();
      await this.#listen();
      await this.#read();
    } catch (error) {
      if (error instanceof Refusal && !PASSING.includes(error.code)) this.#signOut();
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
    this.status = await ask<Status>('GET', '/v1/status');
    this.access = 'through';
    if (this.status.state !== 'open') return this.#forget();
    const [me, { contacts }, { requests, guests }, { carriers }, backups] = await Promise.all([
      this.#call<Me>('GET', '/v1/me'),
      this.#call<{ contacts: Contact[] }>('GET', '/v1/contacts'),
      this.#call<Requests>('GET', '/v1/requests'),
      this.#call<{ carriers: CarrierView[] }>('GET', '/v1/carriers'),
      this.#call<Backups>('GET', '/v1/backup'),
    ]);
    Object.assign(this, { me, contacts: contacts.filter((one) => one.standing !== 'request'), requests, guests, carriers, backups });
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

  /** Nothing of the vault stays in the page, what is said to screen readers included (WEB-13). */
  #forget(): void {
    this.#visit += 1;
    this.#heard.clear();
    this.#often.clear();
    Object.values(this.leaving).forEach(clearTimeout);
    Object.assign(this, { notices: [], spoken: '', leaving: {}, address: null, invited_by: null });
    this.me = null;
    this.contacts = [];
    this.requests = [];
    this.guests = [];
    this.threads = {};
    this.carriers = [];
    this.backups = null;
  }

  go(route: Route, replace = false): void {
    if (replace) history.replaceState(null, '', href(route));
    else location.hash = href(route);
    this.route = route;
  }

  async #page(id: string, before: string | undefined, limit = PAGE_NOTES): Promise<Page> {
    const from = before === undefined ? '' : `before=${before}&`;
    return this.#call<Page>('GET', `/v1/contacts/${id}/notes?${from}limit=${limit}`);
  }

  /** Reads a thread: its newest notes, and what the page holds of those before them, so that no reader loses the place. */
  async load(id: string): Promise<void> {
    let { notes, more } = await this.#page(id, undefined);
    const held = (): Note[] => untrack(() => this.threads[id]?.notes ?? []);
    while (more && reaches(held(), notes)) {
      const older = await this.#page(id, notes[0]?.id);
      notes = [...older.notes, ...notes];
      more = older.more;
    }
    const known = untrack(() => this.threads[id]);
    this.threads[id] = { notes: renew(notes, held()), more, anew: known?.anew ?? null, changes: known?.changes ?? [] };
    await this.#changed(id);
  }

  /** Reads the notes before those that are held. */
  async earlier(id: string, limit = PAGE_NOTES): Promise<void> {
    const oldest = this.threads[id]?.notes[0]?.id;
    const page = await this.#page(id, oldest, limit);
    const thread = this.threads[id];
    // Another answer may have gone further back meanwhile.
    if (thread && thread.notes[0]?.id === oldest) Object.assign(thread, { notes: merge(page.notes, thread.notes), more: page.more });
  }

  /** Reads a thread back until its oldest note that is held lies far enough in the past, or there are no older ones. */
  async reach(id: string, far: (oldest: Note) => boolean): Promise<void> {
    if (!this.threads[id]) await this.load(id);
    for (;;) {
      const thread = this.threads[id];
      const oldest = thread?.notes[0];
      if (!thread?.more || !oldest || far(oldest)) return;
      await this.earlier(id, FAR_NOTES);
      // Nothing came: the thread was closed meanwhile, or its notes are gone.
      if (this.threads[id]?.notes[0] === oldest) return;
    }
  }

  /** Lets a note that waits for a level leave at the lowest one that its conversation allows now (WEB-21). */
  async lowerLevel(note: Note): Promise<void> {
    await this.#call('POST', `/v1/notes/${note.id}/lower`);
    await this.load(note.contact);
  }

  async #changed(id: string): Promise<void> {
    const { changes } = await this.#call<{ changes: Change[] }>('GET', `/v1/contacts/${id}/changes`);
    const thread = this.threads[id];
    if (thread) thread.changes = changes;
  }

  async send(contact: string, text: string, client_id: string, mesh_life: MeshLife | null = null): Promise<void> {
    const note = { text, client_id, ...(mesh_life === null ? {} : { mesh_life }) };
    this.upsertNotes([await this.#call<Note>('POST', `/v1/contacts/${contact}/notes`, note)]);
  }

  /** Puts notes where they belong, unless an event has brought a newer state of them already. */
  upsertNotes(notes: Note[]): void {
    for (const id of new Set(notes.map((note) => note.contact))) {
      const own = notes.filter((note) => note.contact === id);
      const thread = this.threads[id];
      if (thread) thread.notes = own.reduce(upsertNewer, thread.notes);
      const contact = this.contact(id);
      const last = own.reduce<Note | null>((newest, note) => (!newest || newest.at_ms <= note.at_ms ? note : newest), contact?.last ?? null);
      if (contact) contact.last = last;
    }
  }

  /** Says that this note and all before it were seen, once for a burst of them. */
  seen(contact: string, note: string): void {
    this.#often.ask(`seen ${contact}`, async () => {
      try {
        await this.#call('POST', `/v1/contacts/${contact}/seen`, { note });
        const known = this.contact(contact);
        if (known) known.unread = 0;
      } catch (error) {
        this.report(error);
      }
    });
  }

  /** Has the node delete a note in 5 s, unless the person takes that back. The node keeps the time, whatever becomes of this page (WEB-19). */
  async forgetNote(note: Note): Promise<void> {
    try {
      await this.#call('DELETE', `/v1/notes/${note.id}?how=forget_soon`);
    } catch (error) {
      return this.report(error);
    }
    const back = async (): Promise<void> => {
      await this.#call('DELETE', `/v1/notes/${note.id}?how=keep`);
      clearTimeout(this.leaving[note.id]);
      delete this.leaving[note.id];
    };
    const run = (): void => {
      this.dismiss(shown);
      void back().catch((error: unknown) => this.report(error));
    };
    const shown = this.notify(t('note-forgotten'), null, { name: t('undo'), run });
    // The event of its deletion ends this sooner.
    this.leaving[note.id] = window.setTimeout(() => this.#left(note.id, shown), UNDO_MS);
  }

  /** The time of a deletion is over. A note that is still there is shown again: the thread is read once more. */
  #left(note: string, shown: number): void {
    this.dismiss(shown);
    window.setTimeout(() => delete this.leaving[note], UNDO_MS);
  }

  /** Has a note sent that a restore has left open, or discarded. */
  async settle(note: Note, send: { client_id: string } | null): Promise<void> {
    if (send) await this.#call('POST', `/v1/notes/${note.id}/again`, send);
    else await this.#call('DELETE', `/v1/notes/${note.id}?how=cancel`);
    await Promise.all([this.load(note.contact), this.#again(note.contact)]);
  }

  /** Reads the state of the backups again. */
  async lookAtBackups(): Promise<void> {
    this.backups = await this.#call<Backups>('GET', '/v1/backup');
  }

  async change(id: string, changes: unknown): Promise<void> {
    this.#replace(await this.#call<Contact>('PATCH', `/v1/contacts/${id}`, changes));
    if (this.threads[id]) await this.#changed(id);
  }

  async remove(id: string): Promise<void> {
    await this.#call('DELETE', `/v1/contacts/${id}`);
    this.#drop(id);
    this.go({ screen: 'chats' });
  }

  async answer(id: string, accept: boolean): Promise<void> {
    const contact = await this.#call<Contact | undefined>('POST', `/v1/requests/${id}/${accept ? 'accept' : 'refuse'}`);
    this.requests = this.requests.filter((request) => request.contact.id !== id);
    this.guests = this.guests.filter((guest) => guest.id !== id);
    if (contact) {
      this.#replace(contact);
      this.go({ screen: 'thread', contact: contact.id, about: false });
    }
  }

  /** Asks who it is that invites; the event that follows shows that they were asked. */
  async see(id: string): Promise<void> {
    await this.#call('POST', `/v1/requests/${id}/see`);
  }

  /** Has something done before a lock that the person wants. The result takes that back. */
  beforeLock(work: () => Promise<void>): () => void {
    this.#before_lock.add(work);
    return () => void this.#before_lock.delete(work);
  }

  async lock(): Promise<void> {
    await Promise.all([...this.#before_lock].map((work) => work()));
    this.status = await ask<Status>('POST', '/v1/lock');
    this.#forget();
  }

  /** Adopts the status that create or unlock answered. */
  async opened(status: Status): Promise<void> {
    this.status = status;
    await this.refresh();
  }

  /** Shows what went wrong and the next step; a lost session closes the gate. */
  report(error: unknown): void {
    if (error instanceof Refusal && error.code === LATE) return;
    if (error instanceof Refusal && error.status === 401) return this.#signOut();
    if (error instanceof Refusal && error.status === LOCKED) return void this.#locked();
    const next = error instanceof Refusal ? sentence(error.next) : null;
    this.notify(sentence(error instanceof Error ? error.message : String(error)), next);
  }

  /** Closes the gate if an error says that this tab is not known any more: then nothing is left to be said where it happened. */
  closing(error: unknown): string | null {
    if (!(error instanceof Refusal && error.status === 401)) return null;
    this.#signOut();
    return '';
  }

  /** A call that came after the lock is no trouble: the page goes to the door. */
  async #locked(): Promise<void> {
    this.status = await ask<Status>('GET', '/v1/status');
    if (this.status.state !== 'open') this.#forget();
  }

  /** Shows a notice, and gives its number. */
  notify(title: string, next: string | null = null, act: Notice['act'] = null): number {
    this.#notice_id += 1;
    const fresh = this.notices.filter((notice) => notice.title !== title || notice.act !== null);
    this.notices = [...fresh, { id: this.#notice_id, title, next, act }].slice(-NOTICES_MAX);
    return this.#notice_id;
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

  /** Reads a contact again, once for all that happens to it in a while. */
  #lookAgain(id: string): void {
    this.#often.ask(`contact ${id}`, () => this.#again(id).catch((error: unknown) => this.report(error)));
  }

  async #again(id: string): Promise<void> {
    try {
      const contact = await this.#call<Contact>('GET', `/v1/contacts/${id}`);
      if (contact.standing === 'request') return;
      this.#replace(contact);
      if (this.threads[id]) await this.#changed(id);
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
    }
  }

  async #onEvent(event: NodeEvent): Promise<void> {
    if (event.kind === 'note' || event.kind === 'state') return this.#heard.add(event);
    // What happened before comes before.
    this.#heard.flush();
    switch (event.kind) {
      case 'gone':
        return this.#gone(event);
      case 'contact':
        return event.contact ? this.#lookAgain(event.contact) : this.refresh();
      case 'contact_gone':
        if (event.contact) this.#drop(event.contact);
        return;
      case 'request':
        Object.assign(this, await this.#call<Requests>('GET', '/v1/requests'));
        return;
      case 'anew': {
        const thread = event.contact ? this.threads[event.contact] : undefined;
        if (thread) thread.anew = event.text ?? null;
        return;
      }
      case 'carrier':
        this.carriers = (await this.#call<{ carriers: CarrierView[] }>('GET', '/v1/carriers')).carriers;
        return;
      case 'card':
        this.me = await this.#call<Me>('GET', '/v1/me');
        return;
      case 'low':
        this.notify(sentence(event.text ?? t('low')));
        return;
      case 'trouble':
        this.notify(sentence(event.text ?? t('trouble')));
        return;
      case 'locked':
        return this.refresh();
      case 'unlocked':
        // Whoever has unlocked it here reads everything already.
        if (this.status?.state !== 'open') return this.refresh();
        return;
    }
  }

  async #gone(event: NodeEvent): Promise<void> {
    const thread = event.contact ? this.threads[event.contact] : undefined;
    if (!event.contact || !thread) return;
    thread.notes = thread.notes.filter((note) => note.id !== event.text);
    await this.load(event.contact);
  }

  /** What one frame has brought. */
  #takeNotes(events: NodeEvent[]): void {
    const notes = events.flatMap((event) => event.note ?? []);
    this.upsertNotes(notes);
    const changed = events.findLast((event) => event.kind === 'state')?.note;
    if (changed) this.spoken = stateText(changed);
    const incoming = events.flatMap((event) => (event.kind === 'note' && event.note?.incoming ? event.note.contact : []));
    const unknown = notes.flatMap((note) => (this.contact(note.contact) ? [] : note.contact));
    for (const id of new Set([...incoming, ...unknown])) this.#lookAgain(id);
  }
}

export const model = new Model();
