//! Thieves: what does a copy of the disk open?

use mezza_core::{EphemeralKey, PortableBackend, Time};
use mezza_ratchet::wire;
use mezza_ratchet::{IdentityKeyPair, Padding, Prekeys, Table};
use mezza_sim::HostId;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::device::{Disk, Talk};

/// A message that its receiver has opened.
#[derive(Clone)]
pub struct Read {
    pub from: HostId,
    pub bytes: Vec<u8>,
    pub note: u64,
}

/// A thief of this disk cannot read a message that was opened before. The one exception is the
/// documented one: a first message without one-time key, while its signed prekey is held.
pub fn cannot_read(disk: &Disk, read: &Read, now: Time) {
    let identity = disk.identity();
    let mut prekeys = forgetful(disk);
    let mut talk = disk.talk(read.from);
    let opens = talk.open(&read.bytes, &[], &identity, &mut prekeys, now).is_ok();
    assert!(!opens, "a message opens twice");
    // Without the sessions, so that nothing is refused as a repeat: X3DH again.
    let mut nobody = Talk::new(identity.public_key(), disk.public(read.from));
    let opens = nobody.open(&read.bytes, &[], &identity, &mut prekeys, now).is_ok();
    let envelope = wire::decode_message(&read.bytes).expect("a message");
    let exception = envelope.first.is_some_and(|first| {
        first.opk_id == 0 && prekeys.signed_prekeys().any(|(_, id, _)| id == first.spk_id)
    });
    assert!(!opens || exception, "a first message is readable after it was opened");
}

/// The prekeys without the memory of base keys, which would not stop a thief.
fn forgetful(disk: &Disk) -> Prekeys {
    let rows = disk.records(None).into_iter().filter(|row| row.table != Table::Seen);
    disk.offering(Prekeys::load(disk.identity(), rows).expect("stored rows"))
}

/// A thief who copied a disk once and then listens to everything that comes from one contact.
pub struct Listener {
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    talk: Talk,
    now: Time,
}

impl Listener {
    pub fn of(disk: &Disk, contact: HostId, now: Time) -> Self {
        let identity = disk.identity();
        let prekeys = forgetful(disk);
        Self { identity, prekeys, talk: disk.talk(contact), now }
    }

    /// The victim sends, with a fresh key that the thief does not hold: he goes on with a key of
    /// his own, which serves him if the ratchet does not depend on it.
    pub fn guesses(&mut self) {
        let mut rng = ChaCha20Rng::seed_from_u64(self.now.as_ms());
        let fresh = Some(EphemeralKey::random::<PortableBackend>(&mut rng));
        let sealed = self.talk.seal(b"", &[], Padding::Blocks, fresh, self.now);
        assert!(sealed.is_ok());
    }

    pub fn reads(&mut self, read: &Read) -> bool {
        let opened = self.talk.open(&read.bytes, &[], &self.identity, &mut self.prekeys, self.now);
        opened.is_ok_and(|opened| opened.body.as_slice() == read.note.to_be_bytes())
    }
}
