//! The owner's settings: `guard.toml`.

use std::net::SocketAddr;
use std::path::Path;

use mezza_guard::guard::StrictPolicy;
use serde::{Deserialize, Serialize};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// Bytes of a settings file, at most.
const BYTES_MAX: usize = 64 * 1024;
/// The longest tick, ms: a handshake of three frames ends in 10 s.
const TICK_MS_MAX: u64 = 1_000;

/// The settings that `mezza guard init` writes.
pub const SETTINGS_TEXT: &str = "\
# Settings of a guard. Every line may be absent.

# The address at which clients connect: one on the cable to the device.
listen = \"127.0.0.1:4797\"

# strict: what no rule covers closes the connection.
# report: it passes, and the owner is notified. For finding out what a device sends.
policy = \"strict\"

# Frames leave at multiples of this time, in ms. 0 lets them leave at once; the audit then shows
# timing as an open channel.
tick_ms = 50

# Connections to one destination: this many at once, then one more after each pause.
dial_burst = 4
dial_pause_s = 30
";

/// The treatment of what no rule covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// The connection is closed.
    #[default]
    Strict,
    /// It passes, and the owner is notified.
    Report,
}

impl From<PolicyName> for StrictPolicy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Strict => Self::Strict,
            PolicyName::Report => Self::Report,
        }
    }
}

/// The settings of a guard.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// The address for clients.
    pub listen: SocketAddr,
    /// The treatment of what no rule covers.
    pub policy: PolicyName,
    /// Interval of outgoing frames, ms; 0: none.
    pub tick_ms: u64,
    /// Connections to a destination at once.
    pub dial_burst: u32,
    /// Time after which one more connection is allowed, seconds.
    pub dial_pause_s: u64,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4_797)),
            policy: PolicyName::Strict,
            tick_ms: mezza_guard::shaper::TICK_MS,
            dial_burst: 4,
            dial_pause_s: 30,
        }
    }
}

impl GuardConfig {
    /// Reads the file; a missing file means default settings.
    ///
    /// # Errors
    /// Exit code 78 for an unknown key or an invalid value, 77 if other users may write the file.
    pub fn load(path: &Path) -> Result<Self, Fault> {
        if !path.exists() {
            return Ok(Self::default());
        }
        private::check_not_planted(path)?;
        let text = read_text(path, BYTES_MAX)?;
        let config: Self = toml::from_str(&text).map_err(|error| wrong(path, error.message()))?;
        config.check(path)
    }

    /// Checks the values.
    fn check(self, path: &Path) -> Result<Self, Fault> {
        if self.tick_ms > TICK_MS_MAX {
            return Err(wrong(path, "tick_ms is above 1000"));
        }
        if self.dial_burst == 0 {
            return Err(wrong(path, "dial_burst is 0, so no connection could be made"));
        }
        Ok(self)
    }
}

/// Reads a text file of at most `bytes_max` bytes.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> Result<String, Fault> {
    let bytes = std::fs::read(path).map_err(|error| private::cannot_read(path, &error))?;
    if bytes.len() > bytes_max {
        return Err(wrong(path, "it is too long"));
    }
    String::from_utf8(bytes).map_err(|_| wrong(path, "it is not UTF-8"))
}

/// Makes the fault of a wrong settings file.
pub(crate) fn wrong(path: &Path, why: &str) -> Fault {
    let why = why.trim_end().replace('\n', " ");
    let text = format!("{} is wrong: {why}", path.display());
    Fault::new(Exit::Config, text, "correct the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_settings_are_the_usual_ones_and_unknown_keys_are_errors() {
        let written: GuardConfig = toml::from_str(SETTINGS_TEXT).expect("settings");
        assert_eq!(written, GuardConfig::default());
        assert!(toml::from_str::<GuardConfig>("tik_ms = 3").is_err());
        let slow = GuardConfig { tick_ms: 1_001, ..GuardConfig::default() };
        assert_eq!(slow.check(Path::new("x")).map_err(|fault| fault.code), Err(Exit::Config));
    }
}
