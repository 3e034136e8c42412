# SPDX-License-Identifier: Apache-2.0
"""From p4c's BMv2 JSON to machine code: `Program` is what the rest of the engine uses."""
