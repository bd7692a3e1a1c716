//! The settings of links: `link.toml`, and the note beside each pairing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mezza_seka::PeerSettings;
use mezza_seka::limits::SUBKEYS_MAX;
use mezza_seka::record::is_name;
use mezza_seka::wire::UDP_PORT;
use serde::{Deserialize, Serialize};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// Bytes of a settings file, at most.
const BYTES_MAX: usize = 1024 * 1024;
/// The value of `state` for pairings in memory only.
const RAM: &str = "ram";
/// The longest renewal age of a session, ms: a session ends at 300 s, and an exchange takes time.
const REKEY_MS_MAX: u64 = 240_000;
/// Names of interfaces that the kernel reserves.
const RESERVED_NAMES: [&str; 5] = ["lo", "all", "default", ".", ".."];
/// The smallest MTU of IPv6 (RFC 8200, section 5).
const MTU_MIN: u16 = 1_280;

/// The carrier of a link.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum CarrierKind {
    /// UDP.
    #[default]
    Udp,
    /// Bare Ethernet frames.
    Ether,
}

/// `link.toml`. Every key may be absent; unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// The state folder, or `ram`.
    pub state: Option<String>,
    /// The control socket.
    pub socket: Option<PathBuf>,
    /// Suites that are offered and accepted.
    pub suites: Option<Vec<String>>,
    /// Links by name.
    #[serde(default)]
    pub link: BTreeMap<String, LinkEntry>,
}

/// One link of `link.toml`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    on: Option<String>,
    carrier: Option<CarrierKind>,
    endpoint: Option<Endpoints>,
    listen: Option<u16>,
    keepalive: Option<String>,
    offload: Option<String>,
    mtu: Option<Mtu>,
    bridge: Option<String>,
    address: Option<Vec<String>>,
    rekey_after: Option<String>,
    heal_every: Option<String>,
    subkeys: Option<u32>,
}

/// `"auto"` or a number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Mtu {
    Bytes(u16),
    Word(String),
}

/// One address of the peer, or several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Endpoints {
    One(String),
    Several(Vec<String>),
}

/// The note that `pair` leaves beside a record: the interface and carrier of the pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PairNote {
    /// The name of the link.
    pub name: String,
    /// The interface.
    pub on: String,
    /// The carrier of the pairing.
    pub carrier: CarrierKind,
    /// The port of UDP.
    pub listen: u16,
}

/// The settings of one link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkPlan {
    /// The name of the link and of its interface.
    pub name: String,
    /// The interface that carries the link.
    pub on: String,
    /// The carrier of the link.
    pub carrier: CarrierKind,
    /// The port of UDP.
    pub listen: u16,
    /// Addresses of the peer, if the settings name some; the first one is used first.
    pub endpoints: Vec<SocketAddr>,
    /// True if many frames are sent to and read from the kernel in one call.
    pub offload: bool,
    /// Bytes of a frame without Ethernet header; `None`: as many as the path takes.
    pub mtu: Option<u16>,
    /// The bridge that the link's interface joins.
    pub bridge: Option<String>,
    /// Addresses of the link's interface, with prefix lengths.
    pub addresses: Vec<(std::net::IpAddr, u8)>,
    /// Settings of the link's machine.
    pub peer: PeerSettings,
}

impl LinkSettings {
    /// Reads the file; a missing file means default settings.
    ///
    /// # Errors
    /// Exit code 78 for an unknown key or an invalid value, with its line; 77 if other users may
    /// write the file.
    pub fn load(path: &Path, must_exist: bool) -> Result<Self, Fault> {
        if !path.exists() && !must_exist {
            return Ok(Self::default());
        }
        private::check_not_planted(path)?;
        let bytes = std::fs::read(path).map_err(|error| private::cannot_read(path, &error))?;
        if bytes.len() > BYTES_MAX {
            return Err(settings_fault(path, "it is longer than 1 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| settings_fault(path, "it is not UTF-8"))?;
        let settings: Self =
            toml::from_str(&text).map_err(|error| settings_fault(path, &error.to_string()))?;
        settings.check_values(path)?;
        Ok(settings)
    }

    fn check_values(&self, path: &Path) -> Result<(), Fault> {
        if self.state.as_deref() == Some("") {
            return Err(settings_fault(path, "`state`: write a folder, or \"ram\""));
        }
        if let Some(other) = self.suites.iter().flatten().find(|suite| *suite != "default") {
            return Err(settings_fault(
                path,
                &format!("`suites`: there is no suite {other}; write \"default\""),
            ));
        }
        for name in self.link.keys() {
            if !is_name(name) || RESERVED_NAMES.contains(&name.as_str()) {
                let text =
                    format!("`link.{name}`: a name has 1 to 15 letters, digits, `-`, `_`, `.`");
                return Err(settings_fault(path, &text));
            }
            let note = PairNote::new(name, "lo", CarrierKind::Udp);
            self.plan_link(&note).map_err(|fault| settings_fault(path, &fault.text))?;
        }
        Ok(())
    }

    /// Returns the settings of a pairing: those of the file, else those of its note.
    ///
    /// # Errors
    /// Exit code 78 for an invalid value.
    pub(crate) fn plan_link(&self, note: &PairNote) -> Result<LinkPlan, Fault> {
        let entry = self.link.get(&note.name).cloned().unwrap_or_default();
        let key = |key: &str, what: &str| {
            let text = format!("`link.{}.{key}`: {what}", note.name);
            Fault::new(Exit::Config, text, "mend the settings of links")
        };
        let time = |name: &str, text: Option<String>, usual: u64| match text {
            None => Ok(usual),
            Some(text) => time_ms(&text).ok_or_else(|| key(name, "write 120s, 30m or 24h")),
        };
        let usual = PeerSettings::default();
        let subkeys = entry.subkeys.unwrap_or(usual.subkeys);
        if !(1..=SUBKEYS_MAX).contains(&subkeys) {
            return Err(key("subkeys", "write 1 to 4096"));
        }
        let mtu = match entry.mtu {
            Some(Mtu::Bytes(bytes)) if bytes >= MTU_MIN => Some(bytes),
            Some(Mtu::Bytes(_)) => return Err(key("mtu", "write 1280 or more, or \"auto\"")),
            Some(Mtu::Word(word)) if word != "auto" => {
                return Err(key("mtu", "write a number or \"auto\""));
            }
            _ => None,
        };
        let endpoints = match entry.endpoint {
            None => Vec::new(),
            Some(Endpoints::One(text)) => vec![text],
            Some(Endpoints::Several(texts)) => texts,
        };
        let endpoints: Result<Vec<_>, _> =
            endpoints.iter().map(|text| parse_endpoint(text)).collect();
        let offload = match entry.offload.as_deref() {
            None | Some("auto") => true,
            Some("off") => false,
            Some(_) => return Err(key("offload", "write \"auto\" or \"off\"")),
        };
        let rekey_ms = time("rekey_after", entry.rekey_after, usual.rekey_ms)?;
        if rekey_ms > REKEY_MS_MAX {
            return Err(key("rekey_after", "a session ends after 300s; write 240s or less"));
        }
        let addresses: Option<Vec<_>> =
            entry.address.unwrap_or_default().iter().map(|text| parse_prefixed(text)).collect();
        Ok(LinkPlan {
            name: note.name.clone(),
            on: entry.on.unwrap_or_else(|| note.on.clone()),
            carrier: entry.carrier.unwrap_or(note.carrier),
            listen: entry.listen.unwrap_or(note.listen),
            endpoints: endpoints
                .map_err(|()| key("endpoint", "write ADDRESS:PORT, or a list of them"))?,
            offload,
            mtu,
            bridge: entry.bridge,
            addresses: addresses.ok_or_else(|| key("address", "write them like 10.7.0.1/24"))?,
            peer: PeerSettings {
                rekey_ms,
                keepalive_ms: time("keepalive", entry.keepalive, usual.keepalive_ms)?,
                heal_ms: time("heal_every", entry.heal_every, usual.heal_ms)?,
                subkeys,
                ..usual
            },
        })
    }
}

impl PairNote {
    /// A pairing over this carrier.
    pub(crate) fn new(name: &str, on: &str, carrier: CarrierKind) -> Self {
        Self { name: name.to_owned(), on: on.to_owned(), carrier, listen: UDP_PORT }
    }

    /// Reads the note of a pairing from a file, or returns `None` if the file is missing or
    /// damaged.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        toml::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }

    /// Writes the note.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written.
    pub(crate) fn save_to(&self, path: &Path) -> Result<(), Fault> {
        let text = toml::to_string(self).map_err(|error| Fault::bug(error.to_string()))?;
        private::replace(path, text.as_bytes())
    }
}

/// The place of the pairings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatePlace {
    /// In a folder.
    Folder(PathBuf),
    /// In the memory of the daemon: pairings end with the daemon and must be made again.
    Memory,
}

impl StatePlace {
    /// Returns the state given by `--state`, else by the file, else the default folder.
    pub fn from_settings(flag: Option<&Path>, settings: &LinkSettings) -> Self {
        match (flag, settings.state.as_deref()) {
            (Some(folder), _) => Self::Folder(folder.to_path_buf()),
            (None, Some(RAM)) => Self::Memory,
            (None, Some(folder)) => Self::Folder(PathBuf::from(folder)),
            (None, None) => Self::Folder(PathBuf::from("/var/lib/mezza/link")),
        }
    }
}

/// Refuses a name that no interface can get: one reserved by the kernel or, unless the link of this
/// name is replaced, one of an existing interface.
///
/// # Errors
/// Exit code 2 for such a name.
pub(crate) fn refuse_name(name: &str, is_replaced: bool) -> Result<(), Fault> {
    let reserved = !is_name(name) || RESERVED_NAMES.contains(&name);
    let is_taken = !is_replaced && nix::net::if_::if_nametoindex(name).is_ok();
    if !reserved && !is_taken {
        return Ok(());
    }
    let text = if is_taken {
        format!("there is an interface {name} already")
    } else {
        format!("no interface can have the name {name}")
    };
    Err(Fault::new(Exit::Usage, text, "choose another --name"))
}

fn settings_fault(path: &Path, what: &str) -> Fault {
    let text = format!("{}: {}", path.display(), what.trim_end());
    Fault::new(Exit::Config, text, "mend it; nothing was started")
}

/// Parses `120s`, `30m` or `24h` into ms, from 1 s to 365 days.
fn time_ms(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    let ms = number.checked_mul(unit)?;
    (1_000..=365 * 24 * 3_600_000).contains(&ms).then_some(ms)
}

/// Parses `ADDRESS:PORT`. A link-local address may contain a zone, which is ignored: the carrier's
/// interface is used.
fn parse_endpoint(text: &str) -> Result<SocketAddr, ()> {
    let plain = match (text.find('%'), text.find(']')) {
        (Some(zone), Some(end)) if zone < end => format!("{}{}", &text[..zone], &text[end..]),
        _ => text.to_owned(),
    };
    let address: SocketAddr = plain.parse().map_err(|_| ())?;
    // No peer can have port 0 or an unspecified address.
    let is_nowhere = address.port() == 0 || address.ip().is_unspecified();
    if is_nowhere { Err(()) } else { Ok(address) }
}

/// Parses `ADDRESS/PREFIX`.
fn parse_prefixed(text: &str) -> Option<(std::net::IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix): (std::net::IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "
state = \"/srv/link\"
suites = [\"default\"]
[link.cam1]
on = \"eth0\"
carrier = \"ether\"
endpoint = \"[fe80::1c42%eth0]:4795\"
listen = 4800
mtu = 1400
bridge = \"br0\"
address = [\"10.7.0.1/24\", \"fd00::1/64\"]
rekey_after = \"90s\"
heal_every = \"12h\"
subkeys = 10
keepalive = \"25s\"
offload = \"off\"
";

    fn load(text: &str) -> Result<LinkSettings, Fault> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("link.toml");
        std::fs::write(&path, text).expect("written");
        LinkSettings::load(&path, true)
    }

    #[test]
    fn every_key_of_a_link_is_read() {
        let settings = load(WHOLE).expect("sound");
        let plan =
            settings.plan_link(&PairNote::new("cam1", "lo", CarrierKind::Udp)).expect("a plan");
        assert_eq!(
            (plan.on.as_str(), plan.carrier, plan.listen),
            ("eth0", CarrierKind::Ether, 4800)
        );
        assert_eq!(plan.endpoints, ["[fe80::1c42]:4795".parse().expect("an address")]);
        assert_eq!((plan.peer.keepalive_ms, plan.offload), (25_000, false));
        assert_eq!((plan.mtu, plan.bridge.as_deref()), (Some(1400), Some("br0")));
        assert_eq!(plan.addresses.len(), 2);
        assert_eq!((plan.peer.rekey_ms, plan.peer.heal_ms), (90_000, 12 * 3_600_000));
        assert_eq!(plan.peer.subkeys, 10);
        let other =
            settings.plan_link(&PairNote::new("cam2", "eth1", CarrierKind::Udp)).expect("a plan");
        assert_eq!((other.on.as_str(), other.listen, other.mtu), ("eth1", UDP_PORT, None));
    }

    #[test]
    fn state_is_a_folder_or_memory_and_the_flag_wins() {
        let of = |text: &str, flag: Option<&str>| {
            StatePlace::from_settings(flag.map(Path::new), &load(text).expect("sound"))
        };
        let folder = |path: &str| StatePlace::Folder(PathBuf::from(path));
        assert_eq!(of("", None), folder("/var/lib/mezza/link"));
        assert_eq!(of("state = \"/srv/link\"", None), folder("/srv/link"));
        assert_eq!(of("state = \"ram\"", None), StatePlace::Memory);
        assert_eq!(of("state = \"ram\"", Some("/srv/link")), folder("/srv/link"));
    }

    #[test]
    fn what_cannot_be_stops_the_start_and_names_the_key() {
        for (text, named) in [
            ("stat = \"x\"", "stat"),
            ("state = \"\"", "state"),
            ("suites = [\"paper\"]", "suites"),
            ("[link.cam1]\nport = 1", "port"),
            ("[link.\"a b\"]", "a b"),
            ("[link.cam1]\nmtu = 100", "mtu"),
            ("[link.cam1]\nmtu = \"big\"", "mtu"),
            ("[link.cam1]\nendpoint = \"here\"", "endpoint"),
            ("[link.cam1]\nendpoint = \"0.0.0.0:4795\"", "endpoint"),
            ("[link.cam1]\nendpoint = [\"192.0.2.7:0\"]", "endpoint"),
            ("[link.cam1]\noffload = \"on\"", "offload"),
            ("[link.cam1]\nrekey_after = \"365h\"", "rekey_after"),
            ("[link.all]", "all"),
            ("[link.cam1]\naddress = [\"10.0.0.1/33\"]", "address"),
            ("[link.cam1]\nrekey_after = \"0s\"", "rekey_after"),
            ("[link.cam1]\nheal_every = \"9\"", "heal_every"),
            ("[link.cam1]\nsubkeys = 0", "subkeys"),
        ] {
            let fault = load(text).expect_err(text);
            assert_eq!(fault.code, Exit::Config, "{text}");
            assert!(fault.text.contains(named), "{}", fault.text);
        }
    }
}
