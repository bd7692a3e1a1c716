//! Records: the contents of the database's rows.
//!
//! ```text
//! body = nonce[24] | XChaCha20-Poly1305(bucket key, text)
//! text = key_len u8 | key | value_len u32 | value | zeros
//!        to 256, 512, 1,024, 2,048, 4,096 or 16,384 bytes, above that to a multiple of 16,384
//! additional data = "mezza/rec" | kind u8 | id u64 | bucket u32
//! ```
//!
//! The additional data bind a body to its row: a moved, exchanged, truncated or rebucketed body
//! does not open. References between records are inside the bodies.

use mezza_core::{DecodeError, Reader, Secret, Wiping, Writer};

use super::aead::{self, NONCE_BYTES, SEAL_BYTES};
use super::bucket::RetentionCode;
use crate::api::Fault;

/// Longest key of a record, bytes.
pub const KEY_BYTES_MAX: usize = 96;
/// Longest padded text, bytes: 1 MiB.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Longest body, bytes.
pub(crate) const BODY_BYTES_MAX: usize = TEXT_BYTES_MAX + SEAL_BYTES;
/// The label before the additional data of records.
const AAD_LABEL: &[u8] = b"mezza/rec";
/// Sizes of a padded text; above the last one, multiples of it.
const SIZES: [usize; 6] = [256, 512, 1_024, 2_048, 4_096, 16_384];

/// The row that a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Kind of the record.
    pub kind: u8,
    /// Number of the row.
    pub id: u64,
    /// The bucket whose key seals the body.
    pub bucket: RetentionCode,
}

impl RecordHeader {
    fn aad(self) -> Vec<u8> {
        let mut w = Writer::with_capacity(AAD_LABEL.len() + 13);
        w.put_bytes(AAD_LABEL).put_u8(self.kind).put_u64(self.id).put_u32(self.bucket.0);
        w.finish()
    }
}

/// The content of a body.
pub struct RecordContent {
    /// The record's key, at most 96 bytes.
    pub key: Vec<u8>,
    /// The record's value.
    pub value: Wiping<Vec<u8>>,
}

/// Returns the padded size of a text of `bytes` bytes.
pub fn padded_size(bytes: usize) -> usize {
    let step = SIZES[SIZES.len() - 1];
    SIZES.iter().copied().find(|size| bytes <= *size).unwrap_or(bytes.div_ceil(step) * step)
}

/// Seals a record for its row. A too long key or value is a bug of the caller.
pub fn seal(
    bucket_key: &Secret<32>,
    nonce: &[u8; NONCE_BYTES],
    place: RecordHeader,
    key: &[u8],
    value: &[u8],
) -> Result<Vec<u8>, Fault> {
    let bytes = 5 + key.len() + value.len();
    if key.len() > KEY_BYTES_MAX || bytes > TEXT_BYTES_MAX {
        return Err(Fault::bug(format!("a record of kind {} has {bytes} bytes", place.kind)));
    }
    // Allocate the whole size at once: a growing buffer would leave copies of the text.
    let mut w = Writer::with_capacity(padded_size(bytes));
    w.put_var8(key).put_u32(value.len() as u32).put_bytes(value).pad_to(padded_size(bytes));
    aead::seal(bucket_key, nonce, &place.aad(), &Wiping::new(w.finish()))
}

/// Opens the body of a row. Returns `None` if anything differs from [`seal`]'s input.
pub fn open(bucket_key: &Secret<32>, place: RecordHeader, body: &[u8]) -> Option<RecordContent> {
    let text = aead::open(bucket_key, &place.aad(), body)?;
    let content = |r: &mut Reader<'_>| -> Result<RecordContent, DecodeError> {
        let key = r.read_var8()?.to_vec();
        let bytes = r.read_u32()? as usize;
        let value = Wiping::new(r.read_bytes(bytes)?.to_vec());
        if r.read_rest().iter().all(|byte| *byte == 0) {
            Ok(RecordContent { key, value })
        } else {
            Err(DecodeError::Value)
        }
    };
    Reader::decode_exact(&text, content).ok()
}
