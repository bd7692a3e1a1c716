//! The values of a backup as JSON (RFC 8259), one a line in files that end with `.jsonl`.
//!
//! Bytes are hexadecimal, long ones (cards, spent budgets) base64; times are milliseconds since
//! 1970. An unknown field is refused, because a restore would lose it.

use data_encoding::{BASE64, HEXLOWER};
use mezza_core::{Secret, Time, Wiping};
use mezza_messenger::backup::{
    BackupContact, BackupIdentity, BackupNetwork, BackupNote, BackupWindow,
};
use mezza_messenger::card::{Card, RelayEntry, RelayKey};
use mezza_messenger::evidence::{Fact, FactKind};
use mezza_messenger::note::Era;
use mezza_messenger::policy::{Fallback, NoteLife, Policy};
use mezza_messenger::receipt::{SeqRange, Window, WindowRanges};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::{ContactState, NoteContent, VerificationMethod};
use mezza_messenger::{CarrierId, ContactId, NoteId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    /// The version of the format: 1.
    pub format: u32,
    /// Time when the backup was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// The version of the program that made it.
    pub program: String,
    /// Numbers of contacts, notes and other rows in the backup.
    pub counts: BackupCounts,
    /// All other entries except the padding.
    pub(super) entries: Vec<ManifestEntry>,
}

/// Numbers of rows in a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupCounts {
    /// Number of contacts, including requests and blocked contacts.
    pub contacts: u64,
    /// Number of notes.
    pub notes: u64,
    /// Number of eras of contacts.
    pub windows: u64,
    /// Number of mixnets with used budget.
    pub networks: u64,
}

/// One entry of the archive, as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestEntry {
    pub name: String,
    pub bytes: u64,
    /// BLAKE2b-256 of the content.
    pub blake2b256: String,
}

/// `identity.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityJson {
    #[serde(serialize_with = "write_secret", deserialize_with = "read_secret")]
    key: Zeroizing<String>,
    name: String,
    serial: u32,
    relays: Vec<RelayJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelayJson {
    key: String,
    host: String,
    port: u16,
    address: String,
}

/// A line of `contacts.jsonl`.
#[expect(clippy::struct_excessive_bools, reason = "independent rules of one conversation")]
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContactLine {
    id: u32,
    card: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    verified: Option<VerifiedJson>,
    state: StateJson,
    blocked: bool,
    carriers: Vec<u8>,
    level_min: u8,
    fallback: bool,
    timer_s: u32,
    delivered: bool,
    read: bool,
    /// The life of notes of the conversation, 1 to 3.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    life: Option<u8>,
    /// Era of our notes to the contact.
    era: String,
    /// Number of the next note to the contact in that era.
    next: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifiedJson {
    how: HowJson,
    at_ms: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HowJson {
    InPerson,
    Number,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateJson {
    Held,
    Asked,
    Open,
    Request,
}

/// A line of `notes.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoteLine {
    id: u64,
    contact: u32,
    incoming: bool,
    /// The text; absent for content of a newer version of the program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    text: Option<String>,
    era: String,
    seq: u32,
    sent_ms: u64,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    due_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    client: Option<String>,
    level_min: u8,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    carrier: Option<u8>,
    #[serde(skip_serializing_if = "is_zero", default)]
    level: u8,
    #[serde(skip_serializing_if = "is_false", default)]
    unseen: bool,
    #[serde(skip_serializing_if = "is_false", default)]
    voided: bool,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    facts: Vec<FactJson>,
    /// The life of the note, 1 to 3.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    life: Option<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactJson {
    what: WhatJson,
    carrier: u8,
    level: u8,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    others: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhatJson {
    Handed,
    Carried,
    Delivered,
    Read,
}

/// A line of `windows.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowLine {
    contact: u32,
    era: String,
    arrived: RangesJson,
    read: RangesJson,
}

/// Every number up to `floor` is settled (arrived or voided); ranges are pairs of the first and the
/// last number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangesJson {
    floor: u32,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    arrived: Vec<[u32; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    voided: Vec<[u32; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    passed: Vec<[u32; 2]>,
}

/// A line of `budget.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetLine {
    network: String,
    address: String,
    joined: bool,
    charges: String,
}

fn write_secret<S: Serializer>(text: &Zeroizing<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn read_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Returns the number of a life; absent for no choice.
fn life_number(life: Option<NoteLife>) -> Option<u8> {
    life.map(|life| NoteLife::encode_choice(Some(life)))
}

fn bytes_of<const N: usize>(hex: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()
}

impl IdentityJson {
    pub(super) fn of_identity(identity: &BackupIdentity) -> Self {
        let relay = |relay: &RelayEntry| RelayJson {
            key: HEXLOWER.encode(&relay.key.0),
            host: relay.host.clone(),
            port: relay.port,
            address: HEXLOWER.encode(&relay.address.0),
        };
        Self {
            key: Zeroizing::new(HEXLOWER.encode(identity.scalar.expose())),
            name: identity.name.clone(),
            serial: identity.serial,
            relays: identity.relays.iter().map(relay).collect(),
        }
    }

    /// The identity; `None` if a field is none.
    pub(super) fn into_identity(self) -> Option<BackupIdentity> {
        let mut is_key = false;
        let scalar = Secret::init_with(|scalar| {
            let decoded = HEXLOWER.decode_len(self.key.len()) == Ok(scalar.len());
            is_key = decoded && HEXLOWER.decode_mut(self.key.as_bytes(), scalar).is_ok();
        });
        let relay = |relay: RelayJson| {
            let entry = RelayEntry {
                key: RelayKey(bytes_of(&relay.key)?),
                address: MailboxAddress(bytes_of(&relay.address)?),
                port: relay.port,
                host: relay.host,
            };
            entry.is_sound().then_some(entry)
        };
        let relays = self.relays.into_iter().map(relay).collect::<Option<_>>()?;
        let identity = BackupIdentity { scalar, name: self.name, serial: self.serial, relays };
        is_key.then_some(identity)
    }
}

impl ContactLine {
    pub(super) fn of_contact(contact: &BackupContact) -> Self {
        let policy = &contact.policy;
        let how = |how| match how {
            VerificationMethod::InPerson => HowJson::InPerson,
            VerificationMethod::Number => HowJson::Number,
        };
        Self {
            id: contact.id.0,
            card: BASE64.encode(&contact.card.encode()),
            name: contact.petname.clone(),
            verified: contact
                .verified
                .map(|(method, at)| VerifiedJson { how: how(method), at_ms: at.as_ms() }),
            state: match contact.state {
                ContactState::Held => StateJson::Held,
                ContactState::Asked => StateJson::Asked,
                // A blocked contact stores its state separately from the flag, so the state is
                // never `Blocked`.
                ContactState::Open | ContactState::Blocked => StateJson::Open,
                ContactState::Request => StateJson::Request,
            },
            blocked: contact.blocked,
            carriers: policy.carriers.iter().map(|carrier| carrier.number()).collect(),
            level_min: policy.level_min,
            fallback: policy.fallback == Fallback::Listed,
            timer_s: policy.timer_s,
            delivered: policy.delivered,
            read: policy.read,
            life: life_number(policy.life),
            era: HEXLOWER.encode(&contact.own_era.0),
            next: contact.next_seq,
        }
    }

    /// The contact; `None` if a field is none.
    pub(super) fn into_contact(self) -> Option<BackupContact> {
        let carriers = self.carriers.iter().map(|number| CarrierId::from_number(*number));
        let policy = Policy {
            carriers: carriers.collect::<Option<_>>()?,
            level_min: self.level_min,
            fallback: if self.fallback { Fallback::Listed } else { Fallback::None },
            timer_s: self.timer_s,
            delivered: self.delivered,
            read: self.read,
            life: NoteLife::decode_choice(self.life.unwrap_or(0)).ok()?,
        };
        let how = |how| match how {
            HowJson::InPerson => VerificationMethod::InPerson,
            HowJson::Number => VerificationMethod::Number,
        };
        Some(BackupContact {
            id: ContactId(self.id),
            card: Card::decode(&BASE64.decode(self.card.as_bytes()).ok()?).ok()?,
            petname: self.name,
            verified: self.verified.map(|json| (how(json.how), Time::from_ms(json.at_ms))),
            policy,
            state: match self.state {
                StateJson::Held => ContactState::Held,
                StateJson::Asked => ContactState::Asked,
                StateJson::Open => ContactState::Open,
                StateJson::Request => ContactState::Request,
            },
            blocked: self.blocked,
            own_era: Era(bytes_of(&self.era)?),
            next_seq: self.next,
        })
    }
}

impl NoteLine {
    pub(super) fn of_note(note: &BackupNote) -> Self {
        Self {
            id: note.id.0,
            contact: note.contact.0,
            incoming: note.incoming,
            text: match &note.body {
                NoteContent::Text(text) => Some(text.clone()),
                NoteContent::Newer => None,
            },
            era: HEXLOWER.encode(&note.era.0),
            seq: note.seq,
            sent_ms: note.sent.as_ms(),
            at_ms: note.at.as_ms(),
            due_ms: note.due.map(Time::as_ms),
            client: (!note.incoming).then(|| HEXLOWER.encode(&note.client)),
            level_min: note.level_min,
            carrier: note.carrier.map(CarrierId::number),
            level: note.level,
            unseen: !note.seen,
            voided: note.voided,
            facts: note.facts.iter().map(FactJson::of_fact).collect(),
            life: life_number(note.life),
        }
    }

    /// The note; `None` if a field is none.
    pub(super) fn into_note(self) -> Option<BackupNote> {
        let client = self.client.as_deref().map_or(Some([0; 16]), bytes_of)?;
        let carrier = match self.carrier {
            None => None,
            Some(number) => Some(CarrierId::from_number(number)?),
        };
        Some(BackupNote {
            id: NoteId(self.id),
            contact: ContactId(self.contact),
            incoming: self.incoming,
            client,
            body: self.text.map_or(NoteContent::Newer, NoteContent::Text),
            era: Era(bytes_of(&self.era)?),
            seq: self.seq,
            sent: Time::from_ms(self.sent_ms),
            at: Time::from_ms(self.at_ms),
            // In a row of the vault 0 means none, so 0 is read as absent.
            due: self.due_ms.filter(|ms| *ms > 0).map(Time::from_ms),
            level_min: self.level_min,
            carrier,
            level: self.level,
            seen: !self.unseen,
            voided: self.voided,
            facts: self.facts.into_iter().map(FactJson::into_fact).collect::<Option<_>>()?,
            life: NoteLife::decode_choice(self.life.unwrap_or(0)).ok()?,
        })
    }
}

impl FactJson {
    fn of_fact(fact: &Fact) -> Self {
        let (what, others) = match fact.what {
            FactKind::Handed => (WhatJson::Handed, None),
            FactKind::Carried(others) => (WhatJson::Carried, Some(others)),
            FactKind::Delivered => (WhatJson::Delivered, None),
            FactKind::Read => (WhatJson::Read, None),
        };
        let at_ms = fact.at.as_ms();
        Self { what, carrier: fact.carrier.number(), level: fact.level, at_ms, others }
    }

    fn into_fact(self) -> Option<Fact> {
        let what = match (self.what, self.others) {
            (WhatJson::Handed, None) => FactKind::Handed,
            (WhatJson::Carried, Some(others)) => FactKind::Carried(others),
            (WhatJson::Delivered, None) => FactKind::Delivered,
            (WhatJson::Read, None) => FactKind::Read,
            _ => return None,
        };
        let carrier = CarrierId::from_number(self.carrier)?;
        let at = Time::from_ms(self.at_ms);
        (self.level <= 4).then_some(Fact { what, carrier, level: self.level, at })
    }
}

impl WindowLine {
    pub(super) fn of_window(window: &BackupWindow) -> Self {
        Self {
            contact: window.contact.0,
            era: HEXLOWER.encode(&window.arrived.era().0),
            arrived: RangesJson::of_ranges(&window.arrived.to_ranges()),
            read: RangesJson::of_ranges(&window.read.to_ranges()),
        }
    }

    /// The window; `None` if a field is none.
    pub(super) fn into_window(self) -> Option<BackupWindow> {
        let era = Era(bytes_of(&self.era)?);
        Some(BackupWindow {
            contact: ContactId(self.contact),
            arrived: Window::from_ranges(era, &self.arrived.into_ranges())?,
            read: Window::from_ranges(era, &self.read.into_ranges())?,
        })
    }
}

impl RangesJson {
    fn of_ranges(ranges: &WindowRanges) -> Self {
        let pairs = |list: &[SeqRange]| list.iter().map(|range| [range.from, range.to]).collect();
        Self {
            floor: ranges.floor,
            arrived: pairs(&ranges.arrived),
            voided: pairs(&ranges.voided),
            passed: pairs(&ranges.passed),
        }
    }

    fn into_ranges(self) -> WindowRanges {
        let ranges = |list: Vec<[u32; 2]>| {
            list.into_iter().map(|[from, to]| SeqRange { from, to }).collect()
        };
        WindowRanges {
            floor: self.floor,
            arrived: ranges(self.arrived),
            voided: ranges(self.voided),
            passed: ranges(self.passed),
        }
    }
}

impl BudgetLine {
    pub(super) fn of_network(network: &BackupNetwork) -> Self {
        Self {
            network: HEXLOWER.encode(&network.pin),
            address: network.address.clone(),
            joined: network.joined,
            charges: BASE64.encode(&network.remembered),
        }
    }

    /// The network; `None` if a field is none.
    pub(super) fn into_network(self) -> Option<BackupNetwork> {
        let remembered = Wiping::new(BASE64.decode(self.charges.as_bytes()).ok()?);
        let pin = bytes_of(&self.network)?;
        Some(BackupNetwork { pin, address: self.address, remembered, joined: self.joined })
    }
}

#[cfg(test)]
mod tests {
    use mezza_core::StaticKey;
    use mezza_messenger::card::CardDraft;
    use mezza_ratchet::{IdentityKeyPair, SuiteList};

    use super::*;
    use crate::backend::AwsLc;
    use crate::process::rng::OsRng;

    /// Returns the lines of a contact and of a note, both with this life.
    fn lines_with(life: Option<NoteLife>) -> [String; 2] {
        let own = IdentityKeyPair::new(StaticKey::random::<AwsLc>(&mut OsRng));
        let suites = SuiteList::our_suites();
        let draft = CardDraft { serial: 1, issued_days: 1, suites, name: "ben", relays: vec![] };
        let contact = BackupContact {
            id: ContactId(1),
            card: Card::issue(&own, draft, &mut OsRng).unwrap(),
            petname: None,
            verified: None,
            policy: Policy { life, ..Policy::default() },
            state: ContactState::Open,
            blocked: false,
            own_era: Era([5; 4]),
            next_seq: 1,
        };
        let note = BackupNote {
            id: NoteId(1),
            contact: ContactId(1),
            incoming: false,
            client: [1; 16],
            body: NoteContent::Text("hello".into()),
            era: Era([5; 4]),
            seq: 0,
            sent: Time::from_ms(1),
            at: Time::from_ms(1),
            due: None,
            level_min: 1,
            carrier: None,
            level: 0,
            seen: true,
            voided: false,
            facts: Vec::new(),
            life,
        };
        let contact = serde_json::to_string(&ContactLine::of_contact(&contact)).unwrap();
        [contact, serde_json::to_string(&NoteLine::of_note(&note)).unwrap()]
    }

    fn lives_of(lines: &[String; 2]) -> Option<[Option<NoteLife>; 2]> {
        let contact: ContactLine = serde_json::from_str(&lines[0]).unwrap();
        let note: NoteLine = serde_json::from_str(&lines[1]).unwrap();
        Some([contact.into_contact()?.policy.life, note.into_note()?.life])
    }

    #[test]
    fn msg_150_a_backup_keeps_the_life_of_a_conversation_and_of_a_note() {
        for life in [None, Some(NoteLife::Minute), Some(NoteLife::HalfDay)] {
            let lines = lines_with(life);
            assert_eq!(lives_of(&lines), Some([life; 2]));
            // A backup without such a choice is the one that earlier versions read.
            assert!(lines.iter().all(|line| line.contains("life") == life.is_some()), "{lines:?}");
        }
        let wrong = lines_with(Some(NoteLife::HalfDay))
            .map(|line| line.replace("\"life\":3", "\"life\":4"));
        assert_eq!(lives_of(&wrong), None);
    }
}
