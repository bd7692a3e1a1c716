//! The configs of a network as files: the canonical bytes with their signatures. A file holds one
//! or several configs, oldest first.

use std::fs;
use std::path::Path;

use mezza_core::{Reader, Time};
use mezza_mixnet::Service;
use mezza_mixnet::config::{Chain, ChainError, Config, SignatureSet, SignedConfig};

use super::written;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::now;
use mezza_host::process::home::private;

/// Maximum size of a config file; a config has 1 to 7 KB.
const BYTES_MAX: u64 = 1 << 20;

/// Reads one signed config.
///
/// # Errors
/// Exit code 66 if there is no such file, 65 if it holds no config, or more than one.
pub fn read_config(path: &Path) -> Result<SignedConfig, Fault> {
    let mut all = read_all(path)?;
    if all.len() > 1 {
        let text = format!("{} holds {} configs, and one is wanted", path.display(), all.len());
        return Err(Fault::new(Exit::Malformed, text, "name the file of the one you mean"));
    }
    all.pop().ok_or_else(|| no_config(path))
}

/// Reads all signed configs of a file.
fn read_all(path: &Path) -> Result<Vec<SignedConfig>, Fault> {
    let about = fs::metadata(path).map_err(|error| private::cannot_read(path, &error))?;
    if about.len() > BYTES_MAX {
        return Err(no_config(path));
    }
    let bytes = fs::read(path).map_err(|error| private::cannot_read(path, &error))?;
    let mut reader = Reader::new(&bytes);
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(SignedConfig::read_from(&mut reader).map_err(|_| no_config(path))?);
    }
    if all.is_empty() { Err(no_config(path)) } else { Ok(all) }
}

fn no_config(path: &Path) -> Fault {
    Fault::new(
        Exit::Malformed,
        format!("{} is no config of a mixnet", path.display()),
        "make one with `mezza mixnet config new net.toml`, or get it again",
    )
}

/// A network's configs from the first to the newest, checked.
#[derive(Debug)]
pub struct ConfigArchive {
    /// The checked chain.
    pub chain: Chain,
    /// The configs as they were signed, for clients.
    pub archive: Vec<SignedConfig>,
}

impl ConfigArchive {
    /// Reads and checks the configs of a network, oldest first. The first one is trusted, because
    /// the operator named it: its hash becomes the pin.
    ///
    /// # Errors
    /// As [`read_config`]; 1 if one of them is refused.
    pub fn load<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, Fault> {
        let files = paths.into_iter().map(read_all).collect::<Result<Vec<_>, _>>()?;
        let archive = files.concat();
        let now = mezza_host::clock::now();
        Self::check_configs(archive, now)
    }

    /// Checks configs, oldest first.
    ///
    /// # Errors
    /// Exit code 1 if one of them is refused, 2 if there is none.
    pub fn check_configs(archive: Vec<SignedConfig>, now: Time) -> Result<Self, Fault> {
        let Some((genesis, later)) = archive.split_first() else {
            return Err(Fault::new(Exit::Usage, "no config was named", "name one with `--config`"));
        };
        let mut chain =
            Chain::begin(&genesis.config().hash(), genesis).map_err(describe_refusal)?;
        for config in later {
            chain.accept_config(config, now).map_err(describe_refusal)?;
        }
        Ok(Self { chain, archive })
    }
}

/// Returns the fault of a refused config for the user.
pub(crate) fn describe_refusal(error: ChainError) -> Fault {
    let next = match error {
        ChainError::Unsigned { valid, needed } => {
            let verb = if valid == 1 { "is" } else { "are" };
            let signatures = if needed == 1 { "signature" } else { "signatures" };
            return Fault::new(
                Exit::No,
                format!("config: {valid} of {needed} needed guardian {signatures} {verb} valid"),
                "ask another guardian to run `mezza mixnet config sign net.cfg`",
            );
        }
        ChainError::NotPinned => "get the link or the first config again from a person you trust",
        ChainError::Gap => "name every config from the first one on, oldest first",
        ChainError::Rollback => "ask the guardians which of the two is right",
        ChainError::Full => "begin a new network, and give its link to the members of this one",
        ChainError::Rounds => {
            "begin later than the config before, and leave base_round away: `mezza mixnet config new \
             net.toml --after BEFORE` computes it"
        }
        ChainError::Foreign | ChainError::TooMany => {
            "look whether all files are of one network, oldest first"
        }
    };
    Fault::new(Exit::No, format!("config: {error}"), next)
}

/// Refuses a successor whose rounds do not continue after those that run under the config before
/// until the servers have the successor (MIX-86).
///
/// # Errors
/// Exit code 1: another network or number, a start that is not later, a missing service, or first
/// rounds that are too low; the error states the right values.
pub fn check_succession(before: &Config, next: &Config, now: Time) -> Result<(), Fault> {
    let refuse = |text: String, next: &str| Err(Fault::new(Exit::No, text, next));
    if next.network != before.network {
        let text = "config: it is of another network than the config before it".into();
        return refuse(text, "give it the same network_id, or name another config with `--after`");
    }
    if next.seq != before.seq + 1 {
        let text =
            format!("config: its seq is {}, and the config before has {}", next.seq, before.seq);
        return refuse(text, &format!("set `seq = {}`", before.seq + 1));
    }
    if next.valid_from <= before.valid_from {
        let text = "config: it does not begin later than the config before it".into();
        return refuse(text, "give it a later valid_from");
    }
    let anew = before.counted_anew(next, now);
    let missing = anew.iter().find(|service| next.find_policy(**service).is_none());
    if let Some(service) = missing {
        let name = written::service_name(*service);
        let text = format!("config: the config before it has the service {name}, which it lacks");
        return refuse(text, &format!("add a `[[service]]` with `id = \"{name}\"`"));
    }
    if anew.is_empty() {
        return Ok(());
    }
    let value = |service: &Service| {
        let first = before.base_round_after(*service, next.valid_from, now)?;
        Some(format!("`base_round = {first}` for {}", written::service_name(*service)))
    };
    let values: Vec<String> = anew.iter().filter_map(value).collect();
    let late = if next.valid_from <= now { ", as it begins in the past" } else { "" };
    let text = format!("config: rounds would have numbers again that the config before uses{late}");
    let next = format!(
        "set {}; or leave base_round away, and run `mezza mixnet config new net.toml --after BEFORE`",
        values.join(", ")
    );
    refuse(text, &next)
}

/// Adds a guardian's signature: as one of the config's own guardians, and of those of `before`.
/// Returns the number of signatures added.
pub fn sign_config(
    config: &mut SignedConfig,
    before: Option<&SignedConfig>,
    key: &super::key::ServerKey,
) -> usize {
    let signer = key.signer();
    let public = key.public();
    let own = config.config().guardians.iter().position(|guardian| *guardian == public);
    let old = before.and_then(|before| {
        before.config().guardians.iter().position(|guardian| *guardian == public)
    });
    for (set, at) in [(SignatureSet::Own, own), (SignatureSet::Predecessor, old)] {
        if let Some(at) = at {
            config.add_signature(set, at as u8, &signer);
        }
    }
    usize::from(own.is_some()) + usize::from(old.is_some())
}

/// Returns the config in force, or the newest one if none is.
pub fn in_force(chain: &Chain) -> &Config {
    chain.current_config(now()).unwrap_or(chain.head_config())
}

/// Logs a warning if no config of the network is in force and thus no round runs.
pub(super) fn warn_if_none_is_in_force(chain: &Chain) {
    let head = chain.head_config();
    let now = now();
    if chain.current_config(now).is_some() {
        return;
    }
    if now < head.valid_from {
        tracing::warn!("the first config of this network begins later: no round runs until then");
    } else {
        tracing::warn!(
            "the newest config of this network has ended: no round runs until its guardians sign \
             another one; add it to the file and send SIGHUP"
        );
    }
}
