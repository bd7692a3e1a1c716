//! `mezza link`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use mezza_servers::tunnel::config::CarrierKind;
use mezza_servers::tunnel::control::RoleName;

/// Where the state and the settings of links are.
#[derive(Args, Clone, Debug)]
pub struct LinkPlace {
    /// The state folder (else that of the settings, else /var/lib/mezza/link)
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The settings (else /etc/mezza/link.toml, if it is there)
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Commands for links.
#[derive(Subcommand)]
pub enum LinkCommand {
    /// Pair with the device on the other side, which runs the same command
    Pair(PairArgs),
    /// Pair with the device of a contact, who runs the same command: notes then go without a server
    PairContact(PairContactArgs),
    /// Run the links, in the foreground, until Ctrl-C
    Up(LinkUpArgs),
    /// Show the links that run, or one of them
    #[command(after_long_help = super::super::link::STATES)]
    Show {
        /// Its name
        name: Option<String>,
        /// Go on, once a second
        #[arg(short, long)]
        follow: bool,
    },
    /// New keys now
    Rekey {
        /// The name of the link
        name: String,
    },
    /// End a pairing: the other side is not recognised any more
    Forget {
        /// The name of the link
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// `mezza link pair`.
#[derive(Args)]
pub struct PairArgs {
    /// The network interface that leads to the other device
    #[arg(value_name = "IF")]
    pub on: String,
    /// The name of the link here, and of its interface
    #[arg(long, default_value = "link0", value_parser = link_name)]
    pub name: String,
    /// How long to wait, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub window: u64,
    /// Compare six digits on both devices: nobody can be in between
    #[arg(long)]
    pub sas: bool,
    /// Only begin exchanges, or only answer them
    #[arg(long, value_enum)]
    pub role: Option<RoleName>,
    /// Only this device, by its name on links
    #[arg(long, value_name = "ID")]
    pub peer: Option<String>,
    /// Ask there instead of everybody on the link
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    /// Carrier of frames
    #[arg(long, value_enum, default_value = "udp")]
    pub carrier: CarrierKind,
    /// Replace the pairing of this name
    #[arg(long)]
    pub replace: bool,
}

/// `mezza link pair-contact`.
#[derive(Args)]
pub struct PairContactArgs {
    /// Name or #number
    pub contact: String,
    /// Connect to this address of the other device; without it wait for the other one, which needs
    /// the setting `link_listen` here
    #[arg(long, value_name = "HOST[:PORT]")]
    pub address: Option<String>,
}

/// `mezza link up`.
#[derive(Args)]
pub struct LinkUpArgs {
    /// Only these links
    pub names: Vec<String>,
    /// Serve counts for operators at this address, like 127.0.0.1:7120
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Look whether all of it can be started, and end
    #[arg(long)]
    pub check: bool,
}

fn link_name(text: &str) -> Result<String, String> {
    let text = text.to_owned();
    if mezza_seka::record::is_name(&text) {
        return Ok(text);
    }
    Err("a name has 1 to 15 letters, digits, `-`, `_`, `.`, and begins with a letter".to_owned())
}
