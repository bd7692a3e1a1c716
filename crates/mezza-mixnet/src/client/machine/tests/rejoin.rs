//! A network that is left, and joined again.

use super::*;

#[test]
fn mix_69_a_network_that_is_joined_again_has_its_ledger_and_last_rounds() {
    let config = config(3);
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    assert!(Client::<PortableBackend>::new(setup(&config), NOW).encode_remembered().is_none());
    let mut client = joined(&config);
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client.goes_to(RoundId { service: Service::Call, round: 77 });
    client.unread.insert(Service::Conversation);
    let ledger = client.ledger.as_mut().expect("joined");
    ledger.record_join(90, 0, 1_000);
    ledger.charge_round(PrivacyCost::from_policy(&config.services[0]));
    let left = client.encode_remembered().expect("a config is known");
    let mut again: Client = Client::rejoin(setup(&config), &left, NOW, rng).expect("it was left");
    assert_eq!((again.chain(), again.ledger()), (client.chain(), client.ledger()));
    assert_eq!((&again.last, &again.unread), (&client.last, &client.unread));
    assert!(!again.has_contact(0), "its chains are gone");
    // What it stores first is enough for a start.
    let stored = rows(&mut again);
    let started = restore(&config, &stored).expect("what a client wrote");
    assert_eq!((started.ledger(), &started.last), (client.ledger(), &client.last));
    let other = ClientOptions { pin: [9; 32], ..setup(&config) };
    assert!(Client::<PortableBackend>::rejoin(other, &left, NOW, rng).is_err());
}
