# SPDX-License-Identifier: Apache-2.0
"""SprayLERP beside other ways to choose paths, on the same fabric."""

__all__ = ["page", "points"]
