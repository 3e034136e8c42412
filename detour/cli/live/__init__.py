# SPDX-License-Identifier: Apache-2.0
"""`detour watch` on a terminal: what links and flows do, as it changes."""
