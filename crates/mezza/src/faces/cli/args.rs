//! The grammar of the command line. Help texts, man pages and completions are made from here (CLI-1).

mod backup;
mod card;
mod cpu;
mod guard;
mod hibe;
mod link;
mod listen;
mod mesh;
mod mixnet;
mod moving;
mod ratchet;
mod relay;
mod talk;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use backup::{AutoBackupArgs, BackupCommand, BackupFileArgs, ExportArgs};
pub(crate) use card::{AddArgs, CardArgs, CardCommand};
pub(crate) use cpu::CpuArgs;
pub use cpu::KernelName;
pub(crate) use guard::{
    DestAddArgs, GuardCheckArgs, GuardCommand, GuardDest, GuardDestCommand, GuardJoinArgs,
    GuardPairArgs, GuardPlace, GuardRunArgs, GuardWatchArgs, HostPort, PurposeName, ResetSlotArgs,
};
pub(crate) use hibe::{
    AdvanceArgs, AtArgs, BlockArgs, DetectArgs, DetectKeyArgs, HibeCommand, KeygenArgs, LifeName,
    OpenArgs, SealArgs, TreeArgs,
};
pub(crate) use link::{LinkCommand, LinkPlace, LinkUpArgs, PairArgs, PairContactArgs};
pub(crate) use mesh::{
    CarriedWait, ClockArgs, CrowdArgs, ListenArgs, MeshBundleCommand, MeshCommand, MeshNetCommand,
    MeshRunArgs, MeshSendArgs, MoveName,
};
pub(crate) use mixnet::{
    AccountingName, BucketArgs, EntryArgs, LoadArgs, MixArgs, MixnetCommand, MixnetConfigCommand,
    NoiseFloorName, PresetName, PrivacyArgs, ServerArgs, ServiceName,
};
pub(crate) use moving::{MoveCommand, MoveInArgs, MoveOutArgs};
pub(crate) use ratchet::{NumberArgs, PeerArgs, RatchetCommand, SuiteName};
pub(crate) use relay::RelayCommand;
pub(crate) use talk::{ContactsArgs, ContactsCommand, LogArgs, OutboxCommand, SendArgs, WaitName};

use mezza_host::api::json::{FallbackJson, MeshLifeJson};

/// Private messages over whatever path is left.
#[derive(Parser)]
#[command(name = "mezza", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "First steps: `mezza up --demo`, or `mezza init` and `mezza node run`.")]
pub struct Cli {
    /// The folder of this identity (else that of `MEZZA_HOME`, else ~/.local/share/mezza)
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print JSON, one value a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Command
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Commands of the program.
#[derive(Subcommand)]
pub enum CliCommand {
    /// Start what this home holds; without an identity, the demonstration in a folder of its own
    Up(UpArgs),
    /// Make a new identity and its vault
    Init(InitArgs),
    /// Run, look at or stop the node
    Node {
        /// Command
        #[command(subcommand)]
        what: NodeCommand,
    },
    /// Make a backup, or check one
    Backup {
        /// Command
        #[command(subcommand)]
        what: BackupCommand,
    },
    /// Make this home from a backup; it must hold no identity yet
    Restore(BackupFileArgs),
    /// Move this identity to another device, with its sessions; the old one is empty afterwards
    Move {
        /// Command
        #[command(subcommand)]
        what: MoveCommand,
    },
    /// Write one conversation as readable JSON lines, after asking; they are not encrypted
    Export(ExportArgs),
    /// Remove everything of this home, after asking
    Purge(PurgeArgs),
    /// Lock the vault
    Lock,
    /// Unlock the vault
    Unlock(PassphraseArgs),
    /// Print a new one-time address of the page
    Url,
    /// Show the own card, or look at another one
    Card(CardArgs),
    /// Add a contact from a card: an address, or a picture of a QR code
    Add(AddArgs),
    /// List contacts, show one, or remove one
    Contacts(ContactsArgs),
    /// List strangers who wrote or invite; let one in or turn one away
    Requests {
        /// Command
        #[command(subcommand)]
        what: Option<RequestsCommand>,
    },
    /// Show the safety number of a contact
    Verify {
        /// Name or #number
        name: String,
        /// You have compared the numbers over another way, and they are equal
        #[arg(long)]
        matches: bool,
    },
    /// Write a note
    Send(SendArgs),
    /// Show a thread, and mark as read what is shown
    Log(LogArgs),
    /// List notes that are not delivered yet; send or give up one that waits
    Outbox {
        /// Command
        #[command(subcommand)]
        what: Option<OutboxCommand>,
    },
    /// Set how to talk to a contact
    Set(SetArgs),
    /// List carriers: level, delay, limits, what each protects from whom
    Carriers,
    /// Run a relay for others
    Relay {
        /// Command
        #[command(subcommand)]
        what: RelayCommand,
    },
    /// Messages without internet: run a node of the mesh, send and listen
    Mesh {
        /// Command
        #[command(subcommand)]
        what: MeshCommand,
    },
    /// Run the servers of a mixnet, and make its keys and configs
    Mixnet {
        /// Command
        #[command(subcommand)]
        what: MixnetCommand,
    },
    /// The cryptography of the mesh, on a folder of its own: for experts, scripts and tests
    Hibe {
        /// Command
        #[command(subcommand)]
        what: HibeCommand,
    },
    /// Links between two devices: tunnels, and notes without a server
    Link {
        /// Where state and settings are
        #[command(flatten)]
        place: LinkPlace,
        /// Command
        #[command(subcommand)]
        what: LinkCommand,
    },
    /// A box that keeps a tampered device from leaking keys in its handshakes
    Guard {
        /// The folder of the guard
        #[command(flatten)]
        place: GuardPlace,
        /// Command
        #[command(subcommand)]
        what: GuardCommand,
    },
    /// The cryptography of conversations: for experts, scripts and tests
    Ratchet {
        /// Command
        #[command(subcommand)]
        what: RatchetCommand,
    },
    /// Measure: the papers' tables beside ours, the goals beside their limits
    #[command(disable_help_flag = true)]
    Lab {
        /// Arguments of the lab; see `mezza lab --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
        words: Vec<OsString>,
    },
    /// Show on one screen whether node, carriers, mesh and links work, and what waits
    Status,
    /// Look for what is wrong
    Doctor,
    /// Show which kernel computes for many at once on this CPU, and whether it computes right
    Cpu(CpuArgs),
    /// Check or print the settings
    Config {
        /// Command
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder
        dir: PathBuf,
    },
    /// Print the description of the HTTP interface
    #[command(hide = true)]
    Openapi,
}

/// `mezza up`.
#[derive(Args)]
pub struct UpArgs {
    /// Make the demonstration world: a relay, you, and an echo
    #[arg(long)]
    pub demo: bool,
    /// End after the check
    #[arg(long)]
    pub check: bool,
    /// Remove the demonstration, with all that is in it
    #[arg(long, conflicts_with_all = ["demo", "check", "page_listen", "page_port", "no_web", "passphrase_file"])]
    pub remove: bool,
    /// How it is served
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// How a node is served.
#[derive(Args)]
pub struct ServeArgs {
    /// Where it listens
    #[command(flatten)]
    pub listen: listen::PageListen,
    /// Do not print an address for a browser
    #[arg(long)]
    pub no_web: bool,
    /// Make onions with this kernel, not with the fastest one: for tests and reports
    #[arg(long, value_enum, value_name = "KERNEL", hide = true)]
    pub kernel: Option<KernelName>,
    /// Where the passphrase comes from
    #[command(flatten)]
    pub key: PassphraseArgs,
}

/// Where the passphrase comes from.
#[derive(Args)]
pub struct PassphraseArgs {
    /// Read the passphrase from this file (else the one that `MEZZA_PASSPHRASE_FILE` names)
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// `mezza init`.
#[derive(Args)]
pub struct InitArgs {
    /// The name that others read on your card, at most 24 bytes
    #[arg(long)]
    pub name: Option<String>,
    /// Your relay: its address `mezzavoce:r1/..`, which its operator gets from `mezza relay uri`; or the card
    /// of whoever invites you, whose relay you then share
    #[arg(long, value_name = "URI|CARD")]
    pub relay: Option<String>,
    /// Where the passphrase comes from
    #[command(flatten)]
    pub key: PassphraseArgs,
}

/// `mezza purge`.
#[derive(Args)]
pub struct PurgeArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `mezza node`.
#[derive(Subcommand)]
pub enum NodeCommand {
    /// Run the node until Ctrl-C
    Run {
        /// How it is served
        #[command(flatten)]
        serve: ServeArgs,
        /// Record what a provider, the relay and a thief see
        #[arg(long)]
        observe: bool,
    },
    /// Is it running, and is it unlocked?
    Status,
    /// Lock and stop it
    Stop,
    /// The clock of this machine is right, though it jumped: what is due by it may go
    TrustClock,
}

/// `mezza requests`.
#[derive(Subcommand)]
pub enum RequestsCommand {
    /// Ask somebody who invites over the mixnet who they are
    See {
        /// The number in the list
        #[arg(value_parser = parse_number)]
        n: u32,
    },
    /// Let a stranger in
    Accept {
        /// The number in the list
        #[arg(value_parser = parse_number)]
        n: u32,
    },
    /// Turn a stranger away
    Refuse {
        /// The number in the list
        #[arg(value_parser = parse_number)]
        n: u32,
    },
}

/// Parses a number of a list: `1` or `#1`.
fn parse_number(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('#').unwrap_or(text).parse();
    number.map_err(|_| "write the number that `mezza requests` shows".into())
}

/// `mezza set`.
#[derive(Args)]
pub struct SetArgs {
    /// Name or #number
    pub name: String,
    /// Carriers, best first
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub carriers: Option<Vec<String>>,
    /// The lowest level a note may leave by, 1 to 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub level_min: Option<u8>,
    /// True if another carrier of the list may step in
    #[arg(long, value_enum)]
    pub fallback: Option<FallbackJson>,
    /// How long notes stay: 30s, 5m, 1h, 8h, 1d, 7d, 28d, off
    #[arg(long, value_name = "TIME", value_parser = super::show::timer)]
    pub timer: Option<u32>,
    /// True if to tell them what has arrived
    #[arg(long, value_enum)]
    pub receipts: Option<SwitchName>,
    /// How long devices of the mesh carry your notes to them, and a thief of their device can open them
    #[arg(long, value_enum, value_name = "LIFE")]
    pub mesh_life: Option<LifeChoice>,
    /// Your name for the contact
    #[arg(long = "as", value_name = "PETNAME")]
    pub petname: Option<String>,
    /// The address of their device on a cable or local network, once it is paired
    #[arg(long, value_name = "HOST[:PORT]")]
    pub link: Option<String>,
    /// Reach their device through the guard that was joined, by its number there; `none` ends it
    #[arg(long, value_name = "N", value_parser = guard::parse_dest)]
    pub guard_dest: Option<GuardDest>,
    /// Drop what comes from them
    #[arg(long, conflicts_with = "unblock")]
    pub block: bool,
    /// Let them in again
    #[arg(long)]
    pub unblock: bool,
}

/// How long notes of a conversation live in the mesh.
#[derive(Clone, Copy, ValueEnum)]
pub enum LifeChoice {
    /// At most a minute
    #[value(alias = "minutes")]
    Minute,
    /// At most an hour
    HalfHour,
    /// At most a day
    HalfDay,
    /// As `mesh_life` in config.toml says
    Default,
}

impl LifeChoice {
    /// Returns the chosen life; `None` if the setting of the node shall apply.
    pub(crate) const fn life(self) -> Option<MeshLifeJson> {
        match self {
            Self::Minute => Some(MeshLifeJson::Minute),
            Self::HalfHour => Some(MeshLifeJson::HalfHour),
            Self::HalfDay => Some(MeshLifeJson::HalfDay),
            Self::Default => None,
        }
    }
}

/// On or off.
#[derive(Clone, Copy, ValueEnum)]
pub enum SwitchName {
    /// On
    On,
    /// Off
    Off,
}

/// `mezza config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Are all settings known and sound?
    Check,
    /// Print all settings
    Print {
        /// And where each one comes from
        #[arg(long)]
        origin: bool,
    },
}

impl CliCommand {
    /// Returns the contact that the command names.
    pub(crate) fn contact(&self) -> Option<&str> {
        match self {
            Self::Verify { name, .. }
            | Self::Send(SendArgs { name, .. })
            | Self::Log(LogArgs { name, .. })
            | Self::Set(SetArgs { name, .. }) => Some(name),
            Self::Contacts(asked) => asked.contact_name(),
            Self::Link { what: LinkCommand::PairContact(asked), .. } => Some(&asked.contact),
            _ => None,
        }
    }

    /// Returns the kernel chosen by `--kernel`.
    pub fn kernel(&self) -> Option<KernelName> {
        match self {
            Self::Up(UpArgs { serve, .. })
            | Self::Node { what: NodeCommand::Run { serve, .. } } => serve.kernel,
            Self::Mixnet { what } => what.kernel(),
            Self::Cpu(CpuArgs { kernel, .. }) => kernel.name,
            _ => None,
        }
    }
}
