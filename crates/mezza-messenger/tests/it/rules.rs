//! One test for each rule of the specification that the device keeps.

use mezza_messenger::evidence::State;

use crate::stage::Stage;

#[test]
fn two_people_talk() {
    let (mut stage, bob, alice) = Stage::friends();
    let note = stage.say(0, bob, "how are you?");
    assert_eq!(stage.state(0, note), State::Delivered);
    assert_eq!(stage.texts(1, alice), ["hello bob", "> hello alice", "how are you?"]);
    assert_eq!(stage.texts(0, bob), ["> hello bob", "hello alice", "> how are you?"]);
}
