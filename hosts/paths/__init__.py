# SPDX-License-Identifier: Apache-2.0
"""Probing and choice of paths by the sender."""
