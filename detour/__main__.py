# SPDX-License-Identifier: Apache-2.0
"""`python -m detour`."""

import sys

from detour.cli import main

sys.exit(main())
