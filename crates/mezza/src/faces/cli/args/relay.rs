//! `mezza relay`.

use clap::{Args, Subcommand};

/// Commands for a relay.
#[derive(Subcommand)]
pub enum RelayCommand {
    /// Run it until Ctrl-C
    Run(PlaceArgs),
    /// Make its key and store; what is said here is kept in the settings
    Init {
        /// Where it lies
        #[command(flatten)]
        place: PlaceArgs,
        /// Addresses at which others reach the relay
        #[command(flatten)]
        public: PublicArgs,
    },
    /// Its key, its store, and whether it runs
    Status(StoreArgs),
    /// Say that this machine's clock is right, after it jumped: mail expires by it again
    TrustClock,
    /// Print the address that people give to `mezza init --relay`
    Uri(PublicArgs),
}

/// Where a relay lies.
#[derive(Args)]
pub struct PlaceArgs {
    /// Where mail lies
    #[command(flatten)]
    pub store: StoreArgs,
    /// Where to listen, ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
}

/// Where the mail of a relay lies.
#[derive(Args)]
pub struct StoreArgs {
    /// Where mail lies: sqlite:PATH or postgres:URL
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
}

/// How others reach a relay.
#[derive(Args)]
pub struct PublicArgs {
    /// The name or address and the port under which others reach it; kept in the settings
    #[arg(long, value_name = "HOST:PORT")]
    pub public: Option<String>,
}

impl RelayCommand {
    /// Returns the options that are settings, as keys and texts.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let (place, store, public) = match self {
            Self::Run(place) => (Some(place), Some(&place.store), None),
            Self::Init { place, public } => (Some(place), Some(&place.store), Some(public)),
            Self::Status(store) => (None, Some(store), None),
            Self::TrustClock => (None, None, None),
            Self::Uri(public) => (None, None, Some(public)),
        };
        let listen = place.and_then(|place| place.listen.clone());
        let store = store.and_then(|store| store.store.clone());
        let public = public.and_then(|public| public.public.clone());
        let all = [("relay_listen", listen), ("relay_store", store), ("relay_public", public)];
        all.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
    }
}
