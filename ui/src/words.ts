// States in words. A state is a function of evidence and the words say no more than it proves; nothing unknown is called failed.
import { t } from './fluent.ts';
import type { CarrierView, Change, Contact, Note, Offer, Restored, RestoreMark } from './api.ts';
import { lifeName } from './life.ts';
import { durationText } from './mixnet.ts';
import { clockText, dayText } from './time.ts';

const reasons: Record<string, () => string> = {
  sending: () => t('why-sending'),
  no_carrier: () => t('why-no-carrier'),
  below_pin: () => t('why-below-pin'),
  too_big: () => t('why-too-big'),
  keys: () => t('why-keys'),
  new_card: () => t('why-new-card'),
  no_neighbours: () => t('why-no-neighbours'),
  guard: () => t('why-guard'),
  bundle: () => t('why-bundle'),
  answer: () => t('why-answer'),
  box_gone: () => t('why-box-gone'),
  box_full: () => t('why-box-full'),
  budget: () => t('why-budget'),
  call_budget: () => t('why-call-budget'),
  slow: () => t('why-slow'),
  restored: () => t('why-restored'),
  own_keys: () => t('why-own-keys'),
};

const carriers: Record<string, () => string> = {
  relay: () => t('carrier-relay'),
  mixnet: () => t('carrier-mixnet'),
  mesh: () => t('carrier-mesh'),
  link: () => t('carrier-link'),
};

const handed: Record<string, () => string> = {
  relay: () => t('state-handed-relay'),
  mixnet: () => t('state-handed-mixnet'),
  link: () => t('state-handed-link'),
};

/** Name of a carrier for people; an unknown one is shown as the node calls it. */
export function carrierText(carrier: string): string {
  return carriers[carrier]?.() ?? carrier;
}

/** A note in the mesh: how many neighbours announce it, and when the last of them drops it, by the clock of this machine. */
function carriedText(announced: number, until_ms: number | undefined): string {
  return until_ms === undefined ? t('state-carried', { count: announced }) : t('state-carried-until', { count: announced, time: clockText(until_ms) });
}

/** State of a note in words. What a newer node says and this page does not know is shown in the node's own words. */
export function stateText(note: Pick<Note, 'state' | 'why' | 'words' | 'carrier' | 'announced' | 'carried_until_ms'>): string {
  switch (note.state) {
    case 'received': return t('state-received');
    case 'queued': return note.why && reasons[note.why] ? t('state-queued', { why: reasons[note.why]?.() ?? '' }) : note.words;
    case 'handed': return handed[note.carrier ?? '']?.() ?? note.words;
    case 'carried': return note.announced === undefined ? note.words : carriedText(note.announced, note.carried_until_ms);
    case 'expired': return t('state-expired');
    case 'delivered': return t('state-delivered');
    case 'read': return t('state-read');
    default: return note.words;
  }
}

/** A doubt about a note that a restore has left. `made_ms` is the time of the backup, if this device comes from one. */
export function markText(mark: RestoreMark, made_ms: number | null): string {
  switch (mark.what) {
    case 'unsure': return made_ms === null ? mark.words : t('mark-unsure', { day: dayText(made_ms) });
    case 'lost': return t('mark-lost');
    default: return mark.words;
  }
}

/** What a restore has left open with a contact, one line each. */
export function restoredTexts(restored: Restored): string[] {
  return [
    ...(restored.ahead > 0 ? [t('restored-ahead', { count: restored.ahead })] : []),
    ...(restored.unsure > 0 ? [t('restored-unsure', { count: restored.unsure })] : []),
    ...(restored.lost > 0 ? [t('restored-lost', { count: restored.lost })] : []),
  ];
}

const TURNING = /([\u202a\u202b\u202d\u202e])/;

/** A text in parts: the characters that begin an embedding or an override of direction, and what stands between them. */
export function turns(text: string): { text: string; turns: boolean }[] {
  return text.split(TURNING).map((part) => ({ text: part, turns: TURNING.test(part) })).filter((part) => part.text !== '');
}

/** A change of a conversation as a line between its notes. */
export function changeText(change: Change, name: string): string {
  const number = change.number ?? 0;
  const time = durationText(number * 1_000);
  const names = change.names.map(carrierText).join(', ');
  switch (change.what) {
    case 'timer':
      if (number === 0) return change.own ? t('change-timer-off') : t('change-timer-off-theirs', { name });
      return change.own ? t('change-timer', { time }) : t('change-timer-theirs', { name, time });
    case 'carriers': return change.own ? t('change-carriers', { names }) : t('change-carriers-theirs', { name, names });
    case 'fallback': return number > 0 ? t('change-fallback') : t('change-fallback-off');
    case 'level': return t('change-level', { level: number });
    case 'name': return t('change-name', { claimed: change.names.join() });
    case 'life': return change.names[0] === undefined ? t('change-life-setting') : t('change-life', { life: lifeName(change.names[0]) });
  }
}

/** The changes that stand before this note: those since the one before it. `after_ms` is null where none is known before. */
export function changesBetween(changes: Change[], after_ms: number | null, until_ms: number): Change[] {
  return changes.filter((change) => (after_ms === null || change.at_ms > after_ms) && change.at_ms <= until_ms);
}

/** How a note travelled: `relay, level 1`; null while no carrier has it. */
export function pathText(note: Pick<Note, 'carrier' | 'level'>): string | null {
  if (note.carrier === null) return null;
  const carrier = carrierText(note.carrier);
  return note.level === null ? carrier : t('path', { carrier, level: note.level });
}

/** What a protection level hides, in one sentence. */
export function levelText(level: number): string {
  switch (level) {
    case 1: return t('level-1');
    case 2: return t('level-2');
    case 3: return t('level-3');
    default: return t('level-4');
  }
}

/** The carriers by which notes to this contact may leave: those of its rules, and of relays the contact's own. */
export function carriersTo(contact: Contact, carriers: CarrierView[]): CarrierView[] {
  const ours = carriers.filter((one) => contact.policy.carriers.includes(one.carrier));
  return ours.filter((one) => !one.relay || !contact.relay || one.relay.key === contact.relay.key);
}

/** What it costs to send over a carrier; null for one that this page does not know. */
export function costText(carrier: string): string | null {
  switch (carrier) {
    case 'relay': return t('costs-relay');
    case 'mixnet': return t('costs-mixnet');
    case 'mesh': return t('costs-mesh');
    case 'link': return t('costs-link');
    default: return null;
  }
}

/** What is proven of a carrier now: up or down, and what that rests on. */
export function provenText(one: CarrierView): string {
  if (!one.up) return t('carrier-down');
  const noise = one.noise_grade === null ? '' : one.noise_grade === 'standard' ? t('proven-noise') : t('proven-weak-noise');
  return [t('carrier-up'), one.demo ? t('proven-demo') : '', noise].filter((words) => words !== '').join('; ');
}

const facts: Record<string, () => string> = {
  'what you write': () => t('hide-text'),
  'that you use Mezzavoce': () => t('hide-use'),
  'who writes to whom': () => t('hide-partners'),
  'whether you converse at all': () => t('hide-talk'),
  'what is on a locked device': () => t('hide-device'),
};

/** A fact that a carrier hides or shows. One that this page does not know is shown in the words of the node. */
export const hideText = (what: string): string => facts[what]?.() ?? what;

/** The cost of sending a text over a carrier now. */
export function offerText(offer: Pick<Offer, 'pieces' | 'up'>, delay_ms: number): string {
  return offer.up ? t('cost-now', { count: offer.pieces, time: durationText(delay_ms) }) : t('cost-later', { count: offer.pieces });
}
