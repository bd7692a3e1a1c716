//! Writes that the disk refuses, each followed by one that succeeds: nothing is lost, and nothing runs that
//! is not stored.

use mezza_messenger::card::{CardForm, OFFLINE_PART};
use mezza_messenger::{MeshInput, MeshReport};

use super::*;

/// Tells the device the network time of a mesh node.
fn report_clock(shell: &mut NodeShell) -> Result<(), Refused> {
    let tick = (now().as_ms() / 30_000) as u32;
    let clock = MeshReport {
        cur: tick,
        own: tick,
        within_ms: 1_000,
        settled: true,
        around: 0,
        boot_ms: 1_000,
        level: 1,
    };
    shell.run_command(Input::Carrier(MeshInput::Clock(clock).into()))
}

fn mesh_part(shell: &NodeShell) -> Option<Vec<u8>> {
    let card = shell.unlocked_device().ok()?.card(CardForm::Full).ok()?;
    card.part(OFFLINE_PART).map(<[u8]>::to_vec)
}

/// Makes the keys of the mesh while one step of the disk fails, and then with a disk that works. Returns
/// false if the step did not occur.
fn make_keys_twice(
    shell: &mut NodeShell,
    step: WriteStep,
    after: u32,
    crashes: bool,
) -> Result<bool, Refused> {
    shell.create_identity("Ann", PASS, &[])?;
    report_clock(shell)?;
    let failing = Failing::after(after, step, step.errors()[0]);
    let made = shell.make_mesh_keys(false);
    drop(failing);
    let occurred = made.is_err();
    if occurred {
        assert_eq!(
            mesh_part(shell),
            None,
            "{step:?} after {after}: the card has keys that are not stored"
        );
    }
    if crashes {
        // Only what is stored is found again.
        shell.lock_vault();
    }
    shell.unlock_vault(PASS)?;
    report_clock(shell)?;
    shell.make_mesh_keys(false)?;
    let block = mesh_part(shell);
    assert!(block.is_some());
    shell.lock_vault();
    shell.unlock_vault(PASS)?;
    report_clock(shell)?;
    assert_eq!(mesh_part(shell), block, "{step:?} after {after}: the tree of the card is gone");
    assert!(shell.unlocked_device()?.set_aside().is_empty());
    Ok(occurred)
}

#[tokio::test]
async fn msg_135_keys_of_the_mesh_are_on_the_card_once_they_are_stored() {
    for crashes in [false, true] {
        for step in [WriteStep::Commit, WriteStep::Create, WriteStep::Write, WriteStep::Sync] {
            for after in 0.. {
                let folder = tempfile::tempdir().unwrap();
                let node = node::start_node(options(folder.path().join("vault"), None)).node;
                let make =
                    move |shell: &mut NodeShell| make_keys_twice(shell, step, after, crashes);
                if !node.ask(make).await.unwrap() {
                    assert!(after > 0 || step == WriteStep::Create, "{step:?} never occurs");
                    break;
                }
            }
        }
    }
}

/// A vault that was restored begins with new numbers in its first commit. If the disk refuses it, the node
/// stays locked: it would go on under the numbers of another life.
#[tokio::test]
async fn msg_91_a_restored_vault_runs_only_after_its_first_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = put_back(folder.path()).await;
    let follow = |shell: &mut NodeShell| {
        let mut refused = 0;
        for after in 0.. {
            let failing = Failing::after(after, WriteStep::Commit, Errno::ENOSPC);
            let unlocked = shell.unlock_vault(PASS);
            drop(failing);
            if unlocked.is_ok() {
                break;
            }
            refused += 1;
            assert!(shell.unlocked_device().is_err(), "{after} commits succeed");
        }
        assert!(refused > 0);
        let era = shell.unlocked_device()?.prekeys(shell.date()).signed.len();
        Ok(era)
    };
    let signed = node.ask(follow).await.unwrap();
    assert!(signed > 1, "prekeys of another life are not used as if they were ours");
}
