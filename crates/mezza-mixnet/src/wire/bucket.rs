//! The content of the buckets of a round: one object per bucket, and a manifest that the last mix
//! signs.
//!
//! Call object: `count u32 | Golomb-Rice set`. Invitation object: `count u32 | count x 260`.
//! Manifest: `service 1 | round 8 | m u32 | m x (length u32, H_32("mezza/mix object", object))`.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, labelled_hash, snapshot};

use crate::limits::BUCKETS_MAX;
use crate::service::{INVITATION_BYTES, RoundId, Service};
use crate::sign::{self, Purpose, Signature, Signer, VerifyKey};

/// Length and hash of one object, in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectDigest {
    /// Length of the object in bytes.
    pub len: u32,
    /// `H_32("mezza/mix object", object)`.
    pub hash: [u8; 32],
}

snapshot!(struct ObjectDigest { len, hash });

impl ObjectDigest {
    /// Computes length and hash of an object.
    pub fn from_object(object: &[u8]) -> Self {
        Self { len: object.len() as u32, hash: labelled_hash("mezza/mix object", &[object]) }
    }
}

/// The objects of one round, buckets 1 to m in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// A call or an invitation round.
    pub id: RoundId,
    /// One entry per bucket.
    pub entries: Vec<ObjectDigest>,
}

snapshot!(struct Manifest { id, entries });

impl Manifest {
    /// Reads a manifest; its number of buckets is a power of two up to 1,024.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or a value is outside its limits.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = RoundId::read_from(reader)?;
        let buckets = reader.read_u32()?;
        // The count is bounded before entries are read (MIX-12).
        if id.service.has_replies() || !buckets.is_power_of_two() || buckets > BUCKETS_MAX {
            return Err(DecodeError::Value);
        }
        let entry = |_| Ok(ObjectDigest { len: reader.read_u32()?, hash: reader.read_array()? });
        Ok(Self { id, entries: (0..buckets).map(entry).collect::<Result<_, DecodeError>>()? })
    }

    /// Encodes the manifest in 13 + 36 m bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(13 + 36 * self.entries.len());
        self.id.write_to(&mut writer);
        writer.put_u32(self.entries.len() as u32);
        for entry in &self.entries {
            writer.put_u32(entry.len).put_bytes(&entry.hash);
        }
        writer.finish()
    }

    /// Signs the manifest as the last mix, under a config.
    pub fn sign(&self, signer: &Signer, config: &[u8; 32]) -> Signature {
        signer.sign(Purpose::Bucket, &[config, &self.encode()])
    }

    /// Returns true if `key` signed this manifest under a config.
    pub fn signed_by(&self, key: &VerifyKey, config: &[u8; 32], signature: &Signature) -> bool {
        sign::verify(key, Purpose::Bucket, &[config, &self.encode()], signature)
    }

    /// Returns true if `object` is the content of `bucket`, 1 to m.
    pub fn holds_object(&self, bucket: u32, object: &[u8]) -> bool {
        let entry = (bucket as usize).checked_sub(1).and_then(|at| self.entries.get(at));
        entry.is_some_and(|entry| *entry == ObjectDigest::from_object(object))
    }
}

/// Builds the object of an invitation bucket. `invitations` must be a whole number of sealed
/// invitations.
pub fn invitation_object(invitations: &[u8]) -> Vec<u8> {
    debug_assert!(invitations.len().is_multiple_of(INVITATION_BYTES));
    let mut writer = Writer::with_capacity(4 + invitations.len());
    writer.put_u32((invitations.len() / INVITATION_BYTES) as u32).put_bytes(invitations);
    writer.finish()
}

/// Returns the sealed invitations of an object as a slice.
///
/// # Errors
/// [`DecodeError`] unless the object contains exactly the counted number.
pub fn split_invitations(object: &[u8]) -> Result<&[[u8; INVITATION_BYTES]], DecodeError> {
    let mut reader = Reader::new(object);
    let count = reader.read_u32()? as usize;
    let (invitations, rest) = reader.read_rest().as_chunks();
    if invitations.len() < count {
        return Err(DecodeError::Truncated);
    }
    // Surplus bytes mean another format or a damaged object.
    if invitations.len() > count || !rest.is_empty() {
        return Err(DecodeError::Trailing);
    }
    Ok(invitations)
}

/// Returns true if a round of this service publishes buckets.
pub const fn publishes_buckets(service: Service) -> bool {
    !service.has_replies()
}
