//! Settings: a flag beats the environment, which beats `config.toml`, which beats the default.
//!
//! Each field of [`Settings`] is a setting. Its name is the key in the file (`web_port = 7100`); in
//! upper case after `MEZZA_` it is the variable (`MEZZA_WEB_PORT`). Unknown keys are errors in all
//! layers: a typing error must not leave a limit at its default.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::carriers::LinkListen;
use crate::faces::ports;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::store::typed::without_mark;

/// The prefix of environment variables.
const PREFIX: &str = "MEZZA_";
/// Variables with the prefix that are not settings.
const NO_SETTINGS: [&str; 3] = ["HOME", "PASSPHRASE_FILE", "SEED"];
/// The second prefix of variables for tests.
const TESTS: &str = "TEST_";

/// All settings of the program with their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Port of the web page and its interface on the loopback addresses.
    pub web_port: u16,
    /// Address and port on which a relay listens.
    pub relay_listen: String,
    /// Host and port under which users reach the relay; empty: the address it listens on.
    pub relay_public: String,
    /// Where a relay keeps mail: `sqlite`, `sqlite:PATH` or `postgres:URL`.
    pub relay_store: String,
    /// True if `mezza node run` runs the relay of this home, too.
    pub relay_with_node: bool,
    /// Bytes of mail and bundles that a relay stores in all.
    pub relay_store_bytes_max: u64,
    /// Mailboxes that a relay stores in all.
    pub relay_boxes_max: u64,
    /// Connections that a relay accepts from one IPv4 address or IPv6 /64.
    pub relay_connections_max: u32,
    /// Mailboxes that one IPv4 address or IPv6 /64 may open per day.
    pub relay_opens_day_max: u32,
    /// Bytes that one IPv4 address or IPv6 /64 may put per day.
    pub relay_put_bytes_day_max: u64,
    /// Seconds without activity of the user after which the vault locks; 0: never.
    pub idle_lock_s: u64,
    /// True if the observer records what others could see.
    pub observe: bool,
    /// True if the node takes part in a mesh, and notes may go over it.
    pub mesh: bool,
    /// Port of the mesh, UDP and TCP.
    pub mesh_port: u16,
    /// Name of an open mesh network; empty: the network of `mezza mesh net`.
    pub mesh_net: String,
    /// Interfaces of the mesh, separated by commas; empty: all that can multicast; `none`: Bluetooth
    /// LE alone.
    pub mesh_if: String,
    /// Bluetooth controller of the mesh: `hci0`, `tcp:HOST:PORT` or `unix:PATH`; empty: none.
    pub mesh_ble: String,
    /// Time for which the keys of own notes stay: `minute`, `half-hour` or `half-day`.
    pub mesh_life: String,
    /// Where paired devices may connect: an interface, or an address with or without a port; empty:
    /// nowhere.
    pub link_listen: String,
    /// Lowest level of log lines: `error`, `warn`, `info`, `debug` or `trace`.
    pub log: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            web_port: ports::PAGE,
            relay_listen: format!("127.0.0.1:{}", ports::RELAY),
            relay_public: String::new(),
            relay_store: "sqlite".to_owned(),
            relay_with_node: false,
            relay_store_bytes_max: 10 << 30,
            relay_boxes_max: 1_000_000,
            relay_connections_max: 256,
            relay_opens_day_max: 4_000,
            relay_put_bytes_day_max: 1 << 30,
            idle_lock_s: 900,
            observe: false,
            mesh: false,
            mesh_port: ports::MESH,
            mesh_net: String::new(),
            mesh_if: String::new(),
            mesh_ble: String::new(),
            mesh_life: "minute".to_owned(),
            link_listen: String::new(),
            log: "warn".to_owned(),
        }
    }
}

impl Settings {
    /// Returns where connections of paired devices are accepted, or `None` if they are not.
    ///
    /// # Errors
    /// 78 for a value that names neither an interface nor an address of one network.
    pub(crate) fn link_place(&self) -> Result<Option<LinkListen>, Fault> {
        let text = self.link_listen.trim();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|reason: String| {
            let text = format!("the setting link_listen cannot be {text:?}: {reason}");
            Fault::new(Exit::Config, text, "name an interface, such as eth0, or its address")
        })
    }
}

/// Where the value of a setting comes from, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// [`Settings::default`].
    Default,
    /// `config.toml`.
    File,
    /// A `MEZZA_` variable.
    Environment,
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "config.toml",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// The settings in force and their origins.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    /// The settings.
    pub settings: Settings,
    values: BTreeMap<String, (Value, Origin)>,
}

impl LoadedSettings {
    /// Merges the four layers; a missing file counts as empty.
    ///
    /// `environment` is the whole environment; variables without the prefix are ignored. `flags`
    /// are keys with the texts of their values. Any error is exit code 78 and names the key.
    pub fn load(
        file: &Path,
        environment: impl Iterator<Item = (OsString, OsString)>,
        flags: &[(&str, String)],
    ) -> Result<Self, Fault> {
        let defaults = table_of(&Settings::default())?;
        let mut config = Self { settings: Settings::default(), values: BTreeMap::new() };
        config.add_layer(defaults.clone(), Origin::Default);
        config.add_layer(check_known(read_table(file)?, &defaults, Origin::File)?, Origin::File);
        let variables = environment.filter_map(|(name, text)| read_variable(&name, text));
        let variables = variables.collect::<Result<Vec<_>, _>>()?;
        let variables = parse_texts(variables.into_iter(), &defaults, Origin::Environment)?;
        config.add_layer(variables, Origin::Environment);
        let flags = flags.iter().map(|(key, text)| ((*key).to_owned(), text.clone()));
        config.add_layer(parse_texts(flags, &defaults, Origin::Flag)?, Origin::Flag);
        config.check_values()
    }

    /// Formats one line per setting, as in `config.toml`; with `origin`, followed by its origin.
    pub fn format_settings(&self, origin: bool) -> String {
        let line = |(key, (value, from)): (&String, &(Value, Origin))| {
            let setting = format!("{key} = {value}");
            if origin { format!("{setting:<40} # {from}\n") } else { format!("{setting}\n") }
        };
        self.values.iter().map(line).collect()
    }

    fn add_layer(&mut self, layer: Table, origin: Origin) {
        self.values.extend(layer.into_iter().map(|(key, value)| (key, (value, origin))));
    }

    /// Checks kind and range of each value separately, to name the wrong one.
    fn check_values(mut self) -> Result<Self, Fault> {
        let defaults = table_of(&self.settings)?;
        for (key, (value, origin)) in &self.values {
            let mut one = defaults.clone();
            one.insert(key.clone(), value.clone());
            if one.try_into::<Settings>().is_err() {
                let expected = defaults.get(key).map_or_else(String::new, Value::to_string);
                return Err(setting_fault(
                    &format!("the setting {key} cannot be {value}"),
                    *origin,
                    &format!("give it a value like {expected}"),
                ));
            }
        }
        let all: Table = self.values.iter().map(|(k, (v, _))| (k.clone(), v.clone())).collect();
        self.settings = all.try_into().map_err(|_| Fault::bug("settings do not fit together"))?;
        Ok(self)
    }
}

/// Returns key and text of a variable that is a setting. Names and texts of other variables need
/// not be UTF-8.
fn read_variable(name: &OsStr, text: OsString) -> Option<Result<(String, String), Fault>> {
    let name = name.to_string_lossy();
    let key = name.strip_prefix(PREFIX)?;
    if NO_SETTINGS.contains(&key) || key.starts_with(TESTS) {
        return None;
    }
    let key = key.to_ascii_lowercase();
    Some(text.into_string().map(|text| (key.clone(), text)).map_err(|_| {
        let what = format!("the setting {key} is not UTF-8");
        setting_fault(&what, Origin::Environment, "write it in plain letters")
    }))
}

/// Stores settings in the file: replaces the line of each key, or adds one. Each text is parsed
/// with the kind of its key's default.
///
/// # Errors
/// A file in which the lines cannot be replaced, or that cannot be written.
pub fn store_settings(file: &Path, settings: &[(&str, String)]) -> Result<(), Fault> {
    let mut expected = read_table(file)?;
    let mut text = without_mark(&fs::read_to_string(file).unwrap_or_default()).to_owned();
    let given = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    for (key, value) in parse_texts(given, &table_of(&Settings::default())?, Origin::File)? {
        text = with_line(&text, &key, &format!("{key} = {value}"));
        expected.insert(key, value);
    }
    if text.parse::<Table>().ok().as_ref() != Some(&expected) {
        let keys: Vec<&str> = settings.iter().map(|(key, _)| *key).collect();
        let what = format!("this file cannot be changed by a program: {}", file.display());
        return Err(setting_fault(
            &what,
            Origin::File,
            &format!("write {} there", keys.join(", ")),
        ));
    }
    if settings.is_empty() { Ok(()) } else { private::replace(file, text.as_bytes()) }
}

/// Returns the text of a settings file with the line of `key` replaced by `line`.
fn with_line(text: &str, key: &str, line: &str) -> String {
    let is_its = |old: &&str| old.split('=').next().is_some_and(|name| name.trim() == key);
    let mut lines: Vec<&str> = text.lines().filter(|old| !is_its(old)).collect();
    let at = text.lines().position(|old| is_its(&old)).unwrap_or(lines.len());
    lines.insert(at, line);
    lines.join("\n") + "\n"
}

fn table_of(settings: &Settings) -> Result<Table, Fault> {
    Table::try_from(settings).map_err(|_| Fault::bug("a default setting has no stored form"))
}

fn read_table(file: &Path) -> Result<Table, Fault> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Table::new()),
        Err(error) => {
            return Err(Fault { code: Exit::Config, ..private::cannot_read(file, &error) });
        }
    };
    let text = without_mark(&text);
    text.parse().map_err(|error: toml::de::Error| {
        let place = error.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
        setting_fault(
            &format!("line {place} is not a setting: {}", error.message()),
            Origin::File,
            "write `key = value`; `mezza config print` shows all keys",
        )
    })
}

fn check_known(layer: Table, defaults: &Table, origin: Origin) -> Result<Table, Fault> {
    match layer.keys().find(|key| !defaults.contains_key(*key)) {
        Some(key) => Err(unknown_key(key, origin)),
        None => Ok(layer),
    }
}

/// Parses each text with the kind of its key's default.
fn parse_texts(
    layer: impl Iterator<Item = (String, String)>,
    defaults: &Table,
    origin: Origin,
) -> Result<Table, Fault> {
    let value = |(key, text): (String, String)| {
        let value = match defaults.get(&key).ok_or_else(|| unknown_key(&key, origin))? {
            Value::Integer(_) => text.parse().map(Value::Integer).ok(),
            Value::Boolean(_) => text.parse().map(Value::Boolean).ok(),
            _ => None,
        };
        Ok((key, value.unwrap_or(Value::String(text))))
    };
    layer.map(value).collect()
}

fn unknown_key(key: &str, origin: Origin) -> Fault {
    let next = "`mezza config print` shows all keys";
    setting_fault(&format!("there is no setting {key}"), origin, next)
}

fn setting_fault(what: &str, origin: Origin, next: &str) -> Fault {
    Fault::new(Exit::Config, format!("{what} ({origin})"), next)
}
