# SPDX-License-Identifier: Apache-2.0
"""A host's identity: MAC, addresses, gateways and neighbours; addresses as the two words of native code."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from detour.base.errors import DetourError
from detour.hosts.addresses import to_text, to_words

_MAPPED = 0xFFFF << 32
_LONGEST_MTU = 9_000


@dataclass(frozen=True)
class IpHostConfig:
    """A host. Addresses are texts with their prefix's length (`10.0.1.1/24`, `2001:db8::1/64`), "" for none; gateways
    too, without length. `neighbours`: MACs of addresses on the link that are not asked for."""

    name: str
    mac: str
    ipv4: str = ""
    gateway4: str = ""
    ipv6: str = ""
    gateway6: str = ""
    neighbours: Mapping[str, str] = field(default_factory=dict[str, str])
    ttl: int = 64
    mtu: int = 1500


def mac_number(text: str) -> int:
    """A MAC as a number. Raises DetourError if it is none."""
    parts = text.replace("-", ":").split(":")
    try:
        octets = [int(part, 16) for part in parts]
    except ValueError:
        octets = []
    if len(octets) != 6 or not all(0 <= octet <= 255 for octet in octets):
        raise DetourError(f"{text!r} is not a MAC address, like 08:00:00:00:01:11")
    return int.from_bytes(bytes(octets), "big")


def mac_text(number: int) -> str:
    """The MAC of a number."""
    return number.to_bytes(6, "big").hex(":")


def words(text: str) -> tuple[int, int]:
    """An IPv4 or IPv6 address as `hi` and `lo` (`layout`). Raises DetourError if it is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise DetourError(f"{text!r} is not an IPv4 or IPv6 address") from None
    if address.version == 4:
        return 0, _MAPPED | int(address)
    return to_words(text)


def text_of(hi: int, lo: int) -> str:
    """The address of two words."""
    return to_text(hi, lo) if is_v6(hi, lo) else str(ipaddress.IPv4Address(lo & 0xFFFFFFFF))


def is_v6(hi: int, lo: int) -> bool:
    """Return whether two words are an IPv6 address."""
    return not (hi == 0 and lo >> 32 == 0xFFFF)


def fields_of(config: IpHostConfig) -> dict[str, int]:
    """Return the fields of a host's row. Raises DetourError, with the host's name, if something in `config` is
    wrong."""
    try:
        return _fields_of(config)
    except DetourError as error:
        raise DetourError(f"host {config.name}: {error}") from None


def _fields_of(config: IpHostConfig) -> dict[str, int]:
    if not 1 <= config.ttl <= 255:
        raise DetourError(f"a TTL of {config.ttl}; expected 1 to 255")
    if not 576 <= config.mtu <= _LONGEST_MTU:
        raise DetourError(f"an MTU of {config.mtu}; expected 576 to {_LONGEST_MTU}")
    mac = mac_number(config.mac)
    fields = {"mac": mac, "ttl": config.ttl, "mtu": config.mtu}
    if config.ipv4:
        address, length = _interface(config.ipv4, 4)
        mask = ((1 << length) - 1) << (32 - length)
        fields |= {"v4_lo": _MAPPED | address, "v4_mask": mask, "v4_gateway": _gateway(config.gateway4, 4)[1]}
    if config.ipv6:
        address, length = _interface(config.ipv6, 6)
        mask = ((1 << length) - 1) << (128 - length)
        octets = mac.to_bytes(6, "big")
        link_local = b"\xfe\x80" + bytes(6) + bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
        fields["v6_hi"], fields["v6_lo"] = to_words(address)
        fields["v6_mask_hi"], fields["v6_mask_lo"] = to_words(mask)
        fields["v6_gateway_hi"], fields["v6_gateway_lo"] = _gateway(config.gateway6, 6)
        fields["ll_hi"], fields["ll_lo"] = to_words(int.from_bytes(link_local, "big"))
    if not config.ipv4 and not config.ipv6:
        raise DetourError("neither an IPv4 nor an IPv6 address")
    return fields


def _interface(text: str, version: int) -> tuple[int, int]:
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        raise DetourError(f"{text!r} is not an address with a prefix, like 10.0.1.1/24 or 2001:db8::1/64") from None
    if interface.version != version:
        raise DetourError(f"{text} is not an IPv{version} address")
    return int(interface.ip), interface.network.prefixlen


def _gateway(text: str, version: int) -> tuple[int, int]:
    if not text:
        return 0, 0
    gateway = words(text)
    if is_v6(*gateway) != (version == 6):
        raise DetourError(f"the gateway {text} is not an IPv{version} address")
    return gateway
