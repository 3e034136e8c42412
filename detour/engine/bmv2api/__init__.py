# SPDX-License-Identifier: Apache-2.0
"""BMv2's runtime API: as an object on a switch of the engine (`runtime`), over Thrift (`server`, `client`), and the
command language of simple_switch_CLI on top of either (`commands`)."""

__all__ = ["client", "commands", "device", "interface", "runtime", "server", "types", "wire"]
