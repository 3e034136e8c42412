# SPDX-License-Identifier: Apache-2.0
"""h1 and h2 are inside, behind port 1 and 2 of the firewall s1; h3 is outside. p4-utils runs this script as well."""

from p4utils.mininetlib.network_API import NetworkAPI  # pyright: ignore[reportMissingImports]

net = NetworkAPI()
net.addP4Switch("s1", cli_input="s1-commands.txt")
net.setP4SourceAll("firewall.p4")
for name in ("h1", "h2", "h3"):
    net.addHost(name)
    net.addLink(name, "s1")
net.setBwAll(100)
net.l3()
net.startNetwork()
