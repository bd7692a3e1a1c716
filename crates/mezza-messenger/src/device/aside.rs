//! Stored parts that do not load. Their rows stay in the store unchanged: they are not read again
//! and not overwritten, and none of their numbers is used again (MSG-42).
//!
//! If the store cannot open a row, its key is lost too (MSG-66). Contacts, notes and mailboxes are
//! numbered by counters of the profile, which are above every number used before.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use mezza_ratchet::IdentityKey;

use crate::io::{RecordKind, Unloaded, Unread, id64};
use crate::view::{Part, SetAside};
use mezza_core::{labelled_hash, snapshot};

/// The keys of all rows that do not load. Their content is not kept in memory.
#[derive(Default)]
pub(crate) struct Aside {
    /// The part of each row, and its size in bytes.
    rows: BTreeMap<(RecordKind, Vec<u8>), (Part, usize)>,
    /// The name of a part, if one of its rows still contains it.
    names: BTreeMap<Part, String>,
    /// Identity keys of quarantined contacts. Their mail stays at the relay.
    identities: BTreeSet<[u8; 32]>,
    /// Rows that the store could not open.
    unread: Vec<Unread>,
}

snapshot!(struct Aside { rows, names, identities, unread });

impl Aside {
    /// Adds a row of `bytes` bytes.
    pub fn add(&mut self, part: Part, kind: RecordKind, key: Vec<u8>, bytes: usize) {
        self.rows.insert((kind, key), (part, bytes));
    }

    /// Adds a row that its component could not load.
    pub fn add_unloaded(&mut self, row: Unloaded) {
        self.names.extend(row.name.map(|name| (row.part, name)));
        self.add(row.part, row.kind, row.key, row.bytes);
    }

    /// Adds rows that the store could not open.
    pub fn add_unread(&mut self, unread: &[Unread]) {
        self.unread.extend_from_slice(unread);
    }

    /// Returns true if the store could not open a row of this kind.
    pub fn has_lost(&self, kind: RecordKind) -> bool {
        self.unread.iter().any(|row| row.kind == Some(kind))
    }

    /// Stores the name that the user knows for a part.
    pub fn name_part(&mut self, part: Part, name: String) {
        self.names.insert(part, name);
    }

    /// Adds the identity key of a contact with quarantined rows.
    pub fn add_identity(&mut self, ik: &IdentityKey) {
        self.identities.insert(*ik.as_bytes());
    }

    /// Returns true if a contact with this identity key has quarantined rows.
    pub fn has_identity(&self, ik: &IdentityKey) -> bool {
        self.identities.contains(ik.as_bytes())
    }

    /// Returns true if this row is quarantined.
    pub fn holds(&self, kind: RecordKind, key: &[u8]) -> bool {
        !self.rows.is_empty() && self.rows.contains_key(&(kind, key.to_vec()))
    }

    /// Returns a digest of the quarantined parcels that do not belong to a quarantined contact:
    /// their keys, and the number of parcels that the store could not open. The digest is zero if
    /// there are none.
    pub fn digest_parcels(&self) -> [u8; 16] {
        let sealed = self.unread.iter().filter(|row| row.kind == Some(RecordKind::Parcel)).count();
        let rows = self.rows.iter().filter(|((kind, _), (part, _))| {
            *kind == RecordKind::Parcel && matches!(part, Part::Parcels | Part::Notes)
        });
        let keys = rows.map(|((_, key), _)| key.as_slice()).collect::<Vec<_>>().concat();
        if keys.is_empty() && sealed == 0 {
            return [0; 16];
        }
        let sealed = (sealed as u64).to_be_bytes();
        labelled_hash("mezza/aside", &[&sealed, &keys])
    }

    /// Returns true if this part has quarantined rows.
    pub fn has_part(&self, part: Part) -> bool {
        self.rows.values().any(|(other, _)| *other == part)
    }

    /// Releases a row whose key is written again. This is allowed only for data that can be
    /// obtained again: a bundle from the relay, a publication from the prekeys, the pairing with a
    /// guard from its owner, our name on links by chance. The number of a prekey is random and may
    /// equal an older one. A coin has the key of the guard's slot, which the guard offers again.
    pub fn mark_replaced(&mut self, kind: RecordKind, key: &[u8]) {
        if self.holds(kind, key) {
            let again = matches!(
                kind,
                RecordKind::Bundle | RecordKind::Prekey | RecordKind::Guard | RecordKind::LinkOwn
            );
            debug_assert!(again, "{kind:?}: a record that was quarantined is written over");
            self.rows.remove(&(kind, key.to_vec()));
        }
    }

    /// Releases the rows of a part whose content is stored elsewhere.
    pub fn release_part(&mut self, part: Part) {
        self.rows.retain(|_, (other, _)| *other != part);
    }

    /// Returns the first number above those of all quarantined rows of a kind whose keys are
    /// numbers of 8 bytes.
    pub fn next_number(&self, kind: RecordKind) -> u64 {
        let keys = self.rows.keys().filter(|(other, _)| *other == kind);
        let numbers = keys.filter_map(|(_, key)| id64(key).ok());
        numbers.max().map_or(0, |last| last + 1)
    }

    /// Returns the view for the user, part by part.
    pub fn view(&self) -> Vec<SetAside> {
        let mut parts = BTreeMap::<Part, SetAside>::new();
        let named = self.rows.iter().map(|((kind, _), (part, bytes))| (Some(*kind), *part, *bytes));
        let unread = self.unread.iter().map(|row| {
            let part = if row.kind.is_some() { Part::Sealed } else { Part::Other };
            (row.kind, part, row.bytes)
        });
        for (kind, part, bytes) in named.chain(unread) {
            let name = || self.names.get(&part).cloned();
            let empty = || SetAside { part, name: name(), records: 0, notes: 0, bytes: 0 };
            let view = parts.entry(part).or_insert_with(empty);
            view.records += 1;
            view.notes += usize::from(kind == Some(RecordKind::Note));
            view.bytes += bytes;
        }
        parts.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use mezza_core::{PortableBackend, Secret, StaticKey};
    use mezza_ratchet::IdentityKeyPair;

    use super::*;
    use crate::io::ContactId;

    const BOB: Part = Part::Contact(ContactId(1));

    fn key(n: u64) -> Vec<u8> {
        n.to_be_bytes().into()
    }

    fn ik(scalar: u8) -> IdentityKey {
        let pair = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(scalar)));
        IdentityKeyPair::new(pair).public_key()
    }

    #[test]
    fn a_record_is_held_by_kind_and_key() {
        let mut aside = Aside::default();
        assert!(!aside.holds(RecordKind::Note, &key(7)) && !aside.has_part(Part::Notes));
        aside.add(Part::Notes, RecordKind::Note, key(7), 9);
        assert!(aside.holds(RecordKind::Note, &key(7)) && aside.has_part(Part::Notes));
        assert!(
            !aside.holds(RecordKind::Note, &key(8)) && !aside.holds(RecordKind::Parcel, &key(7))
        );
        assert!(!aside.has_part(Part::Parcels) && !aside.has_part(BOB));
    }

    #[test]
    fn a_record_that_is_written_again_is_released() {
        let mut aside = Aside::default();
        aside.add(Part::Bundles, RecordKind::Bundle, key(7), 9);
        aside.add(Part::Prekeys, RecordKind::Prekey, key(7), 9);
        aside.mark_replaced(RecordKind::Bundle, &key(8));
        assert_eq!(aside.view().len(), 2);
        aside.mark_replaced(RecordKind::Bundle, &key(7));
        assert!(
            !aside.holds(RecordKind::Bundle, &key(7)) && aside.holds(RecordKind::Prekey, &key(7))
        );
    }

    #[test]
    fn the_next_number_is_above_all_of_its_kind() {
        let mut aside = Aside::default();
        assert_eq!(aside.next_number(RecordKind::Parcel), 0);
        for n in [9, 12, 7] {
            aside.add(Part::Parcels, RecordKind::Parcel, key(n), 1);
        }
        aside.add(Part::Parcels, RecordKind::Parcel, vec![0xee; 3], 1);
        aside.add(Part::Parcels, RecordKind::Held, key(20), 1);
        assert_eq!(
            (aside.next_number(RecordKind::Parcel), aside.next_number(RecordKind::Held)),
            (13, 21)
        );
        assert_eq!(aside.next_number(RecordKind::Note), 0);
    }

    #[test]
    fn the_identity_key_of_a_quarantined_contact_is_found() {
        let mut aside = Aside::default();
        aside.add_identity(&ik(3));
        assert!(aside.has_identity(&ik(3)) && !aside.has_identity(&ik(4)));
    }

    #[test]
    fn the_digest_covers_parcels_of_unknown_contacts() {
        let mut aside = Aside::default();
        aside.add(Part::Notes, RecordKind::Note, key(1), 9);
        aside.add(Part::Parcels, RecordKind::Held, key(2), 9);
        aside.add(BOB, RecordKind::Parcel, key(3), 9);
        aside.add_unread(&[Unread { kind: Some(RecordKind::Note), bytes: 9 }]);
        assert_eq!(aside.digest_parcels(), [0; 16]);
        let mut seen = BTreeSet::from([aside.digest_parcels()]);
        aside.add(Part::Notes, RecordKind::Parcel, key(4), 9);
        assert!(seen.insert(aside.digest_parcels()));
        aside.add(Part::Parcels, RecordKind::Parcel, key(5), 9);
        assert!(seen.insert(aside.digest_parcels()));
        aside.add_unread(&[Unread { kind: Some(RecordKind::Parcel), bytes: 9 }]);
        assert!(seen.insert(aside.digest_parcels()));
        assert!(aside.has_lost(RecordKind::Parcel) && !aside.has_lost(RecordKind::Mailbox));
    }

    #[test]
    fn the_view_has_each_part_with_its_name_and_counts() {
        let mut aside = Aside::default();
        aside.name_part(BOB, "bob".into());
        aside.add(BOB, RecordKind::Contact, key(1), 10);
        aside.add(BOB, RecordKind::Note, key(1), 5);
        aside.add_unread(&[
            Unread { kind: None, bytes: 3 },
            Unread { kind: Some(RecordKind::Note), bytes: 4 },
        ]);
        let view = aside.view().into_iter();
        let view = view.map(|set| (set.part, set.name, set.records, set.notes, set.bytes));
        let expected = [
            (BOB, Some("bob".into()), 2, 1, 15),
            (Part::Sealed, None, 1, 1, 4),
            (Part::Other, None, 1, 0, 3),
        ];
        assert_eq!(view.collect::<Vec<_>>(), expected);
    }
}
