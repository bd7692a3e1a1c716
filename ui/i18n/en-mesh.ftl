## The mesh
mesh-why = Devices nearby pass notes on from one to the next, without internet and without a server.
mesh-off = This program carries no mesh
mesh-off-why = Write this line into config.toml of this home, and start the program again:
mesh-now = The mesh now
mesh-network = Network
mesh-closed = closed: only devices with its secret take part
mesh-around = Neighbours
mesh-around-count = { $count ->
    [0] none is heard
    [one] one neighbour is heard
   *[other] { $count } neighbours are heard
}
mesh-clock = Clock
mesh-clock-within = It is right within { $time }.
mesh-clock-system = The system confirms it.
mesh-clock-agreed = The neighbours agree with it.
mesh-clock-open = Nobody confirms it yet.
mesh-clock-trusted = You trusted your neighbours: it was moved by { $time }.
mesh-clock-unconfirmed = Nobody confirms the clock: until then some keys are kept longer.
mesh-clock-behind = The clock is { $time } behind those of the neighbours. Set it.
mesh-clock-ahead = The clock is { $time } ahead of those of the neighbours. Set it.
mesh-other-day = { $count ->
    [one] One device of this network has
   *[other] { $count } devices of this network have
} another date: { $day }. Set the clock that is wrong.
mesh-cells = Cells
mesh-cells-live = { $count ->
    [one] one cell
   *[other] { $count } cells
} here, { $size }
mesh-cells-carried = { $count ->
    [one] one of them
   *[other] { $count } of them
} for hours, { $size }, on the disk too
mesh-bytes = Traffic
mesh-bytes-text = { $received } received, { $sent } sent
mesh-links = Interfaces
mesh-reasons = What keeps notes back
mesh-no-keys = Your card has no keys for the mesh, so nobody can write to you over it.
mesh-no-link = No network interface can be used.
mesh-nobody = No neighbour is heard.
mesh-neighbours = Neighbours
mesh-neighbours-why = Names change every few minutes and say nothing of a person.
mesh-heard = heard { $time } ago
mesh-has = { $count ->
    [one] one cell
   *[other] { $count } cells
}
mesh-gave = gave { $count }
mesh-differs = clock differs by { $time }
mesh-card = Your card for the mesh
mesh-card-why = It holds your keys for the mesh. Who scans it can write to you without internet.
mesh-card-qr = QR code of your card with the keys for the mesh
mesh-make-keys = Make keys for the mesh
mesh-compare = Keys for the mesh depend on the date. This device has { $day }, { $time }. Compare it with another clock.
mesh-compared = Date and time are right
mesh-life = How long your notes travel
mesh-life-set = It is set in config.toml:
crowd = A simulated crowd
crowd-why = People with this mesh, on this computer alone; nothing is sent. You are one of them, with this device’s clock, and write a note that lives for a minute.
crowd-moves = They
crowd-sit = sit close together
crowd-walk = walk about
crowd-scatter = walk about, far apart
crowd-celebrate = go from stage to stage
crowd-users = People
crowd-seed = Number of the crowd
crowd-do = Simulate
crowd-arrived = The note arrived after { $time }.
crowd-lost = The note did not arrive in time.
crowd-clock = Your clock was { $time } off, as your neighbours see it.
crowd-picture = Map of the crowd { $time } after the note was written: { $count ->
    [one] one device holds it
   *[other] { $count } devices hold it
}
crowd-legend = The largest dot is you, inside the range of your radio; the next is the reader. Green dots hold the note.
crowd-play = Play
crowd-pause = Pause
crowd-time = { $time } after the note was written
crowd-table = The same as numbers
crowd-after = After
crowd-holders = Devices that hold it
crowd-around = Devices around you
crowd-clocks = Clocks right within a second
