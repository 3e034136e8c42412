# SPDX-License-Identifier: Apache-2.0
"""One switch in a process of its own, with the command line and the manners of simple_switch_grpc."""

__all__ = ["options", "pcap", "process"]
