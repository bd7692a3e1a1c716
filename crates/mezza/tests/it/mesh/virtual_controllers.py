"""Virtual Bluetooth controllers of Bumble (PyPI), each behind a TCP port, in range of each other.

usage: virtual_controllers.py watch|peer PORT..

Lines of JSON on standard output. `watch`: each advertisement that was not seen before, with its address.
`peer`: a device of Bumble's own host shows itself under the greatest name and tells each SDU that comes on
its L2CAP channel; the first one is sent back with its name put in.
"""

import asyncio
import json
import sys

from bumble import core, hci, l2cap
from bumble.controller import Controller
from bumble.device import Device
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport import open_transport
from bumble.transport.common import AsyncPipeSink

SERVICE = 0xFFF7
PSM = 0x00F7
GREATEST = b"\xff" * 6


def say(**words):
    print(json.dumps(words), flush=True)


async def device(link, address):
    controller = Controller("own", link=link)
    own = Device(address=hci.Address(address), host=Host(controller, AsyncPipeSink(controller)))
    await own.power_on()
    return own


def service_data(advertisement):
    for data in advertisement.data.get_all(core.AdvertisingData.SERVICE_DATA_16_BIT_UUID):
        uuid, rest = data
        if uuid == core.UUID.from_16_bits(SERVICE):
            return rest
    return None


async def watch(link):
    own, seen = await device(link, "F0:F1:F2:F3:F4:F5"), set()

    def heard(advertisement):
        data = service_data(advertisement)
        if data is not None and (advertisement.address, data) not in seen:
            seen.add((advertisement.address, data))
            say(address=str(advertisement.address), data=data.hex())

    own.on("advertisement", heard)
    await own.start_scanning(active=False, filter_duplicates=False)


async def peer(link):
    own, net = await device(link, "F0:F1:F2:F3:F4:F6"), asyncio.Event()

    def connected(channel):
        told = []

        def hear(sdu):
            say(sdu=sdu.hex())
            if not told:
                told.append(True)
                channel.write(sdu[:5] + GREATEST + sdu[11:])

        channel.sink = hear
        say(connected=True)

    def heard(advertisement):
        data = service_data(advertisement)
        if data is not None and not net.is_set():
            own.net = data[:4]
            net.set()

    own.create_l2cap_server(l2cap.LeCreditBasedChannelSpec(psm=PSM, mtu=4160, mps=1024), connected)
    own.on("advertisement", heard)
    await own.start_scanning(active=False, filter_duplicates=False)
    await net.wait()
    await own.stop_scanning()
    data = SERVICE.to_bytes(2, "little") + own.net + GREATEST + PSM.to_bytes(2, "big")
    shown = core.AdvertisingData([(core.AdvertisingData.SERVICE_DATA_16_BIT_UUID, data)])
    await own.start_advertising(advertising_data=bytes(shown), auto_restart=True)


async def main():
    mode, ports, link = sys.argv[1], sys.argv[2:], LocalLink()
    kept = []
    for port in ports:
        transport = await open_transport(f"tcp-server:127.0.0.1:{port}")
        kept.append(Controller(port, host_source=transport.source, host_sink=transport.sink, link=link))
    say(ready=True)
    await {"watch": watch, "peer": peer}[mode](link)
    await asyncio.get_running_loop().create_future()


asyncio.run(main())
