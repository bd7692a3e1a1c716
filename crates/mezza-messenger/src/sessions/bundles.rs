//! Bundles of contacts that are held for later, and who was told our own.

use alloc::vec::Vec;

use mezza_core::Backend;
use mezza_ratchet::OneTimePrekey;

use super::{HeldBundle, Sessions};
use crate::io::{ContactId, RecordKind, Step, key32};

impl<B: Backend> Sessions<B> {
    /// Holds a bundle for later.
    pub fn hold_bundle(&mut self, id: ContactId, held: HeldBundle, step: &mut Step) {
        step.put(RecordKind::Bundle, key32(id.0), held.write());
        self.bundles.insert(id, held);
        self.look_at(id);
    }

    /// The bundle that is held.
    pub fn held_bundle(&self, id: ContactId) -> Option<&HeldBundle> {
        self.bundles.get(&id)
    }

    /// The bundle that is held has begun a session of a lesser suite; it is not for a later loss any more.
    pub fn hold_for_upgrade(&mut self, id: ContactId, step: &mut Step) {
        let Some(held) = self.bundles.get_mut(&id).filter(|held| held.told) else { return };
        held.told = false;
        step.put(RecordKind::Bundle, key32(id.0), held.write());
        self.look_at(id);
    }

    /// A one-time key serves one session.
    pub fn take_one_time(&mut self, id: ContactId, step: &mut Step) -> Option<OneTimePrekey> {
        let held = self.bundles.get_mut(&id)?;
        let one_time = held.one_time.take();
        step.put(RecordKind::Bundle, key32(id.0), held.write());
        one_time
    }

    /// A held bundle is not needed any more.
    pub fn drop_held(&mut self, id: ContactId, step: &mut Step) {
        if self.bundles.remove(&id).is_some() {
            step.drop_row(RecordKind::Bundle, key32(id.0));
            self.look_at(id);
        }
    }

    /// A bundle that was stored.
    pub fn load_held(&mut self, id: ContactId, held: HeldBundle) {
        self.bundles.insert(id, held);
        self.look_at(id);
    }

    /// Our bundle, if this contact was not told it yet.
    pub fn to_tell(&self, id: ContactId) -> Option<Vec<u8>> {
        let peer = self.peers.get(&id)?;
        // Sent once for each newest signed prekey, and not before the session is confirmed
        // (MSG-100).
        if peer.conversation.is_pending() || peer.renewal.told == self.newest_prekey() {
            return None;
        }
        self.prekeys.current_bundle().map(|(bundle, _)| bundle).filter(|bundle| !bundle.is_empty())
    }

    /// A contact was told our bundle.
    pub fn mark_bundle_sent(&mut self, id: ContactId, step: &mut Step) {
        let newest = self.newest_prekey();
        self.set_renewal(id, step, |renewal| renewal.told = newest);
    }

    /// Marks a bundle as unsent: the message that carried it may be lost.
    pub fn tell_again(&mut self, id: ContactId, step: &mut Step) {
        self.set_renewal(id, step, |renewal| renewal.told = 0);
    }

    /// The number of the newest signed prekey, 0: there is none.
    fn newest_prekey(&self) -> u32 {
        self.prekeys.signed_prekeys().next().map_or(0, |(_, id, _)| id)
    }
}
