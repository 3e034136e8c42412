# SPDX-License-Identifier: Apache-2.0
"""The one error that a user may see: a sentence that names what was wrong, where, and what would be right."""


class DetourError(Exception):
    """Wrong input or a missing part. The CLI prints its text on one line and exits with 2."""
