//! The stored form of a session, version 1.
//!
//! ```text
//! 01 | suite u16 | flags u8 | id[16] | IK local[32] | IK remote[32] | rk[32] | their[32]
//!  | own scalar[32] | own public[32] | send ck[32] | send n u32 | pn u32 | recv ck[32] | recv n u32
//!  | created u64 | last opened u64 | len u16 | prefix
//! ```
//! Absent fields are zero. A pending initiator stores the prefix of his first messages, and a
//! responder stores the prefix that began the session for as long as the session exists.

use alloc::vec::Vec;
use core::marker::PhantomData;

use mezza_core::{
    Backend, DecodeError, PublicKey, Reader, Secret, StaticKey, Suite, SuiteId, Time, Writer,
};

use super::chain::{ReceiveChain, SendChain};
use super::{Parties, Ratchet, Session, Skipped};
use crate::IdentityKey;
use crate::suite::{RatchetSuite, of_suite};
use crate::wire::Wire;

/// Bytes of a session id.
pub(crate) const SESSION_ID_BYTES: usize = 16;
/// Bytes of a stored session without its prefix.
const RECORD_BYTES: usize = 306;
const VERSION: u8 = 1;

const INITIATOR: u8 = 0x01;
const PENDING: u8 = 0x02;
const OWN: u8 = 0x04;
const SEND: u8 = 0x08;
const RECV: u8 = 0x10;
const ACTIVE: u8 = 0x40;
const KNOWN: u8 = INITIATOR | PENDING | OWN | SEND | RECV | ACTIVE;

const NOTHING: [u8; 32] = [0; 32];

impl<B: Backend> Session<B> {
    /// Decodes a stored session. Also returns true if the session is the active one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, bool), DecodeError> {
        Reader::decode_exact(bytes, |reader| {
            if reader.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let suite = SuiteId(reader.read_u16()?);
            of_suite!(suite, S => {
                Ratchet::<S, B>::read_from(reader).map(|(ratchet, active)| (ratchet.into(), active))
            }, else Err(DecodeError::Value))
        })
    }
}

impl<S: RatchetSuite, B: Backend> Ratchet<S, B> {
    pub(super) fn encode(&self, active: bool) -> Vec<u8> {
        let mut writer = Writer::with_capacity(RECORD_BYTES + self.prefix.len());
        writer
            .put_u8(VERSION)
            .put_u16(S::ID.0)
            .put_u8(self.encode_flags(active))
            .put_bytes(&self.parties.id);
        writer.put_bytes(self.parties.local.as_bytes()).put_bytes(self.parties.remote.as_bytes());
        writer.put_bytes(self.root.expose()).put_bytes(&self.remote_ratchet_key.0);
        let own = self.own_ratchet_key.as_ref();
        writer.put_bytes(own.map_or(&NOTHING, |own| own.scalar().expose()));
        writer.put_bytes(own.map_or(&NOTHING, |own| own.public_key().as_bytes()));
        let send = self.send.as_ref();
        writer.put_bytes(send.map_or(&NOTHING, |send| send.secret().expose()));
        writer.put_u32(send.map_or(0, SendChain::sealed_count)).put_u32(self.pn);
        let recv = self.recv.as_ref();
        writer.put_bytes(recv.map_or(&NOTHING, |recv| recv.secret().expose()));
        writer.put_u32(recv.map_or(0, ReceiveChain::next_index));
        writer.put_u64(self.created.as_ms()).put_u64(self.opened.as_ms()).put_var16(&self.prefix);
        writer.finish()
    }

    fn encode_flags(&self, active: bool) -> u8 {
        let set = [
            (self.initiator, INITIATOR),
            (self.pending, PENDING),
            (self.own_ratchet_key.is_some(), OWN),
            (self.send.is_some(), SEND),
            (self.recv.is_some(), RECV),
            (active, ACTIVE),
        ];
        set.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
    }

    /// Reads the fields after the suite.
    fn read_from(reader: &mut Reader<'_>) -> Result<(Self, bool), DecodeError> {
        let flags = reader.read_u8()?;
        if flags & !KNOWN != 0 {
            return Err(DecodeError::Value);
        }
        let has = |flag| flags & flag != 0;
        let id = reader.read_array()?;
        let parties = Parties { id, local: read_identity(reader)?, remote: read_identity(reader)? };
        let root = Secret::read_from(reader)?;
        let their = PublicKey::read_from(reader)?;
        let own_scalar = read_optional_key(reader, has(OWN))?;
        let own_public = PublicKey::read_from(reader)?;
        let send_key = read_optional_key(reader, has(SEND))?;
        let send_n = reader.read_u32()?;
        let pn = reader.read_u32()?;
        let recv_key = read_optional_key(reader, has(RECV))?;
        let recv_n = reader.read_u32()?;
        let ratchet = Self {
            parties,
            initiator: has(INITIATOR),
            pending: has(PENDING),
            created: Time::from_ms(reader.read_u64()?),
            opened: Time::from_ms(reader.read_u64()?),
            root,
            remote_ratchet_key: their,
            own_ratchet_key: own_scalar.map(|scalar| StaticKey::from_stored(scalar, own_public)),
            send: send_key.map(|key| SendChain::from_stored(key, send_n)),
            pn,
            recv: recv_key.map(|key| ReceiveChain::from_stored(key, recv_n)),
            prefix: reader.read_var16()?.to_vec(),
            skipped: Skipped::default(),
            suite: PhantomData,
        };
        let zero = (has(OWN) || own_public.0 == NOTHING)
            && (has(SEND) || send_n == 0)
            && (has(RECV) || recv_n == 0);
        if zero && ratchet.is_sound() {
            Ok((ratchet, has(ACTIVE)))
        } else {
            Err(DecodeError::Value)
        }
    }

    /// Returns true if a session can reach this state.
    fn is_sound(&self) -> bool {
        let max = S::Wire::CHAIN_MAX;
        let counters = self.send.as_ref().is_none_or(|send| send.sealed_count() <= max)
            && self.recv.as_ref().is_none_or(|recv| recv.next_index() <= max.saturating_add(1))
            && self.pn <= max;
        let prefix = self.prefix.is_empty() || self.first_header().is_ok();
        let wants_prefix = self.pending || !self.initiator;
        counters
            && prefix
            && wants_prefix != self.prefix.is_empty()
            && (self.initiator || !self.pending)
            && (self.own_ratchet_key.is_some() || self.send.is_none())
    }
}

fn read_identity(reader: &mut Reader<'_>) -> Result<IdentityKey, DecodeError> {
    IdentityKey::decode(reader.read_array_ref()?).map_err(|_| DecodeError::Value)
}

/// Reads a key of 32 bytes; if `there` is false, the bytes must be zero.
fn read_optional_key(
    reader: &mut Reader<'_>,
    there: bool,
) -> Result<Option<Secret<32>>, DecodeError> {
    let bytes: &[u8; 32] = reader.read_array_ref()?;
    if !there && *bytes != NOTHING {
        return Err(DecodeError::Value);
    }
    Ok(there.then(|| Secret::copy_from(bytes)))
}
