// The HTTP contract as types. Field names are the wire's. Identifiers are decimal strings, times are milliseconds since 1970.

export type Standing = 'held' | 'asked' | 'open' | 'request' | 'blocked';
export type NoteState = 'received' | 'queued' | 'handed' | 'carried' | 'expired' | 'delivered' | 'read';
export type Fallback = 'none' | 'listed';
/** How long devices of the mesh carry a note. */
export type MeshLife = 'minute' | 'half-hour' | 'half-day';
export type Adversary = 'your provider' | 'the relay' | 'an observer of all traffic' | 'a thief';
export type Observer = 'provider' | 'relay' | 'thief';

export interface Status {
  version: string;
  state: 'empty' | 'locked' | 'open';
  moved: boolean;
  name: string | null;
  demo: boolean;
  observer: boolean;
  idle_lock_s: number;
  now_ms: number;
}

export interface Relay {
  key: string;
  host: string;
  port: number;
}

/** The relay of this home, which can be offered. */
export interface RelayOffer {
  uri: string;
  relay: Relay;
  up: boolean;
  only_here: boolean;
}

export interface Me {
  name: string;
  id: string;
  card_serial: number;
  issued_days: number;
  suites: string[];
  relays: Relay[];
  one_time_stock: number | null;
}

export interface Policy {
  carriers: string[];
  pin: number;
  fallback: Fallback;
  timer_s: number;
  delivered: boolean;
  read: boolean;
  /** Absent: as the node is set. */
  mesh_life?: MeshLife | null;
}

/** One moment of a simulated crowd. */
export interface CrowdMoment {
  second: number;
  places: [number, number][];
  holders: number[];
  around: number;
  clocks_percent: number;
}

/** A simulated crowd in which person 0 stands for this device and writes to the last person. */
export interface CrowdMap {
  side: number;
  range: number;
  own_grade: string;
  own_error_ms: number;
  arrived_s: number | null;
  moments: CrowdMoment[];
}

/** What a card says, before it is added. */
export interface CardSummary {
  name: string;
  serial: number;
  relay: Relay | null;
  has_address: boolean;
  known_as: string | null;
}

export interface Contact {
  id: string;
  name: string;
  claimed_name: string;
  standing: Standing;
  verified: { how: 'in_person' | 'number'; at_ms: number } | null;
  policy: Policy;
  suites: string[];
  relay: Relay | null;
  absent_parts: number[];
  unread: number;
  missing: number;
  trouble: string | null;
  restored: Restored | null;
  namesake: boolean;
  last: Note | null;
}

export interface Fact {
  what: 'handed' | 'carried' | 'delivered' | 'read';
  carrier: string;
  at_ms: number;
  words: string;
}

export interface Note {
  id: string;
  contact: string;
  incoming: boolean;
  kind: 'text' | 'newer';
  text: string | null;
  sent_ms: number;
  at_ms: number;
  state: NoteState;
  why: string | null;
  words: string;
  carrier: string | null;
  level: number | null;
  pin: number;
  facts: Fact[];
  due_ms: number | null;
  /** For state `carried`: neighbours that announce it, and when its cell ends. */
  announced?: number;
  carried_until_ms?: number;
  /** The life of this note alone; absent: as its conversation has it. */
  mesh_life?: MeshLife | null;
  mark: RestoreMark | null;
}

/** The doubt about a note that a restore has left. */
export interface RestoreMark {
  what: 'unsure' | 'lost';
  words: string;
}

/** Notes of a contact that a restore of either side has left open. */
export interface Restored {
  made_ms: number | null;
  ahead: number;
  unsure: number;
  lost: number;
  words: string[];
}

/** A backup that was made or checked. */
export interface Backup {
  file: string;
  made_ms: number;
  program: string;
  contacts: number;
  notes: number;
}

/** The state of the backups. */
export interface Backups {
  made_ms: number | null;
  folder: string | null;
  every_s: number | null;
  keep: number | null;
  warning: string | null;
  place: string | null;
}

/** How far the work on a backup is; a total of 0 is not known yet. */
export interface Progress {
  work: 'make' | 'check' | 'restore' | 'move' | null;
  done: number;
  total: number;
}

/** The recipient of a move, as text and as a QR code. */
export interface MoveRecipient {
  recipient: string;
  svg: string;
}

/** The digits of the file of a move. */
export interface MoveDigits {
  digits: string;
}

/** The key of a move. */
export interface MoveKey {
  key: string;
}

/** A change of a conversation that stands as a line in its thread. */
export interface Change {
  at_ms: number;
  own: boolean;
  what: 'timer' | 'carriers' | 'fallback' | 'level' | 'name' | 'life';
  number: number | null;
  names: string[];
}

export interface Offer {
  carrier: string;
  fits: boolean;
  up: boolean;
  level: number;
  pieces: number;
  cost: string;
}

export interface Preview {
  bytes: number;
  bytes_max: number;
  offers: Offer[];
}

export interface Request {
  contact: Contact;
  notes: Note[];
}

export interface Invitation {
  id: string;
  at_ms: number;
  asked: boolean;
}

export interface Requests {
  requests: Request[];
  guests: Invitation[];
}

export interface CarrierView {
  carrier: string;
  up: boolean;
  level: number;
  relay: Relay | null;
  delay_ms: number;
  delay_p99_ms: number;
  piece_bytes: number;
  pieces_max: number;
  store_h: number;
  receipts: boolean;
  demo: boolean;
  noise_grade: NoiseGrade | null;
  hides: { from: Adversary; what: string; hidden: boolean }[];
}

/** Notes that contain a text, newest first. */
export interface FoundNotes {
  notes: Note[];
  more: boolean;
}

/** The pairing in progress, or the last one. */
export interface LinkPairing {
  contact: string | null;
  state: 'none' | 'waiting' | 'digits' | 'paired' | 'failed';
  digits: string | null;
  trouble: string | null;
}

/** The guard of this home. */
export interface Guard {
  on: boolean;
  running: boolean;
  trouble: string | null;
  facts: GuardFacts | null;
  unguarded: GuardPart[];
  lab_missing: string | null;
}

export interface GuardFacts {
  strict: boolean;
  level: number;
  sessions: number;
  handshakes: number;
  refused: number;
  resets: number;
  ledger_fails: boolean;
  clients: number;
  destinations: string[];
  events: string[];
  channels: GuardChannel[];
}

/** A channel by which a tampered device could leak; bits without a bound are null. */
export interface GuardChannel {
  frame: string;
  what: string;
  accepted_bits: number | null;
  refused_bits: number | null;
  closed_by: string;
}

export interface GuardPart {
  part: string;
  freedom: string;
}

export type LeakVariant = 'dh' | 'dh-comm' | 'eg';

/** The order for a leak experiment of the lab. */
export interface LeakOrder {
  variant: LeakVariant;
  guarded: boolean;
  seed: number;
}

export interface LeakBegin {
  variant: string;
  group: string;
  element: string;
  firewall: string;
  is_open: boolean;
  secret_bits: number;
  block_bits: number;
  handshakes: number;
  expected: number;
  seed: number;
}

export interface LeakReading {
  handshake: number;
  recovered_bits: number;
  read_bits: number;
  hits: number;
  contradictions: number;
}

export interface LeakResult {
  agreed: boolean;
  complete: number | null;
}

export interface LeakFault {
  text: string;
  next: string;
}

/** One line of the experiment's stream. */
export type LeakLine = ({ kind: 'begin' } & LeakBegin) | ({ kind: 'reading' } & LeakReading) | ({ kind: 'result' } & LeakResult) | ({ kind: 'fault' } & LeakFault);

/** The mesh of this home. */
export interface Mesh {
  on: boolean;
  life: string | null;
  has_keys: boolean;
  trouble: string | null;
  node: MeshNode | null;
}

export interface MeshNode {
  network: string;
  closed: boolean;
  links: string[];
  cur: number;
  within_ms: number;
  moved_ms: number;
  trusted_ms: number | null;
  elsewhere_ms: number | null;
  other_day: number | null;
  other_devices: number | null;
  state: string;
  grade: string;
  around: number;
  live: number;
  store_bytes: number;
  carried: number;
  carried_bytes: number;
  bytes_in: number;
  bytes_out: number;
  neighbours: MeshNeighbour[];
}

export interface MeshNeighbour {
  name: string;
  silent_ms: number;
  live: number;
  gave: number;
  differs_ms: number;
}

/** How much the noise of a network protects. */
export type NoiseGrade = 'nothing' | 'weak' | 'standard';

export interface Mixnet {
  link: string;
  network: string | null;
  up: boolean;
  level: number;
  noise_grade: NoiseGrade | null;
  /** Why no round comes back, in words of the node. */
  trouble: string | null;
  round: number | null;
  interval_ms: number | null;
  users: number;
  mixes: number;
  law: string | null;
  noise: [number, number] | null;
  rounds_used: number;
  rounds_max: number | null;
  promise: Promised | null;
  budgets: Budget[];
  spent: number | null;
  alarms: number;
  clock_off: boolean;
}

/** What becomes of what the mixnet serves once it is left. */
export interface Leaving {
  link: string;
  elsewhere: number;
  waiting: number;
  unreachable: { id: string; name: string }[];
  guests: number;
}

/** The privacy budget of one service in this year. */
export interface Budget {
  service: string;
  used: number;
  max: number | null;
}

/** The promise over a year of all services: percent, and the probabilities that it keeps less. */
export interface Promised {
  likely: number;
  idle: number;
  other: number;
  two_years: number;
}

export interface SafetyNumber {
  groups: string[];
  scannable_svg: string;
}

export interface Field {
  name: string;
  value: string;
  offset: number;
  len: number;
}

export interface ObserverEvent {
  n: number;
  at_ms: number;
  who: Observer;
  direction: 'in' | 'out' | 'at rest';
  bytes: number;
  hex: string;
  fields: Field[];
}

export interface HealthLine {
  name: string;
  ok: boolean;
  text: string;
  next: string | null;
}

/** One frame of the WebSocket. */
export interface NodeEvent {
  cursor: number | null;
  kind:
    | 'note' | 'state' | 'gone' | 'contact' | 'contact_gone' | 'request' | 'anew'
    | 'trouble' | 'carrier' | 'card' | 'low' | 'locked' | 'unlocked' | 'reload';
  contact?: string;
  note?: Note;
  text?: string;
}

/** RFC 9457 problem: what went wrong and what to do next. */
export interface Problem {
  code: string;
  title: string;
  next: string;
  status: number;
}
