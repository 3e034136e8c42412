# SPDX-License-Identifier: Apache-2.0
"""What a user types at p4runtime-shell's prompt. Runs in the shell's own environment: `ADDRESS P4INFO JSON`."""

import sys
import time

import p4runtime_sh.shell as sh  # pyright: ignore[reportMissingImports]
from p4runtime_sh.p4runtime import P4RuntimeWriteException  # pyright: ignore[reportMissingImports]

PATIENCE_S = 300.0


def parameter(entry, number):
    """A parameter of an entry's action, by its id."""
    params = entry.action.msg().params
    return next(int.from_bytes(p.value, "big") for p in params if p.param_id == number)


def refusal(write):
    """What the server says to a write that it refuses."""
    try:
        write()
    except P4RuntimeWriteException as error:
        return str(error)
    raise AssertionError("it was not refused")


def count(entities):
    return sum(1 for _ in entities.read())


def route(prefix, port):
    te = sh.TableEntry("lpm_route")(action="route")
    te.match["hdr.ipv6.dst_addr"] = prefix
    te.action["port"] = str(port)
    te.action["mac"] = "00:00:00:00:00:05"
    return te


def tables():
    for te in (route("fd00::/16", 3), route("fd01::/16", 4)):
        te.insert()
    te.action["port"] = "9"
    te.modify()
    assert {parameter(e, 1) for e in sh.TableEntry("lpm_route").read()} == {3, 9}
    te.delete()
    assert count(sh.TableEntry("lpm_route")) == 1
    assert "NOT_FOUND" in refusal(te.delete)
    acl = sh.TableEntry("acl")(action="drop")
    acl.match["hdr.ipv6.src_addr"] = "fd00::1&&&ffff::ffff"
    acl.match["hdr.ipv6.next_header"] = "17"
    acl.match["std.ingress_port"] = "2..9"
    acl.match["hdr.ethernet.ether_type"] = "0x86dd"
    acl.priority = 10
    acl.insert()
    assert [e.priority for e in sh.TableEntry("acl").read()] == [10]
    default = sh.TableEntry("lpm_route")(action="to_cpu", is_default=True)
    default.action["reason"] = "1"
    default.modify()


def profiles():
    member = sh.ActionProfileMember("next_hops")(member_id=1, action="set_vlan")
    member.action["vlan"] = "5"
    member.insert()
    te = sh.TableEntry("indirect")
    te.match["meta.vlan"] = "7"
    te.member_id = 1
    te.insert()
    member = sh.ActionProfileMember("ecmp")(member_id=1, action="forward")
    member.action["port"] = "2"
    member.insert()
    group = sh.ActionProfileGroup("ecmp")(group_id=1)
    group.add(member_id=1, weight=2)
    group.insert()
    assert count(sh.ActionProfileGroup("ecmp")) == 1
    te = sh.TableEntry("balanced")
    te.match["hdr.ipv6.dst_addr"] = "fd02::/16"
    te.group_id = 1
    te.insert()
    assert [e.group_id for e in sh.TableEntry("balanced").read()] == [1]


def one_shots():
    te = sh.TableEntry("balanced")
    te.match["hdr.ipv6.dst_addr"] = "fd03::/16"
    action = sh.Action("forward")
    action["port"] = "3"
    te.oneshot.add(action, weight=2)
    te.insert()
    (read,) = sh.TableEntry("balanced").read()
    assert [(a.weight, parameter(a, 1)) for a in read.oneshot.actions] == [(2, 3)]
    te.delete()  # one-shots and groups do not mix


def digests():
    digest = sh.DigestEntry("learn_t")
    digest.max_list_size = 1
    digest.insert()
    assert [d.max_list_size for d in sh.DigestEntry("learn_t").read()] == [1]


def arrays():
    counter = sh.CounterEntry("port_counter")
    counter.index = 3
    counter.packet_count, counter.byte_count = 5, 500
    counter.modify()
    assert [(c.packet_count, c.byte_count) for c in counter.read()] == [(5, 500)]
    meter = sh.MeterEntry("rate")
    meter.index = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1000, 100, 2000, 200
    meter.modify()
    assert [m.pir for m in meter.read()] == [2000]


def replication():
    group = sh.MulticastGroupEntry(1)
    group.add(1, 1).add(2, 1)
    group.insert()
    assert count(sh.MulticastGroupEntry(1)) == 1
    group.delete()
    session = sh.CloneSessionEntry(5)
    session.add(2, 1)
    session.insert()
    assert count(sh.CloneSessionEntry(5)) == 1


def packets():
    incoming = sh.PacketIn()  # listens from here on
    packet = sh.PacketOut(b"from the shell", egress_port="5", _pad="0")
    packet.send()
    end = time.monotonic() + PATIENCE_S
    while incoming.packet_in_queue.empty():  # `sniff` goes on until its time is over, however many have come
        assert time.monotonic() < end, "no packet came"
        time.sleep(0.005)
    payloads = [message.packet.payload for message in incoming.sniff(timeout=0.01)]
    assert payloads == [b"for the shell"], payloads


def main():
    address, p4info, json = sys.argv[1:]
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 1), config=sh.FwdPipeConfig(p4info, json), verbose=False)
    try:
        for step in (tables, one_shots, profiles, arrays, replication, digests, packets):
            step()
            print(step.__name__, flush=True)
    finally:
        sh.teardown()


if __name__ == "__main__":
    main()
