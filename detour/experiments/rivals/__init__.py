# SPDX-License-Identifier: Apache-2.0
"""SprayLERP compared with other path selection schemes on the same fabric."""

__all__ = ["page", "points"]
