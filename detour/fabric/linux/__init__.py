# SPDX-License-Identifier: Apache-2.0
"""Linux programs as hosts: network namespaces whose interface is a host's port of the fabric."""

__all__ = ["keeper"]
