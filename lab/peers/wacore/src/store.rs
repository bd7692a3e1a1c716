//! The state of one device with one contact, in memory.

use async_trait::async_trait;
use wacore_libsignal::protocol::{
    Direction, IdentityChange, IdentityKey, IdentityKeyPair, IdentityKeyStore, PreKeyId,
    PreKeyRecord, PreKeyStore, ProtocolAddress, SessionRecord, SessionStore, SignalProtocolError,
    SignedPreKeyId, SignedPreKeyRecord, SignedPreKeyStore,
};

type Result<T> = std::result::Result<T, SignalProtocolError>;

/// All of it, in parts that the library borrows one by one.
pub struct Store {
    pub identity: IdentityKeyPair,
    pub sessions: Sessions,
    pub identities: Identities,
    pub pre_keys: PreKeys,
    pub signed_pre_keys: SignedPreKeys,
}

/// The session with the contact.
#[derive(Default)]
pub struct Sessions(Option<SessionRecord>);

/// Our identity and what we know of theirs.
pub struct Identities {
    own: IdentityKeyPair,
    their: Option<IdentityKey>,
}

/// The one-time key.
#[derive(Default)]
pub struct PreKeys(pub Option<PreKeyRecord>);

/// The signed prekey.
#[derive(Default)]
pub struct SignedPreKeys(pub Option<SignedPreKeyRecord>);

impl Store {
    pub fn new() -> Self {
        let identity = IdentityKeyPair::generate(&mut rand::rng());
        Self {
            sessions: Sessions::default(),
            identities: Identities { own: identity.clone(), their: None },
            pre_keys: PreKeys::default(),
            signed_pre_keys: SignedPreKeys::default(),
            identity,
        }
    }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn load_session(&self, _: &ProtocolAddress) -> Result<Option<SessionRecord>> {
        Ok(self.0.clone())
    }

    async fn has_session(&self, _: &ProtocolAddress) -> Result<bool> {
        Ok(self.0.is_some())
    }

    async fn store_session(&mut self, _: &ProtocolAddress, record: SessionRecord) -> Result<()> {
        self.0 = Some(record);
        Ok(())
    }
}

#[async_trait]
impl IdentityKeyStore for Identities {
    async fn get_identity_key_pair(&self) -> Result<IdentityKeyPair> {
        Ok(self.own.clone())
    }

    async fn get_local_registration_id(&self) -> Result<u32> {
        Ok(4660)
    }

    async fn save_identity(
        &mut self,
        _: &ProtocolAddress,
        key: &IdentityKey,
    ) -> Result<IdentityChange> {
        self.their = Some(*key);
        Ok(IdentityChange::NewOrUnchanged)
    }

    async fn is_trusted_identity(
        &self,
        _: &ProtocolAddress,
        key: &IdentityKey,
        _: Direction,
    ) -> Result<bool> {
        Ok(self.their.is_none_or(|known| known == *key))
    }

    async fn get_identity(&self, _: &ProtocolAddress) -> Result<Option<IdentityKey>> {
        Ok(self.their)
    }
}

#[async_trait]
impl PreKeyStore for PreKeys {
    async fn get_pre_key(&self, _: PreKeyId) -> Result<PreKeyRecord> {
        self.0.clone().ok_or(SignalProtocolError::InvalidPreKeyId)
    }

    async fn save_pre_key(&mut self, _: PreKeyId, record: &PreKeyRecord) -> Result<()> {
        self.0 = Some(record.clone());
        Ok(())
    }

    async fn remove_pre_key(&mut self, _: PreKeyId) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}

#[async_trait]
impl SignedPreKeyStore for SignedPreKeys {
    async fn get_signed_pre_key(&self, _: SignedPreKeyId) -> Result<SignedPreKeyRecord> {
        self.0.clone().ok_or(SignalProtocolError::InvalidSignedPreKeyId)
    }

    async fn save_signed_pre_key(
        &mut self,
        _: SignedPreKeyId,
        record: &SignedPreKeyRecord,
    ) -> Result<()> {
        self.0 = Some(record.clone());
        Ok(())
    }
}
