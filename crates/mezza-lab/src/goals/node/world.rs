//! Real processes: a relay and nodes, each with its own home, on loopback.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mezza::testing::api::json::{AddRequest, CardText, ContactJson, Health};
use mezza::testing::backend::AwsLc;
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::node::plan;
use mezza::testing::process::home::{Home, private};
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::relay::StoreSpec;
use mezza::testing::store::{Argon2Params, Vault};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{CarrierSet, Device};

use crate::process::Program;

/// Time limit for a note.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The passphrase of every vault.
const PASSPHRASE: &[u8] = b"six words that nobody has to guess";

/// A relay or a node with its home; dropping it stops the process in order.
pub struct Process {
    program: Program,
    home: Home,
}

impl Process {
    fn start(home: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let program = Program::start(home, home, args, env)?;
        Ok(Self { program, home: Home::find(Some(home))? })
    }

    /// Returns the resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> Result<f64> {
        self.program.resident_bytes()
    }

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Returns a client of the process's HTTP interface.
    pub fn client(&self) -> Result<ApiClient> {
        Ok(ApiClient::for_home(&self.home)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.program.terminate();
    }
}

/// Returns true if the node of a home has a mailbox that others can write to.
fn is_reachable(home: &Home) -> bool {
    let health = ApiClient::for_home(home).and_then(|client| client.get::<Health>("/v1/health"));
    health.is_ok_and(|h| h.lines.iter().any(|line| line.name == "mailbox" && line.ok))
}

/// A relay, with its key and address.
pub struct RelayProcess {
    /// The relay process.
    pub process: Process,
    /// The key and address of the relay.
    pub entry: RelayEntry,
}

impl RelayProcess {
    /// Starts a relay in `folder` and waits until it listens.
    ///
    /// # Errors
    /// If the relay does not start.
    pub fn start(folder: &Path, env: &[(&str, &str)]) -> Result<Self> {
        Self::start_at(folder, "127.0.0.1", env)
    }

    /// Starts a relay at this address, in the namespace of this thread.
    ///
    /// # Errors
    /// If the relay does not start.
    pub fn start_at(folder: &Path, host: &str, env: &[(&str, &str)]) -> Result<Self> {
        let root = folder.join("relay");
        let home = Home::find(Some(&root))?;
        home.make_folders()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let key = runtime
            .block_on(mezza::testing::servers::relay::init(&home.relay(), &StoreSpec::default()))?;
        let port = TcpListener::bind((host, 0))?.local_addr()?.port();
        let listen = format!("{host}:{port}");
        let mut process = Process::start(&root, &["relay", "run", "--listen", &listen], env)?;
        let answers = || TcpStream::connect((host, port)).ok();
        process.program.wait_until("the relay", |_| answers())?;
        let entry = RelayEntry { key, address: MailboxAddress([0; 16]), port, host: host.into() };
        Ok(Self { process, entry })
    }
}

/// Makes an identity whose vault has the low cost of demonstrations, then starts its node and waits
/// until the node is reachable.
///
/// # Errors
/// If a step fails.
pub fn start_node(folder: &Path, name: &str, relay: &RelayEntry) -> Result<Process> {
    let mut node = start_unlocked(folder, name, std::slice::from_ref(relay))?;
    let home = node.home.clone();
    node.program.wait_until("the mailbox", |_| is_reachable(&home).then_some(()))?;
    Ok(node)
}

/// Starts a node without a relay, as [`start_node`] does, and waits until its HTTP interface
/// responds.
///
/// # Errors
/// If a step fails.
pub fn start_node_alone(folder: &Path, name: &str) -> Result<Process> {
    let mut node = start_unlocked(folder, name, &[])?;
    let home = node.home.clone();
    node.program.wait_until("the node", |_| {
        ApiClient::for_home(&home)
            .and_then(|client| client.get::<Health>("/v1/health"))
            .ok()
            .map(drop)
    })?;
    Ok(node)
}

/// Starts a node whose vault is unlocked by a passphrase file.
fn start_unlocked(folder: &Path, name: &str, relays: &[RelayEntry]) -> Result<Process> {
    let root = folder.join(name);
    let home = Home::find(Some(&root))?;
    home.make_folders()?;
    let now = mezza::testing::clock::now();
    let carriers = CarrierSet::<AwsLc>::default();
    let mut device = Device::create(carriers, name, relays, now, &mut OsRng)?;
    let mut vault = Vault::create(&home.vault(), PASSPHRASE, Argon2Params::DEMO, now, &mut OsRng)?;
    vault.commit(&plan::drain_device(&mut device).batches)?;
    vault.close()?;
    let file = folder.join("passphrase");
    private::replace(&file, PASSPHRASE)?;
    let file = file.to_str().context("a folder whose name is no text")?;
    let args = ["node", "run", "--port", "0", "--no-web", "--passphrase-file", file];
    Process::start(&root, &args, &[])
}

/// Gives each node the card of the other. Returns the number of the new contact in the first node.
///
/// # Errors
/// If a node refuses.
pub fn introduce_nodes(one: &Process, other: &Process) -> Result<String> {
    let add = |to: &Process, of: &Process| -> Result<ContactJson> {
        let card: CardText = of.client()?.get("/v1/me/card?form=full")?;
        let request = AddRequest { uri: card.uri, name: None, in_person: None };
        Ok(to.client()?.post("/v1/contacts", &request)?)
    };
    add(other, one)?;
    Ok(add(one, other)?.id)
}
