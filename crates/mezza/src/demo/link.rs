//! The link of the demonstration: echo's device listens on a free port of the loopback interface, and
//! the person's device connects to it.
//!
//! ```text
//! you  --- TCP 127.0.0.1:free ---> echo      Pair, six digits on both, equal? -> Confirm on both -> Paired
//! ```
//!
//! Pairing is meant for two people who meet. The program stands in for both: it compares the digits
//! that the two devices show. The pairing is stored in both vaults, and the next run only sets the
//! address, since its port is another one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mezza_messenger::ContactId;
use tokio::time::{sleep, timeout};

use crate::carriers::LinkListen;
use crate::node::NodeHandle;
use crate::node::shell::NodeShell;
use mezza_host::api::json::{ContactJson, LinkPairingJson, LinkPairingState};
use mezza_host::api::views::contact_id;
use mezza_host::api::{Exit, Fault, Refused};

/// Echo's address. The usual port may belong to a node of the user, or to another demonstration.
pub(super) const LISTEN: LinkListen =
    LinkListen::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

/// How long the listener and the pairing may take together.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two looks at both devices.
const GLANCE: Duration = Duration::from_millis(20);
/// Most runs of digits. A run can fail because a dial to the address of an earlier demonstration ends
/// during it.
const RUNS: usize = 3;
/// The next step after a failure.
const NEXT: &str = "look at the log; the other carriers do not need it";

/// Two devices that recognise each other.
#[derive(Debug)]
pub(super) struct Joined {
    /// The address on which echo's device listens.
    pub address: SocketAddr,
    /// The digits that both devices showed; `None` if an earlier run has paired them.
    pub digits: Option<String>,
}

/// One of the two devices, and the contact that the other one is there.
#[derive(Clone, Copy)]
struct Side<'a> {
    node: &'a NodeHandle,
    other: ContactId,
}

/// Pairs the devices of the person and of echo, unless an earlier run has done so. Each of them
/// holds the other one's card. `echo_contact` is echo at the person.
///
/// # Errors
/// Echo's device cannot listen, the pairing fails, or a vault is locked.
pub(super) async fn join_devices(
    person: &NodeHandle,
    echo: &NodeHandle,
    echo_contact: &ContactJson,
) -> Result<Joined, Fault> {
    let joined = timeout(PATIENCE, try_joining(person, echo, echo_contact)).await;
    if !matches!(joined, Ok(Ok(_))) {
        // A pairing in progress would keep the next one out.
        for node in [person, echo] {
            let _ = node.ask(NodeShell::cancel_pairing).await;
        }
    }
    joined.unwrap_or_else(|_| {
        let text = format!("the two devices were not paired within {} s", PATIENCE.as_secs());
        Err(Fault::new(Exit::Unreachable, text, NEXT))
    })
}

async fn try_joining(
    person: &NodeHandle,
    echo: &NodeHandle,
    echo_contact: &ContactJson,
) -> Result<Joined, Fault> {
    let address = wait_for_listener(echo).await?;
    let other = contact_id(&echo_contact.id)?;
    let dialling = Side { node: person, other };
    let listening = Side { node: echo, other: find_person(person, echo, other).await? };
    if dialling.is_paired().await? && listening.is_paired().await? {
        person.ask(move |shell| shell.set_link_address(other, address.to_string())).await?;
        return Ok(Joined { address, digits: None });
    }
    let mut runs = 0;
    loop {
        runs += 1;
        match pair_devices(dialling, listening, address).await? {
            Ok(digits) => return Ok(Joined { address, digits: Some(digits) }),
            Err(trouble) if runs == RUNS => {
                let text = format!("the two devices were not paired: {trouble}");
                return Err(Fault::new(Exit::Unreachable, text, NEXT));
            }
            Err(_) => sleep(GLANCE).await,
        }
    }
}

/// Waits until echo's device listens. Returns the address.
async fn wait_for_listener(echo: &NodeHandle) -> Result<SocketAddr, Fault> {
    loop {
        let listening = echo.ask(|shell| shell.listening()).await?.unwrap_or_default();
        if let Some(address) = listening.addresses.first() {
            return Ok(*address);
        }
        if let Some(trouble) = listening.trouble {
            return Err(Fault::new(Exit::Unreachable, trouble, NEXT));
        }
        sleep(GLANCE).await;
    }
}

/// Returns the person as a contact of echo: the one with the same safety number.
///
/// # Errors
/// Echo does not know the person yet, or a vault is locked.
pub(super) async fn find_person(
    person: &NodeHandle,
    echo: &NodeHandle,
    echo_contact: ContactId,
) -> Result<ContactId, Fault> {
    let (number, _) = person.ask(move |shell| shell.safety_number(echo_contact)).await?;
    let found = echo.ask(move |shell| {
        let ids = shell.list_contacts()?.into_iter().map(|contact| contact_id(&contact.id));
        for id in ids.collect::<Result<Vec<_>, _>>()? {
            if shell.safety_number(id)?.0 == number {
                return Ok(id);
            }
        }
        Err(Refused::no_contact())
    });
    Ok(found.await?)
}

/// Runs one pairing. Returns the digits that both devices showed, or why the pairing failed.
async fn pair_devices(
    dialling: Side<'_>,
    listening: Side<'_>,
    address: SocketAddr,
) -> Result<Result<String, String>, Fault> {
    listening.begin(None).await?;
    dialling.begin(Some(address)).await?;
    let mut compared: Option<String> = None;
    loop {
        let shown = [dialling.describe().await?, listening.describe().await?];
        let failed = shown.iter().find(|it| it.state == LinkPairingState::Failed);
        if let Some(failed) = failed {
            let trouble = failed.trouble.clone().unwrap_or_default();
            for side in [dialling, listening] {
                side.node.ask(NodeShell::cancel_pairing).await?;
            }
            return Ok(Err(trouble));
        }
        let states = shown.each_ref().map(|it| it.state);
        match (states, &compared) {
            ([LinkPairingState::Paired, LinkPairingState::Paired], Some(digits)) => {
                return Ok(Ok(digits.clone()));
            }
            ([LinkPairingState::Digits, LinkPairingState::Digits], None) => {
                let [own, their] = shown.map(|it| it.digits.unwrap_or_default());
                let equal = own == their;
                for side in [dialling, listening] {
                    // A refusal means that this side has failed since, as its state will show.
                    let _ = side.node.ask(move |shell| shell.confirm_pairing(equal)).await;
                }
                if !equal {
                    let text =
                        "the two devices showed different digits: another program is in between";
                    return Err(Fault::new(Exit::No, text, NEXT));
                }
                compared = Some(own);
            }
            _ => sleep(GLANCE).await,
        }
    }
}

impl Side<'_> {
    async fn is_paired(self) -> Result<bool, Refused> {
        let other = self.other;
        self.node.ask(move |shell| shell.is_paired(other)).await
    }

    async fn begin(self, address: Option<SocketAddr>) -> Result<(), Refused> {
        let other = self.other;
        let address = address.map(|address| address.to_string());
        self.node.ask(move |shell| shell.begin_pairing(other, address)).await
    }

    async fn describe(self) -> Result<LinkPairingJson, Refused> {
        self.node.ask(|shell| shell.describe_pairing()).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mezza_messenger::CarrierId;

    use super::*;
    use crate::carriers::Dialer;
    use crate::node::{self, NodeOptions, RunningNode};
    use mezza_host::api::json::{CardFormJson, NodeStateJson};
    use mezza_host::clock::Clock;

    /// How long a node may take to stop.
    const STOP: Duration = Duration::from_secs(10);

    /// Starts a node without any relay, whose name is that of its vault.
    async fn start(folder: &Path, name: &'static str, link: Option<LinkListen>) -> RunningNode {
        let running = node::start_node(NodeOptions {
            vault: folder.join(name),
            witness: None,
            demo: true,
            idle_lock_s: 0,
            clock: Clock::system(),
            dialer: Dialer::default(),
            mesh: None,
            link,
            observer: None,
        });
        let open = running.node.ask(move |shell| match shell.state() {
            NodeStateJson::Empty => shell.create_identity(name, b"demo", &[]),
            _ => shell.unlock_vault(b"demo"),
        });
        open.await.unwrap();
        running
    }

    /// Adds the card of `other` at `node`.
    async fn add(node: &NodeHandle, other: &NodeHandle) -> ContactJson {
        let card = other.ask(|shell| shell.card_text(CardFormJson::Full)).await.unwrap();
        node.ask(move |shell| shell.add_contact(&card.uri, None, false)).await.unwrap()
    }

    #[tokio::test]
    async fn node_25_two_devices_pair_once_and_again_if_one_of_them_forgot() {
        let folder = tempfile::tempdir().unwrap();
        let ann = start(folder.path(), "ann", None).await;
        let echo = start(folder.path(), "echo", Some(LISTEN)).await;
        let contact = add(&ann.node, &echo.node).await;
        let there = contact_id(&add(&echo.node, &ann.node).await.id).unwrap();
        let joined = join_devices(&ann.node, &echo.node, &contact).await.unwrap();
        assert!(joined.address.ip().is_loopback() && joined.digits.is_some(), "{joined:?}");
        ann.stop(STOP).await;
        echo.stop(STOP).await;
        let ann = start(folder.path(), "ann", None).await;
        let echo = start(folder.path(), "echo", Some(LISTEN)).await;
        let joined = join_devices(&ann.node, &echo.node, &contact).await.unwrap();
        assert_eq!(joined.digits, None, "paired already");
        while !ann.node.ask(|shell| Ok(shell.is_up(CarrierId::LINK))).await.unwrap() {
            sleep(GLANCE).await;
        }
        // A crash can leave the pairing on one side alone.
        echo.node.ask(move |shell| shell.delete_contact(there)).await.unwrap();
        add(&echo.node, &ann.node).await;
        let joined = join_devices(&ann.node, &echo.node, &contact).await.unwrap();
        assert!(joined.digits.is_some(), "paired again");
        ann.stop(STOP).await;
        echo.stop(STOP).await;
    }

    #[tokio::test]
    async fn node_26_a_device_that_cannot_listen_is_reported_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let ann = start(folder.path(), "ann", None).await;
        // An address of documentation, which no interface has.
        let nowhere = Some("192.0.2.1:0".parse().unwrap());
        let echo = start(folder.path(), "echo", nowhere).await;
        let contact = add(&ann.node, &echo.node).await;
        add(&echo.node, &ann.node).await;
        let fault = join_devices(&ann.node, &echo.node, &contact).await.unwrap_err();
        assert_eq!(fault.text, "no interface has the address 192.0.2.1");
        assert_eq!(fault.next, NEXT);
        ann.stop(STOP).await;
        echo.stop(STOP).await;
    }
}
