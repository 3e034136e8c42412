# SPDX-License-Identifier: Apache-2.0
"""Clos networks: two-level leaf-spine, three-level fat-tree (Al-Fares et al., SIGCOMM 2008), one with a plane for
every rail of GPU servers, and one of planes that meet in the NICs of hosts alone. Each raises `DetourError`: the rule
that its parameters break."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.topo.topology import Builder, Topology, check_counts, check_limits


def leaf_spine(leaves: int, spines: int, hosts: int, cables: int = 1, speed: float = 1.0) -> Topology:
    """Every leaf joined to every spine by `cables` parallel links, each `speed` times as fast as a host's; `hosts`
    hosts a leaf; one group, leaves first."""
    check_counts("leaf-spine", leaves=leaves, spines=spines, hosts=hosts, cables=cables)
    spec = f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts}" + (f",cables={cables}" if cables != 1 else "")
    spec += f",speed={speed!r}" if speed != 1 else ""
    check_limits(spec, leaves + spines, leaves * hosts, ports=max(hosts + spines * cables, leaves * cables))
    builder = Builder("leaf-spine", spec)
    for leaf in range(leaves):
        builder.add_switch(group=0, position=leaf)
        builder.add_hosts(leaf, hosts)
    for spine in range(spines):
        builder.add_switch(group=0, position=leaves + spine, tier=1)
    for leaf in range(leaves):
        for spine in range(spines):
            for cable in range(cables):
                up, down = hosts + 1 + spine * cables + cable, leaf * cables + cable + 1
                builder.connect("local", (leaf, up), (leaves + spine, down), speed)
    return builder.build(groups=1)


def fat_tree(k: int, blocking: int = 1) -> Topology:
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores. An edge switch has k/2 links up and `blocking`
    times as many hosts: blocking=4 oversubscribes 4 to 1 at the edge (k=8, blocking=4: 512 hosts). Links inside a pod
    are "local", those to the cores "global". A pod is a group, edges first; the cores form group k."""
    if k < 2 or k % 2:
        raise DetourError(f"fat-tree: k={k} is not an even number of at least 2")
    if blocking < 1:
        raise DetourError(f"fat-tree: blocking={blocking} is less than 1 (hosts per uplink of an edge switch)")
    half = k // 2
    hosts = half * blocking
    spec = f"fat-tree:k={k}" + (f",blocking={blocking}" if blocking != 1 else "")
    check_limits(spec, switches=k * k + half * half, hosts=k * half * hosts, ports=max(hosts + half, k))
    return _tiers("fat-tree", spec, pods=k, leaves=half, aggs=half, cores=half, hosts=hosts)


def three_levels(pods: int, leaves: int, aggs: int, cores: int, hosts: int) -> Topology:
    """`pods` pods of `leaves` edge switches, each with `hosts` hosts, and `aggs` aggregation switches; aggregation
    switch j of every pod is joined to the same `cores` cores. `fat_tree` is one of these."""
    given = {"pods": pods, "leaves": leaves, "aggs": aggs, "cores": cores, "hosts": hosts}
    check_counts("ft3", **given)
    spec = "ft3:" + ",".join(f"{name}={value}" for name, value in given.items())
    ports = max(hosts + aggs, leaves + cores, pods)
    check_limits(spec, pods * (leaves + aggs) + aggs * cores, pods * leaves * hosts, ports)
    return _tiers("ft3", spec, **given)


def _tiers(kind: str, spec: str, *, pods: int, leaves: int, aggs: int, cores: int, hosts: int) -> Topology:
    builder = Builder(kind, spec)
    of_pod = leaves + aggs
    for pod in range(pods):
        for i in range(of_pod):
            switch = builder.add_switch(group=pod, position=i, tier=int(i >= leaves))
            builder.add_hosts(switch, hosts if i < leaves else 0)
    for core in range(aggs * cores):
        builder.add_switch(group=pods, position=core, tier=2)
    for pod in range(pods):
        first = pod * of_pod
        for edge in range(leaves):
            for up in range(aggs):
                builder.connect("local", (first + edge, hosts + 1 + up), (first + leaves + up, edge + 1))
        for up in range(aggs):
            for i in range(cores):
                core = pods * of_pod + up * cores + i
                builder.connect("global", (first + leaves + up, leaves + 1 + i), (core, pod + 1))
    return builder.build(groups=pods)


def rail_clos(pods: int, rails: int, servers: int, spines: int, cores: int = 1) -> Topology:
    """Rail-optimised and multi-plane: `servers` servers a pod have a NIC for each of `rails` rails, and a host here is
    such a NIC. The NICs of a rail and a pod share a leaf; the leaves of a rail share a plane of `spines` spines. Planes
    meet in `cores` cores, of which each is joined to one spine of every plane.

    Inside a rail a packet passes at most three switches, between rails five. All are one group; leaves come first, pod
    by pod, so the NIC of rail r of server s of pod p is host (p * rails + r) * servers + s."""
    given = {"pods": pods, "rails": rails, "servers": servers, "spines": spines, "cores": cores}
    check_counts("rail-clos", **given)
    spec = "rail-clos:" + ",".join(f"{name}={value}" for name, value in given.items())
    leaves, above = pods * rails, rails * spines
    ports = max(servers + spines, pods + -(-cores // spines), rails)
    check_limits(spec, leaves + above + cores, leaves * servers, ports)
    builder = Builder("rail-clos", spec)
    for index in range(leaves + above + cores):
        builder.add_switch(group=0, position=index, tier=(index >= leaves) + (index >= leaves + above))
        builder.add_hosts(index, servers if index < leaves else 0)
    for leaf in range(leaves):
        pod, rail = divmod(leaf, rails)
        for spine in range(spines):
            builder.connect("local", (leaf, servers + 1 + spine), (leaves + rail * spines + spine, pod + 1))
    for core in range(cores):
        turn, spine = divmod(core, spines)
        for rail in range(rails):
            up = leaves + rail * spines + spine
            builder.connect("local", (up, pods + 1 + turn), (leaves + above + core, rail + 1))
    return builder.build(groups=1)


def clos(planes: int, leaves: int, spines: int, hosts: int, rails: int = 1) -> Topology:
    """`planes` leaf-spine networks side by side, each of `leaves` leaves with `hosts` hosts, and `spines` spines; every
    host has a NIC with a port in each plane.

    A NIC is a switch with a single host: what enters it leaves by the port that the first uSID, or a hash of the source
    port, says. The host's link is `planes` times as fast as a port and takes no time. NICs come first, so NIC i is
    switch i; its port p + 2 leads to plane p. With `rails`, servers have so many NICs: NIC r of server s is host
    s * rails + r, and the NICs of a rail have leaves of their own. One group."""
    given = {"planes": planes, "leaves": leaves, "spines": spines, "hosts": hosts, "rails": rails}
    check_counts("clos", **given)
    if leaves % rails:
        raise DetourError(f"clos: leaves={leaves} of a plane cannot be divided among rails={rails}")
    spec = "clos:" + ",".join(f"{name}={value}" for name, value in given.items() if (name, value) != ("rails", 1))
    nics, of_plane = leaves * hosts, leaves + spines
    ports = max(planes + 1, hosts + spines, leaves)
    check_limits(spec, nics + planes * of_plane, nics, ports)
    builder = Builder("clos", spec)
    for index in range(nics + planes * of_plane):
        builder.add_switch(group=0, position=index, tier=_tier_in_plane(index - nics, leaves, of_plane))
        builder.add_hosts(index, int(index < nics), terms=[(float(planes), 0)])
    for plane in range(planes):
        first = nics + plane * of_plane
        for nic in range(nics):
            server, rail = divmod(nic, rails)
            block, place = divmod(server, hosts)
            builder.connect("local", (nic, plane + 2), (first + block * rails + rail, place + 1))
        for leaf in range(leaves):
            for spine in range(spines):
                builder.connect("local", (first + leaf, hosts + 1 + spine), (first + leaves + spine, leaf + 1))
    return builder.build(groups=1, nics=nics)


def _tier_in_plane(index: int, leaves: int, of_plane: int) -> int:
    """Return a switch's tier from its number behind the NICs, which are below 0."""
    return 0 if index < 0 else 1 + (index % of_plane >= leaves)
