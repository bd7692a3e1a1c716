//! `mezza guard`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use mezza_servers::guard::peers::ModeName;
use mezza_servers::guard::settings::PolicyName;

/// The folder of a guard.
#[derive(Args, Clone, Debug)]
pub struct GuardPlace {
    /// The folder of the guard (else `guard` in the home)
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Commands for a guard.
#[derive(Subcommand)]
pub enum GuardCommand {
    /// Make coin key, ledger and settings of a guard
    Init,
    /// Pair a device: prints the code that is entered there once
    Pair(GuardPairArgs),
    /// Run the guard, in the foreground, until Ctrl-C
    Run(GuardRunArgs),
    /// The destinations that clients can name by their number
    Dest {
        /// Command
        #[command(subcommand)]
        what: GuardDestCommand,
    },
    /// Show the bits that stay open, from the rules in force
    Audit,
    /// Show sessions, refused handshakes, alarms and open slots
    Status,
    /// Reset a slot after a client lost its state; it asks and counts
    ResetSlot(ResetSlotArgs),
    /// On a device: use this guard, with the code that `mezza guard pair` printed there
    Join(GuardJoinArgs),
    /// On a device: use the guard no more; contacts with a destination then wait
    Leave,
    /// On a device: look for a route around the guard
    Check(GuardCheckArgs),
    /// On another machine: relay both sides of a guard, and compare its keys with its coins
    Watch(GuardWatchArgs),
}

/// `mezza guard pair`.
#[derive(Args)]
pub struct GuardPairArgs {
    /// Write the code into this new file of mode 0600, and print nothing of it
    #[arg(long, value_name = "FILE")]
    pub code_file: Option<PathBuf>,
    /// The address at which the device accepts connections of the guard
    #[arg(long, value_name = "ADDRESS:PORT", requires = "inbound")]
    pub addr: Option<SocketAddr>,
    /// The address at which peers reach the device through the guard
    #[arg(long, value_name = "ADDRESS:PORT", requires = "addr")]
    pub inbound: Option<SocketAddr>,
    /// How inbound handshakes are guarded
    #[arg(long, value_enum, default_value = "coins")]
    pub mode: ModeName,
}

/// `mezza guard run`.
#[derive(Args)]
pub struct GuardRunArgs {
    /// The address for clients (else that of guard.toml)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Treatment of frames without a rule (else the choice of guard.toml)
    #[arg(long, value_enum)]
    pub policy: Option<PolicyName>,
    /// Interval of outgoing frames, ms; 0 for none (else that of guard.toml)
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub tick: Option<u64>,
    /// Check that everything loads, and end
    #[arg(long)]
    pub check: bool,
}

/// `mezza guard dest`.
#[derive(Subcommand)]
pub enum GuardDestCommand {
    /// Add a destination, and print its number
    Add(DestAddArgs),
    /// List the destinations
    List,
    /// Block a destination for all clients, and end its sessions
    Block {
        /// Its number or name
        dest: String,
    },
    /// End a block: that of the owner, and that after refused handshakes
    Unblock {
        /// Its number or name
        dest: String,
    },
}

/// `mezza guard dest add`.
#[derive(Args)]
pub struct DestAddArgs {
    /// Your name for it
    pub name: String,
    /// Where it listens
    #[arg(value_name = "HOST:PORT", value_parser = parse_target)]
    pub target: HostPort,
    /// The names of the link, that of the device first, 12 hex digits each (else those of the first
    /// handshake)
    #[arg(long, value_name = "OWN,PEER", requires = "link")]
    pub ids: Option<String>,
    /// The number of the link on the device
    #[arg(long, value_name = "N", requires = "ids")]
    pub link: Option<u16>,
    /// The last attempt of the link (else the first handshake chooses it)
    #[arg(long, value_name = "A")]
    pub counter: Option<u32>,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Parses `HOST:PORT` or `[IPV6]:PORT`.
fn parse_target(text: &str) -> Result<HostPort, String> {
    let wrong =
        || "write a host and a port, like bob.example:7800 or [2001:db8::7]:7800".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    // More colons belong to an IPv6 address, which stands between brackets.
    let is_host = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => (1..=253).contains(&host.len()) && host.chars().all(is_name),
    };
    match port.parse() {
        Ok(port @ 1..) if is_host => Ok(HostPort { host: host.to_owned(), port }),
        _ => Err(wrong()),
    }
}

/// `mezza guard reset-slot`.
#[derive(Args)]
pub struct ResetSlotArgs {
    /// The first digits of the client's id
    pub client: String,
    /// Number or name of the destination, or the number of the lane
    pub dest: String,
    /// Reset the slot of this side
    #[arg(long, value_enum, default_value = "dialling")]
    pub purpose: PurposeName,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// The side of a handshake for which a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PurposeName {
    /// The device dials
    Dialling,
    /// The device answers
    Answering,
}

/// `mezza guard join`.
#[derive(Args)]
pub struct GuardJoinArgs {
    /// Where the guard listens for this device
    #[arg(value_name = "HOST[:PORT]")]
    pub address: String,
    /// A file with the pairing code (else it is asked for, without echo)
    #[arg(long, value_name = "FILE")]
    pub code_file: Option<PathBuf>,
}

/// The guard's number for the device of a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardDest {
    /// Through the guard, to its destination of this number.
    Through(u16),
    /// Not through a guard.
    None,
}

/// Parses the number of a destination, or `none`.
pub(super) fn parse_dest(text: &str) -> Result<GuardDest, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(GuardDest::None),
        (_, Ok(dest @ 1..=0xffef)) => Ok(GuardDest::Through(dest)),
        _ => Err("write the number that `mezza guard dest add` printed, or `none`".to_owned()),
    }
}

/// `mezza guard check`.
#[derive(Args)]
pub struct GuardCheckArgs {
    /// The address of the guard
    pub guard: IpAddr,
    /// Also try a direct connection; it must fail
    #[arg(long = "try", value_name = "HOST:PORT", value_parser = parse_target)]
    pub attempt: Option<HostPort>,
}

/// `mezza guard watch`.
#[derive(Args)]
pub struct GuardWatchArgs {
    /// Where clients connect
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub inside: SocketAddr,
    /// Where the guard listens for clients
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_target)]
    pub guard: HostPort,
    /// Where the guard connects, as the destination on its list
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub wire: SocketAddr,
    /// The destination itself
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_target)]
    pub to: HostPort,
    /// A file with the pairing code of a client; for more clients write it again
    #[arg(long, value_name = "FILE", required = true)]
    pub code_file: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        let good = [("bob.example:7800", "bob.example"), ("[2001:db8::7]:1", "2001:db8::7")];
        for (text, host) in good {
            assert_eq!(parse_target(text).map(|target| target.host), Ok(host.to_owned()));
        }
        for wrong in ["bob", "bob:", "bob:0", ":1", "2001:db8::7:1", "b b:1", "[bob]:1", "b:65536"]
        {
            assert!(parse_target(wrong).is_err(), "{wrong}");
        }
    }
}
