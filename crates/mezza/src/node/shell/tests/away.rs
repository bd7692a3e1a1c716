//! Tests that a lock or a crash removes state for good.

use super::*;

fn planted(shell: &NodeShell, since: u64) -> bool {
    let missed = shell.events.listen(Some(since)).missed;
    serde_json::to_string(&missed).unwrap().contains("a planted text")
}

#[tokio::test]
async fn a_locked_node_remembers_no_text_that_it_told() {
    let folder = tempfile::tempdir().unwrap();
    let ben = node::start_node(options(folder.path().join("ben"), None)).node;
    let card = ben.ask(|shell| {
        shell.create_identity("Ben", PASS, &[])?;
        shell.card_text(CardFormJson::Full)
    });
    let card = card.await.unwrap();
    let ann = node::start_node(options(folder.path().join("ann"), None)).node;
    let told = move |shell: &mut NodeShell| {
        let since = shell.events.listen(Some(0)).missed[0].cursor.unwrap();
        shell.create_identity("Ann", PASS, &[])?;
        let contact = contact_id(&shell.add_contact(&card.uri, None, false)?.id).unwrap();
        let text = "a planted text".into();
        shell.run_command(Command::Send { contact, client: [1; 16], text, life: None })?;
        let before = planted(shell, since);
        shell.lock_vault();
        Ok((before, planted(shell, since), planted(shell, 0)))
    };
    assert_eq!(ann.ask(told).await.unwrap(), (true, false, false));
}

/// A pending fact of the dropped device would overwrite newer rows.
#[tokio::test]
async fn what_waited_for_a_commit_that_failed_is_gone_with_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = put_back(folder.path()).await;
    let back = |shell: &mut NodeShell| {
        shell.unlock_vault(PASS)?;
        let kind = RecordKind::Setting;
        let key = b"waits".to_vec();
        let bucket = Retention::Permanent;
        let value = Wiping::new(vec![1]);
        let put = RecordChange::Put { kind, key, bucket, value };
        shell.later.batches.push(WriteBatch(vec![put]));
        shell.later.end = Some(shell.options.clock.boot());
        let failing = Failing::after(0, WriteStep::Commit, Errno::ENOSPC);
        assert!(shell.resume_restored().is_err(), "what the person decided is not written");
        drop(failing);
        Ok((shell.later.batches.len(), shell.later.end))
    };
    assert_eq!(node.ask(back).await.unwrap(), (0, None));
}
