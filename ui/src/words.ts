// States in words. A state is a function of evidence and the words say no more than it proves; nothing unknown is called failed.
import { t } from './fluent.ts';
import type { CarrierView, Change, Contact, Note, Restored, RestoreMark } from './api.ts';
import { durationText } from './mixnet.ts';
import { dayText } from './time.ts';

const reasons: Record<string, () => string> = {
  sending: () => t('why-sending'),
  no_carrier: () => t('why-no-carrier'),
  below_pin: () => t('why-below-pin'),
  too_big: () => t('why-too-big'),
  keys: () => t('why-keys'),
  bundle: () => t('why-bundle'),
  answer: () => t('why-answer'),
  box_gone: () => t('why-box-gone'),
  box_full: () => t('why-box-full'),
  budget: () => t('why-budget'),
  call_budget: () => t('why-call-budget'),
  slow: () => t('why-slow'),
  restored: () => t('why-restored'),
};

const carriers: Record<string, () => string> = {
  relay: () => t('carrier-relay'),
  mixnet: () => t('carrier-mixnet'),
  mesh: () => t('carrier-mesh'),
  link: () => t('carrier-link'),
};

/** Name of a carrier for people; an unknown one is shown as the node calls it. */
export function carrierText(carrier: string): string {
  return carriers[carrier]?.() ?? carrier;
}

/** State of a note in words. What a newer node says and this page does not know is shown in the node's own words. */
export function stateText(note: Pick<Note, 'state' | 'why' | 'words' | 'carrier'>): string {
  switch (note.state) {
    case 'received': return t('state-received');
    case 'queued': return note.why && reasons[note.why] ? t('state-queued', { why: reasons[note.why]?.() ?? '' }) : note.words;
    case 'handed': return note.carrier === 'relay' ? t('state-handed-relay') : note.words;
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
