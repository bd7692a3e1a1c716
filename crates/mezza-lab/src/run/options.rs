//! Options of `run wire`, `run leak` and `run asa` beyond the profile.

use anyhow::{Result, bail};
use clap::Args;
use mezza::testing::api::{Exit, Fault};
use serde_json::{Value, json};

use super::experiment::Experiment;

/// The experiments that accept these options.
const TAKE_OPTIONS: [&str; 3] = ["wire", "leak", "asa"];
/// The experiment that can print its readings while it runs.
const STREAMED: &str = "leak";

/// The options.
#[derive(Debug, Default, Args)]
pub struct WireOptions {
    /// wire, leak, asa: the variant (dh, dh-comm, eg)
    #[arg(long, value_name = "V")]
    variant: Option<String>,
    /// wire, leak: the firewall of the initiator (none, or one of the variant)
    #[arg(long, value_name = "W")]
    firewall: Option<String>,
    /// wire, leak: the group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// leak, asa: the element that carries the secret
    #[arg(long, value_name = "ELEMENT")]
    element: Option<String>,
    /// leak, asa: bits that one message carries
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u64).range(1..=16))]
    lambda: Option<u64>,
    /// leak: the device counts its messages
    #[arg(long)]
    stateful: bool,
    /// leak: handshakes, instead of as many as are predicted to be enough
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    messages: Option<u64>,
    /// leak: print each reading as a line of JSON as soon as it was read, and no bar
    #[arg(long)]
    stream: bool,
}

impl WireOptions {
    /// Returns true if standard output is for JSON alone.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Returns the options as parameters of a run.
    ///
    /// # Errors
    /// Options for an experiment that takes none.
    pub fn params(&self, chosen: &[&Experiment]) -> Result<Value> {
        let Self { variant, firewall, group, element, lambda, stateful, messages, stream } = self;
        let given = json!({
            "variant": variant, "firewall": firewall, "group": group, "element": element,
            "lambda": lambda, "stateful": stateful.then_some(true), "messages": messages,
            "stream": stream.then_some(true),
        });
        let mut given = given.as_object().cloned().unwrap_or_default();
        given.retain(|_, value| !value.is_null());
        if *stream && chosen.iter().any(|experiment| experiment.id != STREAMED) {
            let next = format!("give it to {STREAMED} alone");
            bail!(Fault::new(Exit::Usage, "`--stream` has nothing to print here", next));
        }
        let other = chosen.iter().find(|experiment| !TAKE_OPTIONS.contains(&experiment.id));
        if let (false, Some(other)) = (given.is_empty(), other) {
            let text = format!("{} takes no options but those of every experiment", other.id);
            bail!(Fault::new(Exit::Usage, text, "give them to wire, leak or asa alone"));
        }
        Ok(Value::Object(given))
    }
}
