//! Clients and destinations of a guard: `peers.toml`, which the commands write.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;
use mezza_guard::guard::{Destination, GuardClientSettings};
use mezza_guard::keys::GuardClientId;
use mezza_guard::rule::Pins;
use mezza_guard::wire::control::GuardMode;
use serde::{Deserialize, Serialize};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

use super::folder::GuardFolder;
use super::settings::{read_text, wrong};

/// Bytes of the file, at most.
const BYTES_MAX: usize = 1024 * 1024;
/// The highest number of a destination; higher ones are lanes of inbound connections.
const NUMBER_MAX: u16 = 0xffef;
/// Most clients, and most destinations.
const ENTRIES_MAX: usize = 1_000;

/// The mode of a client's inbound connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ModeName {
    /// The guard checks that the client used its coins.
    #[default]
    Coins,
    /// The guard changes every element (GKX).
    Blind,
}

impl From<ModeName> for GuardMode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Coins => Self::Coins,
            ModeName::Blind => Self::Blind,
        }
    }
}

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientEntry {
    /// The address at which the client accepts connections of the guard.
    pub addr: Option<SocketAddr>,
    /// The address at which peers reach the client through the guard.
    pub inbound: Option<SocketAddr>,
    /// The mode of these connections.
    #[serde(default)]
    pub mode: ModeName,
}

/// One destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestEntry {
    /// Its number, which is never used again.
    pub number: u16,
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// True if the owner has blocked it.
    #[serde(default)]
    pub blocked: bool,
    /// The first counter, if pinned.
    pub counter: Option<u32>,
    /// The names of the link, if pinned.
    pub pins: Option<PinEntry>,
}

/// Pinned names of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinEntry {
    /// The client's name on links, 12 hex digits.
    pub own: String,
    /// The name of the other end, 12 hex digits.
    pub peer: String,
    /// The number of the link.
    pub link: u16,
}

/// Clients and destinations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerList {
    /// The highest number that a destination ever had.
    #[serde(default)]
    pub last_number: u16,
    /// Clients by id, 32 hex digits.
    #[serde(default)]
    pub client: BTreeMap<String, ClientEntry>,
    /// Destinations by name.
    #[serde(default)]
    pub dest: BTreeMap<String, DestEntry>,
}

/// The lists as the machine takes them.
#[derive(Debug)]
pub(crate) struct MachineLists {
    pub(crate) clients: BTreeMap<GuardClientId, GuardClientSettings>,
    pub(crate) destinations: BTreeMap<u16, Destination>,
}

impl PeerList {
    /// Reads the file; a missing file is an empty list.
    ///
    /// # Errors
    /// Exit code 78 for a malformed file.
    pub(crate) fn load(path: &Path) -> Result<Self, Fault> {
        if !path.exists() {
            return Ok(Self::default());
        }
        private::check_not_planted(path)?;
        let text = read_text(path, BYTES_MAX)?;
        let list: Self = toml::from_str(&text).map_err(|error| wrong(path, error.message()))?;
        list.check().map_err(|why| wrong(path, &why))?;
        Ok(list)
    }

    /// Checks what the types do not express.
    fn check(&self) -> Result<(), String> {
        if self.client.len() > ENTRIES_MAX || self.dest.len() > ENTRIES_MAX {
            return Err("it has more than 1000 clients or destinations".into());
        }
        let mut numbers = std::collections::BTreeSet::new();
        for (name, dest) in &self.dest {
            // Two destinations with one number would share slots and counters.
            if !(1..=NUMBER_MAX).contains(&dest.number) || !numbers.insert(dest.number) {
                return Err(format!("the number of {name} is used twice or out of range"));
            }
            dest.parse_pins().map_err(|why| format!("{name}: {why}"))?;
        }
        let known = |id: &String| parse_id(id).is_some();
        let wrong = self.client.keys().find(|id| !known(id));
        wrong.map_or(Ok(()), |id| Err(format!("{id} is no id of a client")))
    }

    /// Encodes the file.
    ///
    /// # Errors
    /// Only for a bug.
    pub(crate) fn to_text(&self) -> Result<String, Fault> {
        let text = toml::to_string(self).map_err(|error| Fault::bug(error.to_string()))?;
        Ok(format!("# Written by `mezza guard pair` and `mezza guard dest`.\n{text}"))
    }

    /// Adds a client, or changes its addresses.
    ///
    /// # Errors
    /// Exit code 75 for too many clients.
    pub fn put_client(&mut self, client: GuardClientId, entry: ClientEntry) -> Result<(), Fault> {
        self.client.insert(format_id(client), entry);
        self.require_room()
    }

    /// Adds a destination, and gives it a number that was never used.
    ///
    /// # Errors
    /// Exit code 2 for a name that is used or invalid, 75 for too many destinations.
    pub fn add_dest(&mut self, name: &str, mut entry: DestEntry) -> Result<u16, Fault> {
        if !mezza_seka::record::is_name(name) {
            let text = format!("{name} is no name of a destination");
            let next = "use 1 to 15 letters, digits, `-`, `_`, `.`, and begin with a letter";
            return Err(Fault::new(Exit::Usage, text, next));
        }
        if self.dest.contains_key(name) {
            let text = format!("there is a destination {name} already");
            return Err(Fault::new(Exit::Usage, text, "choose another name"));
        }
        let highest = self.dest.values().map(|dest| dest.number).max().unwrap_or(0);
        // A number that is used again would continue the slots of another destination (GUARD-32).
        let number = highest.max(self.last_number).saturating_add(1);
        if number > NUMBER_MAX {
            let text = "all numbers of destinations are used";
            return Err(Fault::new(Exit::Busy, text, "make another guard with `--dir DIR`"));
        }
        entry.number = number;
        entry.parse_pins().map_err(|why| {
            Fault::new(Exit::Usage, why, "write two names of 12 hex digits, like those of a link")
        })?;
        self.dest.insert(name.to_owned(), entry);
        self.last_number = number;
        self.require_room()?;
        Ok(number)
    }

    fn require_room(&self) -> Result<(), Fault> {
        if self.client.len() <= ENTRIES_MAX && self.dest.len() <= ENTRIES_MAX {
            return Ok(());
        }
        let text = "a guard has at most 1000 clients and 1000 destinations";
        Err(Fault::new(Exit::Busy, text, "remove some from peers.toml"))
    }

    /// Finds a destination by its number or name.
    ///
    /// # Errors
    /// Exit code 66 if there is none.
    pub fn find_dest(&mut self, which: &str) -> Result<&mut DestEntry, Fault> {
        let number = which.parse::<u16>().ok();
        let found = self
            .dest
            .iter_mut()
            .find(|(name, dest)| name.as_str() == which || Some(dest.number) == number);
        found.map(|(_, dest)| dest).ok_or_else(|| {
            let text = format!("destination {which} is not on the list");
            Fault::new(Exit::NotFound, text, "add it with `mezza guard dest add`")
        })
    }

    /// Finds a client by the first digits of its id.
    ///
    /// # Errors
    /// Exit code 66 if no client or more than one matches.
    pub fn find_client(&self, digits: &str) -> Result<GuardClientId, Fault> {
        let digits = digits.to_lowercase();
        let mut found = self.client.keys().filter(|id| id.starts_with(&digits));
        match (found.next().and_then(|id| parse_id(id)), found.next()) {
            (Some(client), None) if !digits.is_empty() => Ok(client),
            _ => {
                let text = format!("{digits} does not name one client");
                let next = "write the first digits of an id that `mezza guard status` shows";
                Err(Fault::new(Exit::NotFound, text, next))
            }
        }
    }

    /// Returns the ids of all clients.
    pub fn client_ids(&self) -> impl Iterator<Item = GuardClientId> {
        self.client.keys().filter_map(|id| parse_id(id))
    }

    /// Returns the lists for the machine, with the pairing keys.
    ///
    /// # Errors
    /// The fault of a key that does not load: the guard does not run without it.
    pub(crate) fn for_machine(&self, folder: &GuardFolder) -> Result<MachineLists, Fault> {
        let mut clients = BTreeMap::new();
        for (id, entry) in &self.client {
            let Some(client) = parse_id(id) else { continue };
            let key = folder.read_pairing(client)?;
            clients.insert(client, GuardClientSettings { key, inbound: entry.mode.into() });
        }
        let destinations = self.dest.values().map(|dest| (dest.number, dest.for_machine()));
        Ok(MachineLists { clients, destinations: destinations.collect() })
    }
}

impl DestEntry {
    fn parse_pins(&self) -> Result<Option<Pins>, String> {
        let Some(pins) = &self.pins else { return Ok(None) };
        let name = |text: &str| {
            let bytes = HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).ok();
            let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
            bytes.ok_or_else(|| format!("{text} is no name on links"))
        };
        Ok(Some(Pins { own: name(&pins.own)?, peer: name(&pins.peer)?, link: pins.link }))
    }

    /// Returns the settings for the machine.
    pub(crate) fn for_machine(&self) -> Destination {
        // Pins were checked when the list was read.
        let pins = self.parse_pins().ok().flatten();
        Destination { pins, counter: self.counter, is_blocked: self.blocked }
    }
}

/// Returns the id of a client as 32 hex digits.
pub fn format_id(client: GuardClientId) -> String {
    data_encoding::HEXLOWER.encode(&client.0)
}

fn parse_id(text: &str) -> Option<GuardClientId> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok().map(GuardClientId)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dest() -> DestEntry {
        DestEntry {
            number: 0,
            host: "bob.example".into(),
            port: 7_800,
            blocked: false,
            counter: None,
            pins: None,
        }
    }

    #[test]
    fn guard_32_a_number_is_never_used_again() {
        let mut list = PeerList::default();
        assert_eq!(list.add_dest("bob", dest()), Ok(1));
        assert_eq!(list.add_dest("carol", dest()), Ok(2));
        assert_eq!(list.add_dest("bob", dest()).map_err(|fault| fault.code), Err(Exit::Usage));
        list.dest.remove("carol");
        assert_eq!(list.add_dest("dave", dest()), Ok(3));
        let text = list.to_text().expect("a text");
        let again: PeerList = toml::from_str(&text).expect("the same");
        assert_eq!(again, list);
        assert!(again.check().is_ok());
        list.find_dest("dave").expect("there").number = 1;
        assert!(list.check().is_err(), "two of one number");
    }

    #[test]
    fn pins_and_ids_are_checked() {
        let mut list = PeerList::default();
        let pin = |own: &str| {
            let pins = PinEntry { own: own.into(), peer: "02:00:00:00:00:02".into(), link: 7 };
            DestEntry { pins: Some(pins), ..dest() }
        };
        assert_eq!(list.add_dest("bob", pin("0200")).map_err(|f| f.code), Err(Exit::Usage));
        assert_eq!(list.add_dest("bob", pin("020000000001")), Ok(1));
        let pins = list.dest["bob"].for_machine().pins.expect("pins");
        assert_eq!((pins.own, pins.link), ([2, 0, 0, 0, 0, 1], 7));
        let one = GuardClientId([0x7f; 16]);
        list.put_client(one, ClientEntry::default()).expect("room");
        assert_eq!(list.find_client("7F7f"), Ok(one));
        assert!(list.find_client("").is_err() && list.find_client("8").is_err());
        list.client.insert("zz".into(), ClientEntry::default());
        assert!(list.check().is_err());
    }
}
