# SPDX-License-Identifier: Apache-2.0
"""Command: prints the program of a seed."""

import sys

from tests.differential.random_programs import Program

if __name__ == "__main__":
    sys.stdout.write(Program(int(sys.argv[1]) if sys.argv[1:] else 1).text)
