//! State of each contact that the program stores in addition to the device's: the draft, and the
//! changes shown as lines in the thread (WEB-14, WEB-15).
//!
//! ```text
//! Draft   contact u32            text                                     sealed anew each day
//! Change  contact u32 | n u32    at u64 | own u8 | what u8 | value        as long as the contact
//! ```
//!
//! A change is found by comparing a contact with its last known state, so that it does not matter
//! which side caused it. Its row is in the commit of the change.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer};
use mezza_messenger::policy::{Fallback, NoteLife, Policy};
use mezza_messenger::view::{ContactState, ContactView};
use mezza_messenger::{
    CarrierId, ContactId, Device, RecordChange, RecordKind, Retention, WriteBatch,
};

use mezza_host::backend::AwsLc;
use mezza_host::store::Record;

/// Maximum size of a draft in bytes: more than a note holds, since users shorten their text.
pub(crate) const DRAFT_BYTES_MAX: usize = 32 << 10;
/// Changes stored per contact; the oldest is dropped.
const CHANGES_MAX: usize = 64;

/// A kind of change. No `Debug`, because a value may hold a name (MSG-37).
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Notes are deleted after this number of seconds; 0: never.
    Timer(u32),
    /// The carriers for our notes, best first.
    Carriers(Vec<CarrierId>),
    /// True if another carrier of the list may be used as a fallback.
    Fallback(bool),
    /// The lowest level at which our notes may be sent.
    Level(u8),
    /// The name that the contact gives itself.
    Name(String),
    /// The life of our notes where other devices carry them; `None`: that of the node.
    Life(Option<NoteLife>),
}

/// One change.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Time when this device stored the change.
    pub at: Time,
    /// True if this device's user made the change.
    pub own: bool,
    /// The kind of change.
    pub what: What,
}

/// The compared properties of a contact at the last check.
#[derive(Clone, PartialEq, Eq)]
struct Looks {
    policy: Policy,
    claimed: String,
}

/// The changes of one contact, which are shown as lines in its thread.
#[derive(Default)]
struct Line {
    next: u32,
    kept: VecDeque<(u32, Change)>,
}

/// Drafts and changes of all contacts.
#[derive(Default)]
pub(super) struct Beside {
    drafts: BTreeMap<ContactId, Wiping<Vec<u8>>>,
    lines: BTreeMap<ContactId, Line>,
    looks: BTreeMap<ContactId, Looks>,
}

impl Beside {
    /// Removes the rows of drafts and changes from those of the vault. A row that cannot be read
    /// stays there, so that the device quarantines it (MSG-42).
    pub(super) fn take_rows(records: &mut Vec<Record>) -> Self {
        let mut own = Self::default();
        records.retain(|(kind, key, value)| match kind {
            RecordKind::Draft => own.read_draft(key, value).is_err(),
            RecordKind::Change => own.read_change(key, value).is_err(),
            _ => true,
        });
        for line in own.lines.values_mut() {
            line.kept.make_contiguous().sort_by_key(|(n, _)| *n);
        }
        own
    }

    fn read_draft(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let id = Reader::decode_exact(key, |r| Ok(ContactId(r.read_u32()?)))?;
        std::str::from_utf8(value).map_err(|_| DecodeError::Value)?;
        self.drafts.insert(id, Wiping::new(value.to_vec()));
        Ok(())
    }

    fn read_change(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let (id, n) = Reader::decode_exact(key, |r| Ok((ContactId(r.read_u32()?), r.read_u32()?)))?;
        let line = self.lines.entry(id).or_default();
        // The number of a row that does not load is not used again.
        line.next = line.next.max(n.saturating_add(1));
        line.kept.push_back((n, Change::from_bytes(value)?));
        Ok(())
    }

    /// Records the first state of all contacts. Returns the batch that drops rows of contacts that
    /// no longer exist.
    pub(super) fn begin_looks(&mut self, device: &Device<AwsLc>) -> WriteBatch {
        self.looks =
            device.contacts().iter().map(|view| (view.id, Looks::from_view(view))).collect();
        // While anything is quarantined, a contact that is missing here may be part of it. Its rows
        // are needed again once the quarantined row is repaired (MSG-42).
        if !device.set_aside().is_empty() {
            return WriteBatch::default();
        }
        let held = self.drafts.keys().chain(self.lines.keys()).copied().collect::<Vec<_>>();
        let gone = held.into_iter().filter(|id| !self.looks.contains_key(id)).collect::<Vec<_>>();
        WriteBatch(gone.into_iter().flat_map(|id| self.forget_contact(id)).collect())
    }

    /// Returns the unfinished note to a contact.
    pub(super) fn draft(&self, id: ContactId) -> &str {
        let text = self.drafts.get(&id).map_or(&[][..], |text| text.as_slice());
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Stores a draft; an empty text removes it.
    pub(super) fn set_draft(&mut self, id: ContactId, text: &str) -> WriteBatch {
        if self.draft(id) == text {
            return WriteBatch::default();
        }
        let kind = RecordKind::Draft;
        let key = id.0.to_be_bytes().to_vec();
        if text.is_empty() {
            self.drafts.remove(&id);
            return WriteBatch(vec![RecordChange::Drop { kind, key }]);
        }
        self.drafts.insert(id, Wiping::new(text.as_bytes().to_vec()));
        let bucket = Retention::Rolling;
        let value = Wiping::new(text.as_bytes().to_vec());
        WriteBatch(vec![RecordChange::Put { kind, key, bucket, value }])
    }

    /// Returns the changes of a contact, oldest first.
    pub(super) fn changes(&self, id: ContactId) -> impl Iterator<Item = &Change> {
        self.lines.get(&id).into_iter().flat_map(|line| line.kept.iter().map(|(_, change)| change))
    }

    /// Compares a contact with its last state. Returns the rows of its changes. `None` as `view`:
    /// the contact is gone.
    pub(super) fn compare_contact(
        &mut self,
        id: ContactId,
        view: Option<&ContactView>,
        own: bool,
        at: Time,
    ) -> WriteBatch {
        let Some(view) = view else { return WriteBatch(self.forget_contact(id)) };
        let now = Looks::from_view(view);
        let was = self.looks.insert(id, now.clone());
        // Changes of an unknown sender before acceptance are not shown in the conversation.
        let was = was.filter(|_| view.standing != ContactState::Request);
        let whats = was.map_or_else(Vec::new, |was| now.changes_since(&was));
        let changes = whats.into_iter().map(|what| Change { at, own, what });
        WriteBatch(changes.flat_map(|change| self.add_change(id, change)).collect())
    }

    fn add_change(&mut self, id: ContactId, change: Change) -> Vec<RecordChange> {
        let line = self.lines.entry(id).or_default();
        let n = line.next;
        let value = change.to_bytes();
        line.next = line.next.saturating_add(1);
        line.kept.push_back((n, change));
        let surplus = line.kept.len().saturating_sub(CHANGES_MAX);
        let dropped = line.kept.drain(..surplus).map(|(n, _)| drop_row(id, n));
        let kind = RecordKind::Change;
        let bucket = Retention::Permanent;
        let put = RecordChange::Put { kind, key: row_key(id, n), bucket, value };
        dropped.chain([put]).collect()
    }

    fn forget_contact(&mut self, id: ContactId) -> Vec<RecordChange> {
        self.looks.remove(&id);
        let line = self.lines.remove(&id).unwrap_or_default();
        let draft = self.set_draft(id, "").0;
        line.kept.iter().map(|(n, _)| drop_row(id, *n)).chain(draft).collect()
    }
}

fn row_key(id: ContactId, n: u32) -> Vec<u8> {
    [id.0.to_be_bytes(), n.to_be_bytes()].concat()
}

fn drop_row(id: ContactId, n: u32) -> RecordChange {
    RecordChange::Drop { kind: RecordKind::Change, key: row_key(id, n) }
}

impl Looks {
    fn from_view(view: &ContactView) -> Self {
        Self { policy: view.policy.clone(), claimed: view.claimed.clone() }
    }

    fn changes_since(&self, was: &Self) -> Vec<What> {
        let now = &self.policy;
        let then = &was.policy;
        let listed = |policy: &Policy| policy.fallback == Fallback::Listed;
        let whats = [
            (now.timer_s != then.timer_s).then_some(What::Timer(now.timer_s)),
            (now.carriers != then.carriers).then(|| What::Carriers(now.carriers.clone())),
            (listed(now) != listed(then)).then(|| What::Fallback(listed(now))),
            (now.level_min != then.level_min).then_some(What::Level(now.level_min)),
            (self.claimed != was.claimed).then(|| What::Name(self.claimed.clone())),
            (now.life != then.life).then_some(What::Life(now.life)),
        ];
        whats.into_iter().flatten().collect()
    }
}

impl Change {
    fn to_bytes(&self) -> Wiping<Vec<u8>> {
        let (kind, value) = match &self.what {
            What::Timer(s) => (1, s.to_be_bytes().to_vec()),
            What::Carriers(list) => (2, list.iter().map(|carrier| carrier.number()).collect()),
            What::Fallback(listed) => (3, vec![u8::from(*listed)]),
            What::Level(level) => (4, vec![*level]),
            What::Name(name) => (5, name.as_bytes().to_vec()),
            What::Life(life) => (6, vec![NoteLife::encode_choice(*life)]),
        };
        let mut w = Writer::with_capacity(10 + value.len());
        w.put_u64(self.at.as_ms()).put_u8(u8::from(self.own)).put_u8(kind).put_bytes(&value);
        Wiping::new(w.finish())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let at = Time::from_ms(r.read_u64()?);
        let own = r.read_u8()? == 1;
        let kind = r.read_u8()?;
        let value = r.read_rest();
        let bad = DecodeError::Value;
        let what = match (kind, value) {
            (1, value) => What::Timer(u32::from_be_bytes(value.try_into().map_err(|_| bad)?)),
            (2, list) => {
                let list = list.iter().map(|number| CarrierId::from_number(*number).ok_or(bad));
                What::Carriers(list.collect::<Result<_, _>>()?)
            }
            (3, [listed]) => What::Fallback(*listed == 1),
            (4, [level]) => What::Level(*level),
            (5, name) => What::Name(std::str::from_utf8(name).map_err(|_| bad)?.to_owned()),
            (6, [life]) => What::Life(NoteLife::decode_choice(*life)?),
            _ => return Err(bad),
        };
        Ok(Self { at, own, what })
    }
}
