# SPDX-License-Identifier: Apache-2.0
"""Hosts for programs that know nothing of uSID: IPv4 and IPv6, ARP and ND, ICMP, UDP and TCP (docs/hosts.md)."""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["addressing", "arrival_process", "connections", "hosts", "sockets", "stack", "tcp"]
