//! What the program keeps beside the device: passphrase, drafts, changes.

use mezza_messenger::policy::Policy;

use super::*;
use crate::node::shell::beside::DRAFT_BYTES_MAX;
use mezza_host::api::json::{ChangeJson, ChangeWhat, ContactPatch};

/// The card of somebody else, and the next one of the same person under another name.
async fn somebody(folder: &Path) -> (String, String) {
    let other = node::start(options(folder.join("other"), None)).node;
    let made = move |shell: &mut NodeShell| {
        shell.create("Ben", PASS, &[])?;
        let card = shell.card(CardFormJson::Full)?.uri;
        shell.renew(Some("Benjamin".into()), None)?;
        Ok((card, shell.card(CardFormJson::Full)?.uri))
    };
    other.ask(made).await.unwrap()
}

/// A node with one contact, and the next card of that contact.
async fn with_contact(folder: &Path) -> (NodeHandle, ContactId, String) {
    let (card, next) = somebody(folder).await;
    let node = node::start(options(folder.join("vault"), None)).node;
    let begin = move |shell: &mut NodeShell| {
        shell.create("Ann", PASS, &[])?;
        shell.add(&card, None, false)
    };
    let contact = node.ask(begin).await.unwrap();
    (node, contact_id(&contact.id).unwrap(), next)
}

fn again(shell: &mut NodeShell) -> Result<(), Refused> {
    shell.lock();
    shell.unlock(PASS)
}

#[tokio::test]
async fn vault_10_a_running_node_changes_its_passphrase() {
    const NEW: &[u8] = b"another passphrase";
    let folder = tempfile::tempdir().unwrap();
    let node = node::start(options(folder.path().join("vault"), None)).node;
    let change = |shell: &mut NodeShell| {
        shell.create("Ann", PASS, &[])?;
        let wrong = shell.change_passphrase(b"a wrong passphrase", NEW).unwrap_err();
        assert_eq!((wrong.word, wrong.fault.code), ("passphrase", Exit::Denied));
        let failing = Failing::after(0, WriteStep::Write, Errno::ENOSPC);
        let full = shell.change_passphrase(PASS, NEW).unwrap_err();
        drop(failing);
        assert_eq!(full.fault.code, Exit::CannotWrite);
        assert!(full.fault.next.contains("both passphrases"), "{}", full.fault);
        // The old one or the new one holds now, and exactly one of them.
        if let Err(refused) = shell.change_passphrase(PASS, NEW) {
            assert_eq!(refused.word, "passphrase");
            shell.change_passphrase(NEW, NEW)?;
        }
        shell.lock();
        assert_eq!(shell.unlock(PASS).unwrap_err().word, "passphrase");
        assert_eq!(shell.change_passphrase(NEW, PASS).unwrap_err().word, "locked");
        shell.unlock(NEW)?;
        Ok(shell.me()?.name)
    };
    assert_eq!(node.ask(change).await.unwrap(), "Ann");
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
        // A disk that refuses: what was there before stays, and the next try succeeds.
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(shell.set_draft(id, "half a note and").is_err());
        drop(failing);
        assert_eq!(shell.draft(id)?, "half a note");
        shell.set_draft(id, "half a note and more")?;
        assert_eq!(
            shell.set_draft(id, &"x".repeat(DRAFT_BYTES_MAX + 1)).unwrap_err().fault.code,
            Exit::Malformed
        );
        // Another note leaves it alone, the same text takes it along.
        shell.send(id, [1; 16], "from elsewhere".into())?;
        assert_eq!(shell.draft(id)?, "half a note and more");
        shell.send(id, [2; 16], "half a note and more".into())?;
        again(shell)?;
        assert_eq!(shell.draft(id)?, "");
        shell.set_draft(id, "for somebody who goes")?;
        shell.delete(id)?;
        assert_eq!(shell.draft(id).unwrap_err().word, "no_contact");
        again(shell)?;
        let rows = shell.open.as_mut().map(|open| open.vault.records()).transpose()?;
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
        let mut policy = shell.device()?.contact(id).ok_or_else(Refused::no_contact)?.policy;
        change(&mut policy);
        shell.command(Command::Policy { contact: id, policy })
    };
    let lines = move |shell: &NodeShell| -> Result<Vec<ChangeJson>, Refused> {
        Ok(shell.changes(id)?.changes)
    };
    let follow = move |shell: &mut NodeShell| {
        assert!(lines(shell)?.is_empty(), "a contact that is new has not changed");
        set(shell, &|policy| policy.timer_s = 86_400)?;
        set(shell, &|policy| policy.timer_s = 86_400)?;
        shell.patch(id, ContactPatch { name: Some("Benny".into()), ..ContactPatch::default() })?;
        shell.add(&renamed, None, false)?;
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
        // The name that the person chose stays.
        assert_eq!(shell.contact(id)?.name, "Benny");
        again(shell)?;
        assert_eq!(said(shell)?, two);
        // A commit that fails leaves no line.
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
