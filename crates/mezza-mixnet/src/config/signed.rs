//! A config with its signatures: `config | count u8 | count x (set u8 | index u8 | signature 64)`,
//! strictly ascending by set and index.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use super::Config;
use crate::limits::GUARDIANS_MAX;
use crate::sign::{self, Purpose, Signature, Signer, VerifyKey};

/// The guardians to which a signature belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureSet {
    /// The guardians of the predecessor.
    Predecessor,
    /// The guardians in this config.
    Own,
}

/// A config and its signatures, which are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedConfig {
    config: Config,
    signatures: BTreeMap<(SignatureSet, u8), Signature>,
}

snapshot!(encoded SignedConfig);

impl SignedConfig {
    /// Creates a config without signatures.
    pub fn new(config: Config) -> Self {
        Self { config, signatures: BTreeMap::new() }
    }

    /// Returns the config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds the signature of the guardian with this index in this set. The index is checked when
    /// the config is accepted.
    pub fn add_signature(&mut self, set: SignatureSet, index: u8, guardian: &Signer) {
        let signature = guardian.sign(Purpose::Config, &[&self.config.hash()]);
        // One signature per index, so that signing again does not count twice.
        self.signatures.insert((set, index), signature);
    }

    /// Returns the number of `guardians` that signed as members of `set`.
    pub fn count_signatures(&self, set: SignatureSet, guardians: &[VerifyKey]) -> usize {
        let hash = self.config.hash();
        let of_set = self.signatures.iter().filter(|((its, _), _)| *its == set);
        let valid = |index: u8, signature| {
            let guardian = guardians.get(usize::from(index));
            guardian.is_some_and(|key| sign::verify(key, Purpose::Config, &[&hash], signature))
        };
        // Indices and keys are distinct, so each guardian counts once.
        of_set.filter(|((_, index), signature)| valid(*index, *signature)).count()
    }

    /// Reads a config and its signatures.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or a value is outside its limits.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let config = Config::read_from(r)?;
        let count = r.read_u8()?;
        let mut signatures = BTreeMap::new();
        for _ in 0..count {
            let set = match r.read_u8()? {
                // Genesis has no predecessor whose guardians could sign it.
                0 if config.seq > 0 => SignatureSet::Predecessor,
                1 => SignatureSet::Own,
                _ => return Err(DecodeError::Value),
            };
            let place = (set, r.read_u8()?);
            let ascends = signatures.last_key_value().is_none_or(|(last, _)| *last < place);
            // The order is strictly ascending, so that one set of signatures has one form.
            if !ascends || usize::from(place.1) >= GUARDIANS_MAX {
                return Err(DecodeError::Value);
            }
            signatures.insert(place, r.read_array()?);
        }
        Ok(Self { config, signatures })
    }

    /// Decodes a signed config; bytes after it are refused.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// Encodes the config and then its signatures.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.put_bytes(&self.config.encode()).put_u8(self.signatures.len() as u8);
        for ((set, index), signature) in &self.signatures {
            w.put_u8(u8::from(*set == SignatureSet::Own)).put_u8(*index).put_bytes(signature);
        }
        w.finish()
    }
}
