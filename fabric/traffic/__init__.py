# SPDX-License-Identifier: Apache-2.0
"""Messages between hosts: flows, exchanges, open-loop load, and links that fail meanwhile."""
