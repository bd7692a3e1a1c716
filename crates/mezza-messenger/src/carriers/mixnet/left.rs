//! Networks that were left. For each one the spent privacy budget and the sealed rounds are kept
//! until the network is joined again (MSG-97).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer, snapshot};

use crate::backup::BackupNetwork;
use crate::error::{DeviceError, PersonError};
use crate::io::{Effects, NetworkAddress, RecordKind, RowsByKey, Unloaded, read_text};
use crate::view::Part;

/// Version of the stored form.
const VERSION: u8 = 1;
/// Most networks that are remembered. At this limit no further network can be joined.
pub(super) const LEFT_MAX: usize = 32;

/// A network that was left.
pub(crate) struct LeftNetwork {
    /// Address of the network's entry server, as a name for the user.
    pub address: String,
    /// The state that the client must keep, as the client encodes it.
    pub remembered: Wiping<Vec<u8>>,
}

snapshot!(struct LeftNetwork { address, remembered });

impl LeftNetwork {
    /// Encodes the stored form: `version u8 | len u8 | address | state of the client`.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(2 + self.address.len() + self.remembered.len());
        w.put_u8(VERSION).put_var8(self.address.as_bytes()).put_bytes(&self.remembered);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes);
        if r.read_u8()? != VERSION {
            return Err(DecodeError::Value);
        }
        let address = read_text(r.read_var8()?)?;
        Ok(Self { address, remembered: Wiping::new(r.read_rest().to_vec()) })
    }
}

/// All networks that were left, by the hash of their first config.
#[derive(Default)]
pub(super) struct LeftNetworks {
    /// Value `None`: the stored row of this network does not load.
    all: BTreeMap<[u8; 32], Option<LeftNetwork>>,
    /// True if a row exists whose network cannot be read.
    lost: bool,
}

snapshot!(struct LeftNetworks { all, lost });

impl LeftNetworks {
    /// Loads the rows that `loads` accepts. Returns the other rows.
    pub fn load_rows(
        &mut self,
        rows: RowsByKey,
        lost: bool,
        loads: impl Fn(&[u8; 32], &LeftNetwork) -> bool,
    ) -> Vec<Unloaded> {
        self.lost = lost;
        let mut unloaded = Vec::new();
        for (key, row) in rows {
            let pin = <[u8; 32]>::try_from(key.as_slice()).ok();
            let left = LeftNetwork::read(&row).ok();
            let name = left.as_ref().map(|left| left.address.clone());
            let left = left.filter(|left| pin.as_ref().is_some_and(|pin| loads(pin, left)));
            // A row that does not load prevents joining its network, since its ledger is unknown
            // (MSG-97).
            if left.is_none() {
                let part = Part::LeftNetworks;
                let kind = RecordKind::LeftNetwork;
                unloaded.push(Unloaded { name, ..Unloaded::new(part, kind, key, &row) });
            }
            // A row whose key is lost may be of any network, so no new one may be joined (MSG-97).
            self.lost |= pin.is_none();
            self.all.extend(pin.map(|pin| (pin, left)));
        }
        unloaded
    }

    /// Returns the state of a network that was left before, or `None` if it was never joined.
    ///
    /// # Errors
    /// The stored state of the network does not load, or may be in a row that does not open; or
    /// [`LEFT_MAX`] networks are remembered.
    pub fn find_left(&self, pin: &[u8; 32]) -> Result<Option<&LeftNetwork>, DeviceError> {
        match self.all.get(pin) {
            Some(Some(left)) => Ok(Some(left)),
            // Joining without the ledger would give a second privacy budget (MSG-97).
            Some(None) => Err(DeviceError::Person(PersonError::SetAside)),
            None if self.lost => Err(DeviceError::Person(PersonError::SetAside)),
            // Dropping one of 32 ledgers for another would reset its budget (MSG-97).
            None if self.all.len() >= LEFT_MAX => {
                Err(DeviceError::Person(PersonError::TooManyNetworks))
            }
            None => Ok(None),
        }
    }

    /// Stores the state of a network that is being left.
    pub fn remember_network(
        &mut self,
        link: NetworkAddress,
        remembered: Wiping<Vec<u8>>,
        effects: &mut Effects,
    ) {
        let left = LeftNetwork { address: link.address, remembered };
        let kind = RecordKind::LeftNetwork;
        let key = link.pin.to_vec();
        effects.put(kind, key, left.write());
        self.all.insert(link.pin, Some(left));
    }

    /// Removes the row of a network that is joined again; its client now stores the same state.
    pub fn taken_up(&mut self, pin: &[u8; 32], effects: &mut Effects) {
        if self.all.remove(pin).is_some() {
            effects.drop_row(RecordKind::LeftNetwork, pin.to_vec());
        }
    }

    /// Returns the charges of the networks that were left, for a backup. Rows that did not load are
    /// left out.
    pub fn charges(&self) -> impl Iterator<Item = BackupNetwork> {
        self.all().map(|(pin, left)| BackupNetwork {
            pin: *pin,
            address: left.address.clone(),
            remembered: Wiping::new(left.remembered.to_vec()),
            joined: false,
        })
    }

    /// Returns the networks whose rows load, with the hash of their first config.
    pub fn all(&self) -> impl Iterator<Item = (&[u8; 32], &LeftNetwork)> {
        self.all.iter().filter_map(|(pin, left)| Some((pin, left.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;

    fn link(n: u8) -> NetworkAddress {
        NetworkAddress { pin: [n; 32], address: format!("m{n}:7000") }
    }

    #[test]
    fn msg_97_no_network_is_forgotten_for_another_one() {
        let mut left = LeftNetworks::default();
        let mut effects = Effects::default();
        for n in 0..LEFT_MAX as u8 {
            assert!(left.find_left(&[n; 32]).is_ok_and(|left| left.is_none()));
            left.remember_network(link(n), Wiping::new(vec![n; 9]), &mut effects);
        }
        assert!(matches!(
            left.find_left(&[99; 32]),
            Err(DeviceError::Person(PersonError::TooManyNetworks))
        ));
        let first = left.find_left(&[0; 32]).expect("it was left").expect("it is remembered");
        assert_eq!((first.address.as_str(), &first.remembered[..]), ("m0:7000", &[0; 9][..]));
        left.taken_up(&[0; 32], &mut effects);
        assert!(left.find_left(&[99; 32]).is_ok_and(|left| left.is_none()), "one has made room");
        assert_eq!(left.all().count(), LEFT_MAX - 1);
    }

    #[test]
    fn what_is_written_of_a_left_network_is_read() {
        let left = LeftNetwork { address: "m0:7000".into(), remembered: Wiping::new(vec![7; 300]) };
        let bytes = left.write();
        let again = LeftNetwork::read(&bytes).expect("it was written");
        assert_eq!((&again.address, &again.remembered[..]), (&left.address, &left.remembered[..]));
        assert!(LeftNetwork::read(&bytes[..4]).is_err() && LeftNetwork::read(&[2, 0]).is_err());
    }
}
