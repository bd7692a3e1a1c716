//! `mezza mesh`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mezza_mesh::Grade;

use super::listen::MeshListen;
use super::{LifeName, PassphraseArgs};
use mezza_servers::mesh::ble::HciPlace;

/// `mezza mesh`.
#[derive(Subcommand)]
pub enum MeshCommand {
    /// Run a node on every interface that can multicast, until Ctrl-C or SIGTERM
    Run(MeshRunArgs),
    /// Show clock, neighbours, cells and bytes of the node that runs
    Status,
    /// Show everybody who was heard
    Peers,
    /// Show the clock, say how good it is, or trust the clocks around
    Clock(ClockArgs),
    /// Choose the network of this home
    Net {
        /// Command
        #[command(subcommand)]
        what: MeshNetCommand,
    },
    /// Carry live cells on a memory stick
    Bundle {
        /// Command
        #[command(subcommand)]
        what: MeshBundleCommand,
    },
    /// Seal standard input for whoever made a card, and hand it to the mesh
    Send(MeshSendArgs),
    /// Open what comes for a key tree, and print it
    Listen(ListenArgs),
    /// Simulate a crowd of devices that run this very code
    Crowd(CrowdArgs),
}

/// `mezza mesh run`.
#[derive(Args)]
pub struct MeshRunArgs {
    /// MiB of cells that are carried for hours, on the disk too; 0: none
    #[arg(long = "carry", value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u8).range(0..=64))]
    pub carry_mib: u8,
    /// Only these interfaces
    #[arg(long = "if", value_name = "NAME,..", value_delimiter = ',')]
    pub interfaces: Vec<String>,
    /// An open network, this time alone
    #[arg(long, value_name = "NAME", conflicts_with = "join")]
    pub net: Option<String>,
    /// A closed network by its invitation, this time alone
    #[arg(long, value_name = "URI")]
    pub join: Option<String>,
    /// Where it listens
    #[command(flatten)]
    pub listen: MeshListen,
    /// Bluetooth LE too, on this controller: hci0, tcp:HOST:PORT or unix:PATH
    #[arg(long, value_name = "HCI")]
    pub(crate) ble: Option<HciPlace>,
    /// No interface at all: Bluetooth LE alone
    #[arg(long, requires = "ble", conflicts_with = "interfaces")]
    pub no_cast: bool,
    /// How good the clock of this device is; else what the system knows
    #[arg(long, value_enum)]
    pub grade: Option<GradeName>,
}

/// How good a clock is.
#[derive(Clone, Copy, ValueEnum)]
pub enum GradeName {
    /// Set from a network within a day: within 2.5 s
    Good,
    /// Set by hand or from a network within a month: within 150 s
    Fair,
    /// Anything else: within 10 min
    Poor,
}

impl From<GradeName> for Grade {
    fn from(name: GradeName) -> Self {
        match name {
            GradeName::Good => Self::Good,
            GradeName::Fair => Self::Fair,
            GradeName::Poor => Self::Poor,
        }
    }
}

/// `mezza mesh clock`.
#[derive(Args)]
pub struct ClockArgs {
    /// The time that is shown is right to two minutes: the grade becomes fair
    #[arg(long, conflicts_with = "grade")]
    pub confirm: bool,
    /// How good the clock of this device is
    #[arg(long, value_enum)]
    pub grade: Option<GradeName>,
    /// The clocks around are right, and this one is wrong
    #[arg(long)]
    pub trust_neighbours: bool,
}

/// `mezza mesh net`.
#[derive(Subcommand)]
pub enum MeshNetCommand {
    /// Show the network of this home
    Show,
    /// Make a network
    Create {
        /// Its name, 1 to 32 bytes
        name: String,
        /// Only who has the invitation is heard
        #[arg(long)]
        closed: bool,
        /// Draw the invitation as a QR code
        #[arg(long)]
        qr: bool,
    },
    /// Join a network by its invitation, or an open one by its name
    Join {
        /// As `mezzavoce:n1/..`, or a name
        network: String,
    },
    /// Go back to the open network
    Leave,
}

/// `mezza mesh bundle`.
#[derive(Subcommand)]
pub enum MeshBundleCommand {
    /// Write all live cells into a file
    Export {
        /// The file
        file: PathBuf,
    },
    /// Take the live cells of a file
    Import {
        /// The file
        file: PathBuf,
    },
}

/// How long `send` waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum CarriedWait {
    /// Until the node has it
    Accepted,
    /// Until a neighbour announces it
    Handed,
    /// Until its time is over, counting who announces it
    Carried,
}

/// `mezza mesh send`.
#[derive(Args)]
pub struct MeshSendArgs {
    /// The receiver's card block: its file, its address, or a picture of its QR code
    #[arg(long, value_name = "FILE")]
    pub card: String,
    /// The smallest size, 0 to 3, for 512, 1,024, 2,048 or 4,096 bytes on the air
    #[arg(long, value_name = "0..3", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub bucket: u8,
    /// How long it is carried, and its keys stay with the receiver; else the shortest life of the card
    #[arg(long, value_enum)]
    pub life: Option<LifeName>,
    /// How long to wait
    #[arg(long, value_enum, default_value_t = CarriedWait::Handed)]
    pub wait: CarriedWait,
}

/// `mezza mesh listen`.
#[derive(Args)]
pub struct ListenArgs {
    /// The folder of the key tree, made with `mezza hibe keygen --dir DIR`
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// End after the first message
    #[arg(long)]
    pub once: bool,
    /// Write each message into a file of this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Where the passphrase comes from
    #[command(flatten)]
    pub key: PassphraseArgs,
}

/// How people move.
#[derive(Clone, Copy, ValueEnum)]
pub enum MoveName {
    /// They sit on a grid
    Static,
    /// Groups meet, stay and leave
    Converging,
    /// They walk from one random place to the next
    Waypoint,
    /// They go from stage to stage
    Festival,
}

/// `mezza mesh crowd`.
#[derive(Args)]
pub struct CrowdArgs {
    /// How many devices
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=5_000))]
    pub users: u32,
    /// How people move
    #[arg(long = "move", value_enum, default_value_t = MoveName::Static)]
    pub movement: MoveName,
    /// How many minutes pass
    #[arg(long, value_name = "M", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub minutes: u32,
    /// Everything else follows from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
