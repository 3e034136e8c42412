# SPDX-License-Identifier: Apache-2.0
"""`python -m detour.cli`."""

import sys

from detour.cli import main

sys.exit(main())
