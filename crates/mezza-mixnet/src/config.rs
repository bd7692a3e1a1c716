//! The config of a network: its servers, its rounds, its noise, signed by guardians.
//!
//! ```text
//! version u16 | network id 16 | seq u64 | prev 32 | valid_from u64 | valid_until u64
//! t u8 | k u8 | k x key 32                         server := key 32 | len u8 | "host:port"
//! coordinator | bucket store | n u8 | n x (server | len u8 | operator) | users_max u32
//! count u8 | count x service, 71 bytes in version 1, 75 in version 2
//! ```
//!
//! People write another form; these are the bytes that are hashed and signed. A config without traps
//! has version 1, any other version 2: one config has one form, and one hash.

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

/// The version of a config in which no service has traps.
const VERSION_WITHOUT_TRAPS: u16 = 1;
/// The version of any other config.
const VERSION: u16 = 2;

/// Bytes of an empty bucket: its count.
const OBJECT_BYTES_MIN: u64 = 4;

/// A server: its Ed25519 identity and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Identity on links and in signatures.
    pub key: VerifyKey,
    /// `host:port`, 3 to 255 printable ASCII characters.
    pub address: String,
}

/// One mix of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixServer {
    /// The server.
    pub server: Server,
    /// The operator, at most 32 bytes of UTF-8.
    pub operator: String,
}

/// Names a network for ever, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub [u8; 16]);

snapshot!(struct NetworkId(id));

/// A config, not yet checked against a predecessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its network.
    pub network: NetworkId,
    /// 0 for genesis, then one more each.
    pub seq: u64,
    /// The predecessor's hash, zeros for genesis.
    pub prev: [u8; 32],
    /// From when on it is in force.
    pub valid_from: Time,
    /// When it ends, a successor or none.
    pub valid_until: Time,
    /// How many guardians must sign the successor.
    pub threshold: u8,
    /// The guardians, ascending.
    pub guardians: Vec<VerifyKey>,
    /// Clock, announcer and concentrator.
    pub coordinator: Server,
    /// Where the last mix puts buckets.
    pub bucket: Server,
    /// The chain, first mix first, 1 to 8.
    pub mixes: Vec<MixServer>,
    /// Most clients.
    pub users_max: u32,
    /// The services offered, ascending.
    pub services: Vec<ServicePolicy>,
}

snapshot!(encoded Config);

impl Config {
    /// Reads a config and checks what it says by itself.
    ///
    /// # Errors
    /// Whatever the bytes lack, or a value outside its limits.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.read_u16()?;
        // An unknown version may have other fields, so nothing of it can be checked.
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
        // The version follows from the content: a second form would give one config two hashes.
        let sound = version == config.version() && config.is_sound();
        if sound { Ok(config) } else { Err(DecodeError::Value) }
    }

    /// Decodes a config and nothing behind it.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// The bytes that are hashed.
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

    /// The version that this config is written in.
    fn version(&self) -> u16 {
        let traps = self.services.iter().any(|service| service.traps != Traps::NONE);
        if traps { VERSION } else { VERSION_WITHOUT_TRAPS }
    }

    /// `H_32("mezza/mix config", bytes)`: what the guardians sign.
    pub fn hash(&self) -> [u8; 32] {
        labelled_hash("mezza/mix config", &[&self.encode()])
    }

    /// The entry of a service and its index, which settings name.
    pub fn find_policy(&self, service: Service) -> Option<(u16, &ServicePolicy)> {
        let at = self.services.iter().position(|policy| policy.service == service)?;
        Some((at as u16, &self.services[at]))
    }

    /// Returns true if buckets of a round may be as a manifest says: as many as the config has, together no
    /// longer than `users` clients and all noise can make them.
    pub fn allows_manifest(&self, manifest: &Manifest, users: u32) -> bool {
        let Some((_, policy)) = self.find_policy(manifest.id.service) else { return false };
        let lens = manifest.entries.iter().map(|entry| u64::from(entry.len));
        manifest.entries.len() == policy.buckets as usize
            // An empty object has its count, so a shorter one is no object.
            && lens.clone().all(|len| len >= OBJECT_BYTES_MIN)
            && lens.sum::<u64>() <= self.objects_bytes_max(policy, users.min(self.users_max))
    }

    /// Most bytes of all buckets of a round of `users`. A token takes at most 26 bits: the quotients of
    /// a set sum up to fewer than its tokens.
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

    /// The identities of the mixes, first mix first.
    pub fn mix_keys(&self) -> impl ExactSizeIterator<Item = &VerifyKey> {
        self.mixes.iter().map(|mix| &mix.server.key)
    }
}

/// At most `max` entries behind their number of one byte.
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
