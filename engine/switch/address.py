# SPDX-License-Identifier: Apache-2.0
"""Where P4Runtime is served.

BMv2 serves all interfaces by default, and harnesses ask for that by name (`0.0.0.0:50051`) though their
controllers run on the same machine. Without client certificates anybody who can reach the port could program the
switch, so such an address is narrowed to loopback, which is said; any other foreign address is refused.
"""

from __future__ import annotations

from detour.engine.switch.options import SwitchOptions

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]", "*": "127.0.0.1"}


def narrowed(options: SwitchOptions) -> tuple[str, str]:
    """The address to serve, and what to say about it (empty: it is the one that was asked for)."""
    host, _, port = options.address.rpartition(":")
    certified = options.tls is not None and options.tls.require_client and options.tls.ca is not None
    if host not in _LOOPBACK or certified:
        return options.address, ""
    address = f"{_LOOPBACK[host]}:{port}"
    notice = f"P4Runtime is served on {address} only: {options.address} needs TLS with client certificates"
    return address, notice
