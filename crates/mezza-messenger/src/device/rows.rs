//! From stored rows to a device and back.
//!
//! ```text
//! rows -> profile (without it there is nobody to be)
//!      -> prekeys | people | mailboxes | bundles | notes -> parcels | undecrypted | network
//!              a row that does not load -> aside, with what cannot do without it
//!      -> what can stand in for it is made -> start
//! ```

mod mend;
mod people;
mod prekeys;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, PortableBackend, Reader, Wiping, Writer};
use mezza_lanes::Kernel;

use super::{Aside, Parts, StoredRecord};
use crate::carriers::mixnet::{Inviter, Membership, MixnetPeer};
use crate::carriers::relay::{OwnMailbox, PUBLICATION_KEY, Relay, RelayPeer};
use crate::carriers::{CarrierSet, Port};
use crate::contacts::{Contact, Contacts};
use crate::error::LoadError;
use crate::io::{
    At, ContactId, MailboxId, NoteId, ParcelId, Publication, RecordChange, RecordKind, Unread,
};
use crate::outbox::{Lane, Outbox, Parcel};
use crate::profile::Profile;
use crate::sessions::{HeldBundle, Renewal, ReplayCache, Sessions, Undecrypted};
use crate::threads::{Quota, StoredNote, Threads, read_windows, write_windows};
use crate::view::Part;

/// Most bytes of a record: what a row of the vault holds, with room for its key and lengths.
const RECORD_BYTES_MAX: usize = (1 << 20) - 256;

/// Stored rows of one kind by key.
type RowsByKey = BTreeMap<Vec<u8>, Wiping<Vec<u8>>>;

/// Puts a device together. What does not load is set aside, and everything else is there.
pub(super) fn load<B: Backend>(
    kernel: &'static dyn Kernel,
    records: impl IntoIterator<Item = StoredRecord>,
    unread: &[Unread],
    at: &mut At<'_>,
) -> Result<Parts<CarrierSet<B>>, LoadError> {
    let mut rows = BTreeMap::<RecordKind, RowsByKey>::new();
    for (kind, key, value) in records {
        rows.entry(kind).or_default().insert(key, value);
    }
    let mut take = |kind| rows.remove(&kind).unwrap_or_default();
    let mut profiles = take(RecordKind::Profile);
    let profile = profiles.remove(&[][..]).ok_or(LoadError::Empty)?;
    let (profile, next_mailbox) = Profile::read::<B>(&profile).map_err(LoadError::Profile)?;
    let mut parts = Parts {
        contacts: Contacts::default(),
        threads: Threads::default(),
        sessions: Sessions::new(profile.identity()),
        outbox: Outbox::default(),
        carriers: CarrierSet::new(kernel),
        aside: Aside::default(),
        profile,
    };
    parts.aside.sealed(unread);
    set_aside_all(&mut parts.aside, Part::Other, RecordKind::Profile, profiles);
    if let Some(next) = next_mailbox {
        // The form of a version before.
        parts.profile.store(at.step);
        parts.carriers.relay.load_next(next, Some(at.step));
    }
    prekeys::load(&mut parts, take(RecordKind::Prekey), at);
    let mut relay_peers = take(RecordKind::RelayPeer);
    let next = relay_peers.remove(&[][..]).map(|row| Relay::<B>::read_next(&row));
    let mut shelves: Vec<_> = people::KINDS.into_iter().map(|kind| (kind, take(kind))).collect();
    shelves.push((RecordKind::RelayPeer, relay_peers));
    let notes = take(RecordKind::Note);
    people::load(&mut parts, shelves, &notes, at);
    load_mailboxes(&mut parts, take(RecordKind::Slot), at);
    load_next_mailbox(&mut parts, next, at);
    load_bundles(&mut parts, take(RecordKind::Bundle));
    load_notes(&mut parts, notes, at);
    load_parcels(&mut parts, take(RecordKind::Parcel), at);
    load_undecrypted(&mut parts, take(RecordKind::Held), at);
    load_network(&mut parts, &take(RecordKind::Network), take(RecordKind::NetworkRow), at);
    mend::mend(&mut parts, at);
    Ok(parts)
}

/// Sets rows aside.
fn set_aside_all(aside: &mut Aside, part: Part, kind: RecordKind, rows: RowsByKey) {
    for (key, value) in rows {
        aside.add(part, kind, key, value.len());
    }
}

/// What belongs to somebody who did not load.
fn part_of(aside: &Aside, id: ContactId) -> Part {
    let guest = Part::Guest(id);
    if aside.has(guest) { guest } else { Part::Contact(id) }
}

fn load_mailboxes<B: Backend>(parts: &mut Parts<CarrierSet<B>>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let read = id32(&key).and_then(|id| Ok((MailboxId(id), OwnMailbox::read(&value)?)));
        let number = key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
        if number <= u32::MAX / 4 {
            parts.carriers.relay.load_next(number + 1, None);
        }
        let part = match read {
            Ok((id, own)) => match own.contact.filter(|id| !parts.contacts.holds(*id)) {
                None => {
                    parts.carriers.relay.load_mailbox(id, own, at.step);
                    continue;
                }
                Some(contact) => part_of(&parts.aside, contact),
            },
            Err(_) => Part::Mailbox(MailboxId(number)),
        };
        parts.aside.add(part, RecordKind::Slot, key, value.len());
    }
}

/// The number of the next mailbox is above every number ever given out. If it is lost, it begins
/// anew, far above those that are known.
fn load_next_mailbox<B: Backend>(
    parts: &mut Parts<CarrierSet<B>>,
    next: Option<Result<u32, DecodeError>>,
    at: &mut At<'_>,
) {
    const FAR: u32 = 1 << 20;
    match next {
        Some(Ok(next)) => parts.carriers.relay.load_next(next, None),
        None if !parts.aside.lost(RecordKind::RelayPeer) => {}
        Some(Err(_)) | None => parts.carriers.relay.skip_mailboxes(FAR, at.step),
    }
}

fn load_bundles<B: Backend>(parts: &mut Parts<CarrierSet<B>>, rows: RowsByKey) {
    for (key, value) in rows {
        let read = id32(&key).and_then(|id| Ok((ContactId(id), HeldBundle::read(&value)?)));
        match read {
            Ok((id, held)) if parts.contacts.holds(id) => parts.sessions.load_held(id, held),
            _ => parts.aside.add(Part::Bundles, RecordKind::Bundle, key, value.len()),
        }
    }
}

fn load_notes<B: Backend>(parts: &mut Parts<CarrierSet<B>>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let id = id64(&key);
        if let Ok(id) = id {
            parts.profile.skip_note(id);
        }
        let part = match id.and_then(|id| Ok((NoteId(id), StoredNote::read(&value)?))) {
            Ok((id, note)) if parts.contacts.holds(note.contact) => {
                parts.threads.load_note(id, note, at.step);
                continue;
            }
            Ok((_, note)) => part_of(&parts.aside, note.contact),
            Err(_) => Part::Notes,
        };
        parts.aside.add(part, RecordKind::Note, key, value.len());
    }
}

/// A parcel whose note is not there is set aside: the note has the pin under which it leaves.
fn load_parcels<B: Backend>(parts: &mut Parts<CarrierSet<B>>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let read = id64(&key).and_then(|id| Ok((ParcelId(id), Parcel::read(&value)?)));
        let part = match read {
            Ok((id, parcel)) => {
                let known = parts.contacts.holds(parcel.contact);
                if known && parcel.note.is_none_or(|note| parts.threads.get(note).is_some()) {
                    let form = parcel.write();
                    if form[..] != value[..] {
                        // The form of a version before.
                        let bucket = crate::io::Retention::Rolling;
                        at.step.put(RecordKind::Parcel, key, bucket, form);
                    }
                    parts.outbox.load_parcel(id, parcel, at.now, at.step);
                    continue;
                }
                if known { Part::Notes } else { part_of(&parts.aside, parcel.contact) }
            }
            Err(_) => Part::Parcels,
        };
        parts.aside.add(part, RecordKind::Parcel, key, value.len());
    }
    parts.outbox.skip_parcel(parts.aside.next(RecordKind::Parcel).saturating_sub(1));
}

fn load_undecrypted<B: Backend>(
    parts: &mut Parts<CarrierSet<B>>,
    rows: RowsByKey,
    at: &mut At<'_>,
) {
    for (key, value) in rows {
        let read = id64(&key).and_then(|id| Ok((id, Undecrypted::read(&value)?)));
        let part = match read {
            Ok((id, kept)) if parts.contacts.holds(kept.contact) => {
                parts.sessions.load_undecrypted(id, kept, at.step);
                continue;
            }
            Ok((_, kept)) => part_of(&parts.aside, kept.contact),
            Err(_) => Part::Parcels,
        };
        parts.aside.add(part, RecordKind::Held, key, value.len());
    }
    parts.sessions.skip_undecrypted(parts.aside.next(RecordKind::Held).saturating_sub(1));
}

/// The network loads with its client or not at all. The client goes on without a row that it
/// cannot read.
fn load_network<B: Backend>(
    parts: &mut Parts<CarrierSet<B>>,
    networks: &RowsByKey,
    rows: RowsByKey,
    at: &mut At<'_>,
) {
    let all = networks.iter().map(|row| (RecordKind::Network, row));
    let all = all.chain(rows.iter().map(|row| (RecordKind::NetworkRow, row)));
    let mut all: Vec<_> =
        all.map(|(kind, (key, value))| (kind, key.clone(), value.len())).collect();
    let member = networks.get(&[][..]).and_then(|value| Membership::read(value).ok());
    let name = member.as_ref().map(|member| member.link.address.clone());
    let numbered = rows.into_iter().map(|(key, row)| Ok((id64(&key)?, row)));
    let numbered = numbered.collect::<Result<Vec<_>, DecodeError>>().ok();
    let whole = networks.len() == 1 && !parts.aside.lost(RecordKind::NetworkRow);
    let loaded = member
        .zip(numbered)
        .filter(|_| whole)
        .and_then(|(member, rows)| parts.carriers.mixnet.load_network(member, &rows, at));
    let part = match loaded {
        None => Part::Network,
        Some(unread) => {
            all.retain(|(kind, key, _)| *kind == RecordKind::NetworkRow && unread.contains(key));
            Part::NetworkRows
        }
    };
    if part == Part::Network && !all.is_empty() {
        parts.carriers.mixnet.set_aside();
    }
    if let Some(name) = name {
        parts.aside.call(part, name);
    }
    for (kind, key, bytes) in all {
        parts.aside.add(part, kind, key, bytes);
    }
}

/// Every row as it lies in the store, without what was set aside and those of the mixnet's client.
pub(super) fn records<P: Port>(parts: &Parts<P>) -> Vec<RecordChange> {
    let mut all = Vec::new();
    let (kind, bucket) = (RecordKind::Profile, crate::io::Retention::Permanent);
    all.push(RecordChange::Put { kind, key: Vec::new(), bucket, value: parts.profile.write() });
    parts.contacts.records(&mut all);
    parts.threads.records(&mut all);
    parts.sessions.records(&mut all);
    parts.outbox.records(&mut all);
    parts.carriers.records(&mut all);
    all
}

/// The rows, and what is not in them.
pub(super) fn snapshot<P: Port>(parts: &Parts<P>, w: &mut Writer) {
    for change in records(parts) {
        if let RecordChange::Put { kind, key, value, .. } = change {
            w.u8(kind as u8).var16(&key).u32(value.len() as u32).bytes(&value);
        }
    }
    parts.contacts.snapshot(w);
    parts.threads.snapshot(w);
    parts.sessions.snapshot(w);
    parts.outbox.snapshot(w);
    parts.carriers.snapshot(w);
}

/// Whether a change is one that a start can undo: a row that its reader takes, and that is the same
/// when it is written again (MSG-43). Rows of the ratchet and of the mixnet's client have their
/// readers there.
pub(super) fn loads_again(change: &RecordChange) -> bool {
    let RecordChange::Put { kind, key, value, .. } = change else { return true };
    let again = match kind {
        RecordKind::Profile => {
            Profile::read::<PortableBackend>(value).map(|(profile, _)| Some(profile.write()))
        }
        RecordKind::Contact => Contact::read(value).map(|contact| Some(contact.write())),
        RecordKind::Note => StoredNote::read(value).map(|note| Some(note.write())),
        RecordKind::Parcel => Parcel::read(value).map(|parcel| Some(parcel.write())),
        RecordKind::Slot => OwnMailbox::read(value).map(|own| Some(own.write())),
        RecordKind::Seen => seen_again(key, value).map(Some),
        RecordKind::Held => Undecrypted::read(value).map(|kept| Some(kept.write())),
        RecordKind::Network => Membership::read(value).map(|member| Some(member.write())),
        RecordKind::Guest => Inviter::read(value).map(|inviter| Some(inviter.write())),
        RecordKind::Bundle => HeldBundle::read(value).map(|held| Some(held.write())),
        RecordKind::Owed => Lane::read(value).map(|lane| Some(lane.write())),
        RecordKind::Renewal => Renewal::read(value).map(|renewal| renewal.stored()),
        RecordKind::RelayPeer if key.is_empty() => {
            return Relay::<PortableBackend>::read_next(value).is_ok();
        }
        RecordKind::RelayPeer => RelayPeer::read(value).map(|peer| peer.stored()),
        RecordKind::MixnetPeer => MixnetPeer::read(value).map(|peer| peer.stored()),
        RecordKind::Quota => Quota::read(value).map(|quota| quota.stored()),
        RecordKind::Prekey if *key == PUBLICATION_KEY => {
            Publication::read(value).map(|publication| Some(publication.write()))
        }
        RecordKind::Session
        | RecordKind::Skipped
        | RecordKind::Prekey
        | RecordKind::Setting
        | RecordKind::NetworkRow => return value.len() <= RECORD_BYTES_MAX,
    };
    let same = |again: Option<Wiping<Vec<u8>>>| again.is_some_and(|again| again[..] == value[..]);
    value.len() <= RECORD_BYTES_MAX && again.is_ok_and(same)
}

fn seen_again(key: &[u8], value: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
    match key.get(4..).unwrap_or_default() {
        [place] => {
            let mut replays = ReplayCache::default();
            replays.read(*place, value)?;
            Ok(replays.write(*place))
        }
        era => Ok(write_windows(&read_windows(era, value)?.1)),
    }
}

/// A number of ours: none comes near the end of its range. The profile takes counters up to half of
/// the range, so that a counter that begins above any row has as much room again.
pub(super) fn id32(key: &[u8]) -> Result<u32, DecodeError> {
    let id = Reader::decode_exact(key, Reader::u32)?;
    if (1..=u32::MAX / 4).contains(&id) { Ok(id) } else { Err(DecodeError::Value) }
}

/// The same for numbers of 8 bytes.
pub(super) fn id64(key: &[u8]) -> Result<u64, DecodeError> {
    let id = Reader::decode_exact(key, Reader::u64)?;
    if id <= u64::MAX / 4 { Ok(id) } else { Err(DecodeError::Value) }
}
