//! State that the program stores beside the device: passphrase, drafts, changes.

use mezza_messenger::policy::Policy;

use super::*;
use crate::node::shell::beside::DRAFT_BYTES_MAX;
use mezza_host::api::json::{ChangeJson, ChangeWhat, ContactPatch};
use mezza_host::api::views::note_id;

/// Returns the card of a contact, and that person's next card under another name.
async fn somebody(folder: &Path) -> (String, String) {
    let other = node::start_node(options(folder.join("other"), None)).node;
    let made = move |shell: &mut NodeShell| {
        shell.create_identity("Ben", PASS, &[])?;
        let card = shell.card_text(CardFormJson::Full)?.uri;
        shell.renew_card(Some("Benjamin".into()), None)?;
        Ok((card, shell.card_text(CardFormJson::Full)?.uri))
    };
    other.ask(made).await.unwrap()
}

/// Starts a node with one contact. Returns it with the contact's next card.
async fn with_contact(folder: &Path) -> (NodeHandle, ContactId, String) {
    let (card, next) = somebody(folder).await;
    let node = node::start_node(options(folder.join("vault"), None)).node;
    let begin = move |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        shell.add_contact(&card, None, false)
    };
    let contact = node.ask(begin).await.unwrap();
    (node, contact_id(&contact.id).unwrap(), next)
}

fn again(shell: &mut NodeShell) -> Result<(), Refused> {
    shell.lock_vault();
    shell.unlock_vault(PASS)
}

#[tokio::test]
async fn vault_10_a_running_node_changes_its_passphrase() {
    const NEW: &[u8] = b"another passphrase";
    let folder = tempfile::tempdir().unwrap();
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    let change = |shell: &mut NodeShell| {
        shell.create_identity("Ann", PASS, &[])?;
        let wrong = shell.change_passphrase(b"a wrong passphrase", NEW).unwrap_err();
        assert_eq!((wrong.word, wrong.fault.code), ("passphrase", Exit::Denied));
        let failing = Failing::after(0, WriteStep::Write, Errno::ENOSPC);
        let full = shell.change_passphrase(PASS, NEW).unwrap_err();
        drop(failing);
        assert_eq!(full.fault.code, Exit::CannotWrite);
        assert!(full.fault.next.contains("both passphrases"), "{}", full.fault);
        // Exactly one of the old and the new passphrase is valid now.
        if let Err(refused) = shell.change_passphrase(PASS, NEW) {
            assert_eq!(refused.word, "passphrase");
            shell.change_passphrase(NEW, NEW)?;
        }
        shell.lock_vault();
        assert_eq!(shell.unlock_vault(PASS).unwrap_err().word, "passphrase");
        assert_eq!(shell.change_passphrase(NEW, PASS).unwrap_err().word, "locked");
        shell.unlock_vault(NEW)?;
        Ok(shell.own_identity()?.name)
    };
    assert_eq!(node.ask(change).await.unwrap(), "Ann");
}

/// The user deleted two notes, and the disk refuses while the vault is locked. They are deleted once it takes
/// writes again.
#[tokio::test]
async fn web_19_a_deletion_that_the_disk_refused_is_repeated_after_an_unlock() {
    let folder = tempfile::tempdir().unwrap();
    let (node, id, _) = with_contact(folder.path()).await;
    let follow = move |shell: &mut NodeShell| {
        for client in [1, 2] {
            send(shell, id, client);
        }
        for note in shell.list_notes(id, None, 10)?.notes {
            shell.forget_soon(note_id(&note.id).unwrap())?;
        }
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        shell.lock_vault();
        drop(failing);
        shell.unlock_vault(PASS)?;
        assert_eq!(shell.list_notes(id, None, 10)?.notes.len(), 2);
        let later = shell.options.clock.boot().plus_ms(Time::MINUTE_MS);
        shell.forget_due(Some(later));
        Ok(shell.list_notes(id, None, 10)?.notes.len())
    };
    assert_eq!(node.ask(follow).await.unwrap(), 0);
}

#[tokio::test]
async fn web_15_a_draft_is_durable_and_goes_with_its_note_or_contact() {
    let folder = tempfile::tempdir().unwrap();
    let (node, id, _) = with_contact(folder.path()).await;
    let follow = move |shell: &mut NodeShell| {
        assert_eq!(shell.draft(id)?, "");
        shell.set_draft(id, "half a note")?;
        again(shell)?;
        assert_eq!(shell.draft(id)?, "half a note");
        // A disk error keeps the previous draft, and the next try succeeds.
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(shell.set_draft(id, "half a note and").is_err());
        drop(failing);
        assert_eq!(shell.draft(id)?, "half a note");
        shell.set_draft(id, "half a note and more")?;
        assert_eq!(
            shell.set_draft(id, &"x".repeat(DRAFT_BYTES_MAX + 1)).unwrap_err().fault.code,
            Exit::Malformed
        );
        // Another note keeps the draft; a note with the same text removes it.
        shell.send_note(id, [1; 16], "from elsewhere".into())?;
        assert_eq!(shell.draft(id)?, "half a note and more");
        shell.send_note(id, [2; 16], "half a note and more".into())?;
        again(shell)?;
        assert_eq!(shell.draft(id)?, "");
        shell.set_draft(id, "for somebody who goes")?;
        shell.delete_contact(id)?;
        assert_eq!(shell.draft(id).unwrap_err().word, "no_contact");
        again(shell)?;
        let rows = shell.open.as_mut().map(|open| open.vault.reload_records()).transpose()?;
        let kinds = rows.unwrap_or_default().into_iter().map(|(kind, ..)| kind);
        Ok(kinds.filter(|kind| matches!(kind, RecordKind::Draft | RecordKind::Change)).count())
    };
    assert_eq!(node.ask(follow).await.unwrap(), 0);
}

#[tokio::test]
async fn web_14_what_changes_is_a_line_that_lasts_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (node, id, renamed) = with_contact(folder.path()).await;
    let set = move |shell: &mut NodeShell, change: &dyn Fn(&mut Policy)| {
        let mut policy =
            shell.unlocked_device()?.contact(id).ok_or_else(Refused::no_contact)?.policy;
        change(&mut policy);
        shell.run_command(Command::Policy { contact: id, policy })
    };
    let lines = move |shell: &NodeShell| -> Result<Vec<ChangeJson>, Refused> {
        Ok(shell.changes(id)?.changes)
    };
    let follow = move |shell: &mut NodeShell| {
        assert!(lines(shell)?.is_empty(), "a contact that is new has not changed");
        set(shell, &|policy| policy.timer_s = 86_400)?;
        set(shell, &|policy| policy.timer_s = 86_400)?;
        shell.patch_contact(
            id,
            ContactPatch { name: Some("Benny".into()), ..ContactPatch::default() },
        )?;
        shell.add_contact(&renamed, None, false)?;
        let said = |shell: &NodeShell| -> Result<Vec<_>, Refused> {
            Ok(lines(shell)?
                .iter()
                .map(|one| (one.what, one.own, one.number, one.names.join(",")))
                .collect())
        };
        let two = [
            (ChangeWhat::Timer, true, Some(86_400), String::new()),
            (ChangeWhat::Name, true, None, "Benjamin".to_owned()),
        ];
        assert_eq!(said(shell)?, two);
        // The name that the user chose stays.
        assert_eq!(shell.contact(id)?.name, "Benny");
        again(shell)?;
        assert_eq!(said(shell)?, two);
        // A failed commit adds no line.
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(set(shell, &|policy| policy.level_min = 3).is_err());
        drop(failing);
        assert_eq!(said(shell)?, two);
        for n in 0..70 {
            set(shell, &|policy| policy.level_min = 1 + n % 4)?;
        }
        again(shell)?;
        let kept = lines(shell)?;
        assert!(kept.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
        Ok((kept.len(), kept.last().and_then(|last| last.number)))
    };
    assert_eq!(node.ask(follow).await.unwrap(), (64, Some(2)));
}

#[tokio::test]
async fn web_19_a_deletion_can_be_taken_back_and_is_done_before_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (node, id, _) = with_contact(folder.path()).await;
    let texts = move |shell: &NodeShell| -> Result<Vec<_>, Refused> {
        let notes = shell.list_notes(id, None, 10)?.notes;
        Ok(notes.into_iter().filter_map(|note| note.text).collect::<Vec<_>>())
    };
    let follow = move |shell: &mut NodeShell| {
        let mut numbers = Vec::new();
        for (number, text) in (1..).zip(["one", "two", "three"]) {
            let note = shell.send_note(id, [number; 16], text.into())?;
            numbers.push(note_id(&note.id)?);
        }
        for note in &numbers[..2] {
            shell.forget_soon(*note)?;
        }
        assert!(shell.keep_note(numbers[0]) && !shell.keep_note(numbers[2]));
        // The time of the deletion, by boot time.
        let boot = shell.options.clock.boot();
        shell.forget_due(Some(boot));
        assert_eq!(texts(shell)?, ["one", "two", "three"]);
        shell.forget_due(Some(boot.plus_ms(6_000)));
        assert_eq!(texts(shell)?, ["one", "three"]);
        assert!(!shell.keep_note(numbers[1]), "it is gone");
        // After a disk error the note is deleted a moment later.
        shell.forget_soon(numbers[0])?;
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        shell.forget_due(Some(boot.plus_ms(6_000)));
        drop(failing);
        assert_eq!(texts(shell)?, ["one", "three"]);
        shell.forget_due(Some(boot.plus_ms(20_000)));
        assert_eq!(texts(shell)?, ["three"]);
        shell.forget_soon(numbers[2])?;
        again(shell)?;
        assert!(texts(shell)?.is_empty(), "a lock from elsewhere deletes what was to be deleted");
        Ok(())
    };
    node.ask(follow).await.unwrap();
}

/// Returns the rows of a kind in the vault of a shell.
fn rows_of(shell: &mut NodeShell, wanted: RecordKind) -> Vec<(Vec<u8>, Wiping<Vec<u8>>)> {
    let open = shell.open.as_mut().expect("unlocked");
    let rows = open.vault.reload_records().expect("read").into_iter();
    rows.filter(|(kind, ..)| *kind == wanted).map(|(_, key, value)| (key, value)).collect()
}

fn put_row(shell: &mut NodeShell, kind: RecordKind, key: Vec<u8>, value: Wiping<Vec<u8>>) {
    let bucket = if kind == RecordKind::Draft { Retention::Rolling } else { Retention::Permanent };
    let put = WriteBatch(vec![RecordChange::Put { kind, key, bucket, value }]);
    shell.open.as_mut().expect("unlocked").vault.commit(&[put]).expect("written");
}

#[tokio::test]
async fn msg_42_a_contact_that_was_set_aside_has_its_draft_and_changes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (node, id, _) = with_contact(folder.path()).await;
    let follow = move |shell: &mut NodeShell| {
        shell.set_draft(id, "half a letter")?;
        shell.patch_contact(
            id,
            ContactPatch { name: Some("Benny".into()), ..ContactPatch::default() },
        )?;
        let mut policy =
            shell.unlocked_device()?.contact(id).ok_or_else(Refused::no_contact)?.policy;
        policy.timer_s = 86_400;
        shell.run_command(Command::Policy { contact: id, policy })?;
        let lines = shell.changes(id)?.changes.len();
        assert!(lines > 0);
        let whole = rows_of(shell, RecordKind::Contact);
        let (key, value) = whole.into_iter().next().expect("a contact");
        let damaged = Wiping::new(vec![0xff; value.len()]);
        put_row(shell, RecordKind::Contact, key.clone(), damaged);
        again(shell)?;
        assert!(
            shell.unlocked_device()?.contacts().is_empty()
                && !shell.unlocked_device()?.set_aside().is_empty()
        );
        put_row(shell, RecordKind::Contact, key, value);
        again(shell)?;
        assert_eq!(shell.draft(id)?, "half a letter");
        assert_eq!(shell.changes(id)?.changes.len(), lines);
        // A malformed draft and a malformed change are reported and stay stored.
        put_row(shell, RecordKind::Draft, vec![0, 0, 0, 9], Wiping::new(vec![0xff, 0xfe]));
        put_row(shell, RecordKind::Change, vec![0, 0, 0, 9, 0, 0, 0, 7], Wiping::new(vec![1]));
        again(shell)?;
        let aside: usize =
            shell.unlocked_device()?.set_aside().iter().map(|part| part.records).sum();
        assert_eq!(aside, 2, "both are in the person's sight");
        Ok(())
    };
    node.ask(follow).await.unwrap();
}

#[tokio::test]
async fn web_20_locking_and_unlocking_are_told_to_all_who_listen() {
    let folder = tempfile::tempdir().unwrap();
    let node = node::start_node(options(folder.path().join("vault"), None)).node;
    node.ask(|shell| shell.create_identity("Ann", PASS, &[])).await.unwrap();
    let mut live = node.events().listen(None).live;
    node.ask(again).await.unwrap();
    let mut told = Vec::new();
    while told.last() != Some(&EventKind::Unlocked) {
        told.push(live.recv().await.unwrap().kind);
    }
    assert!(told.contains(&EventKind::Locked), "{told:?}");
}
