//! The config of a network: servers, rounds and noise, signed by guardians.
//!
//! ```text
//! version u16 | network id 16 | seq u64 | prev 32 | valid_from u64 | valid_until u64
//! t u8 | k u8 | k x key 32                         server := key 32 | len u8 | "host:port"
//! coordinator | bucket store | n u8 | n x (server | len u8 | operator) | users_max u32
//! count u8 | count x service, 71 bytes in version 1, 75 in version 2
//! ```
//!
//! Operators edit another form; these are the bytes that are hashed and signed. A config without
//! traps has version 1, any other version 2, so each config has one form and one hash.

mod chain;
mod check;
mod service;
mod signed;
mod succession;

pub use chain::{Chain, ChainError};
pub use service::{Mode, ServicePolicy, Traps};
pub use signed::{SignatureSet, SignedConfig};

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer, labelled_hash, snapshot};

use crate::limits::{GUARDIANS_MAX, MIXES_MAX};
use crate::service::{INVITATION_BYTES, Service};
use crate::sign::VerifyKey;
use crate::wire::Manifest;

/// The version of a config without traps.
const VERSION_WITHOUT_TRAPS: u16 = 1;
/// The version of all other configs.
const VERSION: u16 = 2;

/// Length in bytes of an empty bucket, which contains only its count.
const OBJECT_BYTES_MIN: u64 = 4;

/// A server: its Ed25519 identity and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Identity key on links and in signatures.
    pub key: VerifyKey,
    /// `host:port`, 3 to 255 printable ASCII characters.
    pub address: String,
}

/// One mix of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixServer {
    /// The server.
    pub server: Server,
    /// Name of the operator, at most 32 bytes of UTF-8.
    pub operator: String,
}

/// Identifies a network permanently, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub [u8; 16]);

snapshot!(struct NetworkId(id));

/// A config, not yet checked against a predecessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The network of the config.
    pub network: NetworkId,
    /// Number of the config: 0 for genesis, then ascending by one.
    pub seq: u64,
    /// Hash of the predecessor, zeros for genesis.
    pub prev: [u8; 32],
    /// Begin of the time in which the config is in force.
    pub valid_from: Time,
    /// End of that time, even without a successor.
    pub valid_until: Time,
    /// Number of guardians that must sign the successor.
    pub threshold: u8,
    /// The guardians, ascending.
    pub guardians: Vec<VerifyKey>,
    /// The coordinator, which is the entry server: clock, announcements, collection of onions.
    pub coordinator: Server,
    /// The store to which the last mix writes buckets.
    pub bucket: Server,
    /// The chain, first mix first, 1 to 8.
    pub mixes: Vec<MixServer>,
    /// Most clients in a round.
    pub users_max: u32,
    /// The services offered, ascending.
    pub services: Vec<ServicePolicy>,
}

snapshot!(encoded Config);

impl Config {
    /// Reads a config and checks it by itself, without its predecessor.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or a value is outside its limits.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.read_u16()?;
        // An unknown version may have other fields, so none can be checked.
        if !(VERSION_WITHOUT_TRAPS..=VERSION).contains(&version) {
            return Err(DecodeError::Value);
        }
        let network = NetworkId(r.read_array()?);
        let seq = r.read_u64()?;
        let prev = r.read_array()?;
        let valid_from = Time::from_ms(r.read_u64()?);
        let valid_until = Time::from_ms(r.read_u64()?);
        let threshold = r.read_u8()?;
        let guardians = read_list(r, GUARDIANS_MAX, Reader::read_array)?;
        let coordinator = read_server(r)?;
        let bucket = read_server(r)?;
        let mixes = read_list(r, MIXES_MAX, |r| {
            Ok(MixServer { server: read_server(r)?, operator: read_text(r.read_var8()?)? })
        })?;
        let users_max = r.read_u32()?;
        let services = read_list(r, Service::ALL.len(), |r| ServicePolicy::read_from(r, version))?;
        let config = Self {
            network,
            seq,
            prev,
            valid_from,
            valid_until,
            threshold,
            guardians,
            coordinator,
            bucket,
            mixes,
            users_max,
            services,
        };
        // The content determines the version, because a second form would give one config two
        // hashes.
        let sound = version == config.version() && config.is_sound();
        if sound { Ok(config) } else { Err(DecodeError::Value) }
    }

    /// Decodes a config; bytes after it are refused.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// Returns the bytes that are hashed.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(1_024);
        let version = self.version();
        w.put_u16(version).put_bytes(&self.network.0).put_u64(self.seq).put_bytes(&self.prev);
        w.put_u64(self.valid_from.as_ms()).put_u64(self.valid_until.as_ms());
        w.put_u8(self.threshold).put_u8(self.guardians.len() as u8);
        for key in &self.guardians {
            w.put_bytes(key);
        }
        for server in [&self.coordinator, &self.bucket] {
            w.put_bytes(&server.key).put_var8(server.address.as_bytes());
        }
        w.put_u8(self.mixes.len() as u8);
        for MixServer { server, operator } in &self.mixes {
            w.put_bytes(&server.key)
                .put_var8(server.address.as_bytes())
                .put_var8(operator.as_bytes());
        }
        w.put_u32(self.users_max).put_u8(self.services.len() as u8);
        self.services.iter().for_each(|service| service.write_to(&mut w, version));
        w.finish()
    }

    /// Returns the version in which this config is encoded.
    fn version(&self) -> u16 {
        let traps = self.services.iter().any(|service| service.traps != Traps::NONE);
        if traps { VERSION } else { VERSION_WITHOUT_TRAPS }
    }

    /// Returns `H_32("mezza/mix config", bytes)`, which the guardians sign.
    pub fn hash(&self) -> [u8; 32] {
        labelled_hash("mezza/mix config", &[&self.encode()])
    }

    /// Returns the policy of a service and its index, by which settings refer to it, or `None`.
    pub fn find_policy(&self, service: Service) -> Option<(u16, &ServicePolicy)> {
        let at = self.services.iter().position(|policy| policy.service == service)?;
        Some((at as u16, &self.services[at]))
    }

    /// Returns true if the buckets in a manifest are possible. Their number must be that of the
    /// config, and their total length possible for `users` clients and all noise.
    pub fn allows_manifest(&self, manifest: &Manifest, users: u32) -> bool {
        let Some((_, policy)) = self.find_policy(manifest.id.service) else { return false };
        let lens = manifest.entries.iter().map(|entry| u64::from(entry.len));
        manifest.entries.len() == policy.buckets as usize
            // An empty object has its count, so nothing shorter is an object.
            && lens.clone().all(|len| len >= OBJECT_BYTES_MIN)
            && lens.sum::<u64>() <= self.objects_bytes_max(policy, users.min(self.users_max))
    }

    /// Returns the most bytes of all buckets of a round with `users` clients. A token takes at most
    /// 26 bits, because the quotients of a set add up to less than the number of its tokens.
    fn objects_bytes_max(&self, policy: &ServicePolicy, users: u32) -> u64 {
        // The bound of MIX-11 holds for each mix, and every mix adds noise here (MIX-18).
        let noise = policy.noise_max();
        let entries = u64::from(users) * u64::from(policy.slots) + self.mixes.len() as u64 * noise;
        let bytes = match policy.service {
            Service::Invitation => entries * INVITATION_BYTES as u64,
            _ => entries * 26 / 8,
        };
        bytes + u64::from(policy.buckets) * (OBJECT_BYTES_MIN + 1)
    }

    /// Returns the identity keys of the mixes, first mix first.
    pub fn mix_keys(&self) -> impl ExactSizeIterator<Item = &VerifyKey> {
        self.mixes.iter().map(|mix| &mix.server.key)
    }
}

/// Reads a count of one byte and at most `max` entries.
fn read_list<'a, T>(
    r: &mut Reader<'a>,
    max: usize,
    mut one: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = usize::from(r.read_u8()?);
    if count > max {
        return Err(DecodeError::Value);
    }
    (0..count).map(|_| one(r)).collect()
}

fn read_server(r: &mut Reader<'_>) -> Result<Server, DecodeError> {
    Ok(Server { key: r.read_array()?, address: read_text(r.read_var8()?)? })
}

fn read_text(bytes: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(bytes).map(String::from).map_err(|_| DecodeError::Value)
}

#[cfg(test)]
pub(crate) mod tests;
