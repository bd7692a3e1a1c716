//! Real processes: a relay and nodes, each with a home of its own, on loopback.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mezza::testing::api::json::{AddRequest, CardText, ContactJson, Health};
use mezza::testing::backend::AwsLc;
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::node::plan;
use mezza::testing::process::home::{Home, private};
use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::relay::StoreSpec;
use mezza::testing::store::{Argon2Params, Vault};
use mezza_messenger::Device;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::relay_wire::MailboxAddress;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine;

/// How long anything may take to come about.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The passphrase of everybody here, at the cost of a demonstration.
const PASSPHRASE: &[u8] = b"six words that nobody has to guess";
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A running program.
pub struct Process {
    child: Child,
    home: Home,
    log: PathBuf,
}

impl Process {
    /// Starts this program as `mezza`; nothing of the surrounding environment reaches it.
    fn start(home: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let log = home.with_extension("log");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(crate::PROGRAM).env_clear().envs(env.iter().copied());
        command.arg("--home").arg(home).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn().context("the program does not start")?;
        Ok(Self { child, home: Home::find(Some(home))?, log })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Memory that it holds, bytes.
    pub fn resident_bytes(&self) -> Result<f64> {
        machine::resident_bytes(self.id()).context("the system does not tell memory")
    }

    /// Its interface.
    pub fn client(&self) -> Result<ApiClient> {
        Ok(ApiClient::of(&self.home)?)
    }

    /// Looks until `yes`, or until the program is gone.
    fn until(&mut self, what: &str, mut yes: impl FnMut(&Self) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !yes(self) {
            let gone = self.child.try_wait()?.is_some();
            if gone || Instant::now() > end {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{what} did not come about: {}", log.lines().last().unwrap_or("no log"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether strangers can write to this node.
    fn is_reachable(&self) -> bool {
        let health = self.client().and_then(|client| Ok(client.get::<Health>("/v1/health")?));
        health.is_ok_and(|h| h.lines.iter().any(|line| line.name == "mailbox" && line.ok))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A relay and where it is.
pub struct RelayProcess {
    /// The program.
    pub process: Process,
    /// Its key and address.
    pub entry: RelayEntry,
}

impl RelayProcess {
    /// Starts one in `folder` and waits until it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(folder: &Path, env: &[(&str, &str)]) -> Result<Self> {
        let root = folder.join("relay");
        let home = Home::find(Some(&root))?;
        home.make()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let key = runtime
            .block_on(mezza::testing::servers::relay::init(&home.relay(), &StoreSpec::default()))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let mut process = Process::start(&root, &["relay", "run", "--listen", &listen], env)?;
        process.until("the relay", |_| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let entry =
            RelayEntry { key, address: MailboxAddress([0; 16]), port, host: "127.0.0.1".into() };
        Ok(Self { process, entry })
    }
}

/// Makes an identity with a vault at the cost of a demonstration, then runs its node and waits
/// until it is reachable.
///
/// # Errors
/// If any of it fails.
pub fn start_node(folder: &Path, name: &str, relay: &RelayEntry) -> Result<Process> {
    let root = folder.join(name);
    let home = Home::find(Some(&root))?;
    home.make()?;
    let now = mezza::testing::clock::now();
    let mut device = Device::<AwsLc>::create(name, std::slice::from_ref(relay), now, &mut OsRng)?;
    let mut vault = Vault::create(&home.vault(), PASSPHRASE, Argon2Params::DEMO, now, &mut OsRng)?;
    vault.commit(&plan::drain(&mut device).batches)?;
    vault.close()?;
    let file = folder.join("passphrase");
    private::replace(&file, PASSPHRASE)?;
    let file = file.to_str().context("a folder whose name is no text")?;
    let args = ["node", "run", "--port", "0", "--no-web", "--passphrase-file", file];
    let mut process = Process::start(&root, &args, &[])?;
    process.until("the mailbox", Process::is_reachable)?;
    Ok(process)
}

/// Both take each other's card; the contact as the first one numbers it.
///
/// # Errors
/// If a node refuses.
pub fn introduce(one: &Process, other: &Process) -> Result<String> {
    let add = |to: &Process, of: &Process| -> Result<ContactJson> {
        let card: CardText = of.client()?.get("/v1/me/card?form=full")?;
        let request = AddRequest { uri: card.uri, name: None, in_person: None };
        Ok(to.client()?.post("/v1/contacts", &request)?)
    };
    add(other, one)?;
    Ok(add(one, other)?.id)
}
