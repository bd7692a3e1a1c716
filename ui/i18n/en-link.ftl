## Links
link-screen-why = Two devices on one cable or local network write to each other without any server. They pair once, in person.
link-pair = Pair with the device of a contact
link-pair-why = Do this on both devices. One of them listens: its config.toml names the interface of the cable, and it was started again. The other one connects.
link-contact = Contact
link-nobody = You have no contact yet. Add their card first.
link-address = Address of their device (leave it empty on the device that listens)
link-begin = Pair
link-waiting = Waiting for the other device.
link-digits = Compare these six digits with the other device, in person
link-equal = They are equal
link-differ = They differ
link-sent = Waiting for the other side to confirm.
link-paired = The devices are paired. Allow the link in the rules of this conversation.
link-rules = Open the rules
link-failed = Not paired: { $why }
link-cancel = Stop
