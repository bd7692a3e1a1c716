//! Tests outgoing traffic and its times against a relay, with a disk that fails on demand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mezza_core::Wiping;
use mezza_messenger::carriers::mixnet::NetworkAddress;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{Command, ContactId, MixnetInput, RecordChange, RecordKind, Retention};
use nix::errno::Errno;
use tokio::sync::watch;

use super::*;
use crate::carriers::Dialer;
use crate::node::{self, NodeHandle, RunningNode};
use mezza_host::api::json::CardFormJson;
use mezza_host::api::views::contact_id;
use mezza_host::clock::{Clock, now};
use mezza_host::process::home::failing::{Failing, WriteStep};
use mezza_servers::relay::{self, RelayConfig};

mod away;
mod backups;
mod clock;
mod dates;
mod kept;
mod refused;

const PASS: &[u8] = b"a passphrase";

fn options(vault: PathBuf, witness: Option<PathBuf>) -> NodeOptions {
    let dialer = Dialer::default();
    let observer = None;
    let clock = Clock::system();
    NodeOptions {
        vault,
        witness,
        demo: true,
        idle_lock_s: 0,
        clock,
        dialer,
        mesh: None,
        link: None,
        observer,
    }
}

async fn start(folder: &Path, name: &'static str, relay: &RelayEntry) -> RunningNode {
    start_with(options(folder.join(name), None), name, relay).await
}

async fn start_with(options: NodeOptions, name: &'static str, relay: &RelayEntry) -> RunningNode {
    let running = node::start_node(options);
    let relay = relay.clone();
    running.node.ask(move |shell| shell.create_identity(name, PASS, &[relay])).await.unwrap();
    until(&running.node, NodeShell::is_reachable).await;
    running
}

/// Runs a relay in this process until the sender is dropped.
async fn serve_relay(folder: &Path) -> (watch::Sender<bool>, RelayEntry) {
    let (stop, stopped) = watch::channel(false);
    let config = RelayConfig::new(folder.join("relay"), "127.0.0.1:0".parse().unwrap());
    let relay = relay::start_relay(config, stopped).await.unwrap();
    let key = *relay.key();
    let port = relay.address().port();
    let host = "127.0.0.1".into();
    (stop, RelayEntry { key, address: MailboxAddress([0; 16]), port, host })
}

async fn until(node: &NodeHandle, yes: impl Fn(&NodeShell) -> bool + Copy + Send + 'static) {
    while !node.ask(move |shell| Ok(yes(shell))).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Writes a note. Returns how many parcels left in this turn, and true if the note was accepted.
fn send(shell: &mut NodeShell, contact: ContactId, client: u8) -> (usize, bool) {
    let before = shell.adapters.carried();
    let command =
        Command::Send { contact, client: [client; 16], text: "a note".into(), life: None };
    let accepted = shell.run_command(command).is_ok();
    (shell.adapters.carried() - before, accepted)
}

#[tokio::test]
async fn nothing_leaves_before_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (_stop, relay) = serve_relay(folder.path()).await;
    let ben = start(folder.path(), "ben", &relay).await;
    let card = ben.node.ask(|shell| shell.card_text(CardFormJson::Full)).await.unwrap();
    let ann = start(folder.path(), "ann", &relay).await.node;
    let contact = ann.ask(move |shell| shell.add_contact(&card.uri, None, false)).await.unwrap();
    let contact = contact_id(&contact.id).unwrap();
    // The first note waits for keys; with a session, a note leaves at once.
    assert!(ann.ask(move |shell| Ok(send(shell, contact, 1))).await.unwrap().1);
    until(&ann, |shell| shell.adapters.carried() > 0).await;
    let (left, accepted) = ann.ask(move |shell| Ok(send(shell, contact, 2))).await.unwrap();
    assert!(left > 0 && accepted);

    let refused = ann.ask(move |shell| {
        let _failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        Ok(send(shell, contact, 3))
    });
    assert_eq!(refused.await.unwrap(), (0, false));
    // The device is loaded from the vault again, without that note.
    ann.ask(|shell| shell.unlock_vault(PASS)).await.unwrap();
    until(&ann, NodeShell::is_reachable).await;
    let notes = ann.ask(move |shell| shell.list_notes(contact, None, 10)).await.unwrap();
    assert_eq!(notes.notes.len(), 2);
    assert!(ann.ask(move |shell| Ok(send(shell, contact, 3))).await.unwrap().1);
}

/// Stores rows like a round of the mixnet, in a form that the device does not load.
fn round(shell: &mut NodeShell) -> Result<(), Refused> {
    let kind = RecordKind::NetworkRow;
    let key = vec![0xff; 8];
    let bucket = Retention::Rolling;
    let put = RecordChange::Put { kind, key: key.clone(), bucket, value: Wiping::new(Vec::new()) };
    shell.finish_plan(CommitPlan {
        batches: vec![WriteBatch(vec![put, RecordChange::Drop { kind, key }])],
        ..CommitPlan::default()
    })
}

fn copy(from: &Path, to: &Path) {
    mezza_host::process::home::private::make_folder(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Returns two facts: the dial of the mixnet waits for the user, and the health line reports that.
fn waits(shell: &NodeShell) -> (bool, bool) {
    let told = shell.health_lines().into_iter().find(|line| line.name == "mixnet");
    let told = told.is_some_and(|line| line.next.is_some_and(|next| next.contains("resume")));
    (shell.adapters.withholds(), told)
}

/// Returns a locked node whose vault was restored to a copy before its last round, and the results
/// of [`waits`] in between.
async fn put_back(folder: &Path) -> (NodeHandle, (bool, bool)) {
    let [vault, older] = ["vault", "older"].map(|name| folder.join(name));
    let node = node::start_node(options(vault.clone(), Some(folder.join("state")))).node;
    let join = MixnetInput::Join(NetworkAddress { pin: [7; 32], address: "127.0.0.1:1".into() });
    let begin = move |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        shell.run_command(join)?;
        round(shell)?;
        shell.lock_vault();
        Ok(())
    };
    node.ask(begin).await.unwrap();
    copy(&vault, &older);
    let go_on = |shell: &mut NodeShell| {
        shell.unlock_vault(PASS)?;
        round(shell)?;
        let told = waits(shell);
        shell.lock_vault();
        Ok(told)
    };
    let told = node.ask(go_on).await.unwrap();
    fs::remove_dir_all(&vault).unwrap();
    copy(&older, &vault);
    (node, told)
}

#[tokio::test]
async fn msg_63_with_a_vault_that_was_put_back_the_mixnet_waits_for_the_person() {
    let folder = tempfile::tempdir().unwrap();
    let (node, before) = put_back(folder.path()).await;
    assert_eq!(before, (false, false));
    let back = |shell: &mut NodeShell| {
        shell.unlock_vault(PASS)?;
        let told = waits(shell);
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(shell.resume_restored().is_err(), "the decision is not written");
        drop(failing);
        shell.unlock_vault(PASS)?;
        let still = waits(shell);
        shell.resume_restored()?;
        Ok([told, still, waits(shell)])
    };
    assert_eq!(node.ask(back).await.unwrap(), [(true, true), (true, true), (false, false)]);
    let again = |shell: &mut NodeShell| {
        shell.lock_vault();
        shell.unlock_vault(PASS)?;
        Ok(waits(shell))
    };
    assert_eq!(node.ask(again).await.unwrap(), (false, false));
}

#[tokio::test]
async fn msg_111_a_vault_that_is_put_back_again_is_noticed_again() {
    let folder = tempfile::tempdir().unwrap();
    let [vault, older] = ["vault", "older"].map(|name| folder.path().join(name));
    let node = node::start_node(options(vault.clone(), Some(folder.path().join("state")))).node;
    node.ask(|shell| shell.create_identity("Ann", PASS, &[])).await.unwrap();
    let prekeys =
        |shell: &mut NodeShell| Ok(shell.unlocked_device()?.prekeys(shell.date()).signed.len());
    let mut all = node.ask(prekeys).await.unwrap();
    for n in 0..3 {
        let lock = |shell: &mut NodeShell| {
            shell.lock_vault();
            Ok(())
        };
        node.ask(lock).await.unwrap();
        let _ = fs::remove_dir_all(&older);
        copy(&vault, &older);
        let go_on = |shell: &mut NodeShell| {
            shell.unlock_vault(PASS)?;
            shell.run_command(Command::Rotate)?;
            shell.lock_vault();
            Ok(())
        };
        node.ask(go_on).await.unwrap();
        fs::remove_dir_all(&vault).unwrap();
        copy(&older, &vault);
        node.ask(|shell| shell.unlock_vault(PASS)).await.unwrap();
        let fresh = node.ask(prekeys).await.unwrap();
        assert!(fresh > all, "{n}: prekeys of another life are not used as if they were ours");
        let told = node.ask(|shell| Ok(shell.vault_line().text)).await.unwrap();
        assert!(told.contains("restored"), "{told}");
        // Unlocking again must not renew the keys again.
        node.ask(lock).await.unwrap();
        node.ask(|shell| shell.unlock_vault(PASS)).await.unwrap();
        all = node.ask(prekeys).await.unwrap();
        assert_eq!(all, fresh);
    }
}

#[tokio::test]
async fn mix_40_the_device_follows_a_clock_that_was_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    let join = MixnetInput::Join(NetworkAddress { pin: [7; 32], address: "127.0.0.1:1".into() });
    let follow = move |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        shell.run_command(join)?;
        shell.seen = now().plus_ms(6 * Time::HOUR_MS);
        let open = shell.open.as_mut().expect("it was made");
        // The effects are not carried out, since they would give the device the time.
        open.device.wake(shell.seen, &mut OsRng);
        let due = |shell: &NodeShell| shell.open.as_ref().and_then(|open| open.device.deadline());
        let before = due(shell);
        shell.run_due_work_at(now());
        let soon = Some(now().plus_ms(2 * Time::HOUR_MS));
        Ok((before > soon, due(shell) <= soon))
    };
    assert_eq!(node.ask(follow).await.unwrap(), (true, true));
}

#[tokio::test]
async fn a_vault_whose_day_is_ahead_of_the_clock_is_no_good_health() {
    let folder = tempfile::tempdir().unwrap();
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    let lights = |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        let good = shell.vault_line().ok;
        let ahead = now().plus_ms(3 * Time::DAY_MS);
        shell.open.as_mut().expect("unlocked").vault.tick(ahead)?;
        let line = shell.vault_line();
        Ok((good, line.ok, line.text.contains("3 days ahead")))
    };
    assert_eq!(node.ask(lights).await.unwrap(), (true, false, true));
}
