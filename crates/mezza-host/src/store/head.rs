//! The head of a vault: the master key, sealed under the passphrase.
//!
//! ```text
//! "MZVAULT1" | m_kib u32 | t u32 | p u32 | salt[16] | slot A | slot B       182 bytes
//! slot = nonce[24] | XChaCha20-Poly1305(KEK, role u8 | MK[32])               73 bytes
//! KEK  = Argon2id(passphrase, salt)        additional data: the 36 bytes before the slots
//! ```
//!
//! The passphrase is normalised (module `typed`).
//!
//! These bytes are stored in a file of two slots (module `slots`; not those of the head), which are
//! overwritten in place when the passphrase changes (VAULT-16). A head of an older version is only
//! these bytes, and is converted with the next change.
//!
//! Both slots always look the same; the unused one holds random bytes. One evaluation of Argon2id
//! serves both.

use std::path::Path;

use mezza_core::{CryptoRng, DecodeError, Reader, Secret, Wiping, Writer};

use super::aead::{self, NONCE_BYTES, SEAL_BYTES};
use super::argon::{Argon2Params, SALT_BYTES};
use super::typed::in_one_form;
use crate::api::{Exit, Fault};
use crate::process::home::private;
use crate::process::slots::{self, SlotFile};

/// The first bytes of the file; the digit is the version of the layout.
const MAGIC: &[u8; 8] = b"MZVAULT1";
/// Bytes before the slots.
const FRONT_BYTES: usize = 36;
/// Bytes of a slot.
const SLOT_BYTES: usize = SEAL_BYTES + 33;
/// Bytes of the file.
pub const HEAD_BYTES: usize = FRONT_BYTES + 2 * SLOT_BYTES;
/// The role of a slot that opens the vault.
const ROLE_OPEN: u8 = 1;

/// The master key of a vault; it never changes.
pub struct MasterKey(Secret<32>);

impl MasterKey {
    /// Draws a fresh master key.
    pub fn draw(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng))
    }

    /// Derives the key of one purpose: keyed BLAKE2b-256 of its name.
    pub fn derive(&self, purpose: &str) -> Secret<32> {
        Secret::init_with(|key| {
            mezza_core::blake2b(key, self.0.expose(), "", &[purpose.as_bytes()]);
        })
    }
}

/// A decoded head.
pub struct VaultHeader {
    cost: Argon2Params,
    salt: [u8; SALT_BYTES],
    slots: [[u8; SLOT_BYTES]; 2],
}

impl VaultHeader {
    /// Seals `master` under a passphrase, into slot A. Draws salt, nonce, slot B in this order.
    pub fn seal(
        master: &MasterKey,
        pass: &[u8],
        cost: Argon2Params,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        Self::seal_as_typed(master, &in_one_form(pass), cost, rng)
    }

    fn seal_as_typed(
        master: &MasterKey,
        pass: &[u8],
        cost: Argon2Params,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        if !cost.is_allowed() {
            return Err(Fault::new(
                Exit::Config,
                "this cost of the passphrase is outside the limits",
                "take at least 64 MiB, and 192 MiB times passes",
            ));
        }
        let mut head = Self { cost, salt: [0; SALT_BYTES], slots: [[0; SLOT_BYTES]; 2] };
        rng.fill_bytes(&mut head.salt);
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        rng.fill_bytes(&mut head.slots[1]);
        let mut text = Wiping::new([ROLE_OPEN; 33]);
        text[1..].copy_from_slice(master.0.expose());
        let slot = aead::seal(&cost.derive_key(pass, &head.salt)?, &nonce, &head.front(), &*text)?;
        head.slots[0].copy_from_slice(&slot);
        Ok(head)
    }

    /// Decodes the layout; the cost must be an allowed one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_array_ref()? != MAGIC {
                return Err(DecodeError::Value);
            }
            let cost = Argon2Params { m_kib: r.read_u32()?, t: r.read_u32()?, p: r.read_u32()? };
            let head =
                Self { cost, salt: r.read_array()?, slots: [r.read_array()?, r.read_array()?] };
            if cost.is_allowed() { Ok(head) } else { Err(DecodeError::Value) }
        })
    }

    /// Encodes the 182 bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        [self.front().as_slice(), &self.slots[0], &self.slots[1]].concat()
    }

    /// Returns the master key if the passphrase is right and no byte was changed. The passphrase is
    /// tried as typed, like in older versions, and then in its normal form.
    pub fn open(&self, pass: &[u8]) -> Result<Option<MasterKey>, Fault> {
        let form = in_one_form(pass);
        match self.open_as_typed(pass)? {
            None if *form != *pass => self.open_as_typed(&form),
            opened => Ok(opened),
        }
    }

    fn open_as_typed(&self, pass: &[u8]) -> Result<Option<MasterKey>, Fault> {
        let kek = self.cost.derive_key(pass, &self.salt)?;
        let master = |slot: &[u8; SLOT_BYTES]| {
            let text = aead::open(&kek, &self.front(), slot)?;
            let (role, key) = text.split_first()?;
            (*role == ROLE_OPEN).then_some(())?;
            Some(MasterKey(Secret::copy_from(key.try_into().ok()?)))
        };
        Ok(self.slots.iter().find_map(master))
    }

    fn front(&self) -> [u8; FRONT_BYTES] {
        let mut w = Writer::with_capacity(FRONT_BYTES);
        w.put_bytes(MAGIC)
            .put_u32(self.cost.m_kib)
            .put_u32(self.cost.t)
            .put_u32(self.cost.p)
            .put_bytes(&self.salt);
        let mut front = [0; FRONT_BYTES];
        front.copy_from_slice(w.as_slice());
        front
    }
}

/// Returns the master key of the vault whose head is at `path`.
///
/// A file that is no head, or has a cost outside the limits, is distinguished from a wrong
/// passphrase. A head whose salt or slots were changed is not: no passphrase opens it.
///
/// # Errors
/// Exit code 65 for a damaged file, 77 for a wrong passphrase.
pub fn unlock_master(path: &Path, pass: &[u8]) -> Result<MasterKey, Fault> {
    Ok(open_head(path, pass)?.1)
}

/// Seals the master key of the vault whose head is at `path` under another passphrase, with the
/// same Argon2id cost, and overwrites the head durably (VAULT-10). Three runs of Argon2id: the old
/// passphrase, the new one, and the new one again to check the bytes to be written, before anything
/// is replaced.
///
/// # Errors
/// Exit code 77 if `old` is wrong. 73 if the disk refuses: then the head is the old one or the new
/// one, and intact.
pub(crate) fn change_passphrase(
    path: &Path,
    old: &[u8],
    new: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<(), Fault> {
    let (head, master) = open_head(path, old)?;
    let fresh = VaultHeader::seal(&master, new, head.cost, rng)?.encode();
    let again = VaultHeader::decode(&fresh).ok().map(|head| head.open(new)).transpose()?.flatten();
    if again.is_none_or(|again| again.0 != master.0) {
        return Err(Fault::bug("the new head of the vault does not open"));
    }
    put_head(path, &fresh).map_err(|fault| Fault {
        next: format!("{}; until then try both passphrases", fault.next),
        ..fault
    })?;
    if *read_head(path)? == fresh {
        return Ok(());
    }
    let text = format!("{} is not what was written", path.display());
    Err(Fault::new(Exit::CannotWrite, text, "check the disk, and keep a copy of the vault"))
}

/// Makes the file of a new vault.
///
/// # Errors
/// Exit code 73 if the disk refuses.
pub(crate) fn create_head(path: &Path, head: &VaultHeader) -> Result<(), Fault> {
    SlotFile::create(path, slots::room_for(HEAD_BYTES), &head.encode()).map(drop)
}

/// Finishes an interrupted change: afterwards the disk has only one head.
///
/// # Errors
/// Exit code 73 if the disk refuses, 65 if no head is intact.
pub(crate) fn settle_head(path: &Path) -> Result<(), Fault> {
    private::sweep_leftover(path)?;
    slots::finish_superseding(path)?;
    SlotFile::open_any(path)?.map_or(Ok(()), |file| file.finish_step())
}

/// Writes a head over the existing one.
fn put_head(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    match SlotFile::open_any(path)? {
        Some(file) => file.write(bytes),
        None => SlotFile::supersede(path, slots::room_for(HEAD_BYTES), bytes).map(drop),
    }
}

/// Reads the bytes of the head.
fn read_head(path: &Path) -> Result<Wiping<Vec<u8>>, Fault> {
    match SlotFile::open_any(path)? {
        Some(file) => file.read().map_err(|_| damage_fault(path)),
        None => private::read(path, HEAD_BYTES + 1).map(Wiping::new),
    }
}

fn damage_fault(path: &Path) -> Fault {
    let text = format!("{} is damaged", path.display());
    Fault::new(Exit::Malformed, text, "put the file `head` back from a copy of this vault")
}

/// Returns the head at `path` and its master key.
fn open_head(path: &Path, pass: &[u8]) -> Result<(VaultHeader, MasterKey), Fault> {
    let bytes = read_head(path)?;
    let head = VaultHeader::decode(&bytes).map_err(|_| damage_fault(path))?;
    let master = head.open(pass)?.ok_or_else(|| {
        let next = "try again; capitals, the layout of the keyboard and spaces count";
        Fault::new(Exit::Denied, "the passphrase is wrong", next)
    })?;
    Ok((head, master))
}

#[cfg(test)]
mod tests;
