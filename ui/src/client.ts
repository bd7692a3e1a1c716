// The one place that speaks HTTP with the node.
import { t } from './fluent.ts';
import type { Problem, Status } from './api.ts';
import { Presence } from './presence.ts';
import { challenge, verify } from './proof.ts';

/** A refused call: the problem as the node put it, its next step included. */
export class Refusal extends Error {
  readonly code: string;
  readonly next: string;
  readonly status: number;

  constructor(problem: Problem) {
    super(problem.title);
    this.code = problem.code;
    this.next = problem.next;
    this.status = problem.status;
  }
}

/** An error as one sentence: what is wrong; what to do. Commands stand between backticks on the wire. */
export function faultText(error: unknown): string {
  const said = error instanceof Refusal ? `${error.message}; ${error.next}` : error instanceof Error ? error.message : String(error);
  return sentence(said);
}

/** A text of the node with its commands in quotation marks instead of backticks. */
export const quoted = (text: string): string => text.replace(/`([^`]*)`/g, '“$1”');

/** The same as a sentence of its own: it begins with a capital letter. */
export function sentence(text: string): string {
  return quoted(text.charAt(0).toUpperCase() + text.slice(1));
}

const BEARER = 'mezza.bearer';
const COMMAND = 'mezza.command';
const PROOF = 'mezza.proof';

/** The command that prints another address, as the node said when this tab came in; null before. */
export const command = (): string | null => sessionStorage.getItem(COMMAND);

/** Bearer of this tab, kept across a reload. Per origin and so per port; cookies are shared by all ports. */
export const bearer = {
  read: (): string | null => sessionStorage.getItem(BEARER),
  keep: (value: string): void => sessionStorage.setItem(BEARER, value),
  drop: (): void => sessionStorage.removeItem(BEARER),
};

/** Signs of a person; a request takes them along. */
export const presence = new Presence((run, ms) => void setTimeout(run, ms), () => void call<Status>('GET', '/v1/status').catch(() => null));

/** Whether the node has to prove itself before anything else is sent to its port: at first, and whenever it did not answer. */
let lost = true;
let proving: Promise<boolean> | null = null;

/** The node may be gone: the next request asks for a proof first. */
export const lose = (): void => void (lost = true);

/** Asks the node to prove that this tab came in there. False: another program listens on its port, or a later launch. */
export function prove(): true | Promise<boolean> {
  if (!lost) return true;
  proving ??= proof().finally(() => (proving = null));
  return proving;
}

async function proof(): Promise<boolean> {
  const key = sessionStorage.getItem(PROOF);
  const asked = challenge();
  // No bearer goes with it: whoever listens there learns nothing.
  const answer = await reach('/v1/proof', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ challenge: asked }) });
  const mac = answer.ok ? await answer.json().then(({ mac }: { mac?: unknown }) => mac, () => null) : null;
  const known = key !== null && typeof mac === 'string' && (await verify(key, asked, mac));
  if (known) lost = false;
  return known;
}

/** Takes the one-time ticket out of the address, so that neither history nor a shared screen keeps it. */
export function takeTicket(): string | null {
  const found = /^#t=([0-9a-f]+)$/i.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, '', location.pathname);
  return found[1] ?? null;
}

async function problem(answer: Response): Promise<Problem> {
  const fallback = { code: 'unknown', title: t('error-unknown'), next: t('error-unknown-next'), status: answer.status };
  try {
    const body = (await answer.json()) as Partial<Problem>;
    return { ...fallback, ...body, status: answer.status };
  } catch {
    return fallback;
  }
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { ...init, cache: 'no-store', redirect: 'error' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    lose();
    throw new Refusal({ code: 'unreachable', title: t('error-unreachable'), next: t('error-unreachable-next'), status: 0 });
  }
}

async function ask(method: string, path: string, body?: unknown, leaving = false, signal: AbortSignal | null = null): Promise<Response> {
  const headers = new Headers();
  const held = bearer.read();
  if (held) {
    if (!(await prove())) throw new Refusal({ code: 'bearer', title: t('closed'), next: t('closed-why'), status: 401 });
    headers.set('authorization', `Bearer ${held}`);
    if (presence.take()) headers.set('mezza-person', '1');
  }
  let payload: BodyInit | null = null;
  if (body instanceof Blob) {
    headers.set('content-type', 'application/octet-stream');
    payload = body;
  } else if (body !== undefined) {
    headers.set('content-type', 'application/json');
    payload = JSON.stringify(body);
  }
  const answer = await reach(path, { method, headers, body: payload, keepalive: leaving || method === 'DELETE', signal });
  if (!answer.ok) throw new Refusal(await problem(answer));
  return answer;
}

/** A call that answers JSON (or nothing: then the result is undefined). One that is made while `leaving` outlives the page. */
export async function call<T>(method: string, path: string, body?: unknown, leaving = false): Promise<T> {
  const answer = await ask(method, path, body, leaving);
  const text = await answer.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/** A call that holds a passphrase: the node proves itself right before it, whatever was known before. */
export function entrust<T>(path: string, body: unknown, method: 'POST' | 'PUT' = 'POST'): Promise<T> {
  lose();
  return call<T>(method, path, body);
}

/** Loads code of the page: the node proves itself right before it, because that code will hold what this tab holds (WEB-17). */
export async function loadCode<T>(load: () => Promise<T>): Promise<T> {
  lose();
  if (!(await prove())) throw new Refusal({ code: 'bearer', title: t('closed'), next: t('closed-why'), status: 401 });
  return load();
}

/** A call that answers a picture, as an address for an <img>. The caller revokes it. */
export async function picture(path: string): Promise<string> {
  const answer = await ask('GET', path);
  return URL.createObjectURL(await answer.blob());
}

/** A call whose answer comes bit by bit, until `signal` ends it. */
export const follow = (path: string, body: unknown, signal: AbortSignal): Promise<Response> => ask('POST', path, body, false, signal);

/** Exchanges the ticket for a bearer; a ticket works once. */
export async function openSession(ticket: string): Promise<void> {
  bearer.drop();
  const session = await call<{ bearer: string; proof_key: string; command: string }>('POST', '/v1/session', { ticket });
  sessionStorage.setItem(PROOF, session.proof_key);
  bearer.keep(session.bearer);
  sessionStorage.setItem(COMMAND, session.command);
}
