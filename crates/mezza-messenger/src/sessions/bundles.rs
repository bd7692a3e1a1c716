//! Stored bundles of contacts, and the record of the contacts that got our bundle.

use alloc::vec::Vec;

use mezza_core::Backend;
use mezza_ratchet::OneTimePrekey;

use super::{HeldBundle, Sessions};
use crate::io::{ContactId, Effects, RecordKind, key32};

impl<B: Backend> Sessions<B> {
    /// Stores a bundle for later use.
    pub fn hold_bundle(&mut self, id: ContactId, held: HeldBundle, effects: &mut Effects) {
        effects.put(RecordKind::Bundle, key32(id.0), held.write());
        self.bundles.insert(id, held);
        self.look_at(id);
    }

    /// Returns the stored bundle of a contact, or `None`.
    pub fn held_bundle(&self, id: ContactId) -> Option<&HeldBundle> {
        self.bundles.get(&id)
    }

    /// Keeps a stored bundle only for an upgrade to its better suite, after it began a session of a
    /// lesser one.
    pub fn hold_for_upgrade(&mut self, id: ContactId, effects: &mut Effects) {
        let Some(held) = self.bundles.get_mut(&id).filter(|held| held.told) else { return };
        held.told = false;
        effects.put(RecordKind::Bundle, key32(id.0), held.write());
        self.look_at(id);
    }

    /// Removes the one-time key of a stored bundle, because it may be used for one session only.
    pub fn take_one_time(&mut self, id: ContactId, effects: &mut Effects) -> Option<OneTimePrekey> {
        let held = self.bundles.get_mut(&id)?;
        let one_time = held.one_time.take();
        effects.put(RecordKind::Bundle, key32(id.0), held.write());
        one_time
    }

    /// Drops a stored bundle.
    pub fn drop_held(&mut self, id: ContactId, effects: &mut Effects) {
        if self.bundles.remove(&id).is_some() {
            effects.drop_row(RecordKind::Bundle, key32(id.0));
            self.look_at(id);
        }
    }

    /// Loads a stored bundle.
    pub fn load_held(&mut self, id: ContactId, held: HeldBundle) {
        self.bundles.insert(id, held);
        self.look_at(id);
    }

    /// Returns our bundle if this contact has not got it yet.
    pub fn to_tell(&self, id: ContactId) -> Option<Vec<u8>> {
        let peer = self.peers.get(&id)?;
        // Sent once for each newest signed prekey, and not before the session is confirmed
        // (MSG-100).
        if peer.conversation.is_pending() || peer.renewal.told == self.newest_prekey() {
            return None;
        }
        self.prekeys.current_bundle().map(|(bundle, _)| bundle).filter(|bundle| !bundle.is_empty())
    }

    /// Returns our bundle; `None` before the first prekeys.
    pub fn own_bundle(&self) -> Option<Vec<u8>> {
        self.prekeys.current_bundle().map(|(bundle, _)| bundle).filter(|bundle| !bundle.is_empty())
    }

    /// Records that a contact got our bundle.
    pub fn mark_bundle_sent(&mut self, id: ContactId, effects: &mut Effects) {
        let newest = self.newest_prekey();
        self.set_renewal(id, effects, |renewal| renewal.told = newest);
    }

    /// Marks our bundle as unsent, because the message with it may be lost.
    pub fn tell_again(&mut self, id: ContactId, effects: &mut Effects) {
        self.set_renewal(id, effects, |renewal| renewal.told = 0);
    }

    /// Returns the number of the newest signed prekey, or 0 if there is none.
    fn newest_prekey(&self) -> u32 {
        self.prekeys.signed_prekeys().next().map_or(0, |(_, id, _)| id)
    }
}
