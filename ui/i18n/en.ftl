# Texts of the page, in English. A key that the page asks for and this file lacks fails the build, and so does one too many.

title = Mezzavoce
title-unread = ({ $count }) Mezzavoce
demo = DEMO
demo-why = Everything runs on this machine. Nothing here hides you from anybody.
demo-passphrase = This is the demo world; its passphrase is: demo

## Parts of the page, named when one of them fails
part-page = The page
part-people = The list of people
part-thread = The conversation
part-note = This note
part-composer = The writing field
part-failed = { $name } could not be shown.
part-failed-next = Everything else still works. Try again, or reload the page if this stays.
again = Try again

## Doors
closed = A fresh address is needed
closed-why = Each address opens one tab, once, so that nobody else on this machine can use it. For a new one, run in a terminal:
closed-command = mezza url
closed-paste = and open it, or paste it here
open = Open
unlock = Unlock
unlock-name = Unlock { $name }
unlock-why = Everything you keep is sealed under your passphrase. It is checked on this machine and goes nowhere.
unlocking = Unlocking…
passphrase = Passphrase
passphrase-show = Show it
create = Make your identity
create-why = It lives on this device only. There is no account and no phone number.
create-name = Your name, as others will see it
create-words = Six random words are hard to guess and easy to remember. Write them down: nobody can reset them.
create-words-take = Use these words
create-words-other = Other words
create-later = You can change name, passphrase and relay later, under Settings.
relay-own = Your relay: its address, or the card of the person who invited you
relay-why = It stores notes for you while you are away and cannot read them. Without a relay nobody can write to you.
relay-here = A relay is on this machine: { $host }:{ $port }, key { $key }.
relay-here-up = It runs.
relay-here-down = It does not run now.
relay-here-only = Only people on this machine can reach it at this address.
relay-here-take = Use the one on this machine
relay-here-taken = The relay on this machine is yours already.
relay-from = Where do I get a relay?
relay-from-friend = From the person who invited you.
relay-from-friend-how = Paste their card into the field. You then share their relay, and add them as a contact next.
relay-from-here = On this machine.
relay-run-why = This program can run a relay beside itself. Without a public address only people on this machine can reach it.
relay-run-address = Address under which others reach this machine, optional
relay-run = Run a relay here
relay-running = Starting the relay…
relay-run-command = The same in a terminal:
relay-from-operator = From an operator.
relay-from-operator-how = Paste the address that the operator gives you. It begins with mezzavoce:r1/.
create-do = Make it
creating = Making your keys…

## People and conversations
people = People and places
contact = Contact
contact-of = About { $name }
choose = Choose a conversation.
choose-none = Nobody here yet. Add a contact to begin.
no-notes = No notes yet
thread-empty = No notes yet. Write the first one below.
menu = Menu
menu-in = Menu: { $name }
unread = unread
offline = The program does not answer. Trying again…
back = Back to the list
back-thread = Back to the conversation
verified-short = Number compared
unverified-short = Number not compared yet
log = Conversation with { $name }
earlier = Earlier notes
timer-header = Notes disappear after { $time }
spot-gone = This note is not here any more.
spot-none = There is no note on that day or after it.
spot-later = No note on that day. This is the next one, from { $day }.
missing = { $count ->
    [one] One earlier note is not here: lost on the way, or deleted here
   *[other] { $count } earlier notes are not here: lost on the way, or deleted here
}
namesake = Another contact has the same name. This is a different person.
change-timer = You set the timer to { $time }
change-timer-theirs = { $name } set the timer to { $time }
change-timer-off = You switched the timer off
change-timer-off-theirs = { $name } switched the timer off
change-carriers = Your notes now use: { $names }
change-carriers-theirs = { $name } used another carrier, so your notes now use: { $names }
change-fallback = You allowed the next carrier if the first is down
change-fallback-off = You allowed no other carrier if the first is down
change-level = You set the lowest level of your notes to { $level }
change-life = You set how long your notes travel in the mesh: { $life }
change-life-setting = Your notes travel in the mesh for as long as this device is set to
change-name = They now call themselves { $claimed }
welcome = This is echo
welcome-why = Echo is a second device with its own keys, reached over the relay like anybody else. It answers with your own words and the carrier they came by. Write something and watch the state of your note change.
note-newer = This note needs a newer version of Mezzavoce.
note-cancel = Do not send it
note-forget = Delete it here
lower-why = It was written for level { $pin }. The conversation allows level { $level } now.
lower-do = Send it at level { $level }
lower-first = The conversation allows no level below { $pin }.
lower-where = Change the lowest level
note-forgotten = The note will be deleted in 5 seconds.
undo = Undo
turned = Characters that change the direction of text are shown and have no effect.
link-title = Open this address?
link-why = Your browser connects to { $host }. The operator of that host sees your network address and the time of the visit.
link-open = Open it
compose = Note to { $name }
compose-placeholder = Write a note
compose-closed = This conversation is closed
compose-blocked = You have blocked this contact
send = Send
cost = { $carrier }, level { $level }: { $cost }
cost-now = { $count ->
    [one] one piece
   *[other] { $count } pieces
}, about { $time }
cost-later = { $count ->
    [one] one piece
   *[other] { $count } pieces
}, when it is up again
cost-none = No carrier of level { $pin } is up. The note waits until one is.
bytes = { $bytes } of { $max } bytes
too-long = Too long for one note: { $size }. Split it in two.
file-refused = Not sent: { $name }, { $size }
files-refused = Not sent: { $count } files, { $size } together
carriage = Over the mixnet: { $cells ->
    [one] one cell
   *[other] { $cells } cells
} of { $bytes } bytes, one in each round, at least { $time }.
carriage-unknown = Over a mixnet: { $cells ->
    [one] one cell
   *[other] { $cells } cells
} of { $bytes } bytes, one in each round; how long that is depends on the network, and none is joined.
carriage-limits = This version sends text only, at most { $text } bytes in a note; a mixnet message is { $cells } cells, { $message } bytes.
carriage-fits = A text of this size fits into one message over: { $carriers }.
carriage-none = No carrier of this conversation accepts a text of this size.

## States: what the evidence proves, and no more
state-received = received
state-queued = waiting: { $why }
state-handed-relay = the relay took it
state-handed-mixnet = in the mixnet
state-handed-link = on the paired device
state-carried = carried, announced by { $count ->
    [one] one neighbour
   *[other] { $count } neighbours
}
state-carried-until = carried, announced by { $count ->
    [one] one neighbour
   *[other] { $count } neighbours
}, expires { $time }
state-delivered = on their device
state-read = read
state-expired = not confirmed before it expired; it may have arrived
state-expired-short = not confirmed before it expired
why-sending = being sent
why-no-carrier = no carrier is up
why-below-pin = no carrier that is up reaches this conversation's lowest level
why-too-big = too big for this carrier
why-keys = waiting for their keys
why-bundle = waiting: their keys at the relay were refused
why-answer = waiting for their answer
why-box-gone = their mailbox is gone; ask them for a new card
why-box-full = their mailbox is full
why-budget = the privacy budget is used up
why-call-budget = the budget of calls is used up
why-slow = the relay asked to slow down
why-own-keys = you have no keys for the mesh; make them under Mesh
why-new-card = their card has no address there; ask for their new card, and add it
why-no-neighbours = no neighbour of the mesh is received
why-guard = the guard on the way is not reached, or refuses; nothing goes around it
fact-written = Written
fact-sent = Sent, by their clock
fact-received = Received
fact-handed = Accepted by the carrier
fact-carried = Announced by a neighbour
fact-delivered = On their device
fact-read = Read
fact-path = Over
fact-pin = Lowest level allowed
fact-carried-until = Carried until
fact-due = Can arrive until

## Carriers and levels
carrier-relay = relay
carrier-mixnet = mixnet
carrier-mesh = mesh
carrier-link = link
path = { $carrier }, level { $level }
level-1 = Level 1: what you write is hidden from everyone but the two devices. Who writes to whom is not.
level-2 = Level 2: who writes to whom is hidden too, from any one operator.
level-3 = Level 3: who writes to whom is hidden too, from an observer of all traffic.
level-4 = Level 4: even whether you converse at all is hidden.
carriers = Carriers
carriers-caption = Carriers compared: what is proven now, what each hides from whom, delay and cost
carrier-up = up
carrier-down = down
carriers-none = No carrier yet. Choose a relay under Settings, or join a mixnet.
row-proven = Proven now
row-delay = Delay
row-cost = Cost
row-keeps = Keeps notes
proven-demo = a demonstration, which protects nothing
proven-noise = noise at the standard level
proven-weak-noise = noise below the standard level
delay-text = usually { $usual }, seldom more than { $most }
costs-relay = One message for each note.
costs-mixnet = One message of the same size in every round, whether you write or not.
costs-mesh = Each device around receives it, and its radio or network can be observed.
costs-link = One message for each note, on this link only.
cost-size = At most { $size } in a note.
keeps-for = up to { $time }
keeps-not = not at all
from-provider = Your provider
from-relay = The relay
from-observer = An observer of all traffic
from-thief = A thief
hides = hidden:
sees = seen:
hide-text = what you write
hide-use = that you use Mezzavoce
hide-partners = who writes to whom
hide-talk = whether you converse at all
hide-device = what is on a locked device
key-hidden = hidden
key-seen = seen
pin = Lowest level
pin-lowest = Lowest protection allowed for notes to this contact
pin-blocks = Blocked: { $carriers }.
pin-blocks-all = Blocked: { $carriers }. No other carrier is up, so your notes would wait here.
pin-blocks-none = Nothing is blocked.
pin-later = This applies to notes you write from now on. A waiting note keeps the level that it was written with, until you send it at the new one.

## A contact
standing-held = You have their card. Nothing sent yet.
standing-asked = Request sent. Waiting for a first answer.
standing-open = In conversation
standing-request = Asks to write to you
standing-blocked = Blocked
number = Safety number
number-why = If both of you see these digits, nobody is between you: compare them in person or on a call.
number-scan = Show as a code
verify = They match: mark as compared
verify-undo = Remove the mark
verified-number = Number compared on { $day }
verified-person = Scanned in person on { $day }
rules = Rules
timer = Disappearing notes
timer-never = off
timer-after = { $time } after they are written or arrive
timer-why = It applies to both of you and to notes written from now on. It protects from a finder of the devices, not from each other.
ways = Carriers for your notes
ways-first = first
ways-absent = not on this device
ways-prefer = Use { $carrier } first
fallback = If the first is down, use the next
receipts = Receipts
receipt-delivered = Tell them when a note is on this device
receipt-read = Tell them when I have read it
name = Name
name-yours = Your name for them
name-optional = optional
name-long = Too long: { $bytes } of { $max } bytes. Shorten it.
name-claimed = They call themselves { $name }.
save = Save
block = Block
unblock = Unblock
block-why = Notes from a blocked contact are dropped without an answer. The contact is not told.
delete = Delete
delete-title = Delete { $name }?
delete-why = The contact and all notes with them leave this device. This cannot be undone.
cancel = Cancel

## Adding
add = Add a contact
add-why = Exchange cards: let them scan yours, and add theirs.
add-do = Add
share-relay = { $name } is a contact now. You have no relay. You can share theirs, { $host }: it then stores notes for both of you.
share-relay-do = Use their relay
share-relay-not = Not now
mine = Your card
mine-why = It holds your name, your keys and your relay. Anyone who has it can ask to write to you.
mine-qr = QR code of the card of { $name }
mine-me = { $name }, card number { $serial }
copy = Copy as text
copied = Copied
copy-refused = The browser did not allow copying.
copy-refused-next = Show the card in a terminal with: mezza card
theirs = Their card
theirs-why = Scan it, or paste its text.
paste = Card as text
in-person = They are here with me: this is certainly their card
scan-file = From a picture
scan-camera = With the camera
scan-stop = Stop the camera
scan-found = Card found. Check it and add it.
card-says = This card says it is { $name }’s, number { $serial }.
card-known = You have this contact already, as { $name }; adding the card again keeps the newer one.
card-relay = Notes go to the relay { $host }.
card-no-address = It has no address, so no note of yours leaves with it. Ask for a newer card.
scan-no-camera = No camera can be used. Choose a picture of the code or paste the text.
scan-no-image = This file is not a picture the browser can open. Choose a PNG or JPEG.
scan-no-canvas = The browser cannot draw the picture. Paste the card as text.
requests = requests
requests-title = Requests to write to you
requests-none = No requests at the moment.
requests-card = Show your card
requests-why = The sender does not learn that you saw this until you accept.
accept = Accept
refuse = Refuse
guest = Someone new (no name yet)
guest-why = They invite you over the mixnet. Nothing is sent to them until you ask.
guest-see = Ask who it is
guest-asked = Asked. The name comes with the next rounds of the mixnet.

## Settings
settings = Settings
settings-why = What you chose at the start, and how the program and this page behave.
settings-program = The program
settings-relay-none = None: nobody can write to you.
settings-relay-take = Use this relay
settings-relay-change = Move to this relay
settings-relay-why = Your contacts get a new card.
settings-moved = Saved. Your contacts get card number { $serial } with your next note.
settings-named = Saved: { $name }. Your contacts get card number { $serial } with your next note.
settings-lock-after = after { $time } without you
settings-observer = Record the view of provider, relay and thief (in memory only)
settings-observer-on = The observer is recording.
settings-observer-off = The observer is off. Its records are deleted.
settings-kept = Saved in config.toml. Options given when the program starts win over this.
settings-page-why = Kept in this browser.
colours = Colours
colours-system = system
colours-light = light
colours-dark = dark
language = Language
passphrase-old = Current passphrase
passphrase-new = New passphrase
passphrase-copies = Older copies of your vault still open with the old passphrase.
passphrase-change = Change it
passphrase-changing = Sealing…
passphrase-changed = Changed and tested: the new passphrase opens the vault from now on.
banner-relay = You have no relay: nobody can write to you.
banner-mixnet = You have no relay: people can write to you over the mixnet only.
banner-do = Choose one

banner-backup = Backup: { $why }.

## Backup, restore, move
first = How to begin
first-new = New
first-restore = Restore
first-move = Move
file-why = The full path on this machine.
backup = Backup
backup-why = One file restores your identity, contacts and notes on another machine.
backup-open = Backups
backup-none = No backup has been made yet.
backup-last = The last backup is from { $day }.
backup-make = Make a backup
backup-not-in = Notes with a timer are never in a backup. Keep the file on another disk, and its passphrase on paper: nobody can reset it.
backup-file = New file
backup-passphrase = Passphrase of the backup
backup-do = Make the backup
backup-making = Making the backup…
backup-made = The backup is in { $file }.
backup-contents = { $contacts ->
    [one] One contact
   *[other] { $contacts } contacts
} and { $notes ->
    [one] one note
   *[other] { $notes } notes
}, from { $day }, { $time }.
backup-check = Check a backup
backup-check-why = Opens a backup and reads all of it. Nothing is changed.
backup-check-do = Check it
backup-checking = Reading the backup…
backup-checked = The whole file is readable.
backup-auto = Backups without you
backup-auto-why = The program makes backups into a folder while it runs unlocked. The folder also gets key.age, which opens them with the passphrase: copy both together.
backup-auto-now = One backup into { $folder } every { $time }; the newest { $keep } are kept.
backup-auto-do = Begin
backup-auto-stop = Make no more
backup-auto-on = The program makes backups into { $folder }.
backup-auto-off = The program makes no more backups. Those that are there stay.
backup-folder = Folder
backup-every = Time between two backups
backup-keep = How many are kept
restore = Restore a backup
restore-why = Your identity, contacts and notes come back as they were in the backup.
restore-file = File of the backup
restore-passphrase = Passphrase of the backup
restore-new = New passphrase for this device
restore-then = Do not run the lost device again. Every contact sees that a backup was restored.
restore-do = Restore it
restoring = Restoring the backup…
restored-ahead = { $count ->
    [one] One note of yours is on their device and not here
   *[other] { $count } notes of yours are on their device and not here
}
restored-unsure = { $count ->
    [one] One note may have been sent since the backup: send it again, or discard it
   *[other] { $count } notes may have been sent since the backup: send them again, or discard them
}
restored-lost = { $count ->
    [one] One note was on their device and is not any more: deleted there, or not in a restored backup
   *[other] { $count } notes were on their device and are not any more: deleted there, or not in a restored backup
}
mark-unsure = May have been sent since { $day }
mark-lost = Was on their device and is not any more: deleted there, or not in a restored backup
mark-send = Send again
mark-discard = Discard
why-restored = you decide, because a backup was restored
move = Move to another device
move-why = Everything goes to the new device, and this one is empty afterwards. Your contacts notice nothing.
move-open = Move to another device
move-demo = The demo world cannot be moved.
move-back = Back to the settings
move-go-on = Go on with the move
move-recipient = Recipient, as the new device shows it
move-file = New file, on a USB stick for example
move-out-1 = 1. Write everything to a file
move-out-stops = The program stops here until the move is finished or given up.
move-out-do = Write the file
move-out-2 = 2. Compare the digits
move-out-compare = Open the file on the new device. It shows eight digits. Type them here. The identity on this device is then destroyed, and a key for the new device is shown.
move-digits = Digits
move-out-finish = Destroy the identity here
move-out-again = Write the file again
move-cancel = Give up the move
moving = Moving…
moved = This device is empty now
moved-why = Your identity has moved. The new device needs this key:
moved-then = When the new device runs, delete the file, and remove the rest here in a terminal with: mezza purge
move-in = Move from another device
move-in-why = Everything comes here, and the old device is empty afterwards.
move-in-1 = 1. On the old device: Settings, Move to another device
move-in-qr = QR code of the recipient
move-in-2 = 2. Open the file that it wrote
move-file-here = File of the move
move-digits-show = Show the digits
move-in-digits = Type these digits on the old device. It then shows a key.
move-in-3 = 3. Enter the key
move-key = Key, as the old device shows it
move-in-do = Move in
copy-text = Copy
copy-refused-select = Select the text and copy it yourself.

## Observer
observer = What the relay sees
observer-why = The same note as your provider, the relay and a thief of the disk see it: real bytes, each field named by its decoder.
observer-say = Write a note to echo and watch
observer-nothing = No traffic yet. Send a note.
observer-off = The observer is off. It records nothing until you turn it on, here or with: mezza node run --observe
observer-turn-on = Turn it on
observer-write = Write to somebody
moments = Moments
moment-to = Note to { $name }
moment-from = Note from { $name }
moment-notes = { $count } notes
moment-none = No note: receipts and requests
moment-events = { $count ->
    [one] one event
   *[other] { $count } events
}
see-you = What was written
see-provider = Your internet provider
see-provider-why = Below TLS: addresses, times and sizes.
see-relay = The relay
see-relay-why = Inside TLS: which mailbox, which size, when.
see-thief = A thief of the disk
see-thief-why = Files of the relay and of your vault, switched off.
see-nothing = Saw nothing in this moment.
way-in = to you
way-out = from you
way-rest = on disk
sight-bytes = { $count ->
    [one] one byte
   *[other] { $count } bytes
}
fields = Fields
field-bytes = { $count } B
dump = Bytes of event { $n }
dump-all = Show all { $count } bytes
dump-less = Show less

## Mixnet
mixnet = Mixnet
mixnet-why = Servers that pass on messages of one size in rounds, to hide who writes to whom.
mixnet-join = Join a mixnet
mixnet-join-why = In a mixnet everybody sends one message of the same size in every round, and servers of several people mix them and add noise, so that nobody who watches can tell who writes to whom. Ask its operator for the link and paste it here; its hash checks what the server says.
mixnet-link = Link to a mixnet
mixnet-join-do = Join
mixnet-joining = Asking the network…
mixnet-now = The network now
mixnet-state = State
mixnet-up = up: it takes part in each round
mixnet-down = down: no round comes back
mixnet-level = Protection
mixnet-level-why = Level 4 needs strong noise, budget, and 128 users in several rounds in a row.
mixnet-id = Network
mixnet-round = Open round
mixnet-number = { $number }
mixnet-interval = A round every
mixnet-users = Users
mixnet-users-said = { $users } in the last round, as the entry server reports
mixnet-mixes = Mixes in the chain
mixnet-noise-each = Noise of each mix
mixnet-noise = { $law }, mean { $mean }, scale { $scale }
mixnet-unknown = not known yet
law-gauss = Gaussian
law-paper = Laplace
no-promise-why = The noise promises nothing: do not rely on it to hide who you write to.
weak-noise-why = The noise of this network is below the standard level, so it counts as level 1. The budget shows what it promises.
budget = Privacy budget
budget-conversation = Conversation
budget-call = Calls
budget-invitation = Invitations
budget-used = { $used } of { $max } rounds used ({ $part } %)
budget-spent = { $used } of { $max } rounds used: the promise is used up, so no note goes over the mixnet
budget-idle = Against “I was idle in these rounds”: what somebody thought 50 % likely becomes at most { $likely } % likely; { $chance }.
budget-other = Against “I talked with somebody else at other times” twice as many rounds differ; { $chance }.
budget-years = After two years with spent budgets: { $chance }.
budget-chance = it keeps less with a chance of one in { $one }
budget-no-promise = it promises nothing
budget-unlimited = None: this network promises nothing ({ $used } rounds taken part in)
mixnet-alarms = Alarms
mixnet-alarmed = { $count ->
    [one] Once noise of a mix did not come back. Somebody may be dropping messages.
   *[other] { $count } times noise of a mix did not come back. Somebody may be dropping messages.
}
mixnet-clock = Clock
mixnet-clock-right = agrees with the network
mixnet-clock-off = This clock and the network’s differ. Set the clock: until then this device joins no round.
leave = Leave this mixnet
leave-title = Leave this mixnet?
leave-do = Leave
leave-elsewhere = { $count ->
    [one] One note that is not delivered goes
   *[other] { $count } notes that are not delivered go
} by the next carrier of the conversation.
leave-waiting = { $count ->
    [one] One note waits
   *[other] { $count } notes wait
}, as no other carrier is allowed at its level.
leave-unreachable = Nothing is sent to { $names } until you allow another carrier there.
leave-guests = { $count ->
    [one] One invitation of somebody without a name is dropped.
   *[other] { $count } invitations of people without a name are dropped.
}
leave-kept = The used part of the privacy budget is kept, and counts again if you join this mixnet again.
left = You have left the mixnet
mixnet-hiding = What it hides, and what not
mixnet-hides = Hidden, with strong noise and many users
mixnet-hides-lines = From your provider and from an observer of every line: who you write to, and whether you write at all.
mixnet-hides-servers = From the servers: the same, as long as one mix of the chain is honest.
mixnet-hides-text = From all of them, always: what you write.
mixnet-shows = Not hidden
mixnet-shows-use = That you use this network, and when. Two people who are always online together stand out by that alone.
mixnet-shows-all = Who writes to whom, if all mixes of the chain work together.
mixnet-shows-partner = What you tell the person you write to. Your other contacts can see that you are absent then.
mixnet-shows-time = Each round in which you converse reveals a little. The budget counts them.
mixnet-unaudited = Nobody outside this project has examined its design or its code yet.

## Search
search = Search
search-why = Search runs on this device. Nothing of it leaves.
search-in = Search in the conversation with { $name }
search-text = Text
search-where = Conversation
search-all = All conversations
search-own = You to { $name }
search-day = Go to a day
search-day-do = Go to this day
search-day-first = Choose a conversation to go to a day in it.
search-none = No note contains “{ $text }”.
search-found = { $count ->
    [one] One note
   *[other] { $count } notes
}
search-more = The newest { $count } notes. There are more: write more of the text.
search-clear = Search for something else

## Mesh
link-screen = Link
guard = Guard
mesh = Mesh
life = Time in the mesh
life-why = It applies where notes go over the mesh, from the next one on. If their card does not offer it, a shorter one is used.
life-setting = as this device is set
life-setting-now = as this device is set: { $life }
life-note = This note in the mesh:
life-note-rules = as the conversation
life-name-minute = at most 1 minute
life-name-half-hour = at most 1 hour
life-name-half-day = at most 1 day
life-minute = At most 1 minute. A note arrives only if the devices between you and the receiver are connected now.
life-minute-risk = The keys are erased after at most 1 minute. Whoever takes the receiver’s device later cannot open notes that were recorded on their way.
life-half-hour = At most 1 hour. People who walk from one place to another can carry a note.
life-half-hour-risk = The keys are erased after at most 1 hour. Whoever takes the receiver’s device within this hour can open notes that were recorded on their way.
life-half-day = At most 1 day. A note can wait until people meet.
life-half-day-risk = The keys are erased after at most 1 day. Whoever takes the receiver’s device within this day can open notes that were recorded on their way.

## Health
health = Health
health-why = The state of the program and of the things that it needs.
health-lines = Checks
health-again = Check again
ok = ok
not-ok = needs attention
none = none
me = This device
me-id = Identity
me-card = Card
me-serial = number { $serial }, issued { $day }
me-suites = Suites
me-relays = Relays
me-stock = One-time keys at the relay
me-lock = Locks itself
me-lock-after = after { $minutes } minutes without you
me-lock-never = never
me-version = Version

## Help, theme, trouble
help = Help
help-title = How to read this page
help-states = Each note you send shows what is proven about it:
help-handed = The relay has stored it and cannot read it.
help-delivered = Their device confirmed it, under your shared keys.
help-expired = No confirmation came back in time. It may have arrived.
help-level = The number is the level of protection, from 1 (what you write is hidden) to 4 (even that you converse is hidden). A conversation never sends below the level you set.
help-number = To be sure who you write to, compare the safety number once.
help-keys = Enter sends, Shift and Enter start a new line, Tab moves through everything. A slash outside of a field opens the search.
close = Close
lock = Lock
dismiss = Dismiss
theme-system = Colours of the system. Change to light
theme-light = Light colours. Change to dark
theme-dark = Dark colours. Change to those of the system
low = Someone may be using up your one-time keys at the relay. Notes stay safe; first notes are a little weaker.
trouble = Something needs your attention. Open Health.
error-unknown = This page does not understand the program’s answer
error-unknown-next = Reload the page. If that does not help, restart the program.
error-unreachable = The program does not answer
error-unreachable-next = Is it running? Start it with: mezza up
